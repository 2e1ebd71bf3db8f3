"""Rows that lie on a device → the open shard: large batches there, units and exact sums here.

The units come from the first block, on the host, as for NumPy rows. Then batches are summed where
they lie; they start small and grow sixteenfold, so that the mean is looked at early, and seldom
later. Only bounds, one block and the sums of a batch come to the host. A batch whose bounds do not
fit the units (an outlier, a constant that varies, another scale) is halved, and at the size of a
block it takes the way of NumPy rows. Sums of a batch are float64 sums of long slabs of
rows, so their last bits differ from NumPy's; from there on they are exact sums like all others.

An NVIDIA device is kept at work: the sums of the next batches are started before the sums of the
present one are in the exact sums. If another shard opens then, they are started again in its
units, so that they are what they would be one batch after the other. Batches whose first rows have
drifted from the shift are not started early.

A slab of n rows is wrong by about 2^−53·3^t·sqrt(n) standard errors of its sum at order t (see
``open_shard``): about 1e-10 at the largest batches and order 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import (
    as_float64,
    dtype_name,
    free_bytes,
    is_cuda_tensor,
    namespace,
    on_device_of,
    to_numpy,
    to_numpy_later,
)
from momentmix.summary.exact.open_shard import OpenShard, block_rows
from momentmix.summary.exact.shard_sums import ShardSums
from momentmix.summary.exact.units import ShardUnits
from momentmix.summary.kernels.array_sums import device_executor
from momentmix.summary.layout import Layout
from momentmix.tables.validation import LARGEST_VALUE, check_values

_GROWTH = 16
_FIRST_BLOCKS = 16  # blocks in the first batch
_LARGEST = {True: 1 << 27, False: 1 << 23}  # rows of a batch, up to order 4 and beyond
_MOST_SLABS, _SLAB_ENTRIES = 1024, 1 << 24  # so many fill a device; their sums have to fit too
_SLAB_ROWS = 1024  # fewer are not worth a product
_STEADY = 2  # batches in a row that fit before a look beyond the next
_GLANCE = 256  # rows that show whether the mean moves
_WIDE = 1024  # rows side by side whose bounds are taken at once: the full rate of the memory


def add_device_rows(
    shard: OpenShard, rows: Any, weights: Float | None, n_threads: int, place: tuple[int, Any]
) -> None:
    """Add rows of another array library where they lie; their weights, if any, are NumPy's.

    The place, for messages, is the number of the first row in the update, and names of features.
    """
    adder = _Adder(shard, rows, weights, n_threads, place)
    if shard.n_waiting or shard.sums is None:
        adder.add_first()
    while (batch := next(adder.foreseen(), None)) is not None:
        if shard.sums is None:
            adder.add_first()
            continue
        if adder.on_device(batch, shard.sums):
            continue
        if batch.length <= 2 * shard.block_size:
            adder.on_host(adder.start + shard.block_size)
        else:
            adder.largest = batch.length // 2
    adder.on_host(adder.n_rows)


class _Batch(NamedTuple):
    """Rows that are summed at once: slabs of n rows each, fewer than n_slabs short of `length`."""

    start: int
    length: int
    n_slabs: int

    @property
    def n(self) -> int:
        return self.length // self.n_slabs

    @property
    def stop(self) -> int:
        return self.start + self.n_slabs * self.n


class _Adder:
    """One call of `add_device_rows`: what is done so far."""

    def __init__(
        self,
        shard: OpenShard,
        rows: Any,
        weights: Float | None,
        n_threads: int,
        place: tuple[int, Any],
    ) -> None:
        self.shard, self.rows, self.weights = shard, rows, weights
        self.n_threads, self.place = n_threads, place
        self.xp, self.n_rows = namespace(rows), int(rows.shape[0])
        self.start = 0  # the first row that is not added yet
        layout = shard.layout
        fitting = free_bytes(rows) // (16 * layout.n_features)
        self._most = max(shard.block_size, min(_LARGEST[layout.order <= 4], fitting))
        self.largest = self._first_length(shard.n_blocks, shard.n_rows)  # rows of the next batch
        self._executor = device_executor(layout, rows)
        self._most_ahead, self._n_fitting = _n_ahead(rows), _STEADY
        self._looks: dict[_Batch, Callable[[], Float]] = {}  # see `_look_at`
        self._asked: dict[_Batch, Callable[[], Float]] = {}  # sums on their way to the host
        self._units: ShardUnits | None = None  # of the sums that were started

    def _first_length(self, n_blocks: int, seen: int) -> int:
        return min(self._most, max(_FIRST_BLOCKS * block_rows(self.shard.layout, n_blocks), seen))

    @property
    def _n_ahead(self) -> int:
        """Batches that are started early: none while batches have to be halved."""
        return self._most_ahead if self._n_fitting >= _STEADY else 0

    def foreseen(self) -> Iterator[_Batch]:
        """The batches of the rest of the rows, if all of them fit the units."""
        layout, start, largest = self.shard.layout, self.start, self.largest
        n_blocks = self.shard.n_blocks
        while self.n_rows - start >= block_rows(layout, n_blocks):
            length = min(largest, self.n_rows - start)
            batch = _Batch(start, length, slab_count(layout, length))
            yield batch
            start, n_blocks = batch.stop, n_blocks + batch.n_slabs
            largest = min(self._most, largest * _GROWTH)

    # -- rows → host ---------------------------------------------------------------------------

    def add_first(self) -> None:
        """Add rows as NumPy rows until a block is complete."""
        shard, start = self.shard, self.start
        stop = min(self.n_rows, start + shard.block_size - shard.n_waiting)
        self.start = stop
        self._update(self._checked(start, stop), start)
        self.largest = self._first_length(shard.n_blocks, shard.n_rows)

    def on_host(self, stop: int) -> None:
        """Add rows up to `stop` as NumPy rows."""
        start, self.start = self.start, stop
        if start < stop:
            self._update(self._checked(start, stop), start)

    def _part(self, start: int, stop: int) -> Any:
        return as_float64(self.rows[start:stop, :], self.xp)

    def _checked(self, start: int, stop: int) -> Float:
        rows, (first_row, names) = to_numpy(self._part(start, stop)), self.place
        check_values(rows, names, first_row + start)
        return rows

    def _update(self, rows: Float, start: int) -> None:
        weights = None if self.weights is None else self.weights[start : start + len(rows)]
        first_row, names = self.place
        self.shard.update(rows, weights, self.n_threads, names, first_row + start)

    # -- rows → sums on the device -------------------------------------------------------------

    def on_device(self, batch: _Batch, sums: ShardSums) -> bool:
        """Add a batch where it lies, and True; False where it needs a closer look."""
        n_looks = self._n_ahead + 2 if self._n_ahead else 1  # one more than is started
        batches = list(islice(self.foreseen(), n_looks))
        self._look_at(batches)
        ends = self._looks.pop(batch)()[:2]
        self._check_values(batch, ends)
        if not sums.fits(ends):
            self._looks.clear()
            self._asked.clear()
            self._n_fitting = 0
            return False
        if self._units is not sums.units:
            self._asked.clear()
        if batch not in self._asked:
            self._ask_for(batch, sums)
        self._ask_ahead(batches[1 : self._n_ahead + 1], sums)
        self._take(batch, sums, ends)
        self.start, self.largest = batch.stop, min(self._most, self.largest * _GROWTH)
        self._n_fitting += 1
        return True

    def _look_at(self, batches: list[_Batch]) -> None:
        """Have the device find the bounds of batches, with some of their rows behind these."""
        for batch in batches:
            if batch not in self._looks:
                ends = _ends(self.rows[batch.start : batch.stop, :], self.xp)
                head = self._part(batch.start, min(batch.stop, batch.start + _GLANCE))
                self._looks[batch] = to_numpy_later(self.xp.concat([ends, head]))

    def _check_values(self, batch: _Batch, ends: Float) -> None:
        """Raise as NumPy rows do where a value is missing, infinite or too large."""
        if _in_range(ends):
            return
        xp, rows = self.xp, self._part(batch.start, batch.stop)
        bad = xp.any(xp.logical_not(xp.abs(rows) <= LARGEST_VALUE), axis=1)
        row = batch.start + int(xp.argmax(xp.astype(bad, xp.int64)))
        self._checked(row, row + 1)

    def _ask_ahead(self, batches: list[_Batch], sums: ShardSums) -> None:
        """Have the device sum batches in the present units, but for one that may change them."""
        for batch in batches:
            if batch not in self._asked:
                look = self._looks[batch]()
                if not (_in_range(look[:2]) and sums.fits(look[:2])) or _drifts(look[2:], sums):
                    return
                self._ask_for(batch, sums)

    def _ask_for(self, batch: _Batch, sums: ShardSums) -> None:
        """Have the device sum a batch in the present units."""
        layout, xp, n_slabs = self.shard.layout, self.xp, batch.n_slabs
        rows, w = self._part(batch.start, batch.stop), None
        if self.weights is not None:
            weights = self.weights[batch.start : batch.stop]
            w = xp.reshape(on_device_of(weights, rows, xp), (n_slabs, -1))
        slabs = xp.reshape(rows, (n_slabs, -1, layout.n_features))
        self._units = sums.units
        values = self._executor.sums(slabs, w, sums.units.factors)
        self._asked[batch] = to_numpy_later(xp.sum(values, axis=0))

    def _take(self, batch: _Batch, sums: ShardSums, ends: Float) -> None:
        n_rows = batch.stop - batch.start
        squares = float(n_rows)
        if self.weights is not None:
            weights = self.weights[batch.start : batch.stop]
            squares = float(weights @ weights)
        sums.digits.add(self._asked.pop(batch)()[None], np.array([squares]))
        self.shard.count(ends[None], n_rows, batch.n_slabs)


def _n_ahead(rows: Any) -> int:
    """Batches that are started before the present one is added: of use if the device goes on."""
    return 2 if is_cuda_tensor(rows) else 0


def _in_range(ends: Float) -> bool:
    return bool((np.abs(ends) <= LARGEST_VALUE).all())


def _drifts(head: Float, sums: ShardSums) -> bool:
    """Whether the mean of some rows has left the shift as far as ends a shard."""
    factor, shift = sums.units.factors
    points = head * factor - shift
    mean = points.mean(axis=0)
    return bool(((np.abs(mean) > 2) & (mean * mean > points.var(axis=0))).any())


def _ends(rows: Any, xp: Any) -> Any:
    """Minimum and maximum of each feature, (2, n_features), NaN where there is one."""
    if is_cuda_tensor(rows) and dtype_name(rows) in ("float64", "float32"):
        n = len(rows) // _WIDE * _WIDE
        if n and rows.is_contiguous():
            wide = rows[:n].view(n // _WIDE, -1).aminmax(dim=0)
            rows = xp.concat([*(ends.view(_WIDE, -1) for ends in wide), rows[n:]])
        return as_float64(xp.stack(list(rows.aminmax(dim=0))), xp)  # one pass instead of two
    rows = as_float64(rows, xp)
    low, high = xp.min(rows, axis=0), xp.max(rows, axis=0)
    # Not every library hands NaN on from min and max.
    low = xp.where(xp.any(xp.isnan(rows), axis=0), xp.full_like(low, float("nan")), low)
    return xp.stack([low, high])


def slab_count(layout: Layout, n_rows: int) -> int:
    """Slabs of a batch."""
    most = min(_MOST_SLABS, max(1, _SLAB_ENTRIES // layout.n_entries))
    return max(1, min(most, n_rows // _SLAB_ROWS))
