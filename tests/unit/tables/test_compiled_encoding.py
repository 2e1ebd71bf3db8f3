"""Features by compiled code are those of NumPy, to the bit; what needs a look is left to NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from momentmix.families.column import Column
from momentmix.native import code
from momentmix.tables import encoding
from momentmix.tables.cells import Cells

needs_code = pytest.mark.skipif(code is None, reason="there is no compiled code")


def encoded(columns, table, unseen="error"):
    return encoding.encode_cells(columns, table, encoding.place_of(columns), unseen)


def both(columns, table, unseen="error"):
    found = encoded(columns, table, unseen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "code", None)
        expected = encoded(columns, table, unseen)
    return found, expected


def same(found, expected):
    np.testing.assert_array_equal(found.features.view(np.int64), expected.features.view(np.int64))
    if expected.left_out is None:
        assert found.left_out is None
    else:
        np.testing.assert_array_equal(found.left_out, expected.left_out)


def made(seed, n_rows, strided):
    """Columns of all kinds, with and without missing cells, and their cells."""
    rng = np.random.default_rng(seed)
    columns, cells = [], []
    for has_missing in (False, True):
        gap = rng.random(n_rows) < 0.3 if has_missing else np.zeros(n_rows, dtype=bool)
        values = np.where(gap, np.nan, rng.standard_normal(n_rows) * 10)
        columns.append(Column(None, has_missing=has_missing, center=2.5 if has_missing else 0.0))
        cells.append(Cells(values))
        k = int(rng.integers(2, 6))
        codes = np.where(gap, np.nan, rng.integers(0, k, n_rows).astype(float))
        columns.append(Column(None, "categorical", tuple(range(k)), has_missing=has_missing))
        cells.append(Cells(codes))
        names = tuple(f"level {i}" for i in range(k))
        order = rng.permutation(k)
        columns.append(Column(None, "categorical", names, has_missing=has_missing))
        labels = tuple(names[i] for i in order)
        cells.append(Cells(np.where(gap, -1, rng.integers(0, k, n_rows)), labels))
    columns.append(Column(None, "poisson"))
    cells.append(Cells(rng.poisson(2, n_rows).astype(float)))
    if strided:
        numbers = np.column_stack([c.values for c in cells if c.labels is None])
        places = iter(range(numbers.shape[1]))
        cells = [c if c.labels is not None else Cells(numbers[:, next(places)]) for c in cells]
    return columns, cells


@needs_code
@pytest.mark.parametrize("n_rows", [1, 7, 9000, 70_000])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("n_columns", [6, 7])
def test_features_are_the_same(n_rows, strided, n_columns):
    columns, table = made(n_rows, n_rows, strided)
    columns, table = columns[:n_columns], table[:n_columns]
    same(*both(columns, table))


@needs_code
def test_cells_that_need_a_look():
    columns, table = made(3, 50, False)
    cells = list(table)
    gaps = cells[0].values.copy()
    gaps[7] = np.nan
    cells[0] = Cells(gaps)  # missing where the column knows of no missing cells
    found, expected = both(columns, cells)
    same(found, expected)
    assert found.left_out[7, 0]
    codes = table[1].values.copy()
    codes[3] = 17.0
    cells[1] = Cells(codes)
    found, expected = both(columns, cells, unseen="missing")
    same(found, expected)
    assert found.left_out[3, 1]
    with pytest.raises(encoding.InputError, match=r"row 3, column 1 must hold its .*; it is 17"):
        encoded(columns, cells)
    codes[3] = 0.5
    with pytest.raises(encoding.InputError, match=r"row 3, column 1 must .* it is 0\.5"):
        encoded(columns, cells)
    cells[1] = table[1]
    gaps[7] = np.inf
    with pytest.raises(encoding.InputError, match="row 7, column 0 is inf"):
        encoded(columns, cells)


@needs_code
def test_other_levels():
    column = Column(None, "categorical", ("a", "b", "rest"), other="rest")
    table = [Cells(np.array([0, 1, 2, -1, 3]), ("b", "x", "a", "y"))]
    found, expected = both([column], table)
    same(found, expected)
    assert found.features[[0, 1, 2, 4]].tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]


@needs_code
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 200), st.booleans())
def test_any_table(seed, n_rows, strided):
    columns, table = made(seed, n_rows, strided)
    same(*both(columns, table))


@needs_code
def test_other_shapes_are_refused():
    target = np.empty((3, 2))
    with pytest.raises(ValueError, match="other shapes"):
        code.fill_column(np.zeros(4), target, 2, 3, 0.0)
    with pytest.raises(ValueError, match="other shapes"):
        code.fill_column(np.zeros(3), target, 2, 4, 0.0)
    with pytest.raises(ValueError, match="other shapes"):
        code.fill_column(np.zeros(3, dtype=np.float32), target, 2, 3, 0.0)
    with pytest.raises((BufferError, ValueError)):
        code.fill_column(np.zeros(3), np.asfortranarray(target), 2, 3, 0.0)
