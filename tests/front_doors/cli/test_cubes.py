"""Cubes on the command line: made, merged, subtracted, fitted."""

import json

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

N = 6000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    frame["region"] = rng.choice(["EU", "US"], N)
    frame["ts"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 40, N), "D")
    frame["plan"] = rng.choice(["x", "y", "z"], N)
    frame[: N // 2].to_csv(folder / "a.csv", index=False)
    frame[N // 2 :].to_csv(folder / "b.csv", index=False)
    return folder


def test_the_command_makes_the_cube_of_the_function(momentmix, files, tmp_path):
    out = tmp_path / "cube.parquet"
    done = momentmix("summarize", files / "a.csv", "--by", "region,week(ts)", "-o", out)
    assert done.code == 0
    assert "groups by region, week" in done.out
    cube = mm.SummaryCube.load(out)
    assert cube == mm.summarize_by(files / "a.csv", by="region,week(ts)")
    small = ("--by", "day(ts)", "--min-rows", "80", "-o", tmp_path / "small.parquet", "--json")
    facts = json.loads(momentmix("summarize", files / "a.csv", *small).out)
    assert facts["n_groups"] + facts["n_groups_left_out"] == 40
    assert facts["n_rows"] + facts["n_rows_left_out"] == N // 2
    facts = json.loads(momentmix("info", out, "--json").out)
    assert (facts["kind"], facts["n_groups"], facts["n_rows"]) == ("cube", len(cube), N // 2)


def test_cubes_are_merged_subtracted_and_fitted(momentmix, files, tmp_path):
    for name in ("a", "b"):
        momentmix(
            "summarize", files / f"{name}.csv", "--by", "region", "-o", tmp_path / f"{name}.parquet"
        )
    both, rest = tmp_path / "both.parquet", tmp_path / "rest.parquet"
    assert momentmix("merge", tmp_path / "a.parquet", tmp_path / "b.parquet", "-o", both).code == 0
    a, b = (mm.SummaryCube.load(tmp_path / f"{name}.parquet") for name in ("a", "b"))
    assert mm.SummaryCube.load(both) == a + b
    assert momentmix("merge", both, "--minus", tmp_path / "b.parquet", "-o", rest).code == 0
    assert mm.SummaryCube.load(rest) == a
    assert momentmix("merge", both, "-o", tmp_path / "all.mms").code == 0
    assert mm.MomentSummary.load(tmp_path / "all.mms") == (a + b).total()
    one = tmp_path / "eu.mms"
    assert momentmix("merge", both, "--where", "region=EU", "-o", one).code == 0
    assert mm.MomentSummary.load(one) == (a + b)["EU"]
    done = momentmix("fit", both, "-r", "1", "-o", tmp_path / "m.json", "--json")
    assert json.loads(done.out)["n_rows"] == N
    done = momentmix(
        "fit", both, "--where", "region=EU", "-r", "1", "-o", tmp_path / "eu.json", "--json"
    )
    assert json.loads(done.out)["n_rows"] == (a + b)["EU"].n_rows
    twice = momentmix("merge", both, tmp_path / "b.parquet", "-o", tmp_path / "c.parquet")
    assert "count twice" in twice.err
    assert not (tmp_path / "c.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["summarize", "a.csv", "--by", "region", "-o", "x.mms"], "must end in .parquet"),
        (["summarize", "a.csv", "--min-rows", "5", "-o", "x.mms"], "--min-rows goes with --by"),
        (["summarize", "-", "--by", "region", "-o", "x.parquet"], "--by needs files"),
        (["summarize", "a.csv", "--by", "nope", "-o", "x.parquet"], "group by named 'nope'"),
        (["merge", "a.csv", "--where", "region=EU", "-o", "x.mms"], "a.csv is no cube"),
        (["merge", "cube.parquet", "--where", "store=1", "-o", "x.mms"], "has no key 'store'"),
        (["merge", "cube.parquet", "--rollup", "store", "-o", "x.parquet"], "has no key 'store'"),
        (["merge", "cube.parquet", "--minus", "a.csv", "-o", "x.parquet"], "a.csv is no cube"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(
    momentmix, files, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes((files / "a.csv").read_bytes())
    mm.summarize_by("a.csv", by="region").save("cube.parquet")
    done = momentmix(*arguments)
    assert done.code != 0
    assert message in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "cube.parquet"}


def test_a_cube_without_groups(momentmix, files, tmp_path):
    empty = tmp_path / "empty.parquet"
    mm.summarize_by(files / "a.csv", by="region").at_least(10**6).save(empty)
    done = momentmix("info", empty)
    assert done.code == 0
    assert "region" in done.out
    mm.Mixture.diagonal([1.0], [[0.0, 0.0]], [[1.0, 1.0]]).save(tmp_path / "m.json")
    done = momentmix("track", tmp_path / "m.json", empty)
    assert "has no groups; check how it was filtered, or --min-rows" in done.err
