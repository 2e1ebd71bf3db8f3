"""Changes of covariances relative to themselves, which keep them positive definite.

| symbol | name here | shape |
|---|---|---|
| Σ_i = A_i A_iᵀ, A_i lower triangular within blocks | `roots` | (r, d, d) |
| A_i⁻¹ | `inverse_roots` | (r, d, d) |
| A_i exp(E_i) A_iᵀ; E is a change of log v in a block of one | `moved_spread` | (r, d + n_pairs) |
| dΣ_i = A_i E_i A_iᵀ | `relative_changes`, `spread_changes` | |
"""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float, Int
from momentmix.mixture.blocks import full_matrices, matrices_of
from momentmix.mixture.parameters import Parameters

# Of eigenvalues of E: covariances that change by more than e⁴ say nothing, and with factors of e⁸
# between two directions ill-conditioned ones still have roots.
_LARGEST = 4.0


def roots(parameters: Parameters) -> Float:
    """Lower triangles A_i of one mixture, of shape (r, d, d)."""
    return np.asarray(np.linalg.cholesky(full_matrices(parameters.spread, parameters.blocks)))


def inverse_roots(parameters: Parameters) -> Float | None:
    """A_i⁻¹ of one mixture, of shape (r, d, d); None where all blocks are of one feature."""
    if parameters.blocks.is_diagonal:
        return None
    return np.asarray(np.linalg.inv(roots(parameters)))


def moved_spread(parameters: Parameters, change: Float) -> Parameters:
    """The mixture with Σ = A exp(E) Aᵀ for changes E of shape (…, r, d + n_pairs)."""
    p, d = parameters, parameters.blocks.n_features
    spread = np.empty(change.shape)
    spread[..., :d] = p.variances * np.exp(change[..., :d])
    for _, places in p.blocks.places:
        root = np.linalg.cholesky(matrices_of(p.spread, places))
        values, vectors = np.linalg.eigh(matrices_of(change, places))
        values = np.clip(values, -_LARGEST, _LARGEST)
        half = root @ (vectors * np.exp(0.5 * values)[..., None, :])
        spread[..., places] = half @ half.swapaxes(-1, -2)
    return p.with_spread(spread)


def relative_changes(parameters: Parameters, change: Float) -> Float:
    """E = A⁻¹ dΣ A⁻ᵀ for changes of variances and covariances (…, r, d + n_pairs)."""
    p, d = parameters, parameters.blocks.n_features
    relative = change.copy()
    relative[..., :d] = change[..., :d] / p.variances
    for _, places in p.blocks.places:
        inverse = np.linalg.inv(np.linalg.cholesky(matrices_of(p.spread, places)))
        relative[..., places] = inverse @ matrices_of(change, places) @ inverse.swapaxes(-1, -2)
    return relative


def spread_changes(parameters: Parameters) -> list[tuple[Int, Float]]:
    """For each joined block its places (k, k) in a spread, and dΣ by E of each component.

    The derivatives have shape (r, m, m), m = k (k + 1) / 2, over the upper triangles of both.
    """
    found = []
    for features, places in parameters.blocks.places:
        root = np.linalg.cholesky(matrices_of(parameters.spread, places))
        j, k = np.triu_indices(features.size)
        # E_ab stands in two places of the matrix: A_ja A_kb + A_jb A_ka, halved for a = b.
        table = root[:, j[:, None], j] * root[:, k[:, None], k]
        table += root[:, j[:, None], k] * root[:, k[:, None], j]
        table[:, :, j == k] *= 0.5
        found.append((places, table))
    return found
