"""Rows that are forgotten: never into a file that cannot load."""

from collections import Counter

import numpy as np

from momentmix.errors import InputError
from momentmix.summary.summary import MomentSummary


def strange_rows(rng):
    """Rows with outliers, constants, heavy tails and weights of sixteen orders of magnitude."""
    n, d = int(10 ** rng.uniform(1, 3.5)), 2
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d) + 10.0 ** rng.uniform(-2, 8)
    kind = rng.integers(4)
    if kind == 1:
        rows[: n // 2, 0] = rows[-3:, 0] = rows[0, 0]
    elif kind == 2:
        rows[rng.integers(n), 0] *= 10.0 ** rng.uniform(1, 7)
    elif kind == 3:
        rows[:, 1] = rng.standard_cauchy(n) ** 3
    weights = 10.0 ** rng.uniform(-8, 8, n) if rng.random() < 0.4 else np.ones(n)
    return rows, weights


def forgetting_files(start, stop, seed):
    """A case: what is left after forgetting loads again, or forgetting was refused."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 4, number])
        rows, weights = strange_rows(rng)
        n_left = int(rng.integers(1, 4)) if number % 2 else len(rows) // 2
        lost = rng.permutation(len(rows))[n_left:]
        summary = MomentSummary(2, 2, shard_id="a", n_threads=1)
        before = summary.update(rows, weights).to_bytes()
        share = rng.choice([1.0, 0.5]) if n_left > 3 else 1.0
        try:
            summary.forget(rows[lost], weights[lost] * share)
        except InputError:
            assert summary.to_bytes() == before, f"case {number}: refused, yet changed"
            counts["forgettings refused"] += 1
            continue
        again = MomentSummary.from_bytes(summary.to_bytes())
        assert again == summary, f"case {number}"
        assert again.n_rows == n_left
        if share == 1.0:
            left = np.setdiff1d(np.arange(len(rows)), lost)
            check_left(again, rows[left], weights[left], rows, f"case {number}")
        counts["forgettings saved and loaded"] += 1
    return counts


def check_left(summary, rows, weights, all_rows, place):
    """Mean and variance are those of the rows that are left, as far as the rest's digits went."""
    mean = np.average(rows, axis=0, weights=weights)
    variance = np.average((rows - mean) ** 2, axis=0, weights=weights)
    deviations = np.abs(all_rows - np.median(all_rows, axis=0))
    typical = np.array([np.median(column[column > 0]) for column in deviations.T])
    scale = np.maximum(np.sqrt(variance), typical) + 1e-9 * np.abs(mean)
    assert (np.abs(summary.mean - mean) <= 1e-3 * scale).all(), place
    assert (np.abs(summary.variance - variance) <= 1e-3 * scale**2).all(), place
