"""The units in which a shard adds up: a power of two and an integer shift for each feature.

| symbol | name here |
|---|---|
| z_j = y_j·2^(−e_j) − k_j | ``exponents`` e, ``shift`` k |
| typical deviation of a feature in a block | ``typical_exponents`` |
| largest power of two in a monomial of a row | ``monomial_bits`` |

The unit is the power of two next to the *median of the non-zero absolute deviations from the
median*: outliers do not change it, and a feature that is mostly one value (sparse data) has a unit
of the size of its other values. It is never finer than 2^−44 of the largest value, because float64
rows hold little below; so offsets up to 1e13 standard deviations keep all digits that matter.

A feature that is constant so far has the unit of the last binary digit of its value, and so z = 0.
Zero is neutral: it takes any unit.
"""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import readable
from momentmix.errors import InputError
from momentmix.native import code
from momentmix.summary.exact.exact_sums import LARGEST_REACH
from momentmix.summary.kernels.array_sums import Units

_MANY = 1 << 19  # values whose bounds are worth several threads
_FLOOR_BITS = 44  # of the 53 of float64: nine are left for deviations below the unit
_LIMIT_BITS = 800  # of a monomial of one row; 2^223 rows or weights fit above it in float64
_LEAST = -1000  # exponents: 2^1000 is a float64 number
WIDE = 2.0**20  # units: rows that reach beyond are looked at closely


class ShardUnits:
    """Units of all features."""

    def __init__(self, exponents: Int, shift: Float) -> None:
        self.exponents, self.shift = exponents, shift  # integers below 2^53
        self.factors: Units = np.ldexp(1.0, -exponents), shift

    def distance(self, ends: Float) -> Float:
        """Largest |z_j| of rows with these bounds, (…, 2, n_features)."""
        factor, shift = self.factors
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(ends * factor - shift).max(axis=-2))


def block_extremes(blocks: Float, n_threads: int = 1) -> Float:
    """Minima and maxima, (n_blocks, 2, d), of contiguous blocks (n_blocks, n, d) without NaN."""
    n_blocks, n_rows, d = blocks.shape
    ends = np.empty((n_blocks, 2, d))
    if code is not None:
        n_threads = n_threads if blocks.size >= _MANY else 1
        blocks = readable(np.ascontiguousarray(blocks))
        code.extremes(blocks, n_blocks, n_rows, d, ends, n_threads)
        return ends
    if n_rows % 16 == 0:  # long rows are several times faster
        blocks = blocks.reshape(n_blocks, n_rows // 16, 16 * d)
        for side, least in enumerate((np.min, np.max)):
            ends[:, side] = least(least(blocks, axis=1).reshape(n_blocks, 16, d), axis=1)
        return ends
    ends[:, 0], ends[:, 1] = blocks.min(axis=1), blocks.max(axis=1)
    return ends


def floor_exponent(largest: float) -> int:
    """Finest exponent allowed for a feature whose absolute values reach `largest`."""
    return max(_LEAST, frexp(largest)[1] - _FLOOR_BITS)


def typical_exponents(block: Float) -> list[tuple[int, float] | None]:
    """Return the exponent of the typical deviation and the median of each column that varies."""
    found = (x.tolist() for x in _typical_of(block))
    return [(e, median) if varies else None for e, median, varies in zip(*found, strict=True)]


def _typical_of(block: Float) -> tuple[Int, Float, NDArray[np.bool_]]:
    """Exponents of the typical deviations, medians, and which columns vary."""
    n, k = block.shape
    exponents, n_zeros = np.empty((2, k), dtype=np.int64)
    medians = np.empty(k)
    if code is not None and k:
        code.typical(readable(np.ascontiguousarray(block)), n, k, exponents, medians, n_zeros)
    elif k:
        exponents, medians, n_zeros = _typical(block)
    return exponents, medians, n_zeros < n


def _typical(block: Float) -> tuple[Int, Float, Int]:
    """Exponents of the typical deviations, medians, and how many values are the median."""
    columns = np.array(block.T, order="C")
    k, n = columns.shape
    middle = (n - 1) // 2
    medians = np.partition(columns, middle, axis=1)[:, middle]
    columns -= medians[:, None]
    deviations = np.abs(columns, out=columns)
    n_zeros = n - np.count_nonzero(deviations, axis=1)  # left out: the others stand behind them
    middles = np.minimum(n_zeros + (n - n_zeros - 1) // 2, n - 1)
    deviations.partition(np.unique(middles), axis=1)
    exponents = np.maximum(_LEAST, np.frexp(deviations[np.arange(k), middles])[1])
    return exponents, medians, n_zeros


def choose_units(block: Float, ends: Float) -> ShardUnits:
    """The units of a shard, from its first block and the bounds of that."""
    exponents, values, varies = _typical_of(block)
    floors = np.frexp(np.maximum(-ends[0], ends[1]))[1] - _FLOOR_BITS
    exponents = np.where(varies, np.maximum(exponents, np.maximum(_LEAST, floors)), 0)
    values = np.where(varies, values, ends[0])
    for j in np.flatnonzero(~varies & (values != 0.0)).tolist():
        exponents[j] = max(_LEAST, last_bit(float(values[j])))
    return ShardUnits(exponents, np.rint(np.ldexp(values, -exponents)))  # below 2^53: exact


def last_bit(number: float) -> int:
    """Return the exponent of the last binary digit of a number other than 0."""
    numerator, denominator = number.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def monomial_bits(bits: Float, order: int, squared_order: int) -> Any:
    """Bits of the largest monomial, from the bits (≥ 0) of each |z_j|, along the last axis."""
    ordered = -np.sort(-bits, axis=-1)
    distinct = ordered[..., :order].sum(axis=-1)
    squared = 2 * ordered[..., 0] + ordered[..., 1 : squared_order + 1].sum(axis=-1)
    return np.maximum(distinct, squared)


def sum_bits(distances: Float, order: int, squared_order: int) -> float:
    """Return the bits of the largest monomial of rows that reach so far, powers included."""
    bits = _bits(distances)
    return float(max(monomial_bits(bits, order, squared_order), LARGEST_REACH * bits.max()))


def _bits(points: Float) -> Float:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log2(np.abs(points)), 0.0)


def reach_allowed(order: int) -> float:
    """Size of z_j up to which no monomial of a summary can exceed the range of the sums."""
    return float(2.0 ** (_LIMIT_BITS / (order + 2)))


def degrees_in_range(distances: Float) -> NDArray[np.int64]:
    """Return the highest degree, 2 … 6, of monomials of these sizes that stay in range."""
    bits = np.frexp(distances)[1].astype(np.int64)  # whole numbers: the same on every machine
    return np.asarray(np.clip(_LIMIT_BITS // np.maximum(bits, 1), 2, LARGEST_REACH))


def check_outliers(
    block: Float, ends: Float, units: ShardUnits, degrees: tuple[int, int], names: Any
) -> None:
    """Raise where a row's monomials exceed the range; `names` give its place for the message."""
    reach = units.distance(ends)
    if reach.max() <= reach_allowed(degrees[0]):
        return
    with np.errstate(over="ignore"):
        if monomial_bits(_bits(reach), *degrees) <= _LIMIT_BITS:
            return
        factor, shift = units.factors
        bits = _bits(block * factor - shift)
        totals = monomial_bits(bits, *degrees)
    if not (totals > _LIMIT_BITS).any():
        return
    row = int(np.argmax(totals))
    column = int(np.argmax(bits[row]))
    size = bits[row, column] * np.log10(2)
    raise InputError(
        f"{names(row, column)} is {block[row, column]:.6g}, about 10^{size:.0f}"
        f" typical deviations away from the other rows; its moments of order {degrees[0]} exceed "
        "the range of the exact sums. Remove or clip the outlier, or lower the order."
    )
