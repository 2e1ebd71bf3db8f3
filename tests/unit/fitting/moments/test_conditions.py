"""Moment conditions against closed forms, finite differences, quadrature and drawn rows."""

from itertools import product

import numpy as np
import pytest
from block_laws import block_law, exact_block_moments, monomials_of, standardized
from family_laws import drawn, mixed_law, standard_moments
from fitting_helpers import exact_moments, random_mixture, sample_means
from numpy.polynomial.hermite_e import hermegauss

from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments import covariance
from momentmix.fitting.moments.conditions import build_conditions, point_powers
from momentmix.fitting.moments.covariance import monomial_correlation
from momentmix.fitting.moments.derivative import derivative, gram
from momentmix.fitting.moments.spread import resolvable
from momentmix.fitting.moments.whitening import Whitening
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from
from momentmix.native import code


def families():
    """A table of all families, standardized, as its moments and its law."""
    moments = standard_moments(drawn(4000)[0])
    return mixed_law().standardized(moments.shift, moments.scale), moments


SIZES = {"3, 2, 1": (3, 2, 1), "4": (4,), "1, 2, 1, 1": (1, 2, 1, 1), "singles": (1,) * 5}


@pytest.fixture(scope="module", params=[*SIZES, "families"])
def case(request):
    if request.param == "families":
        p, moments = families()
    else:
        truth = block_law(SIZES[request.param], 2, seed=3)
        p, moments = standardized(truth)[0], exact_block_moments(truth)
    return p, build_conditions(moments, 4, 2, highest_power=6).without_sum


def by_quadrature(exponents, mean, matrix, n_points=5):
    """E Π z_j^a_j by Gauss–Hermite points: exact up to degree 2·n_points − 1."""
    points, weights = hermegauss(n_points)
    grid = np.array(list(product(points, repeat=mean.size)))
    shares = np.array(list(product(weights / weights.sum(), repeat=mean.size))).prod(axis=1)
    z = mean + grid @ np.linalg.cholesky(matrix).T
    return shares @ (z**exponents).prod(axis=1)


def test_moments_of_a_block_are_those_of_quadrature():
    p = block_law((3,), 2, seed=0)
    exponents = np.array(
        [[1, 0, 0], [1, 1, 0], [2, 1, 0], [1, 1, 1], [2, 2, 0], [3, 1, 2], [4, 4, 1]]
    )
    monomials = monomials_of(exponents, p.blocks)
    found = monomials.moments(p)[monomials.slots[:, 0]]
    ((own, products),) = monomials.products(p, monomials.moments(p))
    for a, row in enumerate(exponents):
        expected = [by_quadrature(row, *x) for x in zip(p.means, p.matrices, strict=True)]
        assert found[a] == pytest.approx(expected, rel=1e-10)
        for b, other in enumerate(exponents):
            expected = [
                by_quadrature(row + other, *x, 10) for x in zip(p.means, p.matrices, strict=True)
            ]
            assert products[:, own[a], own[b]] == pytest.approx(expected, rel=1e-9)


def test_the_model_is_the_mean_over_many_rows(case):
    p, conditions = case
    n = 40_000
    errors = np.sqrt(conditions.row_variances(p) / n)
    means = sample_means(conditions, p, n, np.random.default_rng(1))
    gaps = (means - conditions.model(p)) / errors
    low = conditions.slot_exponents.sum(axis=1) <= 4  # means of high powers are far from normal
    assert np.abs(gaps[low]).max() < 6.5  # of up to two thousand conditions
    assert 0.6 < np.sqrt((gaps[low] ** 2).mean()) < 1.4
    moved = Parameters(p.weights, p.means + 0.1, p.variances, p.covariances, p.blocks).completed()
    assert np.abs((means - conditions.model(moved)) / errors).max() > 8  # control


def test_derivative_is_that_of_finite_differences(case):
    p, conditions = case
    table = derivative(conditions, p)
    dependent, step, flat = set(dependent_places(p).tolist()), 1e-5, p.flat()
    for place, found in enumerate(table.T):
        if place in dependent:
            assert not found.any()
            continue
        change = step * (np.arange(flat.size) == place)
        ends = [
            conditions.model(parameters_from(flat + sign * change, 2, p.blocks)) for sign in (1, -1)
        ]
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_covariance_of_conditions_is_that_of_rows(case):
    """Means of products of two monomials over rows lie within their standard errors."""
    p, conditions = case
    conditions, n = conditions.subset(np.flatnonzero(conditions.slot_exponents.sum(1) <= 3)), 40_000
    rows, _ = sample(p, n, np.random.default_rng(0))
    correlation, scale = monomial_correlation(conditions, p)
    mean = conditions.model(p)
    z = (conditions.products(point_powers(rows, 3)) - mean[:, None]) / scale[:, None]
    found = z @ z.T / n
    errors = np.sqrt(np.maximum((z**2) @ (z**2).T / n - found**2, 1e-12) / n)
    deviates = (found - correlation) / errors
    is_likely = (z**2).mean(axis=1) > 0.5  # products of rare levels may have no row at all
    assert np.abs(deviates[np.ix_(is_likely, is_likely)]).max() < 8.0  # heavy tails
    assert np.sqrt((deviates**2).mean()) < 1.3
    np.testing.assert_allclose(scale**2, conditions.row_variances(p), rtol=1e-6, atol=1e-9)
    assert np.array_equal(correlation, correlation.T)
    assert np.linalg.eigvalsh(correlation).min() > -1e-8


@pytest.mark.skipif(code is None, reason="the compiled code is not built")
def test_compiled_covariances_are_those_of_numpy(case, monkeypatch):
    p, conditions = case
    found, _ = monomial_correlation(conditions, p)
    with monkeypatch.context() as patch:
        patch.setattr(covariance, "code", None)
        expected, _ = monomial_correlation(conditions, p)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(code is None, reason="the compiled code is not built")
def test_factors_that_do_not_fit_their_tables_are_refused():
    slots, sizes, tables = np.array([0, 1]), np.array([2]), np.ones(4)
    weights, out = np.ones(1), np.zeros((2, 2))
    code.add_second_moments(2, slots, sizes, tables, weights, out)
    np.testing.assert_array_equal(out, [[1, 1], [0, 1]])
    for arguments in (
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
    ):
        with pytest.raises(ValueError, match="do not fit each other"):
            code.add_second_moments(*arguments, out)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_the_normal_matrix_of_an_empty_table(shape, capfd):
    np.testing.assert_array_equal(gram(np.zeros(shape)), np.zeros((shape[1], shape[1])))
    assert capfd.readouterr() == ("", "")


# -- which conditions there are -------------------------------------------------------------------


def powers_of(conditions):
    """Exponent of each feature in each condition."""
    powers = np.zeros((conditions.size, conditions.n_features + 1), dtype=int)
    np.put_along_axis(powers, conditions.slots, conditions.slot_exponents, axis=1)
    return powers[:, :-1]


@pytest.fixture(scope="module")
def every():
    """All conditions of a mixture of five features, and its parameters."""
    truth = random_mixture(3, 5, seed=1)
    moments = exact_moments(truth, 4)
    p = truth.parameters.standardized(moments.shift, moments.scale)
    return build_conditions(moments, 4, 2, highest_power=6), p


def test_exact_moments_are_met(every):
    conditions, parameters = every
    np.testing.assert_allclose(conditions.model(parameters), conditions.values, atol=1e-12)


def test_every_product_of_degree_four_and_every_power_to_six_is_there_once(every):
    found = [tuple(powers) for powers in powers_of(every[0]).tolist()]
    wanted = {k for k in product(range(5), repeat=5) if sum(k) <= 4}
    wanted |= {tuple(p * (i == j) for i in range(5)) for j in range(5) for p in (5, 6)}
    assert sorted(found) == sorted(wanted)


def test_kinds_of_conditions(every):
    powers = powers_of(every[0])
    alone = (powers > 0).sum(axis=1) == 1
    np.testing.assert_array_equal(every[0].is_shape, alone & (powers.max(axis=1) > 2))
    two = np.sort(powers, axis=1)[:, -2:]
    is_pair = (two == [1, 3]).all(axis=1) | (two == [2, 2]).all(axis=1)
    np.testing.assert_array_equal(every[0].is_pair, is_pair)


def test_limit_keeps_low_orders_whole():
    moments = exact_moments(random_mixture(2, 8, seed=0), 4)
    conditions = build_conditions(moments, 4, 2, limit=150, rng=np.random.default_rng(0))
    assert conditions.size <= 150
    is_plain = conditions.slot_exponents.max(axis=1) < 2
    sizes = conditions.slot_exponents[is_plain].sum(axis=1)
    assert [(sizes == s).sum() for s in (0, 1, 2)] == [1, 8, 28]


def test_means_that_are_not_known_are_left_out():
    moments = exact_moments(random_mixture(2, 4, seed=0), 4)
    whole = build_conditions(moments, 4, 2, highest_power=6)
    moments.powers[3, 2] = moments.cubed[1, 0] = np.nan
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    assert conditions.size == whole.size - 2
    assert not np.isnan(conditions.values).any()


def test_one_feature_of_a_block_at_most():
    truth = block_law((2, 2, 1), 2, seed=0)
    conditions = build_conditions(exact_block_moments(truth), 4, blocks=truth.blocks)
    # 1, five features, 8 pairs and 4 triples of three blocks.
    assert conditions.size == 1 + 5 + 8 + 4
    for powers in powers_of(conditions):
        own = truth.blocks.block_of[powers > 0]
        assert np.unique(own).size == own.size


# -- families -------------------------------------------------------------------------------------


def test_identities_of_families_take_no_part():
    p, moments = families()
    conditions = build_conditions(moments, 4, 2, highest_power=6).without_sum
    whitening = Whitening(conditions, p)
    assert whitening.independent.all()  # no condition is a combination of those before it
    # Ten features have laws: means only, but for the variance of the number that may be missing.
    assert whitening.projection.rank == p.n_free == 2 * (1 + 11 + 3 + 1 + 1) - 1
    without = moments.__class__(**{**moments.__dict__, "laws": ()})
    everything = build_conditions(without, 4, 2, highest_power=6).without_sum
    assert everything.size > conditions.size
    assert not Whitening(everything, p).independent.all()


def test_variances_are_raised_to_what_can_be_resolved_and_no_further():
    p = Parameters(np.ones(1), np.zeros((1, 3)), np.array([[1e-6, 0.01, 0.5]]))
    structure = exact_moments(random_mixture(1, 3, seed=0), 3).structure(None)
    sure = resolvable(p, Uncertainty(p, 1e-9 * np.eye(7)), structure)
    np.testing.assert_allclose(sure.variances, p.variances, rtol=1e-2)
    raised = resolvable(p, Uncertainty(p, 0.01 * np.eye(7)), structure).variances[0]
    # Half-normal mean s·√(2/π) for an estimate of 0, and the squared error of the mean.
    assert raised[0] == pytest.approx(0.01 * np.sqrt(2 / np.pi) + 1e-4, rel=0.01)
    assert raised[2] == pytest.approx(0.5 + 1e-4, rel=1e-3)
