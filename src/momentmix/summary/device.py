"""Rows of a tensor → the open shard: large batches on its device, frames and exact sums here.

The frame comes from the first block, on the host, as for NumPy rows. Then batches are summed where
they lie; they start small and grow sixteenfold. Only bounds, one block and the sums of a batch come
to the host. A batch whose bounds or means do not fit the frame (an outlier, a constant that varies,
a drift) is halved, and at the size of a block it takes the way of NumPy rows. Sums of a batch are
float64 sums of long slabs of rows, so their last bits differ from NumPy's; from there on they are
exact sums like all others.

A slab of n rows is wrong by about 2^−53·3^t·sqrt(n) standard errors of its sum at order t (see
``blocks``): about 1e-10 at the largest batches and order 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import as_float64, dtype_name, free_bytes, namespace, on_device_of, to_numpy
from momentmix.summary.blocks import FAR, BlockSums, OpenShard
from momentmix.summary.kernels.array_sums import device_executor
from momentmix.summary.layout import Layout
from momentmix.tables.validation import LARGEST_VALUE, check_values

_GROWTH = 16
_FIRST_BLOCKS = 16  # blocks in the first batch
_LARGEST = {True: 1 << 27, False: 1 << 23}  # rows of a batch, up to order 4 and beyond
_MOST_SLABS, _SLAB_ENTRIES = 1024, 1 << 24  # so many fill a device; their sums have to fit too
_SLAB_ROWS = 1024  # fewer are not worth a product
_WIDE = 1024  # rows side by side whose bounds are taken at once: the full rate of the memory


def add_device_rows(
    shard: OpenShard, rows: Any, weights: Float | None, n_threads: int, names: Any
) -> None:
    """Add rows of a tensor where they lie; their weights, if any, are NumPy's."""
    layout, n_rows, start = shard.layout, len(rows), 0
    executor = device_executor(layout, rows)
    fitting = free_bytes(rows) // (16 * layout.n_features)
    most = max(shard.block_size, min(_LARGEST[layout.order <= 4], fitting))

    def first_length() -> int:
        return min(most, max(_FIRST_BLOCKS * shard.block_size, shard.n_rows))

    def add_on_host(stop: int) -> None:
        nonlocal start
        part = to_numpy(as_float64(rows[start:stop]))
        check_values(part, names, start)
        shard.update(part, _part(weights, start, stop), n_threads)
        start = stop

    length = first_length()  # rows of the next batch
    while n_rows - start >= shard.block_size:
        if shard.n_waiting or shard.frame is None:  # a block has to be filled, or gives the units
            add_on_host(start + shard.block_size - shard.n_waiting)
            length = first_length()
            continue
        n = min(length, n_rows - start)
        n_slabs = slab_count(layout, n)
        stop = start + n // n_slabs * n_slabs
        ends = _ends(rows[start:stop])
        if not (np.abs(ends) <= LARGEST_VALUE).all():
            _refuse(rows[start:stop], names, start)
        part, w = as_float64(rows[start:stop]), _part(weights, start, stop)
        if shard.frame.fits(ends).all() and _add_batch(shard, executor, part, w, n_slabs, ends):
            start, length = stop, min(most, length * _GROWTH)
        elif n <= 2 * shard.block_size:
            add_on_host(start + shard.block_size)
        else:
            length = n // 2
    if start < n_rows:
        add_on_host(n_rows)


def _part(weights: Float | None, start: int, stop: int) -> Float | None:
    return None if weights is None else weights[start:stop]


def _add_batch(
    shard: OpenShard, executor: Any, rows: Any, weights: Float | None, n_slabs: int, ends: Float
) -> bool:
    """Add a batch, unless the means of its slabs lie far from the origin."""
    assert shard.frame is not None
    xp, squares, w, d = namespace(rows), float(len(rows)), None, shard.layout.n_features
    if weights is not None:
        squares = float(weights @ weights)
        w = on_device_of(weights, rows, xp).reshape(n_slabs, -1)
    values = executor.sums(rows.reshape(n_slabs, -1, d), w, shard.frame.units)
    if bool((abs(values[:, 1 : d + 1]) > FAR * values[:, :1]).any()):
        return False
    sums = BlockSums(shard.layout)
    sums.add(to_numpy(values.sum(axis=0))[None], np.array([squares]))
    shard.add(sums, ends[None], len(rows))
    return True


def _refuse(rows: Any, names: Any, start: int) -> None:
    """Raise as NumPy rows do: a value is missing, infinite or too large."""
    rows = as_float64(rows)
    row = int(to_numpy(~(rows.abs() <= LARGEST_VALUE).all(axis=1)).argmax())
    check_values(to_numpy(rows[row : row + 1]), names, start + row)


def _ends(rows: Any) -> Float:
    """Minimum and maximum of each feature, (2, n_features), NaN where there is one."""
    if dtype_name(rows) not in ("float64", "float32"):
        rows = as_float64(rows)
    xp, n = namespace(rows), len(rows) // _WIDE * _WIDE
    if n and rows.is_contiguous():
        wide = rows[:n].view(n // _WIDE, -1).aminmax(dim=0)
        rows = xp.concat([*(ends.view(_WIDE, -1) for ends in wide), rows[n:]])
    return to_numpy(as_float64(xp.stack(list(rows.aminmax(dim=0)))))  # one pass for both


def slab_count(layout: Layout, n_rows: int) -> int:
    """Slabs of a batch."""
    most = min(_MOST_SLABS, max(1, _SLAB_ENTRIES // layout.n_entries))
    return max(1, min(most, n_rows // _SLAB_ROWS))
