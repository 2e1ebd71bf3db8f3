"""Exact sums in units that may still change: the memory of an open shard.

The units (see ``units``) come from the first block and are checked again before each block:

- a feature that was constant so far is left out (its z is 0) until it varies; then it gets a unit
  from the block at hand, and the sums that involve it follow from the others, exactly but for one
  rounding to the quantum;
- a block that spans less than 2^−6 units or reaches beyond 2^20 units, and every block whose number
  is a power of two, has its typical deviation compared with the unit: 2^3 times finer or 2^16 times
  coarser changes the unit (finer: exact; coarser: one rounding to the quantum of the new unit);
- after 1, 2, 4, …, 128 blocks and then every 128 the shift moves, exactly, to the running mean if
  that has left ±2 units and ±1 standard deviation.

All these decisions are functions of the rows.
"""

from __future__ import annotations

from fractions import Fraction
from math import ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.summary.exact.fixed_point import (
    DigitSums,
    add,
    coarser,
    digits_needed,
    unfold_constant,
)
from momentmix.summary.exact.high_sections import LARGEST_REACH, absent_places
from momentmix.summary.exact.integers.frames import reframed
from momentmix.summary.exact.integers.packed import Sums
from momentmix.summary.kernels.executor import Units
from momentmix.summary.layout import Layout
from momentmix.summary.shard.units import (
    check_outliers,
    constant_exponent,
    degrees_in_range,
    distance,
    floor_exponent,
    reach_allowed,
    round_ratio,
    sum_bits,
    typical_exponent,
    typical_exponents,
)

# A finer unit is exact, so a factor of 8 changes it; a coarser one rounds, so it has to be needed.
_FINER_BITS, _COARSER_BITS = 3, 16
_NARROW, _WIDE = 2.0**-6, 2.0**20  # spans and distances, in units, that call for a check


class MovingSums:
    """Sums and units of an open shard.

    Attributes
    ----------
    exponents, shifts : the units, of n_features entries
    constants : array of shape (n_features,) or None
        Value of each feature that is constant so far, NaN for the others; None before block 1.
    digits : DigitSums
        What was added since the units last changed; `base` holds the rest as integers.
    reach : array of shape (n_features,)
        Highest degree of sums of high sections that each feature takes part in.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.exponents = np.zeros(layout.n_features, dtype=np.int64)
        self.shifts: list[int] = [0] * layout.n_features
        self.constants: Any = None
        self.digits = DigitSums(layout)
        self.base: Sums | None = None  # nothing
        self.weight_squares = 0
        self.reach = np.full(layout.n_features, LARGEST_REACH)
        self._units: Units | None = None

    def copy(self) -> MovingSums:
        """Independent copy."""
        twin = MovingSums.__new__(MovingSums)
        twin.__dict__.update(self.__dict__)
        twin.exponents, twin.digits = self.exponents.copy(), self.digits.copy()
        twin.shifts = list(self.shifts)
        twin.constants = None if self.constants is None else self.constants.copy()
        return twin

    @property
    def has_constants(self) -> bool:
        """Whether a feature is constant so far."""
        return not np.isnan(self.constants).all()

    def units(self) -> Units:
        """Inverse scales and shifts that take rows to units; they take constants to 0."""
        if self._units is None:
            varies = np.isnan(self.constants)
            self._units = np.ldexp(1.0, -self.exponents), np.array(self.shifts, dtype=np.float64)
            if not varies.all():
                factor, shift = self._units
                self._units = np.where(varies, factor, 0.0), np.where(varies, shift, 0.0)
        return self._units

    def _surely_fit(self, ends: Float) -> NDArray[np.bool_]:
        """Whether a quick look shows that blocks fit the units; most do.

        By half of what `adapt_units` and `check_outliers` allow, so that rounding cannot matter.
        """
        factor, shift = self.units()
        if not factor.all():
            return np.zeros(len(ends), dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = np.moveaxis(ends * factor - shift, 1, 0)
            reach = min(_WIDE, reach_allowed(self.layout.order)) / 2
            wide = (high - low).min(axis=1) > 2 * _NARROW
            return np.asarray(wide & (np.maximum(-low.min(axis=1), high.max(axis=1)) < reach))

    def n_fitting(self, ends: Float) -> int:
        """Number of blocks, before the first that does not, that fit the units as `fits` says.

        Their minima and maxima are of shape (n_blocks, 2, n_features).
        """
        for i in np.flatnonzero(~self._surely_fit(ends)).tolist():
            if not self.fits((ends[i, 0], ends[i, 1])):
                return int(i)
        return len(ends)

    def digits_for(self, ends: Float, n_rows: int, weights: Float | None) -> int:
        """Digits that hold all sums of a block of so many rows that fit, with these bounds."""
        degrees = self.layout.order, self.layout.squared_order
        heaviest = 1.0 if weights is None else max(1.0, float(weights.max()))
        bits = sum_bits(ends, self.units(), degrees) + 2 * np.log2(heaviest) + np.log2(n_rows)
        return digits_needed(2.0 ** (bits + 1))

    def check_outliers(self, block: Float, extremes: tuple[Float, Float], names: Any) -> None:
        """Raise where a row exceeds the range of the sums; names(row, column) says where."""
        columns = np.flatnonzero(np.isnan(self.constants))
        if len(columns):
            check_outliers(
                block if len(columns) == block.shape[1] else block[:, columns],
                (extremes[0][columns], extremes[1][columns]),
                self.exponents[columns],
                np.array([float(self.shifts[j]) for j in columns]),
                (self.layout.order, self.layout.squared_order),
                lambda row, column: names(row, int(columns[column])),
            )

    def surely_in_range(self, ends: Float) -> bool:
        """Whether a quick look shows that rows with these bounds, (2, n_features), reach no limit.

        Nothing is absent so far, and they stay within half of what every degree allows.
        """
        factor, shift = (x.tolist() for x in self.units())
        low, high = ends.tolist()
        allowed = min(_WIDE, reach_allowed(self.layout.order)) / 2
        for a, b, f, k in zip(low, high, factor, shift, strict=True):
            if not (-allowed < a * f - k and b * f - k < allowed):
                return False
        return bool(min(self.reach.tolist()) == LARGEST_REACH)

    def limit_reach(self, extremes: tuple[Float, Float]) -> Int:
        """Lower the reach where powers of rows with these bounds exceed the range of the sums.

        Returns where absent sums stand in the flat vector; what is added there must be 0.
        """
        shifts = np.array([float(k) for k in self.shifts])
        distances = distance(extremes, self.exponents, shifts)
        varies = np.isnan(self.constants)
        reach = degrees_in_range(np.where(varies, distances, 0.0))
        self.reach = np.minimum(self.reach, reach)
        return absent_places(self.layout, self.reach.tolist())

    def choose_units(self, block: Float, largest: Float) -> None:
        """Units of the first block, from its rows and their largest absolute values."""
        self._units = None
        self.constants = np.full(self.layout.n_features, np.nan)
        for j, (typical, size) in enumerate(
            zip(typical_exponents(block), largest.tolist(), strict=True)
        ):
            if typical is None:
                self.constants[j] = block[0, j]
                continue
            exponent = max(typical[0], floor_exponent(size))
            self.exponents[j] = exponent
            self.shifts[j] = round(ldexp(typical[1], -exponent))  # below 2^45: exact

    def adapt_units(
        self, block: Float, extremes: tuple[Float, Float], largest: Float, examine: bool
    ) -> None:
        """Change the units where a block does not fit them.

        Parameters
        ----------
        block : array of shape (n_rows, n_features)
        extremes : (minimum, maximum) of the block by feature
        largest : array of shape (n_features,)
            Largest absolute values so far, the block included.
        examine : bool
            Look at every feature, not only at those that look wrong.
        """
        low, high = extremes
        constant = ~np.isnan(self.constants)
        varies = constant & ((low != self.constants) | (high != self.constants))
        for j in varies.nonzero()[0].tolist():
            typical = typical_exponent(np.append(block[:, j], self.constants[j]))
            assert typical is not None
            self._unfold(j, max(typical[0], floor_exponent(float(largest[j]))))
        doubtful = self._doubtful(low, high, examine) & ~constant
        found = typical_exponents(block if doubtful.all() else block[:, doubtful])
        sizes, exponents = largest.tolist(), self.exponents.tolist()
        for j, typical in zip(doubtful.nonzero()[0].tolist(), found, strict=True):
            assert typical is not None
            finest, present = max(typical[0], floor_exponent(sizes[j])), exponents[j]
            if finest < present - _FINER_BITS:
                self._refine(j, present - finest)
            elif typical[0] > present + _COARSER_BITS:  # no lone outlier does that
                self._coarsen(j, typical[0] - present)

    def fits(self, extremes: tuple[Float, Float]) -> bool:
        """Whether rows with these bounds need no change of the units, nor a check of each of them.

        They stay within 2^20 units and the range of the sums.
        """
        low, high = extremes
        factor, shift = self.units()
        with np.errstate(over="ignore"):
            reach = max(float(np.abs(x * factor - shift).max()) for x in extremes)
        if not reach <= min(_WIDE, reach_allowed(self.layout.order)):
            return False
        constant = ~np.isnan(self.constants)
        varies = constant & ((low != self.constants) | (high != self.constants))
        return not (varies | (self._doubtful(low, high, False) & ~constant)).any()

    def _doubtful(self, low: Float, high: Float, examine: bool) -> NDArray[np.bool_]:
        """Features whose unit the block puts in doubt; all that vary in it where `examine`."""
        if examine:
            return high > low
        shift = np.array([float(k) for k in self.shifts])
        with np.errstate(over="ignore"):
            width = np.ldexp(high - low, -self.exponents)
            ends = [np.abs(np.ldexp(x, -self.exponents) - shift) for x in (low, high)]
        return np.asarray((width > 0) & ((width < _NARROW) | (np.maximum(*ends) > _WIDE)))

    def folded(self) -> Sums:
        """Turn the digits into integers, so that the units can change; returns all sums so far."""
        if self.base is None or not self.digits.is_empty:
            sums, weight_squares = self.digits.fold()
            self.base = sums if self.base is None else add(self.base, sums)
            self.weight_squares += weight_squares
            self.digits = DigitSums(self.layout)
        return self.base

    def _unfold(self, j: int, exponent: int) -> None:
        """Give the constant feature j a unit."""
        self._units = None
        value = Fraction(float(self.constants[j])) / Fraction(2) ** exponent
        self.exponents[j], self.shifts[j] = exponent, round(value)
        self.base = unfold_constant(self.layout, self.folded(), j, value - self.shifts[j])
        self.constants[j] = np.nan

    def _refine(self, j: int, bits: int) -> None:
        self._units = None
        finer, still = [0] * len(self.shifts), [0] * len(self.shifts)
        finer[j] = bits
        self.base = reframed(self.layout, self.folded(), finer, still)
        self.exponents[j] -= bits
        self.shifts[j] <<= bits

    def _coarsen(self, j: int, bits: int) -> None:
        self._units = None
        shift = round_ratio(self.shifts[j], 1 << bits)
        self._shift_to(j, shift << bits)
        self.base = coarser(self.layout, self.folded(), j, bits)
        self.exponents[j] += bits
        self.shifts[j] = shift

    def _shift_to(self, j: int, shift: int) -> None:
        self._units = None
        same, deltas = [0] * len(self.shifts), [0] * len(self.shifts)
        deltas[j] = shift - self.shifts[j]
        self.base = reframed(self.layout, self.folded(), same, deltas)
        self.shifts[j] = shift

    def follow_mean(self) -> None:
        """Move the shift to the running mean where that has left it."""
        if self.base is None and self.digits.surely_near():
            return
        weight, first, second = self.digits.first_and_second()
        index = self.layout.index
        if self.base is not None:
            weight += int(self.base[index["distinct", 0]][0])
            first = first + self.base[index["distinct", 1]]
            second = second + self.base[index["squared", 0]][:, 0]
        moves = {}
        for j in np.flatnonzero(np.isnan(self.constants)).tolist():
            mean = first[j] / weight
            if abs(mean) > 2 and mean * mean > second[j] / weight - mean * mean:
                moves[j] = self.shifts[j] + round_ratio(int(first[j]), weight)
        for j, shift in moves.items():
            self._shift_to(j, shift)

    def close(self) -> tuple[tuple[int | None, ...], Sums]:
        """Fold everything and give constants their unit.

        Returns the exponents, None if neutral, and the sums.
        """
        exponents: list[int | None] = [*self.exponents.tolist()]
        for j in np.flatnonzero(~np.isnan(self.constants)).tolist():
            exponent = exponents[j] = constant_exponent(float(self.constants[j]))
            if exponent is not None:
                self._unfold(j, exponent)
        return tuple(exponents), self.folded()
