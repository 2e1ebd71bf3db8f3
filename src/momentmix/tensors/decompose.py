"""Incomplete symmetric tensor decomposition (paper, Algorithm 3.4, algo:iSTD).

| paper symbol | name here | shape |
|---|---|---|
| q_i | ``Decomposition.factors`` | (r, d) |
| (1, ṽ_i, w̃_i) | ``directions`` | (r, d) |
| λ_i | ``weights`` | (r,) |
| γ̃_i (coef-1) | ``products`` | (r, C(k, p)) |
| ξ | ``direction`` of `common_eigenvalues` | (n−k,) |

Differs from the paper:

* Several orders of the coordinates and several ξ are tried and the lowest residual is kept, since
  the error of a single draw is heavy-tailed.
* (coef-1) and its twin one degree higher share the matrix [w̃]_{J_3}: one factorisation serves both,
  and (v_i)_j follows from their ratios, combined by least squares over all products that hold j.
* (coef-lambda) uses the Gram matrix in closed form, m!·e_m, and two steps of iterative refinement
  with the residual on Ω_m.
* One factor is found directly from ratios of entries; no split is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from momentmix.capacity import Split, best_split, check_count
from momentmix.core.incomplete_tensor import (
    IncompleteSymmetricTensor,
    contract,
    elementary_symmetric,
    power_inner_products,
    power_sum,
)
from momentmix.core.labels import Int, colex_rank, index_sets, sets_without
from momentmix.core.monomials import monomials
from momentmix.errors import CapacityError, DecompositionError, InputError, InputTypeError
from momentmix.tensors.gauss_newton import fit_powers
from momentmix.tensors.generating import (
    SubTensors,
    choose_basis,
    common_eigenvalues,
    multiplication_matrices,
    scaled_least_squares,
    sub_tensors,
)

Array = NDArray[Any]

__all__ = ["Decomposition", "Diagnostics", "attempts", "decompose", "nearest_real"]

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Diagnostics:
    """What was measured on the way to a decomposition.

    Attributes
    ----------
    residual : float
        ‖F − Σ q_i^{⊗m}‖ / ‖F‖ on Ω_m.
    condition_systems : float
        Largest condition number of the linear systems (solve-G).
    condition_eigenvectors : float
        Condition number of the common eigenvectors.
    eigenvalue_gap : float
        Least distance between two eigenvalues of N(ξ), relative to the largest.
    imaginary_part : float
        Largest ‖Im q_i‖ / ‖q_i‖ after the best rotation by a root of unity.
    split : Split or None
        The split (k, p) in use; None for one factor.
    coordinates : tuple of int
        The order of the coordinates in use.
    n_tried : int
        Orders of the coordinates that were tried.
    failed : str or None
        The genericity condition that failed, if any.
    polished_residual : float or None
        Residual after the optional polish.
    """

    residual: float
    condition_systems: float = 1.0
    condition_eigenvectors: float = 1.0
    eigenvalue_gap: float = 1.0
    imaginary_part: float = 0.0
    split: Split | None = None
    coordinates: tuple[int, ...] = ()
    n_tried: int = 1
    failed: str | None = None
    polished_residual: float | None = None


@dataclass(frozen=True)
class Decomposition:
    """Factors of an incomplete symmetric tensor: F ≈ Σ_i factors_i^{⊗order} on distinct indices."""

    factors: Array
    diagnostics: Diagnostics = field(repr=False)

    def __repr__(self) -> str:
        rank, d = self.factors.shape
        return (
            f"Decomposition(rank={rank}, n_features={d}, residual={self.diagnostics.residual:.2e})"
        )


def decompose(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int = 2,
    polish: bool = False,
) -> Decomposition:
    """Decompose an incomplete symmetric tensor into `rank` powers (Algorithm 3.4).

    Parameters
    ----------
    tensor : IncompleteSymmetricTensor
        Order at least 3; real or complex.
    rank : int
        Number of factors, at most ``largest_rank(tensor.n_features, tensor.order)``.
    random_state : int, Generator or None
    n_orders : int, optional
        Orders of the coordinates to try; the lowest residual is kept. 4 by default, 2 above rank
        500, where each costs seconds.
    n_directions : int
        Vectors ξ to try for each order of the coordinates; the widest eigenvalue gap is kept.
    polish : bool
        Whether to finish with Levenberg–Marquardt on (solve-F). Reported apart, as
        ``diagnostics.polished_residual``.

    Returns
    -------
    Decomposition
        ``factors`` of shape (rank, n_features), each unique up to an `order`-th root of unity; real
        where the tensor is real and real factors do as well.

    Raises
    ------
    CapacityError
        Where rank exceeds what the order identifies.
    DecompositionError
        Where a genericity condition fails for every order of the coordinates tried.

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
    best = min(tried, key=lambda one: (one.diagnostics.failed is not None, _rank_key(one)))
    if best.diagnostics.failed is not None:
        raise _failure(tensor, rank, tried, best)
    if polish:
        polished = fit_powers(tensor, best.factors)
        numbers = replace(best.diagnostics, polished_residual=polished.residual)
        best = Decomposition(polished.factors, numbers)
    return best


def _rank_key(one: Decomposition) -> float:
    residual = one.diagnostics.residual
    return residual if np.isfinite(residual) else np.inf


def attempts(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    n_directions: int = 2,
) -> list[Decomposition]:
    """One decomposition for each order of the coordinates tried, failed ones included.

    More orders are drawn while every one has failed, until each coordinate has led once.
    """
    rank = _check(tensor, rank)
    n_orders = (
        (2 if rank > 500 else 4) if n_orders is None else check_count("n_orders", n_orders, 1)
    )
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
    tried: list[Decomposition] = []
    for lead in leads if n_orders <= leads.size else np.resize(leads, n_orders):
        if len(tried) >= n_orders and any(one.diagnostics.failed is None for one in tried):
            break
        others = rng.permutation(np.delete(np.arange(tensor.n_features), lead))
        coordinates = np.concatenate([[lead], others])
        one = _attempt(tensor, rank, split, coordinates, rng, n_directions)
        tried.append(replace(one, diagnostics=replace(one.diagnostics, n_tried=len(tried) + 1)))
    return tried


def _check(tensor: IncompleteSymmetricTensor, rank: int) -> int:
    if not isinstance(tensor, IncompleteSymmetricTensor):
        raise InputTypeError(
            f"tensor must be an IncompleteSymmetricTensor; got {type(tensor).__name__}. Build one "
            "from its values with IncompleteSymmetricTensor(values, n_features, order)."
        )
    rank = check_count("rank", rank, 1)
    if tensor.order < 3:
        raise InputError(
            f"order must be at least 3: lower orders do not determine the factors; got order="
            f"{tensor.order}. Use moments of order 3 or more."
        )
    if tensor.n_features <= tensor.order:
        raise CapacityError(
            f"order={tensor.order} needs at least {tensor.order + 1} features; got "
            f"{tensor.n_features}. Lower the order or add features."
        )
    if rank > 1:
        best_split(tensor.n_features, tensor.order, rank)
    return rank


# -- one factor --------------------------------------------------------------------------------


def _one_factor(tensor: IncompleteSymmetricTensor) -> Decomposition:
    """q_i / q_j from the entries F_{i·S} and F_{j·S}, by least squares over S (no split needed)."""
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
        if size <= (_EPS * energy[pivot]) ** 1.0:
            raise DecompositionError(
                f"entries do not determine coordinate {i} of the factor: all entries that could are "
                "zero. The factor has too few non-zero coordinates; leave out the zero features.",
                condition="leading-entry",
            )
        directions[0, i] = np.vdot(under, over) / size
    weights, residual = _solve_weights(tensor, directions)
    return _finish(tensor, directions, weights, Diagnostics(residual=residual))


# -- Algorithm 3.4 for one order of the coordinates ------------------------------------------------


def _attempt(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    split: Split,
    coordinates: Int,
    rng: np.random.Generator,
    n_directions: int,
) -> Decomposition:
    blocks = sub_tensors(tensor, split, coordinates)
    basis, margin = choose_basis(blocks.base, rank)
    numbers = Diagnostics(
        residual=np.inf, split=split, coordinates=tuple(int(c) for c in coordinates)
    )
    empty = np.zeros((rank, tensor.n_features), dtype=tensor.values.dtype)
    if margin <= rank * _EPS:
        upper_margin = choose_basis(blocks.raised_upper, rank)[1]
        failed = "independence-basis" if upper_margin <= rank * _EPS else "leading-entry"
        return Decomposition(empty, replace(numbers, failed=failed))
    matrices, condition = multiplication_matrices(blocks, basis)  # Step 1
    numbers = replace(numbers, condition_systems=condition)
    if not condition * rank * _EPS < 1:
        return Decomposition(empty, replace(numbers, failed="independence-rows"))
    roots = max(  # Step 2
        (
            common_eigenvalues(matrices, rng.standard_normal(blocks.n_upper))
            for _ in range(n_directions)
        ),
        key=lambda found: found.gap,
    )
    numbers = replace(numbers, eigenvalue_gap=roots.gap, condition_eigenvectors=roots.condition)
    if not roots.condition * _EPS < 1:
        return Decomposition(empty, replace(numbers, failed="distinct-eigenvalues"))
    lower = _lower_coordinates(blocks, split, roots.values)  # Step 3
    if lower is None:
        return Decomposition(empty, replace(numbers, failed="distinct-eigenvalues"))
    directions = np.empty((rank, tensor.n_features), dtype=lower.dtype)
    directions[:, coordinates[0]] = 1.0
    directions[:, coordinates[1 : split.n_lower + 1]] = lower
    directions[:, coordinates[split.n_lower + 1 :]] = roots.values
    weights, residual = _solve_weights(tensor, directions)
    if not np.isfinite(residual):
        return Decomposition(empty, replace(numbers, failed="residual"))
    return _finish(tensor, directions, weights, replace(numbers, residual=residual))


def _lower_coordinates(blocks: SubTensors, split: Split, upper: Array) -> Array | None:
    """ṽ_i from (coef-1) and its twin one degree higher, of shape (r, k); None where undetermined."""
    k, p = split.n_lower, split.degree
    table = monomials(upper.T, blocks.co_degree)[-1]  # (|J_2|, r)  [w̃]_{J_3}
    both = np.concatenate([blocks.base, blocks.raised_lower]).T
    solution, condition = scaled_least_squares(table, both)
    if not np.isfinite(condition):
        return None
    products, raised = solution[:, : comb(k, p)], solution[:, comb(k, p) :]  # coef-1, coef-2
    sets = index_sets(k, p + 1)
    ratios = np.zeros((upper.shape[0], k), dtype=solution.dtype)
    sizes = np.zeros((upper.shape[0], k))
    for t in range(p + 1):
        rest = products[:, colex_rank(np.delete(sets, t, axis=1))]  # λ_i v_i^{S∖j}
        belongs = (sets[:, t, None] == np.arange(k)).astype(float)  # (sets, k)
        ratios += (np.conj(rest) * raised) @ belongs
        sizes += (np.abs(rest) ** 2) @ belongs
    if not (sizes > 0).all():
        return None
    return np.asarray(ratios / sizes)


def _solve_weights(tensor: IncompleteSymmetricTensor, directions: Array) -> tuple[Array, float]:
    """λ by least squares on Ω_m (coef-lambda), and the relative residual. Scales `directions`."""
    order = tensor.order
    lengths = np.sqrt(np.real(elementary_symmetric(np.abs(directions) ** 2, order)[order]))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        return np.zeros(directions.shape[0]), np.inf
    directions /= (lengths ** (1.0 / order))[:, None]  # columns of norm one
    gram = power_inner_products(directions, directions, order) / factorial(order)
    weights = np.zeros(directions.shape[0], dtype=directions.dtype)
    left_over = tensor.values
    for _ in range(3):  # solve, then refine twice
        right = contract(left_over, np.conj(directions), order)
        weights = weights + linalg.lstsq(gram, right, cond=_EPS, check_finite=False)[0]
        left_over = tensor.values - power_sum(directions, order, weights)
    return weights, float(np.linalg.norm(left_over) / np.linalg.norm(tensor.values))


def _finish(
    tensor: IncompleteSymmetricTensor, directions: Array, weights: Array, numbers: Diagnostics
) -> Decomposition:
    """q_i = λ_i^{1/m} (1, ṽ_i, w̃_i), rotated to be as real as possible where the tensor is real."""
    order = tensor.order
    if weights.dtype.kind == "f" and (order % 2 or (weights >= 0).all()):
        roots = np.sign(weights) * np.abs(weights) ** (1.0 / order)
    else:
        roots = weights.astype(complex) ** (1.0 / order)
    factors = roots[:, None] * directions
    if not tensor.is_real or factors.dtype.kind == "f":
        return Decomposition(factors, numbers)
    factors = nearest_real(factors, order)
    sizes = np.linalg.norm(factors, axis=1)
    imaginary = float((np.linalg.norm(factors.imag, axis=1) / sizes).max())
    numbers = replace(numbers, imaginary_part=imaginary)
    left_over = tensor.values - power_sum(factors.real, order)
    as_real = float(np.linalg.norm(left_over) / np.linalg.norm(tensor.values))
    if as_real <= 2 * numbers.residual:
        return Decomposition(factors.real.copy(), replace(numbers, residual=as_real))
    return Decomposition(factors, numbers)


def nearest_real(factors: Array, order: int) -> Array:
    """Multiply each factor by the `order`-th root of unity that makes it most nearly real (eq:q)."""
    units = np.exp(2j * np.pi * np.arange(order) / order)
    turned = units[:, None, None] * factors  # (order, r, d)
    choice = np.linalg.norm(turned.imag, axis=2).argmin(axis=0)
    return np.asarray(turned[choice, np.arange(factors.shape[0])])


# -- failures ------------------------------------------------------------------------------------

_CAUSES = {
    "leading-entry": (
        "condition (i) of Theorem 4.2 fails: every coordinate is zero in some factor, so that none "
        "can lead. Shift the data by a constant, which makes the entries non-zero, or lower the rank"
    ),
    "independence-basis": (
        "condition (ii) of Theorem 4.2 fails: the factors' products of {p} coordinates are linearly "
        "dependent. The tensor seems to have rank {found}: ask for rank={found}, or use a higher "
        "order if factors that are dependent are meant"
    ),
    "independence-rows": (
        "condition (iii) of Theorem 4.2 fails: the factors' products of {q} upper coordinates are "
        "linearly dependent once one coordinate is left out. Lower the rank or use a higher order"
    ),
    "distinct-eigenvalues": (
        "condition (iv) of Theorem 4.2 fails: the eigenvalues of N(ξ) are not distinct, as for two "
        "factors that agree in the upper coordinates. Lower the rank, or try more directions"
    ),
    "residual": "the factors found are not finite. Rescale the tensor and try again",
}


def _failure(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    tried: list[Decomposition],
    best: Decomposition,
) -> DecompositionError:
    names = [one.diagnostics.failed for one in tried]
    condition = max(set(names), key=names.count) or "residual"
    numbers = next(one.diagnostics for one in tried if one.diagnostics.failed == condition)
    details: dict[str, int] = {}
    if numbers.split is not None:
        p = numbers.split.degree
        details = {"p": p, "q": tensor.order - p - 1}
    if condition == "independence-basis" and numbers.split is not None:
        blocks = sub_tensors(tensor, numbers.split, np.array(numbers.coordinates))
        details["found"] = int(np.linalg.matrix_rank(blocks.raised_upper))
    return DecompositionError(
        f"no decomposition of rank {rank} in {len(tried)} orders of the coordinates: "
        + _CAUSES[condition].format(**details)
        + ".",
        condition=condition,
        diagnostics=numbers,
        partial=best,
    )
