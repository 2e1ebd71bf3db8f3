"""Covariances of parameters: closed forms where the model is wrong, scores where it is right."""

import numpy as np
import pytest
from block_laws import block_law
from family_laws import drawn, mixed_law, standard_moments

import momentmix as mm
from momentmix.families.counts import Poisson
from momentmix.families.distribution import Distribution
from momentmix.fitting.em.scores import information_matrix
from momentmix.fitting.inference.uncertainty import uncertainty_after_em
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import features_of, sample
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from

N = 40_000


def skewed(n, seed=0):
    """Rows of two correlated columns that are skewed and heavy-tailed, about their mean."""
    rng = np.random.default_rng(seed)
    rows = rng.gamma(1.5, size=(n, 2)) @ [[1.0, 0.4], [0.0, 0.8]]
    return rows - rows.mean(axis=0)


def one_component(rows, joined):
    blocks = Blocks.of(2, [[0, 1]] if joined else [])
    covariance = np.cov(rows.T, bias=True)
    pairs = covariance[:1, 1:] if joined else None
    return Parameters(np.ones(1), rows.mean(axis=0)[None], np.diag(covariance)[None], pairs, blocks)


@pytest.mark.parametrize("joined", [False, True])
def test_errors_of_one_component_are_those_of_moments_whatever_the_distribution(joined):
    rows = skewed(N)
    p = one_component(rows, joined)
    found = uncertainty_after_em(p, features_of(rows, p.blocks), N)
    # The covariance of means, variances and the covariance is that of (y, y², y_j y_k) by rows.
    parts = [rows, rows**2] + [rows[:, :1] * rows[:, 1:]] * joined
    expected = np.cov(np.hstack(parts).T) / N
    errors = (found.factor @ found.factor.T)[1:, 1:]
    np.testing.assert_allclose(errors, expected, rtol=0.01, atol=1e-3 * expected.max())
    # Control: by the model, the variance of a variance v is 2 v² / n.
    assert (np.diag(errors)[2:4] > 1.5 * 2 * p.variances[0] ** 2 / N).all()


def test_the_error_of_a_rate_is_that_of_a_mean_where_counts_vary_more():
    rng = np.random.default_rng(1)
    rows = rng.poisson(rng.gamma(2.0, 2.0, size=(N, 1))).astype(float)
    blocks = Blocks.of(1, [], (Distribution((0,), Poisson()),))
    mean = rows.mean(axis=0)[None]
    p = Parameters(np.ones(1), mean, mean, None, blocks).completed()
    found = uncertainty_after_em(p, features_of(rows, blocks), N)
    assert found.deviations().means[0, 0] == pytest.approx(rows.std() / N**0.5, rel=0.01)
    assert rows.var() > 2 * mean[0, 0]


def laws():
    families = mixed_law()
    moments = standard_moments(drawn(4000)[0])
    return {
        "diagonal": block_law([1, 1, 1], 2, 3),
        "joined": block_law([2, 1, 3], 2, 4),
        "families": families.standardized(moments.shift, moments.scale),
    }


@pytest.mark.parametrize("name", list(laws()))
def test_errors_are_those_of_the_scores_where_the_model_is_right(name):
    p = laws()[name]
    features = features_of(sample(p, N, np.random.default_rng(6))[0], p.blocks)
    errors = uncertainty_after_em(p, features, N).deviations()
    free = np.delete(np.arange(p.n_places), dependent_places(p))
    outer = information_matrix(features, p)[np.ix_(free, free)]
    covariance = np.zeros((p.n_places,) * 2)
    covariance[np.ix_(free, free)] = np.linalg.pinv(outer, rcond=1e-9, hermitian=True) / N
    by_scores = parameters_from(np.sqrt(np.diagonal(covariance)), p.n_components, p.blocks)
    np.testing.assert_allclose(errors.means, by_scores.means, rtol=0.06)
    # By logarithms of weights, whose sum is 1.
    r = p.n_components
    turn = p.weights[:, None] * (np.eye(r) - p.weights)
    weights = np.sqrt(np.diagonal(turn @ covariance[:r, :r] @ turn.T))
    np.testing.assert_allclose(errors.weights, weights, rtol=0.06)


def test_missing_cells_of_joined_columns_widen_errors_by_what_they_held():
    n, correlation, observed = 20_000, 0.8, 0.5
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(n, 2))
    rows[:, 1] = correlation * rows[:, 0] + np.sqrt(1 - correlation**2) * rows[:, 1]
    rows[rng.random(n) > observed, 1] = np.nan
    errors = mm.fit(rows, 1, blocks=[[0, 1]], missing="mar", random_state=0).standard_errors
    # The regression on the other column is known by the rows that have both.
    expected = np.sqrt(correlation**2 / n + (1 - correlation**2) / (observed * n))
    np.testing.assert_allclose(errors.means[0], [1 / np.sqrt(n), expected], rtol=0.03)
    np.testing.assert_allclose(errors.variances[0, 0], np.sqrt(2 / n), rtol=0.05)
