"""`approximate` at relative noise up to a tenth: what it leaves is what no factors can absorb."""

from math import comb

import numpy as np
import pytest

import momentmix as mm

LONG = pytest.mark.long


# At a tenth a factor of a random tensor may be as weak as the noise: the warning is right.
@pytest.mark.filterwarnings("ignore::momentmix.errors.FitWarning")
@pytest.mark.parametrize(
    ("d", "order", "count", "levels"),
    [
        (15, 3, 8, (1e-3, 1e-2, 1e-1)),
        pytest.param(15, 5, 8, (1e-3, 1e-2, 1e-1), marks=LONG),
        pytest.param(25, 4, 8, (1e-3, 1e-2, 1e-1), marks=LONG),
        pytest.param(25, 6, 2, (1e-3, 1e-2, 1e-1), marks=LONG),
    ],
)
def test_the_residual_is_that_of_the_least_squares_optimum(d, order, count, levels):
    r, size = mm.largest_rank(d, order), comb(d, order)
    expected = np.sqrt(1 - r * d / size)
    # The squared share of the noise that is left has a beta distribution.
    deviation = np.sqrt(2 * expected**2 * r * d / (size + 2)) / np.sqrt(size) / (2 * expected)
    for level in levels:
        shares = []
        for i in range(count):
            rng = np.random.default_rng([d, order, i])
            exact = mm.IncompleteSymmetricTensor.from_factors(rng.standard_normal((r, d)), order)
            noise = mm.IncompleteSymmetricTensor(rng.standard_normal(size), d, order)
            noisy = exact + (level * exact.norm() / noise.norm()) * noise
            found = mm.approximate(noisy, r, random_state=rng)
            shares.append(found.residual * noisy.norm() / (level * exact.norm()))
        assert abs(np.mean(shares) - expected) < 2 * deviation / np.sqrt(count)
