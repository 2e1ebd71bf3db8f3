"""Learning diagonal Gaussian mixtures as printed (paper, Algorithm 5.1, algo:gaussian).

| paper symbol | name here | shape |
|---|---|---|
| (M̂_m)_{Ω_m}, (M̂_t)_{Ω_t} | ``moments.moment_tensor(m)`` | (C(d, m),) |
| (M̂_m)_{L_j} | ``moments.squared_moments(j, m−2)`` | (C(d−1, m−2),) |
| q̌_i (eq:q) | ``factors`` | (r, d) |
| t | ``weight_order(d, r)`` | |
| β_i (solve-w) | ``scales`` | (r,) |
| θ_ij (solve-sigma) | ``variances`` | (r, d) |

Differs from the paper:

* At even m the sign of each q_i is open. Where t is odd, (solve-w) is solved without β ≥ 0 and
  factors with negative β are turned round; where t is even too, the signs come from the smallest
  odd order t' with C(d, t') ≥ r.
* (cov-A) subtracts Σ ω*_i (μ*_i)^{⊗m} rather than Σ q̌_i^{⊗m}: the polished values.
* β is kept away from zero (weights of at least 1e-6), since (est-w-mu) divides by a power of it.

Data must not be centred: centring makes M_1 zero and the means linearly dependent.
"""

from __future__ import annotations

from math import comb
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.core.labels import sets_without
from momentmix.core.mixture import DiagonalMixture
from momentmix.tensors.approximate import Approximation, approximate
from momentmix.tensors.gauss_newton import PowerFit, fit_weighted_powers

Array = NDArray[Any]

__all__ = ["MomentSource", "PaperFit", "learn_mixture", "weight_order"]

_LEAST_WEIGHT = 1e-6


class MomentSource(Protocol):
    """Whatever gives uncentred moments: a sample, a summary, or a mixture itself."""

    @property
    def n_features(self) -> int:
        """Number of features d."""

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""


class PaperFit(NamedTuple):
    """The mixture, and what was measured on the way."""

    mixture: DiagonalMixture
    approximation: Approximation
    polish: PowerFit


def weight_order(n_features: int, n_components: int, *, odd: bool = False) -> int:
    """Smallest order t with C(d, t) ≥ r: the moments that give the weights.

    Examples
    --------
    >>> weight_order(15, 15), weight_order(15, 20), weight_order(15, 20, odd=True)
    (1, 2, 3)
    """
    step = 2 if odd else 1
    order = 1
    while comb(n_features, order) < n_components:
        order += step
    return order


def learn_mixture(
    moments: MomentSource,
    n_components: int,
    order: int,
    random_state: int | np.random.Generator | None = None,
) -> PaperFit:
    """Weights, means and variances from uncentred moments (Algorithm 5.1).

    Parameters
    ----------
    moments : MomentSource
    n_components : int
    order : int
        Order m of the tensor to decompose.
    random_state : int, Generator or None

    Returns
    -------
    PaperFit
    """
    tensor = moments.moment_tensor(order)
    found = approximate(tensor, n_components, random_state)  # Steps 1 and 2: real answer, eq:q
    low = weight_order(moments.n_features, n_components)
    factors, scales = _signs_and_scales(moments, found.factors, order, low)  # Step 3
    power = 1.0 / (order - low)
    weights = scales ** (order * power)  # est-w-mu
    means = factors / scales[:, None] ** power
    polish = fit_weighted_powers(  # Step 4, prob:nls-w mu
        [tensor, moments.moment_tensor(low)], weights / weights.sum(), means
    )
    variances = _variances(moments, polish.weights, polish.factors, order)  # Step 5
    mixture = DiagonalMixture(polish.weights / polish.weights.sum(), polish.factors, variances)
    return PaperFit(mixture, found, polish)


def _power_table(vectors: Array, order: int) -> Array:
    """(v_i^{⊗t})_{Ω_t} as columns, of shape (C(d, t), r)."""
    return np.stack([power_sum(v[None], order) for v in vectors], axis=1)


def _signs_and_scales(
    moments: MomentSource, factors: Array, order: int, low: int
) -> tuple[Array, Array]:
    """Turn the factors to the right sign and solve (solve-w) for β ≥ 0."""
    target = moments.moment_tensor(low).values
    if order % 2 == 0:
        sign_order = weight_order(moments.n_features, factors.shape[0], odd=True)
        table = _power_table(factors, sign_order)
        free = np.linalg.lstsq(table, moments.moment_tensor(sign_order).values)[0]
        factors = np.where(free < 0, -1.0, 1.0)[:, None] * factors
    scales = _non_negative(_power_table(factors, low), target)  # solve-w
    return factors, np.maximum(scales, _LEAST_WEIGHT ** ((order - low) / order))


def _variances(moments: MomentSource, weights: Array, means: Array, order: int) -> Array:
    """θ_ij by non-negative least squares on the entries L_j (solve-sigma), of shape (r, d)."""
    r, d = means.shape
    variances = np.empty((r, d))
    for j in range(d):
        sets = sets_without(d, order - 2, j)
        table = (weights[:, None] * means[:, sets].prod(axis=2)).T  # (|L_j|, r)
        target = moments.squared_moments(j, order - 2) - table @ means[:, j] ** 2  # cov-A
        variances[:, j] = _non_negative(table, target)
    return variances


def _non_negative(table: Array, target: Array) -> Array:
    """Non-negative least squares, columns scaled; plain least squares where that is positive."""
    norms = np.linalg.norm(table, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    scaled = table / norms
    solution = np.linalg.lstsq(scaled, target)[0]
    if (solution < 0).any():
        solution = nnls(scaled, target)[0]
    return np.asarray(solution / norms)
