"""Exact sums → float64 moments about any origin, in any unit.

| paper symbol | name here | shape |
|---|---|---|
| (M_t)_{Ω_t} of (y − shift)/scale | ``Moments.distinct[t]`` | (C(d, t),) |
| (M_{s+2})_{L_j} of (y − shift)/scale | ``Moments.squared[s][j]`` | (C(d−1, s),) |
| E z_j^p, p = 3 … 6, of z = (y − shift)/scale | ``Moments.powers[p − 3]`` | (d,) |
| E z_j³ z_k, E z_j² z_k² | ``Moments.cubed[j]``, ``Moments.two_squares`` | (d−1,), (C(d, 2),) |

The unit is first made finer than 2^−8 standard deviations and the origin moved to the wanted one to
the nearest unit, both exactly in integers; one correctly rounded division by Σw makes float64
numbers, and the remaining move by at most half such a unit costs nothing visible. So a moment is
as accurate as the sums, whatever the offset of the data.

Differs from the paper: moments of raw data are shift = 0, scale = 1; the default standardizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import inf, ldexp, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.summary.exact.exact_sums import (
    LARGEST_REACH,
    ExactSums,
    absent_places,
    coarser,
    move,
    reframed,
)
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import Layout, products_of
from momentmix.wording import short_repr

_OVERFLOW = (
    "these moments overflow float64 about this shift and scale. Standardize (the default), or use "
    "a scale near the standard deviations."
)


@short_repr
@dataclass(frozen=True, eq=False)
class Moments:
    """Means of products of features, as float64 numbers.

    Parameters
    ----------
    distinct : tuple of arrays of shape (C(d, t),), t = 0 … order
        E[Π_{i∈I} (y_i − shift_i)/scale_i], index sets I in colex order.
    squared : tuple of arrays of shape (d, C(d−1, s)), s = 0 … squared_order
        The same with a squared factor j; row j runs over the sets without j.
    shift, scale : arrays of shape (d,)
    n_rows : int
    sum_weights : float
    powers : array of shape (4, d), or None
        Means of the third to the sixth power of each feature; NaN for one that is absent, since an
        outlier exceeded the range of the sums or the mean that of float64.
    cubed : array of shape (d, d − 1), or None
        Means of the cube of feature j times another one; row j runs over the others.
    two_squares : array of shape (C(d, 2),), or None
        Means of the product of two squares, pairs in colex order. Both are kept with order ≥ 4, or
        with two or three features and squared_order ≥ 1.
    """

    distinct: tuple[Float, ...]
    squared: tuple[Float, ...]
    shift: Float
    scale: Float
    n_rows: int
    sum_weights: float
    powers: Float | None = None
    cubed: Float | None = None
    two_squares: Float | None = None

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.shift)

    @property
    def order(self) -> int:
        """Highest order with distinct indices."""
        return len(self.distinct) - 1

    @property
    def squared_order(self) -> int:
        """Largest number of further factors beside a squared one."""
        return len(self.squared) - 1


def deviation(totals: Totals) -> Float:
    """Standard deviation of each feature (divisor Σw); at least 0."""
    weight, values = totals.weight, []
    for e, s, t in zip(totals.exponents, totals.first, totals.second, strict=True):
        square, unit = max(0, t * weight - s * s), weight * weight
        bits = (square.bit_length() - unit.bit_length()) // 2  # units may be absurdly fine
        ratio = square / (unit << 2 * bits) if bits > 0 else (square << -2 * bits) / unit
        values.append(0.0 if e is None else ldexp(sqrt(ratio), e + bits))
    return np.array(values)


def variance(totals: Totals) -> Float:
    """Variance of each feature (divisor Σw), correctly rounded; at least 0, inf on overflow."""
    weight, values = totals.weight, []
    for e, s, t in zip(totals.exponents, totals.first, totals.second, strict=True):
        exact = Fraction(max(0, t * weight - s * s), weight * weight)
        try:
            values.append(0.0 if e is None else float(exact * Fraction(4) ** e))
        except OverflowError:
            values.append(inf)
    return np.array(values)


def _vector(name: str, value: ArrayLike, n_features: int) -> Float:
    vector = np.asarray(value, dtype=np.float64)
    if vector.ndim > 1 or (vector.ndim == 1 and vector.shape != (n_features,)):
        raise InputError(
            f"{name} must be a number or have shape ({n_features},); got shape {vector.shape}."
        )
    if not np.isfinite(vector).all():
        raise InputError(f"{name} must be finite; got {value!r}.")
    return np.array(np.broadcast_to(vector, (n_features,)))


def _target(
    totals: Totals, shift: ArrayLike | None, scale: ArrayLike | None
) -> tuple[Float, Float]:
    """Return the wanted origin and unit; by default mean and standard deviation."""
    d = totals.layout.n_features
    center = totals.mean if shift is None else _vector("shift", shift, d)
    if scale is None:
        # The unit of a constant is its size, so that its standardized moments vanish in proportion.
        spread, size = deviation(totals), np.abs(totals.mean)
        return center, np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    unit = _vector("scale", scale, d)
    if (unit <= 0).any():
        raise InputError(f"scale must be positive; got {unit.min()}.")
    return center, unit


class NearSums(NamedTuple):
    """Sums near the wanted origin, in units that are fine enough."""

    sums: ExactSums
    rests: list[float]  # of the way to the origin, in units; at most half a unit
    factors: Float  # units over the wanted scale, (d,)


def near_sums(totals: Totals, shift: Float, scale: Float) -> NearSums:
    """The sums about an integer number of units next to `shift`: exact."""
    spread = deviation(totals)
    size = np.hypot(spread, totals.mean - shift)  # of what is multiplied
    size = np.where(size > 0, size, scale)
    wanted = (np.frexp(np.where(spread > 0, spread, size))[1] - 9).tolist()
    exponents = [w if e is None else e for e, w in zip(totals.exponents, wanted, strict=True)]
    bits = [max(0, e - w) for e, w in zip(exponents, wanted, strict=True)]
    units = [e - a for e, a in zip(exponents, bits, strict=True)]
    origin = [Fraction(float(s)) / Fraction(2) ** u for s, u in zip(shift, units, strict=True)]
    whole = [round(x) for x in origin]
    deltas = [w - (k << a) for w, k, a in zip(whole, totals.shifts, bits, strict=True)]
    sums = reframed(totals.sums, bits, deltas)
    rests = [float(x - w) for x, w in zip(origin, whole, strict=True)]
    coarsest = (np.frexp(size)[1] - 17).tolist()
    coarse = [max(0, c - u) for c, u in zip(coarsest, units, strict=True)]
    if any(coarse):  # far finer units would leave the range of float64
        sums = coarser(sums, coarse)
        rests = [ldexp(rest, -a) for rest, a in zip(rests, coarse, strict=True)]
    ratios = [
        Fraction(2) ** (u + a) / Fraction(float(s))
        for u, a, s in zip(units, coarse, scale, strict=True)
    ]
    return NearSums(sums, rests, np.array([float(ratio) for ratio in ratios]))


def flat_moments(totals: Totals, shift: Float, scale: Float) -> Float:
    """All sums over Σw, about `shift` in units of `scale`; high ones NaN where they overflow."""
    layout, weight = totals.layout, totals.weight
    sums, rests, factors = near_sums(totals, shift, scale)
    values = sums.over(weight)
    values[absent_places(layout, totals.reach)] = nan
    with np.errstate(over="ignore", invalid="ignore"):  # distinguished below
        move(layout, values, rests)
        values *= _scales(layout, factors)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong) and wrong[0] < layout.without_high.n_entries:
        raise InputError(_OVERFLOW)
    values[wrong] = nan
    return values


def _scales(layout: Layout, factors: Float) -> Float:
    """By what each moment changes where features are multiplied by factors, (d,) or (d, n)."""
    products, top = products_of(layout), LARGEST_REACH
    powers = np.ones((top + 1, len(factors) + 1, *factors.shape[1:]))
    powers[1:, :-1] = [factors**p for p in range(1, top + 1)]
    columns = zip(products.degrees.T, products.features.T, strict=True)
    return np.asarray(reduce(np.multiply, (powers[column] for column in columns)))


def readings_of_many(totals: Sequence[Totals], shift: Float, scale: Float) -> Float:
    """Return moments of totals of one layout about one origin, (n, n_entries); NaN if one fails."""
    layout = totals[0].layout
    values = np.empty((layout.n_entries, len(totals)))
    rests, factors = np.empty((2, layout.n_features, len(totals)))
    for g, own in enumerate(totals):
        near = near_sums(own, shift, scale)
        rests[:, g], factors[:, g] = near.rests, near.factors
        is_whole = min(own.reach) == LARGEST_REACH
        values[:, g] = near.sums.floats() / own.weight if is_whole else nan
    with np.errstate(over="ignore", invalid="ignore"):
        move(layout, values, list(rests))
        values *= _scales(layout, factors)
    values[:, ~np.isfinite(values).all(axis=0)] = nan
    return values.T


def require_rows(totals: Totals) -> Totals:
    """The totals, or an error if they hold no rows."""
    if not totals.weight:
        raise InputError("the summary holds no rows yet; call update() or add another summary.")
    return totals


def moments(
    totals: Totals, shift: ArrayLike | None = None, scale: ArrayLike | None = None
) -> Moments:
    """All moments about `shift` in units of `scale`."""
    origin = _target(require_rows(totals), shift, scale)
    by_kind = dict[str, list[Float]]()
    values = flat_moments(totals, *origin)
    values.setflags(write=False)
    for section in sorted(totals.layout.sections, key=lambda section: section.size):
        array = values[section.place].reshape(section.shape)
        by_kind.setdefault(section.kind, []).append(array)
    if totals.layout.n_features == 1 and "power" in by_kind:  # sections of no entries
        by_kind |= {"cubed": [np.empty((1, 0))], "two squares": [np.empty(0)]}
    return Moments(
        tuple(by_kind["distinct"]),
        tuple(by_kind["squared"]),
        *origin,
        totals.n_rows,
        totals.sum_weights,
        powers=np.array(by_kind["power"]) if "power" in by_kind else None,
        cubed=by_kind.get("cubed", [None])[0],
        two_squares=by_kind.get("two squares", [None])[0],
    )
