"""An answer from a pool of proposed means: choice, polish of the means, spreads, joint polish.

| symbol | name here | shape |
|---|---|---|
| Φ: products of each candidate mean | ``features`` | (n_conditions, n_candidates) |
| min_{ω ≥ 0} ‖observed − Φ ω‖ | `select_means` | |

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
from momentmix.fitting.moments.spread import fit_spread
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.steps import Bounds, parameter_bounds, polish
from momentmix.mixture.parameters import Parameters
from momentmix.wording import NEED_ROWS

_MEANS_STEPS = 40  # for the means alone
_FIRST_STEPS, _MORE_STEPS = 10, 6  # the same for all, before and after the noise is renewed
_SHORT_LIST = 8  # nearest pairs whose merge is tried on the conditions: the best is among them


def answer_from_pool(
    moments: StandardMoments,
    plain: Conditions,
    full: Conditions,
    pool: Float,
    bounds: Bounds,
    n_components: int,
    rng: np.random.Generator,
    previous: Parameters | None = None,
) -> Parameters:
    """Choose among the pool, polish the means by `plain` conditions, and all by `full` ones.

    Noise is equal at first, or that of `previous`.
    """
    structure, n = bounds.structure, moments.n_effective
    noise = np.ones(plain.size) if previous is None else np.sqrt(plain.row_variances(previous))
    noise[0] = 0.1  # the weights sum to 1: a tenth of the noise of a moment
    weights, means = select_means(plain, pool, noise, n_components)
    if not weights.size:
        raise DecompositionError(
            f"the moments of {moments.n_rows} rows gave no candidate for {n_components} "
            f"components. Use more rows, fewer components, or {NEED_ROWS}.",
            condition="independence-basis",
        )
    # No two features of one block: variances and covariances do not matter, and stay.
    start = Parameters(weights, means, np.ones_like(means))
    box = parameter_bounds(moments, float(np.max(structure.floor)), start.n_components)
    p, _ = polish(plain.without_sum, start, box, noise[1:], n, _MEANS_STEPS)
    p = fit_spread(moments, p.weights, p.means, structure)
    p = _split_heaviest(p, n_components, rng)
    p, damping = polish(full, p, bounds, np.sqrt(full.row_variances(p)), n, _FIRST_STEPS)
    # Again with the noise that these parameters imply.
    return polish(full, p, bounds, np.sqrt(full.row_variances(p)), n, _MORE_STEPS, damping)[0]


def _split_heaviest(p: Parameters, r: int, rng: np.random.Generator) -> Parameters:
    """Split the heaviest components until there are r, where the pool gave fewer."""
    while p.n_components < r:
        i = int(p.weights.argmax())
        offset = 0.3 * rng.normal(size=p.means.shape[1])  # well within a feature's deviation of 1
        p = Parameters.concatenate([p, p[i : i + 1]])
        p.means[i] -= offset
        p.means[-1] += offset
        p.weights[[i, -1]] /= 2
    return p


def select_means(
    conditions: Conditions, candidates: Float, noise: Float, n_components: int
) -> tuple[Float, Float]:
    """Weights (r,) and means (r, d) of at most `n_components` components."""
    features = conditions.products(point_powers(candidates, 1)) / noise[:, None]
    if not features.size:
        return np.zeros(0), candidates  # SciPy's nnls crashes the process on an empty table
    q, triangle = np.linalg.qr(features)
    try:
        weights, _ = nnls(triangle, q.T @ (conditions.values / noise), maxiter=30 * len(candidates))
    except RuntimeError:
        raise DecompositionError(
            f"the weights of {len(candidates)} candidates were not found: non-negative least "
            "squares did not converge. Use more rows, fewer components, or another random_state.",
            condition="residual",
        ) from None
    keep = weights > 1e-6 * weights.sum()  # the rest is rounding of the solver
    return merge_means(conditions, weights[keep], candidates[keep], noise, n_components)


def merge_means(
    conditions: Conditions, weights: Float, means: Float, noise: Float, n_components: int
) -> tuple[Float, Float]:
    """Merge the pair that changes the conditions least until `n_components` are left.

    The change is counted in units of the noise, so that a light component far from the others is
    not given up for a heavy one that was found twice. The overall mean stays.
    """
    weights, means = weights.copy(), means.copy()
    while weights.size > n_components:
        gaps = ((means[:, None] - means) ** 2).sum(axis=2)  # Ward: ω_i ω_k / (ω_i + ω_k)·‖Δ‖²
        costs = gaps * weights[:, None] * weights / (weights[:, None] + weights)
        upper = np.triu_indices(weights.size, 1)
        # Far above the goal the nearest pairs are copies of each other: take the first.
        n_pairs = 1 if weights.size > 3 * n_components else _SHORT_LIST
        nearest = np.argsort(costs[upper], kind="stable")[:n_pairs]
        pairs = [(int(upper[0][place]), int(upper[1][place])) for place in nearest]
        merged = [
            weights[list(pair)] @ means[list(pair)] / weights[list(pair)].sum() for pair in pairs
        ]
        changes = [0.0]
        if len(pairs) > 1:
            changes = []
            for (i, k), mean in zip(pairs, merged, strict=True):
                three = conditions.products(point_powers(np.stack([means[i], means[k], mean]), 1))
                change = three @ [weights[i], weights[k], -weights[i] - weights[k]] / noise
                changes.append(float(change @ change))
        best = int(np.argmin(changes))
        i, k = pairs[best]
        weights[i], means[i] = weights[i] + weights[k], merged[best]
        means, weights = np.delete(means, k, axis=0), np.delete(weights, k)
    return weights / weights.sum(), means
