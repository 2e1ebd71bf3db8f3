"""Counts that vary more than Poisson's distribution says: a mean and a size for each component.

| symbol | name here |
|---|---|
| y of mean λ and variance V = λ + λ² / s | ``rates``, ``sizes`` |
| θ = V / λ − 1 = λ / s: what the variance has beside the mean, for each of it | ``excess`` |
| log p(y) = Σ_{k<y} log(1 + k/s) + y log(λ / (1 + θ)) − s log(1 + θ) − log y! | `coefficients` |
| [y > k] for 0 < k < h, and (y − h)⁺ ℓ_j(log y): the sum as Σ_j t_j(y) c_j(s) | `statistics` |

The sum over k < y is exact up to h = 16. Beyond, its mean over h ≤ k < y is a smooth function of
log y, and ℓ_j are the polynomials that interpolate it at Chebyshev's points y_j: twenty serve
thousands of distinct counts. So EM needs the sums of some thirty statistics, and no histogram.
At the Poisson limit, s → ∞, all maps have the values of Poisson's distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import on_device_of
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock
from momentmix.families.column import Column
from momentmix.families.counts import LARGEST_COUNT, CountFamily, Poisson, checked_rates
from momentmix.families.family import (
    PSEUDO_ROWS,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
    derivatives,
    log1p,
)
from momentmix.wording import short_repr

LEAST_SIZE = 1e-3
LEAST_EXCESS = 1e-4  # of the variance beside the mean: less needs 1e8 rows to be seen
_HEAD = 16  # counts whose sums are exact; Stirling's series has an error of 1e-12 beyond
_TOPS = 4, 16, 256, 4096, 65536
_TOP = 1 << 20  # largest count of a family that has seen no rows; beyond, log p is linear in y
_NODES = 3.0  # for each unit of log y: the interpolated means then have errors of about 1e-11
_TABLE = 4096  # counts whose statistics are held in memory
_SPACING = 0.25  # of logarithms of sizes; Newton's steps from the best one square such a distance
_STEPS = 3
_CLOSE = 1e-4  # of logarithms of sizes, for a second derivative


# -- parameters of columns ------------------------------------------------------------------------


@short_repr
@dataclass(frozen=True, eq=False)
class NegativeBinomialBlock(ColumnBlock):
    """A column of counts whose variance is mean + mean² / size.

    Parameters
    ----------
    means : array of shape (n_components,)
        Mean counts where the cell is seen. Kept with shape (n_components, 1), as blocks of all
        families have means.
    sizes : array of shape (n_components,)
        The smaller, the more counts vary beside their means; infinite for Poisson counts.
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> NegativeBinomialBlock([1.5, 4.0], [0.5, 2.0], names="visits").covariances.ravel().tolist()
    [6.0, 12.0]
    """

    means: Float
    sizes: Float
    family: ClassVar[str] = "negative_binomial"

    def __post_init__(self) -> None:
        means, sizes = np.asarray(self.means), np.asarray(self.sizes, dtype=np.float64)
        rates = checked_rates(means[:, 0] if means.ndim == 2 and means.shape[1] == 1 else means)
        if sizes.shape != rates.shape or (sizes < LEAST_SIZE).any():
            raise InputError(
                f"sizes must be {len(rates)} numbers of at least {LEAST_SIZE:g}, one for each "
                f"mean; got {sizes.tolist()}."
            )
        sizes = np.minimum(sizes, np.maximum(rates, 1.0) / LEAST_EXCESS)
        sizes.setflags(write=False)
        self._keep_checked(means=rates[:, None], sizes=sizes)

    @property
    def covariances(self) -> Float:
        return (self.means * (1 + self.means / self.sizes[:, None]))[:, :, None]

    @property
    def others(self) -> Float:
        """Dispersions: 1 / size."""
        return np.where(self.is_never_seen, np.nan, 1.0 / self.sizes[:, None])


# -- the family -----------------------------------------------------------------------------------


class NegativeBinomial(CountFamily):
    """Counts whose variance may exceed their mean.

    Parameters
    ----------
    top : int
        Largest count whose density is exact.
    """

    name = "negative_binomial"
    singular = "a negative binomial count"
    parameters: ClassVar[Mapping[str, int]] = {"means": 2, "sizes": 1}
    entries = ("mean", "variance", "dispersion")
    free = True
    compiled = 3
    block_of = NegativeBinomialBlock

    def __init__(self, top: int = _TOP) -> None:
        self.top = top

    def check(self) -> None:
        """Nothing is derived from a `log_mass`."""

    @property
    def n_statistics(self) -> int:
        return len(_nodes(self.top)[1]) + min(self.top, _HEAD) - 1

    @property
    def nodes(self) -> tuple[int, Float]:
        head, nodes, _ = _nodes(self.top)
        return int(head), nodes if nodes.size > 1 else nodes[:0]

    def covering(self, largest: float) -> Self:
        # Few kinds: distributions of one kind are one call. Counts up to the head are exact.
        return type(self)(next((top for top in _TOPS if largest <= top), _TOP))

    def statistics(self, values: Any, xp: Any = np) -> Any:
        counts = xp.where(values > 0, values, xp.zeros_like(values))  # NaN stays in y
        if xp is np and counts.size and counts.max() < _TABLE - 1:
            places = np.rint(counts[..., 0, :]).astype(np.int64)
            return np.moveaxis(_statistics_table(self.top)[:, places], 0, -2)
        return _statistics(counts, self.top, xp)

    def base(self, values: Float) -> Float:
        return Poisson.base(Poisson(), values)

    # -- parameters -------------------------------------------------------------------------------

    def _rates_and_sizes(self, mean: Float, variance: Float) -> tuple[Float, Float]:
        """λ and s of means and variances (…, 1), of shape (…)."""
        rates = self.rates(mean)
        excess = clipped(variance[..., 0] / rates - 1.0, LEAST_EXCESS)
        return rates, clipped(rates / excess, LEAST_SIZE, rates.real / LEAST_EXCESS)

    def completed(self, mean: Float, variance: Float) -> tuple[Float, Float]:
        rates, sizes = self._rates_and_sizes(mean, variance)
        return rates[..., None], (rates * (1.0 + rates / sizes))[..., None]

    def coefficients(self, mean: Float, variance: Float) -> Float:
        rates, sizes = self._rates_and_sizes(mean, variance)
        ratio = log1p(rates / sizes)
        first = np.stack([np.log(rates) - ratio, np.zeros_like(rates)], axis=-1)
        factors = _sums_of_logs(sizes, self.top)
        return np.concatenate([first, factors, (-sizes * ratio)[..., None]], axis=-1)

    def overall(self, overall: Overall) -> Overall:
        """With means of t as if all rows had one size."""
        mean, variance = self.completed(overall.mean, overall.variance)
        pairs = zip(mean.flat, variance.flat, strict=True)
        statistics = np.array([_mean_statistics(m, v, self.top) for m, v in pairs])
        statistics = statistics.reshape(*mean.shape[:-1], -1)
        return overall._replace(mean=mean, variance=variance, statistics=statistics)

    def m_step(
        self, n: Float, sums: Float, squares: Float, t_sums: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """The mean of the rows and of one like all rows together, and the best size for it."""
        n = n + PSEUDO_ROWS
        rates = self.rates((sums + PSEUDO_ROWS * overall.mean) / n)
        t_sums = t_sums + PSEUDO_ROWS * overall.statistics
        sizes = _best_sizes(n[..., 0], rates, t_sums, self.top)
        return rates[..., None], (rates * (1.0 + rates / sizes))[..., None]

    # -- moments ----------------------------------------------------------------------------------

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        rates, sizes = self._rates_and_sizes(mean, variance)
        shares = sizes / (sizes + rates)
        return rng.negative_binomial(sizes, shares, size=n)[:, None].astype(np.float64)

    # -- numbers with bounds ----------------------------------------------------------------------

    def positive(self, mean: Float, variance: Float) -> Float:
        """The rate, and the variance less the rate."""
        rates = self.rates(mean)
        return np.stack([rates, variance[..., 0] - rates], axis=-1)

    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        return self.completed(values[..., :1], values.sum(axis=-1, keepdims=True))

    def at_zero(
        self, mean: Float, variance: Float, counts: Float, overall: Overall
    ) -> NDArray[np.bool_]:
        """As in other families; the variance of rows is at most their mean without the prior's row.

        The row of the prior is like all rows together.
        """
        zero = super().at_zero(mean, variance, counts, overall)
        rates, excess = self.positive(mean, variance).T
        added = overall.variance[0] - overall.mean[0] + (overall.mean[0] - rates) ** 2
        surplus = (counts + PSEUDO_ROWS) * excess - PSEUDO_ROWS * np.maximum(added, 0.0)
        zero[:, 1] = (surplus <= 0) | (excess <= 2 * LEAST_EXCESS * rates)
        return zero

    # -- parameters of columns --------------------------------------------------------------------

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        rates, sizes = self._rates_and_sizes(mean, variance)
        return self.block_of(means=rates, sizes=sizes, seen=seen)

    def quantities(self, mean: Float, variance: Float, counts: Float, zero: Any) -> Quantities:
        """Mean, variance, and dispersion: (variance − mean) / mean²."""
        (rates, excess), (at_zero, is_poisson) = self.positive(mean, variance).T, zero.T
        rate = Quantity(rates, "log", counts, at_zero, least=0.0)
        spread = Quantity(rates + excess, "log", counts, at_zero)
        dispersion = Quantity(excess / rates**2, "log", counts, is_poisson)
        return Quantities(rate, spread, None, (dispersion,))


# -- sums over k < y ------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _nodes(top: int) -> tuple[float, Float, Float]:
    """h, the points y_j beyond it, and barycentric weights of the interpolation in log y."""
    if top <= _HEAD:
        return float(top), np.array([top + 1.0]), np.ones(1)
    ends = log(_HEAD + 1.0), log(top)
    angles = np.pi * (np.arange(ceil(_NODES * ends[1])) + 0.5) / ceil(_NODES * ends[1])
    places = 0.5 * (ends[0] + ends[1] + (ends[1] - ends[0]) * np.cos(angles))
    return float(_HEAD), np.exp(places), np.sin(angles) * (-1.0) ** np.arange(angles.size)


def _statistics(counts: Any, top: int, xp: Any = np) -> Any:
    """t(y) of counts (…, 1, n), of shape (…, n_own, n)."""
    head, nodes, weights = _nodes(top)
    cells = xp.reshape(on_device_of(np.arange(1.0, head), counts, xp), (-1, 1))
    flags = xp.where(counts > cells + 0.5, xp.ones_like(counts), xp.zeros_like(counts))
    beyond = xp.where(counts > head, counts - head, xp.zeros_like(counts))
    if nodes.size == 1:
        return xp.concat([flags, beyond], axis=-2)
    inside = xp.clip(counts, head + 1.0, float(top))
    places, weights = (
        xp.reshape(on_device_of(x, counts, xp), (-1, 1)) for x in (np.log(nodes), weights)
    )
    gaps = xp.log(inside) - places
    parts = weights / xp.where(gaps == 0, xp.full_like(gaps, 1e-14), gaps)
    return xp.concat([flags, beyond * parts / xp.sum(parts, axis=-2, keepdims=True)], axis=-2)


@lru_cache(maxsize=16)
def _statistics_table(top: int) -> Float:
    """t(y) of y = 0 … `_TABLE` − 1, of shape (n_own, _TABLE)."""
    return cast(Float, _statistics(np.arange(_TABLE, dtype=np.float64)[None], top))


def _sums_of_logs(sizes: Float, top: int) -> Float:
    """c(s), such that Σ_{k<y} log(1 + k/s) = c(s) · t(y).

    Beyond h, (log Γ(y + s) − log Γ(h + s)) / (y − h) − log s by Stirling's series.
    """
    head, nodes, _ = _nodes(top)
    s = sizes[..., None]
    logs: Float = log1p(np.arange(1.0, head + (nodes.size == 1)) / s)
    if nodes.size == 1:
        return logs
    gap, low, high = nodes - head, s + head, s + nodes

    def rest(x: Float) -> Float:  # of log Γ(1/x) beside (1/x − 1/2) log(1/x) − 1/x
        return x * (1 / 12 - x**2 * (1 / 360 - x**2 * (1 / 1260 - x**2 / 1680)))

    change = rest(1.0 / high) - rest(1.0 / low)
    value: Float = ((high - 0.5) * log1p(gap / low) + change) / gap - 1.0 + log1p(head / s)
    return np.concatenate([logs, value], axis=-1)


@lru_cache(maxsize=16)
def _grid(top: int) -> tuple[Float, Float]:
    """Logarithms of sizes, (g,), and c(s) at each, (g, m)."""
    logs = np.arange(log(LEAST_SIZE), log(LARGEST_COUNT / LEAST_EXCESS), _SPACING)
    return logs, _sums_of_logs(np.exp(logs), top)


def _best_sizes(n: Float, rates: Float, statistics: Float, top: int) -> Float:
    """Sizes of the largest likelihood of n rows with mean `rates` and sums of t.

    The best of a grid, and Newton's steps from there for log s.
    """
    grid, table = _grid(top)
    n, x = np.broadcast_to(n, rates.shape), np.log(rates)
    most = x - log(LEAST_EXCESS)  # beyond, counts are Poisson
    kept = grid[: int(np.searchsorted(grid, most.max())) + 1]
    sizes = np.exp(kept)
    ratio = np.log1p(rates[..., None] / sizes)
    logs = statistics @ table[: kept.size].T - n[..., None] * (rates[..., None] + sizes) * ratio
    x = np.minimum(
        kept[np.where(kept <= most[..., None] + _SPACING, logs, -np.inf).argmax(-1)], most
    )

    def slope(x: Float) -> Float:
        """Of the log-likelihood, by log s (…, 1)."""
        return np.asarray(derivatives(likelihood, x, [0])[..., 0])

    def likelihood(x: Float) -> Float:
        s = np.exp(x[..., 0])
        logs = (statistics * _sums_of_logs(s, top)).sum(axis=-1)
        return np.asarray(logs - n * (rates + s) * log1p(rates / s))

    for _ in range(_STEPS):
        first, above = slope(x[..., None]), slope(x[..., None] + _CLOSE)
        curvature = np.minimum((above - first) / _CLOSE, -1e-300)
        x = np.clip(x + np.clip(-first / curvature, -_SPACING, _SPACING), log(LEAST_SIZE), most)
    return np.asarray(np.exp(x))


@lru_cache(maxsize=1024)
def _mean_statistics(mean: float, variance: float, top: int) -> Float:
    """E t(y) of counts with a mean and a variance, of shape (m,)."""
    family, parameters = NegativeBinomial(), (np.array([[mean]]), np.array([[variance]]))
    counts, weights = family.support(*parameters, 0)
    return cast(Float, _statistics(counts[0].T, top) @ weights[0])
