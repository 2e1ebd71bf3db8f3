"""Columns of types that few tables have: they are read rightly, left out, or refused by name."""

from datetime import date
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.families.column import Column

N = 60
LETTERS = [("a", None, "b", "c")[i % 4] for i in range(N)]
NUMBERS = np.random.default_rng(0).standard_normal(N)


def column(table, **options):
    """What the column g of a table is taken as; None where it is left out."""
    found = [c for c in mm.schema_from(table, missing="model", **options).columns if c.name == "g"]
    return (found[0].family, found[0].levels, found[0].has_missing) if found else None


def arrow(cells):
    return pa.table({"x": NUMBERS, "g": cells})


EXPECTED = ("categorical", ("a", "b", "c"), True)


@pytest.mark.parametrize("index", [pa.uint8(), pa.uint32(), pa.int8(), pa.int64()])
def test_dictionaries_of_any_index(index):
    cells = pa.array(LETTERS).cast(pa.dictionary(index, pa.string()))
    assert column(arrow(cells)) == EXPECTED
    assert column(arrow(pa.chunked_array([cells[:7], cells[7:]]))) == EXPECTED


def test_dictionaries_that_repeat_labels_or_hold_nulls(tmp_path):
    places = pa.array([i % 4 for i in range(N)])
    cells = pa.DictionaryArray.from_arrays(places, pa.array(["b", None, "a", "b"]))
    expected = ("categorical", ("a", "b"), True)
    assert column(arrow(cells)) == expected
    table = arrow(cells)
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as f,
    ):
        f.write_table(table)
    assert column(tmp_path / "t.arrow") == expected
    sums = [mm.summarize(rows, 2, missing="model").mean for rows in (table, tmp_path / "t.arrow")]
    assert (sums[0] == sums[1]).all()


def test_dictionaries_that_differ_between_chunks():
    parts = [pa.array(part).dictionary_encode() for part in (LETTERS[:2], LETTERS[2:])]
    assert column(arrow(pa.chunked_array(parts))) == EXPECTED


def test_categories_of_many_levels_are_categories_everywhere(tmp_path):
    levels = pd.Categorical([f"l{i % 70:02}" for i in range(10 * N)])
    frame = pd.DataFrame({"x": np.tile(NUMBERS, 10), "g": levels})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    expected = ("categorical", tuple(f"l{i:02}" for i in range(70)), False)
    files = tmp_path / "t.parquet", tmp_path / "t.feather"
    for table in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame), *files):
        assert column(table) == expected


def test_categories_of_dates_are_left_out():
    days = [date(2020, 1, 1 + i % 3) for i in range(N)]
    assert column(arrow(pa.array(days).dictionary_encode())) is None
    frame = pd.DataFrame({"x": NUMBERS, "g": pd.Categorical(pd.to_datetime(days))})
    assert column(frame) is None
    with pytest.raises(InputError, match=r"names no column \(column 'g' left out: dates\): 'g'"):
        mm.schema_from(frame, {"g": "categorical"})
    with pytest.raises(InputError, match=r"'g' \(category\)"):
        mm.schema_from(frame, {"g": "categorical"}, columns=["x", "g"])


def test_intervals_are_told_by_their_text():
    frame = pd.DataFrame({"x": NUMBERS, "g": pd.cut(NUMBERS, [-9, -0.5, 0.5, 9])})
    assert column(frame) == ("categorical", ("(-9.0, -0.5]", "(-0.5, 0.5]", "(0.5, 9.0]"), False)
    mixture = mm.fit(frame, 1, random_state=0).mixture
    assert mixture.predict(frame.iloc[:5]).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (pl.Series([[1, 2]] * N), "'g' .*list"),
        (pl.Series([{"a": 1}] * N), "'g' .*struct"),
        (pl.Series([object()] * N, dtype=pl.Object), "'g'"),
    ],
)
def test_nested_columns_are_refused_by_name(cells, problem):
    frame = pl.DataFrame({"x": NUMBERS, "g": cells})
    with pytest.raises((InputError, InputTypeError), match=rf"{problem}.* exclude="):
        mm.schema_from(frame)
    assert mm.schema_from(frame, exclude=["g"]).column_names == ("x",)


@pytest.mark.parametrize("cells", [1, "abc", np.array(2.0), (i for i in range(3))])
def test_columns_of_a_dict_are_lists(cells):
    with pytest.raises(InputTypeError, match=r"column 'g' is .*Put its cells in a list"):
        mm.schema_from({"g": cells, "x": [1.0, 2.0, 3.0]})


def test_sparse_mappings_are_refused_as_sparse():
    with pytest.raises(TypeError, match="toarray"):
        mm.schema_from(sparse.dok_matrix(np.eye(3)))


@pytest.mark.parametrize("family", ["gaussian", "categorical", "poisson"])
@pytest.mark.parametrize("huge", [10**400, -(10**5000), Fraction(10**400)], ids="abc")
def test_integers_that_float64_does_not_have(family, huge):
    table = {"a": [1.5, 2.5, 3.5, 0.5], "k": np.array([1, 2, huge, 1], dtype=object)}
    refusal = pytest.raises(InputError, match="column 'k' has an integer that is larger than all")
    with refusal:
        mm.schema_from(table, families={"k": family})
    with refusal:
        mm.summarize(pd.DataFrame(table), families={"k": family})
    schema = mm.schema_from({**table, "k": [1, 2, 2, 1]}, families={"k": family})
    with refusal:
        schema.encode(table)


def test_levels_that_float64_does_not_have():
    for levels in ([1, 2, 10**400], [10**5000, -(10**5000)]):
        with pytest.raises(InputError, match=r"the list of levels of column .* has an integer"):
            mm.schema_from({"k": [1, 2, 1]}, families={"k": levels})
        with pytest.raises(InputError, match="the list of levels of column 'k' has an integer"):
            Column("k", "categorical", tuple(levels))
