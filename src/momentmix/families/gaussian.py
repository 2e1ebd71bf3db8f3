"""Numbers that are Gaussian within components, themselves or their logarithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.families.block import Block
from momentmix.families.column import Column
from momentmix.families.family import (
    Family,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
)
from momentmix.families.gaussian_block import GaussianBlock

# Least deviation of a component, in steps of a rounded column. Components at neighboring values,
# half a step wide each, add up to waves of 1.4 % with their tops at the values: with 10,000 rows
# BIC would take them. At 0.6 the waves are 0.2 %.
LEAST_STEPS = 0.6
_NARROWEST = 1e-3  # least deviation that is drawn, of the width of the picture
_FEWEST_OBSERVED = 1e-6  # rows; with fewer a component has no parameters of the value


class Gaussian(Family):
    """Numbers; the distribution of a single one that may be missing, of mean m and variance v."""

    name = "gaussian"
    noun = "numbers"
    parameters: ClassVar[Mapping[str, int]] = {"means": 2, "covariances": 3}
    entries = ("mean", "variance")
    joins = True
    free = True
    compiled = 2

    def coefficients(self, mean: Float, variance: Float) -> Float:
        constant = -0.5 * (mean**2 / variance + np.log(2 * np.pi * variance))
        return np.concatenate([mean / variance, -0.5 / variance, constant], axis=-1)

    def m_step(
        self, n: Float, sums: Float, squares: Float, own: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """Of deviations from the mean of all rows: no difference of close numbers."""
        n, center = np.maximum(n, _FEWEST_OBSERVED), overall.mean
        away = (sums - n * center) / n
        squares = squares - 2 * center * sums + n * (center**2 - away**2)
        spread = prior.variances(n, squares / overall.variance, overall.least)
        return center + away, spread * overall.variance

    def log_prior(self, mean: Float, variance: Float, overall: Overall, prior: Prior) -> Float:
        return prior.log_terms(clipped(variance, 1e-300) / overall.variance)[..., 0]

    def prior_curvature(
        self, mean: Float, variance: Float, overall: Overall, prior: Prior
    ) -> Float:
        """By the logarithm of the variance, which the prior is of."""
        curvature = np.zeros((*variance.shape[:-1], 2, 2))
        own = prior.curvature(variance / overall.variance, 1.0) / variance**2
        curvature[..., 1, 1] = own[..., 0]
        return curvature

    def cumulants(self, mean: Float, variance: Float, highest: int) -> Float:
        return np.stack([mean[:, 0], variance[:, 0]])

    def quadrature(
        self, place: int, mean: Float, variance: Float, degree: int
    ) -> tuple[Float, Float]:
        from numpy.polynomial.hermite_e import hermegauss  # not where rows are only read

        points, weights = hermegauss(degree // 2 + 1)
        values = mean + np.sqrt(variance) * points
        return values, np.broadcast_to(weights / weights.sum(), values.shape)

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        return mean + np.sqrt(variance) * rng.standard_normal((n, 1))

    def positive(self, mean: Float, variance: Float) -> Float:
        return variance

    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        return mean, values

    def prior_positive(self, overall: Overall) -> Float:
        return np.array([np.nan])  # variances have a floor of their own

    # -- parameters of columns --------------------------------------------------------------------

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        variances = np.maximum(variance, 0.0)[:, :, None]
        return GaussianBlock(mean + column.center, variances, None, seen, (column.transform,))

    def read_block(self, values: Mapping[str, Any], columns: list[Column]) -> Block:
        means, covariances = values["means"], values["covariances"]
        if means.shape[1] != len(columns):
            raise ValueError(f"means must have {len(columns)} columns, as blocks.columns")
        transforms = tuple(column.transform for column in columns)
        block = GaussianBlock(means, covariances, None, values["seen"], transforms)
        if (~(covariances == covariances.swapaxes(1, 2)) & ~np.isnan(covariances)).any():
            raise ValueError("covariances must be symmetric")
        return block

    def quantities(self, mean: Float, variance: Float, counts: Float, zero: Any) -> Quantities:
        """Mean and variance; the variance has a floor, and no bound."""
        return Quantities(Quantity(mean[:, 0], "plain"), Quantity(variance[:, 0], "log"))

    # -- pictures and advice ----------------------------------------------------------------------

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


class Transformed(Gaussian):
    """Numbers that are Gaussian after a transform T; columns are gaussian with a transform.

    A subclass has a `name`, which is its `transform` too, `requirement` and `invalid`, and the maps
    `forward`, `inverse` and `log_slope`.
    """

    def fit_cells(self, values: Float, histograms: Float) -> Float | None:
        return None


class Log(Transformed):
    """Positive numbers whose logarithms are Gaussian."""

    name = transform = "log"
    noun = "logarithms"
    requirement = "numbers of a log column must be greater than 0"
    alternatives = "'log1p' where it holds 0, or as 'gaussian',"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        return np.asarray(numbers <= 0)

    def forward(self, values: Float) -> Float:
        return np.log(values)

    def inverse(self, values: Float) -> Float:
        return np.exp(values)

    def log_slope(self, values: Float) -> Float:
        return -values


class Log1p(Log):
    """Numbers above −1 whose log(1 + y) is Gaussian."""

    name = transform = "log1p"
    requirement = "numbers of a log1p column must be greater than -1"
    alternatives = "'gaussian'"

    def invalid(self, numbers: Array) -> NDArray[np.bool_] | None:
        return np.asarray(numbers <= -1)

    def forward(self, values: Float) -> Float:
        return np.log1p(values)

    def inverse(self, values: Float) -> Float:
        return np.expm1(values)
