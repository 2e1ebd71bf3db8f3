"""Compiled code against NumPy and sums written out; all instruction sets have the same bits."""

import os
import subprocess
import sys

import numpy as np
import pytest
from campaigns.written_out import written_out

from momentmix.native import code
from momentmix.summary import blocks, digits
from momentmix.summary.blocks import block_extremes
from momentmix.summary.kernels.native_sums import NativeExecutor
from momentmix.summary.layout import Layout
from momentmix.tables.validation import LARGEST_VALUE, in_range

needs_code = pytest.mark.skipif(code is None, reason="momentmix was built without a compiler")
SETS = [] if code is None else code.use()
SHAPES = [(1, 1, 0), (2, 2, 1), (3, 3, 0), (5, 3, 2), (6, 5, 3), (7, 7, 6), (4, 4, 0), (9, 4, 2)]
SHAPES += [(8, 6, 2), (17, 4, 2), (20, 3, 2), (40, 2, 1)]


@pytest.fixture
def instruction_set():
    yield code.use
    code.use(SETS[0])


def problem(d, n, weighted):
    rng = np.random.default_rng(d * 1000 + n)
    weights = rng.random((2, n)) if weighted else None
    units = 2.0 ** rng.integers(-3, 4, d), rng.integers(-2, 3, d).astype(float)
    return rng.standard_normal((2, n, d)), weights, units


@needs_code
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("n", [1, 256, 700])
@pytest.mark.parametrize(("d", "m", "q"), SHAPES)
def test_sums_match_products_written_out(name, d, m, q, n, instruction_set):
    instruction_set(name)
    layout = Layout(d, m, q)
    for weighted in (False, True):
        rows, weights, units = problem(d, n, weighted)
        sums = NativeExecutor(layout).sums(rows, weights, units)
        for i in range(2):
            w = np.ones(n) if weights is None else weights[i]
            points = rows[i] * units[0] - units[1]
            expected, size = (written_out(layout, p, w) for p in (points, np.abs(points)))
            assert (np.abs(sums[i] - expected) <= 1e-14 * size).all()


@needs_code
@pytest.mark.skipif(len(SETS) < 2, reason="this processor has one set of instructions")
@pytest.mark.parametrize(("d", "m", "q"), SHAPES)
def test_every_instruction_set_has_the_same_bits(d, m, q, instruction_set):
    rows, weights, units = problem(d, 1037, True)
    found = {None: set(), "weighted": set()}
    for name in SETS:
        instruction_set(name)
        executor = NativeExecutor(Layout(d, m, q))
        found[None].add(executor.sums(rows, None, units).tobytes())
        found["weighted"].add(executor.sums(rows, weights, units).tobytes())
    assert [len(bits) for bits in found.values()] == [1, 1]


@needs_code
def test_an_unknown_instruction_set_is_refused(instruction_set):
    with pytest.raises(ValueError, match="no code named mmx"):
        instruction_set("mmx")


@needs_code
def test_a_block_has_the_same_sums_alone_and_among_others():
    rows, weights, units = problem(6, 900, True)
    executor = NativeExecutor(Layout(6, 4, 2))
    for w in (None, weights):
        both = executor.sums(rows, w, units)
        alone = [
            executor.sums(rows[i : i + 1], None if w is None else w[i : i + 1], units)
            for i in (0, 1)
        ]
        assert (both == np.concatenate(alone)).all()
    ones = np.stack([np.ones(900), weights[1]])
    assert (executor.sums(rows, ones, units)[0] == executor.sums(rows, None, units)[0]).all()


@pytest.mark.parametrize("by_numpy", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 2), (2, 1024, 15), (1, 1029, 3), (2, 32, 4)])
def test_extremes_of_blocks(shape, by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(blocks, "code", None)
    rows = np.random.default_rng(0).standard_normal(shape)
    expected = np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1)
    assert (block_extremes(rows) == expected).all()
    transposed = np.asfortranarray(rows)
    assert (block_extremes(transposed) == expected).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**1001, -(2.0**1001)])
@pytest.mark.parametrize("place", [0, 8191, 8200, 19_999])
def test_one_bad_value_is_found_wherever_it_is(bad, place):
    rows = np.full((10_000, 2), LARGEST_VALUE)
    assert in_range(rows)
    assert in_range(rows[:, 1])
    rows.flat[place] = bad
    assert not in_range(rows)
    assert not in_range(np.asfortranarray(rows))


@needs_code
def test_digits_are_those_of_numpy(monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 1000)) * 2.0 ** rng.integers(-90, 60, (3, 1000))
    expected, found = np.zeros((2, 6, 1000))
    blocks.add_digits(values.copy(), found)
    monkeypatch.setattr(blocks, "code", None)
    blocks.add_digits(values, expected)
    assert (found == expected).all()


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
    script = """if True:
        import numpy as np, momentmix as mm
        from momentmix.native import code
        rows = np.random.default_rng(0).standard_normal((30_000, 6))
        print(code is None, *mm.summarize(rows, 4).tensor(4).values.tolist())
    """
    found = []
    for setting in ("0", ""):
        environment = {**os.environ, "MOMENTMIX_NATIVE": setting}
        output = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert output[0] == str(setting == "0" or code is None)
        found.append(np.array(output[1:], dtype=float))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-15)
