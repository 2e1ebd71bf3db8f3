"""From pooled candidate means to n_components of them.

| paper symbol | name here | shape |
|---|---|---|
| Φ: products of each candidate mean | ``features`` | (n_conditions, n_candidates) |
| min_{ω ≥ 0} ‖observed − Φ ω‖ | ``select_means`` | |

Non-negative least squares has sparse solutions: of hundreds of candidates it keeps a few dozen.
Neighbours among them are merged, the cheapest pair first (Ward's cost ω_i ω_k / (ω_i + ω_k)·‖Δ‖²).

Differs from the paper: the paper has one candidate per component and no choice to make.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from momentmix.fitting.conditions import Conditions

Float = NDArray[np.float64]

__all__ = ["fit_weights", "merge_means", "select_means"]


def fit_weights(features: Float, observed: Float) -> Float:
    """Non-negative least-squares weights, of shape (n_candidates,)."""
    q, triangle = np.linalg.qr(features)
    weights, _ = nnls(triangle, q.T @ observed, maxiter=30 * features.shape[1])
    return np.asarray(weights)


def select_means(
    conditions: Conditions, candidates: Float, noise: Float, n_components: int
) -> tuple[Float, Float]:
    """Weights (r,) and means (r, d) of at most `n_components` components."""
    features = conditions.features_of_means(candidates) / noise[:, None]
    weights = fit_weights(features, conditions.values / noise)
    keep = weights > 1e-6 * weights.sum()
    return merge_means(weights[keep], candidates[keep], n_components)


def merge_means(weights: Float, means: Float, n_components: int) -> tuple[Float, Float]:
    """Merge the cheapest pair until `n_components` are left; the overall mean stays."""
    weights, means = weights.copy(), means.copy()
    while weights.size > n_components:
        gaps = ((means[:, None, :] - means[None, :, :]) ** 2).sum(axis=2)
        cost = gaps * weights[:, None] * weights / (weights[:, None] + weights)
        np.fill_diagonal(cost, np.inf)
        i, k = np.unravel_index(int(cost.argmin()), cost.shape)
        total = weights[i] + weights[k]
        means[i] = (weights[i] * means[i] + weights[k] * means[k]) / total
        weights[i] = total
        weights, means = np.delete(weights, k), np.delete(means, k, axis=0)
    return weights / weights.sum(), means
