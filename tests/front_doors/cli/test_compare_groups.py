"""The command `compare` with groups of cubes: --where, --first and --second."""

import json

import numpy as np
import pandas as pd
import pytest

import momentmix as mm


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cube of two regions, four weeks and stores −2 … 9; also as data, and as a summary."""
    folder = tmp_path_factory.mktemp("groups")
    rng = np.random.default_rng(0)
    n = 4000
    week = rng.integers(0, 4, n)
    table = pd.DataFrame(rng.standard_normal((n, 3)), columns=["a", "b", "c"])
    table["a"] += 0.5 * (week == 3)
    table["region"] = rng.choice(["EU", "US"], n)
    table["ts"] = pd.Timestamp("2026-01-26") + pd.to_timedelta(7 * week, "D")
    table["store"] = rng.integers(-2, 10, n)
    table.to_parquet(folder / "rows.parquet", index=False)
    mm.summarize_by(table, by=["region", "week(ts)", "store"]).save(folder / "cube.parquet")
    table[["a", "b", "c"]].to_csv(folder / "rows.csv", index=False)
    mm.summarize(table[["a", "b", "c"]]).save(folder / "all.mms")
    return folder


@pytest.fixture
def compared(folder, momentmix, monkeypatch):
    """A call of the command that gives the JSON of its answer."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        done = momentmix("compare", *arguments, "--json")
        assert done.code in (0, 4), done.err
        return json.loads(done.out)

    return run


@pytest.fixture(scope="module")
def cube(folder):
    return mm.SummaryCube.load(folder / "cube.parquet")


def agrees(found, a, b):
    """Whether the answer is that of the function for two summaries."""
    expected = mm.compare(a, b)
    assert found["n_rows"] == list(expected.n_rows)
    return found["p_value"] == pytest.approx(expected.p_value, rel=1e-9)


def test_two_weeks_of_one_cube(compared, cube):
    found = compared("cube.parquet", "--first", "week=2026-01-26", "--second", "week=2026-02-16")
    first, second = (cube.where(week=day).total() for day in ("2026-01-26", "2026-02-16"))
    assert agrees(found, first, second)
    assert found["differs"]
    assert found["first_where"] == ["week=2026-01-26"]
    assert found["sentences"][0].startswith("a: the mean rose from ")


def test_the_other_groups_are_the_other_side(compared, cube, momentmix):
    last = cube.where(week="2026-02-16").total()
    assert agrees(
        compared("cube.parquet", "--second", "week=2026-02-16"), cube.total() - last, last
    )
    europe = cube.where(region="EU")
    last = europe.where(week="2026-02-16").total()
    arguments = ("cube.parquet", "--where", "region=EU", "--first", "week=2026-02-16")
    assert agrees(compared(*arguments), last, europe.total() - last)
    lines = momentmix("compare", *arguments).out.splitlines()
    assert lines[1] == "first: week=2026-02-16, 12 groups; second: the other 36 groups"


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("week=2026-02-02..2026-02-09", {"week": slice("2026-02-02", "2026-02-09")}),
        ("week=2026-02..2026-02", {"week": slice("2026-02-02", "2026-02-16")}),
        ("week=2026-02-09..", {"week": slice("2026-02-09", None)}),
        ("week=..2026-02-02", {"week": slice(None, "2026-02-02")}),
        ("store=-1..3", {"store": slice(-1, 3)}),
        ("store=..7", {"store": slice(None, 7)}),
        ("region=A..F", {"region": "EU"}),
        ("store=1 store=7 region=EU", {"store": [1, 7], "region": "EU"}),
    ],
)
def test_ranges_and_lists_of_values(compared, cube, condition, chosen):
    part = cube.where(**chosen).total()
    options = [word for one in condition.split() for word in ("--second", one)]
    assert agrees(compared("cube.parquet", *options), cube.total() - part, part)


def test_two_files_have_their_own_conditions(compared, cube):
    week = cube.where(week="2026-02-16")
    options = ("--second", "week=2026-02-16")
    assert agrees(compared("all.mms", "cube.parquet", *options), cube.total(), week.total())
    data = compared("cube.parquet", "rows.csv", "--where", "region=EU")
    assert agrees(data, cube.where(region="EU").total(), mm.summarize("rows.csv"))
    both = compared("cube.parquet", "cube.parquet", "--where", "region=EU", *options)
    assert agrees(both, cube.where(region="EU").total(), week.where(region="EU").total())
    assert "shards of rows are in both summaries" in both["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["cube.parquet"], 2, "choose groups of the cube with --first and --second"),
        (["all.mms"], 2, "nothing to compare all.mms with; give a second file"),
        (["all.mms", "--second", "week=1"], 1, "all.mms is no cube"),
        (["all.mms", "rows.csv", "--where", "region=EU"], 1, "all.mms is no cube"),
        (["cube.parquet", "--second", "week"], 2, "--second must be key=value; got 'week'"),
        (
            ["cube.parquet", "--first", "regoin=EU"],
            1,
            "the cube has no key 'regoin'; it has region, week, store. Did you mean 'region'?",
        ),
        (
            ["cube.parquet", "--where", "region=EU", "--second", "week=2027-01-04"],
            1,
            "no group has week=2027-01-04; week is '2026-01-26', '2026-02-02', '2026-02-09', "
            "'2026-02-16'.",
        ),
        (["cube.parquet", "--first", "region=A..Z"], 1, "--first takes all groups"),
        (
            ["cube.parquet", "--second", "store=1..x"],
            2,
            "--second: a range of whole numbers is written as 3..17; got '1..x'",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(folder, momentmix, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    done = momentmix("compare", *arguments)
    assert done.code == code
    assert message in " ".join(done.err.split())


def test_info_lists_the_values_of_keys(folder, momentmix, monkeypatch):
    monkeypatch.chdir(folder)
    facts = json.loads(momentmix("info", "cube.parquet", "--json").out)
    assert facts["values_of_keys"] == [
        "region: 2 values, EU, US",
        "week: 4 values, 2026-01-26, 2026-02-02, 2026-02-09, 2026-02-16",
        "store: 12 values, -2 to 9",
    ]
