import numpy as np
import pytest
from scipy.optimize import least_squares

from momentmix import DiagonalMixture, IncompleteSymmetricTensor
from momentmix.tensor import gauss_newton
from momentmix.tensor.gauss_newton import fit_powers, fit_weighted_powers
from momentmix.tensor.incomplete_tensor import power_sum


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((4, 10))
    exact = IncompleteSymmetricTensor.from_factors(factors, 3)
    tensor = IncompleteSymmetricTensor(exact.values + 0.01 * rng.standard_normal(120), 10, 3)
    return tensor, factors + 0.05 * rng.standard_normal(factors.shape)


def test_minimum_agrees_with_scipy(noisy):
    tensor, start = noisy
    found = fit_powers(tensor, start)
    slow = least_squares(
        lambda x: tensor.values - power_sum(x.reshape(start.shape), 3), start.ravel(), xtol=1e-14
    )
    assert found.converged
    assert found.residual == pytest.approx(
        np.sqrt(2 * slow.cost) / np.linalg.norm(tensor.values), rel=1e-9
    )
    np.testing.assert_allclose(found.factors, slow.x.reshape(start.shape), atol=1e-6)


def test_matrix_free_steps_reach_the_same_minimum(noisy, monkeypatch):
    tensor, start = noisy
    direct = fit_powers(tensor, start)
    monkeypatch.setattr(gauss_newton, "_LARGEST_MATRIX", 1)
    iterative = fit_powers(tensor, start)
    assert iterative.converged
    np.testing.assert_allclose(iterative.factors, direct.factors, atol=1e-7)


def test_complex_tensors_are_fitted_in_complex_numbers():
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((3, 9)) + 1j * rng.standard_normal((3, 9))
    tensor = IncompleteSymmetricTensor.from_factors(factors, 4)
    found = fit_powers(tensor, factors + 0.02 * rng.standard_normal((3, 9)))
    assert found.residual < 1e-12


def test_too_few_iterations_are_reported(noisy):
    tensor, start = noisy
    assert not fit_powers(tensor, start, max_iterations=1).converged


def test_weights_and_vectors_together_keep_the_constraints():
    rng = np.random.default_rng(2)
    truth = DiagonalMixture([0.2, 0.3, 0.5], rng.standard_normal((3, 8)), np.ones((3, 8)))
    tensors = [truth.moment_tensor(3), truth.moment_tensor(1)]
    found = fit_weighted_powers(
        tensors, np.array([0.3, 0.3, 0.4]), truth.means + 0.1 * rng.standard_normal((3, 8))
    )
    np.testing.assert_allclose(found.weights, truth.weights, atol=1e-8)
    np.testing.assert_allclose(found.factors, truth.means, atol=1e-8)
    assert found.weights.sum() == pytest.approx(1, abs=1e-14)


def test_a_component_that_is_not_there_gets_weight_zero():
    rng = np.random.default_rng(3)
    truth = DiagonalMixture([0.4, 0.6], rng.standard_normal((2, 8)), np.ones((2, 8)))
    tensors = [truth.moment_tensor(3), truth.moment_tensor(2), truth.moment_tensor(1)]
    start = np.concatenate([truth.means, rng.standard_normal((1, 8))])
    found = fit_weighted_powers(tensors, np.array([0.35, 0.55, 0.1]), start)
    assert (found.weights >= 0).all()
    assert found.weights.sum() == pytest.approx(1, abs=1e-14)
    assert found.residual < 1e-3
