"""Moment conditions against closed forms, finite differences and brute force."""

from itertools import product

import numpy as np
import pytest
from fitting_helpers import exact_moments, monomial_covariance, parameters_of, random_mixture

from momentmix.fitting.conditions.conditions import build_conditions, point_powers
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.inference.whitening import Whitening, find_correlations
from momentmix.mixture.parameters import Parameters, parameters_from


@pytest.fixture(scope="module")
def case():
    truth = random_mixture(3, 5, seed=1)
    moments = exact_moments(truth, 4)
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    return conditions, parameters_of(moments.standardize(truth))


def test_exact_moments_are_met(case):
    conditions, parameters = case
    np.testing.assert_allclose(conditions.model(parameters), conditions.values, atol=1e-12)


def test_derivative_matches_finite_differences(case):
    conditions, parameters = case
    flat, step = parameters.flat(), 1e-6
    jacobian = np.empty((conditions.size, flat.size))
    jacobian[:, by_feature(parameters)] = derivative(conditions, parameters).table()
    for column in range(flat.size):
        ends = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[column] += sign * step
            ends.append(conditions.model(parameters_from(moved, 3)))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(jacobian[:, column], slope, atol=2e-8)


@pytest.mark.parametrize("limit", [None, 90])
def test_products_with_the_derivative_match_its_explicit_table(limit):
    truth = random_mixture(4, 7, seed=2)
    moments = exact_moments(truth, 4)
    rng = np.random.default_rng(0)
    conditions = build_conditions(moments, 4, 2, limit=limit, rng=rng)
    noise = rng.uniform(0.5, 2.0, size=conditions.size)
    slope = derivative(conditions, parameters_of(moments.standardize(truth)), noise)
    table = slope.table()
    np.testing.assert_allclose(slope.normal_matrix(), table.T @ table, atol=1e-12)
    columns = rng.normal(size=(conditions.size, 3))
    np.testing.assert_allclose(slope.transposed_times(columns), table.T @ columns, atol=1e-12)
    part = 4 + 4 * 7  # weights and means
    np.testing.assert_array_equal(
        slope.normal_matrix(with_variances=False), slope.normal_matrix()[:part, :part]
    )
    np.testing.assert_array_equal(
        slope.transposed_times(noise, with_variances=False), slope.transposed_times(noise)[:part]
    )


def normal_moment(power, mean, variance):
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    return ((mean + np.sqrt(variance) * points) ** power * weights).sum() / weights.sum()


def powers_of(conditions):
    """Exponent of each feature in each condition, from the tables that are stored."""
    d, n = conditions.n_features, conditions.n_plain
    powers = np.zeros((conditions.size, d + 1), dtype=int)
    for i, features in enumerate(conditions.plain):
        powers[i] = np.bincount(features, minlength=d + 1)
    for i, (features, exponents) in enumerate(
        zip(conditions.powered, conditions.exponents, strict=True)
    ):
        np.add.at(powers[n + i], features, [*exponents, 1, 1][: len(features)])
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
    sizes = (conditions.plain < 8).sum(axis=1)
    assert [(sizes == s).sum() for s in (0, 1, 2)] == [1, 8, 28]


def test_constant_columns_take_no_part():
    moments = exact_moments(random_mixture(2, 5, seed=0), 3)
    constant = np.array([False, True, False, False, False])
    moments = type(moments)(**{**vars(moments), "constant": constant})
    conditions = build_conditions(moments, 3, 1)
    assert not (conditions.slots == 1).any()


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


def test_projection_leaves_nothing_of_the_slopes_and_keeps_what_is_beside_them(case):
    conditions, parameters = case
    whitening = Whitening(conditions.subset(np.arange(1, conditions.size)), parameters)
    n_parameters = parameters.flat().size
    assert whitening.projection.rank == n_parameters - 1
    np.testing.assert_allclose(
        whitening.projection.project(whitening.projection.slopes), 0.0, atol=1e-9
    )
    columns = np.random.default_rng(0).normal(size=(conditions.size - 1, 4))
    left = whitening.projection.project(columns)
    np.testing.assert_allclose(whitening.projection.slopes.T @ left, 0.0, atol=1e-9)
    np.testing.assert_allclose(whitening.projection.project(left), left, atol=1e-9)
    values = np.linalg.svd(whitening.projection.slopes, compute_uv=False)
    assert whitening.projection.condition_number == pytest.approx(values[0] / values[-1], rel=0.05)


def test_projection_survives_a_doubled_component(case):
    conditions, p = case
    twice = Parameters(
        np.append(p.weights[:2], [p.weights[2] / 2] * 2),
        p.means[[0, 1, 2, 2]],
        p.variances[[0, 1, 2, 2]],
    )
    whitening = Whitening(conditions.subset(np.arange(1, conditions.size)), twice)
    assert whitening.projection.rank < twice.flat().size - 1
    assert whitening.projection.condition_number > 1e6
    # Slopes of relative size √1e-11 are kept, so that 1e-16 / 1e-11 may be left of them.
    np.testing.assert_allclose(
        whitening.projection.project(whitening.projection.slopes), 0.0, atol=1e-5
    )


def test_a_correlation_within_components_is_found_and_measured(case):
    conditions, p = case
    conditions = conditions.subset(np.arange(1, conditions.size))
    rng = np.random.default_rng(0)
    n, strength = 200_000, 0.3
    labels = rng.choice(3, size=n, p=p.weights)
    noise = rng.standard_normal((n, 5))
    noise[:, 3] = strength * noise[:, 1] + np.sqrt(1 - strength**2) * noise[:, 3]
    rows = p.means[labels] + noise * np.sqrt(p.variances)[labels]
    whitening = Whitening(conditions, p)
    values = np.mean(
        [conditions.products(point_powers(b, 6)).mean(axis=1) for b in np.split(rows, 100)], 0
    )
    remainder = whitening.projection.project(whitening.residual(values))
    found = find_correlations(whitening, conditions, p, remainder, n)
    assert (found[0].first, found[0].second) == (1, 3)
    assert abs(found[0].value - strength) < 5 * abs(found[0].value / found[0].deviates)
