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

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.rows.names import column_label
from momentmix.summary.kernels.executor import Executor, Units
from momentmix.summary.kernels.workers import Workers
from momentmix.summary.layout import Layout
from momentmix.summary.shard.moving_sums import MovingSums
from momentmix.summary.shard.units import extremes
from momentmix.summary.totals import Totals, recentered

_LARGEST_BLOCK = 4096  # rows: longer sums lose digits, and the price of a block is small by then
_SMALLEST_BLOCK = 1024
_ROUNDS = 4  # of dealing blocks to all groups before blocks double: groups stay alike
_MANY_MOMENTS = 100_000  # then splitting the sums of a block into digits costs as much as rows
_USUAL_GROUPS = 16  # fewer change nothing, so that the sums are those of a summary without groups
_MEAN_CHECK = 128  # blocks between two looks at the mean, which take about as long as a block


def block_rows(layout: Layout, number: int) -> int:
    """Rows of a block of a shard, by its number.

    Few at first, so that small data fill the replicate groups; after every four rounds of dealing
    blocks to the groups twice as many, since each block has a price of its own. A shard of many
    moments has large blocks throughout.

    Examples
    --------
    >>> [block_rows(Layout(15, 4, 2, 16), number) for number in (0, 63, 64, 128, 10**6)]
    [1024, 1024, 2048, 4096, 4096]
    """
    if layout.n_entries >= _MANY_MOMENTS:
        return _LARGEST_BLOCK
    doublings = number // (_ROUNDS * max(layout.n_groups, _USUAL_GROUPS))
    return min(_LARGEST_BLOCK, _SMALLEST_BLOCK << min(doublings, 8))


class OpenShard:
    """Sums of one shard while rows arrive.

    Parameters
    ----------
    layout : Layout
    executor : Executor
        What sums the blocks, from the first to the last.
    shard_id : bytes
        16 bytes; the first replicate group follows from them, so that many small shards spread.
    """

    def __init__(self, layout: Layout, executor: Executor, shard_id: bytes) -> None:
        d = layout.n_features
        self.layout, self.executor, self.shard_id = layout, executor, shard_id
        self.first_group = int.from_bytes(shard_id, "little") % layout.n_groups
        self.sums = MovingSums(layout)
        self.n_blocks = 0
        self.n_rows = [0] * layout.n_groups
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.waiting = np.empty((_LARGEST_BLOCK, d))
        self.waiting_weights = np.empty(_LARGEST_BLOCK)
        self.n_waiting = 0

    def clone(self) -> OpenShard:
        """Independent copy: an update works on one, so that an error leaves the original alone."""
        twin = OpenShard.__new__(OpenShard)
        twin.__dict__.update(self.__dict__)
        for name in ("sums", "n_rows", "minimum", "maximum", "waiting", "waiting_weights"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def n_all(self) -> int:
        """Number of rows so far."""
        return sum(self.n_rows) + self.n_waiting

    def snapshot(self) -> Totals:
        """The sums of the rows so far, as if the shard were complete; it stays as it is."""
        with Workers(1) as workers:
            return self.clone().close(workers)

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
        workers: Workers,
        names: Any,
        first_row: int = 0,
    ) -> None:
        """Add checked rows of any real dtype; messages count from `first_row`."""
        start = 0
        for block, block_weights, stop in self._blocks(rows, weights):
            self._take(block, block_weights, workers, (first_row + stop - len(block), names))
            start = stop
        workers.wait()
        n_waiting = self._put(rows[start:], None if weights is None else weights[start:])
        self._check_waiting(n_waiting, (first_row + len(rows) - n_waiting, names))
        self.n_waiting = n_waiting

    def _blocks(
        self, rows: NDArray[Any], weights: Float | None
    ) -> Iterator[tuple[Float, Float, int]]:
        """Full blocks with their weights and the row after them; the caller takes each at once."""
        ones, start, size = np.ones(_LARGEST_BLOCK), 0, self.block_size
        if self.n_waiting and self.n_waiting + len(rows) >= size:
            start = size - self.n_waiting
            self._put(rows[:start], None if weights is None else weights[:start])
            self.n_waiting = 0
            yield self.waiting[:size].copy(), self.waiting_weights[:size].copy(), start
        while start + self.block_size <= len(rows):
            part = slice(start, start + self.block_size)
            block = rows[part].astype(np.float64, copy=False)
            start = part.stop
            yield block, ones[: len(block)] if weights is None else weights[part], start

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
        ends, names = extremes(block), _namer(place)
        try:
            self.sums.check_outliers(block, ends, names)
        except InputError:
            trial = self.sums.copy()  # the units may change before these rows are added
            trial.adapt_units(block, ends, self.largest(ends), True, lambda: None)
            trial.check_outliers(block, ends, names)

    # -- blocks → sums ------------------------------------------------------------------------

    def largest(self, ends: tuple[Float, Float]) -> Float:
        """Largest absolute value of each feature so far and in a block."""
        low, high = np.minimum(self.minimum, ends[0]), np.maximum(self.maximum, ends[1])
        return np.asarray(np.maximum(-low, high))

    def _take(self, block: Float, weights: Float, workers: Workers, place: tuple[int, Any]) -> None:
        ends = extremes(block)
        examine = (self.n_blocks & (self.n_blocks - 1)) == 0
        absent = None
        if self.sums.constants is None:
            self.sums.choose_units(block)
            self.sums.check_outliers(block, ends, _namer(place))
            absent = self.sums.limit_reach(ends)
        elif examine or not self.sums.fits(ends):
            self.sums.adapt_units(block, ends, self.largest(ends), examine, workers.wait)
            self.sums.check_outliers(block, ends, _namer(place))
            absent = self.sums.limit_reach(ends)
        group = (self.first_group + self.n_blocks) % self.layout.n_groups
        workers.submit(
            self._sum_block,
            *(block, weights, self.sums.units(), group, absent),
            alone=not self.executor.gains_by_threads,
        )
        self.n_blocks += 1
        self.n_rows[group] += len(block)
        np.minimum(self.minimum, ends[0], out=self.minimum)
        np.maximum(self.maximum, ends[1], out=self.maximum)
        if self.n_blocks % _MEAN_CHECK == 0 or (self.n_blocks & (self.n_blocks - 1)) == 0:
            workers.wait()
            self.sums.follow_mean()

    def _sum_block(
        self, block: Float, weights: Float, units: Units, group: int, absent: Int | None
    ) -> None:
        sums = self.executor.sums(block[None], weights[None], units)[0]
        if absent is not None:
            sums[absent] = 0.0  # they may have left the range of float64
        self.sums.digits.add(sums, float(weights @ weights), group)

    def close(self, workers: Workers) -> Totals:
        """The sums of the shard in its canonical units; it takes no rows after that."""
        if self.n_waiting:
            n, self.n_waiting = self.n_waiting, 0
            self._take(self.waiting[:n], self.waiting_weights[:n], workers, (-n, None))
        exponents = self.sums.close(workers.wait)
        totals = Totals(
            layout=self.layout,
            exponents=exponents,
            shifts=tuple(self.sums.shifts),
            sums=self.sums.base,
            weight_squares=self.sums.weight_squares,
            n_rows=tuple(self.n_rows),
            minimum=self.minimum,
            maximum=self.maximum,
            exact_bounds=True,
            shards=frozenset([self.shard_id]),
            n_forgotten=0,
            reach=tuple(self.sums.reach.tolist()),
        )
        return recentered(totals)


def _namer(place: tuple[int, Any]) -> Any:
    """Names a row of a block and a column in the terms of the update at hand."""
    first_row, feature_names = place

    def name(row: int, column: int) -> str:
        label = column_label(column, feature_names)
        if first_row + row < 0:
            return f"a row of an earlier update, {label},"
        return f"row {first_row + row}, {label},"

    return name
