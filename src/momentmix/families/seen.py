"""A number or a count that may be missing: its value where it is seen, and whether it is.

| symbol | name here |
|---|---|
| u = (value − center) · seen, s = seen | the two features |
| u_0, s_0: both where the cell is missing; s_1: s where it is seen | ``missing``, ``seen`` |
| q: probability of being seen | |
| the value's law within u | ``value`` |
| E u^a s^b = (1 − q) u_0^a s_0^b + q s_1^b E value^a | ``moments`` |

The parameters are (E u, E s) and, for a Gaussian value, Var u: functions of q, the value's mean and
its variance, and these of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.finite import LEAST_PROBABILITY, Finite
from momentmix.families.law import LEAST_VARIANCE, PSEUDO_ROWS, Law, Prior, SeenValue

_FARTHEST = 100.0  # deviations of all rows from their mean, for the mean of a component
_ROUNDING = 1e-12  # of a variance beside the square of a mean: less is what differences leave


@dataclass(frozen=True)
class Seen(Law):
    """Two features: a value that is u_0 where it is missing, and whether it is seen."""

    value: Law  # of the first feature where it is seen
    missing: tuple[float, float] = (0.0, 0.0)  # both features where the cell is missing
    seen: float = 1.0  # the second feature where the cell is seen
    at_random: bool = False  # q is that of all rows, and no part of the density

    has_gaps = True
    by_law: ClassVar[tuple[str, ...]] = ("seen",)

    @property
    def value_law(self) -> Law:
        return self.value

    @property
    def value_feature(self) -> int | None:
        return self.features[0]

    @property
    def seen_middle(self) -> float:
        return 0.5 * (self.missing[1] + self.seen)

    @property
    def n_own(self) -> int:
        return self.value.n_own

    def own_statistics(self, values: Any, xp: Any = np) -> Any:
        """Own statistics of the value where it is seen, and 0 where it is missing."""
        own = self.value.own_statistics(values[..., :1, :], xp)
        return xp.where(values[..., 1:, :] > self.seen_middle, own, xp.zeros_like(own))

    def covering(self, largest: float) -> Self:
        return replace(self, value=self.value.covering(largest))

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        """Both features where the cell is missing or seen, the value over all rows, its numbers.

        The first two are units of the value; all others belong to its standardized law.
        """
        standard = self._standard(self.overall)[0].compiled
        if self.value.compiled is None or standard is None:
            return None
        kind, numbers = self.value.compiled
        numbers = (*numbers[:2], *standard[1][2:])
        return kind + 2, (*self.missing, self.seen, self.at_random, *self.overall, *numbers)

    @property
    def free(self) -> tuple[bool, ...]:
        """As the value; whether it is seen follows from the mean."""
        return (*self.value.free, False)

    @property
    def kind(self) -> tuple[object, ...]:
        return type(self), self.at_random, *self.value.kind

    @classmethod
    def stacked(cls, laws: Sequence[Self]) -> Self:
        missing: Any = tuple(np.array([law.missing for law in laws]).T)
        value = type(laws[0].value).stacked([law.value for law in laws])
        return replace(super().stacked(laws), missing=missing, value=value)

    def at(self, features: tuple[int, ...]) -> Self:
        return replace(self, features=features, value=self.value.at(features[:1]))

    def with_floor(self, least: float) -> Self:
        return replace(self, value=self.value.with_floor(least / self.overall.variance[0]))

    def rescaled(self, shift: Float, scale: Float) -> Self:
        both = (np.append(self.missing, self.seen) - shift[[0, 1, 1]]) / scale[[0, 1, 1]]
        value, (u, s, seen) = self.value.rescaled(shift[:1], scale[:1]), both.tolist()
        return replace(self, value=value, missing=(u, s), seen=seen)

    def without(self, place: int, value: float) -> Law | None:
        """The value alone where it is always seen; `seen` alone where the value is constant."""
        if place == 1:
            return None if self.value.is_gaussian else self.value
        return Finite(self.features[1:], ((self.missing[1],), (self.seen,)), True, self.at_random)

    # -- parameters -----------------------------------------------------------------------------

    def value_of(self, means: Float, variances: Float) -> SeenValue:
        """Probability of being seen, mean and variance of the value; each within its bounds."""
        (u0, s0), low = self.missing, LEAST_PROBABILITY
        q = np.clip((means[..., 1] - s0) / (self.seen - s0), low, 1 - low)
        mean = (means[..., 0] - (1 - q) * u0) / q
        second = (variances[..., 0] + means[..., 0] ** 2 - (1 - q) * u0**2) / q
        return SeenValue(q, mean[..., None], (second - mean**2)[..., None])

    def features_of(self, value: SeenValue) -> tuple[Float, Float]:
        """Means and variances of the two features, (…, 2) each."""
        (u0, s0), q = self.missing, value.q
        mean, variance = value.mean[..., 0], value.variance[..., 0]
        first = (1 - q) * u0 + q * mean
        spread = q * variance + q * (1 - q) * (mean - u0) ** 2
        means = np.stack([first, s0 + q * (self.seen - s0)], axis=-1)
        return means, np.stack([spread, q * (1 - q) * (self.seen - s0) ** 2], axis=-1)

    @property
    def overall(self) -> SeenValue:
        """The value over all rows, whose standardized features have mean 0 and variance 1."""
        found = self.value_of(np.zeros(2), np.ones(2))
        return found._replace(variance=np.maximum(found.variance, LEAST_VARIANCE))

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        found = self.value_of(means, variances)
        # Where a cell is hardly ever seen, its mean is a ratio of two small numbers.
        overall = self.overall
        reach = _FARTHEST * np.sqrt(overall.variance)
        mean = np.clip(found.mean, overall.mean - reach, overall.mean + reach)
        mean, variance = self.value.completed(mean, found.variance)
        variance = self.value.floored(variance, overall.variance)
        return self.features_of(SeenValue(self._shared(found.q), mean, variance))

    def _shared(self, q: Float) -> Float:
        """Probabilities of being seen: as given, or of all rows."""
        return np.broadcast_to(self.overall.q, np.shape(q)) if self.at_random else q

    def widened(self, means: Float, variances: Float, factors: Float) -> tuple[Float, Float]:
        q, mean, variance = self.value_of(means, variances)
        return self.features_of(SeenValue(q, *self.value.widened(mean, variance, factors)))

    def chain(self, found: SeenValue, means: Float) -> Float:
        u0, s0 = self.missing
        q, m, v = found.q, found.mean[..., 0], found.variance[..., 0]
        table, by_q = np.zeros((*q.shape, 3, 4)), 1.0 / (self.seen - s0)
        table[..., 0, 0], table[..., 0, 1] = 1 / q, by_q * (u0 - m) / q
        table[..., 1, 0], table[..., 1, 2] = 2 * (means[..., 0] - m) / q, 1 / q
        table[..., 1, 1] = by_q * ((u0**2 - v - m**2) - 2 * m * (u0 - m)) / q
        table[..., 2, 1] = by_q
        if not self.value.free[0]:
            table[..., 1, :] = 0.0
        if self.at_random:
            table[..., 1] = 0.0
        return table

    # -- densities ------------------------------------------------------------------------------

    def _where_seen(self, table: Float) -> Float:
        """Functions of (z, z², t, 1) of the value, (…, 3 + m), times whether it is seen.

        As functions of (u, s, u², s², t, 1): σ = (s − s_0) / (s_1 − s_0), σ u = u − (1 − σ) u_0.
        The statistics t are 0 where the value is missing.
        """
        u0, s0 = self.missing
        result = np.zeros((*table.shape[:-1], table.shape[-1] + 2))
        result[..., 0], result[..., 2] = table[..., 0], table[..., 1]
        result[..., 4:-1] = table[..., 2:-1]
        # What multiplies σ, beside −u_0 and −u_0² where it is 0.
        at_missing = table[..., 0] * u0 + table[..., 1] * u0**2
        by_seen = table[..., -1] + at_missing
        result[..., 1] = by_seen / (self.seen - s0)
        result[..., -1] = -at_missing - by_seen * s0 / (self.seen - s0)
        return result

    def coefficients(self, means: Float, variances: Float) -> Float:
        found = self.value_of(means, variances)
        gap = found.mean - np.asarray(self.missing[0])[..., None]
        variance = np.maximum(found.variance, _ROUNDING * gap**2 + 1e-300)
        own = self.value.coefficients(found.mean, variance)
        if self.at_random:
            return self._where_seen(own)
        rest = np.log1p(-found.q)
        own[..., -1] += np.log(found.q) - rest
        table = self._where_seen(own)
        table[..., -1] += rest
        return table

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable means and variances from the rows where the value is seen."""
        (u0, s0), overall = self.missing, self.overall
        n = counts[..., 0]
        n_seen = np.clip((sums[..., 1] - n * s0) / (self.seen - s0), 0.0, n)
        own_sums = sums[..., 0] - (n - n_seen) * u0
        own_squares = squares[..., 0] - (n - n_seen) * u0**2
        shift, scale = overall.mean, np.sqrt(overall.variance)
        value = self.value.rescaled(shift, scale)
        center, unit = shift[..., 0], scale[..., 0]
        own_squares += n_seen * center**2 - 2 * center * own_sums
        own_sums = (own_sums - n_seen * center) / unit
        mean, variance = value.m_step(
            n_seen[..., None], own_sums[..., None], (own_squares / unit**2)[..., None], own, prior
        )
        q = (n_seen + PSEUDO_ROWS * overall.q) / (n + PSEUDO_ROWS)
        q = self._shared(np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
        return self.features_of(SeenValue(q, mean * scale + shift, variance * scale**2))

    def _standard(self, found: SeenValue) -> tuple[Law, Float, Float]:
        """The value's law, mean and variance in units of all rows."""
        shift, scale = self.overall.mean, np.sqrt(self.overall.variance)
        law = self.value.rescaled(shift, scale)
        return law, (found.mean - shift) / scale, np.maximum(found.variance, 1e-300) / scale**2

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Beta for the probability of being seen, and that of the value."""
        found, q = self.value_of(means, variances), self.overall.q
        own = q * np.log(found.q) + (1 - q) * np.log1p(-found.q)
        law, mean, variance = self._standard(found)
        return np.asarray(PSEUDO_ROWS * own + law.log_prior(mean, variance, prior))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        found, q = self.value_of(means, variances), float(self.overall.q)
        law, mean, variance = self._standard(found)
        own, own_curvature = law.prior_slopes(mean, variance, prior)
        scale = np.sqrt(self.overall.variance[0])
        units = np.array([1 / scale, 1 / scale**2])
        slope, curvature = np.zeros((len(means), 3)), np.zeros((len(means), 3, 3))
        slope[:, :2], curvature[:, :2, :2] = own * units, own_curvature * np.outer(units, units)
        slope[:, 2] = PSEUDO_ROWS * (q / found.q - (1 - q) / (1 - found.q))
        curvature[:, 2, 2] = PSEUDO_ROWS * (q / found.q**2 + (1 - q) / (1 - found.q) ** 2)
        chain = self.chain(found, means)
        turned = chain.swapaxes(-1, -2)
        return (turned @ slope[..., None])[..., 0], turned @ curvature @ chain

    # -- moments --------------------------------------------------------------------------------

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E u^a s^b."""
        found = self.value_of(means, variances)
        own = self.value.moments(found.mean, found.variance, exponents[:, :1])
        missing = np.prod(np.array(self.missing) ** exponents, axis=1)[:, None]
        seen = self.seen ** exponents[:, 1:]
        return np.asarray((1 - found.q) * missing + found.q * seen * own)

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        found = self.value_of(means, variances)
        own = self.value.moments(found.mean, found.variance, exponents[:, :1])
        seen = self.seen ** exponents[:, 1:]
        missing = np.prod(np.array(self.missing) ** exponents, axis=1)[:, None]
        table = np.empty((len(exponents), 3, len(means)))
        slopes = self.value.slopes(found.mean, found.variance, exponents[:, :1])
        table[:, :2] = found.q * seen[:, None] * slopes
        table[:, 2] = seen * own - missing
        return np.asarray(np.einsum("nti,itp->npi", table, self.chain(found, means)))

    def scores(self, means: Float, variances: Float) -> Float:
        found = self.value_of(means, variances)
        own = self._where_seen(self.value.scores(found.mean, found.variance))  # (…, 2, 5 + m)
        q = found.q
        constant = np.zeros((*q.shape, 1, 3 + self.n_own))
        constant[..., 0, -1] = 1 / q + 1 / (1 - q)
        by_seen = self._where_seen(constant)
        by_seen[..., 0, -1] -= 1 / (1 - q)
        table = np.concatenate([own, by_seen], axis=-2)
        return np.asarray(self.chain(found, means).swapaxes(-1, -2) @ table)

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        is_seen = rng.random(n) < self.value_of(means, variances).q
        rows = np.tile(np.array(self.missing), (n, 1))
        rows[is_seen] = self.sample_seen(means, variances, int(is_seen.sum()), rng)
        return rows

    def sample_seen(
        self, means: Float, variances: Float, n: int, rng: np.random.Generator
    ) -> Float:
        found = self.value_of(means, variances)
        values = self.value.sample(found.mean, found.variance, n, rng)
        return np.hstack([values, np.full((n, 1), self.seen)])

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """Probabilities of being missing and of being seen, and what is positive in the value."""
        found = self.value_of(means, variances)
        chain = self.chain(found, means)
        own, slopes = self.value.positive(found.mean, found.variance)
        q = found.q[:, None]
        by_seen = chain[:, 2:]
        return np.hstack([1 - q, q, own]), np.concatenate(
            [-by_seen, by_seen, slopes @ chain[:, :2]], axis=1
        )

    @property
    def prior_positive(self) -> Float:
        """Of missing cells, of seen ones, and of the value where it is seen."""
        q, own = float(self.overall.q), self.value.prior_positive
        return np.array([PSEUDO_ROWS * (1 - q), PSEUDO_ROWS * q, *own])

    def at_zero(self, means: Float, variances: Float, counts: Float) -> NDArray[np.bool_]:
        """As for other laws; the value's number only where cells are seen."""
        zero, found = super().at_zero(means, variances, counts), self.value_of(means, variances)
        zero[:, :2] &= not self.at_random
        zero[:, 0] &= ~zero[:, 1]
        own = self.value.at_zero(found.mean, found.variance, counts * found.q)
        zero[:, 2:] = own & ~zero[:, 1:2]
        return zero

    def unseen(
        self, means: Float, variances: Float, counts: Float
    ) -> tuple[NDArray[np.bool_], Float, Float]:
        """The value's mean and variance: their errors come from the rows that see it."""
        found = self.value_of(means, variances)
        n, v = np.maximum(counts * found.q, 1e-12), np.maximum(found.variance[:, 0], 1e-300)
        errors = np.stack([np.sqrt(v / n), v * np.sqrt(2.0 / n)], axis=1)
        n_own = 1 + self.value.free[0]
        never = self.at_zero(means, variances, counts)[:, 1]
        return never, self.chain(found, means)[:, :n_own], errors[:, :n_own]

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        found = self.value_of(means, variances)
        mean, variance = self.value.with_positive(values[:, 2:], found.mean, found.variance)
        q = np.maximum(values[:, :2], LEAST_PROBABILITY)
        return self.completed(*self.features_of(SeenValue(q[:, 1] / q.sum(axis=1), mean, variance)))

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Points of the value, and the one where it is missing."""
        found = self.value_of(means, variances)
        q, missing = found.q[:, None], np.full((len(means), 1), self.missing[place])
        if place == 1:
            return np.hstack([missing, np.full_like(missing, self.seen)]), np.hstack([1 - q, q])
        points, weights = self.value.quadrature(0, found.mean, found.variance, degree)
        return np.hstack([missing, points]), np.hstack([1 - q, q * weights])

    def without_seen(
        self, means: Float, variances: Float, which: NDArray[np.bool_]
    ) -> tuple[Float, Float]:
        found = self.value_of(means, variances)
        return self.features_of(found._replace(q=np.where(which, LEAST_PROBABILITY, found.q)))

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Powers of the value, or whether it is seen: u s and s² are combinations of u, s and 1."""
        by_value, by_seen = exponents.T
        of_value = (by_seen == 0) & self.value.is_new(exponents[:, :1])
        return np.asarray(of_value | ((by_value == 0) & (by_seen == 1)))

    def base_measure(self, rows: Float) -> Float | None:
        own = self.value.base_measure(rows)
        if own is None:
            return None
        seen = rows[:, self.features[1]]
        return np.where(np.abs(seen - self.seen) < np.abs(seen - self.missing[1]), own, 0.0)


def seen_features(
    value: Law, seen: Float | None, means: Float, variances: Float
) -> tuple[Float, Float]:
    """Means and variances (r, 2) of the features of values (r, 1) that may be missing."""
    q = np.ones(len(means)) if seen is None else seen
    q = np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return Seen((0, 1), value).features_of(SeenValue(q, means, variances))
