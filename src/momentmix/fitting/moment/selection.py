"""From pooled candidate means to n_components of them.

| symbol | name here | shape |
|---|---|---|
| Φ: products of each candidate mean | ``features`` | (n_conditions, n_candidates) |
| min_{ω ≥ 0} ‖observed − Φ ω‖ | ``select_means`` | |

Non-negative least squares has sparse solutions: of hundreds of candidates it keeps a few dozen.
Neighbors among them (by Ward's cost) are merged, the pair that changes the moments least first.

The paper has one candidate per component and no choice to make.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from momentmix._typing import Float
from momentmix.errors import DecompositionError
from momentmix.fitting.conditions.conditions import Conditions

_SHORT_LIST = 8  # nearest pairs whose merge is tried on the conditions: the best is among them


def fit_weights(features: Float, observed: Float) -> Float:
    """Non-negative least-squares weights, of shape (n_candidates,)."""
    if not features.size:
        return np.zeros(features.shape[1])  # SciPy's nnls crashes the process on an empty table
    q, triangle = np.linalg.qr(features)
    try:
        weights, _ = nnls(triangle, q.T @ observed, maxiter=30 * features.shape[1])
    except RuntimeError:
        raise DecompositionError(
            f"the weights of {features.shape[1]} candidates were not found: non-negative least "
            "squares did not converge. Use more rows, fewer components, or another random_state.",
            condition="residual",
        ) from None
    return np.asarray(weights)


def select_means(
    conditions: Conditions, candidates: Float, noise: Float, n_components: int
) -> tuple[Float, Float]:
    """Weights (r,) and means (r, d) of at most `n_components` components."""
    features = conditions.features_of_means(candidates) / noise[:, None]
    weights = fit_weights(features, conditions.values / noise)
    keep = weights > 1e-6 * weights.sum()  # the rest is rounding of the solver
    return merge_means(conditions, weights[keep], candidates[keep], noise, n_components)


def merge_means(
    conditions: Conditions, weights: Float, means: Float, noise: Float, n_components: int
) -> tuple[Float, Float]:
    """Merge the pair that changes the conditions least until `n_components` are left.

    The change is counted in units of the noise, so that a light component far from the others is
    not given up for a heavy one that was found twice. The overall mean stays.
    """
    costs = _ward_costs(weights, means, weights, means)
    costs[np.tril_indices_from(costs)] = np.inf
    while weights.size > n_components:
        # Far above the goal the nearest pairs are copies of each other: take the first.
        n_pairs = 1 if weights.size > 3 * n_components else _SHORT_LIST
        pairs = _nearest_pairs(costs, n_pairs)
        i, k = pairs[0]
        if len(pairs) > 1:
            changes = [_change(conditions, weights, means, noise, i, k) for i, k in pairs]
            i, k = pairs[int(np.argmin(changes))]
        total = weights[i] + weights[k]
        merged = (weights[i] * means[i] + weights[k] * means[k]) / total
        means, weights = np.delete(means, k, axis=0), np.delete(weights, k)  # i < k
        means[i], weights[i] = merged, total
        costs = np.delete(np.delete(costs, k, axis=0), k, axis=1)
        fresh = _ward_costs(weights[i : i + 1], means[i : i + 1], weights, means)[0]
        costs[i, i + 1 :], costs[:i, i] = fresh[i + 1 :], fresh[:i]
    return weights / weights.sum(), means


def _ward_costs(weights: Float, means: Float, others: Float, other_means: Float) -> Float:
    """ω_i ω_k / (ω_i + ω_k)·‖Δ‖² of each with each other."""
    gaps = ((means[:, None, :] - other_means) ** 2).sum(axis=2)
    return np.asarray(gaps * weights[:, None] * others / (weights[:, None] + others))


def _nearest_pairs(costs: Float, n_pairs: int) -> list[tuple[int, int]]:
    """Pairs i < k of the least Ward cost."""
    if n_pairs == 1:
        order = np.array([costs.argmin()])
    else:
        n_pairs = min(n_pairs, costs.shape[0] * (costs.shape[0] - 1) // 2)
        order = np.argpartition(costs, n_pairs - 1, axis=None)[:n_pairs]
    return [(int(i), int(k)) for i, k in zip(*np.unravel_index(order, costs.shape), strict=True)]


def _change(
    conditions: Conditions, weights: Float, means: Float, noise: Float, i: int, k: int
) -> float:
    """‖change of the conditions by merging i and k‖² in units of the noise."""
    total = weights[i] + weights[k]
    merged = (weights[i] * means[i] + weights[k] * means[k]) / total
    three = conditions.features_of_means(np.stack([means[i], means[k], merged]))
    change = three @ np.array([weights[i], weights[k], -total]) / noise
    return float(change @ change)
