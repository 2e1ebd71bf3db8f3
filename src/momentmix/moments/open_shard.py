"""The shard that is being filled: rows → blocks → exact sums, in a frame that may still move.

Rows are gathered into blocks of fixed size across calls, so that the sums depend on the sequence
of rows alone, not on how it was cut into calls, nor on the number of threads.

The frame (see ``frame``) comes from the first block and is looked at again before each block:

- a feature that was constant so far is left out (its z is 0) until it varies; then it gets a frame
  from the block at hand, and the sums that involve it follow from the others, exactly but for one
  rounding to the quantum;
- a block that spans less than 2^−6 units or reaches beyond 2^20 units, and every block whose number
  is a power of two, has its typical deviation compared with the unit: 2^3 times finer or 2^16 times
  coarser changes the unit (finer: exact; coarser: one rounding to the quantum of the new unit);
- after 1, 2, 4, …, 128 blocks and then every 128 the shift moves, exactly, to the running mean if
  that has left ±2 units and ±1 standard deviation.

All these decisions are functions of the rows. *Accuracy:* a block's float64 sum of a monomial of
order t is wrong by a few 2^−53·Σ|z_I|, and the standard error of that sum is about sqrt(Σ z_I²)
about the mean; since the shift stays within about two standard deviations of the mean, the ratio is
of the order of 2^−53·3^t·sqrt(block). The quantum of 2^−96 units adds nothing visible while
typical deviations stay above 2^−6 units.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.moments.accumulate import block_rows
from momentmix.moments.exact_sums import (
    DigitSums,
    Sums,
    add,
    coarser,
    finer,
    move,
    unfold_constant,
    zeros,
)
from momentmix.moments.frame import (
    check_outliers,
    constant_exponent,
    extremes,
    floor_exponent,
    round_ratio,
    typical_exponent,
)
from momentmix.moments.kernel import Kernel, Workspace
from momentmix.moments.rows import column_label
from momentmix.moments.totals import Totals, recentred
from momentmix.moments.workers import Workers

__all__ = ["OpenShard"]

Float = NDArray[np.float64]

_FINER_BITS, _COARSER_BITS = 3, 16
_NARROW, _WIDE = 2.0**-6, 2.0**20
_MEAN_CHECK = 128


class OpenShard:
    """Sums of one shard while rows arrive.

    Parameters
    ----------
    kernel : Kernel
        The plan of the products.
    shard_id : bytes
        16 bytes; the first replicate group follows from them, so that many small shards spread.
    """

    def __init__(self, kernel: Kernel, shard_id: bytes) -> None:
        layout = kernel.layout
        d = layout.n_features
        self.layout, self.kernel, self.shard_id = layout, kernel, shard_id
        self.first_group = int.from_bytes(shard_id, "little") % layout.n_groups
        self.exponents = np.zeros(d, dtype=np.int64)
        self.shifts: list[int] = [0] * d
        self.constants: Float | None = None  # NaN where a feature varies; None before block 1
        self.digits = DigitSums(layout)
        self.base: Sums = zeros(layout)
        self.base_weight_squares = 0
        self.n_blocks = 0
        self.n_rows = [0] * layout.n_groups
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.waiting = np.empty((block_rows(layout), d))
        self.waiting_weights = np.empty(block_rows(layout))
        self.n_waiting = 0

    def clone(self) -> OpenShard:
        """Independent copy: an update works on one, so that an error leaves the original alone."""
        twin = OpenShard.__new__(OpenShard)
        twin.__dict__.update(self.__dict__)
        for name in ("exponents", "digits", "minimum", "maximum", "waiting", "waiting_weights"):
            setattr(twin, name, getattr(self, name).copy())
        twin.constants = None if self.constants is None else self.constants.copy()
        twin.shifts, twin.n_rows = list(self.shifts), list(self.n_rows)
        return twin

    # -- rows → blocks ------------------------------------------------------------------------

    def fits_waiting(self, n_rows: int) -> bool:
        """Whether so many rows can be added without completing a block."""
        return self.n_waiting + n_rows < len(self.waiting)

    def update(
        self, rows: NDArray[Any], weights: Float | None, workers: Workers, names: Any
    ) -> None:
        """Add checked rows of any real dtype."""
        start = 0
        for block, block_weights, stop in self._blocks(rows, weights):
            self._take(block, block_weights, workers, (stop - len(block), names))
            start = stop
        workers.wait()
        before = self.n_waiting
        self._keep(rows[start:], None if weights is None else weights[start:])
        try:
            self._check_waiting((len(rows) - self.n_waiting, names))
        except InputError:
            self.n_waiting = before
            raise

    def _blocks(
        self, rows: NDArray[Any], weights: Float | None
    ) -> Iterator[tuple[Float, Float, int]]:
        """Full blocks with their weights and the row after them."""
        size, ones = len(self.waiting), np.ones(len(self.waiting))
        start = 0
        if self.n_waiting and self.n_waiting + len(rows) >= size:
            start = size - self.n_waiting
            self._keep(rows[:start], None if weights is None else weights[:start])
            self.n_waiting = 0
            yield self.waiting.copy(), self.waiting_weights.copy(), start
        for stop in range(start + size, len(rows) + 1, size):
            part = slice(stop - size, stop)
            block = rows[part].astype(np.float64, copy=False)
            yield block, ones if weights is None else weights[part], stop

    def _keep(self, rows: NDArray[Any], weights: Float | None) -> None:
        """Put rows aside until they fill a block."""
        part = slice(self.n_waiting, self.n_waiting + len(rows))
        self.waiting[part] = rows
        self.waiting_weights[part] = 1.0 if weights is None else weights
        self.n_waiting += len(rows)

    def _check_waiting(self, place: tuple[int, Any]) -> None:
        """Refuse outliers at once, not when the block is full."""
        block = self.waiting[: self.n_waiting]
        if len(block) and self.constants is not None:
            self._check_outliers(block, extremes(block), place)

    # -- blocks → sums ------------------------------------------------------------------------

    def _take(self, block: Float, weights: Float, workers: Workers, place: tuple[int, Any]) -> None:
        low, high = extremes(block)
        if self.constants is None:
            self._choose_frame(block)
        else:
            self._adapt_frame(block, low, high, workers)
        self._check_outliers(block, (low, high), place)
        group = (self.first_group + self.n_blocks) % self.layout.n_groups
        frame = np.ldexp(1.0, -self.exponents), np.array([float(k) for k in self.shifts])
        constants = None if np.isnan(self._known).all() else self._known.copy()
        workers.submit(self._sum_block, block, weights, frame, constants, group)
        self.n_blocks += 1
        self.n_rows[group] += len(block)
        np.minimum(self.minimum, low, out=self.minimum)
        np.maximum(self.maximum, high, out=self.maximum)
        if self.n_blocks % _MEAN_CHECK == 0 or (self.n_blocks & (self.n_blocks - 1)) == 0:
            workers.wait()
            self._follow_mean()

    @property
    def _known(self) -> Float:
        """Value of each feature that is constant so far, else NaN."""
        assert self.constants is not None
        return self.constants

    def _sum_block(
        self,
        block: Float,
        weights: Float,
        frame: tuple[Float, Float],
        constants: Float | None,
        group: int,
        space: Workspace,
    ) -> None:
        inverse_scale, shift = frame
        if constants is not None:
            inverse_scale = np.where(np.isnan(constants), inverse_scale, 0.0)
            shift = np.where(np.isnan(constants), shift, 0.0)
        self.digits.add(self.kernel.block_sums(block, weights, inverse_scale, shift, space), group)

    def _check_outliers(
        self, block: Float, extremes: tuple[Float, Float], place: tuple[int, Any]
    ) -> None:
        first_row, feature_names = place

        def name(row: int, column: int) -> str:
            label = column_label(column, feature_names)
            if first_row + row < 0:
                return f"a row of an earlier update, {label},"
            return f"row {first_row + row}, {label},"

        free = np.isnan(self._known)
        if free.all():
            columns: Any = slice(None)
        else:
            columns = np.flatnonzero(free)
            if not len(columns):
                return
        shifts = np.array([float(k) for k in self.shifts])[columns]
        check_outliers(
            block[:, columns],
            (extremes[0][columns], extremes[1][columns]),
            self.exponents[columns],
            shifts,
            (self.layout.order, self.layout.squared_order),
            lambda row, column: name(row, int(np.arange(len(free))[columns][column])),
        )

    # -- the frame ----------------------------------------------------------------------------

    def _choose_frame(self, block: Float) -> None:
        """Frame of the first block."""
        self.constants = np.full(self.layout.n_features, np.nan)
        for j in range(self.layout.n_features):
            found = typical_exponent(block[:, j])
            if found is None:
                self.constants[j] = block[0, j]
                continue
            exponent = max(found[0], floor_exponent(float(np.abs(block[:, j]).max())))
            self.exponents[j] = exponent
            self.shifts[j] = round(Fraction(found[1]) / Fraction(2) ** exponent)

    def _adapt_frame(self, block: Float, low: Float, high: Float, workers: Workers) -> None:
        known = self._known
        varies = ~np.isnan(known) & ((low != known) | (high != known))
        shift = np.array([float(k) for k in self.shifts])
        with np.errstate(over="ignore"):
            width = np.ldexp(high - low, -self.exponents)
            ends = [np.abs(np.ldexp(x, -self.exponents) - shift) for x in (low, high)]
        reach = np.maximum(*ends)
        doubtful = (width > 0) & ((width < _NARROW) | (reach > _WIDE))
        if self.n_blocks & (self.n_blocks - 1) == 0:
            doubtful = width > 0
        for j in np.flatnonzero(varies | (doubtful & np.isnan(known))).tolist():
            largest = max(abs(self.minimum[j]), abs(self.maximum[j]), -low[j], high[j])
            values = np.append(block[:, j], known[j]) if varies[j] else block[:, j]
            found = typical_exponent(values)
            assert found is not None
            finest = max(found[0], floor_exponent(float(largest)))
            present = int(self.exponents[j])
            if varies[j]:
                self._fold(workers)
                self._unfold(j, finest)
            elif finest < present - _FINER_BITS:
                self._fold(workers)
                self._refine(j, present - finest)
            elif found[0] > present + _COARSER_BITS:  # no lone outlier does that
                self._fold(workers)
                self._coarsen(j, found[0] - present)

    def _fold(self, workers: Workers | None = None) -> None:
        """Turn the digits into integers, so that the frame can move."""
        if workers is not None:
            workers.wait()
        sums, weight_squares = self.digits.fold()
        self.base = add(self.base, sums)
        self.base_weight_squares += weight_squares
        self.digits = DigitSums(self.layout)

    def _unfold(self, j: int, exponent: int) -> None:
        """Give the constant feature j a unit."""
        value = Fraction(float(self._known[j])) / Fraction(2) ** exponent
        self.exponents[j], self.shifts[j] = exponent, round(value)
        self.base = unfold_constant(self.layout, self.base, j, value - self.shifts[j])
        self._known[j] = np.nan

    def _refine(self, j: int, bits: int) -> None:
        self.base = finer(
            self.layout, self.base, [bits if i == j else 0 for i in range(len(self.shifts))]
        )
        self.exponents[j] -= bits
        self.shifts[j] <<= bits

    def _coarsen(self, j: int, bits: int) -> None:
        shift = round_ratio(self.shifts[j], 1 << bits)
        self._shift_to(j, shift << bits)
        self.base = coarser(self.layout, self.base, j, bits)
        self.exponents[j] += bits
        self.shifts[j] = shift

    def _shift_to(self, j: int, shift: int) -> None:
        deltas = [shift - self.shifts[j] if i == j else 0 for i in range(len(self.shifts))]
        self.base = move(self.layout, self.base, deltas)
        self.shifts[j] = shift

    def _follow_mean(self) -> None:
        """Move the shift to the running mean where that has left it."""
        weight, first, second = self.digits.first_and_second()
        index = self.layout.index
        weight += int(self.base[index["distinct", 0]].sum())
        first = first + self.base[index["distinct", 1]].sum(axis=0)
        second = second + self.base[index["squared", 0]].sum(axis=0)[:, 0]
        moves = {}
        for j in np.flatnonzero(np.isnan(self._known)).tolist():
            mean = first[j] / weight
            if abs(mean) > 2 and mean * mean > second[j] / weight - mean * mean:
                moves[j] = self.shifts[j] + round_ratio(int(first[j]), weight)
        if moves:
            self._fold()
            for j, shift in moves.items():
                self._shift_to(j, shift)

    # -- the end ------------------------------------------------------------------------------

    def close(self, workers: Workers) -> Totals:
        """The sums of the shard in its canonical frame. Call it on a clone to go on adding."""
        if self.n_waiting:
            n, self.n_waiting = self.n_waiting, 0
            self._take(self.waiting[:n], self.waiting_weights[:n], workers, (-n, None))
        self._fold(workers)
        exponents: list[int | None] = [int(e) for e in self.exponents]
        for j in np.flatnonzero(~np.isnan(self._known)).tolist():
            exponents[j] = constant_exponent(float(self._known[j]))
            if exponents[j] is not None:
                self._unfold(j, int(exponents[j] or 0))
        totals = Totals(
            layout=self.layout,
            exponents=tuple(exponents),
            shifts=tuple(self.shifts),
            sums=self.base,
            weight_squares=self.base_weight_squares,
            n_rows=tuple(self.n_rows),
            minimum=self.minimum,
            maximum=self.maximum,
            exact_bounds=True,
            shards=frozenset([self.shard_id]),
            n_forgotten=0,
        )
        return recentred(totals)
