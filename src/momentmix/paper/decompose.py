"""Incomplete symmetric tensor decomposition (Algorithm 3.4).

| paper symbol | name here | shape |
|---|---|---|
| q_i | ``Decomposition.factors`` | (r, d) |
| (1, ṽ_i, w̃_i) | ``directions`` | (r, d) |
| ξ | ``xi`` | (n−k,) |
| w̃_i | ``upper`` | (r, n−k) |
| ṽ_i | ``lower_coordinates(…)`` | (r, k) |
| [w̃_i]_{J_3} | ``table`` | (#J_2, r) |
| γ̃_i (coef-1) | ``products`` | (r, C(k, p)) |
| λ_i (coef-lambda) | ``solve_weights(…)`` | (r,) |
| η_i (eq:q) | inside ``nearest_real`` | (r,) |

Differs from the paper: several orders of the coordinates are tried, each with its own ξ, and the
lowest residual is kept, since the error of a single draw is heavy-tailed. (coef-1) and the same
problem one degree higher have the matrix [w̃]_{J_3} in common, so that one factorization solves
both, and (coef-2) becomes a ratio of their solutions. (coef-lambda) uses the Gram matrix in closed
form, m!·e_m; what the λ_i leave on Ω_m is projected again, so that the normal equations lose no
digits; it starts from the λ_i that (coef-1) implies. All columns are scaled to norm one. The
problems of section 4 (coefest-1, coefest-2, coefest-lambda) are the same lines. generating.py
(Steps 1 and 2) says what differs there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb, factorial

import numpy as np
from scipy import linalg

from momentmix._typing import Array, Int
from momentmix.errors import (
    DecompositionError,
    FitWarning,
    InputError,
    InputTypeError,
    check_count,
    warn_caller,
)
from momentmix.index_sets import colex_rank, monomials, sets_without
from momentmix.paper.generating import (
    SubTensors,
    choose_basis,
    common_eigenvalues,
    multiplication_matrices,
    scaled_least_squares,
    sub_tensors,
)
from momentmix.paper.incomplete_tensor import (
    IncompleteSymmetricTensor,
    contract,
    elementary_symmetric,
    power_inner_products,
    power_sum,
)
from momentmix.paper.ranks import Split, best_split, largest_rank
from momentmix.parallel import few_threads, usable_cores

_EPS = float(np.finfo(float).eps)
_FAR = 0.1  # residual that no exact tensor of the rank leaves

LARGE = 500  # ranks above it take seconds an order
# A residual that needs no second order: rounding errors, a hundredth of the printed figure. At
# (40, 7, 969) one order leaves 1e-10 to 4e-6, above it in two tensors of eight.
_PRECISE = 1e-7
_THREADED = 100  # ranks from it on share the systems of an order among the cores
_MOST_THREADS = 16
_PROJECTIONS = 3  # at most; one is enough after a good start
_LOST = 1e-6  # ratio of two squared norms below which their difference would lose digits


@dataclass(frozen=True)
class Diagnostics:
    """Residual and condition numbers of a decomposition.

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
    split : Split
        The split (k, p).
    coordinates : tuple of int
        The order of the coordinates.
    n_tried : int
        Orders of the coordinates that were tried.
    """

    residual: float
    split: Split
    coordinates: tuple[int, ...]
    condition_systems: float = 1.0
    condition_eigenvectors: float = 1.0
    eigenvalue_gap: float = 1.0
    imaginary_part: float = 0.0
    n_tried: int = 1


@dataclass(frozen=True)
class Decomposition:
    """Factors of an incomplete symmetric tensor: F ≈ Σ_i factors_i^{⊗order} on distinct indices.

    The problem is (paper: high-incomplete-decomp).
    """

    factors: Array = field(repr=False)
    diagnostics: Diagnostics


def decompose(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_orders: int | None = None,
    degree: int | None = None,
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
        Orders of the coordinates to try; the lowest residual is kept. 4 by default, 2 above rank
        500. There each takes seconds, and the first residual below 1e-7 is enough. Further orders
        are tried while all have failed.
    degree : int, optional
        The paper's p, from 1 to ``tensor.order - 2``: the number of lower coordinates in a product.
        By default that of the largest rank; of two such, the one whose linear systems have more
        rows.

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
    tried = attempts(tensor, rank, random_state, n_orders, degree)
    best = min(tried, key=lambda attempt: attempt.diagnostics.residual)
    if best.diagnostics.residual > _FAR:
        warn_caller(
            f"the best of {best.diagnostics.n_tried} orders of the coordinates leaves a residual "
            f"of {best.diagnostics.residual:.3g} of the tensor's norm: it is no sum of {rank} "
            "powers, or holds noise. Use approximate() for a tensor with noise, or another rank "
            f"(at most {largest_rank(tensor.n_features, tensor.order)}).",
            FitWarning,
        )
    return best


def attempts(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    random_state: int | np.random.Generator | None,
    n_orders: int | None,
    degree: int | None,
) -> list[Decomposition]:
    """The decompositions that succeed, of the orders of the coordinates that are tried."""
    rank, split = _check(tensor, rank, degree)
    enough = _PRECISE if rank > LARGE else 0.0
    if n_orders is None:
        n_orders = 2 if rank > LARGE else 4
    n_orders = check_count("n_orders", n_orders, 1)
    if not tensor.values.any():
        raise DecompositionError(
            "every entry of the tensor is zero: it has rank 0 on distinct indices. Nothing can be "
            "decomposed; check the input.",
            condition="independence-basis",
        )
    rng = np.random.default_rng(random_state)
    leads = rng.permutation(tensor.n_features)
    n_threads = min(usable_cores(), _MOST_THREADS) if rank >= _THREADED else 1
    found: list[Decomposition] = []
    failures: list[DecompositionError] = []
    for lead in np.resize(leads, max(n_orders, leads.size)).tolist():
        n_tried = len(found) + len(failures)
        if found and (n_tried >= n_orders or found[-1].diagnostics.residual < enough):
            break
        others = rng.permutation(np.delete(np.arange(tensor.n_features), lead))
        xi = rng.standard_normal(others.size - split.n_lower)
        with few_threads(True):  # the threads of an order are its own
            try:
                coordinates = np.r_[lead, others]
                found.append(_attempt(tensor, rank, split, coordinates, xi, n_threads, enough))
            except DecompositionError as failure:
                failures.append(failure)
    n_tried = len(found) + len(failures)
    if not found:
        raise _explained(tensor, rank, failures)
    return [replace(a, diagnostics=replace(a.diagnostics, n_tried=n_tried)) for a in found]


def _check(tensor: IncompleteSymmetricTensor, rank: int, degree: int | None) -> tuple[int, Split]:
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
    return rank, best_split(tensor.n_features, tensor.order, rank, degree)


_CAUSES = {
    "leading-entry": (
        "condition (i) of Theorem 4.2 fails: every coordinate is zero in some factor, so that none "
        "can lead. Leave out features that are zero in many factors, or lower the rank"
    ),
    "independence-basis": (
        "condition (ii) of Theorem 4.2 fails: the factors' products of {p} coordinates are "
        "linearly dependent. The tensor seems to have rank {found}: ask for that, or use "
        "a higher order if factors that are dependent are meant"
    ),
    "independence-rows": (
        "condition (iii) of Theorem 4.2 fails: the factors' products of {q} upper coordinates are "
        "linearly dependent once one coordinate is left out. Lower the rank or use a higher order"
    ),
    "distinct-eigenvalues": (
        "condition (iv) of Theorem 4.2 fails: the eigenvalues of N(ξ) are not distinct, as for two "
        "factors that agree in the upper coordinates. Lower the rank, or try more orders"
    ),
    "residual": "the factors found are not finite. Rescale the tensor and try again",
}


def _explained(
    tensor: IncompleteSymmetricTensor, rank: int, failures: list[DecompositionError]
) -> DecompositionError:
    """The last of the failures, with the condition of Theorem 4.2 (paper: thm:tensor) it names."""
    condition, diagnostics = failures[-1].condition, failures[-1].diagnostics
    split, found = diagnostics.split, 0
    if condition == "independence-basis":  # the lead is zero in a factor, or a basis is missing
        blocks = sub_tensors(tensor, split, np.array(diagnostics.coordinates))
        found = choose_basis(blocks.raised_upper, rank)[1]
        condition = "leading-entry" if found == rank else condition
    cause = _CAUSES[condition].format(
        p=split.degree, q=tensor.order - split.degree - 1, found=found
    )
    return DecompositionError(
        f"no decomposition of rank {rank} in {len(failures)} orders of the coordinates: {cause}.",
        condition=condition,
        diagnostics=replace(diagnostics, n_tried=len(failures)),
    )


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
    diagnostics = Diagnostics(np.inf, split, tuple(coordinates.tolist()))

    def require(is_met: bool, condition: str) -> None:
        if not is_met:
            raise DecompositionError("", condition=condition, diagnostics=diagnostics)

    blocks = sub_tensors(tensor, split, coordinates)
    basis, found = choose_basis(blocks.base, rank)
    require(found == rank, "independence-basis")
    matrices, condition = multiplication_matrices(blocks, basis, n_threads)  # Step 1
    diagnostics = replace(diagnostics, condition_systems=condition)
    # A[α, F_m] has full column rank  lemma: lid A
    require(condition * _EPS < 1, "independence-rows")
    roots = common_eigenvalues(matrices, xi, n_threads)  # Step 2
    del matrices  # the largest array
    diagnostics = replace(
        diagnostics, eigenvalue_gap=roots.gap, condition_eigenvectors=roots.condition
    )
    require(roots.condition * _EPS < 1, "distinct-eigenvalues")
    lower, start = lower_coordinates(blocks, split, roots.values)  # Step 3
    directions = np.empty((rank, tensor.n_features), dtype=roots.values.dtype)
    directions[:, coordinates[0]] = 1.0  # (r, d), rows (1, u_i)  F-decomp
    directions[:, coordinates[1 : split.n_lower + 1]] = lower
    directions[:, coordinates[split.n_lower + 1 :]] = roots.values
    weights, residual = solve_weights(tensor, directions, start, n_threads, enough)
    require(np.isfinite(residual), "residual")
    return _with_weights(tensor, directions, weights, replace(diagnostics, residual=residual))


def lower_coordinates(blocks: SubTensors, split: Split, upper: Array) -> tuple[Array, Array]:
    """ṽ_i (r, k) from (coef-1) and (coef-2), and λ_i of (coef-1); NaN where not determined."""
    k, p = split.n_lower, split.degree
    table = monomials(upper.T, blocks.co_degree)[-1]  # (#J_2, r), [w̃]_{J_3}
    both = np.concatenate([blocks.base, blocks.raised_lower]).T
    solution = scaled_least_squares(table, both)[0]
    products = solution[:, : comb(k, p)]  # (r, C(k, p))  coef-1, coefest-1
    raised = solution[:, comb(k, p) :]  # (r, C(k, p+1)): λ_i v_i^S for p + 1 indices S
    lower = np.empty((solution.shape[0], k), solution.dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        for j in range(k):  # over all products without j
            rest = sets_without(k, p, j)
            with_j = np.sort(np.column_stack([rest, np.full(len(rest), j)]), axis=1)
            under, over = products[:, colex_rank(rest)], raised[:, colex_rank(with_j)]
            inner = np.einsum("is,is->i", under.conj(), over)
            lower[:, j] = inner / np.linalg.norm(under, axis=1) ** 2  # (r,)  coef-2, coefest-2
        powers = monomials(lower.T, p)[-1].T  # (r, C(k, p)), v_i^{J_1}
        inner = np.einsum("is,is->i", powers.conj(), products)
        return lower, inner / np.linalg.norm(powers, axis=1) ** 2


def solve_weights(
    tensor: IncompleteSymmetricTensor,
    directions: Array,
    start: Array,
    n_threads: int = 1,
    enough: float = 0.0,
) -> tuple[Array, float]:
    """λ by least squares on Ω_m, and the relative residual; scales `directions` in place.

    A start whose relative residual is below `enough` stays as it is.
    """
    order, size = tensor.order, float(np.linalg.norm(tensor.values))
    lengths = np.sqrt(np.real(elementary_symmetric(np.abs(directions) ** 2, order)[order]))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        return np.zeros(directions.shape[0]), np.inf
    directions /= (lengths ** (1.0 / order))[:, None]  # columns of norm one
    weights = start * lengths
    for _ in range(_PROJECTIONS):
        remainder = tensor.values - power_sum(directions, order, weights, n_threads)
        left = squares = float(np.linalg.norm(remainder)) ** 2
        if squares < (enough * size) ** 2:
            break
        gram = power_inner_products(directions, directions, order) / factorial(order)
        inner = contract(remainder, directions.conj(), order, n_threads)
        try:
            step: Array = linalg.cho_solve(linalg.cho_factor(gram, check_finite=False), inner)
        except linalg.LinAlgError:
            step = linalg.pinvh(gram, check_finite=False) @ inner
        weights = weights + step  # (r,)  coef-lambda, coefest-lambda
        left = squares + float(np.real(np.vdot(step, gram @ step - 2 * inner)))
        if not left < _LOST * squares:  # what is left now, without another pass over Ω_m
            break
    return weights, float(np.sqrt(max(left, 0.0))) / size


def _with_weights(
    tensor: IncompleteSymmetricTensor, directions: Array, weights: Array, diagnostics: Diagnostics
) -> Decomposition:
    """q_i = λ_i^{1/m} (1, ṽ_i, w̃_i), rotated to be as real as possible where the tensor is real."""
    order = tensor.order
    if weights.dtype.kind == "f" and (order % 2 or (weights >= 0).all()):
        roots = np.sign(weights) * np.abs(weights) ** (1.0 / order)
    else:
        roots = weights.astype(complex) ** (1.0 / order)
    factors = roots[:, None] * directions
    if not tensor.is_real or factors.dtype.kind == "f":
        return Decomposition(factors, diagnostics)
    factors = nearest_real(factors, order)
    sizes = np.linalg.norm(factors, axis=1)
    imaginary = float((np.linalg.norm(factors.imag, axis=1) / sizes).max())
    diagnostics = replace(diagnostics, imaginary_part=imaginary)
    remainder = tensor.values - power_sum(factors.real, order)
    as_real = float(np.linalg.norm(remainder) / np.linalg.norm(tensor.values))
    if as_real <= 2 * diagnostics.residual:  # real factors fit about as well
        return Decomposition(factors.real.copy(), replace(diagnostics, residual=as_real))
    return Decomposition(factors, diagnostics)


def nearest_real(factors: Array, order: int) -> Array:
    """Multiply each factor by the `order`-th root of unity that makes it most nearly real."""
    units = np.exp(2j * np.pi * np.arange(order) / order)
    rotated = units[:, None, None] * factors  # (order, r, d)
    choice = np.linalg.norm(rotated.imag, axis=2).argmin(axis=0)
    return np.asarray(rotated[choice, np.arange(factors.shape[0])])  # (r, d)  eq:q
