"""From the upper coordinates to the factors: the least-squares steps of Algorithm 3.4.

| paper symbol | name here | shape |
|---|---|---|
| w̃_i | ``upper`` | (r, n−k) |
| ṽ_i | ``lower_coordinates(…)`` | (r, k) |
| [w̃_i]_{J_3} | ``table`` | (#J_2, r) |
| γ̃_i (coef-1) | ``products`` | (r, C(k, p)) |
| λ_i (coef-lambda) | ``solve_weights(…)`` | (r,) |
| η_i (eq:q) | inside ``nearest_real`` | (r,) |

Differs from the paper: (coef-1) and the same problem one degree higher have the matrix [w̃]_{J_3} in
common, so that one factorization solves both, and (coef-2) becomes a ratio of their solutions:
(v_i)_j by least squares over all products that contain j. (coef-lambda) uses the Gram matrix in
closed form, m!·e_m, and starts from the λ_i that (coef-1) implies: what they leave on Ω_m is
projected, so that the normal equations lose no digits. At large ranks those λ_i are kept where they
leave rounding errors alone. All columns are scaled to norm one. The
problems of section 4 (coefest-1, coefest-2, coefest-lambda) are the same lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb, factorial

import numpy as np
from scipy import linalg

from momentmix._typing import Array
from momentmix.index_sets import monomials
from momentmix.paper.generating import SubTensors, coordinate_ratios, scaled_least_squares
from momentmix.paper.incomplete_tensor import (
    IncompleteSymmetricTensor,
    elementary_symmetric,
    power_inner_products,
    power_sum,
    project_remainder,
    remainder_squares,
)
from momentmix.paper.ranks import Split
from momentmix.paper.results import Decomposition, Diagnostics

_PROJECTIONS = 3  # at most; one is enough after a good start, two after none
_LOST = 1e-6  # ratio of two squared norms below which their difference would lose digits


def lower_coordinates(
    blocks: SubTensors, split: Split, upper: Array, n_threads: int = 1
) -> tuple[Array, Array] | None:
    """ṽ_i (r, k) from (coef-1) and (coef-2), and λ_i of (coef-1); None where not determined."""
    k, p = split.n_lower, split.degree
    table = monomials(upper.T, blocks.co_degree)[-1]  # (#J_2, r), [w̃]_{J_3}
    both = np.concatenate([blocks.base, blocks.raised_lower]).T
    solution, condition = scaled_least_squares(table, both, n_threads)
    if not np.isfinite(condition):
        return None
    products = solution[:, : comb(k, p)]  # (r, C(k, p))  coef-1, coefest-1
    raised = solution[:, comb(k, p) :]  # (r, C(k, p+1)): λ_i v_i^S for p + 1 indices S
    lower = coordinate_ratios(products.T, raised.T, k, p)  # (r, k)  coef-2, coefest-2
    if lower is None:
        return None
    powers = monomials(lower.T, p)[-1].T  # (r, C(k, p)), v_i^{J_1}
    lengths = np.linalg.norm(powers, axis=1) ** 2
    inner = np.einsum("is,is->i", powers.conj(), products)
    return lower, np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)


def solve_weights(
    tensor: IncompleteSymmetricTensor,
    directions: Array,
    start: Array | None = None,
    n_threads: int = 1,
    enough: float = 0.0,
) -> tuple[Array, float]:
    """λ by least squares on Ω_m, unless `start` is good `enough`; scales `directions` in place."""
    order = tensor.order
    lengths = np.sqrt(np.real(elementary_symmetric(np.abs(directions) ** 2, order)[order]))
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        return np.zeros(directions.shape[0]), np.inf
    directions /= (lengths ** (1.0 / order))[:, None]  # columns of norm one
    weights = np.zeros_like(lengths) if start is None else start * lengths
    size = float(np.linalg.norm(tensor.values))
    if start is not None and enough > 0:
        squares = remainder_squares(tensor.values, directions, order, weights, n_threads)
        if np.sqrt(squares) < enough * size:
            return weights, float(np.sqrt(squares)) / size
    gram = power_inner_products(directions, directions, order) / factorial(order)
    solve = _gram_solver(gram)
    for _ in range(_PROJECTIONS):
        inner, squares = project_remainder(tensor.values, directions, order, weights, n_threads)
        step = solve(inner)
        weights = weights + step  # (r,)  coef-lambda, coefest-lambda
        left = squares + float(np.real(np.vdot(step, gram @ step - 2 * inner)))
        if not left < _LOST * squares:  # what is left now, without another pass over Ω_m
            break
    return weights, float(np.sqrt(max(left, 0.0))) / size


def _gram_solver(gram: Array) -> Callable[[Array], Array]:
    """Solve with a Gram matrix by Cholesky, or in the least-squares sense where it is singular."""
    try:
        factor = linalg.cho_factor(gram, check_finite=False)
    except linalg.LinAlgError:
        inverse = linalg.pinvh(gram, check_finite=False)
        return lambda right: np.asarray(inverse @ right)
    return lambda right: np.asarray(linalg.cho_solve(factor, right, check_finite=False))


def finish(
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
