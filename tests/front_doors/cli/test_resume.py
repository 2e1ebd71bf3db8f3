"""A killed pass goes on to the same bytes; a stopped one says so."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import momentmix as mm

TESTS = str(Path(__file__).parents[2])
# The command, with an action at the n-th call to the operating system of a save: a signal, or 0 to
# wait for a line of standard input.
COMMAND = """
import os, sys
from campaigns.fault_systems import Counted, install
from momentmix.cli import main

def act():
    if number:
        os.kill(os.getpid(), number)
    else:
        print("waiting", flush=True)
        sys.stdin.readline()

at, number = int(sys.argv[1]), int(sys.argv[2])
install(Counted(at, act))
main(sys.argv[3:])
"""


def summarize(output, *more):
    return [
        "summarize", "data", "-o", output, "--checkpoint", "state", "--every", "0",
        "--part-rows", "300", "-m", "3", "--threads", "1", "--missing", "drop", *more,
    ]  # fmt: skip


def start(at, number, output, *more):
    """The command in a process of its own."""
    path = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(at), str(number), *summarize(output, *more)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, momentmix):
    """Files of two kinds, and their summary without interruptions or checkpoints."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for name, n_rows in (("a.npy", 3_530), ("c.npy", 2_101)):
        np.save(f"data/{name}", rng.standard_normal((n_rows, 6)))
    rows = rng.standard_normal((1_345, 6)).tolist()
    rows[1000][2] = float("nan")
    text = "\n".join(",".join(map(repr, row)) for row in rows)
    (tmp_path / "data" / "b.csv").write_text(text)
    plain = summarize("whole.mms")
    at = plain.index("--checkpoint")
    assert momentmix(*plain[:at], *plain[at + 2 :]).code == 0
    return tmp_path


def test_interrupted_passes_resume_to_the_same_bytes(folder):
    """A pass is killed or stopped by a signal, at any call of its saves, again and again."""
    stops = {signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}
    for at, (number, code) in zip((50, 70, 90), stops.items(), strict=True):
        run = start(at, int(number), "out.mms")
        said = run.communicate()[1]
        assert run.returncode == code, said
        assert "Traceback" not in said
        assert not os.path.exists("out.mms")
    first = start(10, 0, "out.mms", "--json")
    assert first.stdout.readline() == "waiting\n"
    second = start(10, 0, "other.mms")
    said = second.communicate()[1]
    assert (second.returncode, "another process is writing state" in said) == (73, True), said
    out, err = first.communicate("go on\n")
    assert first.returncode == 0, err
    assert json.loads(out)["resumed_at_row"] > 0
    assert Path("out.mms").read_bytes() == Path("whole.mms").read_bytes()
    found = [name for name in sorted(os.listdir()) if not name.endswith(".tmp")]  # of killed ones
    assert found == ["data", "out.mms", "whole.mms"]
    summary = mm.MomentSummary.load("out.mms")
    assert summary.n_rows == 3_530 + 2_101 + 1_344
    assert len(summary.shard_ids) == 12 + 8 + 5


@pytest.fixture
def half_done(tmp_path, monkeypatch, momentmix):
    """A checkpoint after the first of two files: the second one is bad."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).standard_normal((50, 2)))
    np.save("b.npy", np.full((5, 2), np.nan))
    options = ["-o", "out.mms", "--checkpoint", "state", "--every", "0"]
    assert momentmix("summarize", "a.npy", "b.npy", *options).code == 65
    assert os.path.exists("state")
    return options


def test_a_checkpoint_of_other_input_shows_both_fingerprints(half_done, momentmix):
    np.save("b.npy", np.ones((5, 2)))
    done = momentmix("summarize", "a.npy", "b.npy", *half_done)
    assert done.code == 65
    assert re.search(r"fingerprint (\w+) there, (?!\1)\w+ here", done.err)
    assert "of 'b.npy'" in done.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--missing", "drop"], "missing: 'error' there, 'drop' here"),
        (["--columns", "1"], "columns: [0, 1] there, [1] here"),
        (["-m", "1"], "was made with order=2, this run has order=1"),
        (["--squared-order", "0"], "squared_order=None"),
    ],
)
def test_a_checkpoint_with_other_settings_is_refused(half_done, momentmix, change, message):
    done = momentmix("summarize", "a.npy", "b.npy", *half_done, *change)
    assert (done.code, message in done.err) == (65, True), done


def test_a_damaged_checkpoint_is_refused(half_done, momentmix):
    state = Path("state")
    for contents, message in (
        (state.read_bytes()[:-5] + b"x", "state is damaged"),
        (b"hello", "not a momentmix checkpoint"),
        (b"momentmix checkpoint 1\n", "an earlier version of momentmix"),
    ):
        state.write_bytes(contents)
        done = momentmix("summarize", "a.npy", "b.npy", *half_done)
        assert (done.code, message in done.err) == (65, True), done


def test_standard_input_that_is_piped_again(folder, momentmix, interrupted):
    rows = (folder / "data" / "b.csv").read_bytes()
    options = ["--checkpoint", "state", "--every", "0", "--part-rows", "300", "--missing", "drop"]
    assert momentmix("summarize", "-", "-o", "all.mms", *options, stdin=rows).code == 0
    interrupted(4, "summarize", "-", "-o", "x.mms", *options, stdin=rows)
    assert not os.path.exists("x.mms")
    done = momentmix("summarize", "-", "-o", "x.mms", *options, stdin=rows + b"1,2,3,4,5,6\n")
    assert (done.code, "state belongs to another input" in done.err) == (65, True), done
    done = momentmix("summarize", "-", "-o", "x.mms", *options, "--json", stdin=rows)
    assert (done.code, json.loads(done.out)["resumed_at_row"]) == (0, 1200)
    assert Path("x.mms").read_bytes() == Path("all.mms").read_bytes()
