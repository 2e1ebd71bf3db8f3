"""Counts: a feature z = (y − shift) / scale with y Poisson of mean λ = shift + scale · μ.

| symbol | name here |
|---|---|
| log p(y) = y log λ − λ − log y! | ``coefficients``, ``base_measure`` |
| E[(y − t)^(n + 1)] = (λ − t) E[(y − t)^n] + λ Σ_{k<n} C(n, k) E[(y − t)^k] | ``moments`` |
| ∂ E g(y) / ∂ λ = E[g(y + 1) − g(y)] | ``slopes`` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from momentmix._typing import Float, Int
from momentmix.mixture.laws.law import PSEUDO_ROWS, Law, Prior, first, padded

_LEAST_MEAN = 1e-6  # counts; its logarithm stays finite
_REACH = 9.0  # deviations from the mean beyond which no count has a weight that matters
_MOST_COUNTS = 2000  # in a sum over counts


@dataclass(frozen=True)
class Poisson(Law):
    """One feature, a count in units of its own.

    Parameters
    ----------
    features : tuple of one int
    shift, scale : float
        The count is shift + scale · z. Of standardized features `shift` is the mean of all rows.
    """

    shift: float = 0.0
    scale: float = 1.0

    @property
    def has_base_measure(self) -> bool:
        """−log y! does not depend on the component."""
        return True

    @classmethod
    def stacked(cls, laws: Sequence[Poisson]) -> Poisson:
        """Several laws as one."""
        shift: Any = np.array([law.shift for law in laws])
        scale: Any = np.array([law.scale for law in laws])
        return cls(laws[0].features, shift, scale)

    def rescaled(self, shift: Float, scale: Float) -> Self:
        """The law of (z − shift) / scale."""
        moved = self.shift + self.scale * first(shift)
        return replace(self, shift=moved, scale=self.scale * first(scale))

    def without(self, place: int, value: float) -> Law | None:
        """Nothing is left of a constant count."""
        return None

    def rates(self, means: Float) -> Float:
        """λ of means (…, 1), of shape (…)."""
        return np.asarray(np.maximum(self.shift + self.scale * means[..., 0], _LEAST_MEAN))

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The nearest mean that the law allows, and the variance that belongs to it."""
        rates = self.rates(means)
        moved = (rates - self.shift) / self.scale
        return moved[..., None], (rates / self.scale**2)[..., None]

    def coefficients(self, means: Float, variances: Float) -> Float:
        """The log-density as a linear function of (z, z², 1), less log y!."""
        rates = self.rates(means)
        logarithms = np.log(rates)
        table = np.stack([self.scale * logarithms, self.shift * logarithms - rates], axis=-1)
        return padded(table, 1)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable mean and variance; the mean of all rows is 0."""
        return self.completed(sums / (counts + PSEUDO_ROWS), squares)

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Gamma: as if one row had the mean of all rows."""
        rates = self.rates(means)
        return np.asarray(PSEUDO_ROWS * (self.shift * np.log(rates) - rates))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        """Slope of `log_prior` by (μ, v), and its curvature."""
        rates = self.rates(means)
        slope, curvature = np.zeros((len(means), 2)), np.zeros((len(means), 2, 2))
        slope[:, 0] = PSEUDO_ROWS * self.scale * (self.shift / rates - 1.0)
        curvature[:, 0, 0] = PSEUDO_ROWS * self.scale**2 * self.shift / rates**2
        return slope, curvature

    def _powers(self, means: Float, highest: int) -> Float:
        """E z^e for e = 0 … highest, of shape (highest + 1, r)."""
        rates, c = self.rates(means), self.scale
        table = np.ones((highest + 1, len(means)))
        for n in range(highest):
            table[n + 1] = (rates - self.shift) / c * table[n]
            for k in range(n):
                table[n + 1] += comb(n, k) * c ** (k - n - 1) * rates * table[k]
        return table

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e."""
        return self._powers(means, int(exponents.max(initial=0)))[exponents[:, 0]]

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments` by the mean."""
        highest = int(exponents.max(initial=0))
        powers, c = self._powers(means, highest), self.scale
        by_mean = np.zeros_like(powers)
        for e in range(1, highest + 1):
            for k in range(e):
                by_mean[e] += comb(e, k) * c ** (1 - (e - k)) * powers[k]
        table = np.zeros((len(exponents), 2, len(means)))
        table[:, 0] = by_mean[exponents[:, 0]]
        return table

    def scores(self, means: Float, variances: Float) -> Float:
        """∂ log p / ∂ μ = scale (y − λ) / λ."""
        rates = self.rates(means)
        table = np.zeros((*rates.shape, 2, 3))
        table[..., 0, 0] = self.scale**2 / rates
        table[..., 0, 2] = self.scale * (self.shift - rates) / rates
        return table

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        """Features drawn from the law."""
        return np.asarray((rng.poisson(self.rates(means), size=(n, 1)) - self.shift) / self.scale)

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The mean count."""
        slopes = np.zeros((len(means), 1, 2))
        slopes[:, 0, 0] = self.scale
        return self.rates(means)[:, None], slopes

    @property
    def prior_positive(self) -> Float:
        """The rate of all rows."""
        return np.array([PSEUDO_ROWS * self.shift])

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        """Mean and variance of another mean count."""
        return self.completed((values - self.shift) / self.scale, variances)

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Counts from the least to the largest that occur; of many some, evenly spaced."""
        rates = self.rates(means)
        reach = _REACH * np.sqrt(rates) + _REACH**2
        low, high = np.maximum(np.floor(rates - reach), 0.0), np.ceil(rates + reach)
        n = int(min(_MOST_COUNTS, (high - low).max() + 1))
        steps = np.maximum(1.0, np.ceil((high - low) / (n - 1)))
        counts = low[:, None] + steps[:, None] * np.arange(n)
        rates = rates[:, None]
        logs = counts * np.log(rates) - rates - gammaln(counts + 1.0)
        weights = np.exp(logs)
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray((counts - self.shift) / self.scale), weights

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Every power says something of the law of the counts."""
        return np.ones(len(exponents), dtype=bool)

    def base_measure(self, values: Float) -> Float:
        """−log y!."""
        return np.asarray(-gammaln(np.rint(self.shift + self.scale * values[0]) + 1.0))
