"""The random mixtures that the measurements use."""

import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist
from sklearn.mixture import GaussianMixture

import momentmix as mm

# weights, means, variances → mixture; the class is that of commit 7c52438, for comparisons with it
diagonal = getattr(mm.Mixture, "diagonal", None) or mm.DiagonalMixture


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


def agreement(labels, predicted, r):
    table = np.zeros((r, r))
    np.add.at(table, (labels, predicted), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / labels.size


def accuracies(mixture, truth, n_test=50000, seed=10**6):
    """(Bayes accuracy, accuracy of the mixture, nats per row below the truth) on fresh rows."""
    rows, labels = truth.sample(n_test, random_state=seed)
    size = max(truth.n_components, mixture.n_components)
    bayes = (truth.predict(rows) == labels).mean()
    gap = truth.log_prob(rows).mean() - mixture.log_prob(rows).mean()
    return bayes, agreement(labels, mixture.predict(rows), size), gap


def covered(fit, truth, rows):
    """(inside their 95 % interval, all) of weights, means and variances; components of 500 rows."""
    gaps = ((truth.means[:, None] - fit.mixture.means[None]) ** 2).sum(axis=2)
    i, k = linear_sum_assignment(gaps)
    heavy = truth.weights[i] * len(rows) >= 500
    floor, box, counts = 2e-6 * rows.var(axis=0), fit.intervals(), {}
    for name in ("weights", "means", "variances"):
        low, high = (side[k] for side in getattr(box, name))
        true = getattr(truth, name)[i]
        inside = ((low <= true) & (true <= high))[heavy]
        if name == "variances":
            inside = inside[(true > floor)[heavy]]
        counts[name] = (int(inside.sum()), int(inside.size))
    return counts


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


# -- structured laws: low moments that hardly change, or fewer directions than components ----------


def _unequal_weights(r, rng):
    weights = rng.uniform(0.4, 1.6, size=r)  # up to 4 : 1
    return weights / weights.sum()


def _column_variances(d, rng):
    return rng.uniform(0.5, 1.5, size=d)


def _apart(r, d, rng, directions, positions, shared):
    """Means at `positions` (r, k) along `directions` (k, d), in deviations of the columns.

    Variances are the same in all components where `shared`, else up to 2.5 : 1.
    """
    columns = _column_variances(d, rng)
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
    columns = _column_variances(d, rng)
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


LAWS = {
    "separated": separated,
    "overlapping": overlapping,
    "shared": shared_coordinates,
    "light": one_light,
}


def sklearn_best(rows, r, floor, seed, n_init=10):
    """EM of scikit-learn from k-means++ seeds as a mixture, and its seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(
            r, covariance_type="diag", init_params="k-means++", n_init=n_init, max_iter=500,
            reg_covar=floor, random_state=seed,
        )  # fmt: skip
        t = time.perf_counter()
        model.fit(rows)
        t = time.perf_counter() - t
    variances = np.maximum(model.covariances_, floor)
    return diagonal(model.weights_ / model.weights_.sum(), model.means_, variances), t
