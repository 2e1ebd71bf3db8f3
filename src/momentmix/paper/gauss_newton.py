"""Least squares on Ω_m for sums of powers, by Levenberg–Marquardt.

| paper symbol | name here | shape |
|---|---|---|
| q_i^* (solve-F) | ``fit_powers([F], q)`` | (r, d) |
| ω_i^*, μ_i^* (prob:nls-w mu) | ``fit_powers([M_m, M_t], μ, ω)`` | (r,), (r, d) |
| Jᴴ R, R the residual on Ω_m | ``gradient`` | (r·d,) |
| e_t of x with one entry left out, for each entry | ``leave_one_out(x, t)`` | (…, d) |
| Jᴴ J, J = ∂/∂(ω, μ) | ``normal_matrix(weights, vectors, m)`` | (r + r·d, r + r·d) |

The residual is formed on Ω_m first and then contracted, since the difference of a contracted data
term and a contracted model term would lose half of the digits. With z = conj(μ_i)∘μ_k, sums over
index sets give the matrix without a Jacobian of C(d, m) rows:

    ⟨∂ω_i, ∂ω_k⟩   = e_m(z)
    ⟨∂ω_i, ∂μ_kb⟩  = ω_k · conj(μ_ib) · e_{m−1}(z without b)
    ⟨∂μ_ia, ∂μ_kb⟩ = conj(ω_i) ω_k · e_{m−1}(z without a)                          where a = b
                   = conj(ω_i) ω_k · conj(μ_ib) μ_ka · e_{m−2}(z without a and b)  where a ≠ b

Entries are left out by products of prefixes and suffixes, never by division, so that large and zero
entries do no harm.

Differs from the paper: the paper uses MATLAB's ``lsqnonlin`` and ``fmincon``; here
Levenberg–Marquardt. The constraints ω ≥ 0, Σ ω = 1 hold by the substitution ω_i = s_i² / Σ s².
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from momentmix._typing import Array
from momentmix.paper.incomplete_tensor import (
    IncompleteSymmetricTensor,
    contract_gradient,
    elementary_symmetric,
    power_sum,
)

_CACHED = 1 << 15  # numbers in the tables of `normal_matrix`, which a cache holds
_STALL = 1e-15  # relative decrease of the squared residual that rounding alone can give

Residuals = list[Array]
Step = Callable[[float], Array]


class _Descent(NamedTuple):
    point: Array
    cost: float
    n_iterations: int
    converged: bool


def _descend(
    start: Array,
    residuals_at: Callable[[Array], Residuals],
    linearize: Callable[[Array, Residuals], Step],
    size: float,
    max_iterations: int,
) -> _Descent:
    """Levenberg–Marquardt on Σ ‖residual‖²; `linearize` gives the step for a damping."""

    def cost_of(residuals: Residuals) -> float:
        return float(np.sqrt(sum(np.linalg.norm(part) ** 2 for part in residuals))) / size

    point, residuals = start, residuals_at(start)
    cost = cost_of(residuals)
    # Starts are near the solution, so the first step is nearly a Gauss–Newton step. The damping
    # grows faster with every rejected step (Nielsen) and falls by 10 after an accepted one.
    damping, growth, count = 1e-6, 2.0, 0
    while count < max_iterations and np.isfinite(cost):
        step_for = linearize(point, residuals)
        while True:
            count += 1
            step = step_for(damping)
            # The cost is flat to second order: steps below about √eps hardly change it.
            small = float(np.linalg.norm(step)) <= 1e-9 * float(np.linalg.norm(point))
            moved = residuals_at(point + step)
            trial = cost_of(moved)
            if trial < cost:
                break
            # A small step without decrease is the minimum in double precision, not a failure.
            if small or count >= max_iterations or damping > 1e12:
                return _Descent(point, cost, count, small)
            damping, growth = damping * growth, growth * 2.0
        stalled = cost**2 - trial**2 <= _STALL * cost**2
        point, residuals, cost = point + step, moved, trial
        damping, growth = max(damping / 10.0, 1e-14), 2.0
        if small or stalled:
            return _Descent(point, cost, count, True)
    return _Descent(point, cost, count, False)


def _cholesky_step(matrix: Array, gradient: Array, damping: float) -> Array:
    """Solve (JᴴJ + damping·diag) step = Jᴴ R; not-a-number where that is not positive definite."""
    diagonal = np.real(np.diag(matrix))
    damped = matrix.copy()
    # The term of 1e-16 keeps rows of zeros regular; it is below the rounding of the others.
    damped[np.diag_indices_from(damped)] += damping * diagonal + 1e-16 * diagonal.max(initial=0.0)
    try:
        factor = linalg.cho_factor(damped, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return np.full_like(gradient, np.nan)
    return np.asarray(linalg.cho_solve(factor, gradient, check_finite=False))


class PowerFit(NamedTuple):
    """Result of a least-squares fit of powers; ``residual`` is relative to the norm of the data."""

    factors: Array
    weights: Array
    residual: float
    n_iterations: int
    converged: bool


def fit_powers(
    tensors: Sequence[IncompleteSymmetricTensor],
    vectors: Array,
    weights: Array | None = None,
    *,
    max_iterations: int = 100,
) -> PowerFit:
    """Minimize Σ_t ‖M_t − Σ_i ω_i μ_i^{⊗t}‖² over the given tensors (paper: prob:nls-w mu).

    With `weights` ω ≥ 0, Σ ω = 1, from these; without, ω = 1 (paper: solve-F). Complex where
    `vectors` (r, d), the start, are.
    """
    r, d = vectors.shape
    size = float(np.sqrt(sum(tensor.norm() ** 2 for tensor in tensors))) or 1.0
    roots = [np.sqrt(factorial(tensor.order)) for tensor in tensors]  # of permutations

    def unpack(point: Array) -> tuple[Array, Array]:
        if weights is None:
            return np.ones(r), point.reshape(r, d)
        squares = point[:r] ** 2
        return squares / squares.sum(), point[r:].reshape(r, d)

    def residuals_at(point: Array) -> Residuals:
        w, mu = unpack(point)
        pairs = zip(roots, tensors, strict=True)
        return [root * (tensor.values - power_sum(mu, tensor.order, w)) for root, tensor in pairs]

    def linearize(point: Array, residuals: Residuals) -> Step:
        w, mu = unpack(point)
        matrix = np.zeros((r + r * d, r + r * d), mu.dtype)
        gradient = np.zeros(r + r * d, mu.dtype)  # Jᴴ R
        for root, tensor, residual in zip(roots, tensors, residuals, strict=True):
            matrix += root**2 * normal_matrix(w, mu, tensor.order)
            slopes = root * contract_gradient(residual, mu.conj(), tensor.order)
            gradient[:r] += (mu.conj() * slopes).sum(axis=1) / tensor.order  # Euler: degree m
            gradient[r:] += (w[:, None] * slopes).ravel()
        if weights is None:
            return lambda damping: _cholesky_step(matrix[r:, r:], gradient[r:], damping)
        total = float((point[:r] ** 2).sum())
        chain = 2 * (np.diag(point[:r]) - np.outer(w, point[:r])) / total  # ∂ω/∂s, (r, r)
        matrix[:r] = chain.T @ matrix[:r]
        matrix[:, :r] = matrix[:, :r] @ chain
        gradient[:r] = chain.T @ gradient[:r]
        # ω does not depend on the length of s: a term for the length makes the matrix regular.
        unit = point[:r] / np.sqrt(total)
        matrix[:r, :r] += np.outer(unit, unit) * max(np.diag(matrix)[:r].max(), 1e-300)
        return lambda damping: _cholesky_step(matrix, gradient, damping)

    start = vectors.ravel().copy()
    if weights is not None:
        start = np.concatenate([np.sqrt(np.maximum(weights, 0.0) / weights.sum()), start])
    end = _descend(start, residuals_at, linearize, size, max_iterations)
    w, mu = unpack(end.point)
    return PowerFit(mu, w, end.cost, end.n_iterations, end.converged)


# -- JᴴJ in closed form ----------------------------------------------------------------------------


def leave_one_out(x: Array, degree: int) -> Array:
    """Elementary symmetric polynomial of all entries but one, for each entry of x, (…, d).

    >>> import numpy as np
    >>> leave_one_out(np.array([2.0, 3.0, 5.0]), 2).tolist()
    [15.0, 10.0, 6.0]
    """
    without = np.repeat(x[..., None, :], x.shape[-1], axis=-2)
    np.einsum("...aa->...a", without)[...] = 0.0  # row a: entry a left out
    return np.asarray(elementary_symmetric(without, degree)[degree])


def _pairs_out(z: Array, order: int) -> tuple[Array, Array, Array]:
    """e_m(z), e_{m−1}(z without a) and e_{m−2}(z without a and b), for z of shape (d, n).

    They have shapes (n,), (d, n) and (d, d, n), the last with zeros where a = b.
    """
    d, n = z.shape
    after = np.zeros((d + 1, order + 1, n), z.dtype)  # of the entries from b on
    after[:, 0] = 1.0
    for b in range(d - 1, -1, -1):
        after[b, 1:] = after[b + 1, 1:] + z[b] * after[b + 1, :-1]
    before = np.zeros((order, d, n), z.dtype)  # of those below b without a
    pairs = np.zeros((d, d, n), z.dtype)
    whole = np.zeros((order + 1, n), z.dtype)  # of those below b
    whole[0] = 1.0
    for b in range(d):
        pairs[b, :b] = np.einsum("san,sn->an", before[:-1, :b], after[b + 1, : order - 1][::-1])
        pairs[:b, b] = pairs[b, :b]
        before[1:, :b] += z[b] * before[:-1, :b]
        before[:, b] = whole[:-1]
        whole[1:] += z[b] * whole[:-1]
    return whole[order], before[order - 1], pairs


def normal_matrix(weights: Array, vectors: Array, order: int) -> Array:
    """Gauss–Newton matrix of Σ_i weights_i · vectors_i^{⊗order} on Ω_order in closed form.

    Unknowns: the weights, then the vectors row by row. Sums over index sets, without m!.
    """
    r, d = vectors.shape
    dtype = np.result_type(weights, vectors, float)
    matrix = np.empty((r + r * d, r + r * d), dtype=dtype)
    vector_part = matrix[r:, r:].reshape(r, d, r, d)
    cross_part = matrix[:r, r:].reshape(r, r, d)
    first, second = np.triu_indices(r)
    step = max(1, _CACHED // (d * order))
    diagonal = np.arange(d)
    for start in range(0, first.size, step):
        i, k = first[start : start + step], second[start : start + step]
        mu_i, mu_k = vectors[i].conj().T, vectors[k].T  # (d, n)
        products, single, block = _pairs_out(mu_i * mu_k, order)
        block *= mu_k[:, None] * mu_i  # (a, b, n)
        block[diagonal, diagonal] = single
        block *= np.conj(weights[i]) * weights[k]
        vector_part[i, :, k] = block.transpose(2, 0, 1)
        vector_part[k, :, i] = block.conj().transpose(2, 1, 0)
        cross_part[i, k] = (weights[k] * mu_i * single).T
        cross_part[k, i] = (weights[i] * (mu_k * single).conj()).T
        matrix[i, k] = products
        matrix[k, i] = products.conj()
    matrix[r:, :r] = np.conj(matrix[:r, r:]).T
    return matrix
