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

from momentmix.core.array_backend import check_real, is_foreign, to_numpy
from momentmix.core.feature_names import check_encodable
from momentmix.errors import InputError, InputTypeError, PrecisionWarning
from momentmix.moments.frame import LARGEST_VALUE

__all__ = [
    "LARGEST_WEIGHT", "as_rows", "as_weights", "check_feature_names", "check_shape",
    "checked_values", "column_label", "warn_integers",
]  # fmt: skip

_SCAN = 8192  # rows looked at together
LARGEST_WEIGHT = 2.0**50
_SMALLEST_WEIGHT = 2.0**-40


def column_label(column: int, feature_names: Sequence[str] | None) -> str:
    """A column as messages name it: number, and name where there is one (escaped)."""
    if feature_names is None:
        return f"column {column}"
    return f"column {column} ({feature_names[column]!a})"


def check_feature_names(names: Any, n_features: int | None = None) -> tuple[str, ...]:
    """Feature names as a tuple of distinct strings."""
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise InputTypeError(f"feature_names must be a sequence of strings; got {names!r}.")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise InputTypeError(f"feature_names must be strings; got {name!r}.")
    if n_features is not None and len(names) != n_features:
        raise InputError(
            f"feature_names must name each of the {n_features} features; got {len(names)} names."
        )
    if len(set(names)) != len(names):
        twice = sorted({ascii(name) for name in names if names.count(name) > 1})
        raise InputError(
            f"feature_names must differ from each other; repeated: {', '.join(twice)}."
        )
    check_encodable(names)
    return tuple(str(name) for name in names)


def _frame_columns(rows: Any) -> tuple[list[Any], list[Any]] | None:
    """Names and columns of a data frame, or None."""
    if hasattr(rows, "column_names") and hasattr(rows, "column"):  # Arrow
        names = list(rows.column_names)
        return names, [rows.column(i).to_numpy() for i in range(len(names))]
    if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):  # pandas, polars, …
        names = list(rows.columns)
        if hasattr(rows, "iloc"):
            return names, [rows.iloc[:, i].to_numpy() for i in range(len(names))]
        return names, [rows[name].to_numpy() for name in names]
    return None


def _from_frame(names: list[Any], columns: list[Any]) -> tuple[NDArray[Any], Any]:
    texts = [str(name) for name in names]
    arrays = []
    for name, column in zip(texts, columns, strict=True):
        array = np.asarray(column)
        _check_dtype(array.dtype, f"column {name!a}")
        warn_integers(array)
        arrays.append(array.astype(np.float64, copy=False))
    named = all(isinstance(name, str) for name in names) and len(names) > 0
    table = np.column_stack(arrays) if arrays else np.empty((0, 0))
    return table, (check_feature_names(texts) if named else None)


def _check_dtype(dtype: np.dtype[Any], where: str) -> None:
    if dtype.kind in "fiub":
        return
    if dtype.kind == "c":
        raise InputTypeError(
            f"rows must be real numbers; {where} is complex ({dtype}). Pass the real and the "
            "imaginary part as separate columns."
        )
    raise InputTypeError(
        f"rows must be real numbers; {where} has dtype {dtype}. Convert it to float64, or encode "
        "it as numbers first."
    )


def warn_integers(array: NDArray[Any]) -> None:
    """Warn where float64 cannot hold the integers of an array."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest > 2**53:
            warnings.warn(
                f"rows hold integers up to {largest}, beyond 2^53; float64 rounds these. Subtract "
                "a common offset before passing them if the last digits matter.",
                PrecisionWarning,
                stacklevel=5,
            )


def _object_column(array: NDArray[Any]) -> str:
    """Name the first column of an object or text array that is not made of numbers."""
    if array.ndim == 2:
        for column in range(array.shape[1]):
            for row, value in enumerate(array[:, column]):
                if isinstance(value, str | bytes | None | dict | list) or not np.isscalar(value):
                    return f"column {column} (row {row} holds {value!r})"
    return "the array"


def as_rows(rows: Any, n_features: int | None) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows as an array of shape (n_rows, n_features) of a real dtype, and names where known."""
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
    if isinstance(rows, np.ma.MaskedArray):
        raise InputTypeError(
            "rows must be a plain array; got a masked array. Fill or drop the masked values "
            "first, e.g. rows.filled(...), or keep complete rows only."
        )
    if is_foreign(rows):
        check_real(rows)
        rows = to_numpy(rows)  # callers that compute on the device do not come here
    names = None
    table = _frame_columns(rows)
    if table is not None:
        array, names = _from_frame(*table)
    else:
        try:
            array = np.asarray(rows)
        except ValueError as error:
            raise InputError(f"rows must form a rectangular array: {error}.") from error
        if array.dtype.kind not in "fiubc":
            _check_dtype(array.dtype, _object_column(array))
        _check_dtype(array.dtype, "the array")
        warn_integers(array)
    check_shape(array, n_features)
    return array, names


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


def checked_values(
    array: NDArray[Any], feature_names: Sequence[str] | None, first_row: int = 0
) -> None:
    """Raise unless every value is finite and below 2^1000, naming the first offender."""
    for start in range(0, len(array), _SCAN):
        block = array[start : start + _SCAN].astype(np.float64, copy=False)
        if block.min() >= -LARGEST_VALUE and block.max() <= LARGEST_VALUE:
            continue  # the usual case, without another array; false for NaN
        bad = ~(np.abs(block) <= LARGEST_VALUE)
        row, column = (int(x) for x in np.argwhere(bad)[0])
        value = block[row, column]
        where = f"row {first_row + start + row}, {column_label(column, feature_names)}"
        if np.isnan(value):
            raise InputError(
                f"rows must not hold missing values; {where} is NaN. Drop incomplete rows "
                "(missing='drop' where offered) or impute them first."
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
    weights = np.asarray(sample_weight)
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
        raise InputError(
            f"sample_weight must be finite and not negative; row {bad[0]} has {weights[bad[0]]}. "
            "Use forget() to take rows away."
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
