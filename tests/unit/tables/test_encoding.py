"""Tables of every kind → features and back; values outside their family."""

import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.families.column import short_mean
from momentmix.tables.learning import rows_to_predict, schema_from, table_rows
from momentmix.tables.opening import Reading
from momentmix.tables.schema import Schema

COLUMNS = {
    "age": [31.0, None, 40.0, 33.0],
    "plan": ["gold", "basic", None, "silver"],
    "smoker": [True, False, None, False],
    "visits": [0, 3, None, 2],
    "height": [1.5, 1.75, 2.0, 1.0],
}
FAMILIES = {"plan": "categorical", "smoker": "bernoulli", "visits": "poisson"}
BY_NUMBER = {1: "categorical", 2: "bernoulli", 3: "poisson"}
EXPECTED = np.array(
    [
        [-3, 1, 1, 0, 1, 1, 1, 0, 1, 1.5],
        [0, 0, 0, 0, 1, 0, 1, 3, 1, 1.75],
        [6, 1, 0, 0, 0, 0, 0, 0, 0, 2.0],
        [-1, 1, 0, 1, 1, 0, 1, 2, 1, 1.0],
    ]
)
ROWS = [list(row) for row in zip(*COLUMNS.values(), strict=True)]


def encoded(data, families=None, missing="error"):
    """The schema of a table, its features, and which rows were kept."""
    rows = table_rows(data, families, missing, Reading())
    return rows.learned, *rows.read_within(np.inf)


def test_without_a_data_frame_library(monkeypatch):
    for name in ("pandas", "pyarrow", "polars"):
        monkeypatch.delitem(sys.modules, name)
    assert encoded(ROWS, BY_NUMBER, "model")[1].tolist() == EXPECTED.tolist()
    words = np.array([["b"], ["a"], ["b"]])
    assert encoded(words, {0: "categorical"})[1].ravel().tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA, pd.NaT, np.datetime64("NaT", "D")])
def test_what_counts_as_missing(missing):
    table = {"x": np.array([1.0, missing, 3.0], dtype=object)}
    assert encoded(table, None, "model")[1][:, 1].tolist() == [1.0, 0.0, 1.0]
    words = {"x": np.array(["a", missing, "b"], dtype=object)}
    assert encoded(words, {"x": "categorical"}, "model")[1].tolist() == [
        [0.0, 1.0],
        [0.0, 0.0],
        [1.0, 1.0],
    ]


def test_levels():
    def levels(column, family="categorical"):
        return schema_from({"x": column}, {"x": family}).columns[0].levels

    assert levels([3, 1, 2, 1]) == (1, 2, 3)
    assert levels([3.0, 1.0]) == (1, 3)
    assert levels(np.array([True, False])) == (False, True)
    assert levels(["b", "a"]) == ("a", "b")
    ordered = pd.CategoricalDtype(["low", "high", "never"], ordered=True)
    assert levels(pd.Series(["high", "low"], dtype=ordered)) == ("low", "high", "never")
    unordered = pd.CategoricalDtype(["low", "high", "never"])
    assert levels(pd.Series(["high", "low"], dtype=unordered)) == ("high", "low", "never")
    assert levels(pl.Series(["x", "b"], dtype=pl.Enum(["x", "b", "a"]))) == ("x", "b", "a")
    assert levels(["b"], ["b", "a"]) == ("b", "a")
    assert levels(["b"], np.array(["b", "a"])) == ("b", "a")
    assert levels([1, 1], "bernoulli") == (0, 1)
    assert levels([2, 1], "bernoulli") == (1, 2)
    assert levels(["no", "yes"], "bernoulli") == ("no", "yes")


def test_numbers_of_any_kind():
    column = [Decimal("1.5"), 2, np.float32(0.25)]
    assert encoded({"x": column})[1].ravel().tolist() == [1.5, 2.0, 0.25]
    category = pd.Series([1.5, 2.5, None]).astype("category")
    for families in (None, {"x": "gaussian"}):
        assert encoded({"x": category}, families, "drop")[1].ravel().tolist() == [1.5, 2.5]


def test_drop_leaves_rows_out():
    schema, features, kept = encoded(COLUMNS, FAMILIES, "drop")
    assert kept.tolist() == [True, False, False, True]
    assert not any(column.has_missing for column in schema.columns)
    assert features[:, -1].tolist() == [1.5, 1.0]
    gaps = [[1.0, np.nan], [np.nan, 2.0]]
    assert encoded(gaps, None, "drop")[1].shape == (0, 2)
    for call in (mm.summarize, mm.fit):
        with pytest.raises(InputError, match=r"holds no rows without missing cells\. Leave"):
            call(gaps, missing="drop")


def for_prediction(schema, rows):
    (block,) = rows_to_predict(schema, rows, "the schema").encoded(unseen="error")
    return block


def test_for_prediction_cells_may_be_missing():
    schema = schema_from(
        {"age": [1.0, None, 2.0], "plan": list("aba")}, {"plan": "categorical"}, "model"
    )
    new = {"age": [None, 1.5], "plan": ["b", None]}
    features, left_out = for_prediction(schema, new)[:2]
    assert left_out.tolist() == [[False, False], [False, True]]  # age has a feature for that
    assert features[:, 1:].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert for_prediction(schema, {"age": [1.0], "plan": ["a"]}).left_out is None
    with pytest.raises(
        InputError, match=r"row 1, column 1 \('plan'\), is missing.*missing=.mar. .*.model."
    ):
        schema.encode(new)


# -- values outside their family --------------------------------------------------------------


def named(*cells):
    return {"x": list(cells)}


AB = {"a": [1.0, 2.0], "b": [0.0, 1.0]}
DAYS = {"x": np.array(["2020-01-01"], dtype="M8[D]")}


@pytest.mark.parametrize(
    ("table", "families", "problem"),
    [
        (named(0, 1, 2), "bernoulli", r"two levels; column 0 \('x'\) has 3: 0, 1, 2\..*categ"),
        (named(*"acb"), "bernoulli", "has 3: 'a', 'b', 'c'"),
        (named(*"aa"), "bernoulli", "one level only.*give all levels"),
        (named("a", None), "categorical", "one level only"),
        (named(0.5, 1.0), "categorical", "strings, integers or bools.*0.5"),
        (named(0, -1), "poisson", r"integers from 0.*row 1, column 0 \('x'\), is -1\..*gaussian"),
        (named(0, 1.5), "poisson", r"row 1, column 0 \('x'\), is 1\.5"),
        (named(0, np.inf), "poisson", r"row 1, column 0 \('x'\), is inf"),
        (named(0.0, np.inf), "gaussian", r"must be finite; row 1, column 0 \('x'\) is inf"),
        (named(0.0, 1e305), "gaussian", r"below 2\^1000"),
        (named(0.0, None), "gaussian", r"row 1, column 0 \('x'\), is missing.*.drop."),
        (named(None, None), "gaussian", r"row 0, column 0 \('x'\), is missing"),
        (named(None, None), "categorical", "no cell that is not missing"),
        (named(1.0, 2.0), "gamma", "families must be 'gaussian'.*'gamma'"),
        (named(*"ab"), ["a", "a"], "different levels, at least two"),
        (named(*"ab"), ["a"], "different levels, at least two"),
        (named(*"ab"), ["a", "c"], r"row 1, .*its levels, 'a', 'c'; it is 'b'.*families"),
        (named(1, 2), ["a", "c"], r"row 0, .*its levels, 'a', 'c'; it is 1"),
        (named(*"ab"), [1, 2], r"row 0, .*its levels, 1, 2; it is 'a'"),
        (DAYS, None, r"no usable column: column 'x' left out: dates"),
        (AB, {"c": "poisson"}, r"names no column: 'c'; there are 'a', 'b'"),
        (AB, {2: "poisson"}, r"names no column: 2; give a name, or a number from 0 to 1"),
        (AB, {"b": "poisson", 1: "poisson"}, r"column 1 \('b'\) is there by name and by number"),
        ([[1.0, "a"], [2.0]], {}, "rectangular"),
    ],
)
def test_bad_values(table, families, problem):
    families = families if isinstance(families, dict | None) else {"x": families}
    with pytest.raises(InputError, match=problem):
        encoded(table, families)


@pytest.mark.parametrize(
    ("table", "families", "problem"),
    [
        (named(1.0, "b"), None, r"row 1, column 'x', holds 'b' \(str\)"),
        (named(1j), None, "complex"),
        (named(*"ab"), {"x": "gaussian"}, r"numbers; row 0, .*'x'\) holds 'a'.*.x.: .categorical"),
        (AB, ["poisson"], "families must be a dict"),
        (AB, {"b": 3}, "families must be 'gaussian'"),
    ],
)
def test_bad_types(table, families, problem):
    with pytest.raises(InputTypeError, match=problem):
        encoded(table, families)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (np.zeros((4, 3)), "must have the 2 columns of the schema; got 3"),
        ({"a": [1.0], "c": [0]}, "'b' is missing and 'c' is not among them"),
        ({"a": [1.0], "b": [0, 1]}, "equal lengths"),
        ({"a": [], "b": []}, "at least one row"),
        ({}, "at least one column"),
    ],
)
def test_tables_that_do_not_match_a_schema(table, problem):
    schema = schema_from({"a": [1.0, 2.0], "b": [0, 1]}, {"b": "poisson"})
    with pytest.raises(InputError, match=problem):
        schema.encode(table)


# -- laws -------------------------------------------------------------------------------------

cells = {
    "gaussian": st.floats(-1e6, 1e6),
    "poisson": st.integers(0, 50).map(float),
    "bernoulli": st.sampled_from([0, 1]),
    "categorical": st.sampled_from(["", "a", "é\n", "nan"]),
}


@st.composite
def tables(draw):
    families = draw(st.lists(st.sampled_from(sorted(cells)), min_size=1, max_size=4))
    n = draw(st.integers(2, 9))
    columns = {}
    for i, family in enumerate(families):
        cell = st.one_of(st.none(), cells[family], cells[family])
        column = draw(
            st.lists(cell, min_size=n, max_size=n).filter(lambda c: len({*c} - {None}) > 1)
        )
        columns[f"c{i}"] = column
    return columns, {f"c{i}": family for i, family in enumerate(families)}


@settings(max_examples=60, deadline=None)
@given(tables())
def test_decoding_undoes_encoding(drawn):
    columns, families = drawn
    schema, features, _ = encoded(columns, families, "model")
    decoded = schema.decode(features)
    assert list(decoded) == list(columns)
    for (name, back), column in zip(decoded.items(), schema.columns, strict=True):
        for a, b in zip(columns[name], back.tolist(), strict=True):
            if a is None:
                assert b is None or np.isnan(b)
            elif column.family == "gaussian":  # less its center and back
                assert abs(a - b) <= 2.0**-52 * (abs(a) + abs(column.center)) * 2
            else:
                assert a == b
    assert Schema.from_dict(schema.to_dict()) == schema
    again = schema.encode(decoded)
    assert np.abs(again - features).max() <= 2.0**-50 * 1e6


def test_decoding_without_names():
    schema, features, _ = encoded(ROWS, BY_NUMBER, "model")
    decoded = schema.decode(features)
    assert decoded[0].tolist() == ROWS[0]
    assert decoded[2, 1] is None
    schema, features, _ = encoded([[1.0, 0], [np.nan, 1]], {1: "bernoulli"}, "model")
    back = schema.decode(features)
    assert back.dtype == np.float64
    assert np.isnan(back[1, 0])
    with pytest.raises(InputError, match=r"shape \(n_rows, 3\)"):
        schema.decode(np.zeros((2, 2)))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-1e300, 1e300).filter(lambda x: abs(x) > 1e-200), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-3, 1.0, 1e9]),
)
def test_centers_are_short_and_near_the_mean(values, offset):
    x = np.array(values) + offset
    center = short_mean(x)
    scale = np.abs(x).max()
    mean, deviation = (x / (scale or 1)).mean() * scale, (x / (scale or 1)).std() * scale
    assert abs(center - mean) <= max(deviation, 2.0**-29 * abs(mean)) * (1 + 1e-12)
    mantissa = np.frexp(center)[0] * 2.0**31
    assert mantissa == np.floor(mantissa)


def test_large_tables_are_encoded_in_blocks():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((10_001, 3)) + 7
    rows[rng.random(rows.shape) < 0.3] = np.nan
    rows[:, 1] = 1.0
    schema, features, _ = encoded(rows, None, "model")
    assert [column.has_missing for column in schema.columns] == [True, False, True]
    for j, first in ((0, 0), (2, 3)):
        seen = ~np.isnan(rows[:, j])
        expected = np.where(seen, rows[:, j] - schema.columns[j].center, 0.0)
        assert (features[:, first] == expected).all()
        assert (features[:, first + 1] == seen).all()
    for dtype in (np.float32, np.float16):
        small = rows.astype(dtype)
        assert (schema.encode(small) == schema.encode(small.astype(np.float64))).all()
