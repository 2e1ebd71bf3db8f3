"""An answer from a pool of proposed means: choice, polish of the means, spreads, joint polish.

| symbol | name here | shape |
|---|---|---|
| Φ: products of each candidate mean | ``features`` | (n_conditions, n_candidates) |
| min_{ω ≥ 0} ‖observed − Φ ω‖ | ``select_means`` | |

Non-negative least squares has sparse solutions: of hundreds of candidates it keeps a few dozen.
Neighbors among them (by Ward's cost) are merged, the pair that changes the moments least first. The
paper has one candidate per component and no choice to make.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from momentmix._typing import Float
from momentmix.errors import DecompositionError
from momentmix.fitting.moments.conditions import Conditions, point_powers
from momentmix.fitting.moments.polish import Bounds, Stopping, parameter_bounds, polish
from momentmix.fitting.moments.spread import fit_spread
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure
from momentmix.wording import NEED_ROWS

ROUGH = 0.5  # tolerance of the cost while the noise is renewed or rounds compete
PATIENCE = 1e-3  # share of the cost; a slow start is left to the next round's candidates
_SHORT_LIST = 8  # nearest pairs whose merge is tried on the conditions: the best is among them


def implied_noise(conditions: Conditions, parameters: Parameters, n_effective: float) -> Float:
    """Standard errors of the observed values that the parameters imply, of shape (n,)."""
    noise = np.sqrt(conditions.row_variances(parameters) / n_effective)
    # The weights sum to 1 without noise. Far below the others, but not 0, since it is divided by.
    noise[0] = 1e-3 / np.sqrt(n_effective)
    return noise


def select_and_polish(
    moments: StandardMoments,
    plain: Conditions,
    pool: Float,
    r: int,
    structure: Structure,
    previous: Parameters | None = None,
) -> Parameters:
    """Choice among the pool, polish of the means; noise equal at first, then that of `previous`."""
    spread = np.ones(plain.size) if previous is None else np.sqrt(plain.row_variances(previous))
    spread[0] = 0.1  # the weights sum to 1: a tenth of the noise of a moment
    noise = spread / np.sqrt(moments.n_effective)
    weights, means = select_means(plain, pool, noise, r)
    if not weights.size:
        raise DecompositionError(
            f"the moments of {moments.n_rows} rows gave no candidate for {r} components. Use "
            f"more rows, fewer components, or {NEED_ROWS}.",
            condition="independence-basis",
        )
    # No two features of one block: the covariances within blocks do not matter.
    start = Parameters(weights, means, np.ones_like(means))
    stopping = Stopping(40, ROUGH, PATIENCE)
    bounds = parameter_bounds(moments, float(np.max(structure.floor)), start.n_components)
    means_only = polish(plain, start, bounds, noise, stopping, with_variances=False).parameters
    weights, means = means_only.weights / means_only.weights.sum(), means_only.means
    return fit_spread(moments, weights, means, structure)


def joint_polish(
    full: Conditions,
    start: Parameters,
    moments: StandardMoments,
    bounds: Bounds,
    stops: list[Stopping],
) -> Parameters:
    """Rounds of Levenberg–Marquardt, each with the noise that the parameters before imply."""
    p, damping = start, 1e-3
    for stopping in stops:
        noise = implied_noise(full, p, moments.n_effective)
        done = polish(full, p, bounds, noise, stopping, damping=damping)
        p, damping = done.parameters.normalized(), done.damping
    return p


def split_heaviest(start: Parameters, r: int, rng: np.random.Generator) -> Parameters:
    """Split the heaviest components until there are r, where the pool gave fewer."""
    p = start
    while p.n_components < r:
        i = int(p.weights.argmax())
        offset = 0.3 * rng.normal(size=p.means.shape[1])  # well within a feature's deviation of 1
        p = Parameters.concatenate([p, p[i : i + 1]])
        p.means[i] -= offset
        p.means[-1] += offset
        p.weights[[i, -1]] /= 2
    return p


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
    features = conditions.products(point_powers(candidates, 1)) / noise[:, None]
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
    three = conditions.products(point_powers(np.stack([means[i], means[k], merged]), 1))
    change = three @ np.array([weights[i], weights[k], -total]) / noise
    return float(change @ change)
