"""The plan of the kernels, and compiled code against NumPy, on layouts drawn at random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from momentmix.native import code
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.kernels.native_sums import NativeExecutor
from momentmix.summary.kernels.plan import plan
from momentmix.summary.layout import Layout


@st.composite
def layouts(draw):
    d = draw(st.integers(1, 9))
    order = draw(st.integers(1, d))
    return Layout(d, order, draw(st.integers(0, order - 1)))


@given(layouts(), st.sampled_from([1, 4, 64]))
@settings(max_examples=60, deadline=None)
def test_every_moment_has_a_cell_of_its_own(layout, height):
    found = plan(layout, height)
    assert len(np.unique(found.positions)) == layout.n_entries
    top, bottom, first, last, starts = found.strips.T
    n_cells = (bottom - top) * (last - first)
    assert (bottom - top <= height).all()
    assert (starts == np.cumsum(n_cells) - n_cells).all()
    assert 0 <= found.positions.min() <= found.positions.max() < n_cells.sum()
    is_stored = found.right_factors[:, 0] < np.maximum(1, np.arange(len(found.rights)))
    assert is_stored.all()  # before the monomials that are made of it


@pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")
@given(layouts(), st.integers(1, 600), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_compiled_code_gives_the_sums_of_numpy(layout, n, is_weighted, seed):
    rng, d = np.random.default_rng(seed), layout.n_features
    rows = rng.standard_normal((3, n, d)) * 10.0 ** rng.integers(-2, 3, d)
    weights = rng.random((3, n)) if is_weighted else None
    units = np.ones(d), rng.integers(-2, 3, d).astype(float)
    found = NativeExecutor(layout).sums(rows, weights, units, n_threads=2)
    expected = ArrayExecutor(layout).sums(rows, weights, units)
    sizes = ArrayExecutor(layout).sums(np.abs(rows - units[1]), weights, (units[0], np.zeros(d)))
    assert (np.abs(found - expected) <= 1e-13 * sizes).all()
