"""The exact sums of one shard, in units that its first block sets.

A block *fits* where it reaches no further than 2^20 units and every feature that was constant so
far still is. Others are looked at closely:

- a feature that was constant so far and now varies gets a unit: any if it was 0, else a finer one,
  in which its value is still an integer, so that its sums stay 0;
- a block whose typical deviation is above 2^16 units needs a shard of its own, as does a constant
  that would need a much coarser unit.

The sums are about the shift, so its distance from the mean has to stay below about a standard
deviation of the shard; see `has_drifted`. A block that is far narrower than the unit does no
harm: the moments of the shard are at least the moments of its first block.

All these decisions are functions of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.summary.exact.digit_sums import (
    QUANTUM_BITS,
    DigitSums,
    add_digits,
    digits_needed,
    join,
)
from momentmix.summary.exact.exact_sums import LARGEST_REACH, ExactSums, absent_places, reframed
from momentmix.summary.exact.totals import Totals, recentered
from momentmix.summary.exact.units import (
    WIDE,
    ShardUnits,
    block_extremes,
    check_outliers,
    choose_units,
    degrees_in_range,
    floor_exponent,
    reach_allowed,
    sum_bits,
    typical_exponents,
)
from momentmix.summary.kernels.array_sums import HostExecutor
from momentmix.summary.layout import Layout

_COARSER_BITS = 16  # by which a typical deviation may exceed the unit: no lone outlier does that
_FAR = 2.0  # units between shift and mean that cost no digits


class ShardSums:
    """Sums of one shard; its first rows and their bounds set the units, and are not added."""

    def __init__(self, layout: Layout, block: Float, ends: Float) -> None:
        d = layout.n_features
        self.layout, self.units, self.n_rows = layout, choose_units(block, ends), 0
        # Highest degree of sums of high sections that each feature takes part in.
        self.digits, self.reach = DigitSums(layout), np.full(d, LARGEST_REACH)
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)

    def copy(self) -> ShardSums:
        """Independent copy."""
        twin = ShardSums.__new__(ShardSums)
        twin.__dict__.update(self.__dict__)
        for name in ("digits", "minimum", "maximum"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def fits(self, ends: Float) -> NDArray[np.bool_]:
        """Whether blocks with these bounds, (n_blocks, 2, n_features), need no closer look."""
        allowed = min(WIDE, reach_allowed(self.layout.order))
        most = np.where(self.minimum == self.maximum, 0.0, allowed)
        return np.asarray((self.units.distance(ends) <= most).all(axis=-1))

    def units_for(self, block: Float, ends: Float) -> ShardUnits | None:
        """The units in which a block can be added; None where it needs another shard."""
        exponents, shift = self.units.exponents.copy(), self.units.shift.copy()
        (low, high), constant = ends, self.minimum == self.maximum
        starts = constant & ((low != self.minimum) | (high != self.maximum))
        for j in np.flatnonzero(starts).tolist():
            value, present = float(self.minimum[j]), int(exponents[j])
            typical = typical_exponents(np.append(block[:, j], value)[:, None])[0]
            assert typical is not None
            largest = max(abs(value), -float(low[j]), float(high[j]))
            exponent = max(typical[0], floor_exponent(largest))
            if value and exponent > present + _COARSER_BITS:
                return None
            exponents[j] = min(exponent, present) if value else exponent
            shift[j] = np.ldexp(shift[j], present - exponents[j])
        far = (self.units.distance(ends) > WIDE) & (high > low) & ~constant
        for present, typical in zip(exponents[far], typical_exponents(block[:, far]), strict=True):
            assert typical is not None
            if typical[0] > present + _COARSER_BITS:
                return None
        return ShardUnits(exponents, shift) if starts.any() else self.units

    def digits_for(self, ends: Float, n_rows: int, weights: Float | None) -> int:
        """Digits that hold all sums of a block of so many rows that fits, with these bounds."""
        degrees = self.layout.order, self.layout.squared_order
        heaviest = 1.0 if weights is None else max(1.0, float(weights.max()))
        bits = sum_bits(self.units.distance(ends).max(axis=0), *degrees)
        return digits_needed(2.0 ** (bits + 2 * np.log2(heaviest) + np.log2(n_rows) + 1))

    def limit(self, block: Float, ends: Float, names: Any) -> Int:
        """Refuse rows beyond the range, lower the reach, and return the places of absent sums."""
        degrees = self.layout.order, self.layout.squared_order
        check_outliers(block, ends, self.units, degrees, names)
        self.reach = np.minimum(self.reach, degrees_in_range(self.units.distance(ends)))
        return absent_places(self.layout, self.reach.tolist())

    def count(self, ends: Float, n_rows: int) -> None:
        """Count rows of blocks with these bounds."""
        self.n_rows += n_rows
        self.minimum = np.minimum(self.minimum, ends[:, 0].min(axis=0))
        self.maximum = np.maximum(self.maximum, ends[:, 1].max(axis=0))

    def has_drifted(self) -> bool:
        """Whether the mean has left the shift by 2 units and a standard deviation."""
        mean, square = self.digits.means()
        return bool(((np.abs(mean) > _FAR) & (2 * mean * mean > square)).any())

    def totals(self, shard_id: bytes) -> Totals:
        """The sums in the canonical units of the shard."""
        sums, weight_squares = self.digits.fold()
        neutral = (self.minimum == 0.0) & (self.maximum == 0.0)
        exponents = zip(self.units.exponents.tolist(), neutral.tolist(), strict=True)
        totals = Totals(
            layout=self.layout,
            exponents=tuple(None if is_neutral else e for e, is_neutral in exponents),
            shifts=tuple(int(k) for k in self.units.shift),
            sums=sums,
            weight_squares=weight_squares,
            n_rows=self.n_rows,
            minimum=self.minimum,
            maximum=self.maximum,
            exact_bounds=True,
            shards=frozenset([shard_id]),
            n_forgotten=0,
            reach=tuple(self.reach.tolist()),
        )
        return recentered(totals)


def totals_of_blocks(
    executor: HostExecutor, layout: Layout, blocks: Float, shard_ids: Sequence[bytes]
) -> list[Totals | None]:
    """The sums of shards of one block each, blocks of shape (n_shards, n_rows, n_features).

    None for a block that needs a closer look. The others take the steps of `ShardSums` together.
    """
    (n_shards, n_rows, d), ends = blocks.shape, block_extremes(blocks)
    columns = blocks.transpose(1, 0, 2).reshape(n_rows, -1)
    units = choose_units(columns, ends.transpose(1, 0, 2).reshape(2, -1))
    exponents, shift = units.exponents.reshape(-1, 1, d), units.shift.reshape(-1, 1, d)
    factors, result = np.ldexp(1.0, -exponents), list[Totals | None]([None] * n_shards)
    with np.errstate(over="ignore"):
        reach = np.abs(ends * factors - shift).max(axis=(1, 2))
    own = np.flatnonzero(reach <= min(WIDE, reach_allowed(layout.order)))
    if not len(own):
        return result
    points = blocks[own] * factors[own] - shift[own]
    values = executor.sums(points, None, (np.ones(d), np.zeros(d)))
    # The mean, rounded half to even: the rest beside a float64 quotient is exact.
    first = values[:, layout.section("distinct", 1).place]
    moves = np.rint(first / n_rows)
    rest = 2.0 * (first - moves * n_rows)
    odd = (moves + shift[own, 0]) % 2 != 0
    moves += np.sign(rest) * ((np.abs(rest) > n_rows) | ((np.abs(rest) == n_rows) & odd))
    digits = np.zeros((digits_needed(float(np.abs(values).max(initial=1.0))), values.size))
    add_digits(values.reshape(1, -1), digits)
    words = join(digits).reshape(len(own), layout.n_entries, -1)
    neutral = (ends == 0.0).all(axis=1).tolist()
    for g, number in enumerate(own.tolist()):
        units_of = zip(exponents[number, 0].tolist(), neutral[number], strict=True)
        deltas = moves[g].astype(np.int64).tolist()
        old = shift[number, 0].astype(np.int64).tolist()
        result[number] = Totals(
            layout=layout,
            exponents=tuple([None if is_neutral else e for e, is_neutral in units_of]),
            shifts=tuple([k + delta for k, delta in zip(old, deltas, strict=True)]),
            sums=reframed(ExactSums(layout, words[g]), [0] * d, deltas),
            weight_squares=n_rows << QUANTUM_BITS,
            n_rows=n_rows,
            minimum=ends[number, 0],
            maximum=ends[number, 1],
            exact_bounds=True,
            shards=frozenset([shard_ids[number]]),
            n_forgotten=0,
            reach=(LARGEST_REACH,) * d,
        )
    return result
