"""The shard that is being filled: rows → blocks → exact sums, in units that may still change.

Rows are gathered across calls into blocks whose sizes follow from their numbers, so that the sums
depend on the sequence of rows alone, not on how it was cut into calls, nor on the number of
threads.

*Accuracy.* A block's float64 sum of monomials of order t is wrong by a few 2^−53·Σ|z_I|, and the
standard error of that sum is about sqrt(Σ z_I²) about the mean; since the shift stays within about
two standard deviations of the mean, the ratio is of the order of 2^−53·3^t·sqrt(rows of a block).
The quantum of 2^−96 units adds nothing visible while typical deviations stay above 2^−6 units: of a
sixth power it is 2^−60 then.

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
from momentmix.errors import InputError
from momentmix.parallel import map_in_order
from momentmix.summary.exact.common_schema import encoded
from momentmix.summary.exact.totals import Totals, recentered
from momentmix.summary.kernels.executor import HostExecutor
from momentmix.summary.kernels.numpy_sums import weight_squares
from momentmix.summary.layout import Layout
from momentmix.summary.shard.moving_sums import MovingSums
from momentmix.summary.shard.units import block_extremes
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema

_LARGEST_BLOCK = 4096  # rows: longer sums lose digits, and the price of a block is small by then
_SMALLEST_BLOCK = 1024
_DOUBLING = 64  # blocks of one size before they double
_MANY_MOMENTS = 100_000  # then splitting the sums of a block into digits costs as much as rows
_MEAN_CHECK = 128  # blocks between two looks at the mean, which take about as long as a block
_MOST_WORK = 1 << 32  # moments times rows, for each thread and call: an interrupt waits for it
_COPIED_BYTES = 1 << 20  # by each thread, of rows of another type or order, before they are summed


def block_rows(layout: Layout, number: int) -> int:
    """Rows of a block of a shard, by its number.

    Few at first; after every 64 blocks twice as many, since each block has a price of its own. A
    shard of many moments has large blocks throughout.

    Examples
    --------
    >>> [block_rows(Layout(15, 4, 2), number) for number in (0, 63, 64, 128, 10**6)]
    [1024, 1024, 2048, 4096, 4096]
    """
    if layout.n_entries >= _MANY_MOMENTS:
        return _LARGEST_BLOCK
    return min(_LARGEST_BLOCK, _SMALLEST_BLOCK << min(number // _DOUBLING, 8))


class OpenShard:
    """Sums of one shard while rows arrive.

    Parameters
    ----------
    layout : Layout
    executor : HostExecutor
        What sums the blocks, from the first to the last.
    shard_id : bytes
        16 bytes.
    schema : Schema, optional
        How columns became the features that it takes.
    """

    def __init__(
        self,
        layout: Layout,
        executor: HostExecutor,
        shard_id: bytes,
        schema: Schema | None = None,
    ) -> None:
        d = layout.n_features
        self.layout, self.executor, self.shard_id = layout, executor, shard_id
        self.schema = schema
        self.sums = MovingSums(layout)
        self.n_blocks = self.n_rows = 0
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.waiting = np.empty((_LARGEST_BLOCK, d))
        self.waiting_weights = np.empty(_LARGEST_BLOCK)
        self.n_waiting = 0

    def clone(self) -> OpenShard:
        """Independent copy: an update works on one, so that an error leaves the original alone."""
        twin, n = self._twin(), self.n_waiting
        twin.waiting, twin.waiting_weights = (np.empty_like(x) for x in self._places())
        for mine, own in zip(twin._places(), self._places(), strict=True):
            mine[:n] = own[:n]
        twin.n_waiting = n
        return twin

    def _places(self) -> tuple[Float, Float]:
        return self.waiting, self.waiting_weights

    def _twin(self) -> OpenShard:
        """A copy that shares the rows that wait: those that come behind them are not its own."""
        twin = OpenShard.__new__(OpenShard)
        twin.__dict__.update(self.__dict__)
        for name in ("sums", "minimum", "maximum"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

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

    def fits_waiting(self, n_rows: int) -> bool:
        """Whether so many rows can be added without completing a block."""
        return self.n_waiting + n_rows < self.block_size

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
        """Add the block of the rows that wait and the first of the others; returns their number."""
        n = self.block_size - self.n_waiting
        size = self._put(rows[:n], None if weights is None else weights[:n])
        first_row, names = place
        place = first_row - self.n_waiting, names
        self.n_waiting = 0
        self._add_block(self.waiting[:size], self.waiting_weights[:size], place)
        return n

    def _put(self, rows: NDArray[Any], weights: Float | None) -> int:
        """Put rows behind those that wait for a block; returns how many would wait with them."""
        part = slice(self.n_waiting, self.n_waiting + len(rows))
        self.waiting[part] = rows
        self.waiting_weights[part] = 1.0 if weights is None else weights
        return part.stop

    def _check_waiting(self, n_waiting: int, place: tuple[int, Any]) -> None:
        """Refuse outliers at once, not when the block is full."""
        block = self.waiting[:n_waiting]
        if not len(block) or self.sums.constants is None:
            return
        ends, names = block_extremes(block[None])[0], _namer(place)
        if self.sums.surely_in_range(ends):
            return
        try:
            self.sums.check_outliers(block, (ends[0], ends[1]), names)
        except InputError:
            trial = self.sums.copy()  # the units may change before these rows are added
            trial.adapt_units(block, (ends[0], ends[1]), self.largest(ends), True)
            trial.check_outliers(block, (ends[0], ends[1]), names)

    # -- blocks → sums ------------------------------------------------------------------------

    def largest(self, ends: Any) -> Float:
        """Largest absolute value of each feature so far and in a block."""
        low, high = np.minimum(self.minimum, ends[0]), np.maximum(self.maximum, ends[1])
        return np.asarray(np.maximum(-low, high))

    def _add_full_blocks(
        self, rows: Float, weights: Float | None, n_threads: int, place: tuple[int, Any]
    ) -> int:
        """Add the full blocks among rows, and return their number of rows.

        Blocks go in runs, from one look at the mean to the next. A run ends early before a block
        that may change the units; that one is added alone.
        """
        first_row, names = place
        d, start = self.layout.n_features, 0
        while start + self.block_size <= len(rows):
            size, n = self.block_size, 0
            if not self._is_examined():
                at_once = max(1, n_threads * _MOST_WORK // (self.layout.n_entries * size))
                n = min((len(rows) - start) // size, self._blocks_to_a_look(), at_once)
                run = slice(start, start + n * size)
                w = None if weights is None else weights[run].reshape(n, size)
                n = self._add_fitting(rows[run].reshape(n, size, d), w, n_threads)
            if not n:
                block, n = slice(start, start + size), 1
                w = None if weights is None else weights[block]
                self._add_block(rows[block], w, (first_row + start, names))
            start += n * size
        return start

    def _is_examined(self) -> bool:
        """Whether the units are examined at the next block, whatever it holds."""
        return (self.n_blocks & (self.n_blocks - 1)) == 0

    def _blocks_to_a_look(self) -> int:
        """Blocks up to the next look at the mean, or to blocks of another size."""
        n = self.n_blocks
        return min(1 << n.bit_length(), *(n - n % k + k for k in (_MEAN_CHECK, _DOUBLING))) - n

    def _add_block(
        self, block: Float, weights: Float | None, place: tuple[int, Any], is_last: bool = False
    ) -> None:
        """Add one block, with a close look at the units that it needs."""
        ends = block_extremes(block[None])[0]
        pair, absent = (ends[0], ends[1]), None
        is_first = self.sums.constants is None
        if is_first:
            self.sums.choose_units(block, np.maximum(-ends[0], ends[1]))
        if is_first or self._is_examined() or not self.sums.fits(pair):
            if not is_first:
                self.sums.adapt_units(block, pair, self.largest(ends), self._is_examined())
            if not self.sums.surely_in_range(ends):
                self.sums.check_outliers(block, pair, _namer(place))
                absent = self.sums.limit_reach(pair)
        blocks, w = block[None], None if weights is None else weights[None]
        sums = self.executor.sums(blocks, w, self.sums.units())
        if absent is not None:
            sums[:, absent] = 0.0  # they may have left the range of float64
        self.sums.digits.add(sums, weight_squares(blocks, w))
        self._count(ends[None], len(block), is_last)

    def _add_fitting(self, run: Float, weights: Float | None, n_threads: int) -> int:
        """Add the blocks of a run that fit the units, on all threads; returns their number."""
        ends = block_extremes(run, n_threads)
        n = self.sums.n_fitting(ends)
        if n:
            units, digits = self.sums.units(), self.sums.digits
            needed = self.sums.digits_for(ends[:n], run.shape[1], weights)
            w = None if weights is None else weights[:n]
            self.executor.add_blocks(run[:n], w, units, digits, needed, n_threads)
            self._count(ends[:n], run.shape[1])
        return n

    def _count(self, ends: Float, size: int, is_last: bool = False) -> None:
        """Count blocks that were added, with these bounds; now and then look at the mean.

        After the last block only constants can tell: the sums are about the mean in the end.
        """
        self.n_rows += len(ends) * size
        self.n_blocks += len(ends)
        np.minimum(self.minimum, ends[:, 0].min(axis=0), out=self.minimum)
        np.maximum(self.maximum, ends[:, 1].max(axis=0), out=self.maximum)
        if is_last and not self.sums.has_constants:
            return
        if self.n_blocks % _MEAN_CHECK == 0 or self._is_examined():
            self.sums.follow_mean()

    def close(self) -> Totals:
        """The sums of the shard in its canonical units; it takes no rows after that."""
        if self.n_waiting:
            n, self.n_waiting = self.n_waiting, 0
            rows, weights = (x[:n] for x in self._places())
            self._add_block(rows, weights, (-n, None), is_last=True)
        exponents, sums = self.sums.close()
        totals = Totals(
            layout=self.layout,
            exponents=exponents,
            shifts=tuple(self.sums.shifts),
            sums=sums,
            weight_squares=self.sums.weight_squares,
            n_rows=self.n_rows,
            minimum=self.minimum,
            maximum=self.maximum,
            exact_bounds=True,
            shards=frozenset([self.shard_id]),
            n_forgotten=0,
            reach=tuple(self.sums.reach.tolist()),
        )
        if self.schema is not None:
            totals = encoded(totals, self.schema)
        return recentered(totals)


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
