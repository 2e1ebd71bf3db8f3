from math import comb

import numpy as np
import pytest

import momentmix as mm
from momentmix import IncompleteSymmetricTensor, largest_rank
from momentmix.mixture.matching import largest_factor_error
from momentmix.reproduce import experiments


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
    assert mm.decompose(noisy, 6, random_state=0).diagnostics.imaginary_part > 0
    found = mm.approximate(noisy, 6, random_state=0)
    assert found.factors.dtype == float
    assert found.residual < mm.decompose(noisy, 6, random_state=0).diagnostics.residual


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
    with pytest.raises(mm.DecompositionError, match="rank 4"):
        mm.approximate(IncompleteSymmetricTensor.from_factors(factors, 4), 8, random_state=0)
