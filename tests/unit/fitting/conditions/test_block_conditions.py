"""Conditions of mixtures with blocks: model side, derivative and covariance by brute force."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from block_laws import block_law, blocks_of, exact_block_moments, standardized
from numpy.polynomial.hermite_e import hermegauss

from momentmix.fitting.conditions import derivative as module
from momentmix.fitting.conditions import monomial_covariance
from momentmix.fitting.conditions.block_moments import BlockMonomials
from momentmix.fitting.conditions.conditions import build_conditions, point_powers
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.native import code


@pytest.fixture(scope="module", params=[(3, 2, 1), (4,), (1, 2, 1, 1), (1,) * 5])
def case(request):
    truth = block_law(request.param, 2, seed=3)
    moments = exact_block_moments(truth)
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    return standardized(truth)[0], conditions.subset(np.arange(1, conditions.size))


def by_quadrature(exponents, mean, covariance, n_points=5):
    """E Π z_j^a_j by Gauss–Hermite points: exact up to degree 2·n_points − 1."""
    points, weights = hermegauss(n_points)
    grid = np.array(list(product(points, repeat=mean.size)))
    shares = np.array(list(product(weights / weights.sum(), repeat=mean.size))).prod(axis=1)
    z = mean + grid @ np.linalg.cholesky(covariance).T
    return shares @ (z**exponents).prod(axis=1)


def test_moments_of_a_block_are_those_of_quadrature():
    p = block_law((3,), 2, seed=0)
    exponents = np.array(
        [[1, 0, 0], [1, 1, 0], [2, 1, 0], [1, 1, 1], [2, 2, 0], [3, 1, 2], [4, 4, 1]]
    )
    features = np.tile(np.arange(3), (len(exponents), 1))
    monomials = BlockMonomials(features, exponents, p.blocks)
    found = monomials.moments(p)[monomials.slots[:, 0]]
    for row, powers in zip(found, exponents, strict=True):
        expected = [by_quadrature(powers, m, s) for m, s in zip(p.means, p.matrices, strict=True)]
        assert row == pytest.approx(expected, rel=1e-10)


def test_without_covariances_blocks_change_nothing(case):
    p, conditions = case
    alone = Parameters(p.weights, p.means, p.variances)
    joined = replace(alone, covariances=None, blocks=p.blocks)
    assert conditions.model(joined) == pytest.approx(conditions.model(alone), abs=1e-12)
    assert conditions.row_variances(joined) == pytest.approx(conditions.row_variances(alone))
    for found, expected in zip(
        monomial_correlation(conditions, joined), monomial_correlation(conditions, alone),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_derivative_is_that_of_finite_differences(case):
    p, conditions = case
    table = np.empty((conditions.size, p.n_free + 1))
    table[:, by_feature(p)] = derivative(conditions, p).table
    step = 1e-5
    for place, found in enumerate(table.T):
        change = step * (np.arange(p.n_free + 1) == place)
        ends = [
            conditions.model(parameters_from(p.flat() + sign * change, 2, p.blocks))
            for sign in (1, -1)
        ]
        expected = (ends[0] - ends[1]) / (2 * step)
        assert found == pytest.approx(expected, abs=1e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("most", [1, 1000])
def test_parts_of_the_derivative(case, most, monkeypatch):
    p, conditions = case
    monkeypatch.setattr(module, "_MANY_GROUPS", most)  # both ways to multiply
    noise = np.random.default_rng(0).uniform(0.5, 2.0, conditions.size)
    table = derivative(conditions, p).table / noise[:, None]
    n_means = p.weights.size + p.means.size
    for own, with_spread in ((table, True), (table[:, :n_means], False)):
        slope = derivative(conditions, p, noise, with_spread)
        assert slope.table == pytest.approx(own)
        assert slope.normal_matrix() == pytest.approx(own.T @ own)


def test_covariance_of_conditions_is_that_of_rows(case):
    """Means of products of two monomials over rows lie within 5 standard errors."""
    p, conditions = case
    low = np.flatnonzero(conditions.slot_exponents.sum(axis=1) <= 3)
    conditions, n = conditions.subset(low), 40_000
    rows, _ = sample(p, n, np.random.default_rng(0))
    correlation, scale = monomial_correlation(conditions, p)
    mean = conditions.model(p)
    z = (conditions.products(point_powers(rows, 3)) - mean[:, None]) / scale[:, None]
    found = z @ z.T / n
    errors = np.sqrt(np.maximum((z**2) @ (z**2).T / n - found**2, 1e-12) / n)
    deviates = (found - correlation) / errors
    assert np.abs(deviates).max() < 6.0  # some thousand pairs, with heavy tails
    assert np.sqrt((deviates**2).mean()) < 1.3


def test_variances_of_conditions(case):
    p, conditions = case
    correlation, scale = monomial_correlation(conditions, p)
    assert scale**2 == pytest.approx(conditions.row_variances(p), rel=1e-9)
    assert np.diagonal(correlation) == pytest.approx(1.0, abs=1e-9)
    assert np.array_equal(correlation, correlation.T)
    assert np.linalg.eigvalsh(correlation).min() > -1e-9


@pytest.mark.skipif(code is None, reason="the compiled code is not built")
def test_compiled_covariances_are_those_of_numpy(case, monkeypatch):
    p, conditions = case
    found, _ = monomial_correlation(conditions, p)
    with monkeypatch.context() as patch:
        patch.setattr(monomial_covariance, "code", None)
        expected, _ = monomial_correlation(conditions, p)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.skipif(code is None, reason="the compiled code is not built")
def test_factors_that_do_not_fit_their_tables_are_refused():
    slots, sizes, tables = np.array([0, 1]), np.array([2]), np.ones(4)
    weights, out = np.ones(1), np.zeros((2, 2))
    code.add_second_moments(2, slots, sizes, tables, weights, out)
    np.testing.assert_array_equal(out, [[1, 1], [0, 1]])
    cases = [
        (2, slots + 1, sizes, tables, weights),
        (2, slots - 1, sizes, tables, weights),
        (2, slots, sizes + 1, tables, weights),
        (2, slots, sizes - 2, tables, weights),
        (2, slots, sizes, tables, np.ones(2)),
        (2, slots, sizes, tables, weights[:0]),
        (2, slots[:1], sizes, tables, weights),
        (2, np.zeros(34, dtype=int), sizes, tables, weights),
        (-1, slots, sizes, tables, weights),
        (3, slots, sizes, tables, weights),
    ]
    for arguments in cases:
        with pytest.raises(ValueError, match="do not fit each other"):
            code.add_second_moments(*arguments, out)


def test_one_feature_of_a_block_at_most():
    truth = block_law((2, 2, 1), 2, seed=0)
    conditions = build_conditions(exact_block_moments(truth), 4, blocks=truth.blocks)
    # 1, five features, 8 pairs and 4 triples of three blocks.
    assert conditions.size == 1 + 5 + 8 + 4
    block_of = np.append(blocks_of((2, 2, 1)).block_of, -1)
    for features in conditions.slots:
        own = block_of[features[features < 5]]
        assert np.unique(own).size == own.size
