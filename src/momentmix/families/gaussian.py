"""Numbers that are Gaussian within components, themselves or their logarithms.

| symbol | name here |
|---|---|
| μ, v: mean and variance of z | ``means``, ``variances`` |
| E z^(e + 1) = μ E z^e + e v E z^(e−1) | ``moments`` |
| ∂ E z^e / ∂ μ = e E z^(e−1), ∂ E z^e / ∂ v = e (e − 1) / 2 · E z^(e−2) | ``slopes`` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.families.block import Block, with_unknown
from momentmix.families.column import Column
from momentmix.families.family import Estimate, Family, Quantities, Quantity, Value
from momentmix.families.gaussian_block import GaussianBlock
from momentmix.families.law import LEAST_VARIANCE, Law, Prior, SeenValue, first
from momentmix.wording import option

MOST_FLOOR = 0.9  # the largest least variance of rounded values, in the same units
# Least deviation of a component, in steps of a rounded column. Components at neighboring values,
# half a step wide each, add up to waves of 1.4 % with their tops at the values: with 10,000 rows
# BIC would take them. At 0.6 the waves are 0.2 %.
LEAST_STEPS = 0.6
_NARROWEST = 1e-3  # least deviation that is drawn, of the width of the picture
_FEWEST_SEEN = 1e-6  # rows; with fewer a component has no parameters of the value


@dataclass(frozen=True)
class GaussianValue(Law):
    """One Gaussian feature with a variance of its own: the value of `Seen`."""

    unit: float = 1.0  # of the feature, in the units of the data, which the density is that of
    least: float = LEAST_VARIANCE  # of a component, in units of the variance over all rows
    is_gaussian: ClassVar[bool] = True
    by_law: ClassVar[tuple[str, ...]] = ("unit", "least")

    @property
    def free(self) -> tuple[bool, ...]:
        return (True,)

    def rescaled(self, shift: Float, scale: Float) -> Self:
        return replace(self, unit=self.unit * first(scale))

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        return 0, (self.unit, self.least)

    def with_floor(self, least: float) -> Self:
        return replace(self, least=float(np.clip(least, LEAST_VARIANCE, MOST_FLOOR)))

    def floored(self, variances: Float, overall: Float) -> Float:
        return np.maximum(variances, np.asarray(self.least)[..., None] * overall)

    def widened(self, means: Float, variances: Float, factors: Float) -> tuple[Float, Float]:
        return means, variances * factors[:, None]

    def coefficients(self, means: Float, variances: Float) -> Float:
        m, v = means[..., 0], variances[..., 0]
        constant = -0.5 * (m**2 / v + np.log(2 * np.pi * v)) - np.log(self.unit)
        return np.stack([m / v, -0.5 / v, constant], axis=-1)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """Most probable mean and variance of standardized values."""
        divisor = np.maximum(counts, _FEWEST_SEEN)
        means = sums / divisor
        least: Any = np.asarray(self.least)[..., None]
        return means, prior.variances(divisor, squares - divisor * means**2, least)

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        return prior.log_terms(variances)[..., 0]

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        v = variances[:, 0]
        slope, curvature = np.zeros((len(v), 2)), np.zeros((len(v), 2, 2))
        slope[:, 1] = prior.slope(v, 1.0) / v
        curvature[:, 1, 1] = prior.curvature(v, 1.0) / v**2
        return slope, curvature

    def _powers(self, means: Float, variances: Float, highest: int) -> Float:
        m, v = means[:, 0], variances[:, 0]
        table = np.ones((highest + 1, len(m)))
        for e in range(highest):
            table[e + 1] = m * table[e] + (e * v * table[e - 1] if e else 0.0)
        return table

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        return self._powers(means, variances, int(exponents.max(initial=0)))[exponents[:, 0]]

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        e = exponents[:, 0]
        powers = self._powers(means, variances, int(e.max(initial=0)))
        table = np.zeros((len(e), 2, len(means)))
        table[:, 0] = e[:, None] * powers[np.maximum(e - 1, 0)]
        table[:, 1] = (e * (e - 1) / 2)[:, None] * powers[np.maximum(e - 2, 0)]
        return table

    def scores(self, means: Float, variances: Float) -> Float:
        """(z − μ) / v and ((z − μ)² / v − 1) / 2v."""
        m, v = means[..., 0], variances[..., 0]
        table = np.zeros((*m.shape, 2, 3))
        table[..., 0, 0], table[..., 0, 2] = 1 / v, -m / v
        table[..., 1, 0], table[..., 1, 1] = -m / v**2, 0.5 / v**2
        table[..., 1, 2] = 0.5 * (m**2 / v - 1) / v
        return table

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        return means + np.sqrt(variances) * rng.standard_normal((n, 1))

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        slopes = np.zeros((len(means), 1, 2))
        slopes[:, 0, 1] = 1.0
        return variances, slopes

    @property
    def prior_positive(self) -> Float:
        return np.array([np.nan])  # variances have a floor of their own

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        return means, values

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        from numpy.polynomial.hermite_e import hermegauss  # not where rows are only read

        points, weights = hermegauss(degree // 2 + 1)
        values = means + np.sqrt(variances) * points
        return values, np.broadcast_to(weights / weights.sum(), values.shape)


class Gaussian(Family):
    """Numbers."""

    name = "gaussian"
    noun = "numbers"
    parameters: ClassVar[Mapping[str, int]] = {"means": 2, "covariances": 3}
    entries = ("mean", "variance")
    joins = True

    def value_law(self, feature: int) -> Law:
        return GaussianValue((feature,))

    def column_of_numbers(
        self, column: Column, label: str, ends: Float, mean: float, variance: float
    ) -> Column:
        return column

    def value_block(self, column: Column, law: Law, found: SeenValue, seen: Float | None) -> Block:
        value = with_unknown(found.mean + column.center, seen)
        variance = with_unknown(np.maximum(found.variance, 0.0)[:, :, None], seen)
        transforms = (column.transform,) if column.transform else ()
        return GaussianBlock((), None, value, variance, seen, transforms)

    def read_block(self, values: Mapping[str, Any], columns: list[Column]) -> Block:
        means, covariances = values["means"], values["covariances"]
        if means.shape[1] != len(columns):
            raise ValueError(f"means must have {len(columns)} columns, as blocks.columns")
        transforms = [column.transform for column in columns]
        block = GaussianBlock.of(means, covariances, None, values["seen"], transforms)
        if (~(covariances == covariances.swapaxes(1, 2)) & ~np.isnan(covariances)).any():
            raise ValueError("covariances must be symmetric")
        return block

    def value_quantities(self, e: Estimate, value: Value) -> Quantities:
        """Mean and variance where the cell is seen."""
        (_, mean, variance), (by_mean, by_variance, _) = value.found, value.chain.swapaxes(0, 1)
        return Quantities(
            Quantity(e.shift + e.unit * mean[:, 0], e.unit * by_mean, "plain"),
            Quantity(e.unit**2 * variance[:, 0], e.unit**2 * by_variance, "log"),
        )

    def curve(
        self, means: Float, deviations: Float, limits: tuple[float, float]
    ) -> tuple[Float, Float]:
        """Points of an axis, more of them near the means, and the densities there."""
        low, high = limits
        width = np.maximum(deviations, _NARROWEST * (high - low))
        near = (means + width * np.linspace(-4, 4, 41)).ravel()
        near = near[(near > low) & (near < high)]
        grid = np.unique(np.concatenate([np.linspace(low, high, 300), near]))
        heights = np.exp(-0.5 * ((grid - means) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        return grid, heights

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        """By the probability of the cell that is rounded to a number."""
        from scipy.special import ndtr  # not where rows are only read: it takes long

        counts = histograms.sum(axis=1)
        means = histograms @ values / counts
        squares = histograms @ values**2 / counts - means**2
        # The floor of a fit; a twelfth of a variance is that of rounding.
        deviations = np.sqrt(np.maximum(squares, LEAST_STEPS**2) - 1 / 12)[:, None]
        ends = (np.stack([values - 0.5, values + 0.5])[:, None] - means[:, None]) / deviations
        ends *= -np.sign(ends[:1] + ends[1:])  # both in the lower tail, which has more digits
        return np.asarray(np.log(np.maximum(np.abs(np.diff(ndtr(ends), axis=0)[0]), 1e-300)))


class Log(Gaussian):
    """Positive numbers whose logarithms are Gaussian; columns are gaussian with a transform."""

    name = "log"
    transform = "log"

    def column_of_numbers(
        self, column: Column, label: str, ends: Float, mean: float, variance: float
    ) -> Column:
        """None: a summary of numbers has no moments of their logarithms."""
        raise InputError(
            f"a summary of numbers has no moments of their logarithms; {label} cannot be "
            f"{self.name!r}. Summarize the rows again with {option(families=...)}."
        )

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        return None


class Log1p(Log):
    """Numbers above −1 whose log(1 + y) is Gaussian."""

    name = "log1p"
    transform = "log1p"
