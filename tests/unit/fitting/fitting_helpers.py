"""Mixtures and exact moments that several tests of the fitting stage use."""

import numpy as np

from momentmix import Mixture
from momentmix.fitting.moments.conditions import point_powers
from momentmix.fitting.moments.covariance import monomial_correlation
from momentmix.fitting.moments.monomials import gaussian_powers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import index_sets, monomials
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor, power_sum


class ExactMoments:
    """Exact moments of a mixture of Gaussians with diagonal covariances."""

    def __init__(self, mixture):
        self.mixture, self.n_features = mixture, mixture.n_features

    def moment_tensor(self, order):
        """Σ_i ω_i μ_i^{⊗m} on Ω_m."""
        return IncompleteSymmetricTensor.from_factors(
            self.mixture.means, order, self.mixture.weights
        )

    def squared_moments(self, feature, order):
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        m, others = self.mixture, np.arange(self.n_features) != feature
        second = m.weights * (m.means[:, feature] ** 2 + m.variances[:, feature])
        return monomials(m.means[:, others].T, order)[-1] @ second


def random_mixture(r, d, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, size=r)
    means = spread * rng.normal(size=(r, d))
    return Mixture.diagonal(weights / weights.sum(), means, rng.uniform(0.3, 1.5, size=(r, d)))


def exact_moments(mixture, order, n_rows=10**12):
    """Moments without noise: what infinitely many rows would give."""
    mean = mixture.weights @ mixture.means
    variance = mixture.weights @ (mixture.variances + (mixture.means - mean) ** 2)
    scale = np.sqrt(variance)
    z = Mixture.diagonal(
        mixture.weights, (mixture.means - mean) / scale, mixture.variances / variance
    )
    d = mixture.n_features
    orders = [np.ones(1)] + [power_sum(z.means, s, z.weights) for s in range(1, order + 1)]
    squared = [
        np.array([ExactMoments(z).squared_moments(j, q) for j in range(d)])
        for q in range(min(2, d - 1) + 1)
    ]
    powers = gaussian_powers(parameters_of(z), 6)
    pairs, others = index_sets(d, 2), [np.delete(np.arange(d), j) for j in range(d)]
    cubed = np.array([z.weights @ (powers[3][:, [j]] * z.means[:, others[j]]) for j in range(d)])
    squares = z.weights @ (powers[2][:, pairs[:, 0]] * powers[2][:, pairs[:, 1]])
    wide = 20 * scale
    return StandardMoments(
        d, order, tuple(orders), tuple(squared), n_rows, float(n_rows), mean, scale,
        mean - wide, mean + wide,
        powers=np.array([z.weights @ powers[p] for p in range(3, 7)]),
        cubed=cubed, two_squares=squares,
    )  # fmt: skip


def parameters_of(mixture):
    return Parameters(mixture.weights, mixture.means, mixture.variances)


def matched(found, truth):
    """Components of `found` in the order of `truth`."""
    from scipy.optimize import linear_sum_assignment

    gaps = ((truth.means[:, None] - found.means[None]) ** 2).sum(axis=2)
    k = linear_sum_assignment(gaps)[1]
    return found.weights[k], found.means[k], found.variances[k]


def sample_means(conditions, parameters, n_rows, rng):
    """Means of the conditions' products over rows of a mixture: what a table would hold."""
    rows, _ = sample(parameters, n_rows, rng)
    blocks = (rows[start : start + 500] for start in range(0, n_rows, 500))
    highest = conditions.highest_exponent
    return sum(conditions.products(point_powers(b, highest)).sum(axis=1) for b in blocks) / n_rows


def monomial_covariance(conditions, parameters):
    """Covariance of one row's monomials under a mixture, of shape (n, n)."""
    correlation, scale = monomial_correlation(conditions, parameters)
    return correlation * scale * scale[:, None]
