"""Moment conditions against closed forms, finite differences and brute force."""

from itertools import product

import numpy as np
import pytest
from fitting_helpers import exact_moments, parameters_of, random_mixture

from momentmix.fitting.conditions import Parameters, build_conditions, parameters_from
from momentmix.fitting.monomial_covariance import monomial_covariance


@pytest.fixture(scope="module")
def case():
    truth = random_mixture(3, 5, seed=1)
    moments = exact_moments(truth, 4)
    return build_conditions(moments, 4, 2), parameters_of(moments.standardise(truth))


def test_exact_moments_are_met(case):
    conditions, parameters = case
    np.testing.assert_allclose(conditions.model(parameters), conditions.values, atol=1e-12)


def test_jacobian_matches_finite_differences(case):
    conditions, parameters = case
    flat, step = parameters.flat(), 1e-6
    jacobian = conditions.jacobian(parameters)
    for column in range(flat.size):
        ends = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[column] += sign * step
            ends.append(conditions.model(parameters_from(moved, 3)))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(jacobian[:, column], slope, atol=2e-8)
    without = conditions.jacobian(parameters, with_variances=False)
    np.testing.assert_array_equal(without, jacobian[:, : without.shape[1]])


def normal_moment(power, mean, variance):
    return {
        0: 1.0,
        1: mean,
        2: mean**2 + variance,
        3: mean**3 + 3 * mean * variance,
        4: mean**4 + 6 * mean**2 * variance + 3 * variance**2,
    }[power]


def test_covariance_matches_products_of_normal_moments(case):
    conditions, parameters = case
    covariance = monomial_covariance(conditions, parameters)
    d = conditions.n_features
    powers = np.array([np.bincount(f, minlength=d + 1)[:d] for f in conditions.features])
    rng = np.random.default_rng(0)
    pairs = rng.integers(conditions.size, size=(300, 2))
    for a, b in pairs:
        second = 0.0
        for w, mean, variance in zip(
            parameters.weights, parameters.means, parameters.variances, strict=True
        ):
            total = powers[a] + powers[b]
            second += w * np.prod(
                [normal_moment(int(p), m, v) for p, m, v in zip(total, mean, variance, strict=True)]
            )
        expected = second - conditions.values[a] * conditions.values[b]
        assert covariance[a, b] == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(
        np.diagonal(covariance), conditions.row_variances(parameters), atol=1e-10
    )


def test_limit_keeps_low_orders_whole():
    moments = exact_moments(random_mixture(2, 8, seed=0), 4)
    conditions = build_conditions(moments, 4, 2, limit=150, rng=np.random.default_rng(0))
    assert conditions.size <= 150
    sizes = (conditions.plain < 8).sum(axis=1)
    assert [(sizes == s).sum() for s in (0, 1, 2)] == [1, 8, 28]


def test_constant_columns_take_no_part():
    moments = exact_moments(random_mixture(2, 5, seed=0), 3)
    constant = np.array([False, True, False, False, False])
    moments = type(moments)(**{**vars(moments), "constant": constant})
    conditions = build_conditions(moments, 3, 1)
    assert not (conditions.features == 1).any()


def test_parameters_survive_flattening():
    rng = np.random.default_rng(0)
    p = Parameters(rng.random(3), rng.random((3, 4)), rng.random((3, 4)))
    q = parameters_from(p.flat(), 3)
    for name in ("weights", "means", "variances"):
        np.testing.assert_array_equal(getattr(p, name), getattr(q, name))


def test_every_exponent_up_to_two_is_covered(case):
    conditions, _ = case
    kinds = {
        tuple(sorted(np.bincount(f, minlength=6)[:5], reverse=True)) for f in conditions.features
    }
    wanted = {k for k in product(range(3), repeat=5) if sum(k) <= 4 and list(k).count(2) <= 1}
    assert kinds == {tuple(sorted(k, reverse=True)) for k in wanted}
