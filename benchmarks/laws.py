"""The random mixtures that the measurements use."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix import DiagonalMixture


def separated(r, d, rng):
    """Section 6.3 of the paper at unit scale: μ ~ N(0, I), σ = |N(0, 1)|, uniform weights."""
    weights = rng.uniform(size=r)
    means, deviations = rng.normal(size=(r, d)), np.abs(rng.normal(size=(r, d)))
    return DiagonalMixture(weights / weights.sum(), means, np.maximum(deviations**2, 1e-6))


def overlapping(r, d, rng):
    """Means close to each other against the spread of the components."""
    weights = rng.uniform(0.5, 1.5, size=r)
    means = rng.uniform(0.35, 0.7) * rng.normal(size=(r, d))
    return DiagonalMixture(weights / weights.sum(), means, rng.uniform(0.5, 1.5, size=(r, d)))


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
    floor = 1e-6 * rows.var(axis=0)
    fitted = mixture.with_variance_floor(floor)
    gap = truth.log_prob(rows).mean() - fitted.log_prob(rows).mean()
    return bayes, agreement(labels, fitted.predict(rows), size), gap


def shared_coordinates(r, d, rng):
    """Components that differ in about half of their coordinates only, equal weights."""
    means = rng.normal(size=(r, d)) * 1.5
    means[rng.uniform(size=(r, d)) < 0.5] = 0.0
    return DiagonalMixture(np.full(r, 1 / r), means, rng.uniform(0.5, 1.5, size=(r, d)))


def one_light(r, d, rng):
    """One component of weight 0.02, the rest equal."""
    weights = np.full(r, 0.98 / (r - 1))
    weights[0] = 0.02
    return DiagonalMixture(weights, 1.5 * rng.normal(size=(r, d)), rng.uniform(0.3, 2, (r, d)))
