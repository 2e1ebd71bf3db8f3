"""Means of the components in one group, with those of the model as prior, from its moments.

| symbol | name here | shape |
|---|---|---|
| x: means of the group less those of the model, k = n_values · r | ``moves`` | (k,) |
| x = e + δ: error of the model, and δ_cj of variance τ_j² s_cj² | ``prior``, of Cov x | (k, …) |
| m = M(x) w + noise of covariance V(w) / n | ``moments`` | (q,) |
| C = V / n + D Dᵀ, D = ∂ (M w) / ∂ θ · root of Cov θ | ``group_covariance`` | (q, q) |
| E[x given m, w] = prior Dᵀ C⁻¹ (m − M(0) w) | ``moves`` | |

s_cj is the unit of value j in component c (``values.py``): of numbers the deviation. The components
are those of the model with τ as a further error of the means (`FixedComponents`), so that C, the
test and the intervals of the weights are those of fixed components. M is a polynomial in x: the
moments are taken as linear near the last answer, in a few rounds of bounded steps. Weights are the
nearest ones in units of C, non-negative and of sum 1.

A model of the whole has in its variances those of the means between groups, too: within groups they
are 1 − κ_cj times as large. τ and κ come from all groups (``mean_spreads.py``); what is not known
of κ is one more error that all groups share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import helmert

from momentmix._typing import Float
from momentmix.fitting.conditions.derivative import by_feature
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
from momentmix.monitoring.shares.means.moved_components import Base, MovedComponents, narrowed
from momentmix.monitoring.shares.means.values import Facts, MovingValues

_ROUNDS = 15  # of an answer → linear moments near it → answer; mostly four are enough
_LONGEST = 0.4  # units, of a step: farther away the moments are not linear
_SETTLED = 0.02  # of a standard error
_FAR = 0.05  # units: covariances within components are those of means that are no farther away
_DOUBTFUL = 0.2  # a p-value below takes the fourth moments into account


class GroupMoments(NamedTuple):
    """Moments of one group of `n` rows, up to a degree, and weights to start from."""

    degree: int
    moments: Float
    n: float
    weights: Float
    moves: Float | None = None  # to start from; none by default


@dataclass(frozen=True)
class MovedGroup:
    """Weights and means of one group.

    Attributes
    ----------
    weights : array of shape (r,)
    moves, errors : arrays of shape (r, n_values)
        How far the means lie from the model's, in units of its standardized features, and the
        standard errors of the means.
    """

    weights: Float
    moves: Float
    errors: Float


class Spreads(NamedTuple):
    """How far means differ between groups.

    Attributes
    ----------
    between : array of shape (n_values,)
        τ²: the variance of means between groups, over that of the component.
    excess : array of shape (r, n_values)
        κ: the part of the model's variances that is one between groups.
    root : array of shape (n_values · r, …)
        The covariance of κ, ordered by value, is root rootᵀ.
    """

    between: Float
    excess: Float
    root: Float

    @classmethod
    def none(cls, n_values: int, r: int) -> Spreads:
        """Means that are the same in all groups."""
        return cls(np.zeros(n_values), np.zeros((r, n_values)), np.zeros((n_values * r, 0)))


class MovedMeans:
    """Components whose means may differ between groups.

    Parameters
    ----------
    sets : ComponentSets
    features : sequence of int
        Features whose means may differ.
    spreads : Spreads
    """

    def __init__(self, sets: ComponentSets, features: Sequence[int], spreads: Spreads) -> None:
        self._sets, self.spreads = sets, spreads
        self.values = MovingValues(sets.model.parameters, features)
        self._parameters = p = narrowed(sets.model.parameters, self.values, spreads.excess)
        self.start = self.values.facts(p)
        self.units = self.start.units
        known = sets.model.factor
        self._known = np.zeros((p.n_places, 0)) if known is None else known
        self.n_known = self._known.shape[1]
        self._places = by_feature(p)[p.n_components :].reshape(-1, p.n_components)
        rows = self._known[self._places[self.values.features].ravel()]
        of_seen = self._known[self._places[self.values.seen].ravel()]
        own = np.diag(self._between())
        none = np.zeros((len(own), spreads.root.shape[1]))
        self.prior = np.hstack([self.values.errors(self.start, rows, of_seen), own, none])
        self._bases: dict[int, Base] = {}
        # Weights, test and words of a group ask for the same components.
        self._last: tuple[Any, Any] = (), None

    def _between(self) -> Float:
        """Deviations of means between groups, ordered by value."""
        return np.asarray((self.units * np.sqrt(self.spreads.between)).T.ravel())

    @property
    def between(self) -> slice:
        """Which errors are differences between groups: all other ones are shared by them."""
        return slice(self.n_known, self.n_known + self.units.size)

    def _factor(self, facts: Facts) -> Float:
        """Errors of all parameters: those of the model, of means of groups, and of κ."""
        own = self._between()
        means, k = self._places[self.values.features].ravel(), own.size
        variances = self._places[self._parameters.blocks.n_features + self.values.features].ravel()
        between = np.zeros((self._parameters.n_places, k))
        between[means, np.arange(k)] = own * facts.by_mean.T.ravel()
        between[variances, np.arange(k)] = own * facts.by_variance.T.ravel()
        excess = np.zeros((self._parameters.n_places, self.spreads.root.shape[1]))
        scale = (facts.of_variance * facts.variances).T.ravel()
        excess[variances] = -scale[:, None] * self.spreads.root
        return np.hstack([self._known, between, excess])

    def components(
        self, degree: int, moves: Float, near: MovedComponents | None = None
    ) -> MovedComponents:
        """Components with moved means, as far as their laws allow.

        Covariances within components are those of `near`, or of the model, if these are no farther
        away than that matters.
        """
        key = degree, moves.tobytes()
        if key not in self._last[0]:
            p = self.values.moved(self._parameters, moves)
            facts = self.values.facts(p)
            real = facts.means - self.start.means
            base = self._base(degree, real, p, near)
            ordered = self._factor(facts)[self._places.ravel()]
            made = MovedComponents(base, p, ordered, self.values.features, facts, real)
            self._last = ((key, (degree, real.tobytes())), made)
        found: MovedComponents = self._last[1]
        return found

    def _base(self, degree: int, moves: Float, p: Parameters, near: MovedComponents | None) -> Base:
        """Components with nearly these means."""
        if near is not None and (np.abs(moves - near.base.moves) <= _FAR * self.units).all():
            return near.base
        if (np.abs(moves) > _FAR * self.units).any():
            return Base(FixedComponents(self._sets.of(degree).conditions, p), moves)
        if degree not in self._bases:
            own = FixedComponents(self._sets.of(degree).conditions, self._parameters)
            self._bases[degree] = Base(own, np.zeros_like(moves))
        return self._bases[degree]

    def target(self, group: GroupMoments, near: MovedComponents, weights: Float) -> Float:
        """Moments less what the moved means add: linear in all that is not known."""
        slopes, _ = near.slopes(inside(weights, group.n))
        return np.asarray(group.moments + slopes @ near.moves.T.ravel())

    def group(self, group: GroupMoments) -> MovedGroup:
        """Weights and means of one group."""
        w, k = group.weights, len(group.weights)
        moves = np.zeros_like(self.units) if group.moves is None else group.moves
        for _ in range(_ROUNDS):
            near = self.components(group.degree, moves)
            target = self.target(group, near, w)
            shared = near.shared_error(inside(w, group.n))
            assert shared is not None
            root = Root(group_covariance(near, group.n, w))
            white = root.whiten(np.column_stack([near.means, target, shared @ self.prior.T]))
            means, rest, gains = white[:, :k], white[:, k], white[:, k + 1 :]
            w = bounded(means, rest)
            wanted = gains.T @ (rest - means @ w)
            errors = self._errors(gains, free_directions(means, w))
            step = wanted.reshape(moves.T.shape).T - near.moves
            longest = float((np.abs(step) / self.units).max(initial=0.0))
            before = near.moves
            moves = before + step * min(1.0, _LONGEST / max(longest, 1e-300))
            moves = self.components(group.degree, moves, near).moves
            if (np.abs(moves - before) <= _SETTLED * errors + 1e-12).all():
                break
        return MovedGroup(w, moves, errors)

    def _errors(self, gains: Float, free: Float) -> Float:
        """Standard errors of the means: what the prior leaves open when the moments are known."""
        told = (gains**2).sum(axis=0) - ((free.T @ gains) ** 2).sum(axis=0)
        left = np.maximum((self.prior**2).sum(axis=1) - told, 0.0)
        return np.asarray(np.sqrt(left).reshape(self.units.T.shape).T)

    # -- weights --------------------------------------------------------------------------------

    def linear_weights(self, group: GroupMoments, own: MovedGroup, at: Float) -> LinearWeights:
        """Weights without bounds, with the covariance of the moments taken at the weights `at`.

        That the means of the group are not known is a part of its own noise.
        """
        near = self.components(group.degree, own.moves)
        root = Root(group_covariance(near, group.n, at))
        found = linear_in(near, self.target(group, near, at), group.n, at, root)
        error = near.shared_error(at)
        assert error is not None
        between = found.influence @ error[:, self.between]
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
        target = self.target(group, near, own.weights)
        test = check_fit(near, target, group.n, own.weights, None)
        if test.p_value < _DOUBTFUL:
            draws = draws_of(near)
            test = check_fit(near, target, group.n, own.weights, draws)
        return test


def free_directions(means: Float, weights: Float) -> Float:
    """Orthonormal basis of what positive weights can change in moments, of shape (q, …)."""
    own = means[:, weights > 0]
    if own.shape[1] < 2:
        return np.zeros((len(means), 0))
    return np.asarray(np.linalg.qr(own @ helmert(own.shape[1]).T)[0])
