"""Tables drawn from known distributions, which the measurements share.

A seed gives the same rows on every commit; nothing here depends on momentmix but its mixtures.
"""

from itertools import pairwise

import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import gammaln

import momentmix as mm

# weights, means, variances → mixture; the class is that of commit 7c52438, for comparisons with it
diagonal = getattr(mm.Mixture, "diagonal", None) or mm.DiagonalMixture


# -- Gaussian components, independent columns -----------------------------------------------------


def separated(r, d, rng):
    """Section 6.3 of the paper at unit scale: μ ~ N(0, I), σ = |N(0, 1)|, uniform weights."""
    weights = rng.uniform(size=r)
    means, deviations = rng.normal(size=(r, d)), np.abs(rng.normal(size=(r, d)))
    return diagonal(weights / weights.sum(), means, np.maximum(deviations**2, 1e-6))


def overlapping(r, d, rng):
    """Means close to each other against the spread of the components."""
    weights = rng.uniform(0.5, 1.5, size=r)
    means = rng.uniform(0.35, 0.7) * rng.normal(size=(r, d))
    return diagonal(weights / weights.sum(), means, rng.uniform(0.5, 1.5, size=(r, d)))


def shared_coordinates(r, d, rng):
    """Components that differ in about half of their coordinates only, equal weights."""
    means = rng.normal(size=(r, d)) * 1.5
    means[rng.uniform(size=(r, d)) < 0.5] = 0.0
    return diagonal(np.full(r, 1 / r), means, rng.uniform(0.5, 1.5, size=(r, d)))


def one_light(r, d, rng):
    """One component of weight 0.02, the rest equal."""
    weights = np.full(r, 0.98 / (r - 1))
    weights[0] = 0.02
    return diagonal(weights, 1.5 * rng.normal(size=(r, d)), rng.uniform(0.3, 2, (r, d)))


GENERIC = {
    "separated": separated,
    "overlapping": overlapping,
    "shared": shared_coordinates,
    "light": one_light,
}

# -- structured: low moments that hardly change, or fewer directions than components ---------------


def _unequal_weights(r, rng):
    weights = rng.uniform(0.4, 1.6, size=r)  # up to 4 : 1
    return weights / weights.sum()


def _apart(r, d, rng, directions, positions, shared):
    """Means at `positions` (r, k) along `directions` (k, d), in deviations of the columns.

    Variances are the same in all components where `shared`, else up to 2.5 : 1.
    """
    columns = rng.uniform(0.5, 1.5, size=d)
    factors = np.ones((r, d)) if shared else rng.uniform(0.6, 1.5, size=(r, d))
    means = positions @ directions * np.sqrt(columns)
    return diagonal(_unequal_weights(r, rng), means, columns * factors)


def one_column(r, d, rng):
    """Clusters that differ in one column only, by 3 to 6 standard deviations each."""
    direction = np.eye(d)[[rng.integers(d)]]
    positions = np.cumsum(rng.uniform(3, 6, size=r))[:, None]
    return _apart(r, d, rng, direction, positions, shared=True)


def two_columns(r, d, rng):
    """Clusters that differ in two columns only, by 2 to 5 standard deviations in each."""
    directions = np.eye(d)[rng.choice(d, size=2, replace=False)]
    positions = np.cumsum(rng.uniform(2, 5, size=(r, 2)), axis=0) * rng.choice([-1, 1], size=2)
    return _apart(r, d, rng, directions, positions, shared=True)


def _around_one_mean(r, d, rng, distance):
    """Means `distance` deviations from one point in each column, log-normal variances."""
    columns = rng.uniform(0.5, 1.5, size=d)
    variances = columns * np.exp(rng.uniform(0.6, 1.0) * rng.normal(size=(r, d)))
    means = distance * rng.normal(size=(r, d)) * np.sqrt(columns)
    return diagonal(_unequal_weights(r, rng), means, variances)


def equal_means(r, d, rng):
    """The same mean for all, different variances."""
    return _around_one_mean(r, d, rng, 0.0)


def nearly_equal_means(r, d, rng):
    """Means 0.05 to 0.3 standard deviations apart, different variances."""
    return _around_one_mean(r, d, rng, rng.uniform(0.05, 0.3))


def means_on_a_line(r, d, rng):
    """Means on a line in a random direction, 3 to 6 standard deviations between neighbors."""
    direction = rng.normal(size=(1, d))
    direction /= np.linalg.norm(direction)
    steps = rng.uniform(3, 6) * rng.uniform(0.8, 1.2, size=r)
    return _apart(r, d, rng, direction, np.cumsum(steps)[:, None], shared=rng.uniform() < 0.5)


def means_in_a_plane(r, d, rng):
    """Means in a random plane, at least 3 standard deviations from each other."""
    directions = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    positions = np.zeros((r, 2))
    while pdist(positions).min() < 3:
        positions = 4 * rng.normal(size=(r, 2))  # one draw in eight is accepted at r = 6
    return _apart(r, d, rng, directions, positions, shared=rng.uniform() < 0.5)


def nested(r, d, n, rng):
    """Rows: a narrow component inside a wide one, and others beside them."""
    means = 3.0 * rng.normal(size=(r, d))
    means[1] = means[0] + 0.2 * rng.normal(size=d)
    variances = rng.uniform(0.5, 1.5, (r, d))
    variances[1] *= 0.1
    return diagonal(rng.dirichlet(np.full(r, 8.0)), means, variances).sample(n, rng)[0]


# -- correlated columns ---------------------------------------------------------------------------


def block_mixture(sizes, r, rng, gap=1.0):
    """A mixture whose columns are correlated in blocks of these sizes, and the joined columns.

    Means are N(0, gap²); correlations have either sign.
    """
    edges = np.cumsum([0, *sizes])
    groups = [list(range(a, b)) for a, b in pairwise(edges.tolist())]
    covariances = np.zeros((r, edges[-1], edges[-1]))
    for i in range(r):
        for group in groups:
            root = rng.normal(size=(len(group), len(group) + 1))
            part = root @ root.T + 0.1 * np.eye(len(group))
            deviations = rng.uniform(0.5, 1.5, len(group)) / np.sqrt(np.diag(part))
            covariances[i][np.ix_(group, group)] = part * np.outer(deviations, deviations)
    weights = rng.dirichlet(np.full(r, 8.0))
    means = gap * rng.normal(size=(r, edges[-1]))
    return mm.Mixture(weights, means, covariances), [group for group in groups if len(group) > 1]


# -- other shapes ---------------------------------------------------------------------------------


def apart_means(r, d, rng):
    """Random means, at least 4 from each other."""
    while True:
        means = rng.uniform(1.5, 2.5) * rng.normal(size=(r, d))
        if (np.linalg.norm(means[:, None] - means, axis=2) + 99 * np.eye(r)).min() >= 4:
            return means


def noise(shape, n, d, rng):
    """Rows (n, d) of mean 0 and variance 1 of one shape; "skewed" ones are correlated as well."""
    if shape == "t":
        df = rng.uniform(4, 5)
        return rng.standard_t(df, (n, d)) / np.sqrt(df / (df - 2))
    if shape == "logistic":
        return rng.logistic(size=(n, d)) * np.sqrt(3) / np.pi
    if shape in ("gamma", "skewed"):
        k = rng.uniform(2 if shape == "skewed" else 1.5, 5)
        z = (rng.gamma(k, size=(n, d)) - k) / np.sqrt(k)
        return z @ _correlation_root(d, rng).T if shape == "skewed" else z
    if shape == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    z = rng.normal(size=(n, d))
    return z @ _correlation_root(d, rng).T if shape == "correlated" else z


def _correlation_root(d, rng):
    loadings = rng.uniform(0.3, 0.8, d) * rng.choice([-1, 1], d)
    table = np.outer(loadings, loadings)
    np.fill_diagonal(table, 1.0)
    return np.linalg.cholesky(table)


def shaped(shape, r, d, n, rng):
    """Rows of components of one shape."""
    weights = rng.dirichlet(np.full(r, 8.0))
    means = apart_means(r, d, rng)
    labels = rng.choice(r, size=n, p=weights)
    rows = np.empty((n, d))
    for i in range(r):
        members = np.flatnonzero(labels == i)
        z = noise(shape, members.size, d, rng)
        rows[members] = means[i] + rng.uniform(0.7, 1.3, d) * z
    return np.round(rows / rng.choice([0.25, 0.5, 1.0], d)) if shape == "rounded" else rows


# -- columns of several families ------------------------------------------------------------------


class Columns:
    """A mixture of columns that are independent within components, and draws of it.

    `columns` is a list of (family, parameters): ("gaussian", means (r,), deviations (r,)),
    ("poisson", rates (r,)), ("negative_binomial", rates (r,), sizes (r,)),
    ("bernoulli", probabilities (r,)), ("categorical", probabilities (r, K)).
    `observed` (r, number of columns) has the probabilities that a cell is not missing.
    """

    def __init__(self, weights, columns, observed=None):
        self.weights, self.columns, self.observed = weights, columns, observed

    @property
    def families(self):
        return {j: c[0] for j, c in enumerate(self.columns) if c[0] != "gaussian"}

    def sample(self, n, rng):
        labels = rng.choice(len(self.weights), size=n, p=self.weights)
        table = np.empty((n, len(self.columns)))
        for j, (family, *p) in enumerate(self.columns):
            if family == "gaussian":
                table[:, j] = p[0][labels] + p[1][labels] * rng.standard_normal(n)
            elif family == "poisson":
                table[:, j] = rng.poisson(p[0][labels])
            elif family == "negative_binomial":
                rates, sizes = (x[labels] for x in p)
                table[:, j] = rng.negative_binomial(sizes, sizes / (sizes + rates))
            elif family == "bernoulli":
                table[:, j] = rng.random(n) < p[0][labels]
            else:
                edges = np.cumsum(p[0], axis=1)[labels]
                table[:, j] = (rng.random(n)[:, None] > edges[:, :-1]).sum(axis=1)
        if self.observed is not None:
            table[rng.random(table.shape) >= self.observed[labels]] = np.nan
        return table, labels

    def joint(self, table):
        """log ω_i p_i(y), of shape (n, r); missing cells are part of it."""
        joint = np.tile(np.log(self.weights), (len(table), 1))
        for j, (family, *p) in enumerate(self.columns):
            y = table[:, j, None]
            missing = np.isnan(y)
            y = np.where(missing, 0.0, y)
            if family == "gaussian":
                part = -0.5 * ((y - p[0]) / p[1]) ** 2 - np.log(p[1]) - 0.5 * np.log(2 * np.pi)
            elif family == "poisson":
                part = y * np.log(p[0]) - p[0] - gammaln(y + 1)
            elif family == "negative_binomial":
                m, s = p
                part = gammaln(y + s) - gammaln(s) - gammaln(y + 1)
                part += y * np.log(m / (s + m)) - s * np.log1p(m / s)
            elif family == "bernoulli":
                part = np.where(y > 0, np.log(p[0]), np.log1p(-p[0]))
            else:
                part = np.log(p[0]).T[y[:, 0].astype(int)]
            if self.observed is not None:
                q = self.observed[:, j]
                part = np.where(missing, np.log1p(-np.minimum(q, 1 - 1e-12)), part + np.log(q))
            joint += part
        return joint

    def accuracy(self, table, labels):
        return float((self.joint(table).argmax(axis=1) == labels).mean())


def yes_no(r, d, rng, low=0.1, high=0.9):
    columns = [("bernoulli", rng.uniform(low, high, r)) for _ in range(d)]
    return Columns(rng.dirichlet(np.full(r, 8.0)), columns)


def overlapping_answers(rng, r=3, d=12):
    """Classes that are hard to tell apart: Bayes accuracy between 0.65 and 0.7."""
    while True:
        truth = yes_no(r, d, rng, 0.3, 0.7)
        if 0.65 <= truth.accuracy(*truth.sample(20_000, rng)) <= 0.7:
            return truth


def categories(r, rng, n_columns=8, n_levels=4):
    columns = [("categorical", rng.dirichlet(np.ones(n_levels), r)) for _ in range(n_columns)]
    return Columns(rng.dirichlet(np.full(r, 8.0)), columns)


def mixed_columns(r, rng, n_numbers=5, n_counts=5, n_yes_no=6):
    columns = [("gaussian", rng.normal(size=r), rng.uniform(0.5, 1.2, r)) for _ in range(n_numbers)]
    columns += [("poisson", rng.uniform(0.5, 6.0, r)) for _ in range(n_counts)]
    columns += [("bernoulli", rng.uniform(0.1, 0.9, r)) for _ in range(n_yes_no)]
    return Columns(rng.dirichlet(np.full(r, 8.0)), columns)


def overdispersed_counts(r, d, rng):
    """Negative binomial counts of components that rows tell apart."""
    while True:
        rates = np.exp(rng.uniform(np.log(0.3), np.log(20), (d, r)))
        sizes = np.exp(rng.uniform(np.log(0.5), np.log(5), (d, r)))
        columns = [("negative_binomial", *c) for c in zip(rates, sizes, strict=True)]
        truth = Columns(rng.dirichlet(np.full(r, 8.0)), columns)
        if truth.accuracy(*truth.sample(4000, rng)) >= 0.85:
            return truth
