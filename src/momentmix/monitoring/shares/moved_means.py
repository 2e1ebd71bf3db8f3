"""Means of the components in one group, with those of the model as prior, from its moments.

| symbol | name here | shape |
|---|---|---|
| x: means of the group less those of the model, k = n_features · r | ``moves`` | (k,) |
| x = e + δ: error of the model, and δ_cj of variance τ_j² s_cj² | ``prior``, of Cov x | (k, …) |
| m = M(x) w + noise of covariance V(w) / n | ``moments`` | (q,) |
| C = V / n + D Dᵀ, D = ∂ (M w) / ∂ θ · root of Cov θ | ``group_covariance`` | (q, q) |
| E[x given m, w] = prior Dᵀ C⁻¹ (m − M(0) w) | ``moves`` | |

s_cj is the deviation of column j within component c. The components are those of the model with τ
as a further error of the means (`FixedComponents`), so that C, the test and the intervals of the
weights are those of fixed components. M is a polynomial in x: the moments are taken as linear near
the last answer, in a few rounds of bounded steps. Weights are the nearest ones in units of C,
non-negative and of sum 1.

A model of the whole has in its variances those of the means between groups, too: within groups they
are 1 − κ_j times as large. τ and κ come from all groups (``mean_spreads.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import helmert

from momentmix._typing import Float
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.mixture.parameters import Parameters
from momentmix.monitoring.shares.component_sets import ComponentSets, draws_of
from momentmix.monitoring.shares.fixed_components import FixedComponents, Root
from momentmix.monitoring.shares.group_weights import (
    FitTest,
    GroupWeights,
    LinearWeights,
    bounded,
    check_fit,
    group_covariance,
    inside,
    linear_in,
    with_intervals,
)

FEW_TO_MOVE = 100  # rows: fewer have no moments of degree 3 that tell means of components
_ROUNDS = 15  # of an answer → linear moments near it → answer; mostly four are enough
_LONGEST = 0.4  # deviations, of a step: farther away the moments are not linear
_SETTLED = 0.05  # of a standard error
_FAR = 0.1  # deviations: means that moved farther have covariances of their own
_LEAST = 1e-12  # variance of a standardized feature within a component
_HALVINGS = 12
_DOUBTFUL = 0.2  # a p-value below takes the fourth moments into account


class GroupMoments(NamedTuple):
    """Moments of one group of `n` rows, up to a degree, and weights to start from."""

    degree: int
    moments: Float
    n: float
    weights: Float


@dataclass(frozen=True)
class MovedGroup:
    """Weights and means of one group.

    Attributes
    ----------
    weights : array of shape (r,)
    moves, errors : arrays of shape (r, n_features)
        How far the means lie from the model's, in units of its standardized features, and the
        standard errors of the means.
    """

    weights: Float
    moves: Float
    errors: Float


class MovedMeans:
    """Components whose means may differ between groups.

    Parameters
    ----------
    sets : ComponentSets
    features : sequence of int
        Features whose means may differ.
    spreads : array of shape (n_features,)
        τ² of each: the variance of means between groups, over that of the component.
    excess : array of shape (n_features,)
        κ of each: the part of the model's variances that is one between groups.
    """

    def __init__(
        self, sets: ComponentSets, features: Sequence[int], spreads: Float, excess: Float
    ) -> None:
        self._sets, self.features, self.spreads = sets, list(features), spreads
        self._parameters = p = _narrowed(sets.model.parameters, self.features, excess)
        self.deviations = np.sqrt(np.maximum(p.variances[:, self.features], _LEAST))
        own = (self.deviations * np.sqrt(spreads)).T.ravel()
        of_means = by_feature(p)[p.n_components :].astype(np.float64)
        places = np.concatenate([self._columns(of_means, f) for f in self.features]).astype(int)
        known = np.zeros((p.n_places, 0)) if sets.model.factor is None else sets.model.factor
        between = np.zeros((p.n_places, own.size))
        between[places, np.arange(own.size)] = own
        self._factor = np.hstack([known, between])
        self.prior = self._factor[places]
        self._known: dict[int, FixedComponents] = {}
        # Weights, test and words of a group ask for the same components, which take long to make.
        self._last: tuple[Any, Any] = None, None

    def _columns(self, table: Float, feature: int) -> Float:
        """The part of parameters, ordered by feature, that are means of one feature."""
        r = self._parameters.n_components
        return table[..., feature * r : feature * r + r]

    def components(self, degree: int, moves: Float) -> FixedComponents:
        """Components with moved means.

        Where none moved far, covariances are those of the model.
        """
        key = degree, moves.tobytes()
        if self._last[0] != key:
            self._last = key, self._made(degree, moves)
        found: FixedComponents = self._last[1]
        return found

    def _made(self, degree: int, moves: Float) -> FixedComponents:
        p, conditions = self._parameters, self._sets.of(degree).conditions
        means = p.means.copy()
        means[:, self.features] += moves
        moved = replace(p, means=means)
        if (np.abs(moves) > _FAR * self.deviations).any():
            return FixedComponents(conditions, moved, self._factor)
        if degree not in self._known:
            self._known[degree] = FixedComponents(conditions, p, self._factor)
        return self._known[degree].with_means(moved)

    def slopes(self, components: FixedComponents, weights: Float) -> tuple[Float, Float]:
        """Slopes of the moments in the means (q, k), and in κ of each feature (q, n_features)."""
        p = replace(components.parameters, weights=weights)
        table = derivative(components.conditions, p).table()[:, len(weights) :]
        d = p.blocks.n_features
        means = np.hstack([self._columns(table, f) for f in self.features])
        spread = [-self._columns(table, d + f) @ p.variances[:, f] for f in self.features]
        return means, np.column_stack(spread)

    def target(
        self, group: GroupMoments, components: FixedComponents, weights: Float, moves: Float
    ) -> Float:
        """Moments less what the moved means add: linear in all that is not known."""
        slopes, _ = self.slopes(components, inside(weights, group.n))
        return np.asarray(group.moments + slopes @ moves.T.ravel())

    def group(self, group: GroupMoments) -> MovedGroup:
        """Weights and means of one group."""
        w, moves = group.weights, np.zeros_like(self.deviations)
        for _ in range(_ROUNDS):
            near = self.components(group.degree, moves)
            target = self.target(group, near, w, moves)
            root = Root(group_covariance(near, group.n, w))
            shared = near.shared_error(inside(w, group.n))
            assert shared is not None
            means = root.whiten(near.means)
            w = bounded(means, root.whiten(target))
            gains = root.whiten(shared @ self.prior.T)
            wanted = gains.T @ (root.whiten(target) - means @ w)
            errors = self._errors(gains, free_directions(means, w))
            step = wanted.reshape(moves.T.shape).T - moves
            longest = float((np.abs(step) / self.deviations).max(initial=0.0))
            moves = moves + step * min(1.0, _LONGEST / max(longest, 1e-300))
            if (np.abs(step) <= _SETTLED * errors + 1e-12).all():
                break
        return MovedGroup(w, moves, errors)

    def _errors(self, gains: Float, free: Float) -> Float:
        """Standard errors of the means: what the prior leaves open when the moments are known."""
        told = (gains**2).sum(axis=0) - ((free.T @ gains) ** 2).sum(axis=0)
        left = np.maximum((self.prior**2).sum(axis=1) - told, 0.0)
        return np.asarray(np.sqrt(left).reshape(self.deviations.T.shape).T)

    # -- weights --------------------------------------------------------------------------------

    def linear_weights(self, group: GroupMoments, own: MovedGroup, at: Float) -> LinearWeights:
        """Weights without bounds, with the covariance of the moments taken at the weights `at`.

        That the means of the group are not known is a part of its own noise.
        """
        near = self.components(group.degree, own.moves)
        target, root = (
            self.target(group, near, at, own.moves),
            Root(group_covariance(near, group.n, at)),
        )
        found = linear_in(near, target, group.n, at, root)
        error = near.shared_error(at)
        assert error is not None
        between = found.influence @ error[:, -self.deviations.size :]
        extra = between @ between.T
        return found._replace(noise=found.noise + extra, shared=found.shared - extra)

    def weights_of(self, group: GroupMoments, own: MovedGroup, z: float) -> GroupWeights:
        """Weights with intervals; `z` is a quantile of the normal law."""
        near, at = self.components(group.degree, own.moves), inside(own.weights, group.n)
        found = self.linear_weights(group, own, at)
        rows = found.influence @ near.covariance(at) @ found.influence.T / group.n
        extra = np.diagonal(found.noise + found.shared - rows)
        return with_intervals(near, found, own.weights, at, group.n, extra, z)

    def check(self, group: GroupMoments, own: MovedGroup) -> FitTest:
        """Whether components with means that differ as far as they do explain the moments."""
        near = self.components(group.degree, own.moves)
        target = self.target(group, near, own.weights, own.moves)
        test = check_fit(near, target, group.n, own.weights, None)
        if test.p_value < _DOUBTFUL:
            draws = draws_of(near)
            test = check_fit(near, target, group.n, own.weights, draws)
        return test


def _narrowed(p: Parameters, features: list[int], excess: Float) -> Parameters:
    """Variances 1 − κ times as large; κ is halved while joined features would not allow it."""
    least = 0.5 * _least_eigenvalue(p)
    for _ in range(_HALVINGS):
        variances = p.variances.copy()
        variances[:, features] *= 1.0 - excess
        found = replace(p, variances=variances)
        if p.blocks.is_diagonal or _least_eigenvalue(found) >= least:
            return found
        excess = excess / 2
    return p


def _least_eigenvalue(p: Parameters) -> float:
    """Of the correlations of all components."""
    if p.blocks.is_diagonal:
        return 1.0
    unit = np.sqrt(np.maximum(p.variances, _LEAST))
    return float(np.linalg.eigvalsh(p.matrices / unit[:, :, None] / unit[:, None, :]).min())


def free_directions(means: Float, weights: Float) -> Float:
    """Orthonormal basis of what positive weights can change in moments, of shape (q, …)."""
    own = means[:, weights > 0]
    if own.shape[1] < 2:
        return np.zeros((len(means), 0))
    return np.asarray(np.linalg.qr(own @ helmert(own.shape[1]).T)[0])
