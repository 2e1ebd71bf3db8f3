"""Whitening of conditions: parts of them, redundant ones, and what is computed when."""

import numpy as np
import pytest
from fitting_helpers import exact_moments, monomial_covariance, random_mixture

from momentmix import Mixture, fit
from momentmix.errors import InputError
from momentmix.fitting.moments import whitening as module
from momentmix.fitting.moments.conditions import build_conditions, point_powers
from momentmix.fitting.moments.whitening import Projection, Whitening
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters


def conditions_of(truth):
    """All conditions but the sum of the weights, and the parameters that meet them."""
    moments = exact_moments(truth, min(4, truth.n_features))
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    conditions = conditions.subset(np.arange(1, conditions.size))
    return conditions, truth.parameters.standardized(moments.shift, moments.scale)


@pytest.fixture(scope="module")
def case():
    conditions, p = conditions_of(random_mixture(3, 5, seed=1))
    return conditions, p, Whitening(conditions, p)


def edges(conditions):
    n_low = int((~conditions.is_pair & ~conditions.is_shape).sum())
    return n_low, n_low + int(conditions.is_pair.sum()), conditions.size


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_first_conditions_are_whitened_as_if_alone(case, kind):
    conditions, p, whole = case
    n = edges(conditions)[kind]
    alone = Whitening(conditions.subset(np.arange(n)), p)
    columns = np.random.default_rng(0).standard_normal((conditions.size, 3))
    white = whole.whiten(columns)
    np.testing.assert_allclose(white[:n], alone.whiten(columns[:n]), atol=1e-8)
    leading = whole.leading(n)
    assert leading.rank == alone.projection.rank
    left = leading.project(white[:n])
    np.testing.assert_allclose(left, alone.projection.project(white[:n]), atol=1e-7)
    assert whole.degrees_of_freedom(leading) == alone.degrees_of_freedom(alone.projection)
    # Control: projected among all conditions, the first ones are left with something else.
    among_all = whole.projection.project(white)[:n]
    assert np.allclose(among_all, left, atol=1e-3) == (n == conditions.size)


def two_valued(variance, n_copies):
    """Two components; the last `n_copies` columns take one value in each, up to `variance`."""
    rng = np.random.default_rng(4)
    means = np.column_stack([rng.standard_normal((2, 3)), np.tile([[-1.0], [1.5]], n_copies)])
    variances = np.column_stack([rng.uniform(0.5, 1.5, (2, 3)), np.full((2, n_copies), variance)])
    return Mixture.diagonal([0.4, 0.6], means, variances)


@pytest.mark.parametrize("n_copies", [1, 2])
def test_conditions_that_are_functions_of_others_do_not_count(n_copies):
    conditions, p = conditions_of(two_valued(1e-12, n_copies))
    whitening = Whitening(conditions, p)
    # The oracle: rank of the monomials of many rows.
    rows, _ = sample(p, 4000, np.random.default_rng(0))
    products = conditions.products(point_powers(rows, 6))
    products -= products.mean(axis=1, keepdims=True)
    products /= products.std(axis=1, keepdims=True)
    rank = int(np.linalg.matrix_rank(products, tol=1e-3 * np.sqrt(rows.shape[0])))
    assert int(whitening.independent.sum()) == rank < conditions.size
    # Powers of a column with two values, and products of copies, tell nothing new.
    first = conditions.slots[:, 0]
    assert not whitening.independent[conditions.is_shape & (first >= 3)].any()
    assert whitening.independent[conditions.is_shape & (first < 3)].all()
    dof = whitening.degrees_of_freedom(whitening.projection)
    assert dof == rank - whitening.projection.rank
    # Whitened, they are 0, whatever is observed.
    noise = np.random.default_rng(1).standard_normal(conditions.size)
    assert not whitening.whiten(noise)[~whitening.independent].any()


def test_log_determinant_is_that_of_the_covariance(case):
    conditions, p, whitening = case
    _, expected = np.linalg.slogdet(monomial_covariance(conditions, p))
    assert whitening.log_determinant == pytest.approx(expected, abs=1e-3)
    # Ten times the deviations: twice log 10 for each power of a feature.
    wide = Parameters(p.weights, 10 * p.means, 100 * p.variances)
    change = Whitening(conditions, wide).log_determinant - whitening.log_determinant
    degrees = conditions.slot_exponents.sum()
    assert change == pytest.approx(2 * np.log(10) * degrees, rel=1e-6)


def test_dependent_slopes_are_left_out_of_a_projection():
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal((30, 4))
    twice = Projection(np.column_stack([slopes, slopes @ [1.0, -2.0, 0.5, 3.0], np.zeros(30)]))
    once = Projection(slopes)
    assert twice.rank == once.rank == 4
    columns = rng.standard_normal((30, 2))
    np.testing.assert_allclose(twice.project(columns), once.project(columns), atol=1e-10)
    left = columns - slopes @ np.linalg.lstsq(slopes, columns, rcond=None)[0]
    np.testing.assert_allclose(once.project(columns), left, atol=1e-10)


def test_a_correlation_that_rounding_made_indefinite_gets_a_larger_ridge(case, monkeypatch):
    conditions, p, _ = case
    correlation, scale = module.monomial_correlation(conditions, p)
    values, vectors = np.linalg.eigh(correlation)
    indefinite = correlation - (values[0] + 1e-6) * np.outer(vectors[:, 0], vectors[:, 0])
    monkeypatch.setattr(module, "monomial_correlation", lambda *_: (indefinite.copy(), scale))
    triangle = np.tril(Whitening(conditions, p).triangle)
    np.testing.assert_allclose(triangle @ triangle.T, indefinite, atol=2e-5)


def test_a_singular_matrix_is_an_input_error(monkeypatch):
    """Where no ridge helps, the user does not see LinAlgError."""

    def broken(conditions, parameters):
        return -10.0 * np.eye(conditions.size), np.ones(conditions.size)

    monkeypatch.setattr(module, "monomial_correlation", broken)
    rows = np.random.default_rng(0).normal(size=(400, 4))
    with pytest.raises(InputError, match=r"a matrix of the fit is singular.*fewer comp"):
        fit(rows, 2, random_state=0)
