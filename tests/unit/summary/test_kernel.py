"""Sums of blocks: the plan, compiled code against NumPy and products written out."""

import os
import subprocess
import sys

import numpy as np
import pytest
from campaigns.written_out import written_out
from hypothesis import given, settings
from hypothesis import strategies as st

from momentmix.native import code
from momentmix.summary import blocks, digits, gpu, kernel
from momentmix.summary.blocks import block_extremes
from momentmix.summary.digits import floats, from_places, summed
from momentmix.summary.kernel import block_digits, block_sums, plan
from momentmix.summary.layout import Layout

needs_code = pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")
SETS = [] if code is None else code.use()
SHAPES = [(1, 1, 0), (3, 3, 0), (5, 3, 2), (7, 7, 6), (9, 4, 2), (20, 3, 2), (40, 2, 1)]


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


def problem(layout, n, is_weighted, seed, n_blocks=3):
    rng, d = np.random.default_rng(seed), layout.n_features
    rows = rng.standard_normal((n_blocks, n, d)) * 2.0 ** rng.integers(-3, 4, d)
    weights = rng.random((n_blocks, n)) if is_weighted else None
    return rows, weights, (2.0 ** rng.integers(-3, 4, d), rng.integers(-2, 3, d).astype(float))


@given(layouts(), st.integers(1, 600), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_digits_are_those_of_the_sums_of_numpy(layout, n, is_weighted, seed):
    rows, weights, units = problem(layout, n, is_weighted, seed)
    expected = block_sums(layout, rows, weights, units)
    points = np.abs(rows * units[0] - units[1])
    sizes = block_sums(layout, points, weights, (np.ones_like(units[0]), 0 * units[1]))
    each = block_digits(layout, rows, weights, units, 7, each=True)
    found = np.array([floats(from_places(own)) for own in each])
    assert (np.abs(found - expected) <= 1e-13 * sizes + 1e-25).all()
    together = block_digits(layout, rows, weights, units, 7, n_threads=2)
    assert np.array_equal(from_places(together), summed([*map(from_places, each)]))


@needs_code
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_instruction_set_sums_what_is_written_out(name, shape):
    layout = Layout(*shape)
    rows, weights, units = problem(layout, 700, True, 0, n_blocks=1)
    points = rows[0] * units[0] - units[1]
    expected, sizes = (written_out(layout, p, weights[0]) for p in (points, np.abs(points)))
    try:
        bits = set()
        for other in SETS:
            code.use(other)
            bits.add(block_digits(layout, rows, weights, units, 9).tobytes())
        code.use(name)
        found = floats(from_places(block_digits(layout, rows, weights, units, 9)))
    finally:
        code.use(SETS[0])
    assert len(bits) == 1
    assert (np.abs(found - expected) <= 1e-14 * sizes + 1e-25).all()


@needs_code
def test_an_unknown_instruction_set_is_refused():
    with pytest.raises(ValueError, match="no code named mmx"):
        code.use("mmx")


@pytest.mark.parametrize("by_numpy", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 2), (2, 1024, 15), (2, 32, 4)])
def test_extremes_of_blocks(shape, by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(blocks, "code", None)
    rows = np.random.default_rng(0).standard_normal(shape)
    expected = np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1)
    assert (block_extremes(rows) == expected).all()
    assert (block_extremes(np.asfortranarray(rows)) == expected).all()
    rows[-1, -1, -1] = np.nan
    assert np.isnan(block_extremes(rows)[-1]).any()
    assert (block_extremes(rows)[:-1] == expected[:-1]).all()


@needs_code
@pytest.mark.parametrize("shape", SHAPES)
def test_origins_move_as_they_do_by_numpy(shape, monkeypatch):
    layout, rng = Layout(*shape), np.random.default_rng(1)
    sums = rng.integers(-(1 << 31), 1 << 31, (5, layout.n_entries))
    deltas = [int(rng.integers(-(1 << 40), 1 << 40)) << 9 * j for j in range(shape[0])]
    found = digits.moved(layout, sums, deltas)
    monkeypatch.setattr(digits, "code", None)
    assert np.array_equal(found, digits.moved(layout, sums, deltas))
    back = digits.moved(layout, found, [-delta for delta in deltas])
    assert np.array_equal(back, digits.carried(sums))


def test_numpy_does_the_work_where_there_is_no_compiled_code():
    assert kernel.code is code
    script = """if True:
        import numpy as np, momentmix as mm
        from momentmix.native import code
        rows = np.random.default_rng(0).standard_normal((30_000, 6))
        print(code is None, *mm.summarize(rows, 4).moments().distinct[4].tolist())
    """
    found = []
    for setting in ("0", ""):
        output = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "MOMENTMIX_NATIVE": setting},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert output[0] == str(setting == "0" or code is None)
        found.append(np.array(output[1:], dtype=float))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shape", [(2, 2, 1), (5, 4, 2), (7, 6, 2), (16, 4, 2), (61, 2, 1)])
def test_tiles_of_the_device_hold_all_moments(shape):
    """What the two kernels of a device sum, by NumPy."""
    layout, (d, *_) = Layout(*shape), shape
    rows = np.random.default_rng(0).standard_normal((45, d))
    points = np.vstack([rows.T, np.ones(45), np.zeros(45)])
    tiles, block = gpu.tile_plan(layout), gpu._powers_block(d)
    left, right = (points[own].prod(axis=0).reshape(-1, gpu.BLOCK, 45) for own in tiles[:2])
    low = np.concatenate([(left[a] @ right[b].T).ravel() for a, b in tiles.tiles])
    z = np.zeros((block, 45))
    z[:d] = rows.T
    powers = [(z**p).sum(axis=1) for p in (3, 5, 6)]
    high = np.concatenate([(z**3 @ z.T).ravel(), (z**2 @ (z**2).T).ravel(), *powers])
    found = np.concatenate([low[tiles.positions], high[gpu._high_places(layout, block)]])
    expected = block_sums(layout, rows[None], None, (np.ones(d), np.zeros(d)))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
