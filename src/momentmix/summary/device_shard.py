"""Rows that lie on a device → the open shard: large batches there, units and exact sums here.

The units come from the first block, on the host, as for NumPy rows. Then batches are summed where
they lie; they start small and grow sixteenfold, so that the units are checked again early, and
seldom later. Only bounds, one block and the sums of a batch come to the host. A batch whose bounds
put the units in doubt (an outlier, a constant that varies, another scale) is halved, and at the
size of a block it takes the way of NumPy rows. Sums of a batch are float64 sums of long slabs of
rows, so their last bits differ from NumPy's; from there on they are exact sums like all others.

A slab of n rows is wrong by about 2^−53·3^t·sqrt(n) standard errors of its sum at order t (see
``shard.open_shard``): about 1e-10 at the largest batches and order 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.rows.arrays import (
    as_float64,
    dtype_name,
    free_bytes,
    is_cuda_tensor,
    namespace,
    on_device_of,
    to_numpy,
)
from momentmix.rows.validation import LARGEST_VALUE, check_values
from momentmix.summary.kernels.choice import device_executor
from momentmix.summary.kernels.workers import Workers
from momentmix.summary.layout import Layout
from momentmix.summary.shard.open_shard import OpenShard
from momentmix.summary.shard.units import block_extremes

_GROWTH = 16
_FIRST_BLOCKS = 16  # blocks in the first batch
_LARGEST = {True: 1 << 27, False: 1 << 23}  # rows of a batch, up to order 4 and beyond
_MOST_SLABS, _SLAB_ENTRIES = 1024, 1 << 24  # so many fill a device; their sums have to fit too
_SLAB_ROWS = 1024  # fewer are not worth a product


class Place(NamedTuple):
    """Number of the first row in the update at hand, and the feature names, for messages."""

    first_row: int
    feature_names: Any


def add_device_rows(
    shard: OpenShard, rows: Any, weights: Float | None, workers: Workers, place: Place
) -> None:
    """Add rows of another array library where they lie.

    Parameters
    ----------
    shard : OpenShard
    rows : array of shape (n_rows, n_features) of any library
    weights : array of shape (n_rows,), optional
        NumPy, positive.
    workers : Workers
        For the blocks that come to the host.
    place : Place
    """
    adder = _Adder(shard, rows, weights, workers, place)
    n_rows = int(rows.shape[0])
    if shard.n_waiting or shard.sums.constants is None:
        adder.on_host(min(n_rows, shard.block_size - shard.n_waiting))
    seen = sum(shard.n_rows)
    largest = min(adder.most, max(_FIRST_BLOCKS * shard.block_size, seen))
    while n_rows - adder.start >= shard.block_size:
        length = min(largest, n_rows - adder.start)
        if adder.on_device(length):
            largest = min(adder.most, largest * _GROWTH)
        elif length <= 2 * shard.block_size:
            adder.on_host(adder.start + shard.block_size)
        else:
            largest = length // 2
    adder.on_host(n_rows)


class _Adder:
    """One call of `add_device_rows`: what is done so far."""

    def __init__(
        self, shard: OpenShard, rows: Any, weights: Float | None, workers: Workers, place: Place
    ) -> None:
        self.shard, self.rows, self.weights = shard, rows, weights
        self.workers, self.place = workers, place
        self.xp, self.start = namespace(rows), 0
        layout = shard.layout
        fitting = free_bytes(rows) // (16 * layout.n_features)
        self.most = max(shard.block_size, min(_LARGEST[layout.order <= 4], fitting))

    def _part(self, start: int, stop: int) -> Any:
        return as_float64(self.rows[start:stop, :], self.xp)

    def on_host(self, stop: int) -> None:
        """Add rows up to `stop` as NumPy rows."""
        start, self.start = self.start, stop
        if start == stop:
            return
        rows, (first_row, names) = to_numpy(self._part(start, stop)), self.place
        check_values(rows, names, first_row + start)
        weights = None if self.weights is None else self.weights[start:stop]
        self.shard.update(rows, weights, self.workers, names, first_row + start)

    def on_device(self, length: int) -> bool:
        """Add about so many rows where they lie, and True; False where they need a closer look."""
        shard, xp = self.shard, self.xp
        n_slabs = _slab_count(shard.layout, length)
        n = length // n_slabs
        stop = self.start + n_slabs * n
        batch = self._part(self.start, stop)
        ends = _ends(batch, xp)
        self._check_values(batch, ends)
        block = to_numpy(batch[: shard.block_size, :])
        low, high = ends
        near = block_extremes(block[None])[0]
        shard.sums.adapt_units(block, (near[0], near[1]), shard.largest((low, high)), True)
        if not shard.sums.fits((low, high)):
            return False
        weights = None if self.weights is None else self.weights[self.start : stop]
        sums = self._slab_sums(batch, weights, n_slabs)
        self._take(sums, weights, n_slabs, n)
        np.minimum(shard.minimum, low, out=shard.minimum)
        np.maximum(shard.maximum, high, out=shard.maximum)
        shard.sums.follow_mean()
        self.start = stop
        return True

    def _check_values(self, batch: Any, ends: Float) -> None:
        """Raise as NumPy rows do where a value is missing, infinite or too large."""
        if (np.abs(ends) <= LARGEST_VALUE).all():
            return
        xp = self.xp
        bad = xp.any(xp.logical_not(xp.abs(batch) <= LARGEST_VALUE), axis=1)
        row = int(xp.argmax(xp.astype(bad, xp.int64)))
        first_row, names = self.place
        check_values(to_numpy(batch[row : row + 1, :]), names, first_row + self.start + row)

    def _slab_sums(self, batch: Any, weights: Float | None, n_slabs: int) -> Any:
        layout, xp = self.shard.layout, self.xp
        slabs = xp.reshape(batch, (n_slabs, -1, layout.n_features))
        w = None
        if weights is not None:
            w = xp.reshape(on_device_of(weights, batch, xp), (n_slabs, -1))
        executor = device_executor(layout, self.rows)
        return executor.sums(slabs, w, self.shard.sums.units())

    def _take(self, sums: Any, weights: Float | None, n_slabs: int, n: int) -> None:
        """Add the sums of each slab, (n_slabs, n_entries), to its group."""
        shard, xp = self.shard, self.xp
        n_groups, n_low = shard.layout.n_groups, shard.layout.n_low
        groups = (shard.first_group + shard.n_blocks + np.arange(n_slabs)) % n_groups
        if n_slabs > n_groups:
            sums = xp.sum(xp.reshape(sums, (n_slabs // n_groups, n_groups, -1)), axis=0)
        low = np.zeros((n_groups, n_low))
        low[groups[:n_groups]] = to_numpy(sums[:, :n_low])
        squares = float(n_slabs * n) if weights is None else float(weights @ weights)
        high = np.append(to_numpy(xp.sum(sums[:, n_low:], axis=0)), squares)
        shard.sums.digits.add_groups(low, high)
        for group, count in zip(*np.unique(groups, return_counts=True), strict=True):
            shard.n_rows[group] += int(count) * n
        shard.n_blocks += n_slabs


def _ends(batch: Any, xp: Any) -> NDArray[Any]:
    """Minimum and maximum of each feature, (2, n_features), NaN where there is one."""
    if is_cuda_tensor(batch):
        return to_numpy(xp.stack(list(batch.aminmax(dim=0))))  # one pass instead of two
    low, high = xp.min(batch, axis=0), xp.max(batch, axis=0)
    if dtype_name(batch) == "float64":  # not every library hands NaN on from min and max
        low = xp.where(xp.any(xp.isnan(batch), axis=0), xp.full_like(low, float("nan")), low)
    return to_numpy(xp.stack([low, high]))


def _slab_count(layout: Layout, n_rows: int) -> int:
    """Slabs of a batch: a multiple of the groups, or fewer than these where rows are few."""
    most = min(_MOST_SLABS, max(1, _SLAB_ENTRIES // layout.n_entries))
    wanted = max(1, min(most, n_rows // _SLAB_ROWS))
    groups = layout.n_groups
    return wanted if wanted < groups else wanted // groups * groups
