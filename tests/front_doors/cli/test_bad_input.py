"""Bad inputs of the command: message and exit code; what readers refuse is in tests of tables."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix.cli import main

COMMAND = [sys.executable, "-c", "from momentmix.cli import main; main()"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with good data, a summary and a model; the test runs in it."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((400, 3))
    table = pa.table({name: rows[:, i] for i, name in enumerate("abc")})
    pa.parquet.write_table(table, "good.parquet")
    np.save("good.npy", rows)
    mm.summarize(rows, order=3, feature_names=["a", "b", "c"]).save("good.mms")
    mm.Mixture.diagonal([1.0], np.zeros((1, 3)), np.ones((1, 3)), ("a", "b", "c")).save("good.json")
    (tmp_path / "folder").mkdir()
    text("ab.csv", "a,b\n1,2\n")
    text("ac.csv", "a,c\n1,2\n")
    text("header.csv", "a,b\n")
    return tmp_path


def text(name, contents):
    with open(name, "wb") as file:
        file.write(contents if isinstance(contents, bytes) else contents.encode())
    return name


def write(contents):
    """Write a file of the kind that the contents are of; give its name."""
    if isinstance(contents, dict):
        pa.parquet.write_table(pa.table(contents), "bad.parquet")
        return "bad.parquet"
    if isinstance(contents, np.ndarray):
        np.save("bad.npy", contents)
        return "bad.npy"
    return contents() if callable(contents) else text("bad.csv", contents)


def cell(value):
    """A CSV file with a wrong cell in its line 7."""
    lines = [["1", "2", "3.5"] for _ in range(8)]
    lines[5][1] = value
    return "a,b,c\n" + "".join(",".join(line) + "\n" for line in lines)


def with_value(value):
    rows = np.random.default_rng(0).standard_normal((60, 3))
    rows[7, 1] = value
    return rows


BAD_FILES = {
    "NaN": (with_value(np.nan), "row 7, column 1, is missing or NaN. Say why"),
    "a text among numbers": (cell("x"), "line 7"),
    "ragged": ("a,b\n1,2\n3\n", "bad.csv, line 3 has 1 field(s)"),
    "decimal commas": ("a;b\n1,5;2,5\n", "(--decimal ,)"),
    "missing": ({"a": [1.0, 2.0], "b": [None, 1.0]}, "missing"),
    "nested": ({"x": [[1.0]], "y": [1.0]}, "'x' (list<"),
    "model": (lambda: "good.json", "momentmix reads .npy"),
}
COMMANDS = {
    "summarize": ["summarize", "{}", "-o", "out.mms"],
    "predict": ["predict", "good.json", "{}", "-o", "out.csv"],
}


def contents():
    return {p.name: p.read_bytes() for p in Path().iterdir() if p.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_files_are_1_and_leave_no_output(folder, momentmix, command):
    for case, (made, message) in BAD_FILES.items():
        file = write(made)
        before = contents()
        done = momentmix(*[x.format(file) for x in COMMANDS[command]])
        # A model of three features may complain of other columns first.
        other = "must have the 3 columns of" in done.err or "no column" in done.err
        said = message in done.err or (other and command == "predict")
        assert (done.code, said) == (1, True), (case, done)
        assert done.err.startswith("Error: ")
        assert len(done.err) < 2000
        assert contents() == before


OTHER = [
    (["summarize", "nowhere.csv", "-o", "x.mms"], 1, "nowhere.csv does not exist"),
    (["summarize", "header.csv", "-o", "x.mms"], 1, "header.csv holds no rows"),
    (["summarize", "ab.csv", "ac.csv", "-o", "x.mms"], 1, "'b' is missing and 'c' is not among"),
    (["summarize", "good.npy", "-o", "no/such/x.mms"], 1, "No such file or directory"),
    (["summarize", "good.npy", "-o", "/proc/x.mms"], 1, "cannot write /proc"),
    (["summarize", "good.npy", "-o", "x.csv"], 2, "--output must end in .mms; got 'x.csv'"),
    (["summarize", "good.npy", "-o", "x.mms", "-m", "4"], 1, "got order=4. Use order=3 or less"),
    (["summarize", "good.npy"], 2, "Missing option"),
    (["summarize", "-o", "x.mms"], 2, "Missing argument"),
    (["summarize", "good.npy", "-", "-o", "x.mms"], 2, "cannot be combined"),
    (["summarize", "good.npy", "-o", "x.mms", "--delimiter", ";;"], 1, "one ASCII character"),
    (["predict", "good.json", "good.npy", "--decimal", ","], 1, "must differ"),
    (["summarize", "good.parquet", "-o", "x.mms", "--columns", "z"], 1, "no column 'z'"),
    (["summarize", "ab.csv", "--by", "a", "-o", "x.mms"], 2, "must end in .parquet"),
    (["summarize", "ab.csv", "--min-rows", "5", "-o", "x.mms"], 2, "--min-rows goes with --by"),
    (["summarize", "-", "--by", "a", "-o", "x.parquet"], 2, "--by needs files"),
    (["summarize", "ab.csv", "--by", "nope", "-o", "x.parquet"], 1, "group by named 'nope'"),
    (["summarize", "https://x.org/a.csv", "-o", "x.mms"], 1, "is an address; reading it needs"),
    (["merge", "file:///x/all.mms", "-o", "x.mms"], 1, "all.mms does not exist"),
    (["predict", "https://x.org/m.json", "good.npy"], 1, "m.json does not exist"),
    (["fit", "nowhere.mms", "-r", "2"], 1, "nowhere.mms does not exist"),
    (["fit", "good.npy", "-r", "0"], 2, "expected a number from 1, 'auto' or 'bic'"),
    (["fit", "good.npy", "-r", "2.5"], 2, "expected a number from 1, 'auto' or 'bic'"),
    (["fit", "good.npy", "good.mms", "-r", "1"], 2, "not both"),
    (["fit", "good.mms", "-r", "9"], 1, "identifies at most"),
    (["fit", "good.mms", "-r", "2", "--missing", "drop"], 1, "missing= (--missing) is for rows"),
    (["fit", "good.mms", "-r", "2", "--delimiter", ";"], 1, "(--delimiter) is for tables"),
    (["fit", "good.parquet", "--blocks", "a,b;;c"], 2, "as in 'length,width;x,y'; got 'a,b;;c'"),
    (["fit", "good.parquet", "-r", "2", "--blocks", "a,z"], 1, "'z'; there are"),
    (["fit", "good.parquet", "--families", "a"], 2, "as in 'income=log"),
    (["merge", "nowhere.mms", "-o", "x.mms"], 1, "nowhere.mms does not exist"),
    (["merge", "good.mms", "good.mms", "-o", "x.mms"], 1, "good.mms: shard"),
    (["merge", "good.json", "-o", "x.mms"], 1, "perhaps a model"),
    (["merge", "good.mms", "--minus", "good.npy", "-o", "x.mms"], 1, "not a momentmix summary"),
    (["merge", "good.mms", "--where", "region=EU", "-o", "x.mms"], 1, "good.mms is no cube"),
    (["predict", "good.mms", "good.npy"], 1, "summaries have to be fitted first"),
    (["predict", "good.json", "good.npy", "--json"], 2, "give a file to --output"),
    (["predict", "good.json", "good.parquet", "--keep", "id"], 1, "no column 'id'; there are 'a'"),
    (["info", "nowhere.mms"], 1, "nowhere.mms does not exist"),
    (["info", "folder"], 1, "folder is not a regular file"),
    (["compare", "good.mms"], 2, "nothing to compare good.mms with; give a second file"),
    (["compare", "good.mms", "good.json"], 1, "good.json has no known ending"),
    (["compare", "good.mms", "ab.csv"], 1, "'c'"),
    (["track", "good.json", "good.parquet"], 1, "is no cube; make one with `momentmix summarize"),
    (["reproduce", "nonsense"], 2, "nonsense"),
    (["reproduce", "decomposition", "--rows", "99,3"], 2, "this table has 15,3"),
    (["reproduce", "gaussian", "--rows", "1e3"], 2, "a number of rows from 1e4 on"),
    (["nonsense"], 2, "No such command"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), OTHER, ids=lambda x: str(x)[:40])
def test_exit_codes_and_messages(folder, momentmix, monkeypatch, arguments, code, message):
    monkeypatch.setitem(sys.modules, "fsspec", None)  # with it, addresses are tried
    before = {name: os.stat(name).st_mtime_ns for name in os.listdir()}
    done = momentmix(*arguments)
    assert (done.code, message in done.err) == (code, True), done
    assert "Traceback" not in done.err
    assert {name: os.stat(name).st_mtime_ns for name in os.listdir()} == before


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def test_a_bug_is_told_and_a_traceback_needs_debug(folder, momentmix, monkeypatch):
    monkeypatch.setattr(mm.MomentSummary, "update", raising(ZeroDivisionError("oops")))
    done = momentmix("summarize", "good.npy", "-o", "x.mms")
    assert done.code == 1
    assert "ZeroDivisionError: oops. This is a bug; run `momentmix --debug`" in done.err
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "summarize", "good.npy", "-o", "x.mms"])


UPDATE, READ_MAGIC = "momentmix.MomentSummary.update", "numpy.lib.format.read_magic"
NO_MEMORY = {
    "array": (UPDATE, lambda *_, **__: np.empty((1 << 40, 1 << 10))),  # of NumPy's own kind
    "while a file is read": (READ_MAGIC, raising(MemoryError())),
}


@pytest.mark.parametrize("case", NO_MEMORY)
def test_a_lack_of_memory_is_no_bug_and_no_fault_of_the_file(folder, momentmix, monkeypatch, case):
    monkeypatch.setattr(*NO_MEMORY[case])
    done = momentmix("summarize", "good.npy", "-o", "x.mms")
    assert done.code == 1
    assert done.err.startswith("Error: not enough memory (")
    assert "Use a lower --order" in done.err
    assert "bug" not in done.err
    assert "header" not in done.err
    assert not os.path.exists("x.mms")


def test_disk_full_keeps_the_old_file(folder):
    text("out.mms", b"old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    command = [*COMMAND[:2], limit + COMMAND[2], "summarize", "good.npy", "-o", "out.mms"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    with open("out.mms", "rb") as file:
        assert file.read() == b"old"
    assert not [name for name in os.listdir() if name.endswith(".tmp")]


def test_a_closed_pipe_is_quiet(folder):
    command = shlex.join(COMMAND)
    np.save("long.npy", np.zeros((100_000, 3)))
    line = f"{command} predict good.json long.npy | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["label", "1"]


SLOW_TO_LOAD = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "dask", "tqdm"}


def test_help_loads_nothing_that_is_slow_to_load():
    code = (
        "import atexit, sys; from momentmix.cli import main\n"
        "atexit.register(lambda: print(*sys.modules)); main(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exit codes" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "momentmix.cli.app" in loaded
    assert not loaded & SLOW_TO_LOAD
