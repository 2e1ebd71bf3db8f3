"""Moment conditions against closed forms, finite differences and brute force."""

from itertools import product

import numpy as np
import pytest
from fitting_helpers import exact_moments, monomial_covariance, parameters_of, random_mixture

from momentmix.fitting.moments.conditions import build_conditions, point_powers


@pytest.fixture(scope="module")
def case():
    truth = random_mixture(3, 5, seed=1)
    moments = exact_moments(truth, 4)
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    return conditions, parameters_of(moments.standardize(truth))


def test_exact_moments_are_met(case):
    conditions, parameters = case
    np.testing.assert_allclose(conditions.model(parameters), conditions.values, atol=1e-12)


POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)


def normal_moment(power, mean, variance):
    return ((mean + np.sqrt(variance) * POINTS) ** power * WEIGHTS).sum() / WEIGHTS.sum()


def powers_of(conditions):
    """Exponent of each feature in each condition."""
    d = conditions.n_features
    powers = np.zeros((conditions.size, d + 1), dtype=int)
    for own, features, exponents in zip(
        powers, conditions.slots, conditions.slot_exponents, strict=True
    ):
        np.add.at(own, features, exponents)
    return powers[:, :d]


def test_covariance_matches_products_of_normal_moments(case):
    conditions, parameters = case
    covariance = monomial_covariance(conditions, parameters)
    powers = powers_of(conditions)
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
    is_plain = conditions.slot_exponents.max(axis=1) < 2
    sizes = conditions.slot_exponents[is_plain].sum(axis=1)
    assert [(sizes == s).sum() for s in (0, 1, 2)] == [1, 8, 28]


def test_every_product_of_degree_four_and_every_power_to_six_is_there_once(case):
    conditions, _ = case
    found = [tuple(powers) for powers in powers_of(conditions).tolist()]
    wanted = {k for k in product(range(5), repeat=5) if sum(k) <= 4}
    wanted |= {tuple(p * (i == j) for i in range(5)) for j in range(5) for p in (5, 6)}
    assert sorted(found) == sorted(wanted)


def test_kinds_of_conditions(case):
    conditions, _ = case
    powers = powers_of(conditions)
    alone = (powers > 0).sum(axis=1) == 1
    np.testing.assert_array_equal(conditions.is_shape, alone & (powers.max(axis=1) > 2))
    two = np.sort(powers, axis=1)[:, -2:]
    is_pair = (two == [1, 3]).all(axis=1) | (two == [2, 2]).all(axis=1)
    np.testing.assert_array_equal(conditions.is_pair, is_pair)


def test_means_that_are_not_known_are_left_out():
    moments = exact_moments(random_mixture(2, 4, seed=0), 4)
    moments.powers[3, 2] = np.nan
    moments.cubed[1, 0] = np.nan
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    whole = build_conditions(exact_moments(random_mixture(2, 4, seed=0), 4), 4, 2, highest_power=6)
    assert conditions.size == whole.size - 2
    assert not np.isnan(conditions.values).any()


def test_products_of_points_are_the_monomials(case):
    conditions, _ = case
    points = np.random.default_rng(0).normal(size=(6, 5))
    expected = [(points**powers).prod(axis=1) for powers in powers_of(conditions)]
    np.testing.assert_allclose(conditions.products(point_powers(points, 6)), expected, atol=1e-12)
