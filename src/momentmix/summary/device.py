"""Rows of a tensor → the open shard: large batches on an NVIDIA device, frames and exact sums here.

The frame comes from the first block, on the host, as for NumPy rows. Then batches are summed where
they lie; they start small and grow sixteenfold. Only bounds, one block and the sums of a batch come
to the host. A batch whose bounds or means do not fit the frame (an outlier, a constant that varies,
a drift) is halved, and at the size of a block it takes the way of NumPy rows. So do rows on other
devices, and all rows where the kernel has no code for the layout. Sums of a batch are float64 sums
of long slabs of rows, so their last bits differ from NumPy's; from there on they are exact sums.

A slab of n rows is wrong by about 2^−53·3^t·sqrt(n) standard errors of its sum at order t (see
``blocks``): about 1e-10 at the largest batches and order 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import as_float64, free_bytes, is_cuda_tensor, namespace, to_numpy
from momentmix.summary.blocks import BLOCK, FAR, OpenShard, digits_needed
from momentmix.summary.kernel import add_digits
from momentmix.summary.layout import Layout
from momentmix.tables.validation import LARGEST_VALUE, check_values

_GROWTH = 16
_FIRST_BLOCKS = 16  # blocks in the first batch
_LARGEST = {True: 1 << 27, False: 1 << 23}  # rows of a batch, up to order 4 and beyond
_MOST_SLABS, _SLAB_ENTRIES = 1024, 1 << 24  # so many fill a device; their sums have to fit too
_SLAB_ROWS = 1024  # fewer are not worth a product
_WIDE = 1024  # rows side by side whose bounds are taken at once: the full rate of the memory


def add_device_rows(
    shard: OpenShard, rows: Any, weights: Float | None, n_threads: int | None, names: Any
) -> None:
    """Add rows of a tensor where they lie; their weights, if any, are NumPy's."""
    layout, n_rows, start = shard.layout, len(rows), 0
    executor = device_executor(layout, rows)
    fitting = free_bytes(rows) // (16 * layout.n_features)
    most = max(BLOCK, min(_LARGEST[layout.order <= 4], fitting))

    def first_length() -> int:
        return min(most, max(_FIRST_BLOCKS * BLOCK, shard.n_rows))

    def add_on_host(stop: int) -> None:
        nonlocal start
        part = to_numpy(as_float64(rows[start:stop]))
        shard.update(part, _part(weights, start, stop), n_threads, names, start)
        start = stop

    length = first_length()  # rows of the next batch
    while executor is not None and n_rows - start >= BLOCK:
        if shard.n_waiting or shard.frame is None:  # a block has to be filled, or gives the units
            add_on_host(start + BLOCK - shard.n_waiting)
            length = first_length()
            continue
        n = min(length, n_rows - start)
        n_slabs = slab_count(layout, n)
        stop = start + n // n_slabs * n_slabs
        part, w = as_float64(rows[start:stop]), _part(weights, start, stop)
        ends = _ends(part)
        if not (np.abs(ends) <= LARGEST_VALUE).all():
            row = int(to_numpy(~(part.abs() <= LARGEST_VALUE).all(axis=1)).argmax())
            check_values(to_numpy(part[row : row + 1]), names, start + row)
        if shard.frame.fits(ends).all() and _add_batch(shard, executor, part, w, n_slabs, ends):
            start, length = stop, min(most, length * _GROWTH)
        elif n <= 2 * BLOCK:
            add_on_host(start + BLOCK)
        else:
            length = n // 2
    while start < n_rows:
        add_on_host(min(n_rows, start + most))


def device_executor(layout: Layout, rows: Any) -> Any:
    """Return what sums the rows of a tensor where they lie; None if nothing does."""
    if not is_cuda_tensor(rows):
        return None
    from momentmix.summary.gpu_kernel import TritonExecutor  # slow to import

    return TritonExecutor(layout) if TritonExecutor.suits(layout) else None


def _part(weights: Float | None, start: int, stop: int) -> Float | None:
    return None if weights is None else weights[start:stop]


def _add_batch(
    shard: OpenShard, executor: Any, rows: Any, weights: Float | None, n_slabs: int, ends: Float
) -> bool:
    """Add a batch, unless the means of its slabs lie far from the origin."""
    assert shard.frame is not None
    squares, w, d = float(len(rows)), None, shard.layout.n_features
    if weights is not None:
        squares = float(weights @ weights)
        w = namespace(rows).tensor(weights, device=rows.device).reshape(n_slabs, -1)
    values = executor.sums(rows.reshape(n_slabs, -1, d), w, shard.frame.units)
    if bool((abs(values[:, 1 : d + 1]) > FAR * values[:, :1]).any()):
        return False
    sums = to_numpy(values.sum(axis=0))
    digits = np.zeros((digits_needed(float(np.abs(sums).max())), sums.size))
    add_digits(sums, digits)
    shard.add(digits[None], np.array([squares]), ends[None], len(rows))
    return True


def _ends(rows: Any) -> Float:
    """Minimum and maximum of each feature, (2, n_features), NaN where there is one."""
    torch, n = namespace(rows), len(rows) // _WIDE * _WIDE
    if n and rows.is_contiguous():
        wide = rows[:n].view(n // _WIDE, -1).aminmax(dim=0)
        rows = torch.cat([*(ends.view(_WIDE, -1) for ends in wide), rows[n:]])
    return to_numpy(torch.stack(list(rows.aminmax(dim=0))))  # one pass for both


def slab_count(layout: Layout, n_rows: int) -> int:
    """Slabs of a batch."""
    most = min(_MOST_SLABS, max(1, _SLAB_ENTRIES // layout.n_entries))
    return max(1, min(most, n_rows // _SLAB_ROWS))
