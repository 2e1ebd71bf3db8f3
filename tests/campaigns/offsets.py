"""Moments against a one-pass reference in extended precision, in units of their standard error."""

from collections import Counter
from functools import cache

import numpy as np

from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.summary import MomentSummary

LIMIT = 1e-9
long_double = np.longdouble


def worst_error(summary, rows, weights=None):
    """Largest error of any moment in units of its own standard error."""
    moments, d = summary.moments(), rows.shape[1]
    columns = ((rows.astype(long_double) - moments.shift) / moments.scale).T.copy()
    w = np.ones(len(rows), long_double) if weights is None else weights.astype(long_double)
    share = w / w.sum()

    @cache  # the product of a set is that of all but its last column, times that column
    def product(s):
        return product(s[:-1]) * columns[s[-1]] if s else np.ones(len(rows), long_double)

    def error(value, products):
        mean = share @ products
        spread = np.sqrt(share @ (products - mean) ** 2 / len(rows))
        return float(abs(value - mean) / spread) if spread > 0 else float(abs(value - mean))

    worst = 0.0
    for t in range(2, summary.order + 1):
        for value, s in zip(moments.distinct[t], index_sets(d, t), strict=True):
            worst = max(worst, error(value, product(tuple(s))))
    for s in range(summary.squared_order + 1):
        for j in range(d):
            for value, c in zip(moments.squared[s][j], sets_without(d, s, j), strict=True):
                worst = max(worst, error(value, columns[j] ** 2 * product(tuple(c))))
    return worst


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


def offset_rows(rng, n, d):
    """Normal columns, each about an offset of up to 1e12 deviations, all in one unit."""
    offsets = 10.0 ** rng.uniform(-2, 12, d) * rng.choice([-1, 1], d)
    return (rng.standard_normal((n, d)) + offsets) * 10.0 ** rng.uniform(-50, 50)


def offsets(start, stop, seed):
    """A case: rows in one shard cut into calls, and in two shards that are merged."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 2, number])
        d, n = int(rng.integers(1, 5)), int(8 + 2500 * rng.random() ** 3)
        order = int(rng.integers(1, d + 1))
        strange = number % 2
        rows = (
            np.column_stack([strange_column(rng, n) for _ in range(d)])
            if strange
            else offset_rows(rng, n, d)
        )
        whole = MomentSummary(d, order, shard_id="a", n_threads=1)
        for part in np.array_split(rows, int(rng.integers(1, min(4, n + 1)))):
            whole.update(part)
        cut = int(rng.integers(1, n))
        parts = [
            MomentSummary(d, order, shard_id=str(i), n_threads=1).update(part)
            for i, part in enumerate((rows[:cut], rows[cut:]))
        ]
        union = parts[0] + parts[1]
        assert union - parts[1] == parts[0], f"case {number}: subtracting does not undo adding"
        for summary in (whole, union):
            assert MomentSummary.from_bytes(summary.to_bytes()) == summary, number
            error = worst_error(summary, rows)
            assert error < LIMIT, f"case {number}: {error:.2g} standard errors"
        counts += Counter({"offsets": 1, "strange tables": strange, "rows": n})
    return counts


def extreme_rows(rng, n):
    """Hardly varying rows of any size that doubles have, denormal ones included."""
    size = 10.0 ** (rng.uniform(-323, -295) if rng.random() < 0.5 else rng.uniform(-323, 290))
    kinds = [
        lambda: np.full((n, 2), size),
        lambda: size * rng.standard_normal((n, 2)),
        lambda: size * (np.arange(2 * n).reshape(n, 2) > 1),
        lambda: size * rng.choice([1, -1, 2], (n, 2)),
        lambda: size * (1 + 1e-16 * rng.integers(0, 3, (n, 2))),
    ]
    return kinds[rng.integers(len(kinds))]()


def extremes(start, stop, seed):
    """A case: whatever can be summed, with weights of any size, loads again."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 9, number])
        n = int(rng.integers(1, 40))
        rows = extreme_rows(rng, n)
        weights = 10.0 ** rng.uniform(-11, 14, n) if number % 3 else rng.uniform(0.1, 3, n)
        one = MomentSummary(2, 2, shard_id="a", n_threads=1)
        one.update(rows, weights)
        other = MomentSummary(2, 2, shard_id="b", n_threads=1)
        other.update(rows[:1] * rng.choice([1, 0, 1e-10, 3]))
        union = one + other
        assert union - other == one, f"case {number}"
        for summary in (one, other, union, union - other):
            again = MomentSummary.from_bytes(summary.to_bytes())
            assert again == summary, f"case {number}"
            assert np.isfinite(again.mean).all()
        counts["extreme tables saved and loaded"] += 4
    return counts
