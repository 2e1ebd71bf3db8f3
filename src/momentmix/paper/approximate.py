"""Incomplete symmetric tensor approximation (Algorithm 4.1).

| paper symbol | name here | shape |
|---|---|---|
| (F̂_m)_{Ω_m} (subtensor-approx) | ``tensor`` | (C(d, m),) |
| q̂_i | ``start`` | (r, d) |
| q_i^* (solve-F) | ``Approximation.factors`` | (r, d) |

Steps 1–3 are the decomposition under noise; step 4 is (solve-F).

Differs from the paper: for a real tensor the starting vectors are made real before the least
squares, so that the result is real. Two vectors that noise has merged into a complex pair a ± ib
start from a + b and a − b. Where noise has spoilt the start, the factors are searched one after the
other (power_search.py), and so are powers that a good start misses: a start with a residual above
0.3 is discarded, and up to four searches are made while more is left than noise would leave.
``search=False`` turns this off. The least squares has at most 50 steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from momentmix._typing import Array
from momentmix.errors import DecompositionError, FitWarning, check_count, warn_caller
from momentmix.paper.decompose import LARGE, Diagnostics, attempts, nearest_real
from momentmix.paper.gauss_newton import fit_powers
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.paper.power_search import losses, noise_peak, search_powers
from momentmix.parallel import few_threads

_ORDERS = 2  # of the coordinates, by default
_NEAR = 0.3  # residual from which a start is of no more use than none
_SEARCHES = 4  # at most, while more is left than noise would leave
_ROUNDING = 1e-12  # relative residual of an exact tensor


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
        Of the decomposition that gave the start, or the best that was tried.
    n_supported : int
        Factors that explain more than the largest power in Gaussian noise of the residual's size
        would: the largest rank that such noise leaves stable.
    """

    factors: Array = field(repr=False)
    residual: float
    n_iterations: int
    converged: bool
    diagnostics: Diagnostics = field(repr=False)
    n_supported: int


def approximate(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    degree: int | None = None,
    max_iterations: int = 50,
    search: bool = True,
) -> Approximation:
    """Approximate an incomplete symmetric tensor by `rank` powers (paper: algo:tensor-approx).

    Parameters
    ----------
    tensor : IncompleteSymmetricTensor
    rank : int
        Number of factors, at most ``largest_rank(tensor.n_features, tensor.order)``.
    random_state : int, Generator or None
    n_orders, degree : int, optional
        As in `decompose`, but two orders by default, one above rank 500.
    max_iterations : int
        Steps of Levenberg–Marquardt at the end.
    search : bool
        Whether factors are searched one after the other where noise has spoilt the start, and
        where a start misses some. With ``search=False, n_orders=1`` it is the printed algorithm.

    Returns
    -------
    Approximation
        Real factors for a real tensor.

    Raises
    ------
    CapacityError
        If rank exceeds what the order identifies.
    DecompositionError
        If there is no start, or no factor stands out of the noise.

    Warns
    -----
    FitWarning
        If the least squares did not converge, or some factors do not stand out of the noise.

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
    with few_threads(rank <= LARGE):
        best = best_powers(tensor, rank, random_state, n_orders, degree, max_iterations, search)
    if best.n_supported == 0:
        raise DecompositionError(
            f"no power stands out of the noise: the best {rank} leave a residual of "
            f"{best.residual:.3g} of the tensor's norm, as noise alone would. Reduce the noise, or "
            "use a tensor with more features.",
            condition="noise",
            diagnostics=best.diagnostics,
        )
    left = f"the residual is {best.residual:.3g} of the tensor's norm"
    if best.n_supported < rank:
        warn_caller(
            f"{left}, and of the {rank} factors {rank - best.n_supported} are no larger than the "
            f"powers in noise of that size. Ask for rank={best.n_supported} at most, the largest "
            "that is stable at this noise, or reduce the noise.",
            FitWarning,
        )
    elif not best.converged:
        warn_caller(
            f"the least squares did not converge in {best.n_iterations} steps; {left}. Use a "
            f"larger max_iterations, another random_state, or a lower rank.",
            FitWarning,
        )
    return best


def best_powers(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    n_orders: int | None = None,
    degree: int | None = None,
    n_steps: int = 50,
    search: bool = True,
) -> Approximation:
    """As `approximate`, whatever the residual: for callers with checks of their own."""
    n_steps = check_count("max_iterations", n_steps, 1)
    rng = np.random.default_rng(random_state)
    if n_orders is None:
        n_orders = 1 if rank > LARGE else _ORDERS
    tried = attempts(tensor, rank, rng, n_orders, degree)  # Steps 1 to 3
    size = float(np.linalg.norm(tensor.values))

    def distance(factors: Array) -> float:
        return float(np.linalg.norm(tensor.values - power_sum(factors, tensor.order))) / size

    starts = [_real_start(tensor, attempt.factors) for attempt in tried]
    residual, i = min((distance(start), i) for i, start in enumerate(starts))
    nearest, diagnostics = starts[i], tried[i].diagnostics
    start = nearest if residual < _NEAR or rank == 1 else None
    best: Approximation | None = None
    for _ in range(_SEARCHES if search else 1):
        found, is_noise = search_powers(tensor, rank, rng, start) if search else (nearest, True)
        if found.shape[0] < rank:
            found = nearest
        fit = fit_powers([tensor], found, max_iterations=n_steps)  # Step 4
        if best is None or fit.residual < best.residual:
            noise = noise_peak(fit.residual * size, tensor.values.size, tensor.n_features, rank)
            supported = int((losses(fit.factors, tensor.order) > noise).sum())
            best = Approximation(
                fit.factors, fit.residual, fit.n_iterations, fit.converged, diagnostics, supported
            )
        if fit.residual < _ROUNDING or (fit.converged and is_noise):
            break
        start = None
    assert best is not None
    return best


def _real_start(tensor: IncompleteSymmetricTensor, factors: Array) -> Array:
    """For a real tensor real vectors near the factors; a pair a ± ib becomes a + b and a − b."""
    if not tensor.is_real or factors.dtype.kind == "f":
        return factors
    rotated = nearest_real(factors, tensor.order)
    return np.asarray(rotated.real + rotated.imag)
