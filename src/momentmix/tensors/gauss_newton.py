"""Least squares on Ω_m for sums of powers, with the Gauss–Newton matrix in closed form.

| paper symbol | name here | shape |
|---|---|---|
| Σ_i ω_i μ_i^{⊗m} on Ω_m | ``power_sum(vectors, m, weights)`` | (C(d, m),) |
| e_t of x with one entry left out, for each entry | ``leave_one_out(x, t)`` | (…, d) |
| Jᴴ J, J = ∂/∂(ω, μ) | ``normal_matrix(weights, vectors, m)`` | (r + r·d, r + r·d) |
| (solve-F) | ``fit_powers`` | (r, d) |

With z = conj(μ_i)∘μ_k, sums over index sets I give, without a Jacobian of C(d, m) rows:

    ⟨∂ω_i, ∂ω_k⟩   = e_m(z)
    ⟨∂ω_i, ∂μ_kb⟩  = ω_k · conj(μ_ib) · e_{m−1}(z without b)
    ⟨∂μ_ia, ∂μ_kb⟩ = conj(ω_i) ω_k · e_{m−1}(z without a)                          where a = b
                   = conj(ω_i) ω_k · conj(μ_ib) μ_ka · e_{m−2}(z without a and b)  where a ≠ b

Entries are left out by products of prefixes and suffixes, never by division, so that large and zero
entries are harmless. The residual is formed on Ω_m first and then contracted: "data term minus
model term" would lose half of the digits.

Differs from the paper: it names MATLAB's ``lsqnonlin``; this is Levenberg–Marquardt with the matrix
above, and with conjugate gradients on Jᴴ J v where that matrix would be too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from momentmix.core.incomplete_tensor import (
    IncompleteSymmetricTensor,
    contract_gradient,
    power_derivative,
    power_sum,
)

Array = NDArray[Any]

__all__ = ["PowerFit", "fit_powers", "leave_one_out", "normal_matrix"]

_LARGEST_MATRIX = 12_000  # unknowns; beyond, JᴴJ is applied and never stored (1.2 GB at this size)
_STALL = 1e-15  # relative decrease of the squared residual that counts as none


def leave_one_out(x: Array, degree: int) -> Array:
    """Elementary symmetric polynomial of all entries but one, for each entry.

    Parameters
    ----------
    x : array of shape (..., d)
    degree : int

    Returns
    -------
    array of shape (..., d)

    Examples
    --------
    >>> import numpy as np
    >>> leave_one_out(np.array([2.0, 3.0, 5.0]), 2).tolist()
    [15.0, 10.0, 6.0]
    """
    d = x.shape[-1]
    if degree < 0:
        return np.zeros_like(x)
    before = np.zeros((d, degree + 1, *x.shape[:-1]), dtype=x.dtype)
    before[0, 0] = 1.0
    for i in range(1, d):
        before[i] = before[i - 1]
        before[i, 1:] += x[..., i - 1] * before[i - 1, :-1]
    after = np.zeros_like(before[0])
    after[0] = 1.0
    result = np.empty_like(x)
    for i in range(d - 1, -1, -1):
        result[..., i] = sum(before[i, s] * after[degree - s] for s in range(degree + 1))
        after[1:] += x[..., i] * after[:-1]
    return result


def _vector_block(first: Array, others: Array, order: int) -> tuple[Array, Array]:
    """⟨∂μ_ia, ∂μ_kb⟩ without weights, for one i and several k, and e_{m−1}(z without b).

    Returns
    -------
    block : array of shape (n_others, d, d), indexed (k, a, b)
    single : array of shape (n_others, d)
    """
    d = first.size
    z = np.conj(first) * others  # (n, d)
    single = leave_one_out(z, order - 1)
    without = np.repeat(z[:, None, :], d, axis=1)
    without[:, np.arange(d), np.arange(d)] = 0.0  # row a: entry a left out
    block = leave_one_out(without, order - 2)  # (n, a, b)
    block *= np.conj(first)[None, None, :] * others[:, :, None]
    block[:, np.arange(d), np.arange(d)] = single
    return block, single


def normal_matrix(weights: Array, vectors: Array, order: int) -> Array:
    """Gauss–Newton matrix of Σ_i weights_i · vectors_i^{⊗order} on Ω_order in closed form.

    Parameters
    ----------
    weights : array of shape (r,)
    vectors : array of shape (r, d)
    order : int

    Returns
    -------
    array of shape (r + r·d, r + r·d)
        Unknowns: the weights, then the vectors row by row. Sums over index sets, without m!.
    """
    r, d = vectors.shape
    dtype = np.result_type(weights, vectors, float)
    matrix = np.empty((r + r * d, r + r * d), dtype=dtype)
    vector_part = matrix[r:, r:].reshape(r, d, r, d)
    cross_part = matrix[:r, r:].reshape(r, r, d)
    for i in range(r):
        later = vectors[i:]
        block, single = _vector_block(vectors[i], later, order)
        # (n, a, b) → (a, n, b)
        scaled = block * (np.conj(weights[i]) * weights[i:])[:, None, None]
        vector_part[i, :, i:] = scaled.transpose(1, 0, 2)
        vector_part[i:, :, i] = np.conj(scaled).transpose(0, 2, 1)
        cross_part[i, i:] = np.conj(vectors[i]) * single * weights[i:, None]
        cross_part[i:, i] = np.conj(later * single) * weights[i]
        z = np.conj(vectors[i]) * later
        whole = (z * single).sum(axis=1) / order  # e_m = Σ_b z_b e_{m−1}(z without b) / m
        matrix[i, i:r] = whole
        matrix[i:r, i] = np.conj(whole)
    matrix[r:, :r] = np.conj(matrix[:r, r:]).T
    return matrix


@dataclass(frozen=True)
class PowerFit:
    """Outcome of `fit_powers`."""

    factors: Array
    residual: float
    n_iterations: int
    converged: bool


def fit_powers(
    tensor: IncompleteSymmetricTensor, start: Array, *, max_iterations: int = 100
) -> PowerFit:
    """Minimise ‖F − Σ_i q_i^{⊗m}‖ on Ω_m from `start` by Levenberg–Marquardt (eq. solve-F).

    Parameters
    ----------
    tensor : IncompleteSymmetricTensor
    start : array of shape (rank, n_features)
        Real or complex; the answer has the same kind.
    max_iterations : int

    Returns
    -------
    PowerFit
        ``residual`` is relative to the norm of the tensor.
    """
    order = tensor.order
    size = float(np.linalg.norm(tensor.values)) or 1.0
    factors = np.array(start)
    residual = tensor.values - power_sum(factors, order)
    cost = float(np.linalg.norm(residual)) / size
    damping, growth, converged, step_count = 1e-6, 2.0, False, 0
    while step_count < max_iterations and not converged and np.isfinite(cost):
        solve = _damped_solver(factors, order)
        gradient = contract_gradient(residual, np.conj(factors), order)  # Jᴴ R, (r, d)
        while True:
            step_count += 1
            step = solve(gradient, damping)
            trial = factors + step
            moved = tensor.values - power_sum(trial, order)
            trial_cost = float(np.linalg.norm(moved)) / size
            if np.isfinite(trial_cost) and trial_cost < cost:
                converged = cost**2 - trial_cost**2 <= _STALL * cost**2 or _is_small(step, factors)
                factors, residual, cost = trial, moved, trial_cost
                damping, growth = max(damping / 10.0, 1e-14), 2.0
                break
            # No decrease left in double precision: this is the minimum, not a failure.
            if _is_small(step, factors) or step_count >= max_iterations or damping > 1e12:
                converged = _is_small(step, factors)
                return PowerFit(factors, cost, step_count, converged)
            damping, growth = damping * growth, growth * 2.0
    return PowerFit(factors, cost, step_count, converged)


def _is_small(step: Array, factors: Array) -> bool:
    return float(np.linalg.norm(step)) <= 1e-9 * float(np.linalg.norm(factors))


def _damped_solver(factors: Array, order: int) -> Any:
    """Return a function (gradient, damping) → step that solves (JᴴJ + damping·diag) step = Jᴴ R."""
    r, d = factors.shape
    if r * d > _LARGEST_MATRIX:
        return _matrix_free_solver(factors, order)
    matrix = normal_matrix(np.ones(r), factors, order)[r:, r:]
    diagonal = np.real(np.diag(matrix)).copy()
    floor = diagonal.max(initial=0.0) * 1e-14 or 1.0

    def solve(gradient: Array, damping: float) -> Array:
        damped = matrix.copy()
        damped[np.diag_indices(r * d)] += damping * diagonal + floor * 1e-2
        try:
            factor = linalg.cho_factor(damped, overwrite_a=True, check_finite=False)
            step = linalg.cho_solve(factor, gradient.ravel(), check_finite=False)
        except linalg.LinAlgError:
            return np.full((r, d), np.nan)
        return np.asarray(step).reshape(r, d)

    return solve


def _matrix_free_solver(factors: Array, order: int) -> Any:
    """The same by conjugate gradients: J v and Jᴴ u are matrix products; blocks precondition."""
    r, d = factors.shape
    blocks = np.stack([_vector_block(q, q[None], order)[0][0] for q in factors])  # (r, d, d)
    diagonal = np.real(np.einsum("iaa->ia", blocks))

    def solve(gradient: Array, damping: float) -> Array:
        shift = damping * diagonal + diagonal.max() * 1e-14
        inverse = np.linalg.inv(blocks + np.einsum("ia,ab->iab", shift, np.eye(d)))

        def apply(v: Array) -> Array:
            direction = v.reshape(r, d)
            change = power_derivative(factors, direction, order)
            back = contract_gradient(change, np.conj(factors), order)
            return np.asarray(back + shift * direction).ravel()

        def precondition(v: Array) -> Array:
            return np.asarray(np.einsum("iab,ib->ia", inverse, v.reshape(r, d))).ravel()

        shape = (r * d, r * d)
        system = LinearOperator(shape, matvec=apply, dtype=factors.dtype)
        helper = LinearOperator(shape, matvec=precondition, dtype=factors.dtype)
        step, _ = cg(system, gradient.ravel(), rtol=1e-6, maxiter=60, M=helper)
        return np.asarray(step).reshape(r, d)

    return solve
