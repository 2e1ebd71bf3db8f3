"""Cubes: filtered, rolled up, added, subtracted; and their files in the hands of other programs."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError


def table(seed, n=900, start="2026-01-01"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "y"])
    frame["region"] = rng.choice(["EU", "US", None], n)
    frame["day"] = (pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, 5, n), "D")).date
    frame["flag"] = rng.random(n) > 0.5
    return frame


@pytest.fixture(scope="module")
def cube():
    return mm.summarize_by(table(0), by=["region", "day", "flag"])


def test_conditions_on_keys(cube):
    eu = cube.where(region="EU")
    assert {key[0] for key in eu} == {"EU"}
    assert cube.where(region=["EU", None]).n_rows == sum(
        n for key, n in cube.group_rows.items() if key[0] in ("EU", None)
    )
    first = cube.where(day="2026-01-01", flag=True)
    assert {key[1:] for key in first} == {(dt.date(2026, 1, 1), True)}
    some = cube.where(day=slice("2026-01-02", "2026-01-03"))
    assert {key[1].day for key in some} == {2, 3}
    assert {key[1].day for key in cube.where(day=slice(None, "2026-01-02"))} == {1, 2}
    assert {key[1].day for key in cube.where(day=lambda day: day.day > 4)} == {5}
    assert len(cube.where(region="Mars")) == 0
    assert cube.where(flag=np.True_) == cube.where(flag=True) == cube.where(flag="true")
    days = [slice(None, "2026-01-02"), "2026-01-04"]
    assert {key[1].day for key in cube.where(day=days)} == {1, 2, 4}
    assert cube.where(day=np.datetime64("2026-01-01")) == cube.where(day="2026-01-01")


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"store": 1}, "no key 'store'; it has region, day, flag"),
        ({"day": "soon"}, "key 'day' is date32.*; got .soon. .string.*ISO 8601"),
        ({"region": ["EU", 3]}, "key 'region': .* it holds int and str"),
        ({"flag": "maybe"}, "key 'flag' is bool; got 'maybe' .string., which equals none"),
        ({"day": slice(dt.datetime(2026, 1, 1), None)}, "'day' is date32.*; got .* .timestamp"),
    ],
)
def test_conditions_that_cannot_be(cube, conditions, message):
    with pytest.raises(InputError, match=message):
        cube.where(**conditions)


def test_conditions_on_numbers():
    stores = mm.summarize_by(table(0)[["x"]].assign(store=np.arange(900) % 3), by="store")
    assert len(stores.where(store=np.int64(1))) == len(stores.where(store=[1.0])) == 1


def test_rollup_merges_exactly(cube):
    by_day = cube.rollup("day")
    assert by_day.key_names == ("day",)
    for (day,), summary in by_day.items():
        parts = [s for key, s in cube.items() if key[1] == day]
        assert summary == sum(parts[1:], parts[0])
    assert cube.rollup("flag", "region").key_names == ("flag", "region")
    assert by_day.total() == cube.total()
    with pytest.raises(InputError, match="name a key to keep"):
        cube.rollup()
    with pytest.raises(InputError, match="no groups"):
        cube.where(region="Mars").total()


def test_cubes_of_other_columns_or_orders_do_not_mix(cube):
    frame = table(2)
    keys = ["region", "day", "flag"]
    lower = mm.summarize_by(frame, by=keys, order=1)
    renamed = mm.summarize_by(frame.rename(columns={"x": "z"}), by=keys)
    with pytest.raises(InputError, match="order"):
        _ = cube + lower
    with pytest.raises(InputError, match="'z'"):
        _ = cube + renamed


def test_what_is_shown(cube):
    assert repr(cube) == f"SummaryCube(by region, day, flag: {len(cube)} groups, 900 rows)"
    frame = cube.to_frame()
    assert list(frame.columns) == ["region", "day", "flag", "n_rows", "x", "y"]
    assert frame["n_rows"].sum() == 900
    assert cube["EU", "2026-01-01", True] == cube["EU", dt.date(2026, 1, 1), True]
    with pytest.raises(KeyError):
        _ = cube["Mars", "2026-01-01", True]
    with pytest.raises(InputError, match="must have a value of each key"):
        mm.SummaryCube(["a", "b"], {("x",): cube.total()})


def test_the_frame_has_means_and_shares_of_the_cells_that_are_seen():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(50, 3, 400), "y": np.exp(rng.normal(size=400))})
    frame["plan"], frame["g"] = rng.choice(["a", "b"], 400), np.arange(400) % 2
    frame.loc[::9, "x"] = np.nan
    frame.loc[::13, "plan"] = None
    families = {"y": "log", "plan": "categorical"}
    cube = mm.summarize_by(frame, by="g", missing="model", families=families)
    found, groups = cube.to_frame().set_index("g"), frame.groupby("g")
    np.testing.assert_allclose(found["x"], groups["x"].mean(), rtol=1e-12)
    np.testing.assert_allclose(found["log y"], groups["y"].apply(lambda y: np.log(y).mean()))
    np.testing.assert_allclose(found["x missing"], groups["x"].apply(lambda x: x.isna().mean()))
    shares = groups["plan"].value_counts(normalize=True).unstack()
    np.testing.assert_allclose(found[["plan=a", "plan=b"]], shares[["a", "b"]], rtol=1e-12)
    assert list(cube.where(g=7).to_frame().columns) == ["g", "n_rows"]
