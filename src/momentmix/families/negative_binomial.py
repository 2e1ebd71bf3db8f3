"""Counts that vary more than Poisson's law says: a mean and a size for each component.

| symbol | name here |
|---|---|
| y = shift + scale · z, of mean λ and variance V = λ + λ² / s | ``rates``, ``sizes`` |
| θ = V / λ − 1 = λ / s: what the variance has beside the mean, for each of it | ``excess`` |
| log p(y) = Σ_{k<y} log(1 + k/s) + y log(λ / (1 + θ)) − s log(1 + θ) − log y! | ``log_mass`` |
| [y > k] for 0 < k < h, and (y − h)⁺ ℓ_j(log y): the sum as Σ_j t_j(y) c_j(s) | `own_statistics` |
| E[y f(y)] = λ E[f(y + 1)] + θ E[y (f(y + 1) − f(y))] | ``moments``, ``slopes`` |

The sum over k < y is exact up to h = 16. Beyond, its mean over h ≤ k < y is a smooth function of
log y, and ℓ_j are the polynomials that interpolate it at Chebyshev's points y_j: twenty serve
thousands of distinct counts. So EM needs the sums of some thirty statistics, and no histogram.
At the Poisson limit, s → ∞, all maps have the values of Poisson's law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import on_device_of
from momentmix.errors import InputError
from momentmix.families.block import ColumnBlock
from momentmix.families.count import WholeFamily, WholeLaw, checked_rates, powers_of_counts
from momentmix.families.family import Estimate, Quantities, Quantity, Value
from momentmix.families.law import PSEUDO_ROWS, Prior
from momentmix.wording import short_repr

LEAST_SIZE = 1e-3
LEAST_EXCESS = 1e-4  # of the variance beside the mean: less needs 1e8 rows to be seen
_HEAD = 16  # counts whose sums are exact; Stirling's series has an error of 1e-12 beyond
_TOPS = 4, 16, 256, 4096, 65536
_TOP = 1 << 20  # largest count of a law that has seen no rows; beyond, log p is linear in y
_NODES = 3.0  # for each unit of log y: the interpolated means then have errors of about 1e-11
_TABLE = 4096  # counts whose statistics are held in memory
_MOST_NODES, _MOST_OWN = 48, 64  # of a law with the largest top, in compiled code
_STEPS = 40  # of a search for the best size; most take five
_CLOSE = 1e-6  # of the logarithm of a size
_REACH = 40.0  # e^-40 is beyond what double precision adds to a sum


@dataclass(frozen=True)
class NegativeBinomialLaw(WholeLaw):
    """One feature, a count with a variance of its own.

    Parameters
    ----------
    features, shift, scale
        As in `WholeLaw`.
    top : int
        Largest count whose density is exact.
    """

    top: int = _TOP
    noun: ClassVar[str] = "a negative binomial count"

    @property
    def free(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def n_own(self) -> int:
        return len(_nodes(self.top)[1]) + min(self.top, _HEAD) - 1

    @property
    def compiled(self) -> tuple[int, tuple[Any, ...]] | None:
        """Units, head and nodes, and the means of t over all rows."""
        head, nodes, _ = _nodes(self.top)
        padded, overall = np.zeros(_MOST_NODES), np.zeros(_MOST_OWN)
        padded[: nodes.size], overall[: self.n_own] = nodes, self._overall()
        return 4, (self.shift, self.scale, head, nodes.size, padded, overall)

    def covering(self, largest: float) -> Self:
        # Few kinds: laws of one kind are one call. Counts up to the head are exact.
        return replace(self, top=next((top for top in _TOPS if largest <= top), _TOP))

    # -- statistics and densities -----------------------------------------------------------------

    def own_statistics(self, values: Any, xp: Any = np) -> Any:
        counts = self.shift + self.scale * values
        counts = xp.where(counts > 0, counts, xp.zeros_like(counts))  # NaN stays in z
        if xp is np and counts.size and counts.max() < _TABLE - 1:
            places = np.rint(counts[..., 0, :]).astype(np.int64)
            return np.moveaxis(_statistics_table(self.top)[:, places], 0, -2)
        return _statistics(counts, self.top, xp)

    def sizes(self, rates: Float, variances: Float) -> Float:
        """s of rates (…) and variances (…, 1) of the feature, of shape (…)."""
        excess = np.asarray(self.scale**2 * variances[..., 0] / rates - 1.0)
        return np.clip(rates / np.maximum(excess, LEAST_EXCESS), LEAST_SIZE, rates / LEAST_EXCESS)

    def parameters(self, means: Float, variances: Float) -> tuple[Float, ...]:
        rates = self.rates(means)
        return rates, self.sizes(rates, variances)

    def _both(self, rates: Float, sizes: Float) -> tuple[Float, Float]:
        """Means and variances (…, 1) of the feature."""
        variances = rates * (1.0 + rates / sizes) / self.scale**2
        return ((rates - self.shift) / self.scale)[..., None], variances[..., None]

    def completed(self, means: Float, variances: Float) -> tuple[Float, Float]:
        return self._both(*self.parameters(means, variances))

    def coefficients(self, means: Float, variances: Float) -> Float:
        rates, sizes = self.parameters(means, variances)
        by_count = np.log(rates) - np.log1p(rates / sizes)
        constant = self.shift * by_count - sizes * np.log1p(rates / sizes)
        first = np.stack([self.scale * by_count, np.zeros_like(rates)], axis=-1)
        own = _sums_of_logs(sizes, self.top)[0]
        return np.concatenate([first, own, constant[..., None]], axis=-1)

    def _overall(self) -> Float:
        """E t over all rows, as if these had one size, of shape (…, n_own)."""
        shift, scale = np.broadcast_arrays(self.shift, self.scale)
        own = [_mean_statistics(*u, self.top) for u in zip(shift.flat, scale.flat, strict=True)]
        return np.array(own).reshape(*shift.shape, -1)

    def m_step(
        self, counts: Float, sums: Float, squares: Float, own: Float, prior: Prior
    ) -> tuple[Float, Float]:
        """The mean of the rows and of one like all rows together, and the best size for it."""
        n = counts + PSEUDO_ROWS
        means = sums / n
        rates = self.rates(means)
        start = self.sizes(rates, (squares + PSEUDO_ROWS) / n - means**2)
        own = own + PSEUDO_ROWS * self._overall()
        return self._both(rates, _best_sizes(n[..., 0], rates, own, start, self.top))

    def log_prior(self, means: Float, variances: Float, prior: Prior) -> Float:
        """As if one row were like all rows together; z is 0 in it."""
        table = self.coefficients(means, variances)
        own = (table[..., 2:-1] * self._overall()).sum(axis=-1)
        return np.asarray(PSEUDO_ROWS * (own + table[..., -1]))

    def prior_slopes(self, means: Float, variances: Float, prior: Prior) -> tuple[Float, Float]:
        """The curvature of the mean and the variance of one row."""
        table, (rates, sizes) = self.scores(means, variances), self.parameters(means, variances)
        slope = PSEUDO_ROWS * (table[..., 2:-1] @ self._overall() + table[..., -1])
        excess = rates / sizes
        second = rates * (1 + excess)
        third, fourth = second * (1 + 2 * excess), second * (1 + 6 * excess * (1 + excess))
        noise = np.stack([second, third, third, fourth + 2 * second**2], axis=-1)
        units = np.array([self.scale, self.scale**2])
        known = np.asarray(np.linalg.inv(noise.reshape(-1, 2, 2)), np.float64)
        return slope, PSEUDO_ROWS * known * np.outer(units, units)

    def scores(self, means: Float, variances: Float) -> Float:
        rates, s = self.parameters(means, variances)
        table = np.zeros((*rates.shape, 2, self.n_own + 3))
        by_rate, by_size = np.zeros((2, *rates.shape, self.n_own + 3))
        slope = s / (rates * (s + rates))  # of y
        by_rate[..., 0], by_rate[..., -1] = self.scale * slope, (self.shift - rates) * slope
        slope, excess = rates / (s * (s + rates)), rates / s
        by_size[..., 0] = self.scale * slope
        by_size[..., 2:-1] = _sums_of_logs(s, self.top)[1] / s[..., None]
        by_size[..., -1] = self.shift * slope - np.log1p(excess) + excess / (1 + excess)
        turn = (s / rates) ** 2  # −∂s/∂V
        table[..., 0, :] = by_rate + (2 * s / rates + turn)[..., None] * by_size
        table[..., 1, :] = -self.scale * turn[..., None] * by_size
        return np.asarray(self.scale * table)

    # -- moments ----------------------------------------------------------------------------------

    def _powers(self, means: Float, variances: Float, exponents: Int) -> tuple[Float, Float]:
        rates = self.rates(means)
        # No bound of the excess: moments are polynomials in it.
        excess = self.scale**2 * variances[:, 0] / rates - 1.0
        highest = int(exponents.max(initial=0))
        return powers_of_counts(rates, excess, self.shift, self.scale, highest)

    def moments(self, means: Float, variances: Float, exponents: Int) -> Float:
        return self._powers(means, variances, exponents)[0][exponents[:, 0]]

    def slopes(self, means: Float, variances: Float, exponents: Int) -> Float:
        _, slopes = self._powers(means, variances, exponents)
        rates = self.rates(means)
        ratio = self.scale**2 * variances[:, 0] / rates  # 1 + θ = V / λ
        by_rate = self.scale * (slopes[:, 0] - slopes[:, 1] * ratio / rates)
        by_variance = self.scale**2 * slopes[:, 1] / rates
        return np.stack([by_rate, by_variance], axis=1)[exponents[:, 0]]

    def sample(self, means: Float, variances: Float, n: int, rng: np.random.Generator) -> Float:
        rates, sizes = self.parameters(means, variances)
        counts = drawn_counts(rates, sizes, n, rng)
        return ((counts - self.shift) / self.scale)[:, None]

    def quadrature(
        self, place: int, means: Float, variances: Float, degree: int
    ) -> tuple[Float, Float]:
        """Counts from 0 to the largest that occurs, all small ones; weights of cells about them."""
        rates = self.rates(means)[:, None]
        sizes = self.sizes(rates, variances[..., None])
        deviations = np.sqrt(rates * (1 + rates / sizes))
        last = rates + _REACH * (deviations + rates / sizes + 1.0)
        parts = [
            np.broadcast_to(np.arange(512.0), (len(rates), 512)),
            rates + deviations * np.linspace(-10, 10, 800),
            np.exp(np.linspace(log(512), np.log(np.maximum(last[:, 0], 1024)), 700)).T,
        ]
        counts = np.sort(np.clip(np.rint(np.hstack(parts)), 0, None), axis=1)
        middles = 0.5 * (counts[:, 1:] + counts[:, :-1])
        widths = np.diff(middles, prepend=-0.5, append=counts[:, -1:] + 0.5)
        exact = NegativeBinomialLaw((0,))
        weights = widths * np.exp(exact.log_masses(counts, rates, self.scale**2 * variances))
        return (counts - self.shift) / self.scale, weights / weights.sum(axis=1, keepdims=True)

    # -- bounds -----------------------------------------------------------------------------------

    def positive(self, means: Float, variances: Float) -> tuple[Float, Float]:
        """The rate, and the variance less the rate."""
        rates, slopes = self.rates(means), np.zeros((len(means), 2, 2))
        slopes[:, 0, 0], slopes[:, 1] = self.scale, [-self.scale, self.scale**2]
        return np.stack([rates, self.scale**2 * variances[:, 0] - rates], axis=1), slopes

    @property
    def prior_positive(self) -> Float:
        return np.array([PSEUDO_ROWS * self.shift, 0.0])

    def at_zero(self, means: Float, variances: Float, counts: Float) -> NDArray[np.bool_]:
        """As for other laws; the variance of rows is at most their mean without that of the prior.

        The row of the prior is like all rows together.
        """
        zero = super().at_zero(means, variances, counts)
        rates, excess = self.positive(means, variances)[0].T
        added = self.scale**2 - self.shift + (self.shift - rates) ** 2
        own = (counts + PSEUDO_ROWS) * excess - PSEUDO_ROWS * np.maximum(added, 0.0)
        zero[:, 1] = (own <= 0) | (excess <= 2 * LEAST_EXCESS * rates)
        return zero

    def base(self, counts: Float) -> Float:
        from scipy.special import gammaln  # not where rows are only read: it takes long

        return np.asarray(-gammaln(counts + 1.0))

    def with_positive(self, values: Float, means: Float, variances: Float) -> tuple[Float, Float]:
        moved = (values[:, :1] - self.shift) / self.scale
        return self.completed(moved, values.sum(axis=1, keepdims=True) / self.scale**2)


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


def _sums_of_logs(sizes: Float, top: int) -> tuple[Float, Float, Float]:
    """c(s), such that Σ_{k<y} log(1 + k/s) = c(s) · t(y), and two derivatives by log s.

    Beyond h, (log Γ(y + s) − log Γ(h + s)) / (y − h) − log s by Stirling's series.
    """
    head, nodes, _ = _nodes(top)
    s = sizes[..., None]
    cells = np.arange(1.0, head + (nodes.size == 1))
    log_part, first, second = (
        np.log1p(cells / s),
        -cells / (s + cells),
        cells * s / (s + cells) ** 2,
    )
    if nodes.size == 1:
        return log_part, first, second
    gap, low, high = nodes - head, s + head, s + nodes
    log_ratio, a, b = np.log1p(gap / low), 1.0 / high, 1.0 / low

    def rest(x: Float) -> Float:  # of log Γ(1/x) beside (1/x − 1/2) log(1/x) − 1/x
        return x * (1 / 12 - x**2 * (1 / 360 - x**2 * (1 / 1260 - x**2 / 1680)))

    def digamma(x: Float) -> Float:  # less log(1/x)
        return -x * (1 / 2 + x * (1 / 12 - x**2 * (1 / 120 - x**2 * (1 / 252 - x**2 / 240))))

    def trigamma(x: Float) -> Float:
        return x * (1 + x * (1 / 2 + x * (1 / 6 - x**2 * (1 / 30 - x**2 * (1 / 42 - x**2 / 30)))))

    value = ((high - 0.5) * log_ratio + rest(a) - rest(b)) / gap - 1.0 + np.log1p(head / s)
    slope = s * (log_ratio + digamma(a) - digamma(b)) / gap
    curvature = slope + s**2 * (trigamma(a) - trigamma(b)) / gap
    return (
        np.concatenate([log_part, value], axis=-1),
        np.concatenate([first, slope - 1.0], axis=-1),
        np.concatenate([second, curvature], axis=-1),
    )


def _best_sizes(n: Float, rates: Float, own: Float, start: Float, top: int) -> Float:
    """Sizes of the largest likelihood of n rows with mean `rates` and sums `own` of t.

    Newton's steps for log s within an interval that holds the best; halves of it where they leave
    it, unless an end is the best.
    """
    shape, own = start.shape, own.reshape(-1, own.shape[-1])
    n, rates = np.broadcast_to(n, shape).ravel(), rates.ravel()
    x, most, left = np.log(start).ravel(), np.log(rates / LEAST_EXCESS), np.arange(start.size)
    least = np.full_like(x, log(LEAST_SIZE))
    low, high = least.copy(), most.copy()
    for _ in range(_STEPS):
        here, r, m, t = x[left], rates[left], n[left], own[left]
        s = np.exp(here)
        _, first, second = _sums_of_logs(s, top)
        logs = s * np.log1p(r / s)
        slope = (t * first).sum(axis=-1) + m * (r - logs)
        curvature = (t * second).sum(axis=-1) - m * (logs - r * s / (s + r))
        low[left] = bottom = np.where(slope > 0, here, low[left])
        high[left] = ceiling = np.where(slope > 0, high[left], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(curvature < 0, here - slope / curvature, 0.5 * (bottom + ceiling))
        # An end that is not tried yet is; else the middle of the interval.
        below, above = moved <= bottom, moved >= ceiling
        end = np.where(below, bottom, ceiling)
        is_new = np.where(below, bottom == least[left], ceiling == most[left])
        moved = np.where((below | above) & ~is_new, 0.5 * (bottom + ceiling), moved)
        x[left] = moved = np.where((below | above) & is_new, end, moved)
        left = left[np.abs(moved - here) > _CLOSE]
        if not left.size:
            break
    return np.exp(x).reshape(shape)


@lru_cache(maxsize=1024)
def _mean_statistics(rate: float, deviation: float, top: int) -> Float:
    """E t(y) of counts with a mean and a deviation, of shape (n_own,)."""
    at = np.array([[rate]]), np.array([[deviation**2]])
    counts, weights = NegativeBinomialLaw((0,)).quadrature(0, *at, 0)
    return cast(Float, _statistics(counts, top) @ weights[0])


def drawn_counts(rates: Any, sizes: Any, n: int, rng: np.random.Generator) -> Float:
    """Counts (n,) of means and sizes that broadcast to (n,)."""
    return rng.negative_binomial(sizes, sizes / (sizes + rates), size=n).astype(np.float64)


# -- blocks and family ----------------------------------------------------------------------------


@short_repr
@dataclass(frozen=True, eq=False)
class NegativeBinomialBlock(ColumnBlock):
    """A column of counts whose variance is mean + mean² / size.

    Parameters
    ----------
    means : array of shape (n_components,)
        Mean counts where the cell is seen; NaN in a component that never sees one. Kept with shape
        (n_components, 1), as blocks of all families have means.
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
        self._keep(rates[:, None])
        most = np.maximum(rates, 1.0) / LEAST_EXCESS
        sizes = np.where(np.isnan(self.means[:, 0]), np.nan, np.minimum(sizes, most))
        sizes.setflags(write=False)
        object.__setattr__(self, "sizes", sizes)

    @property
    def covariances(self) -> Float:
        return (self.means * (1 + self.means / self.sizes[:, None]))[:, :, None]

    @property
    def others(self) -> Float:
        """Dispersions: 1 / size."""
        return 1.0 / self.sizes[:, None]


class NegativeBinomial(WholeFamily):
    """Counts whose variance may exceed their mean."""

    name = "negative_binomial"
    law_type = NegativeBinomialLaw
    block_type = NegativeBinomialBlock
    parameters: ClassVar[Mapping[str, int]] = {"means": 2, "sizes": 1}
    entries = ("mean", "variance", "dispersion")

    def value_quantities(self, e: Estimate, value: Value) -> Quantities:
        """Mean, variance, and dispersion: (variance − mean) / mean²."""
        (rates, excess), slopes = (x.swapaxes(0, 1) for x in value.positive)
        counts, (at_zero, is_poisson) = value.counts, value.zero.T
        rate = Quantity(rates, slopes[0], "log", counts, at_zero, least=0.0)
        variance = Quantity(rates + excess, slopes.sum(axis=0), "log", counts, at_zero)
        by_excess, by_rate = 1 / rates**2, -2 * excess / rates**3
        slope = by_excess[:, None] * slopes[1] + by_rate[:, None] * slopes[0]
        dispersion = Quantity(excess * by_excess, slope, "log", counts, is_poisson)
        return Quantities(rate, variance, None, (dispersion,))
