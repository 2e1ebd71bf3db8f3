"""Laws of tables that comparisons are tried on: `benchmarks/compare.py`."""

import numpy as np


def normal(n, d, rng):
    return rng.standard_normal((n, d))


def correlated(n, d, rng):
    return rng.standard_normal((n, d)) + rng.standard_normal((n, 1))


def blocks(n, d, rng):
    """Blocks of three columns with correlations of 0.9; all spreads vary together."""
    common = np.repeat(rng.standard_normal((n, -(-d // 3))), 3, axis=1)[:, :d]
    return (common + rng.standard_normal((n, d)) / 3) * np.exp(0.3 * rng.standard_normal((n, 1)))


def exponential(n, d, rng):
    return rng.exponential(size=(n, d))


def lognormal(n, d, rng):
    return np.exp(rng.standard_normal((n, d)))


def joint_lognormal(n, d, rng):
    """Lognormal columns with a common factor."""
    return np.exp((rng.standard_normal((n, d)) + rng.standard_normal((n, 1))) / np.sqrt(2))


def skewed(n, d, rng):
    """Lognormal, exponential and normal columns in turn, with a common factor in some."""
    rows = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    rows[:, ::3] = np.exp(rows[:, ::3])
    rows[:, 1::3] = rng.exponential(size=rows[:, 1::3].shape)
    return rows


def heavy(n, d, rng):
    return rng.standard_t(5, size=(n, d))


def clusters(n, d, rng):
    means = np.random.default_rng(d).normal(scale=2.0, size=(3, d))
    return means[rng.integers(3, size=n)] + rng.standard_normal((n, d))


def answers(n, d, rng):
    """0 and 1 as numbers, half of the rows each or nearly so."""
    return (rng.random((n, d)) < 0.5 + 0.02 * (np.arange(d) % 5)).astype(float)


def rare(n, d, rng):
    """0 and 1 as numbers; 1 to 9 % are 1."""
    return (rng.random((n, d)) < 0.01 + 0.02 * (np.arange(d) % 5)).astype(float)


def counts(n, d, rng):
    """Poisson counts with means of 0.2 to 6, and a common factor."""
    means = np.array([0.2, 1.0, 6.0])[np.arange(d) % 3]
    return rng.poisson(means * np.exp(0.4 * rng.standard_normal((n, 1)))).astype(float)


def zeros(n, d, rng):
    """Amounts that are 0 in 90 % of the rows, and skewed elsewhere."""
    return np.where(rng.random((n, d)) < 0.1, rng.gamma(2.0, size=(n, d)), 0.0)


def ties(n, d, rng):
    """Skewed numbers of few different values."""
    return np.floor(3 * rng.exponential(size=(n, d))) + np.round(rng.standard_normal((n, 1)))


def kinds(n, d, rng):
    """Yes/no answers and categories, rare ones among them, that depend on each other."""
    hidden = rng.standard_normal(n)
    columns = {}
    for j in range(d):
        if j % 2:
            columns[f"yes {j}"] = rng.random(n) < (0.5, 0.1, 0.03)[j % 3] * np.where(
                hidden > 0, 0.4, 1.0
            )
        else:
            common = rng.choice(4, n, p=[0.5, 0.3, 0.17, 0.03])
            place = np.where((hidden > 1) & (rng.random(n) < 0.5), 1, common)
            columns[f"kind {j}"] = np.array(["a", "b", "c", "d"])[place]
    return columns


def table(n, d, rng):
    """Numbers with gaps, counts, yes/no answers and categories in turn."""
    hidden = rng.standard_normal(n)
    columns = {}
    for j in range(d):
        if j % 4 == 0:
            values = np.exp(0.5 * hidden + rng.standard_normal(n))
            columns[f"gaps {j}"] = np.where(rng.random(n) < 0.1, np.nan, values)
        elif j % 4 == 1:
            columns[f"count {j}"] = rng.poisson(np.exp(0.3 * hidden)).astype(float)
        elif j % 4 == 2:
            columns[f"yes {j}"] = rng.random(n) < 1 / (1 + np.exp(-hidden))
        else:
            columns[f"kind {j}"] = np.array(["a", "b", "c"])[rng.choice(3, n, p=[0.5, 0.4, 0.1])]
    return columns


LAWS = {
    f.__name__.replace("_", "-"): f
    for f in (
        normal, correlated, blocks, exponential, lognormal, joint_lognormal, skewed, heavy,
        clusters, answers, rare, counts, zeros, ties, kinds, table,
    )
}  # fmt: skip
