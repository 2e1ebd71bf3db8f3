"""Counts: a feature z = (y − shift) / scale with y Poisson of mean λ = shift + scale · μ.

| symbol | name here |
|---|---|
| log p(y) = y log λ − λ − log y! | ``log_mass``, ``coefficients``, ``base`` |
| E[(y − t)^(n + 1)] = (λ − t) E[(y − t)^n] + λ Σ_{k<n} C(n, k) E[(y − t)^k] | ``moments`` |
| ∂ E g(y) / ∂ λ = E[g(y + 1) − g(y)] | ``slopes`` |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np

from momentmix._typing import Float, Int
from momentmix.families.count import CountBlock, CountFamily, CountLaw
from momentmix.families.family import Quantity
from momentmix.families.law import PSEUDO_ROWS, Prior, padded
from momentmix.wording import short_repr

_REACH = 9.0  # deviations from the mean beyond which no count has a weight that matters


@dataclass(frozen=True)
class PoissonLaw(CountLaw):
    """One feature, a Poisson count. All maps are closed formulas."""

    noun: ClassVar[str] = "a Poisson count"
    wider: ClassVar[str] = "negative_binomial"
    highest_power: ClassVar[int] = 64  # tails are light

    def log_mass(self, counts: Float, rates: Float) -> Float:
        return np.asarray(counts * np.log(rates) - rates + self.base(counts))

    def variance_of(self, rates: Float) -> Float:
        return rates

    def base(self, counts: Float) -> Float:
        from scipy.special import gammaln  # not where rows are only read: it takes long

        return np.asarray(-gammaln(counts + 1.0))

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        return 1, (self.shift, self.scale)

    def coefficients(self, means: Float, variances: Float) -> Float:
        rates = self.rates(means)
        logarithms = np.log(rates)
        table = np.stack([self.scale * logarithms, self.shift * logarithms - rates], axis=-1)
        return padded(table, 1)

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """Gamma: as if one row had the mean of all rows."""
        rates = self.rates(means)
        return np.asarray(PSEUDO_ROWS * (self.shift * np.log(rates) - rates))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
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
        return self._powers(means, int(exponents.max(initial=0)))[exponents[:, 0]]

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
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
        return np.asarray((rng.poisson(self.rates(means), size=(n, 1)) - self.shift) / self.scale)

    def _reach(self, rates: Float) -> Float:
        """Deviations of the bulk, and more where counts are small."""
        return np.asarray(_REACH * np.sqrt(rates) + _REACH**2)


@short_repr
@dataclass(frozen=True, eq=False)
class PoissonBlock(CountBlock):
    """A column of counts.

    Parameters
    ----------
    rates : array of shape (n_components,)
        Mean counts where the cell is seen; NaN in a component that never sees one.
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> PoissonBlock([1.5, 4.0], names="visits").means.tolist()
    [[1.5], [4.0]]
    """

    family: ClassVar[str] = "poisson"

    def drawn(self, values: Float, labels: Int, rng: np.random.Generator) -> Float:
        return rng.poisson(self.known.rates[labels]).astype(np.float64)[:, None]


class Poisson(CountFamily):
    """Counts whose variance is their mean."""

    name = "poisson"
    law_type = PoissonLaw
    block_type = PoissonBlock

    def _variance(self, rate: Quantity) -> Quantity:
        return rate
