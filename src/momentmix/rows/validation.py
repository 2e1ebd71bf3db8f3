"""Rows and weights as callers hand them in → checked arrays of real numbers.

Arrays, nested lists and data frames (through their own conversions; no data-frame library is
imported) become a two-dimensional NumPy array of a real dtype. It is cast to float64 block by block
later, before any product, so that a large float32 or memory-mapped array is never copied whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import check_real, is_foreign, to_numpy
from momentmix.errors import InputError, InputTypeError, PrecisionWarning
from momentmix.rows.containers import (
    check_dtype,
    check_feature_names,
    column_label,
    frame_arrays,
    frame_column,
    has_mask,
    is_frame,
    plain_array,
)

__all__ = [
    "LARGEST_TO_FIT",
    "LARGEST_VALUE",
    "LARGEST_WEIGHT",
    "as_rows",
    "as_weights",
    "check_feature_names",
    "check_shape",
    "check_sizes",
    "checked_values",
    "column_label",
    "warn_beyond",
    "warn_integers",
]

_SCAN = 8192  # rows looked at together
LARGEST_VALUE = 2.0**1000  # powers of a scaled value stay finite
LARGEST_TO_FIT = 1e154  # its square is a float64 number, as variances have to be
LARGEST_WEIGHT = 2.0**50
_SMALLEST_WEIGHT = 2.0**-40


def _largest_integer(column: Any) -> int:
    """Largest size in a column of 64-bit integers of any library, nulls left out; else 0."""
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", None)  # NumPy and pandas have one
    name = str(getattr(column, "type", None) if dtype is None else dtype).lower()
    if kind not in ("i", "u") and name not in ("int64", "uint64", "int128", "uint128"):
        return 0
    try:
        if dtype is None:  # Arrow
            from pyarrow import compute

            return max(abs(int(end)) for end in compute.min_max(column).as_py().values())
        return max(abs(int(column.min())), abs(int(column.max())))
    except (TypeError, ValueError):  # no values, or nulls only
        return 0


def warn_integers(column: Any, what: str = "rows hold", stacklevel: int = 5) -> None:
    """Warn where float64 cannot hold the integers of an array, or of a column of any library."""
    largest = _largest_integer(column)
    if largest > 2**53:
        warn_beyond(what, largest, stacklevel + 1)


def warn_beyond(what: str, integer: int, stacklevel: int) -> None:
    """Warn that an integer beyond 2^53 is there, what = "rows hold" or the like."""
    warnings.warn(
        f"{what} integers up to {integer}, beyond 2^53; float64 rounds these. Subtract a common "
        "offset before passing them if the last digits matter.",
        PrecisionWarning,
        stacklevel=stacklevel,
    )


def _object_column(array: NDArray[Any]) -> str:
    """Name the first column of an object or text array that is not made of numbers."""
    if array.ndim == 2:
        for column in range(array.shape[1]):
            for row, value in enumerate(array[:, column]):
                if isinstance(value, str | bytes | None | dict | list) or not np.isscalar(value):
                    return f"column {column} (row {row} holds {value!r})"
    return "the array"


def as_rows(
    rows: Any, n_features: int | None, feature_names: Sequence[str] | None = None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows as an array of shape (n_rows, n_features) of a real dtype, and names where known.

    The columns of a data frame are put in the order of `feature_names`, where given. Masked
    numbers become NaN.
    """
    if hasattr(rows, "__dask_graph__"):
        raise InputTypeError(
            f"rows must lie in this process; got a Dask collection ({type(rows).__name__}), which "
            "would be pulled into memory whole. Use momentmix.dask, or pass rows.compute()."
        )
    if hasattr(rows, "toarray") and hasattr(rows, "nnz"):
        raise InputTypeError(
            f"rows must be dense; got a sparse {type(rows).__name__}. Pass blocks of rows as "
            "rows.toarray()."
        )
    if is_foreign(rows):
        check_real(rows)
        rows = to_numpy(rows)  # callers that compute on the device do not come here
    names = None
    if is_frame(rows):
        array, names = _from_frame(rows, feature_names)
    else:
        array = _from_array(rows)
    check_shape(array, n_features)
    return array, names


def _from_frame(
    frame: Any, feature_names: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    columns, names = frame_arrays(frame, feature_names, "the summary")
    for i in range(len(columns)):
        warn_integers(frame_column(frame, i))  # nulls have turned the integers of others to floats
    if not columns:
        return np.empty((0, 0)), None
    return np.column_stack([x.astype(np.float64, copy=False) for x in columns]), names


def _from_array(rows: Any) -> NDArray[Any]:
    try:
        array = plain_array(rows)
    except ValueError as error:
        raise InputError(f"rows must form a rectangular array: {error}.") from error
    if array.dtype.kind not in "fiubc":
        check_dtype(array.dtype, _object_column(array))
    check_dtype(array.dtype, "the array")
    # Masked integers were cast to make room for NaN; what the mask hides does not count.
    warn_integers(np.ma.asarray(rows).compressed() if has_mask(rows) else array)
    return array


def check_shape(array: Any, n_features: int | None) -> None:
    """Raise unless an array of any library has shape (n_rows, n_features), with rows."""
    wanted = "n_features" if n_features is None else n_features
    if array.ndim != 2:
        cure = {
            0: "Pass a table.",
            1: "Reshape with rows.reshape(1, -1) for one row, rows.reshape(-1, 1) for one feature.",
        }.get(array.ndim, "Flatten it to a table.")
        raise InputError(
            f"rows must have shape (n_rows, {wanted}); got {array.ndim} dimension(s), shape "
            f"{tuple(array.shape)}. {cure}"
        )
    if array.shape[1] == 0:
        raise InputError(f"rows must have at least one column; got shape {tuple(array.shape)}.")
    if n_features is not None and array.shape[1] != n_features:
        raise InputError(
            f"rows must have {n_features} columns, one for each feature of the summary; got "
            f"{array.shape[1]}. Select the columns, or make another summary."
        )
    if array.shape[0] == 0:
        raise InputError(
            f"rows must hold at least one row; got shape {tuple(array.shape)}. Skip empty blocks."
        )


def check_sizes(minimum: Any, maximum: Any, feature_names: Sequence[str] | None = None) -> None:
    """Raise where a column reaches beyond what can be fitted, though it can be summarised."""
    largest = np.maximum(np.abs(minimum), np.abs(maximum))
    column = int(largest.argmax())
    if largest[column] > LARGEST_TO_FIT:
        unit = 10.0 ** int(np.log10(largest[column]))
        raise InputError(
            f"values to be fitted must stay below {LARGEST_TO_FIT:g} in size, since variances are "
            f"their squares; {column_label(column, feature_names)} reaches {largest[column]:.6g}. "
            f"Rescale the column: divide it by a constant such as {unit:g}."
        )


def checked_values(
    array: NDArray[Any],
    feature_names: Sequence[str] | None,
    first_row: int = 0,
    largest: float = LARGEST_VALUE,
) -> None:
    """Raise unless every value is finite and at most `largest`, naming the first offender."""
    for start in range(0, len(array), _SCAN):
        block = array[start : start + _SCAN].astype(np.float64, copy=False)
        if block.min() >= -largest and block.max() <= largest:
            continue  # the usual case, without another array; false for NaN
        bad = ~(np.abs(block) <= LARGEST_VALUE)
        if not bad.any():
            check_sizes(np.fmin.reduce(array), np.fmax.reduce(array), feature_names)
        row, column = (int(x) for x in np.argwhere(bad)[0])
        value = block[row, column]
        where = f"row {first_row + start + row}, {column_label(column, feature_names)}"
        if np.isnan(value):
            raise InputError(
                f"rows must not hold missing values (NaN, masked cells); {where} is NaN. Drop "
                "incomplete rows (missing='drop' where offered) or impute them first."
            )
        if np.isinf(value):
            raise InputError(
                f"rows must be finite; {where} is {value}. Treat it as a missing value: drop "
                "or impute the row first."
            )
        raise InputError(
            f"rows must stay below 2^1000 ≈ 1.07e301 in size; {where} is {value:.6g}. Rescale "
            "the column, or drop the row if the number stands for a missing value."
        )


def as_weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """Frequency weights as float64 of shape (n_rows,), or None for all one."""
    if sample_weight is None:
        return None
    weights = plain_array(sample_weight)
    if weights.dtype.kind not in "fiub":
        raise InputTypeError(f"sample_weight must be real numbers; got dtype {weights.dtype}.")
    if weights.shape != (n_rows,):
        raise InputError(
            f"sample_weight must have shape ({n_rows},), one weight for each row; got "
            f"{weights.shape}."
        )
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if bad.size:
        value = weights[bad[0]]
        missing = " (NaN or masked)" if np.isnan(value) else ""
        raise InputError(
            f"sample_weight must be finite and not negative; row {bad[0]} has {value}{missing}. "
            "Use weight 0 for a row that does not count, forget() to take rows away."
        )
    positive = weights[weights > 0]
    if not positive.size:
        raise InputError("sample_weight must not be all zero: no row would count. Skip the block.")
    if positive.min() < _SMALLEST_WEIGHT or positive.max() > LARGEST_WEIGHT:
        raise InputError(
            f"positive weights must lie between 2^−40 ≈ 9e-13 and 2^50 ≈ 1.1e15 (row frequencies); "
            f"got {positive.min():.6g} … {positive.max():.6g}. Multiply all weights by a constant."
        )
    return weights
