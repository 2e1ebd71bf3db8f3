"""Options and sources of `summarize_by`; tests/contracts/test_groups.py has its sums and keys."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import momentmix as mm
from momentmix.errors import InputError

N = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(size=(N, 3)) * [1, 5, 100] + [0, 3, -7], columns=["a", "b", "c"]
    )
    table["region"] = rng.choice(["EU", "US", "Asia", None], N)
    table["store"] = rng.integers(0, 4, N)
    minutes = rng.integers(0, 60 * 24 * 60, N)
    table["ts"] = pd.Timestamp("2025-12-20") + pd.to_timedelta(minutes, "m")
    return table


def test_categories_and_missing_cells_have_one_schema(frame):
    table = frame.assign(plan=np.where(frame["a"] > 0, "x", "y"))
    table.loc[::7, "b"] = np.nan
    table = table[["a", "b", "plan", "store"]]
    cube = mm.summarize_by(table, by="store", missing="model")
    total, whole = cube.total(), mm.summarize(table.drop(columns="store"), missing="model")
    assert total.feature_names == whole.feature_names
    assert total.mean == pytest.approx(whole.mean, rel=1e-11)
    result = mm.fit(total, 2, random_state=0)
    assert result.mixture.n_columns == 3


def test_rows_with_missing_cells_can_be_dropped(frame):
    table = frame[["a", "b", "region"]].copy()
    table.loc[::5, "a"] = np.nan
    cube = mm.summarize_by(table, by="region", missing="drop")
    kept = table[table["a"].notna()]
    assert cube.n_rows == len(kept)  # rows whose key is missing are not dropped
    assert cube[(None,)].n_rows == kept["region"].isna().sum()
    with pytest.raises(InputError, match="row 0"):
        mm.summarize_by(table, by="region")


def test_columns_without_names_go_by_number(tmp_path):
    rows = np.array([[0.5, 3], [1.5, 4], [2.5, 3]])
    np.save(tmp_path / "x.npy", rows)
    (tmp_path / "x.csv").write_text("0.5,3\n1.5,4\n2.5,3\n")
    for data in (rows, rows.tolist(), tmp_path / "x.npy", tmp_path / "x.csv"):
        cube = mm.summarize_by(data, by="1")
        assert [*cube.group_rows.values()] == [2, 1]
        assert cube.total().mean.tolist() == [1.5]
    with pytest.raises(InputError, match=r"no column to group by named '2'; there are '0', '1'"):
        mm.summarize_by(rows, by="2")


def test_rows_that_are_open_keep_their_columns_and_policy(frame):
    table = frame.assign(a=frame["a"].where(frame["store"] != 2))
    opened = mm.open_rows(table, columns=["a", "store"], missing="drop")
    cube = mm.summarize_by(opened, by="store")
    assert cube.total().feature_names == ("a",)
    assert {key for (key,) in cube} == {0, 1, 3}
    with pytest.raises(
        InputError, match=r"columns= \(.*\) is for tables; the rows are opened already"
    ):
        mm.summarize_by(opened, by="store", columns=["a"])
    with pytest.raises(InputError, match="no usable column: all were left out"):
        mm.summarize_by(mm.open_rows(table, columns=["store"]), by="store")
    with pytest.raises(InputError, match=r"na_values= \(.*\) is for files"):
        mm.summarize_by(table, by="store", na_values=["-"])


def test_days_of_any_library_are_keys():
    days = [dt.date(2026, 1, 5), None, dt.date(1969, 12, 31), dt.date(2026, 1, 5)]
    x = [0.5, 1.5, 2.5, 3.5]
    numpy_days = np.array(days, dtype="M8[D]")
    tables = [
        pd.DataFrame({"x": x, "k": days}),
        pl.DataFrame({"x": x, "k": days}),
        pa.table({"x": x, "k": pa.array(days)}),
        pa.table({"x": x, "k": pa.array(days, pa.date64())}).to_reader(),
        {"x": x, "k": numpy_days},
    ]
    for table in tables:
        cube = mm.summarize_by(table, by="k", columns=["x"])
        assert cube.group_rows == {(days[2],): 1, (days[0],): 2, (None,): 1}
    with pytest.raises(InputError, match=r"column 'k': a key must hold .* timestamp"):
        mm.summarize_by({"x": x, "k": numpy_days.astype("M8[h]")}, by="k")
    with pytest.raises(mm.MomentmixError, match=r"column 'k'.* timedelta64"):
        mm.summarize_by({"x": x, "k": numpy_days - numpy_days[0]}, by="day(k)")
