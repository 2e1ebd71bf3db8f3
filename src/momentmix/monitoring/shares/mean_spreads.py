"""How far the means of components differ between groups: τ² and κ of each feature.

By restricted maximum likelihood: with the weights projected out, the moments of group g have the
covariance C_g = V_g / n + E Eᵀ + Σ_j τ_j² B_j B_jᵀ, B_j the slopes in the means of feature j times
the deviations of the components. κ_j, the part of the variances that is one between groups, is the
same in all groups; S are the slopes in it. Scoring uses, of each group, H = Bᵀ P B, z = Bᵀ P (m −
M w) and the same of S only, P the inverse of C without τ where the weights take no part:

| symbol | name here |
|---|---|
| T = diag τ², K = H (I + T H)⁻¹, h = (I + H T)⁻¹ z | ``between``, ``left``, ``score`` |
| slope_j = Σ_g Σ_c (h_cj² − K_cj,cj) | ``slope`` |
| information_jl = Σ_g Σ_cc' K_cj,c'l² | ``information`` |
| step: τ² += information⁻¹ slope, not below 0 | |
| κ += (Σ_g Sᵀ C⁻¹ S)⁻¹ Σ_g Sᵀ C⁻¹ (m − M w), from 0 to τ² / (1 + τ²) | ``excess`` |

Near 0 the likelihood is flat: one standard error is added to τ², so that means are rather shrunken
too little. Groups whose misfit is far larger than that of most others take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.monitoring.shares.component_sets import ComponentSets
from momentmix.monitoring.shares.fixed_components import Root
from momentmix.monitoring.shares.group_weights import check_fit, group_covariance, inside
from momentmix.monitoring.shares.moved_means import (
    GroupMoments,
    MovedGroup,
    MovedMeans,
    free_directions,
)

_START = 0.01  # τ²
_LARGEST = 9.0  # τ²: means of groups lie three deviations apart
_MOST_GROUPS = 200  # are enough to tell how far means differ
_MOST_SHARE, _OUTLYING = 0.7, 8.0  # a misfit eight times that of most groups is another matter
_FAR = 1e8  # deviations: a misfit beyond is that of values in other units, or of wild rows
_ROUNDS = 3  # of τ² → means of groups → moments that are linear near them → τ²
_SCORINGS = 25
_SETTLED = 0.02  # of a standard error


class MeanSpreads(NamedTuple):
    """τ², one standard error larger, and κ of each feature."""

    spreads: Float
    excess: Float


class _Reduced(NamedTuple):
    """One group with the weights projected out; U = [B, S] are slopes in means and in κ."""

    information: Float  # Uᵀ P U
    score: Float  # Uᵀ P (m − M w)


def find_spreads(
    sets: ComponentSets, features: Sequence[int], groups: Sequence[GroupMoments]
) -> MeanSpreads:
    """How far the means of these features differ between groups."""
    count = len(features)
    spreads, excess, nothing = np.full(count, _START), np.zeros(count), np.zeros(count)
    still = MovedMeans(sets, features, nothing, excess)
    chosen = _usual(still, groups[:: max(1, len(groups) // _MOST_GROUPS)])
    if not chosen:
        return MeanSpreads(nothing, nothing)
    unmoved = np.zeros_like(still.deviations)
    near = [MovedGroup(own.weights, unmoved, unmoved) for own in chosen]
    for number in range(_ROUNDS):
        reduced = [_reduced(still, own, at) for own, at in zip(chosen, near, strict=True)]
        spreads, errors, step = _scored(reduced, spreads, excess)
        raised = np.minimum(spreads + errors, _LARGEST)
        excess = np.clip(excess + step, 0.0, raised / (1.0 + raised))
        if number < _ROUNDS - 1:
            moved = MovedMeans(sets, features, spreads, excess)
            near = [moved.group(own) for own in chosen]
            still = MovedMeans(sets, features, nothing, excess)
    return MeanSpreads(raised, excess)


def _usual(still: MovedMeans, groups: Sequence[GroupMoments]) -> list[GroupMoments]:
    """Groups without those that differ from the model many times as much as most do.

    Rows of a new kind, or wild rows, are no matter of means: one group of these would let the means
    of all others go free.
    """
    sizes = []
    for own in groups:
        near = still.components(own.degree, np.zeros_like(still.deviations))
        test = check_fit(near, own.moments, own.n, own.weights, None)
        dof = max(test.degrees_of_freedom, 1)
        least = np.sqrt(2.0 / dof) / own.n  # by chance
        size = min(test.effect_size, _FAR) if dof > 1 else 0.0
        sizes.append(max(size, float(np.sqrt(least))))
    most = min(_OUTLYING * float(np.quantile(sizes, _MOST_SHARE)), _FAR / 2)
    return [own for own, size in zip(groups, sizes, strict=True) if size <= most]


def _reduced(still: MovedMeans, group: GroupMoments, at: MovedGroup) -> _Reduced:
    near, w = still.components(group.degree, at.moves), at.weights
    root = Root(group_covariance(near, group.n, w))
    means = root.whiten(near.means)
    free = free_directions(means, w)
    by_mean, by_excess = still.slopes(near, inside(w, group.n))
    slopes = root.whiten(np.hstack([by_mean * still.deviations.T.ravel(), by_excess]))
    slopes -= free @ (free.T @ slopes)
    rest = root.whiten(still.target(group, near, w, at.moves)) - means @ w
    return _Reduced(slopes.T @ slopes, slopes.T @ rest)


def _scored(reduced: list[_Reduced], spreads: Float, excess: Float) -> tuple[Float, Float, Float]:
    """Most probable spreads, their standard errors, and the step of κ."""
    count = len(spreads)
    k = len(reduced[0].score) - count
    r, step = k // count, np.zeros(count)
    for _ in range(_SCORINGS):
        slope, information = np.zeros(count), np.zeros((count, count))
        shared, target = np.zeros((count, count)), np.zeros(count)
        between = np.repeat(spreads, r)
        for own in reduced:
            h, cross = own.information[:k, :k], own.information[:k, k:]
            inverse = np.linalg.inv(np.eye(k) + h * between)
            left, score = inverse @ h, inverse @ (own.score[:k] - cross @ step)
            slope += (score**2 - np.diagonal(left)).reshape(count, r).sum(axis=1)
            information += (left**2).reshape(count, r, count, r).sum(axis=(1, 3))
            through = (cross.T * between) @ inverse
            shared += own.information[k:, k:] - through @ cross
            target += own.score[k:] - through @ own.score[:k]
        step = _bounded(_solved(shared, target), excess, spreads)
        diagonal = np.maximum(np.diagonal(information), 1e-300)
        errors = np.sqrt(2.0 / diagonal)
        free = (spreads > 0) | (slope > 0)
        change = np.zeros(count)
        change[free] = _solved(information[np.ix_(free, free)], slope[free])
        before, spreads = spreads, np.clip(spreads + change, 0.0, _LARGEST)
        if (np.abs(spreads - before) <= _SETTLED * errors).all():
            break
    return spreads, np.minimum(errors, _LARGEST), step


def _solved(matrix: Float, target: Float) -> Float:
    """The solution of a system that may be singular."""
    ridge = np.diag(1e-9 * np.maximum(np.diagonal(matrix), 1e-300))
    return np.asarray(np.linalg.solve(matrix + ridge, target))


def _bounded(step: Float, excess: Float, spreads: Float) -> Float:
    """A step after which κ is no more than what means that differ account for."""
    return np.clip(excess + step, 0.0, spreads / (1.0 + spreads)) - excess
