"""Groups that other rows would give again: the number of components, and the verdict.

    python benchmarks/groups.py laws --jobs 16           # n_components="auto" on 120 laws
    python benchmarks/groups.py clouds --jobs 16         # one cloud: a number and a verdict
    python benchmarks/groups.py tables --jobs 2          # real tables: numbers over five seeds
    python benchmarks/groups.py times                    # seconds of fits with defaults
"""

import numpy as np
from blocks import block_law
from families import categories, mixed_law, yes_no
from laws import equal_means, means_on_a_line, one_column

import momentmix as mm

# -- laws -----------------------------------------------------------------------------------------


def _rows_and_labels(weights, n, rng):
    return rng.choice(len(weights), size=n, p=weights)


def _noise(shape, n, d, rng):
    """Independent coordinates of mean 0 and variance 1 of one shape; (n, d)."""
    if shape == "t":
        df = rng.uniform(4, 5)
        return rng.standard_t(df, (n, d)) / np.sqrt(df / (df - 2))
    if shape == "logistic":
        return rng.logistic(size=(n, d)) * np.sqrt(3) / np.pi
    if shape == "gamma":
        k = rng.uniform(1.5, 5)
        return (rng.gamma(k, size=(n, d)) - k) / np.sqrt(k)
    if shape == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    if shape == "skewed":  # and correlated
        k = rng.uniform(2, 5)
        z = (rng.gamma(k, size=(n, d)) - k) / np.sqrt(k)
        root = np.linalg.cholesky(_correlation(d, rng))
        return z @ root.T
    if shape == "correlated":
        return rng.normal(size=(n, d)) @ np.linalg.cholesky(_correlation(d, rng)).T
    return rng.normal(size=(n, d))


def _correlation(d, rng):
    loadings = rng.uniform(0.3, 0.8, d) * rng.choice([-1, 1], d)
    table = np.outer(loadings, loadings)
    np.fill_diagonal(table, 1.0)
    return table


SHAPES = ("t", "logistic", "gamma", "uniform", "skewed", "rounded")


def shaped(shape, r, d, n, rng):
    """Components of one shape, means at least 4 deviations apart."""
    weights = rng.dirichlet(np.full(r, 8.0))
    while True:
        means = rng.uniform(1.5, 2.5) * rng.normal(size=(r, d))
        gaps = np.linalg.norm(means[:, None] - means, axis=2) + 99 * np.eye(r)
        if gaps.min() >= 4:
            break
    labels = rng.choice(r, size=n, p=weights)
    rows = np.empty((n, d))
    for i in range(r):
        mine = labels == i
        noise = _noise(shape, int(mine.sum()), d, rng)
        rows[mine] = means[i] + rng.uniform(0.7, 1.3, d) * noise
    if shape == "rounded":
        rows = np.round(rows / rng.choice([0.25, 0.5, 1.0], d)) * 1.0
    return rows, labels


def nested(r, d, n, rng):
    """A narrow component inside a wide one, and others beside them."""
    means = 3.0 * rng.normal(size=(r, d))
    means[1] = means[0] + 0.2 * rng.normal(size=d)
    variances = rng.uniform(0.5, 1.5, (r, d))
    variances[1] *= 0.1
    return mm.DiagonalMixture(rng.dirichlet(np.full(r, 8.0)), means, variances).sample(n, rng)


def law(kind, seed):
    """Rows (or a table), true number, options of the fit; ``kind`` is one of `KINDS`."""
    rng = np.random.default_rng([35, seed, sum(map(ord, kind))])
    n = int(np.exp(rng.uniform(np.log(2000), np.log(20_000))))
    d, r = int(rng.integers(4, 13)), int(rng.integers(2, 7))
    options = {}
    if kind == "diag":
        gap = rng.uniform(1.0, 2.0)
        while True:
            truth = mm.DiagonalMixture(
                rng.dirichlet(np.full(r, 8.0)), gap * rng.normal(size=(r, d)),
                rng.uniform(0.5, 1.5, (r, d)),
            )  # fmt: skip
            rows, labels = truth.sample(n, rng)
            if (truth.predict(rows) == labels).mean() >= 0.85:
                return rows, r, options
            gap += 0.1
    if kind == "block":
        sizes = [int(k) for k in rng.integers(1, 4, size=4)]
        sizes[0] = max(2, sizes[0])
        r = min(r, 4)
        return block_law(sizes, r, rng, gap=1.5)[0].sample(max(n, 4000), rng)[0], r, options
    if kind in ("one column", "equal means", "line"):
        make = {"one column": one_column, "equal means": equal_means, "line": means_on_a_line}[kind]
        r = min(r, 2 if kind == "equal means" else 4)
        d = max(d, 8) if kind == "equal means" else d
        return make(r, d, rng).sample(n, rng)[0], r, options
    if kind == "nested":
        r = max(2, min(r, 4))
        return nested(r, d, n, rng)[0], r, options
    if kind in SHAPES:
        return shaped(kind, r, d, n, rng)[0], r, options
    if kind.startswith("one "):
        shape = kind[4:]
        rows = _noise(shape, n, d, rng) * rng.uniform(0.5, 2.0, d)
        if shape == "rounded":
            rows = np.round(2 * rows / rng.choice([0.5, 1.0, 2.0], d))
        return rows, 1, options
    if kind == "yes/no":
        drawn = yes_no(min(r, 4), 12 + d, rng)
    elif kind == "categories":
        drawn = categories(min(r, 4), rng, n_columns=8 + d // 2)
    else:
        drawn = mixed_law(min(r, 4), rng)
        if kind == "gaps":
            drawn.seen = rng.uniform(0.6, 1.0, (len(drawn.weights), len(drawn.columns)))
            options["missing"] = "model"
    options["families"] = drawn.families
    return drawn.sample(n, rng)[0], len(drawn.weights), options


CLASSES = ("yes/no", "categories", "mixed", "gaps")
CLOUDS = tuple(f"one {s}" for s in ("gaussian", "correlated", "uniform", "logistic", "t",
                                    "gamma", "skewed", "rounded"))  # fmt: skip
KINDS = ("diag", "block", "one column", "equal means", "line", "nested", *SHAPES, *CLOUDS, *CLASSES)
