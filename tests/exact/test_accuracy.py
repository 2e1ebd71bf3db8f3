"""Moments against a one-pass reference in extended precision, in units of the standard error."""

import numpy as np
import pytest
from campaigns import offsets
from campaigns.offsets import LIMIT, long_double, worst_error

from momentmix import MomentSummary

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="needs an extended long double"
)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e8, 1e12])
@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e50])
def test_offsets_and_scales(offset, scale):
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((4000, 7)) + offset * rng.uniform(0.5, 1, 7)) * scale
    summary = MomentSummary(7, 7, squared_order=3, shard_id="a")
    for part in np.array_split(rows, 3):
        summary.update(part)
    assert worst_error(summary, rows) < LIMIT


def test_skewed_sparse_and_heavy_tailed_columns():
    rng = np.random.default_rng(1)
    rows = np.column_stack(
        [
            rng.standard_cauchy(6000),
            rng.exponential(size=6000) ** 3,
            rng.random(6000) < 0.01,
            np.where(rng.random(6000) < 0.02, rng.standard_normal(6000), 1e5),
            np.sort(rng.standard_normal(6000)),
            np.arange(6000) * 1e-3,
            np.cumsum(rng.standard_normal(6000)),
        ]
    )
    summary = MomentSummary(7, 7, shard_id="a").update(rows)
    assert worst_error(summary, rows) < LIMIT


@pytest.mark.parametrize("spread", [1e-12, 1e-8, 1e-3, 1e6])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -123456.789, 1e-30, 1e30])
def test_first_blocks_constant_later_not(constant, spread):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 7)) * max(abs(constant), 1e-12) * spread + constant
    rows[:1250, :5] = constant  # more than a block of the sums
    rows[:1250, 5] = 0.0
    summary = MomentSummary(7, 7, shard_id="a")
    for part in np.array_split(rows, 5):
        summary.update(part)
    assert worst_error(summary, rows) < LIMIT
    parts = [
        MomentSummary(7, 7, shard_id=str(i)).update(p)
        for i, p in enumerate((rows[:1250], rows[1250:]))
    ]
    assert worst_error(parts[0] + parts[1], rows) < LIMIT


def test_first_block_is_wide_and_later_ones_narrow():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((8000, 7)) * 1e-9
    for j in range(7):
        rows[j, :] = 0.0
        rows[j, j] = 1e6  # alone in its row: no product of two columns sees it
    rows[7:1500] = 0.0
    assert worst_error(MomentSummary(7, 7).update(rows), rows) < LIMIT


def test_weighted_rows():
    rng = np.random.default_rng(7)
    rows, weights = rng.standard_normal((4000, 7)) + 50, rng.integers(0, 4, 4000).astype(float)
    summary = MomentSummary(7, 7).update(rows, weights)
    keep = weights > 0
    assert worst_error(summary, rows[keep], weights[keep]) < LIMIT
    assert summary.n_rows == keep.sum()
    assert summary.sum_weights == weights.sum()
    assert summary.effective_rows == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_mean_and_variance_are_correctly_rounded():
    rng = np.random.default_rng(10)
    rows = rng.standard_normal((5000, 3)) + np.array([0, 1e4, 1e8])
    summary = MomentSummary(3, 2).update(rows)
    exact = rows.astype(long_double)
    assert summary.mean == pytest.approx(exact.mean(axis=0).astype(float), rel=2e-16)
    assert summary.variance == pytest.approx(exact.var(axis=0).astype(float), rel=1e-14)


def test_shards_in_units_a_world_apart():
    rng = np.random.default_rng(11)
    rows = np.column_stack(
        [
            10.0 ** rng.uniform(-250, 0, 800),
            rng.standard_normal(800) * np.where(np.arange(800) < 300, 1e-100, 1e100),
            np.full(800, 1e45),
            np.full(800, 0.1),
            rng.standard_normal(800),
        ]
    )
    parts = [MomentSummary(5, 5, shard_id=str(i)).update(rows[i::3]) for i in range(3)]
    assert worst_error(sum(parts), rows) < LIMIT
    parts = [
        MomentSummary(5, 5, shard_id=str(i)).update(p)
        for i, p in enumerate(np.split(rows, [1, 300]))
    ]
    assert worst_error(sum(parts), rows) < LIMIT


def test_random_offsets_and_strange_columns_in_one_shard_and_in_two():
    assert offsets.offsets(0, 60, seed=0)["strange tables"] == 30


def test_numbers_of_any_size_load_again():
    assert offsets.extremes(0, 250, seed=0)["extreme tables saved and loaded"] == 1000


def test_negative_control_a_moment_that_is_off_is_noticed():
    """The same reference finds a sum that lost its lowest 20 bits."""
    rows = np.random.default_rng(12).standard_normal((500, 3))
    summary = MomentSummary(3, 2, shard_id="a").update(rows)
    assert worst_error(summary, rows) < LIMIT
    assert worst_error(summary, rows + 2.0**-30 * (rows > 0)) > LIMIT
