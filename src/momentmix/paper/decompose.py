"""Incomplete symmetric tensor decomposition (Algorithm 3.4).

| paper symbol | name here | shape |
|---|---|---|
| q_i | ``Decomposition.factors`` | (r, d) |
| (1, ṽ_i, w̃_i) | ``directions`` | (r, d) |
| ξ | rows of ``xi`` | (n_directions, n−k) |

Differs from the paper: several orders of the coordinates and several ξ are tried and the lowest
residual is kept, since the error of a single draw is heavy-tailed. One factor is computed from
ratios of entries, without a split. generating.py (Steps 1 and 2) and coefficients.py (Step 3) say
what differs inside a step.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from momentmix._typing import Array, Int
from momentmix.errors import (
    CapacityError,
    DecompositionError,
    FitWarning,
    InputError,
    InputTypeError,
    check_count,
    warn_caller,
)
from momentmix.index_sets import colex_rank, sets_without
from momentmix.paper.coefficients import finish, lower_coordinates, solve_weights
from momentmix.paper.gauss_newton import fit_powers
from momentmix.paper.generating import (
    choose_basis,
    common_eigenvalues,
    eigenvalues_from_few,
    multiplication_matrices,
    sub_tensors,
)
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import Split, best_split, largest_rank, smallest_order
from momentmix.paper.results import Decomposition, Diagnostics, failure
from momentmix.parallel import few_threads, map_in_order, one_thread_below, usable_cores

_EPS = float(np.finfo(float).eps)
_FAR = 0.1  # residual that no exact tensor of the rank leaves

LARGE = 500  # ranks above it take seconds an order: its steps share the cores, not the orders
_THREADED = 100  # ranks from it on have threads, with one BLAS thread each
_PRECISE = 1e-8  # a residual of rounding errors alone; at rank 969 orders end at 4e-10 … 4e-9
_FEW_MATRICES = 4  # of all N_l; two or three give one digit less
_MOST_THREADS = 4  # orders at a time: each has matrices of its own
_MOST_PARTS = 16  # parts of one step at a time


def default_orders(rank: int) -> int:
    """Orders of the coordinates to try at most: four, or two where each costs seconds."""
    return 2 if rank > LARGE else 4


def default_directions(rank: int) -> int:
    """Vectors ξ to try for each order: two, or one where an eigenvalue problem costs seconds."""
    return 1 if rank > LARGE else 2


@one_thread_below(LARGE + 1)
def decompose(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int | None = None,
    polish: bool = False,
) -> Decomposition:
    """Decompose an incomplete symmetric tensor into `rank` powers (paper: algo:iSTD, thm:TD).

    Parameters
    ----------
    tensor : IncompleteSymmetricTensor
        Order at least 3; real or complex.
    rank : int
        Number of factors, at most ``largest_rank(tensor.n_features, tensor.order)``.
    random_state : int, Generator or None
    n_orders : int, optional
        Orders of the coordinates to try; the lowest residual is kept. By default 4; above rank
        500, where each costs seconds, 2, or 1 if its residual is below 1e-8.
    n_directions : int, optional
        Vectors ξ to try for each order of the coordinates; the widest eigenvalue gap is kept. 2 by
        default, 1 above rank 500.
    polish : bool
        Whether to minimize (solve-F) by Levenberg–Marquardt at the end. Its residual is
        ``diagnostics.polished_residual``.

    Returns
    -------
    Decomposition
        ``factors`` of shape (rank, n_features), each unique up to an `order`-th root of unity; real
        where the tensor is real and real factors fit as well.

    Raises
    ------
    CapacityError
        If rank exceeds what the order identifies.
    DecompositionError
        If a genericity condition fails for every order of the coordinates tried.

    Warns
    -----
    FitWarning
        If the best residual is above 0.1: the tensor has another rank, or noise.

    Examples
    --------
    >>> import numpy as np
    >>> factors = np.random.default_rng(0).standard_normal((6, 15))
    >>> tensor = IncompleteSymmetricTensor.from_factors(factors, 3)
    >>> result = decompose(tensor, 6, random_state=0)
    >>> result.diagnostics.residual < 1e-12
    True
    """
    tried = attempts(tensor, rank, random_state, n_orders=n_orders, n_directions=n_directions)
    best = min(tried, key=_failure_and_residual)
    if best.diagnostics.failed is not None:
        raise failure(tensor, rank, tried)
    if polish:
        polished = fit_powers(tensor, best.factors)
        diagnostics = replace(best.diagnostics, polished_residual=polished.residual)
        best = Decomposition(polished.factors, diagnostics)
    residual = best.diagnostics.polished_residual or best.diagnostics.residual
    if residual > _FAR:
        warn_caller(
            f"the best of {len(tried)} orders of the coordinates leaves a residual of "
            f"{residual:.3g} of the tensor's norm: it is no sum of {rank} powers, or holds noise. "
            f"Use approximate() for a tensor with noise, or another rank (at most "
            f"{largest_rank(tensor.n_features, tensor.order)}).",
            FitWarning,
        )
    return best


def _failure_and_residual(attempt: Decomposition) -> tuple[bool, float]:
    """Key to sort attempts by: failed ones last, then the residual, NaN as infinite."""
    residual = attempt.diagnostics.residual
    return attempt.diagnostics.failed is not None, residual if np.isfinite(residual) else np.inf


def attempts(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int | None = None,
) -> list[Decomposition]:
    """One decomposition for each order of the coordinates tried, more while all have failed."""
    rank = _check(tensor, rank)
    enough = _PRECISE if n_orders is None and rank > LARGE else 0.0
    n_orders = default_orders(rank) if n_orders is None else check_count("n_orders", n_orders, 1)
    if n_directions is None:
        n_directions = default_directions(rank)
    n_directions = check_count("n_directions", n_directions, 1)
    if not tensor.values.any():
        raise DecompositionError(
            "every entry of the tensor is zero: it has rank 0 on distinct indices. Nothing can be "
            "decomposed; check the input.",
            condition="independence-basis",
        )
    if rank == 1:
        return [_one_factor(tensor)]
    split = best_split(tensor.n_features, tensor.order, rank)
    rng = np.random.default_rng(random_state)
    leads = rng.permutation(tensor.n_features)

    def draw(lead: int) -> tuple[Int, Array]:
        others = rng.permutation(np.delete(np.arange(tensor.n_features), lead))
        coordinates = np.concatenate([[lead], others])
        return coordinates, rng.standard_normal((n_directions, others.size - split.n_lower))

    def work(drawn: tuple[Int, Array]) -> Decomposition:
        with few_threads(rank >= _THREADED):
            return _attempt(tensor, rank, split, *drawn, n_threads=n_parts, enough=enough)

    n_cores, n_threads, n_parts = usable_cores(), 1, 1
    if rank > LARGE:
        n_parts = min(n_cores, _MOST_PARTS)
    elif rank >= _THREADED:
        n_threads = min(n_cores, _MOST_THREADS, n_orders)
    first = [draw(lead) for lead in np.resize(leads, n_orders).tolist()]
    tried = []
    for attempt in map_in_order(work, first, n_threads):
        tried.append(attempt)
        if attempt.diagnostics.residual < enough:
            break
    for lead in leads[n_orders:].tolist():
        if any(a.diagnostics.failed is None for a in tried):
            break
        tried.append(work(draw(lead)))
    return [replace(a, diagnostics=replace(a.diagnostics, n_tried=len(tried))) for a in tried]


def _check(tensor: IncompleteSymmetricTensor, rank: int) -> int:
    if not isinstance(tensor, IncompleteSymmetricTensor):
        raise InputTypeError(
            f"tensor must be an IncompleteSymmetricTensor; got {type(tensor).__name__}. Build one "
            "with IncompleteSymmetricTensor.from_dense(array), or from its values."
        )
    rank = check_count("rank", rank, 1)
    if tensor.order < 3:
        raise InputError(
            f"order must be at least 3: lower orders do not determine the factors; got order="
            f"{tensor.order}. Use a tensor of order 3 or more."
        )
    if tensor.n_features <= tensor.order:
        raise CapacityError(
            f"order={tensor.order} needs at least {tensor.order + 1} features; got "
            f"{tensor.n_features}. Lower the order or add features."
        )
    most = largest_rank(tensor.n_features, tensor.order)
    if rank > most:
        cure = f"Lower the rank to at most {most}"
        with suppress(CapacityError):
            order = smallest_order(tensor.n_features, rank)
            cure += (
                f", or use a tensor of order {order} (up to "
                f"{largest_rank(tensor.n_features, order)})"
            )
        raise CapacityError(
            f"a tensor of order {tensor.order} with {tensor.n_features} features determines at "
            f"most {most} factors on distinct indices; rank={rank} was asked. {cure}."
        )
    return rank


# -- one factor --------------------------------------------------------------------------------


def _one_factor(tensor: IncompleteSymmetricTensor) -> Decomposition:
    """q_i / q_j from the entries F_{i·S} and F_{j·S}, by least squares over S."""
    d, order = tensor.n_features, tensor.order
    energy = np.bincount(
        tensor.labels.ravel(), weights=np.repeat(np.abs(tensor.values) ** 2, order), minlength=d
    )
    pivot = int(energy.argmax())
    directions = np.ones((1, d), dtype=tensor.values.dtype)
    for i in range(d):
        if i == pivot:
            continue
        rest = sets_without(d, order - 1, pivot)
        rest = rest[(rest != i).all(axis=1)]
        over, under = (
            tensor.values[colex_rank(np.sort(np.column_stack([rest, np.full(len(rest), x)]), 1))]
            for x in (i, pivot)
        )
        size = float(np.linalg.norm(under) ** 2)
        if size <= _EPS**2 * energy[pivot]:
            raise DecompositionError(
                f"entries do not determine coordinate {i} of the factor: all that could are zero. "
                "The factor has too few non-zero coordinates; leave out the zero features.",
                condition="leading-entry",
            )
        directions[0, i] = np.vdot(under, over) / size
    weights, residual = solve_weights(tensor, directions)
    return finish(tensor, directions, weights, Diagnostics(residual=residual))


# -- Algorithm 3.4 for one order of the coordinates ------------------------------------------------


def _attempt(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    split: Split,
    coordinates: Int,
    xi: Array,
    n_threads: int,
    enough: float,
) -> Decomposition:
    """One decomposition; `enough` > 0 takes shorter steps, which a residual below it confirms."""
    blocks = sub_tensors(tensor, split, coordinates, n_threads)
    basis, margin = choose_basis(blocks.base, rank)
    diagnostics = Diagnostics(
        residual=np.inf, split=split, coordinates=tuple(int(c) for c in coordinates)
    )
    empty = np.zeros((rank, tensor.n_features), dtype=tensor.values.dtype)
    if margin <= rank * _EPS:
        upper_margin = choose_basis(blocks.raised_upper, rank)[1]
        failed = "independence-basis" if upper_margin <= rank * _EPS else "leading-entry"
        return Decomposition(empty, replace(diagnostics, failed=failed))
    n_matrices = min(_FEW_MATRICES, blocks.n_upper) if enough > 0 else blocks.n_upper
    matrices, condition = multiplication_matrices(blocks, basis, n_threads, n_matrices)  # Step 1
    diagnostics = replace(diagnostics, condition_systems=condition)
    if not condition * _EPS < 1:  # A[α, F_m] lacks full column rank  lemma: lid A
        return Decomposition(empty, replace(diagnostics, failed="independence-rows"))
    if n_matrices < blocks.n_upper:
        roots = eigenvalues_from_few(blocks, basis, matrices, xi, n_threads)
    else:
        roots = common_eigenvalues(matrices, xi, n_threads)  # Step 2
    del matrices  # the largest array
    diagnostics = replace(
        diagnostics, eigenvalue_gap=roots.gap, condition_eigenvectors=roots.condition
    )
    if not roots.condition * _EPS < 1:
        return Decomposition(empty, replace(diagnostics, failed="distinct-eigenvalues"))
    solved = lower_coordinates(blocks, split, roots.values, n_threads)  # Step 3
    if solved is None:
        return Decomposition(empty, replace(diagnostics, failed="distinct-eigenvalues"))
    lower, start = solved
    del blocks
    directions = np.empty((rank, tensor.n_features), dtype=lower.dtype)
    directions[:, coordinates[0]] = 1.0  # (r, d), rows (1, u_i)  F-decomp
    directions[:, coordinates[1 : split.n_lower + 1]] = lower
    directions[:, coordinates[split.n_lower + 1 :]] = roots.values
    weights, residual = solve_weights(tensor, directions, start, n_threads, enough)
    if not np.isfinite(residual):
        return Decomposition(empty, replace(diagnostics, failed="residual"))
    return finish(tensor, directions, weights, replace(diagnostics, residual=residual))
