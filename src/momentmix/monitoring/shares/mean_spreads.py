"""How far the means of components differ between groups: τ² of each feature.

By restricted maximum likelihood: with the weights projected out, the moments of group g have the
covariance C_g = V_g / n + E Eᵀ + Σ_j τ_j² B_j B_jᵀ, B_j the slopes in the means of feature j times
the deviations of the components. Scoring uses, of each group, H = Bᵀ P B and z = Bᵀ P (m − M w)
only, P the inverse of C without τ where the weights take no part:

| symbol | name here |
|---|---|
| T = diag τ², K = H (I + T H)⁻¹, h = (I + H T)⁻¹ z | ``between``, ``left``, ``score`` |
| slope_j = Σ_g Σ_c (h_cj² − K_cj,cj) | ``slope`` |
| information_jl = Σ_g Σ_cc' K_cj,c'l² | ``information`` |
| step: τ² += information⁻¹ slope, not below 0 | |

Near 0 the likelihood is flat: one standard error is added to τ², so that means are rather shrunken
too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.monitoring.shares.component_sets import ComponentSets
from momentmix.monitoring.shares.fixed_components import Root
from momentmix.monitoring.shares.group_weights import group_covariance, inside
from momentmix.monitoring.shares.moved_means import (
    GroupMoments,
    MovedGroup,
    MovedMeans,
    free_directions,
)

_START = 0.01  # τ²
_LARGEST = 9.0  # τ²: means of groups lie three deviations apart
_MOST_GROUPS = 200  # are enough to tell how far means differ
_ROUNDS = 3  # of τ² → means of groups → moments that are linear near them → τ²
_SCORINGS = 25
_SETTLED = 0.02  # of a standard error


class _Reduced(NamedTuple):
    """One group with the weights projected out."""

    information: Float  # H, (k, k)
    score: Float  # z, (k,)


def find_spreads(
    sets: ComponentSets, features: Sequence[int], groups: Sequence[GroupMoments]
) -> Float:
    """τ² of each feature, one standard error larger, of shape (n_features,)."""
    chosen = groups[:: max(1, len(groups) // _MOST_GROUPS)]
    still = MovedMeans(sets, features, np.zeros(len(features)))
    near = [
        MovedGroup(own.weights, np.zeros_like(still.deviations), np.zeros_like(still.deviations))
        for own in chosen
    ]
    spreads = np.full(len(features), _START)
    for number in range(_ROUNDS):
        reduced = [_reduced(still, own, at) for own, at in zip(chosen, near, strict=True)]
        spreads, errors = _scored(reduced, spreads, still.deviations.shape[0])
        if number < _ROUNDS - 1:
            moved = MovedMeans(sets, features, spreads)
            near = [moved.group(own) for own in chosen]
    return np.minimum(spreads + errors, _LARGEST)


def _reduced(still: MovedMeans, group: GroupMoments, at: MovedGroup) -> _Reduced:
    near, w = still.components(group.degree, at.moves), at.weights
    root = Root(group_covariance(near, group.n, w))
    means = root.whiten(near.means)
    free = free_directions(means, w)
    slopes = still.slopes(near, inside(w, group.n)) * still.deviations.T.ravel()
    slopes = root.whiten(slopes)
    slopes -= free @ (free.T @ slopes)
    rest = root.whiten(still.target(group, near, w, at.moves)) - means @ w
    return _Reduced(slopes.T @ slopes, slopes.T @ rest)


def _scored(reduced: list[_Reduced], spreads: Float, r: int) -> tuple[Float, Float]:
    """Most probable spreads, and their standard errors."""
    count = len(spreads)
    for _ in range(_SCORINGS):
        slope, information = np.zeros(count), np.zeros((count, count))
        between = np.repeat(spreads, r)
        for own in reduced:
            inverse = np.linalg.inv(np.eye(count * r) + own.information * between)
            left, score = inverse @ own.information, inverse @ own.score
            slope += (score**2 - np.diagonal(left)).reshape(count, r).sum(axis=1)
            information += (left**2).reshape(count, r, count, r).sum(axis=(1, 3))
        diagonal = np.maximum(np.diagonal(information), 1e-300)
        errors = np.sqrt(2.0 / diagonal)
        free = (spreads > 0) | (slope > 0)
        part = information[np.ix_(free, free)] + np.diag(1e-9 * diagonal[free])
        step = np.zeros(count)
        step[free] = np.linalg.solve(part, slope[free])
        before, spreads = spreads, np.clip(spreads + step, 0.0, _LARGEST)
        if (np.abs(spreads - before) <= _SETTLED * errors).all():
            break
    return spreads, np.minimum(errors, _LARGEST)
