"""Cells are filled in the kind of table that the rows came in; the oracle is a dict of columns."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from unit.mixture.table_truths import NAMES, PLANS, all_families, with_gaps

import momentmix as mm
from momentmix.errors import FitWarning

INDEX = pd.Index([f"row {i}" for i in range(40)], name="key")


@pytest.fixture(scope="module")
def mixture():
    return all_families()


@pytest.fixture(scope="module")
def table(mixture):
    return with_gaps(mixture.sample(40, random_state=4)[0])


@pytest.fixture(scope="module")
def expected(mixture, table):
    return mixture.impute(table)


def assert_filled(filled, table, expected):
    """Each column is that of the dict, and cells that were seen have not changed."""
    for name in NAMES:
        found = list(filled[name])
        if name in ("smokes", "plan", "member"):
            assert found == list(expected[name])
        else:
            np.testing.assert_array_equal(np.array(found, dtype=float), expected[name])
            seen = ~pd.isna(table[name])
            np.testing.assert_array_equal(np.array(found, float)[seen], table[name][seen])


def test_a_pandas_frame_keeps_its_index_order_and_types(mixture, table, expected):
    frame = pd.DataFrame(table, index=INDEX)[list(NAMES[::-1])]
    types = {"plan": pd.CategoricalDtype((*PLANS, "bronze")), "member": "boolean"}
    frame = frame.astype({**types, "visits": "Int64", "smokes": "string"})
    before = frame.copy()
    filled = mixture.impute(frame)
    assert_filled(filled, table, expected)
    assert filled.index.equals(INDEX)
    assert list(filled) == list(NAMES[::-1])
    kept = ["plan", "member", "smokes"]
    assert filled.dtypes[kept].equals(frame.dtypes[kept])
    assert (filled.dtypes.drop(kept) == np.float64).all()
    pd.testing.assert_frame_equal(frame, before)  # what was given has not changed


def test_columns_without_gaps_stay_as_they_are(mixture, expected):
    whole = {**{name: np.asarray(expected[name]) for name in NAMES}, "visits": 3, "calls": 1.0}
    frame = pd.DataFrame(whole, index=INDEX).astype({"visits": "uint8", "age": "float32"})
    pd.testing.assert_frame_equal(mixture.impute(frame), frame)
    pl.testing.assert_frame_equal(mixture.impute(pl.DataFrame(whole)), pl.DataFrame(whole))


def test_polars_frames(mixture, table, expected):
    frame = pl.DataFrame({name: list(table[name]) for name in NAMES[::-1]}, strict=False)
    frame = frame.with_columns(
        pl.col("plan").cast(pl.Enum(PLANS)), pl.col("smokes").cast(pl.Categorical)
    )
    filled = mixture.impute(frame)
    assert_filled(filled, table, expected)
    assert filled.columns == list(NAMES[::-1])
    assert filled.schema["plan"] == pl.Enum(PLANS)
    assert filled.schema["smokes"] == frame.schema["smokes"]
    assert filled.schema["member"] == pl.Boolean


def test_draws_are_frames_too(mixture, table):
    frame = pd.DataFrame(table, index=INDEX)
    for drawn, by_name in zip(
        mixture.impute(frame, 3, draws=2), mixture.impute(table, 3, draws=2), strict=True
    ):
        assert_filled(drawn, table, by_name)
        assert drawn.index.equals(INDEX)


def test_arrow_tables_give_dicts(mixture, table, expected):
    frame = pa.Table.from_pandas(pd.DataFrame(table))
    assert_filled(mixture.impute(frame), table, expected)


def test_types_that_cannot_hold_a_level():
    block = mm.CategoricalBlock([[0.2, 0.8]], ("basic", "gold"), names="plan")
    mixture = mm.Mixture.from_blocks([1.0], [block])
    narrow = pd.DataFrame({"plan": pd.Categorical(["basic", None], categories=["basic"])})
    filled = mixture.impute(narrow)["plan"]
    assert filled.tolist() == ["basic", "gold"]
    assert filled.dtype.categories.tolist() == ["basic", "gold"]
    enum = pl.DataFrame({"plan": ["basic", None]}, schema={"plan": pl.Enum(["basic"])})
    assert mixture.impute(enum)["plan"].to_list() == ["basic", "gold"]
    for frame in (pd.DataFrame({"plan": [1, 2]}), pl.DataFrame({"plan": [1, 2]})):
        with pytest.warns(FitWarning, match="none of the 2 cells of column 0"):
            filled = mixture.impute(frame, unseen="missing")
        assert list(filled["plan"]) == ["gold", "gold"]


def test_frames_of_numbers_alone():
    covariances = [[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    mixture = mm.Mixture([1.0], [[0.0, 5.0, 9.0]], covariances, feature_names=["a", "b", "c"])
    frame = pd.DataFrame({"c": [1, 2, 3], "b": [None, None, 4.0], "a": [2.0, None, None]})
    filled = mixture.impute(frame)
    # E[b | a] = 5 + a / 2 and E[a | b] = (b − 5) / 2
    expected = pd.DataFrame({"c": [1, 2, 3], "b": [6.0, 5.0, 4.0], "a": [2.0, 0.0, -0.5]})
    pd.testing.assert_frame_equal(filled, expected)
    pl.testing.assert_frame_equal(mixture.impute(pl.from_pandas(frame)), pl.from_pandas(expected))
    plain = mixture.with_feature_names(None)
    numbered = frame.rename(columns={"a": 0, "b": 1, "c": 2})
    assert plain.impute(numbered)[1].tolist() == [6.0, 5.0, 4.0]
    assert plain.impute([[2.0, None, None]]).tolist() == [[2.0, 6.0, 9.0]]


def test_pandas_is_not_imported():
    code = (
        "import sys, polars as pl, momentmix as mm; "
        "mixture = mm.DiagonalMixture([1.0], [[1.0, 2.0]], [[1.0, 1.0]], ('a', 'b')); "
        "print(mixture.impute(pl.DataFrame({'b': [None, 3.0], 'a': [4.0, None]})).rows()); "
        "assert 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(2.0, 4.0), (3.0, 1.0)]"
