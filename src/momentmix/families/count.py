"""Counts whose distribution follows from their mean: a base for families of one file each.

A family of counts gives `CountLaw.log_mass` and `CountLaw.variance_of`; all else can be derived.

| symbol | name here | shape |
|---|---|---|
| y = shift + scale · z | the count, and its feature | |
| λ = shift + scale · μ | ``rates`` | (…) |
| log p(y) = a + b y + h(y) | `CountLaw.log_mass`, `WholeLaw.base` | |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import comb
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock
from momentmix.families.column import Column
from momentmix.families.family import Estimate, Family, Quantities, Quantity, Value
from momentmix.families.law import PSEUDO_ROWS, Law, Prior, SeenValue, first, padded

DISPERSION_THAT_MATTERS = 0.1  # of the variance of a count beside that of its family
LARGEST_COUNT = 2.0**53  # float64 holds all integers up to it
_LEAST_MEAN = 1e-6  # counts; its logarithm stays finite
_REACH = 40.0  # deviations from the mean: e^-40 is beyond what double precision adds to a sum
_MOST_COUNTS = 2000  # in a sum over counts
_STEP = 1e-5  # of a rate beside itself, for a derivative: its error is about 1e-10


@dataclass(frozen=True)
class WholeLaw(Law):
    """One feature, a count in units of its own.

    Parameters
    ----------
    features : tuple of one int
    shift, scale : float
        The count is shift + scale · z. Of standardized features `shift` is the mean of all rows.

    Attributes
    ----------
    least : int
        Least count.
    highest_power : int
        Of the counts, in moments that a certificate tests: with skewed counts, means of higher
        powers are far from normal even for 20,000 rows.
    """

    shift: float = 0.0
    scale: float = 1.0
    least: ClassVar[int] = 0
    highest_power: ClassVar[int] = 4
    by_law: ClassVar[tuple[str, ...]] = ("shift", "scale")

    def rescaled(self, shift: Float, scale: Float) -> Self:
        moved = self.shift + self.scale * first(shift)
        return replace(self, shift=moved, scale=self.scale * first(scale))

    def rates(self, means: Float) -> Float:
        """λ of means (…, 1), of shape (…)."""
        return np.maximum(self.shift + self.scale * means[..., 0], self.least + _LEAST_MEAN)

    def base(self, counts: Float) -> Float:
        """Return h(y), the part of log p(y) that is the same in all components."""
        return np.zeros_like(counts)

    def base_measure(self, rows: Float) -> Float | None:
        return self.base(np.rint(self.shift + self.scale * rows[:, self.features[0]]))

    def log_masses(self, counts: Float, means: Float, variances: Float) -> Float:
        """log p(y) of counts (n,) or (r, n) for means and variances (r, 1), of shape (r, n)."""
        table, z = self.coefficients(means, variances), (counts - self.shift) / self.scale
        statistics = np.ascontiguousarray(self.own_statistics(z[..., None, :]))
        own = (table[:, None, 2:-1] @ statistics)[:, 0]
        logs: Float = own + (table[:, :1] * z + table[:, -1:])
        return logs + self.base(counts)

    @abstractmethod
    def parameters(self, means: Float, variances: Float) -> tuple[Float, ...]:
        """Return parameters (r,) of a block from means and variances (r, 1), in its order."""

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Powers up to `highest_power`, as the certificate tests them."""
        return np.asarray(exponents[:, 0] <= self.highest_power)


@dataclass(frozen=True)
class CountLaw(WholeLaw):
    """One feature, a count whose distribution follows from its mean."""

    noun: ClassVar[str] = "a count of its family"

    @abstractmethod
    def log_mass(self, counts: Float, rates: Float) -> Float:
        """Return log p(y) for counts y and means λ of shapes that broadcast."""

    @abstractmethod
    def variance_of(self, rates: Float) -> Float:
        """Return the variances of counts with these means."""

    def variance_slope(self, rates: Float) -> Float:
        """Return the derivatives of `variance_of`."""
        step = np.minimum(_STEP * rates, 0.5 * (rates - self.least))
        change = self.variance_of(rates + step) - self.variance_of(rates - step)
        return np.asarray(change / (2 * step))

    # -- what is derived; ∂ log p / ∂λ = (y − λ) / V(λ) where log p is linear in y --------------

    def parameters(self, means: Float, variances: Float) -> tuple[Float, ...]:
        return (self.rates(means),)

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        rates = self.rates(means)
        moved = (rates - self.shift) / self.scale
        return moved[..., None], (self.variance_of(rates) / self.scale**2)[..., None]

    def coefficients(self, means: Float, variances: Float) -> Float:
        """The log-density as a linear function of (z, z², 1), less h(y)."""
        rates, cells = self.rates(means), self.least + np.arange(2.0)
        logs = self.log_mass(cells, rates[..., None]) - self.base(cells)
        slope = logs[..., 1] - logs[..., 0]
        constant = logs[..., 0] + (self.shift - self.least) * slope
        return padded(np.stack([self.scale * slope, constant], axis=-1), 1)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable mean and variance; the mean of all rows is 0."""
        return self.completed(sums / (counts + PSEUDO_ROWS), squares)

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """As if one row were like all rows together, at whose mean z is 0."""
        return np.asarray(PSEUDO_ROWS * self.coefficients(means, variances)[..., -1])

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        rates = self.rates(means)
        v, offset = self.variance_of(rates), self.shift - rates
        slope, curvature = np.zeros((len(means), 2)), np.zeros((len(means), 2, 2))
        slope[:, 0] = PSEUDO_ROWS * self.scale * offset / v
        second = (1 + offset * self.variance_slope(rates) / v) / v
        curvature[:, 0, 0] = PSEUDO_ROWS * self.scale**2 * np.maximum(second, 0.0)
        return slope, curvature

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e as a sum over counts."""
        points, weights = self.quadrature(0, means, variances, 0)
        return np.stack([(weights * points**e).sum(axis=1) for e in exponents[:, 0]])

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments` by the mean: E z^e ∂ log p / ∂ μ."""
        rates, (points, weights) = self.rates(means), self.quadrature(0, means, variances, 0)
        offsets = self.shift + self.scale * points - rates[:, None]
        scores = self.scale * offsets / self.variance_of(rates)[:, None]
        table = np.zeros((len(exponents), 2, len(means)))
        for place, e in enumerate(exponents[:, 0]):
            table[place, 0] = (weights * points**e * scores).sum(axis=1)
        return table

    def scores(self, means: Float, variances: Float) -> Float:
        rates = self.rates(means)
        unit = self.scale / self.variance_of(rates)
        table = np.zeros((*rates.shape, 2, 3))
        table[..., 0, 0], table[..., 0, 2] = self.scale * unit, (self.shift - rates) * unit
        return table

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        points, weights = self.quadrature(0, means[None], variances[None], 0)
        return rng.choice(points[0], size=(n, 1), p=weights[0])

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        slopes = np.zeros((len(means), 1, 2))
        slopes[:, 0, 0] = self.scale
        return self.rates(means)[:, None], slopes

    @property
    def prior_positive(self) -> Float:
        return np.array([PSEUDO_ROWS * self.shift])

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        return self.completed((values - self.shift) / self.scale, variances)

    def _reach(self, rates: Float) -> Float:
        """Distance from the mean beyond which no count has a weight that matters."""
        return _REACH * (np.sqrt(self.variance_of(rates)) + 1.0)

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Counts from the least to the largest that occur; of many some, evenly spaced."""
        rates = self.rates(means)
        reach = self._reach(rates)
        low, high = np.maximum(np.floor(rates - reach), self.least), np.ceil(rates + reach)
        n = int(min(_MOST_COUNTS, (high - low).max() + 1))
        steps = np.maximum(1.0, np.ceil((high - low) / (n - 1)))
        counts: Float = low[:, None] + steps[:, None] * np.arange(n)
        weights = np.exp(self.log_mass(counts, rates[:, None]))
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray((counts - self.shift) / self.scale), weights


def powers_of_counts(
    rates: Float, excess: Float | float, shift: float, scale: float, highest: int
) -> tuple[Float, Float]:
    """E z^e, (highest + 1, r), and its derivatives by λ and θ = V / λ − 1, (highest + 1, 2, r).

    Of counts y = shift + scale · z with E[y f(y)] = λ E[f(y + 1)] + θ E[y (f(y + 1) − f(y))].
    """
    values, by_count = np.ones((2, highest + 1, len(rates)))  # E z^n, E[y z^n]
    slopes, by_slopes = np.zeros((2, highest + 1, 2, len(rates)))
    for n in range(highest):
        up = [comb(n, k) * scale ** (k - n) for k in range(n + 1)]  # of z^k in (z + 1/scale)^n
        total = np.tensordot(up, values[: n + 1], 1)
        above = np.tensordot(up[:n], by_count[:n], 1)
        by_count[n] = rates * total + excess * above
        by_slopes[n] = rates * np.tensordot(up, slopes[: n + 1], 1)
        by_slopes[n] += excess * np.tensordot(up[:n], by_slopes[:n], 1)
        by_slopes[n] += np.stack([total, np.broadcast_to(above, total.shape)])
        values[n + 1] = (by_count[n] - shift * values[n]) / scale
        slopes[n + 1] = (by_slopes[n] - shift * slopes[n]) / scale
    return values, slopes


def checked_rates(rates: Any) -> Float:
    """Rates as an array (r,)."""
    array = real_array("rates", rates, 1, allow_nan=True)
    if (array < 0).any() or (array > LARGEST_COUNT).any():
        raise InputError(f"rates of counts must be from 0 to 2^53; got {array.tolist()}.")
    return array


@dataclass(frozen=True, eq=False)
class CountBlock(ColumnBlock):
    """A column of counts whose distribution follows from their mean.

    Parameters
    ----------
    rates : array of shape (n_components,)
        Mean counts where the cell is seen; NaN in a component that never sees one.
    columns, names, seen
        As in `ColumnBlock`; by keyword.
    """

    rates: Float

    def __post_init__(self) -> None:
        self._keep(checked_rates(self.rates))

    @property
    def means(self) -> Float:
        return self.rates[:, None]

    @property
    def covariances(self) -> Float:
        return cast(CountLaw, self.model.value_law(0)).variance_of(self.rates)[:, None, None]


class WholeFamily(Family):
    """Counts, with a law of `law_type`."""

    noun = "counts"
    is_whole = True
    law_type: ClassVar[type[WholeLaw]]

    @property
    def least(self) -> float:
        return self.law_type.least

    @property
    def requirement(self) -> str:
        return f"{self.noun} must be integers from {self.law_type.least} to 2^53"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        """Numbers that are no counts; missing ones may be."""
        with np.errstate(invalid="ignore"):
            wrong = (numbers < self.least) | (numbers > LARGEST_COUNT)
            if numbers.dtype.kind == "f":
                wrong |= (numbers != np.floor(numbers)) & ~np.isnan(numbers)
        return np.asarray(wrong)

    def value_law(self, feature: int) -> WholeLaw:
        return self.law_type((feature,))

    def value_block(self, column: Column, law: Law, found: SeenValue, seen: Float | None) -> Block:
        parameters = cast(WholeLaw, law).parameters(found.mean, found.variance)
        block: Block = self.block_type(*parameters, seen=seen)
        return block

    def curve(
        self, means: Float, deviations: Float, limits: tuple[float, float]
    ) -> tuple[Float, Float]:
        """Counts along an axis, and the probability of each in each component."""
        first_count, last = max(limits[0] + 0.5, self.least), limits[1] - 0.5
        grid = np.arange(first_count, last + 1, max(1.0, np.floor((last - first_count) / 500)))
        return grid, np.exp(self.value_law(0).log_masses(grid, means, deviations**2))

    def distribution(self, means: Float, deviations: Float) -> tuple[Float, Float]:
        """Points between counts: all small ones, and others where the components are."""
        known = ~np.isnan(means[:, 0])
        near = np.linspace(-6, 12, 200) * deviations[known] + means[known]
        counts = np.unique(np.rint(np.append(near, np.arange(256.0))))
        counts = counts[(counts >= self.least) & (counts <= near.max() + 2.0)]
        ends = 0.5 * (counts[1:] + counts[:-1])
        widths = np.diff(ends, prepend=counts[0] - 0.5, append=counts[-1] + 0.5)
        masses = widths * np.exp(self.value_law(0).log_masses(counts, means, deviations**2))
        below = np.cumsum(masses, axis=1)
        return np.floor(ends) + 0.5, below[:, :-1] / below[:, -1:]

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        """By an M-step of the law, in units of the numbers' deviation."""
        wrong, shares = self.invalid(values), histograms.sum(axis=0) / histograms.sum()
        if wrong is None or wrong.any():
            return None
        shift = np.array([shares @ values])
        scale = np.sqrt(np.array([shares @ values**2]) - shift**2)
        law = self.value_law(0).rescaled(shift, scale).covering(float(values[-1]))
        z = (values - shift) / scale
        statistics = np.stack([z, z**2, *law.own_statistics(z[None]), np.ones_like(z)])
        sums, no_prior = histograms @ statistics.T, cast(Prior, None)  # that of variances
        found = law.m_step(sums[:, -1:], sums[:, :1], sums[:, 1:2], sums[:, 2:-1], no_prior)
        return law.log_masses(values, *found)


class CountFamily(WholeFamily):
    """Counts whose distribution follows from their mean, by `law_type` and `block_type`."""

    parameters: ClassVar[Mapping[str, int]] = {"rates": 1}
    entries = ("rate",)
    law_type: ClassVar[type[CountLaw]]

    def check(self) -> None:
        """Raise where `log_mass`, `base` and `variance_of` do not belong together."""
        law = self.law_type((0,))
        rates = law.least + np.array([3.0, 6.0])
        counts = np.arange(law.least, law.least + 401.0)
        masses = np.exp(law.log_mass(counts, rates[:, None]))
        means = masses @ counts
        found = np.stack([masses.sum(axis=1), means, masses @ counts**2 - means**2])
        wanted = np.stack([np.ones(2), rates, law.variance_of(rates)])
        if not np.allclose(found, wanted, rtol=1e-5):
            raise InputError(
                f"log_mass of {self.name!r} must be that of probabilities with the means and "
                f"variances given; for means {rates.tolist()} their sums, means and variances are "
                f"{found.tolist()} instead of {wanted.tolist()}."
            )
        few = counts[:8]
        logs = law.log_masses(few, rates[:, None], rates[:, None])
        if not np.allclose(logs, law.log_mass(few, rates[:, None]), rtol=1e-5, atol=1e-8):
            raise InputError(
                f"log_mass of {self.name!r} must be linear in the count up to base(); override "
                "base()."
            )

    def value_quantities(self, e: Estimate, value: Value) -> Quantities:
        """The rate, of which the variance is a function."""
        values, slopes = value.positive
        rate, law = (
            Quantity(values[:, 0], slopes[:, 0], "log", value.counts, value.zero[:, 0]),
            cast(CountLaw, value.law),
        )
        by_rate = law.variance_slope(rate.values)[:, None] * rate.slopes
        variance = rate._replace(values=law.variance_of(rate.values), slopes=by_rate)
        return Quantities(rate._replace(least=self.least), variance)
