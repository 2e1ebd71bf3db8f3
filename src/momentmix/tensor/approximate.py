"""Incomplete symmetric tensor approximation (paper, Algorithm 4.1, algo:tensor-approx).

| paper symbol | name here | shape |
|---|---|---|
| (F̂_m)_{Ω_m} (subtensor-approx) | ``tensor`` | (C(d, m),) |
| q̂_i | ``start`` | (r, d) |
| q_i^* (solve-F) | ``Approximation.factors`` | (r, d) |

Steps 1–3 are those of the decomposition under noise; step 4 is (solve-F).

Differs from the paper: for a real tensor the starting vectors are made real before the least
squares, so that the answer is real. Two vectors that noise has merged into a complex pair a ± ib
start from a + b and a − b. The start of lowest residual is finished first; the next ones, and then
fresh orders of the coordinates, only where that did not converge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.capacity import check_count
from momentmix.parallel import one_thread_below
from momentmix.tensor.coefficients import nearest_real
from momentmix.tensor.decompose import attempts, default_orders
from momentmix.tensor.gauss_newton import fit_powers
from momentmix.tensor.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.tensor.results import Decomposition, Diagnostics, failure

Array = NDArray[Any]

__all__ = ["Approximation", "approximate"]

_ROUNDS = (1, 4)  # times n_orders: a second, larger round where no start of the first converged
_FINISHED = 4  # starts that (solve-F) is tried from in each round


@dataclass(frozen=True)
class Approximation:
    """Best powers found for a tensor that is known with errors.

    Attributes
    ----------
    factors : array of shape (rank, n_features)
    residual : float
        ‖F̂ − Σ q_i^{⊗m}‖ / ‖F̂‖ on Ω_m after the least squares.
    n_iterations : int
    converged : bool
    diagnostics : Diagnostics
        Of the decomposition that gave the start.
    """

    factors: Array = field(repr=False)
    residual: float
    n_iterations: int
    converged: bool
    diagnostics: Diagnostics = field(repr=False)


@one_thread_below(1000)
def approximate(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int = 2,
    max_iterations: int = 50,
) -> Approximation:
    """Approximate an incomplete symmetric tensor by `rank` powers (Algorithm 4.1).

    Parameters
    ----------
    tensor : IncompleteSymmetricTensor
    rank : int
        Number of factors, at most ``largest_rank(tensor.n_features, tensor.order)``.
    random_state : int, Generator or None
    n_orders, n_directions : int
        As in `decompose`; four times as many orders are drawn where no start converges.
    max_iterations : int
        Steps of Levenberg–Marquardt from one start.

    Returns
    -------
    Approximation
        Real factors for a real tensor.

    Raises
    ------
    CapacityError
        Where rank exceeds what the order identifies.
    DecompositionError
        Where no start could be found.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> exact = IncompleteSymmetricTensor.from_factors(rng.standard_normal((6, 15)), 3)
    >>> noise = 1e-3 * rng.standard_normal(exact.values.size)
    >>> noisy = IncompleteSymmetricTensor(exact.values + noise, 15, 3)
    >>> approximate(noisy, 6, random_state=0).residual < 1e-3
    True
    """
    rank = check_count("rank", rank, 1)
    max_iterations = check_count("max_iterations", max_iterations, 1)
    rng = np.random.default_rng(random_state)
    best: Approximation | None = None
    for share in _ROUNDS:
        count = share * (default_orders(rank) if n_orders is None else n_orders)
        tried = attempts(tensor, rank, rng, n_orders=count, n_directions=n_directions)
        for numbers, factors in _starts(tensor, tried)[:_FINISHED]:
            fit = fit_powers(tensor, factors, max_iterations=max_iterations)  # Step 4, solve-F
            if best is None or fit.residual < best.residual:
                best = Approximation(
                    fit.factors, fit.residual, fit.n_iterations, fit.converged, numbers
                )
            if best.converged:
                return best
        if rank == 1:
            break
    if best is None:
        raise failure(tensor, rank, tried)
    return best


def _starts(
    tensor: IncompleteSymmetricTensor, tried: list[Decomposition]
) -> list[tuple[Diagnostics, Array]]:
    """Starting vectors of the attempts that did not fail, lowest residual first."""
    starts = []
    for one in tried:
        if one.diagnostics.failed is None:
            factors = _real_start(one.factors, tensor.order) if tensor.is_real else one.factors
            residual = float(np.linalg.norm(tensor.values - power_sum(factors, tensor.order)))
            starts.append((residual, one.diagnostics, factors))
    return [(numbers, factors) for _, numbers, factors in sorted(starts, key=lambda s: s[0])]


def _real_start(factors: Array, order: int) -> Array:
    """Real vectors near the factors; a conjugate pair a ± ib becomes a + b and a − b."""
    if factors.dtype.kind == "f":
        return factors
    turned = nearest_real(factors, order)
    return np.asarray(turned.real + turned.imag)
