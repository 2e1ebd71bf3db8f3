"""A mixture of every family by hand, and the density of its cells by SciPy."""

import numpy as np
from scipy import stats

import momentmix as mm
from momentmix.families.counts import PoissonBlock
from momentmix.families.gaussian import GaussianBlock
from momentmix.families.levels import BernoulliBlock, CategoricalBlock

NAMES = ("age", "smokes", "visits", "plan", "x", "y", "calls", "member")
PLANS = ("basic", "gold", "silver")


def all_families(seed=0, r=3):
    """Three joined and single Gaussian columns, yes/no, categories, counts; half with ``seen``."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((r, 2, 3))
    seen = lambda: rng.uniform(0.3, 0.95, r)  # noqa: E731
    blocks = [
        GaussianBlock(40 + 10 * rng.standard_normal(r), rng.uniform(1, 9, r), "age", seen()),
        BernoulliBlock(rng.uniform(0.1, 0.9, r), ("no", "yes"), names="smokes"),
        PoissonBlock(rng.uniform(0.5, 6, r), names="visits"),
        CategoricalBlock(rng.dirichlet([1, 1, 1], r), PLANS, names="plan", seen=seen()),
        GaussianBlock(3 * rng.standard_normal((r, 2)), factor @ factor.swapaxes(1, 2), ("x", "y")),
        PoissonBlock(rng.uniform(0.5, 6, r), names="calls", seen=seen()),
        BernoulliBlock(rng.uniform(0.1, 0.9, r), (False, True), names="member", seen=seen()),
    ]
    return mm.Mixture.from_blocks(rng.dirichlet(np.full(r, 5.0)), blocks)


def is_missing(value):
    return value is None or value != value


def cell_density(block, component, values):
    """p_i of the cells of one block by SciPy; cells that are missing are left out or `seen`."""
    gaps = [is_missing(value) for value in values]
    if block.seen is not None:
        if gaps[0]:
            return 1 - block.seen[component]
        return block.seen[component] * _value_density(block, component, values)
    kept = [place for place, gap in enumerate(gaps) if not gap]
    if not kept:
        return 1.0
    if block.family == "gaussian":
        mean = block.means[component][kept]
        covariance = block.covariances[component][np.ix_(kept, kept)]
        return stats.multivariate_normal(mean, covariance).pdf([values[j] for j in kept])
    return _value_density(block, component, values)


def _value_density(block, component, values):
    value = values[0]
    if block.family == "gaussian":
        deviation = np.sqrt(block.covariances[component, 0, 0])
        return stats.norm(block.means[component, 0], deviation).pdf(value)
    if block.family == "poisson":
        return stats.poisson(block.rates[component]).pmf(value)
    if block.family == "bernoulli":
        p = block.probabilities[component]
        return p if value == block.levels[1] else 1 - p
    return block.probabilities[component, block.levels.index(value)]


def joint_densities(mixture, rows):
    """ω_i p_i of each row, of shape (n, r)."""
    columns = list(rows.values()) if isinstance(rows, dict) else list(np.asarray(rows, object).T)
    table = np.empty((len(columns[0]), mixture.n_components))
    for n in range(len(table)):
        for i, weight in enumerate(mixture.weights):
            parts = [
                cell_density(block, i, [columns[j][n] for j in block.columns])
                for block in mixture.blocks
            ]
            table[n, i] = weight * np.prod(parts)
    return table


def with_gaps(rows, seed=1, share=0.3):
    """The rows with cells missing at random, in every column."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, column in rows.items():
        is_text = column.dtype == object or column.dtype == bool
        column = column.astype(object if is_text else float)
        column[rng.random(len(column)) < share] = None if is_text else np.nan
        found[name] = column
    return found


def parameter_errors(truth, estimate):
    """Relative norm-wise errors of weights, means and variances after matching."""
    found = truth.align(estimate)
    pairs = {name: [np.nan_to_num(getattr(m, name)) for m in (truth, found)]
             for name in ("weights", "means", "variances")}  # fmt: skip
    return {
        name: float(np.linalg.norm(b - a) / np.linalg.norm(a)) for name, (a, b) in pairs.items()
    }
