"""What `fit` accepts: rows, a summary of rows, or standardized moments. One adapter for all.

Summaries hold numbers up to 2^1000, and as small as they come. The variances of a mixture are
squares of such numbers, so that a fit needs units in which squares are float64 numbers too: what is
beyond is refused here, before any work that depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from momentmix.errors import InputError
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.arrays import is_foreign
from momentmix.names import column_label
from momentmix.tables.opening import path_list
from momentmix.tables.rows import ArrayRows, BlockRows, DeviceRows, Rows
from momentmix.tables.validation import (
    LARGEST_TO_FIT,
    as_device_rows,
    as_rows,
    check_sizes,
    check_values,
)
from momentmix.summary.file import is_summary_file
from momentmix.summary.summary import MomentSummary

_SMALLEST_DEVIATION = 1e-151  # its square, times the usual variance floor, is a float64 number


def is_summary_path(data: Any) -> bool:
    """Whether these are paths of summaries; an error where some are and others are not."""
    paths = path_list(data)
    are_summaries = [is_summary_file(path) for path in paths]
    if any(are_summaries) and not all(are_summaries):
        raise InputError(
            f"{paths[are_summaries.index(True)]} is a summary and "
            f"{paths[are_summaries.index(False)]} is not; give summaries or data files, not both."
        )
    return any(are_summaries)


def load_summaries(paths: Sequence[str]) -> MomentSummary:
    """The sum of the summaries in files."""
    total, *others = (MomentSummary.load(path) for path in paths)
    for other in others:
        total = total + other
    return total


def moments_of(data: object) -> StandardMoments | None:
    """The standardized moments that `data` is or holds; None if it is rows."""
    if isinstance(data, StandardMoments):
        check_sizes(data.minimum, data.maximum)
        _check_spread(data, None)
        return data
    if not isinstance(data, MomentSummary):
        return None
    data = data.copy()  # one state for all that follows, whatever other threads add meanwhile
    if data.n_rows:
        check_sizes(data.minimum, data.maximum, data.feature_names)
    view = data.moments()
    constant = (data.deviation == 0) | (data.minimum == data.maximum)
    scale = np.where(constant & (view.scale < _SMALLEST_DEVIATION), 1.0, view.scale)
    moments = StandardMoments(
        view.n_features, view.order, view.distinct, view.squared, view.n_rows,
        data.effective_rows, view.shift, scale, data.minimum, data.maximum, constant,
        data.feature_names, powers=view.powers, cubed=view.cubed, two_squares=view.two_squares,
    )  # fmt: skip
    _check_spread(moments, data.feature_names)
    return moments


def _check_spread(moments: StandardMoments, feature_names: Sequence[str] | None) -> None:
    """Raise where a column varies so little that its variance is no float64 number."""
    # Below about 1e-316 the exact sums see no spread; the bounds do.
    spread = np.where(moments.constant, moments.maximum - moments.minimum, moments.scale)
    small = np.flatnonzero((spread > 0) & (spread < _SMALLEST_DEVIATION))
    if small.size:
        column = int(small[0])
        size = max(abs(moments.minimum[column]), abs(moments.maximum[column]))
        unit = 10.0 ** min(300, -int(np.log10(spread[column])))
        raise InputError(
            f"columns to be fitted must have a standard deviation of at least "
            f"{_SMALLEST_DEVIATION:g}, since variances are its square; "
            f"{column_label(column, feature_names)} has {spread[column]:.3g}, and values up to "
            f"{size:.3g}. Rescale the column: multiply it by a constant such as {unit:g}."
        )


def rows_of(data: Any) -> Rows:
    """Rows that can be read again: a source or an array on a device as it is, else as float64.

    Values on a device are checked when they are summed, the others here.
    """
    if isinstance(data, Rows):
        return data
    if hasattr(data, "blocks") and hasattr(data, "n_features"):
        return BlockRows(data)
    if is_foreign(data):
        return DeviceRows(as_device_rows(data, None))
    array, names = as_rows(data, None)
    check_values(array, names, largest=LARGEST_TO_FIT)
    return ArrayRows(np.asarray(array, dtype=np.float64), feature_names=names)


def summary_of(rows: Rows, order: int, squared_order: int, n_threads: int) -> MomentSummary:
    """Summary of rows in one pass."""
    schema = getattr(rows, "schema", None)
    names = rows.feature_names if schema is None else None
    empty = MomentSummary(
        rows.n_features, order, names, squared_order, n_threads=n_threads, schema=schema
    )
    summary: MomentSummary = rows.summarize_into(empty)
    return summary


def summarized(
    data: Any, order: int, n_threads: int, most_squared: int = 2
) -> tuple[StandardMoments, MomentSummary]:
    """Standardized moments of rows up to `order`, in one pass, and the summary of the rows.

    Squares are multiplied by up to `most_squared` other features.
    """
    rows = rows_of(data)
    squared_order = max(0, min(most_squared, order - 1))
    summary = summary_of(rows, order, squared_order, n_threads)
    moments = moments_of(summary)
    assert moments is not None
    if rows.row_counts is not None:
        moments = replace(moments, counted=rows.n_counted)
        if rows.is_frequency:
            n = rows.row_counts.sum()
            moments = replace(moments, n_rows=int(n), n_effective=float(n))
    return moments, summary
