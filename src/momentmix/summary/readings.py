"""Exact sums → float64 moments about any origin, in any unit.

| paper symbol | name here | shape |
|---|---|---|
| (M_t)_{Ω_t} of (y − shift)/scale | ``Moments.distinct[t]`` | (C(d, t),) |
| (M_{s+2})_{L_j} of (y − shift)/scale | ``Moments.squared[s][j]`` | (C(d−1, s),) |
| E z_j^p, p = 3 … 6, of z = (y − shift)/scale | ``Moments.powers[p − 3]`` | (d,) |
| E z_j³ z_k, E z_j² z_k² | ``Moments.cubed[j]``, ``Moments.two_squares`` | (d−1,), (C(d, 2),) |

The unit is first made as fine as the standard deviation and the origin moved to the wanted one to
the nearest unit, both exactly; what remains is a move by at most half a deviation in float64. So a
moment is as accurate as the sums, whatever the offset of the data.

Differs from the paper: moments of raw data are shift = 0, scale = 1; the default standardizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import frexp, inf, ldexp, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.summary.digits import Frame, floats, reframed
from momentmix.summary.layout import passes, products_of
from momentmix.summary.totals import Totals
from momentmix.wording import short_repr


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
    powers : array of shape (4, d)
        Means of the third to the sixth power of each feature; NaN where they exceed float64.
    cubed : array of shape (d, d − 1), or None
        Means of the cube of feature j times another one; row j runs over the others. None without
        moments beside squares, squared_order = 0.
    two_squares : array of shape (C(d, 2),), or None
        Means of the product of two squares, pairs in colex order, or None as before.
    """

    distinct: tuple[Float, ...]
    squared: tuple[Float, ...]
    shift: Float
    scale: Float
    n_rows: int
    sum_weights: float
    powers: Float
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


def mean(totals: Totals) -> Float:
    """Mean of each feature, correctly rounded."""
    means, weight, reading = list[float](), require_rows(totals).weight, totals.reading
    for e, k, s in zip(*reading.frame, reading.low_sums[0], strict=True):
        sums, bits = k * weight + s, e or 0  # a quotient of integers is rounded once
        means.append((sums << bits) / weight if bits > 0 else sums / (weight << -bits))
    return np.array(means)


def _variances(totals: Totals) -> list[tuple[Fraction, int]]:
    """Variance of each feature in squares of 2^e, at least 0, and e.

    A constant far from the origin of the frame has squares that are rounded; its bounds tell it.
    """
    weight, reading = require_rows(totals).weight, totals.reading
    varies = (totals.minimum < totals.maximum).tolist()
    columns = zip(reading.frame.exponents, *reading.low_sums, varies, strict=True)
    return [
        (Fraction(max(0, t * weight - s * s) if is_varying else 0, weight * weight), e or 0)
        for e, s, t, is_varying in columns
    ]


def variance(totals: Totals) -> Float:
    """Variance of each feature (divisor Σw), correctly rounded; at least 0, inf on overflow."""
    return np.array([_float(ratio * Fraction(4) ** e) for ratio, e in _variances(totals)])


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf


def deviation(totals: Totals) -> Float:
    """Standard deviation of each feature (divisor Σw); at least 0."""
    deviations = list[float]()
    for ratio, e in _variances(totals):
        bits = (ratio.numerator.bit_length() - ratio.denominator.bit_length()) // 2
        deviations.append(ldexp(sqrt(ratio / Fraction(4) ** bits), e + bits))  # units may be fine
    return np.array(deviations)


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
    d, means = totals.layout.n_features, mean(totals)
    center = means if shift is None else _vector("shift", shift, d)
    if scale is None:
        # The unit of a constant is its size, so that its standardized moments vanish in proportion.
        spread, size = deviation(totals), np.abs(means)
        return center, np.where(spread > 0, spread, np.where(size > 0, size, 1.0))
    unit = _vector("scale", scale, d)
    if (unit <= 0).any():
        raise InputError(f"scale must be positive; got {unit.min()}.")
    return center, unit


def _flat_moments(totals: Totals, shift: Float, scale: Float) -> Float:
    """All sums over Σw, about `shift` in units of `scale`; high ones NaN where they overflow."""
    layout, reading, spread = totals.layout, totals.reading, deviation(totals)
    exponents, origins, rests = list[int](), list[int](), list[float]()
    for e, deviation_, size, s in zip(
        reading.frame.exponents, spread.tolist(), scale.tolist(), shift.tolist(), strict=True
    ):
        wanted = frexp(deviation_ or size)[1] - 1
        exponents.append(wanted if e is None else min(e, wanted))
        unit = Fraction(2) ** exponents[-1]
        origins.append(round(Fraction(s) / unit))
        rests.append(float((Fraction(s) - origins[-1] * unit) / Fraction(size)))
    digits = reframed(layout, reading.digits, reading.frame, Frame((*exponents,), (*origins,)))
    parts, sizes = np.frexp(scale)
    weight, weight_bits = np.frexp(totals.sum_weights)
    products, table = products_of(layout), np.append(1.0, 1.0 / parts)
    bits = products.sums(np.array(exponents) - sizes)
    with np.errstate(over="ignore", invalid="ignore"):
        values: Float = floats(digits, bits - int(weight_bits)) / float(weight)
        values *= table[products.indices].prod(axis=1)
        for rest, lines in zip(rests, products.lines, strict=True):
            for moments, below in passes(lines) if rest else ():
                values[moments] -= rest * values[below]
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong) and wrong[0] < layout.n_low:
        raise InputError(
            "these moments overflow float64 about this shift and scale. Standardize (the default), "
            "or use a scale near the standard deviations."
        )
    values[wrong] = nan
    return values


def require_rows(totals: Totals) -> Totals:
    """The totals, or an error if they hold no rows."""
    if not totals.weight:
        raise InputError("the summary holds no rows yet; call update() or add another summary.")
    return totals


def moments(
    totals: Totals, shift: ArrayLike | None = None, scale: ArrayLike | None = None
) -> Moments:
    """All moments about `shift` in units of `scale`."""
    origin = _target(totals, shift, scale)
    by_kind = dict[str, list[Float]]()
    values = _flat_moments(totals, *origin)
    values.setflags(write=False)
    for section in totals.layout.sections:
        array = values[section.place].reshape(section.shape)
        by_kind.setdefault(section.kind, []).append(array)
    return Moments(
        tuple(by_kind["distinct"]),
        tuple(by_kind["squared"]),
        *origin,
        totals.n_rows,
        totals.sum_weights,
        np.array(by_kind["power"]),
        cubed=by_kind.get("cubed", [None])[0],
        two_squares=by_kind.get("two squares", [None])[0],
    )
