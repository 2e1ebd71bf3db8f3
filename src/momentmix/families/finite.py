"""Features with finitely many values: yes/no answers and categories, missing cells as one more.

| symbol | name here | shape |
|---|---|---|
| x_o: the features at outcome o | ``points`` | (k + 1, k) |
| V = (x, 1) | | (k + 1, k + 1) |
| P_o, with Σ_o P_o (x_o, 1) = (μ, 1) | ``probabilities`` | (…, k + 1) |
| log p(z) = (b, a) · (z, 1), with V (b, a) = log P | ``coefficients`` | |

A column of K levels has K − 1 indicators: as many means as free probabilities, so that the two are
linear functions of each other, in any units. A missing cell is an outcome like the others, unless
cells are missing at random: its probability is then that of all rows, and no part of the density.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.law import PSEUDO_ROWS, Law, Prior, padded
from momentmix.lazy import lazy_property

LEAST_PROBABILITY = 1e-9  # of an outcome within a component: its logarithm stays finite
_MANY = 100  # levels, of which a table of outcomes and features for each component takes memory
_SAME = 1e-9  # difference of two values of a feature that are the same


@dataclass(frozen=True)
class Finite(Law):
    """One of k + 1 outcomes."""

    points: tuple[tuple[float, ...], ...]  # values of the k features at each outcome
    has_gaps: bool = False  # whether the first outcome is a missing cell
    at_random: bool = False
    by_law: ClassVar[tuple[str, ...]] = ("points",)

    @classmethod
    def indicators(
        cls, features: tuple[int, ...], has_gaps: bool = False, at_random: bool = False
    ) -> Finite:
        """Levels 1, 2, … by an indicator each, level 0 by none.

        Where cells may be missing, that is the first outcome, and the last feature is 1 for all
        others.
        """
        n_levels = len(features) - has_gaps
        points = np.vstack([np.zeros(n_levels), np.eye(n_levels)])
        if has_gaps:
            seen = np.hstack([points, np.ones((len(points), 1))])
            points = np.vstack([np.zeros(len(features)), seen])
        return cls(features, _tuples(points), has_gaps, at_random)

    @lazy_property
    def _table(self) -> Float:
        """The points as an array: of a thousand levels, making one takes longer than its use."""
        return np.array(self.points)

    @lazy_property
    def inverse(self) -> Float:
        """V⁻¹."""
        x = self._table
        return np.asarray(np.linalg.inv(np.concatenate([x, np.ones_like(x[..., :1])], axis=-1)))

    def __reduce__(self) -> tuple[type[Finite], tuple[object, ...]]:
        return Finite, (self.features, self.points, self.has_gaps, self.at_random)

    @lazy_property
    def by_mean(self) -> Float:
        """∂P / ∂μ, (k, k + 1), of means that are parameters."""
        free = np.arange(len(self.features)) < len(self.features) - self.at_random
        return np.asarray(self.inverse[:-1] * free[:, None])

    @property
    def seen_middle(self) -> float:
        return 0.5 * (self.points[0][-1] + self.points[-1][-1])

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        """Points, V⁻¹ and the probabilities of all rows."""
        return 0, (self.at_random, self.points, self.inverse, self.overall)

    def rescaled(self, shift: Float, scale: Float) -> Self:
        return replace(self, points=_tuples((self._table - shift) / scale))

    def without(self, place: int, value: float) -> Law | None:
        """Keep the outcomes where the feature has the value."""
        k, points = len(self.features), self._table
        kept = points[np.abs(points[:, place] - value) <= _SAME * (1 + abs(value))]
        others = np.delete(np.arange(k), place)
        left = tuple(self.features[j] for j in others)
        has_gaps = self.has_gaps and place < k - 1
        return Finite(left, _tuples(kept[:, others]), has_gaps, has_gaps and self.at_random)

    def probabilities(self, means: Float) -> Float:
        """P of means (…, k), of shape (…, k + 1); they may be negative by rounding or noise."""
        k = len(self.features)
        return _row_times(means, self.inverse[..., :k, :]) + self.inverse[..., k, :]

    @lazy_property
    def overall(self) -> Float:
        """Probabilities of standardized features over all rows, whose means are 0."""
        p = np.maximum(self.probabilities(np.zeros(len(self.features))), LEAST_PROBABILITY)
        return np.asarray(p / p.sum(axis=-1, keepdims=True))

    def _allowed(self, p: Float) -> Float:
        p = np.maximum(p, LEAST_PROBABILITY)
        if not self.at_random:
            return np.asarray(p / p.sum(axis=-1, keepdims=True))
        p[..., 0], seen = self.overall[..., 0], p[..., 1:]
        p[..., 1:] = seen / seen.sum(axis=-1, keepdims=True) * (1 - p[..., :1])
        return p

    def of_probabilities(self, p: Float) -> tuple[Float, Float]:
        """Means and variances, (…, k) each."""
        means = _row_times(p, self._table)
        return means, self._variances(p, means)

    def _variances(self, p: Float, means: Float) -> Float:
        """About the mean: no difference of close numbers. One by one where levels are many."""
        x = self._table
        if p.shape[-1] > _MANY and p.ndim >= x.ndim:
            return np.array([self._variances(*own) for own in zip(p, means, strict=True)])
        return np.asarray((p[..., :, None] * (x - means[..., None, :]) ** 2).sum(axis=-2))

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        return self.of_probabilities(self._allowed(self.probabilities(means)))

    def coefficients(self, means: Float, variances: Float) -> Float:
        p = np.maximum(self.probabilities(means), LEAST_PROBABILITY)
        if self.at_random:
            p[..., 0], seen = 1.0, p[..., 1:]
            p[..., 1:] = seen / seen.sum(axis=-1, keepdims=True)
        logarithms = np.log(p)
        return padded(_row_times(logarithms, self.inverse.swapaxes(-1, -2)), len(self.features))

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable means and variances: shares of the outcomes."""
        k = len(self.features)
        seen = _row_times(sums, self.inverse[..., :k, :]) + counts * self.inverse[..., k, :]
        return self.of_probabilities(self._allowed(seen + PSEUDO_ROWS * self.overall))

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Dirichlet: as if one row were like all rows together."""
        p = np.maximum(self.probabilities(means), LEAST_PROBABILITY)
        return np.asarray(PSEUDO_ROWS * (np.log(p) * self.overall).sum(axis=-1))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        k, p = len(self.features), self._allowed(self.probabilities(means))
        by_mean = self.by_mean
        slope, curvature = np.zeros((len(means), 2 * k)), np.zeros((len(means), 2 * k, 2 * k))
        slope[:, :k] = PSEUDO_ROWS * (self.overall / p) @ by_mean.T
        turned = by_mean * (PSEUDO_ROWS * self.overall / p**2)[:, None, :]
        curvature[:, :k, :k] = turned @ by_mean.T
        return slope, curvature

    def _powers(self, exponents: Int) -> Float:
        """x_o^e, of shape (n, k + 1), feature by feature: n·k² numbers would be too many."""
        if exponents.shape[1] == 1:  # most laws: a fit computes them a thousand times
            return np.asarray(self._table[:, 0] ** exponents)
        table = np.ones((len(exponents), len(self.points)))
        for place in np.flatnonzero(exponents.any(axis=0)):
            own = np.flatnonzero(exponents[:, place])
            table[own] *= self._table[:, place] ** exponents[own, place, None]
        return table

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e = Σ_o P_o x_o^e."""
        return np.asarray(self._powers(exponents) @ self.probabilities(means).T)

    def products(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e z^f = Σ_o P_o x_o^e x_o^f: no other exponents are needed."""
        powers = self._powers(exponents)
        return np.asarray((powers * self.probabilities(means)[:, None, :]) @ powers.T)

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments`: moments are linear in the means."""
        k = len(self.features)
        table = np.zeros((len(exponents), 2 * k, len(means)))
        table[:, :k] = (self._powers(exponents) @ self.by_mean.T)[:, :, None]
        return table

    def scores(self, means: Float, variances: Float) -> Float:
        """∂ log P_o / ∂ μ_j = (∂P_o / ∂μ_j) / P_o, as a linear function of (z, 1)."""
        k, p = len(self.features), self._allowed(self.probabilities(means))
        table = (self.by_mean / p[..., None, :]) @ self.inverse.T  # (…, k, k + 1)
        return np.concatenate([padded(table, k), np.zeros((*table.shape[:-1], 2 * k + 1))], axis=-2)

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        p = self._allowed(self.probabilities(means))
        return self._table[rng.choice(len(p), size=n, p=p)]

    def sample_seen(
        self, means: Float, variances: Float, n: int, rng: np.random.Generator
    ) -> Float:
        p = self._allowed(self.probabilities(means))
        p[: int(self.has_gaps)] = 0.0
        return self._table[rng.choice(len(p), size=n, p=p / p.sum())]

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        k = len(self.features)
        slopes = np.zeros((k + 1, 2 * k))
        slopes[:, :k] = self.by_mean.T
        return self.probabilities(means), np.broadcast_to(slopes, (len(means), *slopes.shape))

    @property
    def prior_positive(self) -> Float:
        return PSEUDO_ROWS * self.overall

    def at_zero(self, means: Float, variances: Float, counts: Float) -> NDArray[np.bool_]:
        zero = super().at_zero(means, variances, counts)
        zero[:, 0] &= not self.at_random
        return zero

    def turns(self, means: Float, variances: Float, numbers: Int) -> Float:
        """∂(μ, v) by some probabilities; the variances, which follow, are left out."""
        p, x = self._allowed(self.probabilities(means)), self._table
        gap = p[0] if self.at_random else 0.0  # which stays as it is
        others = (means - gap * x[0]) / (1 - gap)
        by_mean = (x[numbers] - others) * ((1 - gap) / (1 - gap - p[numbers]))[:, None]
        return np.hstack([by_mean, np.zeros_like(by_mean)])

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        return self.of_probabilities(self._allowed(values))

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        p = self._allowed(self.probabilities(means))
        return np.broadcast_to(self._table[:, place], p.shape), p

    def without_seen(
        self, means: Float, variances: Float, which: NDArray[np.bool_]
    ) -> tuple[Float, Float]:
        p = self._allowed(self.probabilities(means))
        p[which, 1:] = 0.0
        p[which, 0] = 1.0
        return self.of_probabilities(self._allowed(p))

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Only the features themselves: every function of the outcome is linear in them."""
        return np.asarray(exponents.sum(axis=1) <= 1)


def _tuples(points: Float) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, points.tolist()))


def _row_times(rows: Float, matrices: Float) -> Float:
    """Rows (…, a) times one matrix (a, b), or one for each of the last rows but one, (…, b)."""
    if matrices.ndim == 2:
        return np.asarray(rows @ matrices)
    return np.asarray((rows[..., None, :] @ matrices)[..., 0, :])
