"""Incomplete symmetric tensor approximation (Algorithm 4.1).

| paper symbol | name here | shape |
|---|---|---|
| (F̂_m)_{Ω_m} (subtensor-approx) | ``tensor`` | (C(d, m),) |
| q̂_i | ``start`` | (r, d) |
| q_i^* (solve-F) | ``Approximation.factors`` | (r, d) |

Steps 1–3 are those of the decomposition under noise; step 4 is (solve-F).

Differs from the paper: for a real tensor the starting vectors are made real before the least
squares, so that the result is real. Two vectors that noise has merged into a complex pair a ± ib
start from a + b and a − b. The least squares run from the start of lowest residual first; the next
starts, and then other orders of the coordinates, are tried only where that did not converge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from momentmix._typing import Array
from momentmix.errors import check_count
from momentmix.parallel import one_thread_below
from momentmix.tensor.coefficients import nearest_real
from momentmix.tensor.decompose import LARGE, attempts, default_orders
from momentmix.tensor.gauss_newton import fit_powers
from momentmix.tensor.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.tensor.results import Decomposition, Diagnostics, failure

_ROUNDS = (1, 4)  # multiples of n_orders; the second round runs if no start of the first converged
_MOST_STARTS = 4  # starts of (solve-F) in each round: bounds the time where none converges


@dataclass(frozen=True)
class Approximation:
    """Best sum of powers found for a tensor that is known with errors.

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


@one_thread_below(LARGE + 1)
def approximate(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int | None = None,
    max_iterations: int = 50,
) -> Approximation:
    """Approximate an incomplete symmetric tensor by `rank` powers (paper: algo:tensor-approx).

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
        If rank exceeds what the order identifies.
    DecompositionError
        If there is no start.

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
    for multiple in _ROUNDS:
        count = multiple * (default_orders(rank) if n_orders is None else n_orders)
        tried = attempts(tensor, rank, rng, n_orders=count, n_directions=n_directions)
        for diagnostics, start in _starts(tensor, tried)[:_MOST_STARTS]:
            fit = fit_powers(tensor, start, max_iterations=max_iterations)  # Step 4
            if best is None or fit.residual < best.residual:
                best = Approximation(
                    fit.factors, fit.residual, fit.n_iterations, fit.converged, diagnostics
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
    for attempt in tried:
        if attempt.diagnostics.failed is None:
            start = attempt.factors
            if tensor.is_real:
                start = _real_start(start, tensor.order)
            residual = float(np.linalg.norm(tensor.values - power_sum(start, tensor.order)))
            starts.append((residual, attempt.diagnostics, start))
    return [(diagnostics, start) for _, diagnostics, start in sorted(starts, key=lambda s: s[0])]


def _real_start(factors: Array, order: int) -> Array:
    """Real vectors near the factors; a conjugate pair a ± ib becomes a + b and a − b."""
    if factors.dtype.kind == "f":
        return factors
    rotated = nearest_real(factors, order)
    return np.asarray(rotated.real + rotated.imag)
