"""What `fit` accepts: rows, a summary of rows, or standardised moments. One adapter for all."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix.core.array_backend import is_foreign
from momentmix.core.row_blocks import ArrayRows, RemoteRows, RowBlocks
from momentmix.core.standard_moments import StandardMoments
from momentmix.errors import InputError
from momentmix.fitting.device_em import DeviceRows
from momentmix.moments.device_shard import as_device_rows
from momentmix.moments.rows import as_rows, checked_values
from momentmix.moments.summary import MomentSummary

__all__ = ["moments_of", "rows_of", "summarised", "summary_of"]


def moments_of(data: object) -> StandardMoments | None:
    """The standardised moments that `data` is or holds; None if it is rows."""
    if isinstance(data, StandardMoments):
        return data
    if not isinstance(data, MomentSummary):
        return None
    data = data.copy()  # one state for all that follows, whatever other threads add meanwhile
    found = data.moments()
    return StandardMoments(
        found.n_features, found.order, found.distinct, found.squared, found.n_rows,
        data.effective_rows, found.shift, found.scale, data.minimum, data.maximum,
        np.asarray(data.variance == 0),
    )  # fmt: skip


def rows_of(data: Any) -> RowBlocks:
    """Rows that can be read again: a source or an array on a device as it is, else as float64.

    Values on a device are checked when they are summed, the others here.
    """
    if hasattr(data, "blocks") and hasattr(data, "n_features"):
        source: RowBlocks = data
        return source
    if is_foreign(data):
        return DeviceRows(as_device_rows(data, None))
    array, names = as_rows(data, None)
    checked_values(array, names)
    return ArrayRows(np.asarray(array, dtype=np.float64))


def summary_of(rows: RowBlocks, order: int, squared_order: int, n_threads: int) -> MomentSummary:
    """Summary of rows without replicate groups, in one pass."""
    if isinstance(rows, RemoteRows):
        found: MomentSummary = rows.summary(order, squared_order)
        return found
    summary = MomentSummary(
        rows.n_features, order, squared_order=squared_order, replicates=0, n_threads=n_threads
    )
    for block in [rows.rows] if isinstance(rows, ArrayRows | DeviceRows) else rows.blocks():
        summary.update(block)
    if not summary.n_rows:
        raise InputError("rows must hold at least one row; the source gave none.")
    return summary


def summarised(data: Any, order: int, n_threads: int) -> StandardMoments:
    """Standardised moments of rows up to `order`, in one pass."""
    moments = moments_of(summary_of(rows_of(data), order, max(0, min(2, order - 1)), n_threads))
    assert moments is not None
    return moments
