"""Rows count once, whatever their files are called; a file that changes is not read on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two files of rows, a copy of the first one, and a model."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((300, 2))
    np.savetxt("a.csv", rows, delimiter=",")
    np.savetxt("b.csv", rows + 1, delimiter=",")
    Path("copy-of-a.csv").write_bytes(Path("a.csv").read_bytes())
    mm.Mixture.diagonal([1.0], np.zeros((1, 2)), np.ones((1, 2))).save("model.json")
    return tmp_path


COUNTING = {
    "summarize": ["summarize", "a.csv", "b.csv", "copy-of-a.csv", "-o", "out.mms"],
    "fit": ["fit", "a.csv", "b.csv", "copy-of-a.csv", "-r", "1", "-o", "out.json"],
}


@pytest.mark.parametrize("command", COUNTING)
def test_a_copy_is_refused(folder, momentmix, command):
    done = momentmix(*COUNTING[command])
    message = "copy-of-a.csv holds the same rows as an input before it"
    assert (done.code, message in done.err) == (1, True), done
    assert not list(Path().glob("out.*"))


# -- one table in several forms ---------------------------------------------------------------


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    """A table, and one of the same rows in another order."""
    folder = tmp_path_factory.mktemp("routes")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((300, 3)).round(5), columns=list("xyz"))
    frame["g"], frame["h"] = rng.choice(["p", "q"], 300), rng.choice(["s", "t", "u"], 300)
    frame.to_csv(folder / "a.csv", index=False)
    frame[::-1].to_csv(folder / "other.csv", index=False)
    return folder


def test_rows_of_one_table_count_once(routes, tmp_path):
    (tmp_path / "copy.csv").write_bytes((routes / "a.csv").read_bytes())
    frame = pd.read_csv(routes / "a.csv")[["x", "y"]]
    first, again, *frames = (
        mm.summarize(table, 2, columns=["x", "y"])
        for table in (routes / "a.csv", tmp_path / "copy.csv", frame, frame.copy())
    )
    other = mm.summarize(routes / "other.csv", 2, columns=["x", "y"])
    for left, right in ((first, again), frames, (first + other, again)):
        for one, two in ((left, right), (right, mm.MomentSummary.from_bytes(left.to_bytes()))):
            with pytest.raises(mm.errors.ShardError, match="would count twice"):
                one + two
    assert (frames[0] + other).n_rows == 600
