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
    small = ("--by", "day(ts)", "--min-rows", "80", "-o", tmp_path / "small.arrow", "--json")
    facts = json.loads(momentmix("summarize", files / "a.csv", *small).out)
    assert facts["n_groups"] + facts["n_groups_left_out"] == 40
    assert facts["n_rows"] + facts["n_rows_left_out"] == N // 2
    facts = json.loads(momentmix("info", out, "--json").out)
    assert (facts["kind"], facts["n_groups"], facts["n_rows"]) == ("cube", len(cube), N // 2)


@pytest.mark.parametrize(
    ("last", "keys"), [("7", [0, 1, 2, 3, 4, 7]), ("07", ["0", "07", "1", "2", "3", "4"])]
)
def test_keys_of_csv(momentmix, tmp_path, last, keys):
    """Whether keys are numbers is known at the end."""
    lines = [f"{i % 5},{i * i % 11}.5" for i in range(2000)] + [f"{last},1.5"]
    (tmp_path / "x.csv").write_text("\n".join(["k,x", *lines]))
    out = tmp_path / "cube.parquet"
    assert momentmix("summarize", tmp_path / "x.csv", "--by", "k", "-o", out).code == 0
    assert [key for (key,) in mm.SummaryCube.load(out)] == keys


def test_cubes_are_merged_subtracted_and_fitted(momentmix, files, tmp_path):
    for name in ("a", "b"):
        momentmix(
            "summarize", files / f"{name}.csv", "--by", "region", "-o", tmp_path / f"{name}.arrow"
        )
    both, rest = tmp_path / "both.arrow", tmp_path / "rest.arrow"
    assert momentmix("merge", tmp_path / "a.arrow", tmp_path / "b.arrow", "-o", both).code == 0
    a, b = (mm.SummaryCube.load(tmp_path / f"{name}.arrow") for name in ("a", "b"))
    assert mm.SummaryCube.load(both) == a + b
    assert momentmix("merge", both, "--minus", tmp_path / "b.arrow", "-o", rest).code == 0
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
    twice = momentmix("merge", both, tmp_path / "b.arrow", "-o", tmp_path / "c.arrow")
    assert "count twice" in twice.err
    assert not (tmp_path / "c.arrow").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["summarize", "a.csv", "--by", "region", "-o", "x.mms"], "must end in .parquet"),
        (["summarize", "a.csv", "--min-rows", "5", "-o", "x.mms"], "--min-rows goes with --by"),
        (["summarize", "-", "--by", "region", "-o", "x.arrow"], "--by needs files"),
        (["summarize", "a.csv", "--by", "nope", "-o", "x.arrow"], "no column 'nope' to group by"),
        (["merge", "a.csv", "--where", "region=EU", "-o", "x.mms"], "a.csv is no cube"),
        (["merge", "cube.arrow", "--where", "store=1", "-o", "x.mms"], "has no key 'store'"),
        (["merge", "cube.arrow", "--rollup", "store", "-o", "x.arrow"], "has no key 'store'"),
        (["merge", "cube.arrow", "--minus", "a.csv", "-o", "x.arrow"], "a.csv is no cube"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(
    momentmix, files, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes((files / "a.csv").read_bytes())
    mm.summarize_by("a.csv", by="region").save("cube.arrow")
    done = momentmix(*arguments)
    assert done.code != 0
    assert message in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "cube.arrow"}


def test_a_cube_without_groups(momentmix, files, tmp_path):
    empty = tmp_path / "empty.parquet"
    mm.summarize_by(files / "a.csv", by="region", min_rows=10**6).save(empty)
    done = momentmix("info", empty)
    assert done.code == 0
    assert "region" in done.out
    mm.Mixture.diagonal([1.0], [[0.0, 0.0]], [[1.0, 1.0]]).save(tmp_path / "m.json")
    done = momentmix("track", tmp_path / "m.json", empty)
    assert "has no groups; check how it was filtered, or --min-rows" in done.err
