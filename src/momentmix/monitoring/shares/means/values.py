"""Means of columns within components, as functions of the parameters of their features.

| column | its mean | ∂ μ_f, ∂ v_f by the mean | ∂ v_f by the variance |
|---|---|---|---|
| numbers | μ_f | 1, 0 | 1 |
| numbers with missing cells | that of the cells that are seen | q, 2 q (1 − q) (mean − u_0) | q |
| counts | λ | 1, 0: v_f follows from μ_f | |
| levels | P(level), one mean for each level but the first | 1, 0 | |
| the last two with missing cells | that of the cells that are seen | q, 0 | |

f is the feature of the value, q the probability that its cell is seen, u_0 its feature where it is
missing. All means are in units of the standardized feature. Errors of the parameters become errors
of the mean by ``1 / ∂ μ_f`` and, where cells are missing, ``by_seen`` times the error of E seen.

Between groups, means of numbers differ in proportion to the deviation within the component. Those
of counts differ in proportion to λ, and those of levels to P (1 − P), as they do where log λ and
log odds differ by as much in all components; over all components these units have the mean square
of the deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.mixture.laws.finite import Finite
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen, SeenValue
from momentmix.mixture.parameters import Parameters

_LEAST = 1e-12  # variance of a standardized feature within a component
_FEW_SEEN = 0.01  # probability of being seen: below, nothing is known of the value
_LEAST_PART = 0.125  # of a rate or a probability that is left when it has moved


class Facts(NamedTuple):
    """What is known of values, arrays of shape (r, k); see the table of the module."""

    means: Float
    variances: Float
    by_mean: Float
    by_variance: Float
    of_variance: Float
    by_seen: Float
    units: Float


class _Numbers:
    """Gaussian features without missing cells; their moves are those of the features."""

    def __init__(self, features: Sequence[int]) -> None:
        self.features, self.seen = list(features), [0] * len(features)

    def facts(self, p: Parameters) -> Facts:
        means, variances = p.means[:, self.features], p.variances[:, self.features]
        ones, zeros = np.ones_like(means), np.zeros_like(means)
        return Facts(means, variances, ones, zeros, ones, zeros, _deviations(variances))

    def put(self, p: Parameters, means: Float, variances: Float) -> None:
        p.means[:, self.features], p.variances[:, self.features] = means, variances


class _Seen:
    """One number or count with missing cells."""

    def __init__(self, law: Seen) -> None:
        self._law, self._own = law, list(law.features)
        self.features, self.seen = [law.features[0]], [law.features[1]]

    def facts(self, p: Parameters) -> Facts:
        law, own = self._law, self._own
        q, mean, variance = law.value_of(p.means[:, own], p.variances[:, own])
        q, unit = q[:, None], law.seen - law.missing[1]
        gap, is_free = mean - law.missing[0], law.value.free[0]
        if not is_free:
            mean, variance = law.value.completed(mean, variance)
        by_variance = 2 * q * (1 - q) * gap if is_free else np.zeros_like(q)
        of_variance = q if is_free else np.zeros_like(q)
        units = _deviations(variance)
        if isinstance(law.value, Poisson):
            units = _even(law.value.rates(mean)[:, None], units, p.weights)
        by_seen = -gap / (np.maximum(q, _FEW_SEEN) * unit)
        return Facts(mean, variance, q, by_variance, of_variance, by_seen, units)

    def put(self, p: Parameters, means: Float, variances: Float) -> None:
        law, own = self._law, self._own
        q = law.value_of(p.means[:, own], p.variances[:, own]).q
        if isinstance(law.value, Poisson):
            before = law.value_of(p.means[:, own], p.variances[:, own]).mean
            means, variances = _counted(law.value, before, means)
        p.means[:, own], p.variances[:, own] = law.features_of(SeenValue(q, means, variances))


class _Counts:
    """One count without missing cells."""

    def __init__(self, law: Poisson) -> None:
        self._law, self.features, self.seen = law, list(law.features), [0]

    def facts(self, p: Parameters) -> Facts:
        means, variances = self._law.completed(p.means[:, self.features], p.variances)
        ones, zeros = np.ones_like(means), np.zeros_like(means)
        units = _even(self._law.rates(means)[:, None], _deviations(variances), p.weights)
        return Facts(means, variances, ones, zeros, zeros, zeros, units)

    def put(self, p: Parameters, means: Float, variances: Float) -> None:
        found = _counted(self._law, p.means[:, self.features], means)
        p.means[:, self.features], p.variances[:, self.features] = found


class _Levels:
    """The levels of a column but the first, with or without missing cells."""

    def __init__(self, law: Finite) -> None:
        self._law, self._own = law, list(law.features)
        self.features = self._own[: law.n_values]
        self.seen = self._own[-1:] * len(self.features) if law.n_seen else [0] * len(self.features)
        points = np.array(law.points)
        self._scales = 1.0 / np.ptp(points, axis=0)  # of an indicator, over that of its feature
        self._zero = points.min(axis=0)  # an indicator of 0

    def _table(self, p: Parameters) -> tuple[Float, Float]:
        """Probability of being seen (r, 1), and those of the levels but the first (r, k)."""
        law = self._law
        every = law._allowed(law.probabilities(p.means[:, self._own]))
        q = 1.0 - every[:, :1] if law.n_seen else np.ones((len(every), 1))
        return q, every[:, law.n_seen + 1 :] / q

    def facts(self, p: Parameters) -> Facts:
        (q, table), k = self._table(p), len(self.features)
        scales, zeros = self._scales[:k], np.zeros_like(table)
        means, variances = self._zero[:k] + table / scales, table * (1 - table) / scales**2
        units = _even(table * (1 - table), _deviations(variances), p.weights)
        by_seen = -table * self._scales[-1] / (np.maximum(q, _FEW_SEEN) * scales)
        by_seen = by_seen if self._law.n_seen else zeros
        return Facts(means, variances, q + zeros, zeros, zeros, by_seen, units)

    def put(self, p: Parameters, means: Float, variances: Float) -> None:
        law, k, (q, before) = self._law, len(self.features), self._table(p)
        table = (means - self._zero[:k]) * self._scales[:k]
        table = np.hstack([1.0 - table.sum(axis=1, keepdims=True), table])
        before = np.hstack([1.0 - before.sum(axis=1, keepdims=True), before])
        table = np.maximum(table, _LEAST_PART * before)
        table /= table.sum(axis=1, keepdims=True)
        every = np.hstack([1.0 - q, q * table]) if law.n_seen else table
        p.means[:, self._own], p.variances[:, self._own] = law.of_probabilities(every)


_Part = _Numbers | _Seen | _Counts | _Levels


class MovingValues:
    """Means that may differ between groups.

    Parameters
    ----------
    parameters : Parameters
        Of standardized features.
    features : sequence of int
        Features of the values; of a column of levels all of them.
    """

    def __init__(self, parameters: Parameters, features: Sequence[int]) -> None:
        wanted = set(features)
        laws = [law for law in parameters.blocks.laws if law.features[0] in wanted]
        of_laws = {j for law in laws for j in law.features}
        parts: list[_Part] = [_part(law) for law in laws]
        plain = sorted(wanted - of_laws)
        parts += [_Numbers(plain)] if plain else []
        every = [feature for part in parts for feature in part.features]
        order = np.argsort(every, kind="stable")
        self.features: Int = np.array(every)[order]
        self.seen: Int = np.array([j for part in parts for j in part.seen])[order]
        ends = np.cumsum([0, *(len(part.features) for part in parts)])
        place = np.argsort(order)
        self._parts = [
            (part, place[start:stop])
            for part, start, stop in zip(parts, ends[:-1], ends[1:], strict=True)
        ]

    def __len__(self) -> int:
        return len(self.features)

    def facts(self, p: Parameters) -> Facts:
        """Means and variances of the values, and slopes of the parameters."""
        if len(self._parts) == 1:
            return self._parts[0][0].facts(p)
        tables = np.empty((len(Facts._fields), p.n_components, len(self)))
        for part, places in self._parts:
            tables[:, :, places] = np.array(part.facts(p))
        return Facts(*tables)

    def errors(self, facts: Facts, rows: Float, of_seen: Float) -> Float:
        """Errors of the means (k · r, …) from those of E of the value's and the seen feature."""
        own = 1.0 / np.maximum(facts.by_mean, _FEW_SEEN).T.ravel()
        return np.asarray(own[:, None] * rows + facts.by_seen.T.ravel()[:, None] * of_seen)

    def moved(self, p: Parameters, moves: Float, kept: Any = 1.0) -> Parameters:
        """Other means, by `moves` (r, k), as far as their laws allow; variances times `kept`."""
        found = replace(p, means=p.means.copy(), variances=p.variances.copy())
        facts = self.facts(p)
        variances = facts.variances * kept
        for part, places in self._parts:
            part.put(found, (facts.means + moves)[:, places], variances[:, places])
        return found


def _part(law: Law) -> _Part:
    if isinstance(law, Seen):
        return _Seen(law)
    if isinstance(law, Poisson):
        return _Counts(law)
    assert isinstance(law, Finite)
    return _Levels(law)


def _counted(law: Poisson, before: Float, means: Float) -> tuple[Float, Float]:
    """Means and variances of counts whose rates are not far below those before."""
    least = (_LEAST_PART * law.rates(before) - law.shift) / law.scale
    means = np.maximum(means, least[:, None])
    return law.completed(means, means)


def _deviations(variances: Float) -> Float:
    return np.sqrt(np.maximum(variances, _LEAST))


def _even(sizes: Float, deviations: Float, weights: Float) -> Float:
    """Units in proportion to `sizes` (r, k), with the mean square of the deviations."""
    ratio = (weights @ deviations**2) / np.maximum(weights @ sizes**2, 1e-300)
    return np.asarray(np.maximum(sizes * np.sqrt(ratio), 1e-3 * deviations))
