"""The shard that is being filled: rows → blocks → exact sums.

Rows are gathered across calls into blocks whose sizes follow from their numbers, so that the sums
depend on the sequence of rows alone, not on how it was cut into calls, nor on the number of
threads.

The units of a shard come from its first block (see ``shard_sums``). A block that needs others
opens the next shard, whose id is the first one plus a counter. So does the next block where the
mean has drifted, which is looked at after 1, 2, 4, 8, … blocks: sorted rows open one shard for each
doubling.

*Accuracy.* A block's float64 sum of monomials of order t is wrong by a few 2^−53·Σ|z_I|, and the
standard error of that sum is about sqrt(Σ z_I²) about the mean; since the shift stays within about
two standard deviations of the mean, the ratio is of the order of 2^−53·3^t·sqrt(rows of a block).
The quantum of 2^−96 units adds nothing visible: of a sixth power of 2^−6 units it is 2^−60.

An error leaves the shard unusable: callers update a clone and keep it on success. Only rows that
complete no block go into the shard itself; they count from the moment that `n_waiting` says so, and
a clone made before that, by any thread, does not have them.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import weight_squares
from momentmix.parallel import map_in_order
from momentmix.summary.exact.combining import combine
from momentmix.summary.exact.schemas import encoded
from momentmix.summary.exact.shard_sums import ShardSums
from momentmix.summary.exact.totals import Totals, empty, recentered, shard_number
from momentmix.summary.exact.units import block_extremes, check_outliers, choose_units
from momentmix.summary.kernels.array_sums import HostExecutor
from momentmix.summary.layout import Layout
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema

_LARGEST_BLOCK = 4096  # rows: longer sums lose digits, and the price of a block is small by then
_SMALLEST_BLOCK = 1024
_DOUBLING = 64  # blocks of one size before they double; a power of two, as the looks are
_MANY_MOMENTS = 100_000  # then splitting the sums of a block into digits costs as much as rows
_MOST_WORK = 1 << 32  # moments times rows, for each thread and call: an interrupt comes after it
_COPIED_BYTES = 1 << 20  # by each thread, of rows of another type or order, before they are summed


def block_rows(layout: Layout, number: int) -> int:
    """Return the rows of a block of a shard, by its number: twice as many after each 64 blocks."""
    if layout.n_entries >= _MANY_MOMENTS:
        return _LARGEST_BLOCK
    return min(_LARGEST_BLOCK, _SMALLEST_BLOCK << min(number // _DOUBLING, 8))


class OpenShard:
    """Sums of one shard, and of shards that follow from it, while rows arrive."""

    def __init__(
        self,
        layout: Layout,
        executor: HostExecutor,
        shard_id: bytes,
        schema: Schema | None = None,
    ) -> None:
        self.layout, self.executor, self.shard_id = layout, executor, shard_id
        self.schema, self.n_blocks = schema, 0  # blocks of all shards
        self.earlier = empty(layout)  # sums of the shards before the present one
        self.sums: ShardSums | None = None  # before the first block of the present one
        self.waiting = np.empty((_LARGEST_BLOCK, layout.n_features))
        self.waiting_weights = np.empty(_LARGEST_BLOCK)
        self.n_waiting = 0

    def clone(self) -> OpenShard:
        """Independent copy: an update works on one, so that an error leaves the original alone."""
        twin, n = self._twin(), self.n_waiting
        for name in ("waiting", "waiting_weights"):
            own = getattr(self, name)
            setattr(twin, name, np.empty_like(own))
            getattr(twin, name)[:n] = own[:n]
        twin.n_waiting = n
        return twin

    def _twin(self) -> OpenShard:
        """Return a copy that shares the pending rows, but not rows that are added later."""
        twin = OpenShard.__new__(OpenShard)
        twin.__dict__.update(self.__dict__)
        twin.sums = None if self.sums is None else self.sums.copy()
        return twin

    @property
    def _present_id(self) -> bytes:
        return shard_number(self.shard_id, len(self.earlier.shards))

    @property
    def shards(self) -> frozenset[bytes]:
        """Ids of all shards so far, and of the one that takes the next rows."""
        return self.earlier.shards | {self._present_id}

    @property
    def n_rows(self) -> int:
        """Number of rows that are added."""
        return self.earlier.n_rows + (0 if self.sums is None else self.sums.n_rows)

    @property
    def n_all(self) -> int:
        """Number of rows so far."""
        return self.n_rows + self.n_waiting

    def snapshot(self) -> Totals:
        """The sums of the rows so far, as if the shard were complete; it stays as it is."""
        return self._twin().close()

    # -- rows → blocks ------------------------------------------------------------------------

    @property
    def block_size(self) -> int:
        """Rows of the block that is being filled."""
        return block_rows(self.layout, self.n_blocks)

    def update(
        self,
        rows: NDArray[Any],
        weights: Float | None,
        n_threads: int,
        names: Any,
        first_row: int = 0,
    ) -> None:
        """Add checked rows of any real dtype; messages count from `first_row`."""
        start, n_rows = 0, len(rows)
        if self.n_waiting and self.n_waiting + n_rows >= self.block_size:
            start = self._complete_waiting(rows, weights, (first_row, names))
        while start + self.block_size <= n_rows:
            stop = min(n_rows, start + self._rows_at_once(rows, n_threads))
            part = _as_blocks(rows[start:stop], n_threads)
            w = None if weights is None else weights[start:stop]
            start += self._add_full_blocks(part, w, n_threads, (first_row + start, names))
        if self.sums is not None:
            self.sums.digits.gather()
        n_waiting = self._put(rows[start:], None if weights is None else weights[start:])
        self._check_waiting(n_waiting, (first_row + n_rows - n_waiting, names))
        self.n_waiting = n_waiting

    def _rows_at_once(self, rows: NDArray[Any], n_threads: int) -> int:
        """Rows to look at together: all, unless they are to be copied."""
        if rows.dtype == np.float64 and rows.flags.c_contiguous:
            return len(rows)
        return max(self.block_size, n_threads * _COPIED_BYTES // (8 * self.layout.n_features))

    def _complete_waiting(
        self, rows: NDArray[Any], weights: Float | None, place: tuple[int, Any]
    ) -> int:
        """Add the block of pending rows and the first of the others; return their number."""
        n = self.block_size - self.n_waiting
        size = self._put(rows[:n], None if weights is None else weights[:n])
        first_row, names = place
        place = first_row - self.n_waiting, names
        self.n_waiting = 0
        ends = self._add_block(self.waiting[:size], self.waiting_weights[:size], place)
        self.count(ends, size, 1)
        return n

    def _put(self, rows: NDArray[Any], weights: Float | None) -> int:
        """Append rows to the pending ones of a block; return the number that would be pending."""
        part = slice(self.n_waiting, self.n_waiting + len(rows))
        self.waiting[part] = rows
        self.waiting_weights[part] = 1.0 if weights is None else weights
        return part.stop

    def _check_waiting(self, n_waiting: int, place: tuple[int, Any]) -> None:
        """Refuse outliers at once, not when the block is full."""
        block = self.waiting[:n_waiting]
        if not n_waiting or self.sums is None:
            return
        ends = block_extremes(block[None])[0]
        if not self.sums.fits(ends):
            units = self.sums.units_for(block, ends) or choose_units(block, ends)
            degrees = self.layout.order, self.layout.squared_order
            check_outliers(block, ends, units, degrees, _namer(place))

    # -- blocks → sums ------------------------------------------------------------------------

    def _add_full_blocks(
        self, rows: Float, weights: Float | None, n_threads: int, place: tuple[int, Any]
    ) -> int:
        """Add the full blocks among rows, and return their number of rows."""
        # Blocks go in runs, from one look at the mean to the next. A run ends early before a block
        # that needs a closer look; that one is added alone.
        first_row, names = place
        d, start = self.layout.n_features, 0
        while start + self.block_size <= len(rows):
            size, n = self.block_size, 0
            if self.sums is not None:
                at_once = max(1, n_threads * _MOST_WORK // (self.layout.n_entries * size))
                to_a_look = (1 << self.n_blocks.bit_length()) - self.n_blocks
                n = min((len(rows) - start) // size, to_a_look, at_once)
                run = slice(start, start + n * size)
                w = None if weights is None else weights[run].reshape(n, size)
                n = self._add_fitting(self.sums, rows[run].reshape(n, size, d), w, n_threads)
            if not n:
                block, n = slice(start, start + size), 1
                w = None if weights is None else weights[block]
                ends = self._add_block(rows[block], w, (first_row + start, names))
                self.count(ends, size, 1)
            start += n * size
        return start

    def begin(self, block: Float, ends: Float) -> ShardSums:
        """Open the next shard, with the units of a block, which is not added."""
        self._end()
        self.sums = ShardSums(self.layout, block, ends)
        return self.sums

    def _end(self) -> None:
        """Put the present sums to the earlier ones."""
        if self.sums is not None and self.sums.n_rows:
            totals = self.sums.totals(self._present_id)
            self.earlier = combine(self.earlier, totals) if self.earlier.shards else totals
        self.sums = None

    def _add_block(self, block: Float, weights: Float | None, place: tuple[int, Any]) -> Float:
        """Add one block, with a close look at the units that it needs; returns its bounds."""
        ends, absent = block_extremes(block[None]), None
        sums = self.sums or self.begin(block, ends[0])
        if not sums.fits(ends[0]):
            units = sums.units_for(block, ends[0])
            if units is None:
                sums = self.begin(block, ends[0])
            else:
                sums.units = units
            absent = sums.limit(block, ends[0], _namer(place))
        blocks, w = block[None], None if weights is None else weights[None]
        values = self.executor.sums(blocks, w, sums.units.factors)
        if absent is not None:
            values[:, absent] = 0.0  # they may have left the range of float64
        sums.digits.add(values, weight_squares(blocks, w))
        return ends

    def _add_fitting(
        self, sums: ShardSums, run: Float, weights: Float | None, n_threads: int
    ) -> int:
        """Add the blocks of a run that fit the units, on all threads; returns their number."""
        ends = block_extremes(run, n_threads)
        fits = sums.fits(ends)
        n = len(run) if fits.all() else int(np.argmin(fits))
        if n:
            needed = sums.digits_for(ends[:n], run.shape[1], weights)
            w, units = None if weights is None else weights[:n], sums.units.factors
            self.executor.add_blocks(run[:n], w, units, sums.digits, needed, n_threads)
            self.count(ends[:n], n * run.shape[1], n)
        return n

    def count(self, ends: Float, n_rows: int, n_blocks: int) -> None:
        """Count what was added, with these bounds, and look at the mean now and then."""
        assert self.sums is not None
        self.sums.count(ends, n_rows)
        before, self.n_blocks = self.n_blocks, self.n_blocks + n_blocks
        if before.bit_length() < self.n_blocks.bit_length() and self.sums.has_drifted():
            self._end()

    def close(self) -> Totals:
        """The sums in their canonical units; the shard takes no rows after that."""
        if self.n_waiting:
            n, self.n_waiting = self.n_waiting, 0
            ends = self._add_block(self.waiting[:n], self.waiting_weights[:n], (-n, None))
            assert self.sums is not None
            self.sums.count(ends, n)  # nothing follows for which the mean would matter
        self._end()
        if self.schema is None:
            return self.earlier
        return recentered(encoded(self.earlier, self.schema))


def _as_blocks(rows: NDArray[Any], n_threads: int) -> Float:
    """Rows as contiguous float64, copied by all threads where they are not."""
    if rows.dtype == np.float64 and rows.flags.c_contiguous:
        return rows
    copy, cuts = np.empty(rows.shape), np.linspace(0, len(rows), n_threads + 1).astype(int)

    def fill(ends: tuple[int, int]) -> None:
        copy[slice(*ends)] = rows[slice(*ends)]

    deque(map_in_order(fill, pairwise(cuts.tolist()), n_threads), maxlen=0)
    return copy


def _namer(place: tuple[int, Any]) -> Any:
    """Names a row of a block and a column in the terms of the update at hand."""
    first_row, feature_names = place

    def name(row: int, column: int) -> str:
        label = column_label(column, feature_names)
        if first_row + row < 0:
            return f"a row of an earlier update, {label},"
        return f"row {first_row + row}, {label},"

    return name
