import warnings
from math import comb

import numpy as np
import pytest
from scipy.optimize import least_squares

import momentmix as mm
from momentmix import IncompleteSymmetricTensor, Mixture, largest_rank
from momentmix.errors import FitWarning
from momentmix.mixture.matching import largest_factor_error
from momentmix.paper import experiments
from momentmix.paper.gauss_newton import fit_powers
from momentmix.paper.incomplete_tensor import power_sum


@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_relative_error_is_what_the_parameters_cannot_absorb(order):
    """Tables 3 and 4: the least-squares optimum leaves sqrt(1 − r·d/C(d,m)) of the noise."""
    count = 12
    generators = [experiments.generator(5, 15, order, 2000, i) for i in range(count)]
    found = [experiments.approximation(rng, 15, order, 0.01)["rel_err"] for rng in generators]
    expected = experiments.expected_relative_error(15, order)
    error = np.std(found, ddof=1) / np.sqrt(count)
    assert abs(np.mean(found) - expected) < 4 * error
    # Negative control: the start alone, without (solve-F), is far from it.
    rng = np.random.default_rng(0)
    rank = largest_rank(15, order)
    exact = IncompleteSymmetricTensor.from_factors(rng.standard_normal((rank, 15)), order)
    noise = rng.standard_normal(comb(15, order))
    noisy = IncompleteSymmetricTensor(exact.values + 1e-4 * noise, 15, order)
    start = mm.decompose(noisy, rank, random_state=0).diagnostics.residual * noisy.norm()
    assert start / (noisy - exact).norm() > expected + 4 * error


@pytest.mark.parametrize(("order", "share"), [(3, 1.0), (4, 1.0), (6, 0.5)])
def test_error_is_proportional_to_the_noise(order, share):
    """Theorem 4.2: ‖q* − q‖ = O(ε)."""
    rank = int(share * largest_rank(15, order))
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((rank, 15))
    exact = IncompleteSymmetricTensor.from_factors(factors, order)
    noise = IncompleteSymmetricTensor(rng.standard_normal(exact.values.size), 15, order)
    noise = noise * (exact.norm() / noise.norm())
    ratios = []
    for level in (1e-8, 1e-7, 1e-6, 1e-5, 1e-4):
        found = mm.approximate(exact + level * noise, rank, random_state=0)
        assert found.converged
        ratios.append(largest_factor_error(factors, found.factors, order) / level)
    middle = np.median(ratios)
    assert max(ratios) < 3 * middle
    assert min(ratios) > middle / 3


def test_real_input_gives_a_real_answer_even_from_a_complex_start():
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((6, 15))
    factors[1] = factors[0] + 0.3 * factors[1]  # close factors: noise turns them into a pair
    exact = IncompleteSymmetricTensor.from_factors(factors, 3)
    noisy = IncompleteSymmetricTensor(exact.values + 0.3 * rng.standard_normal(455), 15, 3)
    with pytest.warns(FitWarning, match=r"leaves a residual of 0\.\d"):
        rough = mm.decompose(noisy, 6, random_state=1).diagnostics
    assert rough.imaginary_part > 0
    with pytest.warns(FitWarning, match="did not converge in 50 steps; the residual is 0.111"):
        found = mm.approximate(noisy, 6, random_state=0)
    assert found.factors.dtype == float
    assert found.residual < rough.residual


def test_complex_input_is_approximated_in_complex_numbers():
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((5, 15)) + 1j * rng.standard_normal((5, 15))
    exact = IncompleteSymmetricTensor.from_factors(factors, 4)
    noise = rng.standard_normal(exact.values.size) + 1j * rng.standard_normal(exact.values.size)
    noisy = IncompleteSymmetricTensor(exact.values + 1e-3 * noise, 15, 4)
    found = mm.approximate(noisy, 5, random_state=0)
    assert found.converged
    assert largest_factor_error(factors, found.factors, 4) < 1e-2


def test_singular_input_is_an_error_not_an_answer():
    factors = np.random.default_rng(5).standard_normal((4, 15))
    with pytest.raises(mm.errors.DecompositionError, match="rank 4"):
        mm.approximate(IncompleteSymmetricTensor.from_factors(factors, 4), 8, random_state=0)


@pytest.mark.parametrize(("d", "order", "rank"), [(15, 3, 6), (15, 6, 20), (20, 5, 30)])
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_that_spoils_the_decomposition_is_no_obstacle(d, order, rank, seed):
    """At capacity and 1 % noise: the minimum is the one next to the exact factors."""
    rng = np.random.default_rng([seed, order])
    factors = rng.standard_normal((rank, d))
    exact = IncompleteSymmetricTensor.from_factors(factors, order)
    noise = IncompleteSymmetricTensor(rng.standard_normal(exact.values.size), d, order)
    noisy = exact + 0.01 * exact.norm() / noise.norm() * noise
    found = mm.approximate(noisy, rank, random_state=seed)
    nearest = fit_powers([noisy], factors)
    assert found.converged
    assert found.n_supported == rank
    assert found.residual == pytest.approx(nearest.residual, rel=1e-6)
    assert largest_factor_error(nearest.factors, found.factors, order) < 1e-3


def test_the_printed_algorithm_ends_from_its_one_start():
    """Algorithm 4.1 is (solve-F) from the vectors of Algorithm 3.4, however spoilt they are."""
    rng = np.random.default_rng(5)
    exact = IncompleteSymmetricTensor.from_factors(rng.standard_normal((20, 15)), 6)
    noise = IncompleteSymmetricTensor(rng.standard_normal(exact.values.size), 15, 6)
    for level in (1e-8, 1e-2):
        noisy = exact + level * exact.norm() / noise.norm() * noise
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            start = mm.decompose(noisy, 20, random_state=0, n_orders=1).factors
            printed = mm.approximate(noisy, 20, random_state=0, n_orders=1, search=False)
        if start.dtype == float:
            wanted = fit_powers([noisy], start, max_iterations=50).factors
            np.testing.assert_array_equal(printed.factors, wanted)
        searched = mm.approximate(noisy, 20, random_state=0)
        assert (printed.residual > 2 * searched.residual) == (level == 1e-2)
        assert searched.residual < level


def test_noise_alone_is_an_error_and_weak_factors_are_a_warning():
    rng = np.random.default_rng(6)
    noise = IncompleteSymmetricTensor(rng.standard_normal(comb(15, 4)), 15, 4)
    factors = rng.standard_normal((8, 15))
    factors[5:] *= 0.2
    exact = IncompleteSymmetricTensor.from_factors(factors, 4)
    noisy = exact + 0.1 * exact.norm() / noise.norm() * noise
    with pytest.warns(FitWarning, match=r"of the 8 factors [23] .* Ask for rank=[56] at most"):
        found = mm.approximate(noisy, 8, random_state=0)
    assert found.n_supported in (5, 6)  # one power in the noise may stand out of the rest
    assert mm.approximate(noisy, 5, random_state=0).converged
    with pytest.raises(mm.errors.DecompositionError, match=r"residual of 0\.\d+ of") as caught:
        mm.approximate(1e3 * noise, 1, random_state=0)
    assert caught.value.condition == "noise"


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((4, 10))
    exact = IncompleteSymmetricTensor.from_factors(factors, 3)
    tensor = IncompleteSymmetricTensor(exact.values + 0.01 * rng.standard_normal(120), 10, 3)
    return tensor, factors + 0.05 * rng.standard_normal(factors.shape)


def test_minimum_agrees_with_scipy(noisy):
    tensor, start = noisy
    found = fit_powers([tensor], start)
    slow = least_squares(
        lambda x: tensor.values - power_sum(x.reshape(start.shape), 3), start.ravel(), xtol=1e-14
    )
    assert found.converged
    assert found.residual == pytest.approx(
        np.sqrt(2 * slow.cost) / np.linalg.norm(tensor.values), rel=1e-9
    )
    np.testing.assert_allclose(found.factors, slow.x.reshape(start.shape), atol=1e-6)


def exact_tensor(mixture, order):
    return IncompleteSymmetricTensor.from_factors(mixture.means, order, mixture.weights)


def test_weights_and_vectors_together_keep_the_constraints():
    rng = np.random.default_rng(2)
    truth = Mixture.diagonal([0.2, 0.3, 0.5], rng.standard_normal((3, 8)), np.ones((3, 8)))
    tensors = [exact_tensor(truth, m) for m in (3, 1)]
    found = fit_powers(
        tensors, truth.means + 0.1 * rng.standard_normal((3, 8)), np.array([0.3, 0.3, 0.4])
    )
    np.testing.assert_allclose(found.weights, truth.weights, atol=1e-8)
    np.testing.assert_allclose(found.factors, truth.means, atol=1e-8)
    assert found.weights.sum() == pytest.approx(1, abs=1e-14)


def test_a_component_that_is_not_there_gets_weight_zero():
    rng = np.random.default_rng(3)
    truth = Mixture.diagonal([0.4, 0.6], rng.standard_normal((2, 8)), np.ones((2, 8)))
    tensors = [exact_tensor(truth, m) for m in (3, 2, 1)]
    start = np.concatenate([truth.means, rng.standard_normal((1, 8))])
    found = fit_powers(tensors, start, np.array([0.35, 0.55, 0.1]))
    assert (found.weights >= 0).all()
    assert found.weights.sum() == pytest.approx(1, abs=1e-14)
    assert found.residual < 1e-3
