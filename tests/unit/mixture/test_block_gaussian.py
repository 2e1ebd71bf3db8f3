"""Densities, EM steps and the prior of mixtures with joined features, against oracles."""

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.unit.mixture.test_blocks import BLOCKS, parameters

from momentmix.fitting.em.em import log_likelihood
from momentmix.fitting.em.scores import add_prior, information_matrix, mean_score, scoring_step
from momentmix.mixture import gaussian
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import statistics_of
from momentmix.mixture.gaussian import coefficients, features_of, m_step
from momentmix.mixture.parameters import (
    Parameters,
    moved_spread,
    parameters_from,
)
from momentmix.mixture.prior import Structure, VariancePrior

N = 3000


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(5)
    p = parameters(rng)
    z, _ = gaussian.sample(p, N, rng)
    structure = Structure.of_total(1e-6, BLOCKS, np.cov(z.T))
    return p, z, features_of(z, BLOCKS), VariancePrior.of_rows(N, 3, structure)


def test_the_m_step_is_the_maximum(case):
    """Of expected log-likelihood plus prior, over all covariances of a block."""
    _, z, _, _ = case
    rows, block = z[:40, [1, 4, 5]], Blocks.full(3)
    structure = Structure.of_total(1e-6, block, np.cov(z[:, [1, 4, 5]].T))
    prior = VariancePrior(1e-6, 0.4, 0.05, structure)
    found = m_step(features_of(rows, block).sum(axis=1)[None], prior)

    def loss(step):
        moved = moved_spread(found, step[None])
        return -log_likelihood(features_of(rows, block), moved) * 40 - prior.log_density(moved)

    start = loss(np.zeros(6))
    best = minimize(loss, np.full(6, 0.1), method="BFGS", options={"gtol": 1e-6})
    assert best.fun == pytest.approx(start, abs=1e-6)
    np.testing.assert_allclose(best.x, 0.0, atol=1e-3)


def test_scores_are_derivatives(case):
    p, _, features, prior = case
    score = mean_score(statistics_of(coefficients(p), features, BLOCKS)[0], p)
    information = information_matrix(features, p)
    add_prior(score, information, p, prior, N)

    def objective(step):
        change = parameters_from(step, 3, BLOCKS)
        weights = p.weights * np.exp(change.weights)
        moved = Parameters(
            weights / weights.sum(), p.means + change.means, p.variances, p.covariances, BLOCKS
        )
        moved = moved_spread(moved, change.spread)
        return log_likelihood(features, moved) + prior.log_density(moved) / N

    steps = 1e-5 * np.eye(score.size)
    slopes = [(objective(step) - objective(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(score, slopes, atol=1e-7)
    moved, predicted = scoring_step(p, score, information, prior.structure)
    gain = log_likelihood(features, moved) - log_likelihood(features, p)
    gain += float(prior.log_density(moved) - prior.log_density(p)) / N
    assert gain == pytest.approx(predicted, rel=0.3)


def test_floors_are_least_eigenvalues(case):
    p, z, _, _ = case
    structure = Structure.of_total(0.3, BLOCKS, np.cov(z.T))
    raised = structure.raised(p)
    values = structure.eigenvalues(raised)
    assert values.min() >= 0.3 * (1 - 1e-9)
    assert structure.eigenvalues(p).min() < 0.3  # control
    again = structure.raised(raised)
    np.testing.assert_allclose(again.spread, raised.spread, rtol=1e-9)
