"""A killed pass goes on to the same bytes; a stopped one says so."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from campaigns import resuming
from campaigns.forks import Forks

import momentmix as mm
from momentmix.cli.summarizing.checkpoint import Checkpoint, Fingerprint

COMMAND = [sys.executable, "-c", "from momentmix.cli import main; main()"]
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def summarize(output, state, *more):
    return [
        *COMMAND, "summarize", "data", "-o", output, "--checkpoint", state, "--every", "0",
        "--part-rows", "300", "-m", "3", "--threads", "1", "--missing", "drop", *more,
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, momentmix):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for name, n_rows in (("a.npy", 7_530), ("c.npy", 5_101)):
        np.save(f"data/{name}", rng.standard_normal((n_rows, 6)))
    rows = rng.standard_normal((3_345, 6)).tolist()
    rows[1000][2] = float("nan")
    text = "\n".join(",".join(map(repr, row)) for row in rows)
    (tmp_path / "data" / "b.csv").write_text(text)
    assert momentmix(*summarize("whole.mms", "none")[len(COMMAND) :]).code == 0
    assert not os.path.exists("none")
    return tmp_path


@pytest.fixture(scope="module")
def forks():
    with Forks(*resuming.MODULES) as one:
        yield one


def test_interrupted_passes_resume_to_the_same_bytes(forks):
    """The first of three hundred: killed at any place or system call, or stopped by a signal."""
    counts = resuming.resumes(0, 5, seed=0, forks=forks)
    assert counts["resumed passes"] == 5
    assert counts["kills"] >= 5
    assert counts["stops by a signal"] >= 3


def test_a_second_writer_is_refused_while_the_first_is_at_work(forks):
    assert resuming.resumes(19, 20, seed=0, forks=forks)["second writers refused"] == 1


@pytest.mark.parametrize(
    ("fault", "cases", "message"),
    [
        # Killed before its first write it leaves an empty file.
        ("write in place", (0, 5), r"case \d: .*(is damaged|is not a momentmix checkpoint)"),
        ("a row late", (0, 5), r"case \d: (other bytes|.*not those that were summed)"),
        ("no lock", (19, 20), r"case 19: exit code 0: other\.mms"),
    ],
)
def test_negative_control_a_careless_pass_is_noticed(forks, fault, cases, message):
    with pytest.raises(AssertionError, match=message):
        resuming.resumes(*cases, seed=0, fault=fault, forks=forks)


def test_the_bytes_do_not_depend_on_checkpoints_and_hold_every_row(folder):
    plain = summarize("plain.mms", "unused")
    at = plain.index("--checkpoint")
    del plain[at : at + 2]
    subprocess.run(plain, check=True, capture_output=True, env=ENVIRONMENT)
    with open("plain.mms", "rb") as one, open("whole.mms", "rb") as other:
        assert one.read() == other.read()
    summary = mm.MomentSummary.load("whole.mms")
    assert summary.n_rows == 7_530 + 5_101 + 3_344
    assert len(summary.shard_ids) == 26 + 12 + 18


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_leave_a_valid_checkpoint(forks, tmp_path, number, code):
    """A signal from another process, while the eightieth call of the save path waits for it."""
    a_pass = resuming.Pass(forks, tmp_path)
    held = {"holds": True, "action": "hold", "call": 80}
    (stopped,) = forks.run(a_pass.job("out.mms", "state", **held, signalled=number))
    assert (stopped.held, stopped.code) == (True, code), stopped
    assert "Traceback" not in stopped.text
    assert not (tmp_path / "out.mms").exists()
    assert Checkpoint.load(tmp_path / "state").summary
    (done,) = forks.run(a_pass.job("out.mms", "state", more=["--json"]))
    assert done.code == 0, done
    assert json.loads(done.text)["resumed_at_row"] > 0
    assert (tmp_path / "out.mms").read_bytes() == a_pass.whole
    assert sorted(os.listdir(tmp_path)) == ["data", "out.mms", "whole"]


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
    there = Checkpoint.load(Path("state")).fingerprint.digest
    np.save("b.npy", np.ones((5, 2)))
    done = momentmix("summarize", "a.npy", "b.npy", *half_done)
    here = Fingerprint.of(mm.open_rows(["a.npy", "b.npy"])).digest
    assert done.code == 65
    assert f"fingerprint {there} there, {here} here" in done.err
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
    with open("state", "r+b") as file:
        file.seek(-5, 2)
        file.write(b"x")
    done = momentmix("summarize", "a.npy", "b.npy", *half_done)
    assert (done.code, "state is damaged" in done.err) == (65, True)
    with open("state", "wb") as file:
        file.write(b"hello")
    done = momentmix("summarize", "a.npy", "b.npy", *half_done)
    assert (done.code, "not a momentmix checkpoint" in done.err) == (65, True)
    with open("state", "wb") as file:
        file.write(b"momentmix checkpoint 1\n")
    done = momentmix("summarize", "a.npy", "b.npy", *half_done)
    assert (done.code, "an earlier version of momentmix" in done.err) == (65, True)


def test_a_finished_checkpoint_with_its_output_is_done(folder):
    """Killed after the output was written and before the checkpoint was removed."""
    done = subprocess.run(
        [sys.executable, "-c",
         "import pathlib, os; pathlib.Path.unlink = lambda *a, **k: os._exit(9);"
         "from momentmix.cli import main; main()", *summarize("out.mms", "state")[3:]],
        capture_output=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 9
    assert os.path.exists("out.mms")
    assert os.path.exists("state")
    subprocess.run(summarize("out.mms", "state"), check=True, capture_output=True, env=ENVIRONMENT)
    assert not os.path.exists("state")


def test_standard_input_that_is_piped_again(folder, momentmix, monkeypatch):
    rows = (folder / "data" / "b.csv").read_bytes()
    options = ["--checkpoint", "state", "--every", "0", "--part-rows", "300", "--missing", "drop"]
    assert momentmix("summarize", "-", "-o", "all.mms", *options, stdin=rows).code == 0
    save, places = Checkpoint.save, []

    def stop(self, path):
        save(self, path)
        places.append(self.row)
        if len(places) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stop)
        momentmix("summarize", "-", "-o", "x.mms", *options, stdin=rows)
    assert (places, os.path.exists("x.mms")) == ([300, 600, 900, 1200], False)
    done = momentmix("summarize", "-", "-o", "x.mms", *options, stdin=rows + b"1,2,3,4,5,6\n")
    assert (done.code, "state belongs to another input" in done.err) == (65, True), done
    done = momentmix("summarize", "-", "-o", "x.mms", *options, "--json", stdin=rows)
    assert (done.code, json.loads(done.out)["resumed_at_row"]) == (0, 1200)
    assert Path("x.mms").read_bytes() == Path("all.mms").read_bytes()
