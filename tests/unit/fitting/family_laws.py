"""Tables of all families with known parameters, as features, for tests of fits."""

from __future__ import annotations

import numpy as np

from momentmix.families.counts import Poisson
from momentmix.families.distribution import Distribution
from momentmix.families.gaussian import Gaussian
from momentmix.families.levels import Bernoulli, Categorical
from momentmix.fitting.data import moments_of
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summarize import summarize


def all_families() -> tuple[Distribution, ...]:
    """A number, a joined pair of numbers, a yes/no answer, a category, a count, and two that may
    be missing: eleven features."""
    return (
        Distribution((3,), Bernoulli()),
        Distribution((4, 5), Categorical()),
        Distribution((6,), Poisson()),
        Distribution((7, 8), Gaussian(), True),
        Distribution((9, 10), Bernoulli(), True),
    )


def mixed_law(joined: bool = True) -> Parameters:
    """Two components of all families, in the units of the data."""
    means = np.array(
        [
            [0.0, 1.0, -1.0, 0.2, 0.5, 0.2, 1.5, 0.6, 0.8, 0.3, 0.7],
            [2.0, -1.0, 0.5, 0.7, 0.1, 0.6, 5.0, -0.9, 0.6, 0.5, 0.9],
        ]
    )
    blocks = Blocks.of(11, [[1, 2]] if joined else [], all_families())
    covariances = np.array([[0.5], [-0.4]]) if joined else None
    p = Parameters(np.array([0.4, 0.6]), means, np.full_like(means, 1.2), covariances, blocks)
    return p.completed()


def drawn(n: int, seed: int = 0, joined: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Rows of features, and their components."""
    return sample(mixed_law(joined), n, np.random.default_rng(seed))


def standard_moments(rows: np.ndarray):
    """Moments of rows of all families."""
    moments = moments_of(summarize(rows, order=4))
    assert moments is not None
    return moments.with_laws(all_families())
