"""Every line of the list of bad inputs that the command can meet: message and exit code."""

import errno
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
    mm.DiagonalMixture([1.0], np.zeros((1, 3)), np.ones((1, 3)), ("a", "b", "c")).save("good.json")
    (tmp_path / "folder").mkdir()
    text("ab.csv", "a,b\n1,2\n")
    text("ac.csv", "a,c\n1,2\n")
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


def with_value(value, dtype=float):
    rows = np.random.default_rng(0).standard_normal((60, 3)).astype(dtype)
    rows[7, 1] = value
    return rows


def truncated(name):
    data = Path(name).read_bytes()
    return text("cut." + name.rpartition(".")[2], data[: len(data) // 2])


WORDS = ("x", "1.2.3", "1e", "0x1F", "1_000", "--1", "1 2", "true", "€", "1e400")
MISSING = ("", "NA", "nan", "NaN", "null", "inf", "-inf", "Infinity")
BAD_FILES = {
    "NaN": (with_value(np.nan), "row 7, column 1, is missing or NaN. Say why"),
    "NaN float32": (with_value(np.nan, np.float32), "missing or NaN"),
    "infinite": (with_value(-np.inf), "row 7, column 1 is -inf"),
    "inf float16": (with_value(np.inf, np.float16), "is inf"),
    "1e308": (with_value(1e308), "column 1 is 1e+308"),
    "no rows": (np.zeros((0, 3)), "no rows"),
    "no columns": (np.zeros((3, 0)), "at least one"),
    "1-D": (np.zeros(3), "1 dimension(s)"),
    "3-D": (np.zeros((3, 3, 3)), "3 dimension(s)"),
    "complex": (np.zeros((3, 3), complex), "complex128"),
    "text": (np.array([["a"]]), "must hold real numbers"),
    "times": (np.zeros((3, 3), "M8[D]"), "real numbers"),
    "records": (np.zeros(3, [("a", float)]), "real numbers"),
    "objects": (np.array([[{}]], dtype=object), "never unpickles"),
    "cut NPY": (lambda: truncated("good.npy"), "is truncated: shape (400, 3)"),
    "NPY bomb": (
        lambda: text("x.npy", b"\x93NUMPY\x02\0\xff\xff\xff\xff{}\n"),
        "header, expected 4294967295 bytes",
    ),
    **{f"CSV {value!r}": (cell(value), "line 7") for value in WORDS + MISSING},
    "header only": ("a,b\n", "no rows"),
    "ragged short": ("a,b\n1,2\n3\n", "bad.csv, line 3 has 1 field(s)"),
    "ragged long": ("a,b\n1,2\n3,4,5\n", "line 3"),
    "header again": ("a,b\n1,2\na,b\n", "line 3 repeats the header"),
    "decimal commas": ("a;b\n1,5;2,5\n", "--decimal ,"),
    "thousands": ('a,b\n"17,405",2\n', "--thousands ,"),
    "same names": ("a,b,a\n1,2,3\n", "repeated: 'a' (columns 0, 2)"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "bad UTF-8": (b"a,b\n1,\xff\xfe2\n", "line 2"),
    "NUL": (b"a,b\n1,\x002\n", "binary"),
    "open quote": ('a,b\n1,"2\n3,4\n', "a quote opens in line 2"),
    "empty": ("", "is empty"),
    "missing": ({"a": [1.0, 2.0], "b": [None, 1.0]}, "missing"),
    "Parquet NaN": ({"a": [1.0, 2.0], "b": [float("nan"), 1.0]}, "missing or NaN"),
    "levels": (
        {"x": [f"a{i % 60}" for i in range(600)], "y": [1.0, 2.0] * 300},
        "text with 60 different levels",
    ),
    "nested": ({"x": [[1.0]], "y": [1.0]}, "'x' (list<"),
    "struct": ({"x": [{"a": 1}], "y": [1.0]}, "'x' (struct<"),
    "decimal": ({"x": pa.array([1], pa.decimal128(5))}, "'x' (decimal128"),
    "null column": ({"x": pa.nulls(2)}, "'x' (null)"),
    "time": ({"x": pa.array([0], pa.timestamp("s"))}, "left out: dates"),
    "Parquet without rows": ({"x": pa.array([], pa.float64())}, "no rows"),
    "cut Parquet": (lambda: truncated("good.parquet"), "truncated, damaged"),
    "empty Parquet": (lambda: text("x.parquet", ""), "is empty"),
    "unknown": (lambda: text("x.docx", ""), "momentmix reads .npy"),
    "model": (lambda: "good.json", "momentmix reads .npy"),
}
COMMANDS = {
    "summarize": ["summarize", "{}", "-o", "out.mms"],
    "predict": ["predict", "good.json", "{}", "-o", "out.csv"],
}


def contents():
    return {p.name: p.read_bytes() for p in Path().iterdir() if p.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_files_are_65_and_leave_no_output(folder, momentmix, command):
    uses_model = command == "predict"
    for case, (made, message) in BAD_FILES.items():
        if uses_model and message == "no rows":
            continue  # no rows, no labels
        file = write(made)
        before = contents()
        done = momentmix(*[x.format(file) for x in COMMANDS[command]])
        said = message in done.err or (message == "no rows" and "at least one row" in done.err)
        # A model of three features may complain of other columns first.
        other = uses_model and ("must have the 3 columns of" in done.err or "no column" in done.err)
        assert (done.code, said or other) == (65, True), (case, done)
        assert done.err.startswith("momentmix: ")
        assert len(done.err) < 2000
        assert contents() == before


OTHER = [
    (["summarize", "nowhere.csv", "-o", "x.mms"], 66, "nowhere.csv does not exist"),
    (["summarize", "*.feather", "-o", "x.mms"], 66, "no file matches"),
    (["summarize", "folder", "-o", "x.mms"], 66, "folder without data files"),
    (["summarize", "ab.csv", "ac.csv", "-o", "x.mms"], 65, "lacks 'b' and ac.csv also has 'c'"),
    (["fit", "nowhere.mms", "-r", "2", "-o", "m.json"], 66, "nowhere.mms does not exist"),
    (["merge", "nowhere.mms", "-o", "x.mms"], 66, "nowhere.mms does not exist"),
    (["summarize", "good.npy", "-o", "good.mms"], 73, "good.mms exists; pass --force"),
    (["summarize", "good.npy", "-o", "folder"], 73, "folder is a directory"),
    (["summarize", "good.npy", "-o", "no/such/x.mms"], 73, "is not a directory"),
    (["summarize", "good.npy", "-o", "/proc/x.mms"], 73, "cannot write in /proc"),
    (["summarize", "good.npy", "-o", "x.mms", "--checkpoint", "/proc/c"], 73, "cannot write"),
    (["fit", "good.npy", "-r", "1", "-o", "good.json"], 73, "good.json exists"),
    (["summarize", "good.npy", "-o", "x.mms", "-m", "4"], 65, "Use at most --order 3"),
    (["summarize", "good.npy"], 2, "Missing option"),
    (["summarize", "-o", "x.mms"], 2, "Missing argument"),
    (["summarize", "good.npy", "-", "-o", "x.mms"], 2, "cannot be combined"),
    (["summarize", "good.npy", "-o", "-"], 2, "binary file"),
    (["summarize", "good.npy", "-o", "x.mms", "--delimiter", ";;"], 2, "one character"),
    (["summarize", "good.npy", "-o", "x.mms", "--decimal", ","], 2, "must differ"),
    (["summarize", "good.npy", "-o", "x.mms", "--delimiter", "€"], 2, "an ASCII character"),
    (["summarize", "-", "-o", "x.mms", "--decimal", "٫"], 2, "an ASCII character"),
    (["predict", "good.json", "good.npy", "--thousands", "."], 2, "must differ"),
    (["score", "good.json", "good.npy", "--thousands", "x"], 2, "must not be a digit"),
    (["fit", "good.npy", "-r", "1", "-o", "m.json", "--delimiter", '"'], 2, "not be a quote"),
    (["summarize", "https://x.org/a.csv", "-o", "x.mms"], 66, "is an address; reading it needs"),
    (["summarize", "s3://x/*.parquet", "-o", "x.mms"], 66, "is an address"),
    (["fit", "gs://x/all.mms", "-r", "1", "-o", "m.json"], 66, "is an address"),
    (["merge", "file:///x/all.mms", "-o", "x.mms"], 66, "without file://"),
    (["predict", "https://x.org/m.json", "good.npy"], 66, "is an address"),
    (["summarize", "good.parquet", "-o", "x.mms", "--columns", "z"], 65, "no column 'z'"),
    (["fit", "good.npy", "-r", "0", "-o", "m.json"], 2, "expected at least 1; got 0"),
    (["fit", "good.npy", "-r", "2.5", "-o", "m.json"], 2, "expected a number, 'auto' or 'bic'"),
    (["fit", "good.npy", "good.mms", "-r", "1", "-o", "m.json"], 2, "not both"),
    (["fit", "good.npy", "-r", "500", "-o", "m.json"], 65, "500"),
    (["fit", "good.mms", "-r", "9", "-o", "m.json"], 2, "identifies at most"),
    (["fit", "good.mms", "-r", "1", "-o", "-"], 2, "give a file"),
    (["merge", "good.mms", "good.mms", "-o", "x.mms"], 65, "would count twice"),
    (["merge", "good.json", "-o", "x.mms"], 65, "perhaps a model"),
    (["merge", "good.npy", "-o", "x.mms"], 65, "not a momentmix summary"),
    (["merge", "folder", "-o", "x.mms"], 65, "not a regular file"),
    (["predict", "good.mms", "good.npy"], 65, "but a moment summary"),
    (["predict", "folder", "good.npy"], 65, "not a regular file"),
    (["predict", "good.json", "good.npy", "--columns", "0,1"], 65, "columns of the model; got 2"),
    (["predict", "good.json", "good.npy", "--json"], 2, "give a file to --output"),
    (["sample", "good.json", "-n", "0"], 2, "0 is not in the range"),
    (["plot", "good.json", "-o", "x.doc"], 2, "must end in .png"),
    (["plot", "good.json", "-o", "x.png", "--kind", "residuals"], 2, "needs data files or"),
    (["plot", "good.json", "-o", "x.png", "--kind", "choice"], 2, "needs data files or summaries"),
    (["plot", "good.json", "-o", "x.png", "-r", "3"], 2, "--n-components goes with --kind choice"),
    (["info", "nowhere.mms"], 66, "nowhere.mms does not exist"),
    (["info", "folder"], 65, "folder is a folder; give one file"),
    (["info", "-"], 2, "standard input has no name"),
    (["subtract", "good.mms", "nowhere.mms", "-o", "x.mms"], 66, "nowhere.mms does not exist"),
    (["subtract", "good.mms", "-o", "x.mms"], 2, "Missing argument"),
    (["subtract", "good.mms", "good.npy", "-o", "x.mms"], 65, "not a momentmix summary"),
    (["forget", "good.mms", "nowhere.csv", "-o", "x.mms"], 66, "nowhere.csv does not exist"),
    (["forget", "good.mms", "good.npy", "--columns", "0", "-o", "x"], 65, "3 columns of the summ"),
    (["forget", "good.mms", "good.npy", "-o", "x.mms"], 65, "cannot be forgotten and leave"),
    (["predict", "good.json", "good.npy", "--digits", "-1"], 2, "-1 is not in the range"),
    (["predict", "good.json", "good.parquet", "--keep", "id"], 65, "no column 'id'; there are 'a'"),
    (["predict", "good.json", "good.parquet", "--keep", "a,a"], 65, "columns must be different"),
    (["score", "good.json", "good.npy", "-o", "x.csv"], 2, "--output goes with --rows"),
    (["score", "good.json", "good.npy", "--keep", "0"], 2, "--keep goes with --rows"),
    (["score", "good.json", "good.npy", "--rows", "--json"], 2, "give a file to --output"),
    (["score", "good.json", "good.npy", "--quantile", "1"], 2, "1.0 is not in the range"),
    (["score", "good.json", "good.npy", "--threshold", "nan"], 2, "must be a number; got nan"),
    (["score", "good.json", "good.npy", "--quantile", ".1", "--threshold", "-3"], 2, "pass one of"),
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


def test_a_model_does_not_take_the_first_of_two_columns(folder, momentmix):
    text("x.csv", "a,b,c\n" + "".join(f"{i},{i * i},{i % 3}\n" for i in range(9)))
    text("y.csv", "a,b,c,b\n1,2,3,4\n")
    assert momentmix("fit", "x.csv", "-r", "1", "-o", "m.json", "-q").code == 0
    for command in (["predict", "m.json", "y.csv"], ["score", "m.json", "y.csv"],
                    ["report", "m.json", "--data", "y.csv", "-o", "r.html"],
                    ["plot", "m.json", "y.csv", "-o", "p.svg"]):  # fmt: skip
        done = momentmix(*command)
        assert (done.code, "repeated: 'b' (columns 1, 3)" in done.err) == (65, True), done
    assert momentmix("predict", "m.json", "y.csv", "--columns", "0,1,2").code == 0
    assert momentmix("predict", "m.json", "y.csv", "--columns", "1,3,2").code == 65


READ = {
    "thousands": ('a,b\n"17,405",2\n"1,000",4\n', [9202.5, 3]),
    "byte order mark": ("\ufeffa,b\n1,2\n3,5\n", [2, 3.5]),
    "line ends": ("a,b\r\n1,2\r\n3,4\r\n", [2, 3]),
    "old line ends": ("a,b\r1,2\r3,4\r5,9\r", [3, 5]),
}


@pytest.mark.parametrize("case", READ)
def test_odd_text_is_read(folder, momentmix, case):
    contents, means = READ[case]
    arguments = ("--thousands", ",", "-o", "x.mms", "--force")
    for file in (text("x.csv", contents), "-"):
        done = momentmix("summarize", file, *arguments, stdin=contents.encode())
        assert done.code == 0, done
        summary = mm.MomentSummary.load("x.mms")
        assert (summary.feature_names, summary.mean.tolist()) == (("a", "b"), means)


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


def test_a_bug_is_70_and_a_traceback_needs_debug(folder, momentmix, monkeypatch):
    monkeypatch.setattr(mm.MomentSummary, "update", raising(ZeroDivisionError("oops")))
    done = momentmix("summarize", "good.npy", "-o", "x.mms")
    assert done.code == 70
    assert "ZeroDivisionError: oops. This is a bug; run again with --debug" in done.err
    with pytest.raises(ZeroDivisionError):
        main(["summarize", "good.npy", "-o", "x.mms", "--debug"])


UPDATE, READ_MAGIC = "momentmix.MomentSummary.update", "numpy.lib.format.read_magic"
NO_MEMORY = {
    "array": (UPDATE, lambda *_, **__: np.empty((1 << 40, 1 << 10))),  # of NumPy's own kind
    "bare": (UPDATE, raising(MemoryError())),
    "Arrow": (UPDATE, raising(pa.ArrowMemoryError("malloc of size 64 failed"))),
    "mapping": (UPDATE, raising(OSError(errno.ENOMEM, "Cannot allocate memory"))),
    "library": (UPDATE, raising(ImportError("libx.so: failed to map segment from shared object"))),
    "thread": (UPDATE, raising(RuntimeError("can't start new thread"))),
    "while a file is read": (READ_MAGIC, raising(MemoryError())),
}


@pytest.mark.parametrize("case", NO_MEMORY)
def test_a_lack_of_memory_is_no_bug_and_no_fault_of_the_file(folder, momentmix, monkeypatch, case):
    monkeypatch.setattr(*NO_MEMORY[case])
    done = momentmix("summarize", "good.npy", "-o", "x.mms")
    assert done.code == 74
    assert done.err.startswith("momentmix: not enough memory (")
    assert "Use a lower --order" in done.err
    assert "bug" not in done.err
    assert "header" not in done.err
    assert not os.path.exists("x.mms")


def test_disk_full_keeps_the_old_file(folder):
    text("out.mms", b"old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    command = [
        *COMMAND[:2],
        limit + COMMAND[2],
        "summarize",
        "good.npy",
        "-o",
        "out.mms",
        "--force",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 74
    assert "File too large" in done.stderr
    with open("out.mms", "rb") as file:
        assert file.read() == b"old"
    assert not [name for name in os.listdir() if name.endswith(".tmp")]


def test_a_closed_pipe_is_quiet(folder):
    command = shlex.join(COMMAND)
    line = f"{command} sample good.json -n 100000 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["a,b,c", "141"]


SLOW_TO_LOAD = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "numba", "dask"}


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
