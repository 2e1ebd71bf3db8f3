"""How far the means of components differ between groups: τ² of each value, and κ.

By restricted maximum likelihood: with the weights projected out, the moments of group g have the
covariance C_g = V_g / n + E Eᵀ + Σ_j τ_j² B_j B_jᵀ, B_j the slopes in the means of value j times
the units of the components. κ_cj, the part of the variance of value j in component c that is one
between groups, is the same in all groups; S are the slopes in it. Scoring uses, of each group, H =
Bᵀ P B, z = Bᵀ P (m − M w) and the same of S only, P the inverse of C without τ where the weights
take no part:

| symbol | name here |
|---|---|
| T = diag τ², K = H (I + T H)⁻¹, h = (I + H T)⁻¹ z | ``between``, ``left``, ``score`` |
| slope_j = Σ_g Σ_c (h_cj² − K_cj,cj) | ``slope`` |
| information_jl = Σ_g Σ_cc' K_cj,c'l² | ``information`` |
| step: τ² += information⁻¹ slope, not below 0 | |
| κ += (A + Λ)⁻¹ (Σ_g Sᵀ C⁻¹ (m − M w) − Λ κ), A = Σ_g Sᵀ C⁻¹ S | ``excess`` |

κ is τ² / (1 + τ²) where a model was fitted to the rows of all groups, and 0 where its variances are
those within groups. The groups that there are have in each component a variance between means of
their own: of G groups it differs from τ² by about √(2 / G) of it. So κ_cj differ between components
by chance, and Λ is the precision of these differences. With one column nothing else tells a
variance that is too large from means that moved. (A + Λ)⁻¹ is the covariance of κ.

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
from momentmix.monitoring.shares.group_weights import check_fit, inside
from momentmix.monitoring.shares.means.moved_means import (
    GroupMoments,
    MovedMeans,
    Spreads,
    free_directions,
)

_START = 0.01  # τ²
_LARGEST = 9.0  # τ²: means of groups lie three deviations apart
_MOST_GROUPS = 200  # are enough to tell how far means differ
_MOST_SHARE, _OUTLYING = 0.7, 8.0  # a misfit eight times that of most groups is another matter
_FAR = 1e8  # deviations: a misfit beyond is that of values in other units, or of wild rows
_ROUNDS = 5  # of τ² → means of groups → moments that are linear near them → τ²
_STILL, _STILL_EXCESS = 0.2, 0.01  # changes of τ², in standard errors, and of κ that are the last
_SCORINGS = 25
_SETTLED = 0.02  # of a standard error
_LEAST_EXCESS = 0.01  # κ: below, components need not be told apart
_LOOSE = 1.5  # times: variances of few means have long tails
_SURE = 2.0  # such errors of the variance between the means of some groups


class FoundSpreads(NamedTuple):
    """τ², one standard error larger, κ, and groups with means to start from, by their numbers."""

    spreads: Spreads
    starts: dict[int, GroupMoments]


class _Reduced(NamedTuple):
    """Groups with the weights projected out; U = [B, S] are slopes in means and in κ."""

    information: Float  # Uᵀ P U, (G, 2k, 2k)
    score: Float  # Uᵀ P (m − M w), (G, 2k)


def find_spreads(
    sets: ComponentSets, features: Sequence[int], groups: Sequence[GroupMoments]
) -> FoundSpreads:
    """How far the means of these features differ between groups."""
    r, count = sets.model.parameters.n_components, len(features)
    moved = MovedMeans(sets, features, Spreads.none(count, r))
    every = range(0, len(groups), max(1, len(groups) // _MOST_GROUPS))
    chosen = _usual(moved, {g: groups[g] for g in every})
    if not chosen:
        return FoundSpreads(moved.spreads, {})
    n_rows = np.array([own.n for own in chosen.values()])
    doubt = _LOOSE * float(np.sqrt(2.0 * (n_rows**2).sum()) / n_rows.sum())
    between, excess = np.full(count, _START), np.zeros((r, count))
    unmoved = np.zeros_like(moved.units)
    reduced = [_reduced(moved, own, own.weights, unmoved) for own in chosen.values()]
    for number in range(_ROUNDS):
        found = _Search(_Reduced(*map(np.array, zip(*reduced, strict=True))), excess, doubt)
        before, (between, errors) = (between, excess), found.scored(between)
        raised = np.minimum(between + errors, _LARGEST)
        excess, root = found.excess(raised)
        changed = (np.abs(between - before[0]) > _STILL * errors).any()
        changed |= (np.abs(excess - before[1]) > _STILL_EXCESS).any()
        if not changed or number == _ROUNDS - 1:
            break
        moved = MovedMeans(sets, features, Spreads(between, excess, root[:, :0]))
        reduced = []
        for g, own in chosen.items():
            at = moved.group(own)
            reduced.append(_reduced(moved, own, at.weights, at.moves))
            chosen[g] = own._replace(weights=at.weights, moves=at.moves)
    return FoundSpreads(Spreads(raised, excess, root), chosen)


def _usual(still: MovedMeans, groups: dict[int, GroupMoments]) -> dict[int, GroupMoments]:
    """Groups without those that differ from the model many times as much as most do.

    Rows of a new kind, or wild rows, are no matter of means: one group of these would let the means
    of all others go free.
    """
    sizes = []
    for own in groups.values():
        near = still.components(own.degree, np.zeros_like(still.units))
        test = check_fit(near, own.moments, own.n, own.weights, None)
        dof = max(test.degrees_of_freedom, 1)
        least = np.sqrt(2.0 / dof) / own.n  # by chance
        size = min(test.effect_size, _FAR) if dof > 1 else 0.0
        sizes.append(max(size, float(np.sqrt(least))))
    most = min(_OUTLYING * float(np.quantile(sizes, _MOST_SHARE)), _FAR / 2)
    return {g: groups[g] for g, size in zip(groups, sizes, strict=True) if size <= most}


def _reduced(moved: MovedMeans, group: GroupMoments, w: Float, moves: Float) -> _Reduced:
    near, at = moved.components(group.degree, moves), inside(w, group.n)
    shared = near.shared_error(at)
    assert shared is not None
    known = shared[:, : moved.n_known]  # errors without those that are looked for
    root = Root(near.covariance(at) / group.n + known @ known.T)
    by_mean, by_excess = near.slopes(at)
    target = moved.target(group, near, w)
    columns = [near.means, by_mean * moved.units.T.ravel(), by_excess, target]
    white = root.whiten(np.column_stack(columns))
    means, slopes, rest = np.split(white, [len(w), white.shape[1] - 1], axis=1)
    free = free_directions(means, w)
    slopes -= free @ (free.T @ slopes)
    return _Reduced(slopes.T @ slopes, slopes.T @ (rest[:, 0] - means @ w))


class _Search:
    """Scoring for τ² and κ.

    Parameters
    ----------
    reduced : _Reduced
    excess : array of shape (r, n_values)
        κ that the groups were reduced with.
    doubt : float
        Relative standard error of a variance between the means of these groups.
    """

    def __init__(self, reduced: _Reduced, excess: Float, doubt: float) -> None:
        self._reduced, self._doubt = reduced, doubt
        self._r, self._count = excess.shape
        self._before = excess.T.ravel()
        self._step = np.zeros_like(self._before)
        self._covariance = np.zeros((excess.size, excess.size))

    def scored(self, between: Float) -> tuple[Float, Float]:
        """Most probable τ², and their standard errors."""
        count, r = self._count, self._r
        for _ in range(_SCORINGS):
            left, score = self._scores(between)
            slope = (score**2 - np.diagonal(left, axis1=1, axis2=2)).sum(axis=0)
            slope = slope.reshape(count, r).sum(axis=1)
            information = (left**2).sum(axis=0).reshape(count, r, count, r).sum(axis=(1, 3))
            errors = np.sqrt(2.0 / np.maximum(np.diagonal(information), 1e-300))
            free = (between > 0) | (slope > 0)
            change = np.zeros(count)
            change[free] = _solved(information[np.ix_(free, free)], slope[free])
            before, between = between, np.clip(between + change, 0.0, _LARGEST)
            if (np.abs(between - before) <= _SETTLED * errors).all():
                break
        return between, np.minimum(errors, _LARGEST)

    def _scores(self, between: Float) -> tuple[Float, Float]:
        """K and h of all groups; the step of κ is found before."""
        k = self._before.size
        h, cross = self._reduced.information[:, :k, :k], self._reduced.information[:, :k, k:]
        z, own = self._reduced.score[:, :k], self._reduced.score[:, k:]
        by = np.repeat(between, self._r)
        inverse = np.linalg.inv(np.eye(k) + h * by)
        through = cross.transpose(0, 2, 1) * by @ inverse
        shared = (self._reduced.information[:, k:, k:] - through @ cross).sum(axis=0)
        target = (own - (through @ z[..., None])[..., 0]).sum(axis=0)
        self._find_step(shared, target, between)
        score = inverse @ (z - cross @ self._step)[..., None]
        return inverse @ h, score[..., 0]

    def _find_step(self, shared: Float, target: Float, between: Float) -> None:
        """The step of κ, and its covariance."""
        precision = np.kron(np.diag(self._precisions()), _centered(self._r))
        matrix = shared + precision
        step = _solved(matrix, target - precision @ self._before)
        found = np.clip(self._before + step, 0.0, self._most(between))
        self._step = found - self._before
        # Where a bound is met, κ is known: means do not differ, or the model is one of groups.
        open_ = (found > 0) & (np.diagonal(shared) > 0)
        own = np.ix_(open_, open_)
        self._covariance = np.zeros_like(shared)
        ridge = 1e-9 * np.maximum(np.diagonal(matrix)[open_], 1e-300)
        self._covariance[own] = np.linalg.inv(matrix[own] + np.diag(ridge))

    def _precisions(self) -> Float:
        """Of differences of κ between components, for each value."""
        common = (self._before + self._step).reshape(self._count, self._r).mean(axis=1)
        return np.asarray(1.0 / (self._doubt * np.maximum(common, _LEAST_EXCESS)) ** 2)

    def _most(self, between: Float) -> Float:
        """κ of means that differ by chance more than most of this τ² do."""
        most = np.repeat(between * (1.0 + _SURE * self._doubt), self._r)
        return np.asarray(most / (1.0 + most))

    def excess(self, between: Float) -> tuple[Float, Float]:
        """κ (r, n_values), and a root of its covariance."""
        found = np.clip(self._before + self._step, 0.0, self._most(between))
        values, vectors = np.linalg.eigh(self._covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return found.reshape(self._count, self._r).T, root[:, values > 0]


def _centered(r: int) -> Float:
    return np.eye(r) - 1.0 / r


def _solved(matrix: Float, target: Float) -> Float:
    """The solution of a system that may be singular."""
    ridge = np.diag(1e-9 * np.maximum(np.diagonal(matrix), 1e-300))
    return np.asarray(np.linalg.solve(matrix + ridge, target))
