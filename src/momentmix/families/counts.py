"""Counts: `CountFamily`, whose distribution follows from the mean, and the Poisson family.

A family of counts gives `CountFamily.log_mass` and `CountFamily.variance_of`; all else is derived.

| symbol | name here | shape |
|---|---|---|
| λ = E y | ``rates`` | (…) |
| log p(y) = a(λ) + b(λ) y + h(y) | `CountFamily.log_mass`, `CountFamily.base` | |
| ∂ log p(y) / ∂λ = (y − λ) / V(λ) | `CountFamily.scores` | |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock
from momentmix.families.column import Column
from momentmix.families.family import (
    PSEUDO_ROWS,
    Family,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
    named,
)
from momentmix.wording import short_repr

DISPERSION_THAT_MATTERS = 0.1  # of the variance of a count beside that of its family
LARGEST_COUNT = 2.0**53  # float64 holds all integers up to it
LEAST_RATE = 1e-6  # above the least count; its logarithm stays finite
_REACH = 40.0  # deviations from the mean: e^-40 is beyond what double precision adds to a sum
_SMALL = 512  # counts up to it are points of sums; beyond, some stand for those beside them
_STEP = 1e-5  # of a rate beside itself, for a derivative: its error is about 1e-10


# -- parameters of columns ------------------------------------------------------------------------


def checked_rates(rates: Any) -> Float:
    """Rates as an array (r,)."""
    array = real_array("rates", rates, 1)
    if (array < 0).any() or (array > LARGEST_COUNT).any():
        raise InputError(f"rates of counts must be from 0 to 2^53; got {array.tolist()}.")
    return array


@short_repr
@dataclass(frozen=True, eq=False)
class CountBlock(ColumnBlock):
    """A column of counts whose distribution follows from their mean.

    Parameters
    ----------
    rates : array of shape (n_components,)
        Mean counts where the cell is seen.
    family : str
        Name of the family.
    columns, names, seen
        As in `ColumnBlock`; by keyword.
    """

    rates: Float
    family: str

    def __post_init__(self) -> None:
        self._keep_checked(rates=checked_rates(self.rates))

    @property
    def means(self) -> Float:
        return self.rates[:, None]

    @property
    def covariances(self) -> Float:
        family = named(self.family)
        assert isinstance(family, CountFamily)
        return family.variance_of(self.rates)[:, None, None]


@short_repr
@dataclass(frozen=True, eq=False)
class PoissonBlock(CountBlock):
    """A column of counts.

    Parameters
    ----------
    rates : array of shape (n_components,)
        Mean counts where the cell is seen.
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> PoissonBlock([1.5, 4.0], names="visits").means.tolist()
    [[1.5], [4.0]]
    """

    family: str = field(default="poisson", init=False)


# -- families -------------------------------------------------------------------------------------


class CountFamily(Family):
    """Counts whose distribution follows from their mean."""

    noun = "counts"
    singular = "a count of its family"
    parameters: ClassVar[Mapping[str, int]] = {"rates": 1}
    entries: ClassVar[tuple[str, ...]] = ("rate",)
    is_whole = True
    least = 0
    # Of the counts, in moments that a certificate tests: with skewed counts, means of higher powers
    # are far from normal even for 20,000 rows.
    highest_power: ClassVar[int] = 4

    def log_mass(self, counts: Float, rates: Float) -> Float:
        """Return log p(y) for counts y and means λ of shapes that broadcast."""
        raise NotImplementedError("it has no log_mass")

    def variance_of(self, rates: Float) -> Float:
        """Return the variances of counts with these means."""
        raise NotImplementedError("it has no variance_of")

    def base(self, values: Float) -> Float:
        """Return h(y), the part of log p(y) that is not linear in y."""
        return np.zeros_like(values)

    # -- cells ------------------------------------------------------------------------------------

    @property
    def requirement(self) -> str:  # type: ignore[override]
        return f"{self.noun} must be integers from {self.least} to 2^53"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        """Numbers that are no counts; missing ones may be."""
        wrong = (numbers < self.least) | (numbers > LARGEST_COUNT)
        if numbers.dtype.kind == "f":
            wrong |= (numbers != np.floor(numbers)) & ~np.isnan(numbers)
        return np.asarray(wrong)

    def check(self) -> None:
        """Raise where `log_mass`, `base` and `variance_of` do not belong together."""
        rates = self.least + np.array([[3.0], [6.0]])
        counts = np.arange(self.least, self.least + 401.0)
        logs, variances = self.log_mass(counts, rates), self.variance_of(rates)
        total, mean, square = np.stack([counts**0, counts, counts**2]) @ np.exp(logs).T
        found = [total, mean, square - mean**2]
        wanted = [np.ones(2), rates[:, 0], variances[:, 0]]
        if not np.allclose(found, wanted, rtol=1e-5):
            raise InputError(
                f"log_mass of {self.name!r} must be that of probabilities with the means and "
                f"variances given; for means {rates[:, 0].tolist()} their sums, means and "
                f"variances are {np.array(found).tolist()}."
            )
        few = slice(8)
        linear = self.log_density(counts[few], rates, variances)
        if not np.allclose(linear, logs[:, few], rtol=1e-5, atol=1e-8):
            raise InputError(
                f"log_mass of {self.name!r} must be linear in the count up to base(); override "
                "base()."
            )

    # -- the distribution of a count --------------------------------------------------------------

    def rates(self, mean: Float) -> Float:
        """λ of means (…, 1), of shape (…)."""
        return clipped(mean[..., 0], self.least + LEAST_RATE)  # type: ignore[no-any-return]

    def _along(self, function: Callable[[Float], Float], rates: Float) -> Float:
        """A function of rates that a user gives; along complex steps by a difference."""
        if not np.iscomplexobj(rates):
            return function(rates)
        step = _STEP * (rates.real - self.least)
        slope = (function(rates.real + step) - function(rates.real - step)) / (2 * step)
        return function(rates.real) + 1j * rates.imag * slope

    def completed(self, mean: Float, variance: Float) -> tuple[Float, Float]:
        rates = self.rates(mean)[..., None]
        return rates, self._along(self.variance_of, rates)

    def coefficients(self, mean: Float, variance: Float) -> Float:
        rates, cells = self.rates(mean), self.least + np.arange(2.0)
        logs = self._along(lambda x: self.log_mass(cells, x), rates[..., None]) - self.base(cells)
        slope = logs[..., 1] - logs[..., 0]
        return np.stack([slope, np.zeros_like(slope), logs[..., 0] - self.least * slope], axis=-1)

    def m_step(
        self, n: Float, sums: Float, squares: Float, t_sums: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """The mean of n rows and one like all rows together."""
        return self.completed((sums + PSEUDO_ROWS * overall.mean) / (n + PSEUDO_ROWS), squares)

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Powers up to `highest_power`, as the certificate tests them."""
        return np.asarray(exponents[:, 0] <= self.highest_power)

    def support(self, mean: Float, variance: Float, degree: int) -> tuple[Float, Float]:
        """All counts that are small or near, others up to the largest that occurs."""
        rates, spread = (x.real for x in self.completed(mean, variance))
        deviations, least = np.sqrt(spread), float(self.least)
        last = rates + _REACH * (deviations + spread / rates)
        n_small = int(min(last.max() - least, _SMALL))
        counts = np.tile(least + np.arange(n_small + 1.0), (len(rates), 1))
        if n_small == _SMALL:
            far = np.geomspace(_SMALL, np.maximum(last[:, 0], 2 * _SMALL), 700)
            near = rates + deviations * np.linspace(-10, 10, 800)
            counts = np.sort(np.maximum(np.rint(np.hstack([counts, near, far.T])), least), axis=1)
        middles = 0.5 * (counts[:, 1:] + counts[:, :-1])
        widths = np.diff(middles, prepend=least - 0.5, append=counts[:, -1:] + 0.5)
        weights = widths * np.exp(self.log_density(counts, mean, variance))
        return counts[..., None], weights / weights.sum(axis=1, keepdims=True)

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        counts, weights = self.support(mean[None], variance[None], 0)
        return rng.choice(counts[0], size=n, p=weights[0])

    def positive(self, mean: Float, variance: Float) -> Float:
        return self.rates(mean)[..., None]

    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        return self.completed(values, variance)

    # -- parameters of columns --------------------------------------------------------------------

    @property
    def block_of(self) -> Callable[..., Block]:  # type: ignore[override]
        return partial(CountBlock, family=self.name)

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        return self.block_of(rates=self.rates(mean), seen=seen)

    def quantities(self, mean: Float, variance: Float, counts: Float, zero: Any) -> Quantities:
        """The rate, of which the variance is a function."""
        rate = Quantity(self.rates(mean), "log", counts, zero[:, 0])
        spread = rate._replace(values=self._along(self.variance_of, rate.values))
        return Quantities(rate._replace(least=self.least), spread)

    # -- pictures and advice ----------------------------------------------------------------------

    def below(self, means: Float, deviations: Float) -> tuple[Float, Float]:
        """Points between counts: all small ones, and others where the components are."""
        known = ~np.isnan(means[:, 0])
        near = np.linspace(-6, 12, 200) * deviations[known] + means[known]
        counts = np.unique(np.rint(np.append(near, np.arange(256.0))))
        counts = counts[(counts >= self.least) & (counts <= near.max() + 2.0)]
        ends = 0.5 * (counts[1:] + counts[:-1])
        widths = np.diff(ends, prepend=counts[0] - 0.5, append=counts[-1] + 0.5)
        masses = widths * np.exp(self.log_density(counts, means, deviations**2))
        below = np.cumsum(masses, axis=1)
        return np.floor(ends) + 0.5, below[:, :-1] / below[:, -1:]

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        """By an M-step; the prior's row is like all rows together."""
        wrong, shares = self.invalid(values), histograms.sum(axis=0) / histograms.sum()
        if wrong is None or wrong.any():
            return None
        family, mean = self.covering(float(values[-1])), shares @ values
        variance = np.array([shares @ values**2 - mean**2])
        overall = family.overall(Overall(np.array([mean]), variance, np.ones(()), np.zeros(1)))
        statistics = histograms @ family.statistics(values[None]).T
        n, sums, squares = (histograms @ x[:, None] for x in (values**0, values, values**2))
        # The prior is for variances alone.
        found = family.m_step(n, sums, squares, statistics, overall, None)  # type: ignore[arg-type]
        return family.log_density(values, *found)


def _log_inverse_factorials(counts: Float) -> Float:
    from scipy.special import gammaln  # not where rows are only read: it takes long

    return np.asarray(-gammaln(counts + 1.0))


class Poisson(CountFamily):
    """Counts whose variance is their mean; their cumulants are all equal."""

    name = "poisson"
    singular = "a Poisson count"
    highest_power = 64  # tails are light
    compiled = 1
    block_of = PoissonBlock

    def log_mass(self, counts: Float, rates: Float) -> Float:
        return np.asarray(counts * np.log(rates) - rates + self.base(counts))

    def variance_of(self, rates: Float) -> Float:
        return rates

    def base(self, values: Float) -> Float:
        if values.size > _SMALL and values.min() >= 0 and values.max() < _SMALL:
            return _log_inverse_factorials(np.arange(float(_SMALL)))[values.astype(np.int64)]
        return _log_inverse_factorials(values)

    def coefficients(self, mean: Float, variance: Float) -> Float:
        rates = self.rates(mean)
        return np.stack([np.log(rates), np.zeros_like(rates), -rates], axis=-1)

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        return rng.poisson(self.rates(mean), size=(n, 1)).astype(np.float64)
