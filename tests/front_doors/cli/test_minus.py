"""`merge --minus`: summaries without some of their rows."""

import json
import os

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

NAMES = ["a", "b", "c", "d"]


def minus(*files):
    return [word for file in files for word in ("--minus", file)]


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
    done = momentmix("merge", "all.mms", *minus("2.mms", "0.mms"), "-o", "rest.mms", "--json")
    assert json.loads(done.out) == {
        "output": "rest.mms", "n_rows": 300, "n_features": 4, "order": 4, "n_shards": 1,
    }  # fmt: skip
    assert mm.MomentSummary.load("rest.mms") == mm.MomentSummary.load("1.mms")
    done = momentmix("merge", "all.mms", *minus("1.mms"), "-o", "rest.mms", "--force")
    assert done.out.startswith("rest.mms: MomentSummary(600 rows, 4 columns, order 4")
    both = mm.MomentSummary.load("0.mms") + mm.MomentSummary.load("2.mms")
    assert mm.MomentSummary.load("rest.mms") == both


def test_what_was_never_added_is_refused(folder, momentmix):
    pd.DataFrame(folder[:9], columns=NAMES).to_csv("other.csv", index=False)
    momentmix("summarize", "other.csv", "-o", "other.mms")
    done = momentmix("merge", "all.mms", *minus("0.mms", "other.mms"), "-o", "x.mms")
    assert done.code == 1
    assert "momentmix: other.mms: shard" in done.err
    assert "not in the summary to subtract from" in done.err
    assert not os.path.exists("x.mms")


def test_other_orders_need_truncate(folder, momentmix):
    mm.MomentSummary.load("0.mms").truncate(3).save("low.mms")
    done = momentmix("merge", "all.mms", *minus("low.mms"), "-o", "x.mms")
    assert (done.code, "merge --truncate" in done.err) == (1, True)
    done = momentmix("merge", "all.mms", *minus("low.mms"), "-o", "x.mms", "--truncate")
    assert done.code == 0, done.err
    assert mm.MomentSummary.load("x.mms").n_rows == 600
