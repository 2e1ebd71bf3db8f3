"""`Distribution`: the features of one column within a component.

Its family knows the column in its own units (`momentmix.families.family`). What standardized
features and missing cells add is the same for all families, and is here.

| symbol | name here | shape |
|---|---|---|
| z = (x − shift) / scale | features; x are those of the data | (…, w) |
| x = (y s, s), y the value and s = 1 where it is observed, else 0 | | w = k or k + 1 |
| E z and Var z within a component | ``means``, ``variances`` | (…, w) |
| E y, Var y, and the probability q of being observed | `Value` | (…, k), (…) |
| log p(z) = c · (z, z², t, 1), t of the family | `coefficients` | (…, 2w + m + 1) |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.family import (
    FEWEST_ROWS,
    LEAST_PROBABILITY,
    LEAST_VARIANCE,
    PSEUDO_ROWS,
    Family,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
    derivatives,
    log1p,
    named,
)
from momentmix.lazy import lazy_property

MOST_FLOOR = 0.9  # the largest least variance of rounded values, in units of that of all rows
_FARTHEST = 100.0  # deviations of all rows from their mean, for the mean of a component
_STEP = 1e-4  # of the way to the nearest bound, for a second derivative: errors of 1e-8 of it
_ROUNDING = 1e-12  # of a variance beside the square of a mean: less is what differences leave


class Value(NamedTuple):
    """Mean and variance of the value, (…, k) each, and the probability that it is observed, (…)."""

    mean: Float
    variance: Float
    observed: Float


@dataclass(frozen=True)
class Distribution:
    """The distribution of the features of one column, for parameters of any shape."""

    features: tuple[int, ...]  # ascending; where cells may be missing, the last one is s
    family: Family
    has_missing: bool = False  # whether cells may be missing
    # At random: the density is that of observed cells alone, and q is that of all rows.
    at_random: bool = False
    shift: Any = ()  # of standardized features, mean and deviation of all rows; else 0 and 1
    scale: Any = ()
    least: Any = LEAST_VARIANCE  # of a number's variance beside that over all rows

    def __post_init__(self) -> None:
        if not len(self.shift):
            object.__setattr__(self, "shift", (0.0,) * len(self.features))
            object.__setattr__(self, "scale", (1.0,) * len(self.features))

    @classmethod
    def stacked(cls, parts: Sequence[Distribution]) -> Distribution:
        """Several of one `kind` as one, in an axis before that of the features."""
        shift, scale = (np.array([getattr(p, x) for p in parts]) for x in ("shift", "scale"))
        return replace(parts[0], shift=shift, scale=scale, least=np.array([p.least for p in parts]))

    @property
    def kind(self) -> tuple[object, ...]:
        """What is equal in distributions that can be stacked."""
        return self.family, len(self.features), self.has_missing, self.at_random

    def __reduce__(self) -> tuple[Any, ...]:
        fields = self.features, self.family, self.has_missing, self.at_random
        return Distribution, (*fields, self.shift, self.scale, self.least)  # not what is cached

    @lazy_property
    def units(self) -> tuple[Float, Float]:
        """Shift and scale as arrays."""
        return np.asarray(self.shift, dtype=np.float64), np.asarray(self.scale, dtype=np.float64)

    @property
    def n_values(self) -> int:
        """Features of the value: all but s."""
        return len(self.features) - self.has_missing

    @property
    def free(self) -> tuple[bool, ...]:
        """Whether each variance is a parameter; the others follow from the means."""
        return (self.family.free,) * self.n_values + (False,) * self.has_missing

    @property
    def n_statistics(self) -> int:
        """Number of statistics beside z and z²."""
        return self.family.n_statistics

    @property
    def value_feature(self) -> int | None:
        """The feature of a number or count that may be missing; None for all others."""
        is_number = self.has_missing and self.n_values and not self.family.has_levels
        return self.features[0] if is_number else None

    @property
    def observed_middle(self) -> float:
        """The last feature lies above it where a cell is observed."""
        return (0.5 - self.shift[-1]) / self.scale[-1] if self.has_missing else -np.inf

    @property
    def missing_features(self) -> Float:
        """The features of a missing cell, (w,)."""
        shift, scale = self.units
        return -shift / scale

    # -- other features and units -----------------------------------------------------------------

    def at(self, features: tuple[int, ...]) -> Distribution:
        """The same of features with other numbers."""
        return replace(self, features=features)

    def rescaled(self, shift: Float, scale: Float) -> Distribution:
        """The distribution of (z − shift) / scale."""
        before = self.units
        moved = before[0] + before[1] * shift, before[1] * scale
        return replace(self, shift=tuple(moved[0].tolist()), scale=tuple(moved[1].tolist()))

    def with_floor(self, least: float) -> Distribution:
        """The same where no number of a component varies less than that, in units of z."""
        if not self.family.joins:
            return self
        least *= self.units[1][0] ** 2 / float(self.overall.variance[0])
        return replace(self, least=float(np.clip(least, LEAST_VARIANCE, MOST_FLOOR)))

    def covering(self, largest: float) -> Distribution:
        """The same for values up to this one, which may need fewer statistics."""
        return replace(self, family=self.family.covering(largest))

    def without(self, place: int) -> Distribution | None:
        """The same where a feature is constant and left out; None: a plain number is left.

        A cell that is always observed has no s; of constant numbers only s is left.
        """
        if place == self.n_values:
            if self.family.joins and self.n_values:
                return None
            return self._part(slice(0, -1), has_missing=False, at_random=False)
        if not self.family.has_levels:
            return self.observed_alone()
        return self._part([j for j in range(len(self.features)) if j != place])

    def observed_alone(self) -> Distribution:
        """The distribution of s alone: that of one level, which has no indicator."""
        kept = [len(self.features) - 1] if self.has_missing else []
        return self._part(kept, family=named("categorical"))

    def _part(self, kept: Any, **changes: Any) -> Distribution:
        parts = [tuple(np.array(x)[kept].tolist()) for x in (self.features, *self.units)]
        changes |= dict(zip(("features", "shift", "scale"), parts, strict=True))
        return replace(self, **changes)

    # -- parameters -------------------------------------------------------------------------------

    def value_of(self, means: Float, variances: Float) -> Value:
        """Parameters of the value, from means and variances of the features."""
        shift, scale = self.units
        x, v = shift + scale * means, scale**2 * variances
        if not self.has_missing:
            return Value(x, v, np.ones(x.shape[:-1]))
        q = clipped(x[..., -1:], LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        mean = x[..., :-1] / q
        return Value(mean, (v[..., :-1] + x[..., :-1] ** 2) / q - mean**2, q[..., 0])

    def features_of(self, value: Value) -> tuple[Float, Float]:
        """Means and variances of the features; the inverse of `value_of`."""
        shift, scale = self.units
        mean, variance, q = value.mean, value.variance, np.asarray(value.observed)[..., None]
        if self.has_missing:
            variance = q * variance + q * (1 - q) * mean**2
            mean = np.concatenate([q * mean, q], axis=-1)
            variance = np.concatenate([variance, q * (1 - q)], axis=-1)
        return (mean - shift) / scale, variance / scale**2

    @lazy_property
    def overall(self) -> Overall:
        """The value over all rows, whose standardized features have mean 0 and variance 1."""
        shift, scale = self.units
        mean, variance, q = self.value_of(np.zeros(shift.shape), np.ones(shift.shape))
        variance = np.maximum(variance, LEAST_VARIANCE * scale[..., : self.n_values] ** 2)
        return self.family.overall(Overall(mean, variance, q, np.asarray(self.least)[..., None]))

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The nearest means that the family allows, and the variances that belong to them."""
        mean, variance, q = self.value_of(means, variances)
        overall = self.overall
        if self.value_feature is not None:
            # Where a cell is hardly ever observed, its mean is a ratio of two small numbers.
            reach = _FARTHEST * np.sqrt(overall.variance)
            mean = np.clip(mean, overall.mean - reach, overall.mean + reach)
        mean, variance = self.family.completed(mean, variance)
        if self.family.joins:
            variance = np.maximum(variance, overall.least * overall.variance)
        return self.features_of(Value(mean, variance, self._observed(q)))

    def _observed(self, q: Float) -> Float:
        """Probabilities of being observed: as given, or of all rows."""
        return np.broadcast_to(self.overall.observed, q.shape) if self.at_random else q

    def _slopes(
        self, function: Callable[[Float, Float], Float], means: Float, variances: Float
    ) -> Float:
        """Derivatives of a function of (E z, Var z), by these in a last axis, (…, 2w)."""
        w = means.shape[-1]
        free = [j for j in range(w) if not (self.at_random and j == self.n_values)]
        free += [w + j for j, is_free in enumerate(self.free) if is_free]
        both = np.concatenate([means, variances], axis=-1)
        return derivatives(lambda x: function(x[..., :w], x[..., w:]), both, free)

    # -- densities and the M-step -----------------------------------------------------------------

    def statistics(self, features: Any, xp: Any = np) -> Any:
        """t(z) of features (…, w, n), of shape (…, m, n), by the library `xp`."""
        values = self.family.statistics(self.shift[0] + self.scale[0] * features[..., :1, :], xp)
        if not self.has_missing:
            return values
        return xp.where(features[..., -1:, :] > self.observed_middle, values, xp.zeros_like(values))

    def coefficients(self, means: Float, variances: Float) -> Float:
        """The log-density as a linear function of (z, z², t, 1), of shape (…, 2w + m + 1)."""
        mean, variance, q = self.value_of(means, variances)
        (shift, scale), k = self.units, self.n_values
        if self.has_missing:
            variance = clipped(variance, _ROUNDING * mean.real**2 + 1e-300)
        table = self.family.coefficients(mean, variance)
        linear, squares = table[..., :k], table[..., k : 2 * k]
        factors, constant = table[..., 2 * k : -1], table[..., -1:]
        if self.has_missing:  # s f(y) + log(1 − q): linear in (ys, s, y²s, t s)
            zeros, rest = np.zeros_like(constant), np.zeros_like(constant)
            if not self.at_random:
                rest = log1p(-q)[..., None]
                constant = constant + np.log(q)[..., None] - rest
            linear = np.concatenate([linear, constant], axis=-1)
            squares, constant = np.concatenate([squares, zeros], axis=-1), rest
        constant = constant + (shift * (linear + shift * squares)).sum(-1, keepdims=True)
        linear = scale * (linear + 2 * shift * squares)
        return np.concatenate([linear, scale**2 * squares, factors, constant], axis=-1)

    def scores(self, means: Float, variances: Float) -> Float:
        """∂ log p(z) / ∂ (E z, Var z) by (z, z², t, 1), of shape (…, 2w, 2w + m + 1)."""
        return self._slopes(self.coefficients, means, variances).swapaxes(-1, -2)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, statistics: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable means and variances from sums of 1, (…, 1), z and z², (…, w), and t."""
        (shift, scale), overall, n = self.units, self.overall, counts
        squares = shift**2 * counts + 2 * shift * scale * sums + scale**2 * squares
        sums = shift * counts + scale * sums
        if self.has_missing:
            n = np.clip(sums[..., -1:], 0.0, counts)
            sums, squares = sums[..., :-1], squares[..., :-1]
        mean, variance = self.family.m_step(n, sums, squares, statistics, overall, prior)
        if not self.has_missing:
            return self.features_of(Value(mean, variance, n[..., 0]))
        q = (n[..., 0] + PSEUDO_ROWS * overall.observed) / (counts[..., 0] + PSEUDO_ROWS)
        q = self._observed(np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
        return self.features_of(Value(mean, variance, q))

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Logarithm of the prior density of each component up to a constant, (…,)."""
        mean, variance, q = self.value_of(means, variances)
        result = self.family.log_prior(mean, variance, self.overall, prior)
        if self.has_missing:  # as if one row were like all rows together
            share = self.overall.observed
            result = result + PSEUDO_ROWS * (share * np.log(q) + (1 - share) * log1p(-q))
        return np.asarray(result)

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        """Slope of `log_prior` by (E z, Var z), (…, 2w), and its curvature, (…, 2w, 2w)."""

        def slope(means: Float, variances: Float) -> Float:
            return self._slopes(lambda m, v: self.log_prior(m, v, prior), means, variances)

        return slope(means, variances), self.curvature(slope, means, variances)

    def curvature(
        self, slope: Callable[[Float, Float], Float], means: Float, variances: Float
    ) -> Float:
        """Minus derivatives of a slope by (E z, Var z), (…, 2w, 2w), by differences."""
        w, distances = means.shape[-1], np.abs(self.positive_slopes(means, variances))
        values = np.broadcast_to(self.positive(means, variances)[..., None], distances.shape)
        distances = np.divide(
            values, distances, where=distances > 0, out=np.full(distances.shape, np.inf)
        )  # to the bounds
        both = np.concatenate([means, variances], axis=-1)
        reach = np.concatenate([np.sqrt(variances), variances], axis=-1)
        steps = _STEP * np.minimum(reach, distances.min(axis=-2, initial=np.inf))
        result = np.zeros((*both.shape, 2 * w))
        for j in range(2 * w):
            move = np.zeros(both.shape)
            move[..., j] = steps[..., j]
            low, high = (slope(x[..., :w], x[..., w:]) for x in (both - move, both + move))
            result[..., j] = (low - high) / (2.0 * steps[..., j, None])
        # At a bound a likelihood may curve upwards: as much as it would downwards, for a scale.
        units = np.sqrt(np.abs(np.diagonal(result, axis1=-2, axis2=-1)))
        units = np.where(units > 0, units, 1.0)
        outer = units[..., :, None] * units[..., None, :]
        values, vectors = np.linalg.eigh(0.5 * (result + result.mT) / outer)
        return np.asarray((vectors * np.abs(values)[..., None, :]) @ vectors.mT * outer)

    def base_measure(self, rows: Float) -> Float | None:
        """The part of the log-density of rows (n, d) beside its linear function; None: nothing."""
        if self.n_values != 1:
            return None
        values = self.shift[0] + self.scale[0] * rows[:, self.features[0]]
        base = self.family.base(np.rint(values) if self.family.is_whole else values)
        if base is None or not self.has_missing:
            return base
        return np.where(rows[:, self.features[-1]] > self.observed_middle, base, 0.0)

    # -- moments ----------------------------------------------------------------------------------

    def support(self, means: Float, variances: Float, degree: int) -> tuple[Float, Float]:
        """Features (r, n, w) and weights (r, n): sums are means of polynomials of a degree."""
        shift, scale = self.units
        mean, variance, q = self.value_of(means, variances)
        points, weights = self.family.support(mean, variance, degree)
        if self.has_missing:
            observed = np.ones((*points.shape[:-1], 1))
            points = np.concatenate([points, observed], axis=-1)
            points = np.concatenate([np.zeros_like(points[:, :1]), points], axis=1)
            weights = np.hstack([(1 - q)[:, None], q[:, None] * weights])
        return (points - shift) / scale, weights

    def _powers(self, points: Float, exponents: Int) -> Float:
        """z^e of points (r, n, w), of shape (r, n, n_exponents)."""
        table = np.ones((*points.shape[:-1], len(exponents)), dtype=points.dtype)
        for feature, powers in enumerate(exponents.T):
            rows = np.flatnonzero(powers)  # of levels few exponents are not 0
            if rows.size:
                highest = np.arange(powers.max() + 1)
                table[..., rows] *= (points[..., feature, None] ** highest)[..., powers[rows]]
        return table

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e of one mixture for exponents (n, w), of shape (n, r)."""
        degree = int(exponents.sum(axis=1).max(initial=0))
        points, weights = self.support(means, variances, degree)
        return np.asarray((weights[:, None] @ self._powers(points, exponents))[:, 0].T)

    def products(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e z^f of all pairs of exponents (n, w), of shape (r, n, n)."""
        degree = 2 * int(exponents.sum(axis=1).max(initial=0))
        points, weights = self.support(means, variances, degree)
        powers = self._powers(points, exponents)
        return np.asarray((powers * weights[..., None]).mT @ powers)

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments` by (E z, Var z), of shape (n, 2w, r)."""
        found = self._slopes(lambda m, v: self.moments(m, v, exponents).T, means, variances)
        return np.ascontiguousarray(found.transpose(1, 2, 0))

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Whether monomials (n, w) are no linear combination of lower ones: of y, or s alone."""
        new = self.family.is_new(exponents[:, : self.n_values])
        if not self.has_missing:
            return new
        of_value, by_observed = exponents[:, :-1].any(axis=1), exponents[:, -1]
        return np.where(of_value, (by_observed == 0) & new, by_observed <= 1)

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        """Features (n, w) drawn from one component, of means (w,) and variances (w,)."""
        if not self.has_missing:
            return self.sample_observed(means, variances, n, rng)
        observed = rng.random(n) < self.value_of(means, variances).observed
        rows = np.tile(self.missing_features, (n, 1))
        rows[observed] = self.sample_observed(means, variances, int(observed.sum()), rng)
        return rows

    def sample_observed(
        self, means: Float, variances: Float, n: int, rng: np.random.Generator
    ) -> Float:
        """The same, given that no cell is missing."""
        shift, scale = self.units
        mean, variance, _ = self.value_of(means, variances)
        rows = self.family.sample(*self.family.completed(mean, variance), n, rng)
        return (np.hstack([rows, np.ones((n, int(self.has_missing)))]) - shift) / scale

    # -- numbers with bounds ----------------------------------------------------------------------

    def positive(self, means: Float, variances: Float) -> Float:
        """Numbers that are never negative, of shape (r, n).

        Where cells may be missing, the first two are the probabilities of that and of being
        observed; the others are those of the value.
        """
        value = self.value_of(means, variances)
        values, q = self.family.positive(*value[:2]), value.observed[..., None]
        return np.concatenate([1 - q, q, values], axis=-1) if self.has_missing else values

    def positive_slopes(self, means: Float, variances: Float) -> Float:
        """Derivatives of `positive` by (E z, Var z), of shape (r, n, 2w)."""
        return self._slopes(self.positive, means, variances)

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        """Means and variances where these numbers are others."""
        mean, variance, q = self.value_of(means, variances)
        mean, variance = self.family.with_positive(
            values[..., 2 * self.has_missing :], mean, variance
        )
        if self.has_missing:
            shares = np.maximum(values[..., :2], LEAST_PROBABILITY)
            q = shares[..., 1] / shares.sum(axis=-1)
        return self.completed(*self.features_of(Value(mean, variance, q)))

    def at_zero(self, means: Float, variances: Float, counts: Float) -> NDArray[np.bool_]:
        """Whether `counts` rows (r,) cannot distinguish `positive` numbers (r, n) from 0."""
        mean, variance, q = self.value_of(means, variances)
        zero = self.family.at_zero(mean, variance, counts * q, self.overall)
        if not self.has_missing:
            return zero
        shares = np.stack([1 - q, q], axis=1)
        share = float(self.overall.observed)
        of_prior = PSEUDO_ROWS * np.array([1 - share, share])
        rows = (counts[:, None] + PSEUDO_ROWS) * shares - of_prior
        bound = (rows < FEWEST_ROWS) & (not self.at_random)
        bound[:, 0] &= ~bound[:, 1]
        return np.hstack([bound, zero & ~bound[:, 1:]])

    def widened(self, means: Float, variances: Float, factors: Float) -> tuple[Float, Float]:
        """Means and variances where those of numbers are so many times as large, (r,)."""
        if not self.family.joins:
            return means, variances
        value = self.value_of(means, variances)
        return self.features_of(value._replace(variance=value.variance * factors[:, None]))

    def quantities(self, means: Float, variances: Float, counts: Float) -> Quantities:
        """Numbers that describe the column; `counts` are rows of components."""
        zero = self.at_zero(means, variances, counts)
        of_value = zero[:, 2:] | zero[:, 1:2] if self.has_missing else zero

        def quantities(m: Float, v: Float) -> Quantities:
            mean, variance, q = self.value_of(m, v)
            parts = self.family.quantities(mean, variance, counts * q.real, of_value)
            if not self.has_missing or self.at_random:
                return parts
            return parts._replace(observed=Quantity(q, "logit", counts, zero[:, 1], zero[:, 0]))

        def numbers(m: Float, v: Float) -> Float:
            values = [x.values for x in quantities(m, v).numbers]
            return np.stack(values, axis=1) if values else np.zeros((len(m), 0))

        slopes = self._slopes(numbers, means, variances)
        return quantities(means, variances).with_slopes(slopes.swapaxes(0, 1))


def with_joined_values(
    parts: tuple[Distribution, ...], values: Collection[int]
) -> tuple[Distribution, ...]:
    """The distributions where these features are values of joined columns.

    A joined value is Gaussian, and left out of the density where its cell is missing: s alone is
    left.
    """
    return tuple(p.observed_alone() if p.value_feature in values else p for p in parts)
