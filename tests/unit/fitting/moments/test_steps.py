"""Steps of a moment fit: the truth is where they end, and their covariance is true."""

import numpy as np
import pytest
from fitting_helpers import (
    exact_moments,
    monomial_covariance,
    random_mixture,
)
from scipy.linalg import block_diag, helmert

from momentmix.fitting.moments.conditions import Conditions, build_conditions
from momentmix.fitting.moments.derivative import derivative
from momentmix.fitting.moments.steps import (
    efficient_polish,
    parameter_bounds,
    polish,
    step,
)
from momentmix.fitting.moments.whitening import Whitening
from momentmix.mixture.parameters import Parameters, parameters_from

N_ROWS = 50_000


class Case:
    """A mixture, its conditions with exact values, and bounds."""

    def __init__(self, r=2, d=4, seed=0):
        truth = random_mixture(r, d, seed)
        self.moments = exact_moments(truth, 4, N_ROWS)
        self.truth = truth.parameters.standardized(self.moments.shift, self.moments.scale)
        self.conditions = build_conditions(self.moments, 4, 2, highest_power=6).without_sum
        self.bounds = parameter_bounds(self.moments, 1e-6, r)

    def polished(self, values=None, start=None, bounds=None, rounds=6):
        c = self.conditions
        if values is not None:
            c = Conditions(c.n_features, c.slots, c.slot_exponents, values)
        start = self.truth if start is None else start
        return efficient_polish(c, start, bounds or self.bounds, N_ROWS, rounds)


@pytest.fixture(scope="module")
def case():
    return Case()


def moved(p, size, seed=0):
    rng = np.random.default_rng(seed)
    weights = p.weights * np.exp(size * rng.standard_normal(p.weights.shape))
    means = p.means + size * rng.standard_normal(p.means.shape)
    variances = p.variances * np.exp(size * rng.standard_normal(p.variances.shape))
    return Parameters(weights, means, variances).normalized()


@pytest.mark.parametrize(("r", "d"), [(1, 4), (2, 4), (3, 6)])
def test_the_truth_is_a_fixed_point_of_exact_moments(r, d):
    case = Case(r, d)
    end = case.polished().parameters
    np.testing.assert_allclose(end.flat(), case.truth.flat(), atol=1e-9)
    back = case.polished(start=moved(case.truth, 0.05)).parameters
    # It stops where a parameter would move by less than a seventh of its standard error.
    errors = np.sqrt((case.polished().uncertainty.factor ** 2).sum(axis=1))
    assert (np.abs(back.flat() - case.truth.flat()) <= errors / 7 + 1e-12).all()


def test_every_step_lowers_the_cost_by_what_it_says(case):
    current = moved(case.truth, 0.1)
    whitening = Whitening(case.conditions, current)

    def cost_of(p):
        error = whitening.whiten(case.conditions.values - case.conditions.model(p))
        return float(error @ error)

    costs = [cost_of(current)]
    for _ in range(6):
        current, cost, gain, *_ = step(case.conditions, current, case.bounds, whitening)
        assert cost == pytest.approx(cost_of(current), rel=1e-9, abs=1e-15)
        assert gain == pytest.approx(costs[-1] - cost, rel=1e-6, abs=1e-15)
        assert current.weights.sum() == pytest.approx(1.0)
        costs.append(cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 1e-6 * costs[0]


def test_bounds_are_kept(case):
    lower, upper = case.bounds.lower.copy(), case.bounds.upper.copy()
    truth = case.truth.flat()
    places = parameters_from(np.arange(truth.size), 2)
    closed_above, closed_below = places.means[0, 1], places.variances[1, 2]
    upper[closed_above] = truth[closed_above] - 0.1
    lower[closed_below] = truth[closed_below] + 0.1
    inside = np.clip(truth, lower, upper)
    start = parameters_from(inside, 2)
    bounds = case.bounds._replace(lower=lower, upper=upper)
    end = case.polished(start=start, bounds=bounds).parameters.flat()
    assert (end >= lower - 1e-12).all()
    assert (end <= upper + 1e-12).all()
    assert end[closed_above] == pytest.approx(upper[closed_above])
    assert end[closed_below] == pytest.approx(lower[closed_below])
    assert np.abs(end - inside).max() > 1e-3  # the others make up for it


def test_the_covariance_is_that_of_efficient_weights(case):
    """(Dᵀ C⁻¹ D)⁻¹ / N along changes that keep the sum of the weights."""
    slopes = derivative(case.conditions, case.truth)
    covariance = monomial_covariance(case.conditions, case.truth)
    r = case.truth.n_components
    free = block_diag(helmert(r).T, np.eye(slopes.shape[1] - r))
    information = free.T @ slopes.T @ np.linalg.solve(covariance, slopes @ free)
    expected = free @ np.linalg.inv(information) @ free.T / N_ROWS
    factor = case.polished().uncertainty.factor
    errors = np.sqrt(np.diagonal(expected))
    found = factor @ factor.T / errors / errors[:, None]
    np.testing.assert_allclose(found, expected / errors / errors[:, None], atol=1e-4)


def test_polish_never_raises_the_cost_and_keeps_bounds():
    truth = random_mixture(3, 5, seed=2)
    moments = exact_moments(truth, 4, N_ROWS)
    conditions = build_conditions(moments, 4, 2).without_sum
    standard, rng = (
        truth.parameters.standardized(moments.shift, moments.scale),
        np.random.default_rng(0),
    )
    start = Parameters(
        standard.weights, standard.means + 0.2 * rng.normal(size=(3, 5)), standard.variances
    )
    noise, bounds = np.ones(conditions.size), parameter_bounds(moments, 1e-6, 3)
    ends = [polish(conditions, start, bounds, noise, N_ROWS, k)[0] for k in (0, 1, 3, 30)]
    costs = [((conditions.values - conditions.model(p)) ** 2).sum() for p in ends]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 1e-5 * costs[0]
    assert (ends[-1].variances >= 1e-6).all()
    assert (ends[-1].weights > 0).all()
