"""Where results may go: never over an input, with the permissions there were, and known before."""

import os
import stat
import subprocess
import sys
import textwrap
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.cli.summarizing.checkpoint import lock_path

COMMAND = f"'{sys.executable}' -c 'from momentmix.cli import main; main()'"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Data, a summary and a model, in a folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((60, 2))
    Path("data").mkdir()
    for name in ("io.csv", "io-2.csv"):
        np.savetxt(f"data/{name}", rows + len(name), delimiter=",")
    np.save("rows.npy", rows)
    mm.summarize(rows, order=2).save("one.mms")
    mm.summarize(rows + 1, order=2).save("two.mms")
    mm.DiagonalMixture([1.0], np.zeros((1, 2)), np.ones((1, 2))).save("model.json")
    os.symlink("data/io.csv", "symlink.csv")
    os.link("data/io.csv", "hardlink.csv")
    os.link("data/io.csv", "hardlink.png")
    return tmp_path


def contents():
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


WAYS = ["data/io*.csv", "data", "data/../data/io.csv", "symlink.csv", "**/io.csv"]
READERS = {
    "summarize": ["summarize", "{}", "-o"],
    "checkpoint": ["summarize", "{}", "-o", "new.mms", "--checkpoint"],
    "fit": ["fit", "{}", "-r", "1", "-o"],
    "forget": ["forget", "one.mms", "{}", "-o"],
    "predict": ["predict", "model.json", "{}", "-o"],
    "score": ["score", "model.json", "{}", "--rows", "-o"],
    "report": ["report", "model.json", "--data", "{}", "-o"],
    "plot": ["plot", "model.json", "{}", "-o"],
}


OUTPUTS = ["data/io.csv", "hardlink.csv", "symlink.csv"]


@pytest.mark.parametrize("command", READERS)
def test_no_output_replaces_an_input(folder, momentmix, command):
    force = [] if command == "checkpoint" else ["--force"]
    before = contents()
    first = list(READERS).index(command)
    for way, output in zip(WAYS, islice(cycle(OUTPUTS), first, first + len(WAYS)), strict=True):
        output = "hardlink.png" if command == "plot" else output
        done = momentmix(*[x.format(way) for x in READERS[command]], output, *force)
        assert (done.code, f"{output} is an input as well" in done.err) == (73, True), done
        assert contents() == before


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["merge", "one.mms", "two.mms"], "./data/../two.mms"),
        (["subtract", "one.mms", "two.mms"], "./data/../two.mms"),
        (["forget", "one.mms", "rows.npy"], "one.mms"),
        (["score", "model.json", "rows.npy", "--rows"], "model.json"),
        (["fit", "one.mms", "two.mms", "-r", "1"], "two.mms"),
        (["sample", "model.json", "-n", "5"], "model.json"),
        (["predict", "model.json", "rows.npy"], "model.json"),
        (["report", "model.json", "--data", "one.mms", "--data", "two.mms"], "two.mms"),
    ],
)
def test_summaries_and_models_are_inputs_too(folder, momentmix, arguments, output):
    before = contents()
    done = momentmix(*arguments, "-o", output, "--force")
    assert (done.code, "is an input as well" in done.err) == (73, True), done
    assert contents() == before


# -- permissions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["summarize", "rows.npy"], "x.mms"),
        (["merge", "one.mms", "two.mms"], "x.mms"),
        (["fit", "rows.npy", "-r", "1"], "x.json"),
        (["predict", "model.json", "rows.npy"], "x.csv"),
        (["predict", "model.json", "rows.npy"], "x.parquet"),
        (["report", "model.json"], "x.html"),
        (["plot", "model.json", "--kind", "means"], "x.png"),
    ],
)
def test_a_replaced_file_keeps_its_permissions(folder, momentmix, arguments, output):
    Path(output).write_bytes(b"old")
    os.chmod(output, 0o640)
    done = momentmix(*arguments, "-o", output, "--force")
    assert done.code == 0, done
    assert Path(output).read_bytes() != b"old"
    assert stat.S_IMODE(os.stat(output).st_mode) == 0o640


# -- the lock of a checkpoint -----------------------------------------------------------------


def test_an_unrelated_lock_file_is_left_alone(folder, momentmix):
    for text in (b"", b"of another program"):
        Path("proj.lock").write_bytes(text)
        before = os.stat("proj.lock")
        done = momentmix("summarize", "data", "-o", "x.mms", "--checkpoint", "proj", "--force")
        assert done.code == 0, done
        assert os.stat("proj.lock") == before
        assert Path("proj.lock").read_bytes() == text
    assert not Path("proj").exists()
    assert not [name for name in os.listdir() if "momentmix" in name]


def test_a_file_in_the_place_of_the_lock_is_left_alone(folder, momentmix):
    lock = lock_path(Path("proj"))
    for make in (lambda: lock.write_bytes(b"data"), lambda: lock.symlink_to("rows.npy")):
        make()
        before = contents()
        done = momentmix("summarize", "data", "-o", "x.mms", "--checkpoint", "proj")
        assert (done.code, str(lock) in done.err) == (73, True), done
        assert contents() == before
        lock.unlink()
    lock.touch()  # left by a process that was killed
    assert momentmix("summarize", "data", "-o", "x.mms", "--checkpoint", "proj").code == 0
    assert not lock.exists()


# -- long names -------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["a", "😀"])
def test_long_names_that_the_system_takes_are_written(folder, momentmix, letter):
    name = letter * (250 // len(letter.encode()))
    for arguments in (
        ["summarize", "data", "-o", "x.mms", "--checkpoint", name, "--every", "0"],
        ["summarize", "data", "-o", f"{name}.mms"],
        ["fit", "rows.npy", "-r", "1", "-o", f"{name}.csv"],
        ["predict", "model.json", "rows.npy", "-o", f"{name}.csv", "--force"],
    ):
        done = momentmix(*arguments)
        assert done.code == 0, done
    assert mm.MomentSummary.load(f"{name}.mms").n_rows == 120


@pytest.mark.parametrize("option", ["-o", "--checkpoint"])
def test_names_that_are_too_long_are_found_before_any_work(folder, momentmix, option):
    Path("bad.csv").write_text("a,b\n1,text\n")  # which would be another error
    more = [] if option == "-o" else ["-o", "x.mms"]
    done = momentmix("summarize", "bad.csv", option, "ä" * 128, *more)
    assert (done.code, "File name too long" in done.err) == (73, True), done


# -- standard streams -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("summarize - -o x.mms <&-", 66, "standard input is closed; give a file"),
        ("predict model.json data >&-", 73, "standard output is closed; send it to a file"),
        ("summarize data -o x.mms <&- 2>&-", 0, ""),
        ("summarize nowhere -o x.mms 2>&-", 66, ""),
        ("summarize - -o data/io.csv --force < data/io.csv", 73, "is an input as well"),
        ("predict model.json data >> data/io.csv", 73, "is an input as well"),
    ],
)
def test_standard_streams_that_are_closed_or_an_input(folder, line, code, message):
    before = contents()
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {line}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, message in done.stderr) == (code, True), done
    if code:
        assert contents() == before
    else:
        assert mm.MomentSummary.load("x.mms").n_rows == 120


@pytest.mark.parametrize(
    ("name", "code", "again"), [("SIGTERM", 143, True), ("SIGINT", 130, False)]
)
def test_a_signal_while_an_object_is_finalized_is_not_lost(name, code, again):
    """Python ignores what is raised there; the command must stop all the same.

    On a busy machine the repeated signal may come while the first one is being dealt with.
    """
    script = f"""
        import os, signal, threading
        from momentmix.cli import app

        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
        start, times = threading.Timer.start, [{again}]

        def interrupted(self):
            if times.pop() if times else False:
                os.kill(os.getpid(), signal.{name})
                sum(range(1000))
            start(self)

        threading.Timer.start = interrupted

        class Late:
            def __del__(self):
                os.kill(os.getpid(), signal.{name})
                sum(range(1000))  # the handler is called here

        def run(*arguments, **options):
            Late()
            while True:
                signal.pause()

        app.cli.main = run
        app.main([])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == code, done
    assert done.stderr in ("momentmix: terminated\n", "momentmix: interrupted\n")


def test_secrets_of_addresses_are_in_no_output(tmp_path, monkeypatch, momentmix):
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    text = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3))).to_csv(index=False)
    fsspec.filesystem("memory").pipe("/box/x.csv?sig=5ecret", text.encode())
    address = "memory://box/x.csv?sig=5ecret"
    said = [
        momentmix("summarize", address, "-o", "x.mms", "--checkpoint", "state", "--json"),
        momentmix("fit", address, "-r", "2", "-o", "m.json", "--json"),
        momentmix("report", "m.json", "--data", address, "-o", "r.html", "--json"),
        momentmix("predict", "m.json", address, "-o", "labels.csv"),
        momentmix("info", "m.json"),
        momentmix("fit", "https://alice:hunter2@127.0.0.1:1/x.csv?sig=5ecret", "-o", "n.json"),
        momentmix("predict", "https://alice:hunter2@h.org/m.json?sig=5ecret", "x.csv"),
        momentmix("info", "https://alice:hunter2@h.org/m.json?sig=5ecret"),
    ]
    assert [run.code in (0, 4) for run in said] == [True] * 5 + [False] * 3
    printed = "".join(run.out + run.err for run in said).encode()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"memory://box/x.csv" in files
    for secret in (b"5ecret", b"hunter2", b"alice"):
        assert secret not in printed
        assert secret not in files


def test_text_that_a_spreadsheet_would_compute(tmp_path, monkeypatch, momentmix):
    """Levels and names of a model, and keys of a cube; numbers, and what is piped, stay."""
    monkeypatch.chdir(tmp_path)
    levels = ["=cmd()", "@a", "-5", "+b", "c"]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"-x": rng.normal(size=400), "y": rng.normal(size=400)})
    frame["k"] = rng.choice(levels, 400)
    model = mm.fit(frame, 1, families={"k": "categorical"}, random_state=0)
    model.mixture.save("m.json")
    assert momentmix("sample", "m.json", "-n", "300", "-o", "x.csv").code == 0
    found = pd.read_csv("x.csv", dtype={"k": str})
    assert list(found) == ["'-x", "y", "k"]
    assert set(found["k"]) == {"'=cmd()", "'@a", "-5", "'+b", "c"}
    assert (found["y"] < 0).any()
    piped = momentmix("sample", "m.json", "-n", "300").out
    assert ",=cmd()\n" in piped
    assert piped.startswith("-x,")
    numbers = mm.fit(frame[["-x", "y"]], 1, random_state=0)
    numbers.mixture.save("n.json")
    assert momentmix("sample", "n.json", "-n", "9", "-o", "n.csv").code == 0
    assert Path("n.csv").read_text().startswith("'-x,y\n")
    mm.summarize_by(frame, by="k").save("cube.parquet")
    assert momentmix("track", "n.json", "cube.parquet", "-o", "t.csv").code == 0
    assert set(pd.read_csv("t.csv", dtype=str)["k"]) == {"'=cmd()", "'@a", "-5", "'+b", "c"}
