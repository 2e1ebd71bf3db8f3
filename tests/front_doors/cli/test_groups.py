"""Cubes on the command line: made, merged, chosen from, compared and tracked."""

import csv
import json
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

MODEL = mm.Mixture.diagonal([0.6, 0.4], [[0.0] * 3, [4.0] * 3], np.ones((2, 3)), ["a", "b", "c"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rows of two regions, four weeks and stores −2 … 9; their cube, and a model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(MODEL.sample(4000, random_state=0)[0], columns=["a", "b", "c"])
    week = rng.integers(0, 4, len(frame))
    frame.loc[week == 3, "a"] += 1.0
    frame["region"] = rng.choice(["EU", "US"], len(frame))
    frame["ts"] = [str(date(2026, 1, 26) + timedelta(7 * int(w))) for w in week]
    frame["store"] = rng.integers(-2, 10, len(frame))
    frame.to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet", index=False)
    mm.summarize_by("rows.parquet", by="region,week(ts),store").save("cube.parquet")
    MODEL.save("model.json")
    return frame


def test_summarize_by_is_that_of_python(folder, momentmix):
    done = momentmix("summarize", "rows.csv", "--by", "region,week(ts)", "-o", "c.parquet")
    assert done.code == 0, done.err
    assert "8 groups by region, week" in done.out
    assert mm.SummaryCube.load("c.parquet") == mm.summarize_by("rows.csv", by="region,week(ts)")
    small = ("--by", "week(ts),store", "--min-rows", "85", "-o", "small.parquet", "--json")
    facts = json.loads(momentmix("summarize", "rows.csv", *small).out)
    assert facts["n_groups"] + facts["n_groups_left_out"] == 48
    facts = json.loads(momentmix("info", "c.parquet", "--json").out)
    assert (facts["kind"], facts["n_groups"], facts["n_rows"]) == ("cube", 8, 4000)
    assert facts["keys"][0] == "region: EU, US"


def test_cubes_are_merged_subtracted_and_fitted(folder, momentmix):
    for name, part in (("x", folder[:2000]), ("y", folder[2000:])):
        part.to_csv(f"{name}.csv", index=False)
        momentmix("summarize", f"{name}.csv", "--by", "region", "-o", f"{name}.parquet")
    x, y = (mm.SummaryCube.load(f"{name}.parquet") for name in "xy")
    assert momentmix("merge", "x.parquet", "y.parquet", "-o", "both.parquet").code == 0
    assert mm.SummaryCube.load("both.parquet") == x + y
    momentmix("merge", "both.parquet", "--minus", "y.parquet", "-o", "rest.parquet")
    assert mm.SummaryCube.load("rest.parquet") == x
    momentmix("merge", "both.parquet", "--where", "region=EU", "-o", "eu.mms")
    assert mm.MomentSummary.load("eu.mms") == (x + y)["EU"]
    momentmix("merge", "cube.parquet", "--rollup", "region,week", "-o", "weeks.parquet")
    assert mm.SummaryCube.load("weeks.parquet").key_names == ("region", "week")
    done = momentmix("fit", "both.parquet", "--where", "region=EU", "-r", "1", "--json")
    assert json.loads(done.out)["n_rows"] == (x + y)["EU"].n_rows
    twice = momentmix("merge", "both.parquet", "y.parquet", "-o", "z.parquet")
    assert (twice.code, "y.parquet: " in twice.err) == (1, True)


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("week=2026-02-02", {"week": "2026-02-02"}),
        ("week=2026-02-02..2026-02-09", {"week": slice("2026-02-02", "2026-02-09")}),
        ("week=..2026-02-02", {"week": slice(None, "2026-02-02")}),
        ("store=-1..3", {"store": slice(-1, 3)}),
        ("region=A..F", {"region": "EU"}),
        ("store=1 store=7..8 region=EU", {"store": [1, 7, 8], "region": "EU"}),
    ],
)
def test_conditions_choose_groups(folder, momentmix, condition, chosen):
    options = [word for one in condition.split() for word in ("--where", one)]
    done = momentmix("merge", "cube.parquet", *options, "-o", "part.mms")
    assert done.code == 0, done.err
    cube = mm.SummaryCube.load("cube.parquet")
    assert mm.MomentSummary.load("part.mms") == cube.where(**chosen).total()


@pytest.mark.parametrize(
    ("condition", "code", "message"),
    [
        ("week", 2, "key=value; got 'week'"),
        ("regoin=EU", 1, "no key 'regoin'; it has region, week, store. Did you mean 'region'?"),
        ("week=2027-01-04", 1, "no group of cube.parquet has week=2027-01-04; week is 2026-01-26,"),
        ("store=1..x", 1, "key 'store'"),
    ],
)
def test_conditions_that_choose_nothing(folder, momentmix, condition, code, message):
    done = momentmix("track", "model.json", "cube.parquet", "--where", condition)
    assert (done.code, message in done.err) == (code, True), done


# -- compare --------------------------------------------------------------------------------------


def test_compare_is_that_of_python(folder, momentmix):
    for name, week in (("old", "2026-01-26"), ("new", "2026-02-16")):
        folder[folder["ts"] == week][["a", "b", "c"]].to_csv(f"{name}.csv", index=False)
        mm.summarize(f"{name}.csv").save(f"{name}.mms")
    expected = mm.compare("old.mms", "new.mms")
    weeks = ("--first", "week=2026-01-26", "--second", "week=2026-02-16")
    for arguments in (
        ("old.mms", "new.mms"), ("old.csv", "new.csv"), ("old.mms", "new.csv"),
        ("cube.parquet", *weeks),
    ):  # fmt: skip
        done = momentmix("compare", *arguments, "--json")
        assert done.code == 4, done.err
        facts = json.loads(done.out)
        assert facts["differs"] is True
        assert facts["p_value"] == pytest.approx(expected.p_value, rel=1e-6)
        assert facts["sentences"][0].startswith("a: the mean rose from ")
    done = momentmix("compare", "old.mms", "new.mms", "--least-effect", 5)
    assert done.code == 0
    assert done.out.startswith("No difference of at least 5 shows between ")


def test_compare_finds_levels_and_missing_cells_of_both_files(tmp_path, momentmix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, levels, missing in (("old", "ab", 0.0), ("new", "abc", 0.2)):
        frame = pd.DataFrame({"x": rng.normal(size=900), "plan": rng.choice([*levels], 900)})
        frame.loc[rng.random(900) < missing, "x"] = np.nan
        frame.to_csv(f"{name}.csv", index=False)
    facts = json.loads(momentmix("compare", "old.csv", "new.csv", "--json").out)
    named = {
        (c["column"], c["what"], c["level"]) for c in facts["changes"] if c["corrected"] < 0.01
    }
    assert {("x", "missing", None), ("plan", "share", "c")} <= named


# -- track ----------------------------------------------------------------------------------------


def test_track_prints_what_python_gives(folder, momentmix):
    files = ("model.json", "cube.parquet")
    cube = mm.SummaryCube.load("cube.parquet").rollup("region", "week")
    tracking = mm.track("model.json", cube)
    done = momentmix("track", *files, "--rollup", "region,week", "-o", "shares.csv")
    assert done.out.startswith(str(tracking))
    assert "do not fit 2 of 8 groups" in done.out
    with open("shares.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["region"] for row in rows] == ["EU"] * 4 + ["US"] * 4
    assert float(rows[0]["weight_0"]) == pytest.approx(tracking.weights[0, 0])
    arguments = ("--where", "week=..2026-02-09", "--rollup", "week", "-o", "shares.png")
    done = momentmix("track", *files, *arguments, "--json", "--strict")
    assert done.code == 0
    assert [g["week"] for g in json.loads(done.out)["groups"]] == [
        "2026-01-26", "2026-02-02", "2026-02-09",
    ]  # fmt: skip
    with open("shares.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"
    assert momentmix("track", *files, "--rollup", "week", "--strict").code == 4


def test_a_cube_without_groups(folder, momentmix):
    mm.SummaryCube.load("cube.parquet").at_least(10**6).save("empty.parquet")
    done = momentmix("track", "model.json", "empty.parquet")
    assert (done.code, "has no groups; check how it was filtered" in done.err) == (1, True)
