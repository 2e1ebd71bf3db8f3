"""The Gauss–Newton matrix of a sum of powers on Ω_m, in closed form.

| paper symbol | name here | shape |
|---|---|---|
| Σ_i ω_i μ_i^{⊗m} on Ω_m | ``power_sum(vectors, m, weights)`` | (C(d, m),) |
| e_t of x with one entry left out, for each entry | ``leave_one_out(x, t)`` | (…, d) |
| Jᴴ J, J = ∂/∂(ω, μ) | ``normal_matrix(weights, vectors, m)`` | (r + r·d, r + r·d) |

With z = conj(μ_i)∘μ_k, sums over index sets I give, without a Jacobian of C(d, m) rows:

    ⟨∂ω_i, ∂ω_k⟩   = e_m(z)
    ⟨∂ω_i, ∂μ_kb⟩  = ω_k · conj(μ_ib) · e_{m−1}(z without b)
    ⟨∂μ_ia, ∂μ_kb⟩ = conj(ω_i) ω_k · e_{m−1}(z without a)                          where a = b
                   = conj(ω_i) ω_k · conj(μ_ib) μ_ka · e_{m−2}(z without a and b)  where a ≠ b

Entries are left out by products of prefixes and suffixes, never by division, so that large and zero
entries do no harm.

Differs from the paper: the paper has no such formula; it leaves the Jacobian to MATLAB.
"""

from __future__ import annotations

import numpy as np

from momentmix._typing import Array


def leave_one_out(x: Array, degree: int) -> Array:
    """Elementary symmetric polynomial of all entries but one, for each entry of x, (…, d).

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


def vector_block(first: Array, others: Array, order: int) -> tuple[Array, Array]:
    """⟨∂μ_ia, ∂μ_kb⟩ without weights, (k, a, b), and e_{m−1}(z without b), (k, b).

    They belong to one i, or to as many as there are k, in pairs.
    """
    d = first.shape[-1]
    z = np.conj(first) * others  # (n, d)
    single = leave_one_out(z, order - 1)
    without = np.repeat(z[:, None, :], d, axis=1)
    without[:, np.arange(d), np.arange(d)] = 0.0  # row a: entry a left out
    block = leave_one_out(without, order - 2)  # (n, a, b)
    block *= np.conj(first)[..., None, :] * others[:, :, None]
    block[:, np.arange(d), np.arange(d)] = single
    return block, single


def normal_matrix(weights: Array, vectors: Array, order: int) -> Array:
    """Gauss–Newton matrix of Σ_i weights_i · vectors_i^{⊗order} on Ω_order in closed form.

    Unknowns: the weights, then the vectors row by row. Sums over index sets, without m!.
    """
    r, d = vectors.shape
    dtype = np.result_type(weights, vectors, float)
    matrix = np.empty((r + r * d, r + r * d), dtype=dtype)
    vector_part = matrix[r:, r:].reshape(r, d, r, d)
    cross_part = matrix[:r, r:].reshape(r, r, d)
    for i in range(r):
        later = vectors[i:]
        block, single = vector_block(vectors[i], later, order)
        # (n, a, b) → (a, n, b)
        scaled = block * (np.conj(weights[i]) * weights[i:])[:, None, None]
        vector_part[i, :, i:] = scaled.transpose(1, 0, 2)
        vector_part[i:, :, i] = np.conj(scaled).transpose(0, 2, 1)
        cross_part[i, i:] = np.conj(vectors[i]) * single * weights[i:, None]
        cross_part[i:, i] = np.conj(later * single) * weights[i]
        z = np.conj(vectors[i]) * later
        weight_row = (z * single).sum(axis=1) / order  # e_m = Σ_b z_b e_{m−1}(z without b) / m
        matrix[i, i:r] = weight_row
        matrix[i:r, i] = np.conj(weight_row)
    matrix[r:, :r] = np.conj(matrix[:r, r:]).T
    return matrix
