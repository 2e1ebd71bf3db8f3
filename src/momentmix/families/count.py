"""Counts whose distribution follows from their mean: a base for families of one file each.

A family of counts gives `CountLaw.log_mass` and `CountLaw.variance_of`; all else can be derived.

| symbol | name here | shape |
|---|---|---|
| y = shift + scale · z | the count, and its feature | |
| λ = shift + scale · μ | ``rates`` | (…) |
| log p(y) = a + b y + h(y) | `CountLaw.log_mass`, `CountLaw.base` | |
| [y = 0], …, [y = m − 1]: where log p is not linear in y | `CountLaw.own_statistics` | (m, n) |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock, with_unknown
from momentmix.families.column import Column
from momentmix.families.family import Entry, Estimate, Family, Quantities, Quantity
from momentmix.families.law import PSEUDO_ROWS, Law, Prior, first
from momentmix.families.seen import Seen, seen_features

DISPERSION_THAT_MATTERS = 0.1  # of the variance of a count beside that of its family
LARGEST_COUNT = 2.0**53  # float64 holds all integers up to it
_LEAST_MEAN = 1e-6  # counts; its logarithm stays finite
_REACH = 40.0  # deviations from the mean: e^-40 is beyond what double precision adds to a sum
_MOST_COUNTS = 2000  # in a sum over counts
_STEP = 1e-5  # of a rate beside itself, for a derivative: its error is about 1e-10
_STEPS = 40  # of a search for the best rate, each of which leaves 0.62 of an interval
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class CountLaw(Law):
    """One feature, a count in units of its own.

    Parameters
    ----------
    features : tuple of one int
    shift, scale : float
        The count is shift + scale · z. Of standardized features `shift` is the mean of all rows.

    Attributes
    ----------
    n_cells : int
        0 where log p(y) is linear in y up to `base`. Else counts are 0 … n_cells − 1, and the sums
        of EM are the weighted histogram of them.
    highest_power : int
        Of the counts, in moments that a certificate tests: with skewed counts, means of higher
        powers are far from normal even for 20,000 rows.
    noun : str
        A count of this law, in findings: "a count of its family".
    """

    shift: float = 0.0
    scale: float = 1.0
    n_cells: ClassVar[int] = 0
    highest_power: ClassVar[int] = 4
    noun: ClassVar[str] = "a count of its family"

    @abstractmethod
    def log_mass(self, counts: Float, rates: Float) -> Float:
        """Return log p(y) for counts y and means λ of shapes that broadcast."""

    @abstractmethod
    def variance_of(self, rates: Float) -> Float:
        """Return the variances of counts with these means."""

    def base(self, counts: Float) -> Float:
        """Return h(y), the part of log p(y) that is neither constant nor linear in y."""
        return np.zeros_like(counts)

    # -- what is derived ------------------------------------------------------------------------

    @property
    def n_own(self) -> int:
        """The cells of the histogram."""
        return self.n_cells

    def own_statistics(self, values: Any, xp: Any = np) -> Any:
        """Indicators of the counts."""
        counts = self.shift + self.scale * values
        one, zero = xp.ones_like(values), xp.zeros_like(values)
        cells = [xp.where(xp.abs(counts - cell) < 0.5, one, zero) for cell in range(self.n_cells)]
        return xp.concat(cells, axis=-2) if cells else values[..., :0, :]

    @property
    def has_base_measure(self) -> bool:
        """Histograms hold all of log p(y)."""
        return not self.n_cells

    @property
    def dispersion(self) -> str:
        """The variance follows from the mean."""
        return self.noun

    @classmethod
    def stacked(cls, laws: Sequence[Self]) -> Self:
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
        most = self.n_cells - 1 - _LEAST_MEAN if self.n_cells else np.inf
        return np.clip(self.shift + self.scale * means[..., 0], _LEAST_MEAN, most)

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The nearest mean that the law allows, and the variance that belongs to it."""
        rates = self.rates(means)
        moved = (rates - self.shift) / self.scale
        return moved[..., None], (self.variance_of(rates) / self.scale**2)[..., None]

    def coefficients(self, means: Float, variances: Float) -> Float:
        """The log-density as a linear function of (z, z², t, 1), less h(y)."""
        return self._coefficients(self.rates(means))

    def _coefficients(self, rates: Float) -> Float:
        cells = np.arange(self.n_cells or 2, dtype=np.float64)
        logs = self.log_mass(cells, rates[..., None])
        zeros = np.zeros_like(rates)[..., None]
        if self.n_cells:
            return np.concatenate([zeros, zeros, logs, zeros], axis=-1)
        logs = logs - self.base(cells)
        slope = logs[..., 1:] - logs[..., :1]
        scale, shift = (np.asarray(x)[..., None] for x in (self.scale, self.shift))
        return np.concatenate([scale * slope, zeros, logs[..., :1] + shift * slope], axis=-1)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable mean and variance; the mean of all rows is 0."""
        means = sums / (counts + PSEUDO_ROWS)
        if self.n_cells:
            rates = self._best_rates(own + PSEUDO_ROWS * self._overall)
            means = ((rates - self.shift) / self.scale)[..., None]
        return self.completed(means, squares)

    @property
    def _overall(self) -> Float:
        """Probabilities of the cells at the mean of all rows, of shape (…, n_cells)."""
        shift = np.asarray(self.shift, dtype=np.float64)[..., None]
        return np.exp(self.log_mass(np.arange(self.n_cells, dtype=np.float64), shift))

    def _best_rates(self, histograms: Float) -> Float:
        """The rates of the largest likelihood of histograms (…, n_cells), by sections."""
        cells = np.arange(self.n_cells, dtype=np.float64)

        def value(rates: Float) -> Float:
            return np.asarray((histograms * self.log_mass(cells, rates[..., None])).sum(axis=-1))

        low = np.full(histograms.shape[:-1], _LEAST_MEAN)
        width = self.n_cells - 1 - 2 * _LEAST_MEAN
        left, right = low + (1 - _GOLDEN) * width, low + _GOLDEN * width
        at_left, at_right = value(left), value(right)
        for _ in range(_STEPS):
            width *= _GOLDEN
            is_left = at_left > at_right
            low = np.where(is_left, low, left)
            new = np.where(is_left, low + (1 - _GOLDEN) * width, low + _GOLDEN * width)
            at_new = value(new)
            left, right = np.where(is_left, new, right), np.where(is_left, left, new)
            at_left, at_right = (
                np.where(is_left, at_new, at_right),
                np.where(is_left, at_left, at_new),
            )
        return np.asarray(low + 0.5 * width)

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """As if one row were like all rows together."""
        return self._log_prior(self.rates(means))

    def _log_prior(self, rates: Float) -> Float:
        table = self._coefficients(rates)
        if self.n_cells:
            return np.asarray(PSEUDO_ROWS * (table[..., 2:-1] * self._overall).sum(axis=-1))
        return np.asarray(PSEUDO_ROWS * table[..., -1])  # z is 0 at the mean of all rows

    def _slope(self, function: Callable[[Float], Float], rates: Float) -> Float:
        """The derivative of a function of the rates by μ."""
        step = _STEP * rates
        change = function(rates + step) - function(rates - step)
        extra = (1,) * (change.ndim - rates.ndim)
        return np.asarray(self.scale * change / (2 * step).reshape(*rates.shape, *extra))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        """Slope of `log_prior` by (μ, v), and its curvature."""
        rates = self.rates(means)
        slope, curvature = np.zeros((len(means), 2)), np.zeros((len(means), 2, 2))
        slope[:, 0] = self._slope(self._log_prior, rates)
        step = _STEP**0.5 * rates
        ends = self._log_prior(rates + step) + self._log_prior(rates - step)
        second = (2 * self._log_prior(rates) - ends) / step**2
        curvature[:, 0, 0] = np.maximum(self.scale**2 * second, 0.0)
        return slope, curvature

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        """E z^e as a sum over counts."""
        points, weights = self.quadrature(0, means, variances, 0)
        return np.stack([(weights * points**e).sum(axis=1) for e in exponents[:, 0]])

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        """Derivatives of `moments` by the mean: E z^e ∂ log p / ∂ μ."""
        rates, (points, weights) = self.rates(means), self.quadrature(0, means, variances, 0)
        counts = np.rint(self.shift + self.scale * points)
        scores = self._slope(lambda rate: self.log_mass(counts, rate[:, None]), rates)
        table = np.zeros((len(exponents), 2, len(means)))
        for place, e in enumerate(exponents[:, 0]):
            table[place, 0] = (weights * points**e * scores).sum(axis=1)
        return table

    def scores(self, means: Float, variances: Float) -> Float:
        """∂ log p / ∂ μ."""
        by_mean = self._slope(self._coefficients, self.rates(means))
        return np.stack([by_mean, np.zeros_like(by_mean)], axis=-2)

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        """Features drawn from the law."""
        points, weights = self.quadrature(0, means[None], variances[None], 0)
        return rng.choice(points[0], size=(n, 1), p=weights[0])

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

    def _reach(self, rates: Float) -> Float:
        """Distance from the mean beyond which no count has a weight that matters."""
        return _REACH * (np.sqrt(self.variance_of(rates)) + 1.0)

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Counts from the least to the largest that occur; of many some, evenly spaced."""
        rates = self.rates(means)
        reach, last = self._reach(rates), self.n_cells - 1.0 if self.n_cells else np.inf
        low, high = np.maximum(np.floor(rates - reach), 0.0), np.ceil(rates + reach)
        high = np.minimum(high, last)
        n = int(min(_MOST_COUNTS, (high - low).max() + 1))
        steps = np.maximum(1.0, np.ceil((high - low) / (n - 1)))
        counts = low[:, None] + steps[:, None] * np.arange(n)
        weights = np.exp(self.log_mass(np.minimum(counts, last), rates[:, None]))
        weights *= counts <= last
        weights /= weights.sum(axis=1, keepdims=True)
        return np.asarray((counts - self.shift) / self.scale), weights

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Powers up to `highest_power`: the certificate tests those."""
        return np.asarray(exponents[:, 0] <= self.highest_power)

    def base_measure(self, values: Float) -> Float:
        """h(y)."""
        return self.base(np.rint(self.shift + self.scale * values[0]))


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
    parameter: ClassVar[str] = "rates"

    def __post_init__(self) -> None:
        array = real_array("rates", self.rates, 1, allow_nan=True)
        if (array < 0).any() or (array > LARGEST_COUNT).any():
            raise InputError(f"rates of counts must be from 0 to 2^53; got {array.tolist()}.")
        self._keep(array)

    @property
    def _law(self) -> CountLaw:
        law = self.model.value_law(0)
        assert isinstance(law, CountLaw)
        return law

    @property
    def means(self) -> Float:
        """The rates, of shape (n_components, 1)."""
        return self.rates[:, None]

    @property
    def covariances(self) -> Float:
        """Variances, of shape (n_components, 1, 1)."""
        return self._law.variance_of(self.rates)[:, None, None]

    def features(self, column: Column) -> tuple[Float, Float]:
        """Means and variances of the features."""
        rates = self.known.rates[:, None]
        found = self._law.completed(rates, rates)
        return seen_features(self._law, self.seen, *found) if column.has_missing else found

    def expected(self, shares: Float) -> Float:
        """The mean count."""
        return np.asarray(shares @ self.known.rates)[:, None]

    def drawn(self, labels: Int, rng: np.random.Generator) -> Float:
        """Counts drawn."""
        values, rates = np.empty((len(labels), 1)), self.known.rates
        for i in np.unique(labels):
            own = np.flatnonzero(labels == i)
            values[own] = self._law.sample(rates[[i]], rates[[i]], own.size, rng)
        return values


class CountFamily(Family):
    """Counts whose distribution follows from their mean.

    Attributes
    ----------
    law_type : type of CountLaw
    block_type : type of CountBlock
    """

    noun = "counts"
    parameters: ClassVar[Mapping[str, int]] = {"rates": 1}
    is_whole = True
    least = 0.0
    requirement = "counts must be integers from 0 to 2^53"
    law_type: ClassVar[type[CountLaw]]
    block_type: ClassVar[type[CountBlock]]

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        """Numbers that are no counts; missing ones may be."""
        most = self.law_type.n_cells - 1.0 if self.law_type.n_cells else LARGEST_COUNT
        with np.errstate(invalid="ignore"):
            wrong = (numbers < 0) | (numbers > most)
            if numbers.dtype.kind == "f":
                wrong |= (numbers != np.floor(numbers)) & ~np.isnan(numbers)
        return np.asarray(wrong)

    def value_law(self, feature: int) -> Law:
        """The law of one count."""
        return self.law_type((feature,))

    def block_of(self, column: Column, law: Law, means: Float, variances: Float) -> Block:
        """The rates where the cell is seen."""
        value = law.value_law
        assert isinstance(value, CountLaw)
        found = law.value_of(means, variances)
        seen = found.q if column.has_missing else None
        return self.block_type(with_unknown(value.rates(found.mean), seen), seen=seen)

    def read_block(self, values: Mapping[str, Any], columns: list[Column]) -> Block:
        """The block of the rates of a model file."""
        return self.block_type(values["rates"], seen=values["seen"])

    def quantities(self, column: Column, e: Estimate) -> Quantities:
        """The rate, which is mean and variance."""
        law, zero, counts = e.law, e.at_zero, e.counts
        if not isinstance(law, Seen):
            values, slopes = law.positive(e.means, e.variances)
            rate = Quantity(values[:, 0], slopes[:, 0], "log", counts, zero[:, 0])
            return Quantities(rate, self._variance(rate))
        found, chain = law.value_of(e.means, e.variances), law.chain(e.means, e.variances)
        seen = Quantity(found.q, chain[:, 2], "logit", counts, zero[:, 1], zero[:, 0])
        values, slopes = law.value.positive(found.mean, found.variance)
        slopes, counts = slopes @ chain[:, :2], counts * found.q
        rate = Quantity(values[:, 0], slopes[:, 0], "log", counts, zero[:, 2] | zero[:, 1])
        return Quantities(rate, self._variance(rate), seen)

    def _variance(self, rate: Quantity) -> Quantity:
        """The variance as a function of the rate."""
        variance_of = self.law_type((0,)).variance_of
        step = _STEP * np.maximum(rate.values, _LEAST_MEAN)
        slope = (variance_of(rate.values + step) - variance_of(rate.values - step)) / (2 * step)
        values = variance_of(rate.values)
        return rate._replace(values=values, slopes=slope[:, None] * rate.slopes)

    def entries(self, column: Column) -> Iterator[Entry]:
        """The rate."""
        yield Entry("rate", None, "means")

    def curve(
        self, means: Float, deviations: Float, limits: tuple[float, float]
    ) -> tuple[Float, Float]:
        """Counts along an axis, and the probability of each in each component."""
        first_count, last = limits[0] + 0.5, limits[1] - 0.5
        n_cells = self.law_type.n_cells
        last = min(last, n_cells - 1.0) if n_cells else last
        grid = np.arange(first_count, last + 1, max(1.0, np.floor((last - first_count) / 500)))
        rates = np.maximum(means, _LEAST_MEAN)
        return grid, np.exp(self.law_type((0,)).log_mass(grid, rates))
