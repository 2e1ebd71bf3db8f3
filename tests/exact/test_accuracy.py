"""Moments against a one-pass reference in extended precision, in units of the standard error."""

import numpy as np
import pytest

from momentmix import MomentSummary
from momentmix.core.labels import index_sets, sets_without

LIMIT = 1e-9
long_double = np.longdouble

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="needs an extended long double"
)


def worst_error(summary, rows, weights=None):
    """Largest error of any moment in units of its own standard error."""
    moments, d = summary.moments(), rows.shape[1]
    points = (rows.astype(long_double) - moments.shift) / moments.scale
    w = np.ones(len(rows), long_double) if weights is None else weights.astype(long_double)

    def error(values, products):
        mean = (w * products).sum() / w.sum()
        spread = np.sqrt((w * (products - mean) ** 2).sum() / w.sum() / len(rows))
        return float(abs(values - mean) / spread) if spread > 0 else float(abs(values - mean))

    worst = 0.0
    for t in range(2, summary.order + 1):
        for value, s in zip(moments.distinct[t], index_sets(d, t), strict=True):
            worst = max(worst, error(value, points[:, s].prod(axis=1)))
    for s in range(summary.squared_order + 1):
        for j in range(d):
            for value, c in zip(moments.squared[s][j], sets_without(d, s, j), strict=True):
                products = points[:, j] ** 2 * points[:, c].prod(axis=1)
                worst = max(worst, error(value, products))
    return worst


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


def test_one_row_a_million_deviations_out():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((5000, 7))
    rows[4321] = 1e6
    rows[77, 3] = -1e6
    assert worst_error(MomentSummary(7, 7).update(rows), rows) < LIMIT


@pytest.mark.parametrize("spread", [1e-12, 1e-8, 1e-3, 1e6])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -123456.789, 1e-30, 1e30])
def test_first_blocks_constant_later_not(constant, spread):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((6000, 7)) * max(abs(constant), 1e-12) * spread + constant
    rows[:2500, :5] = constant
    rows[:2500, 5] = 0.0
    summary = MomentSummary(7, 7, shard_id="a")
    for part in np.array_split(rows, 5):
        summary.update(part)
    assert worst_error(summary, rows) < LIMIT
    parts = [
        MomentSummary(7, 7, shard_id=str(i)).update(p)
        for i, p in enumerate((rows[:2500], rows[2500:]))
    ]
    assert worst_error(parts[0] + parts[1], rows) < LIMIT


def test_first_block_holds_only_rounding_noise():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((6000, 7))
    rows[:1500] *= 1e-17
    assert worst_error(MomentSummary(7, 7).update(rows), rows) < LIMIT


def test_first_block_is_wide_and_later_ones_narrow():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((8000, 7)) * 1e-9
    for j in range(7):
        rows[j, :] = 0.0
        rows[j, j] = 1e6  # alone in its row: no product of two columns sees it
    rows[7:1500] = 0.0
    assert worst_error(MomentSummary(7, 7).update(rows), rows) < LIMIT


def test_mean_that_wanders_off():
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((20_000, 7))
    rows[1024:] += 1e5
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


def test_shards_with_their_own_frames():
    rng = np.random.default_rng(8)
    parts = [
        rng.standard_normal((500, 7)) * 10.0 ** rng.uniform(-2, 2, 7) + rng.uniform(-50, 50, 7)
        for _ in range(12)
    ]
    parts[3][17, 2] = 1e7
    total = sum(MomentSummary(7, 7, shard_id=str(i)).update(p) for i, p in enumerate(parts))
    assert worst_error(total, np.concatenate(parts)) < LIMIT


def test_many_rows_at_order_seven():
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((100_000, 7)) + 1e3
    assert worst_error(MomentSummary(7, 7, squared_order=1).update(rows), rows) < LIMIT


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


def strange_column(rng, n):
    """A column of some unpleasant kind, in some unit."""
    values = rng.standard_normal(n)
    kinds = [
        lambda: np.full(n, rng.choice([0, 1, 0.1, 3.7])),
        lambda: np.where(np.arange(n) < rng.integers(n), rng.choice([0, 1, 0.1]), values),
        lambda: values * (rng.random(n) < 0.02),
        lambda: rng.standard_cauchy(n),
        lambda: np.exp(5 * values),
        lambda: values + 10.0 ** rng.uniform(0, 11),
        lambda: np.where(np.arange(n) == rng.integers(n), 10.0 ** rng.uniform(3, 20), values),
        lambda: np.sort(values),
        lambda: np.round(values * 2),
        lambda: values * np.where(np.arange(n) < n // 3, 10.0 ** rng.uniform(-30, 30), 1),
        lambda: np.where(rng.random(n) < 0.6, 1 + 1e-16 * np.round(values * 3), values),
        lambda: 10.0 ** rng.uniform(-250, 0, n),
    ]
    unit = 10.0 ** (rng.uniform(-60, 60) if rng.random() < 0.3 else rng.uniform(-4, 4))
    return kinds[rng.integers(len(kinds))]() * unit


@pytest.mark.parametrize("seed", [*range(20), pytest.param(None, marks=pytest.mark.long)])
def test_strange_columns_in_one_shard_and_in_two(seed):
    for number in range(2000) if seed is None else [seed]:
        rng = np.random.default_rng(1000 + number)
        d, n = int(rng.integers(1, 6)), int(rng.integers(2, 4000))
        order = int(rng.integers(1, d + 1))
        rows = np.column_stack([strange_column(rng, n) for _ in range(d)])
        whole = MomentSummary(d, order, shard_id="a")
        for part in np.array_split(rows, int(rng.integers(1, 3))):
            whole.update(part)
        cut = int(rng.integers(1, n))
        parts = [
            MomentSummary(d, order, shard_id=str(i)).update(part)
            for i, part in enumerate((rows[:cut], rows[cut:]))
        ]
        union = parts[0] + parts[1]
        assert union - parts[1] == parts[0]
        for summary in (whole, union):
            assert MomentSummary.from_bytes(summary.to_bytes()) == summary
            assert worst_error(summary, rows) < LIMIT, number
