"""Counts: a feature z = (y − shift) / scale with y Poisson of mean λ = shift + scale · μ.

| symbol | name here |
|---|---|
| log p(y) = y log λ − λ − log y! | ``log_mass``, ``coefficients``, ``base`` |
| E[y f(y)] = λ E[f(y + 1)] | ``moments``, ``slopes`` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from momentmix._typing import Float, Int
from momentmix.families.count import CountBlock, CountFamily, CountLaw, powers_of_counts
from momentmix.families.law import padded
from momentmix.wording import short_repr

_REACH = 9.0  # deviations from the mean beyond which no count has a weight that matters


@dataclass(frozen=True)
class PoissonLaw(CountLaw):
    """One feature, a Poisson count."""

    noun: ClassVar[str] = "a Poisson count"
    wider: ClassVar[str] = "negative_binomial"
    highest_power: ClassVar[int] = 64  # tails are light

    def log_mass(self, counts: Float, rates: Float) -> Float:
        return np.asarray(counts * np.log(rates) - rates + self.base(counts))

    def variance_of(self, rates: Float) -> Float:
        return rates

    def variance_slope(self, rates: Float) -> Float:
        return np.ones_like(rates)

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

    def _powers(self, means: Float, exponents: Int) -> tuple[Float, Float]:
        highest = int(exponents.max(initial=0))
        return powers_of_counts(self.rates(means), 0.0, self.shift, self.scale, highest)

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        return self._powers(means, exponents)[0][exponents[:, 0]]

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        table = self.scale * self._powers(means, exponents)[1][exponents[:, 0]]
        table[:, 1] = 0.0
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


class Poisson(CountFamily):
    """Counts whose variance is their mean."""

    name = "poisson"
    law_type = PoissonLaw
    block_type = PoissonBlock
