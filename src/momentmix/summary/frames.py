"""The frame in which a block of rows is summed: a power of two and an origin for each feature.

The unit is at most the *median of the non-zero absolute deviations from the median*, and more than
a quarter of it: outliers do not change it, and a feature that is mostly one value has a unit of the
size of its other values. The origin is near the median. Both lie on a coarse grid, so that parts of
one table mostly have the same frame. The unit is never finer than 2^−44 of the largest
value, because float64 rows hold little below; so offsets up to 1e13 deviations keep all digits that
matter. A feature that is constant in the block is the origin, in units of its last binary digit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.summary.digits import Frame
from momentmix.summary.kernels.array_sums import Units

_EXPONENTS = 2  # units are powers of 4
_GRID = 4.0  # units between origins
_FLOOR_BITS = 44  # of the 53 of float64: nine are left for deviations below the unit
_ZERO = 1000  # exponent of a feature that is 0: 2^−1000 and 2^1000 are float64 numbers
FAR = 8.0  # units between the origin and the mean of a block: 8^4 roundings are 1e-12
_EXACT = 16  # parts of a unit: up to 8 units, their sixth powers are exact in 53 bits
_WIDE = 2.0**20  # units: rows that reach beyond are looked at closely


class RowFrame(NamedTuple):
    """A frame of rows; features that were constant in the block that set it are so in others."""

    exponents: Int
    origins: Float
    constant: NDArray[np.bool_]
    values: Float  # of the constant features

    @property
    def units(self) -> Units:
        """Factors and origins, as kernels take them."""
        return np.ldexp(1.0, -self.exponents), self.origins

    @property
    def frame(self) -> Frame:
        """The same for exact sums."""
        exponents = [None if e == _ZERO else e for e in self.exponents.tolist()]
        return Frame(tuple(exponents), tuple(map(int, self.origins.tolist())))

    def distance(self, ends: Float) -> Float:
        """Largest |z_j| of rows with these bounds, (…, 2, n_features)."""
        factor, origin = self.units
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(ends * factor - origin).max(axis=-2))

    def fits(self, ends: Float) -> NDArray[np.bool_]:
        """Whether each feature of blocks with these bounds can be summed here."""
        factor, origin = self.units
        with np.errstate(over="ignore"):
            points = ends * factor - origin
        low, high = np.moveaxis(points, -2, 0)
        same = (ends == self.values).all(axis=-2) | ~self.constant
        exact = (low != high) | (low * _EXACT == np.rint(low * _EXACT))  # so is the variance, 0
        return np.asarray(same & exact & (np.abs(points).max(axis=-2) <= _WIDE))

    def excludes(self, ends: Float) -> NDArray[np.bool_]:
        """Whether blocks with these bounds lie beyond the limit of their means as a whole."""
        factor, origin = self.units
        with np.errstate(over="ignore"):
            low, high = np.moveaxis(ends * factor - origin, -2, 0)
        return np.asarray(((low > 2 * FAR) | (high < -2 * FAR)).any(axis=-1))

    def replaced(self, other: RowFrame, which: NDArray[np.bool_]) -> RowFrame:
        """Return this frame with some features of another one."""
        pairs = zip(self, other, strict=True)
        return RowFrame(*[np.where(which, theirs, own) for own, theirs in pairs])


def frame_of(block: Float, ends: Float) -> RowFrame:
    """The frame of the rows of a block, which has these bounds."""
    n, d = block.shape
    columns, (low, high) = np.array(block.T, order="C"), ends
    middle = (n - 1) // 2
    columns.partition(middle, axis=1)
    medians = columns[:, middle].copy()
    deviations = np.abs(np.subtract(columns, medians[:, None], out=columns), out=columns)
    n_zeros = n - np.count_nonzero(deviations, axis=1)  # left out: the others stand behind them
    middles = np.minimum(n_zeros + (n - n_zeros - 1) // 2, n - 1)
    deviations.partition(np.unique(middles), axis=1)
    largest, constant = np.maximum(-low, high), low == high
    typical = np.frexp(deviations[np.arange(d), middles])[1] - 1
    last = [0 if x == 0.0 else _last_bit(x) for x in low.tolist()]
    exponents = np.where(constant, last, np.maximum(typical, np.frexp(largest)[1] - _FLOOR_BITS))
    exponents = np.maximum(exponents, -_ZERO) // _EXPONENTS * _EXPONENTS
    exponents = np.where(largest > 0, exponents, _ZERO).astype(np.int64)
    centers = np.ldexp(medians, -exponents)
    origins = np.where(constant, np.rint(centers), _GRID * np.rint(centers / _GRID))
    return RowFrame(exponents, origins, constant, low.copy())


def _last_bit(number: float) -> int:
    """The exponent of the last binary digit of a number other than 0."""
    numerator, denominator = number.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()
