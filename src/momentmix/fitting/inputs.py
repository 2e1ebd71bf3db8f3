"""What `fit` accepts: rows, a summary of rows, or standardised moments. One adapter for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.core.standard_moments import StandardMoments
from momentmix.moments.rows import as_rows, checked_values
from momentmix.moments.summary import MomentSummary, summarize

Float = NDArray[np.float64]

__all__ = ["moments_of", "rows_of", "summarised"]


def moments_of(data: object) -> StandardMoments | None:
    """The standardised moments that `data` is or holds; None if it is rows."""
    if isinstance(data, StandardMoments):
        return data
    if not isinstance(data, MomentSummary):
        return None
    found = data.moments()
    return StandardMoments(
        found.n_features, found.order, found.distinct, found.squared, found.n_rows,
        data.effective_rows, found.shift, found.scale, data.minimum, data.maximum,
        np.asarray(data.variance == 0),
    )  # fmt: skip


def rows_of(data: Any) -> Float:
    """Rows as a float64 array, every value checked."""
    array, names = as_rows(data, None)
    checked_values(array, names)
    return np.asarray(array, dtype=np.float64)


def summarised(rows: Float, order: int, n_threads: int) -> StandardMoments:
    """Standardised moments of rows up to `order`, in one pass."""
    squared_order = max(0, min(2, order - 1))
    summary = summarize(rows, order, squared_order=squared_order, replicates=0, n_threads=n_threads)
    moments = moments_of(summary)
    assert moments is not None
    return moments
