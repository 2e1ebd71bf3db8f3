"""Sums of slabs against products written out, by NumPy and torch; plans against the same."""

import numpy as np
import pytest
from campaigns.written_out import written_out

from momentmix.arrays import namespace
from momentmix.summary.kernels import array_sums
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.kernels.tile_plan import n_factors, tile_plan
from momentmix.summary.kernels.triton_sums import _high_places
from momentmix.summary.layout import Layout

SHAPES = [
    (1, 1, 0), (2, 1, 0), (2, 2, 1), (3, 3, 2), (5, 4, 2), (5, 4, 3), (6, 5, 2), (7, 6, 5),
    (8, 7, 2), (16, 4, 2), (65, 2, 1), (61, 1, 0),
]  # fmt: skip


def example(d, n=3 * 40):
    rng = np.random.default_rng(d)
    frame = (2.0 ** rng.integers(-3, 3, d), rng.integers(-2, 3, d).astype(float))
    return rng.standard_normal((n, d)), rng.random(n), frame


@pytest.fixture(params=["numpy", "torch"])
def put(request):
    """NumPy → arrays of this library."""
    if request.param == "numpy":
        return np.asarray
    return pytest.importorskip("torch").from_numpy


@pytest.mark.parametrize(("d", "m", "q"), SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_slab_sums_match_products_written_out(put, d, m, q, weighted, monkeypatch):
    layout = Layout(d, m, q)
    rows, weights, frame = example(d)
    slabs = put(rows.reshape(3, 40, d))
    given = put(weights.reshape(3, 40)) if weighted else None
    # Memory for the tables of 17 rows of each slab: three chunks, the last one short.
    executor = ArrayExecutor(layout, namespace(slabs))
    n_monomials = executor._plan.lefts.shape[1] + executor._plan.rights.shape[1]
    room = 3 * 17 * 8 * (2 * n_monomials + 6 * d)
    monkeypatch.setattr(array_sums, "free_bytes", lambda array: room)
    found = np.asarray(executor.sums(slabs, given, frame))
    points = rows * frame[0] - frame[1]
    for slab in range(3):
        part = slice(40 * slab, 40 * slab + 40)
        w = weights[part] if weighted else np.ones(40)
        expected = written_out(layout, points[part], w)
        size = written_out(layout, np.abs(points[part]), w)
        assert (np.abs(found[slab] - expected) <= 1e-13 * size + 1e-300).all()


@pytest.mark.parametrize(("d", "m", "q"), [shape for shape in SHAPES if shape[1] < 7])
@pytest.mark.parametrize("block", [16, 64])
def test_tiles_hold_every_moment(d, m, q, block):
    layout = Layout(d, m, q).without_high
    plan = tile_plan(layout, block)
    rows, weights, frame = example(d)
    points = np.concatenate([(rows * frame[0] - frame[1]).T, np.ones((1, 120)), np.zeros((1, 120))])
    lefts, rights = points[plan.lefts].prod(axis=0), points[plan.rights].prod(axis=0)
    assert len(plan.lefts) == n_factors(layout)
    tiles = [
        (lefts[a * block : (a + 1) * block] * weights) @ rights[b * block : (b + 1) * block].T
        for a, b in plan.tiles
    ]
    assert all(a == b for a, b in plan.tiles[: plan.n_same])
    found = np.stack(tiles).ravel()[plan.positions]
    expected = written_out(layout, points[:d].T, weights)
    size = written_out(layout, np.abs(points[:d].T), weights)
    np.testing.assert_array_less(np.abs(found - expected), 1e-13 * size + 1e-300)


@pytest.mark.parametrize(("d", "m", "q"), [(1, 1, 0), (2, 2, 1), (5, 3, 2), (16, 4, 2), (17, 4, 2)])
def test_places_of_high_sections_in_what_the_kernel_gives(d, m, q):
    """The kernel gives y³·yᵀ, y²·(y²)ᵀ and three vectors, filled up to a block of features."""
    layout, block = Layout(d, m, q), 32
    rows, weights, _ = example(d)
    y = np.zeros((block, len(rows)))
    y[:d] = rows.T
    flat = [(weights * y**3) @ y.T, (weights * y**2) @ (y**2).T]
    flat += [(weights * y**p).sum(axis=1) for p in (3, 5, 6)]
    found = np.concatenate([part.ravel() for part in flat])[_high_places(layout, block)]
    expected = written_out(layout, rows, weights)[layout.without_high.n_entries :]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
