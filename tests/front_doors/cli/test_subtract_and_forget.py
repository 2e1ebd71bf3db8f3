"""`subtract` and `forget`: summaries without some of their rows."""

import json
import os

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def folder(tmp_path, monkeypatch, momentmix):
    """Three parts with a summary each, and the summary of all."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((900, 4))
    for i, part in enumerate(np.split(rows, 3)):
        pd.DataFrame(part, columns=NAMES).to_csv(f"{i}.csv", index=False)
        assert momentmix("summarize", f"{i}.csv", "-o", f"{i}.mms").code == 0
    assert momentmix("merge", "0.mms", "1.mms", "2.mms", "-o", "all.mms").code == 0
    return rows


def test_subtracting_gives_the_bytes_of_the_rest_but_for_bounds(folder, momentmix):
    done = momentmix("subtract", "all.mms", "2.mms", "0.mms", "-o", "rest.mms", "--json")
    assert json.loads(done.out) == {
        "output": "rest.mms", "n_rows": 300, "n_features": 4, "order": 4, "n_shards": 1,
    }  # fmt: skip
    assert mm.MomentSummary.load("rest.mms") == mm.MomentSummary.load("1.mms")
    done = momentmix("subtract", "all.mms", "1.mms", "-o", "rest.mms", "--force")
    assert done.out.startswith("rest.mms: MomentSummary(600 rows, 4 columns, order 4")
    both = mm.MomentSummary.load("0.mms") + mm.MomentSummary.load("2.mms")
    assert mm.MomentSummary.load("rest.mms") == both


def test_what_was_never_added_is_refused(folder, momentmix):
    pd.DataFrame(folder[:9], columns=NAMES).to_csv("other.csv", index=False)
    momentmix("summarize", "other.csv", "-o", "other.mms")
    done = momentmix("subtract", "all.mms", "0.mms", "other.mms", "-o", "x.mms")
    assert done.code == 65
    assert "momentmix: other.mms: shard" in done.err
    assert "not in the summary to subtract from" in done.err
    assert "use `momentmix forget`" in done.err
    assert not os.path.exists("x.mms")


def test_other_orders_need_truncate(folder, momentmix):
    momentmix("summarize", "0.csv", "-o", "low.mms", "-m", "3")
    done = momentmix("subtract", "all.mms", "low.mms", "-o", "x.mms")
    assert (done.code, "Or pass --truncate." in done.err) == (65, True)
    done = momentmix("subtract", "all.mms", "low.mms", "-o", "x.mms", "--truncate")
    assert done.code == 0, done.err
    assert mm.MomentSummary.load("x.mms").n_rows == 600


def assert_close(found, expected):
    assert found.n_rows == expected.n_rows
    for name in ("distinct", "squared"):
        left, right = (getattr(s.moments(0.0, 1.0), name) for s in (found, expected))
        for order in range(len(right)):
            np.testing.assert_allclose(left[order], right[order], rtol=1e-9, atol=1e-11)


def test_forgetting_rows_block_by_block(folder, momentmix):
    """As if the rows had never been seen, up to rounding."""
    frame = pd.DataFrame(folder[100:350], columns=NAMES)[NAMES[::-1]].assign(name="x")
    frame.to_parquet("gone.parquet", row_group_size=64)
    done = momentmix("forget", "all.mms", "gone.parquet", "-o", "rest.mms", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["n_forgotten"] == 250
    rest = mm.MomentSummary.load("rest.mms")
    assert_close(rest, mm.summarize(np.delete(folder, np.s_[100:350], axis=0), order=4))
    assert not rest.exact_bounds


def test_forgetting_rows_of_a_table_with_families_and_missing_cells(folder, momentmix):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(folder[:, :2], columns=["a", "b"])
    frame["visits"], frame["plan"] = rng.poisson(3.0, 900), rng.integers(0, 3, 900)
    frame.loc[::7, "a"] = np.nan
    frame.to_csv("table.csv", index=False)
    frame[:100][["plan", "b", "a", "visits"]].to_csv("gone.csv", index=False)
    families = {"visits": "poisson", "plan": "categorical"}
    asked = ",".join(f"{name}={family}" for name, family in families.items())
    arguments = ("--families", asked, "--missing", "model", "-o", "t.mms")
    assert momentmix("summarize", "table.csv", *arguments).code == 0
    done = momentmix("forget", "t.mms", "gone.csv", "-o", "rest.mms")
    assert done.code == 0, done.err
    found = mm.MomentSummary.load("rest.mms")
    expected = mm.MomentSummary(6, 4, schema=found.schema).update(frame[100:])
    assert_close(found, expected)


BAD = {
    "outside": ("a,b,c,d\n0,0,0,0\n0,99,0,0\n", "bad.csv, rows from line 2 on: rows to forget"),
    "missing": ("a,b,c,d\n0,0,0,0\n0,,0,0\n", "line 3, column 'b', is missing"),
    "no rows": ("a,b,c,d\n", "bad.csv holds no rows"),
    "other names": ("a,b,c,e\n0,0,0,0\n", "has no column 'd'"),
    "text": ("a,b,c,d\n0,x,0,0\n", "bad.csv, line 2, column 'b' holds 'x'"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_cannot_be_forgotten(folder, momentmix, case):
    contents, message = BAD[case]
    with open("bad.csv", "w") as file:
        file.write(contents)
    done = momentmix("forget", "all.mms", "bad.csv", "-o", "x.mms")
    assert (done.code, message in done.err) == (65, True), done
    assert not os.path.exists("x.mms")


def test_equal_files_are_not_forgotten_twice(folder, momentmix):
    pd.read_csv("0.csv").to_csv("copy.csv", index=False)
    done = momentmix("forget", "all.mms", "0.csv", "copy.csv", "-o", "x.mms")
    assert (done.code, "would count twice" in done.err) == (65, True), done
