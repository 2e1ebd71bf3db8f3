"""Columns that are Gaussian after a logarithm: features and back, ranges, schemas as JSON."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.families.column import Column
from momentmix.tables.learning import learn, schema_from

MAPS = {"log": (np.log, np.exp), "log1p": (np.log1p, np.expm1)}


@pytest.mark.parametrize("transform", MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8, bool])
def test_features_are_the_transformed_values(transform, dtype):
    values = np.array([1, 2, 5, 1, 7]).astype(dtype)
    schema = schema_from({"y": values}, {"y": transform})
    features = schema.encode({"y": values})
    np.testing.assert_array_equal(features[:, 0], MAPS[transform][0](values.astype(float)))
    assert schema.columns == (Column("y", transform=transform),)
    assert schema.feature_names == schema.column_names == ("y",)
    assert not schema.is_plain
    back = schema.decode(features)["y"]
    np.testing.assert_allclose(back, values.astype(float), rtol=1e-15)


def test_missing_cells_have_a_center_of_the_logarithms():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(11.0, 0.5, 500))
    values[::5] = np.nan
    schema = schema_from(values[:, None], {0: "log"}, "model")
    (column,) = schema.columns
    features = schema.encode(values[:, None])
    assert abs(column.center - 11.0) < 1.0
    seen = ~np.isnan(values)
    wanted = np.where(seen, np.log(values) - column.center, 0.0)
    np.testing.assert_array_equal(features, np.column_stack([wanted, seen]))
    np.testing.assert_allclose(schema.decode(features)[:, 0], values, rtol=1e-14)
    kept = learn(mm.open_rows(values[:, None]), {0: "log"}, "drop").read_within(np.inf)[0]
    np.testing.assert_array_equal(kept[:, 0], np.log(values[seen]))


def test_bits_do_not_depend_on_where_a_row_stands():
    values = np.exp(np.random.default_rng(1).normal(0.0, 3.0, (5000, 3)))
    schema = schema_from(values, {0: "log", 2: "log1p"})
    whole = schema.encode(values)
    for step in (1, 7, 2048, 3001):
        starts = range(0, min(len(values), 60 * step), step)
        found = np.concatenate([schema.encode(values[i : i + step]) for i in starts])
        np.testing.assert_array_equal(found, whole[: len(found)])
    for other in (np.asfortranarray(values), values[::-1][::-1], pd.DataFrame(values)):
        np.testing.assert_array_equal(schema.encode(other), whole)


@pytest.mark.parametrize(
    ("transform", "wrong", "words"),
    [
        (
            "log",
            0.0,
            "numbers of a log column must be greater than 0; row 2, column 1 .'b'., is 0.",
        ),
        ("log", -1.5, "is -1.5. .* take the column as 'log1p' where it holds 0, or as 'gaussian',"),
        ("log1p", -1.0, "a log1p column must be greater than -1; row 2, column 1 .'b'., is -1."),
        ("log1p", -np.inf, "is -inf. .* or take the column as 'gaussian' in families."),
        ("log", np.inf, "rows must be finite; row 2, column 1 .'b'. is inf"),
    ],
)
def test_numbers_out_of_range_are_named(transform, wrong, words):
    rows = {"a": [1.0] * 4, "b": [1.0, 2.0, wrong, 0.5]}
    # Rows that hold infinity are left out with missing="drop".
    for missing in ("error", "model", "drop")[: 2 if np.isinf(wrong) else 3]:
        with pytest.raises(mm.InputError, match=words):
            mm.summarize(rows, 2, families={"b": transform}, missing=missing)
    gapped = {"a": [1.0] * 5, "b": [1.0, None, wrong, 0.5, 2.0]}
    with pytest.raises(mm.InputError, match=words):
        mm.summarize(gapped, 2, families={"b": transform}, missing="model")


def test_what_is_no_number_or_no_transform():
    with pytest.raises(mm.errors.InputTypeError, match="a log column must hold numbers"):
        schema_from({"a": ["x", "y"]}, {"a": "log"})
    for make, words in [
        (lambda: schema_from({"a": [1.0]}, {"a": "sqrt"}), "'log', 'log1p', or a list of levels"),
        (lambda: Column("a", transform="sqrt"), "must be 'log' or 'log1p', of a gaussian"),
        (lambda: Column("a", "poisson", transform="log"), "'a', poisson, has 'log'"),
    ]:
        with pytest.raises(mm.InputError, match=words):
            make()
