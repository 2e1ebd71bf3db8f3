"""The one validator: rows and weights as callers pass them → checked arrays of real numbers.

Arrays, nested lists and data frames become a two-dimensional NumPy array of a real dtype. It is
cast to float64 block by block later, before any product, so that a large float32 or memory-mapped
array is never copied as a whole. Arrays of other libraries stay on their device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError
from momentmix.native import code
from momentmix.parallel import usable_cores
from momentmix.arrays import check_real, dtype_name, is_foreign, namespace, to_numpy
from momentmix.rows.containers import (
    column_array,
    frame_column,
    frame_labels,
    frame_names,
    frame_rows,
    has_mask,
    is_frame,
    numbers_of_objects,
    plain_array,
    warn_integers,
)
from momentmix.names import check_feature_names, column_label, names_for

_MANY = 1 << 18  # values whose check is worth several threads
_SCAN = 8192  # rows checked together: a block of usual width stays in the processor's cache
LARGEST_VALUE = 2.0**1000  # powers of a scaled value stay finite
LARGEST_TO_FIT = 1e154  # its square is a float64 number, as variances have to be
LARGEST_WEIGHT = 2.0**50  # more than the rows of any data set
_SMALLEST_WEIGHT = 2.0**-40  # leaves room for weights that add up to 1


# -- rows → arrays ----------------------------------------------------------------------------


def is_dask(rows: Any) -> bool:
    """Whether this is a Dask collection, which NumPy would compute as a whole, in memory."""
    return hasattr(rows, "__dask_graph__")


def as_rows(
    rows: Any, n_features: int | None, feature_names: Sequence[str] | None = None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows as an array of shape (n_rows, n_features) of a real dtype, and names where known.

    The columns of a data frame are put in the order of `feature_names`, where given. Masked
    numbers become NaN. The values are not checked: see `check_values`.
    """
    if is_dask(rows):
        raise InputTypeError(
            f"rows must be in this process; got a Dask collection ({type(rows).__name__}), which "
            "would be computed as a whole, in memory. Use momentmix.dask, or pass rows.compute()."
        )
    if hasattr(rows, "toarray") and hasattr(rows, "nnz"):
        raise InputTypeError(
            f"rows must be dense; got a sparse {type(rows).__name__}. Pass blocks of rows as "
            "rows.toarray()."
        )
    if is_foreign(rows):
        check_real(rows)
        rows = to_numpy(rows)  # callers that compute on the device use `as_device_rows`
    names = None
    if is_frame(rows):
        array, names = frame_rows(rows, feature_names, "the summary")
    else:
        array = _from_array(rows)
    check_shape(array, n_features)
    return array, names


def _from_array(rows: Any) -> NDArray[Any]:
    try:
        array = plain_array(rows)
    except ValueError as error:
        raise InputError(f"rows must form a rectangular array: {error}.") from error
    check_real(array, "the array" if array.dtype.kind in "fiubc" else _not_numbers(array))
    # Masked integers were cast to make room for NaN; what the mask hides does not count.
    warn_integers(np.ma.asarray(rows).compressed() if has_mask(rows) else array)
    return array


def _not_numbers(array: NDArray[Any]) -> str:
    """The first column of an object or text array that is not made of numbers, in words."""
    if array.ndim == 2:
        for column in range(array.shape[1]):
            for row, value in enumerate(array[:, column]):
                if isinstance(value, str | bytes | None | dict | list) or not np.isscalar(value):
                    return f"column {column} (row {row} holds {value!r})"
    return "the array"


def as_device_rows(rows: Any, n_features: int | None) -> Any:
    """Rows of another array library, on their device; values are checked when they are summed."""
    check_real(rows)
    check_shape(rows, n_features)
    if dtype_name(rows) == "int64":
        xp = namespace(rows)
        warn_integers(to_numpy(xp.stack([xp.min(rows, axis=0), xp.max(rows, axis=0)])))
    return rows.detach() if hasattr(rows, "detach") else rows  # torch: no gradients of sums


def rows_for(rows: Any, feature_names: tuple[str, ...] | None) -> NDArray[Any]:
    """Rows as an array with the columns of a mixture's features; shape and values unchecked.

    The columns of a data frame are matched by name (`names_for`); other columns are left out.
    Missing cells are NaN.
    """
    if is_dask(rows) and hasattr(rows, "columns"):
        raise InputTypeError(
            f"rows must be in this process; got a Dask collection ({type(rows).__name__}). Use "
            "the functions of momentmix.dask, or pass rows.compute()."
        )
    if not is_frame(rows):
        return numbers_of_objects(plain_array(rows))
    expected = names_for(feature_names, frame_names(rows, feature_names))
    return frame_rows(rows, expected, "the mixture", warn=False, others=True)[0]


def for_sklearn(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Rows that every version of scikit-learn reads, and the names of a polars or Arrow table.

    Refuses what scikit-learn would read wrongly, and warns of integers, which it casts.
    """
    refuse_dask(X)
    if is_frame(X):
        if not hasattr(X, "iloc"):
            return as_rows(X, None)
        check_feature_names(frame_names(X) or ())  # pandas, which scikit-learn reads itself
        for i, label in enumerate(frame_labels(X)):
            column = frame_column(X, i)
            warn_integers(column, f"X, column {str(label)!a} holds")
            if getattr(column.dtype, "kind", "O") not in "fiub":  # scikit-learn names no column
                _check_objects(column_array(column), f"column {str(label)!a}")
        return X, None
    if has_mask(X):
        X = plain_array(X)  # NaN where a number is masked
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", "") in "VMm" and dtype is not None:
        check_real(X, "X")  # fields and times, whose bytes scikit-learn takes as numbers
    if isinstance(X, np.ndarray):
        warn_integers(X)
    return X, None


def refuse_dask(X: Any) -> None:
    """Raise where an estimator is given a Dask collection."""
    if is_dask(X):
        raise InputTypeError(
            "X is a Dask collection, which would be computed as a whole, in memory. Use "
            "momentmix.dask: fit_summary(momentmix.dask.summarize(X, order)) to fit, "
            "momentmix.dask.predict(model.mixture_, X) to predict."
        )


def _check_objects(array: NDArray[Any], where: str) -> None:
    """Raise unless objects are numbers or missing; text would be an error without a name."""
    array = numbers_of_objects(array)
    if array.dtype.kind in "OUT":
        raise InputTypeError(
            f"rows must be real numbers; {where} holds text or other objects. Leave it out, "
            "convert it, or use MomentMixture, which takes text as categories."
        )
    check_real(array, where)


# -- shapes and values ------------------------------------------------------------------------


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
    """Raise where a column has values too large to be fitted, though they can be summarized."""
    largest = np.maximum(np.abs(minimum), np.abs(maximum))
    column = int(largest.argmax())
    if largest[column] > LARGEST_TO_FIT:
        unit = 10.0 ** int(np.log10(largest[column]))
        raise InputError(
            f"values to be fitted must stay below {LARGEST_TO_FIT:g} in size, since variances are "
            f"their squares; {column_label(column, feature_names)} reaches {largest[column]:.6g}. "
            f"Rescale the column: divide it by a constant such as {unit:g}."
        )


def in_range(block: NDArray[Any], largest: float = LARGEST_VALUE) -> bool:
    """Whether every value is finite and at most `largest` in size; makes no other array."""
    flags = block.flags
    if code is not None and block.dtype == np.float64 and flags.c_contiguous and flags.aligned:
        return bool(code.in_range(block, largest, usable_cores() if block.size > _MANY else 1))
    for start in range(0, len(block), _SCAN):
        rows = block[start : start + _SCAN]
        if not (rows.min() >= -largest and rows.max() <= largest):  # also for NaN
            return False
    return True


def check_values(
    array: NDArray[Any],
    feature_names: Sequence[str] | None,
    first_row: int = 0,
    largest: float = LARGEST_VALUE,
) -> None:
    """Raise unless every value is finite and at most `largest` in size; name the first other."""
    if array.dtype == np.float64 and in_range(array, largest):
        return
    for start in range(0, len(array), _SCAN):
        block = array[start : start + _SCAN].astype(np.float64, copy=False)
        if in_range(block, largest):
            continue
        if in_range(block):
            check_sizes(np.fmin.reduce(block), np.fmax.reduce(block), feature_names)
        first = first_row + start

        def where(row: int, column: int, first: int = first) -> str:
            return f"row {first + row}, {column_label(column, feature_names)}"

        raise bad_value(block, where)


def bad_value(
    block: NDArray[np.float64], where: Callable[[int, int], str], can_drop: bool = False
) -> InputError:
    """The error for the first value of a block that is not in range.

    Parameters
    ----------
    block : array of shape (n_rows, n_features)
    where : callable (row, column) → str
        The place of a value in words.
    can_drop : bool
        Whether the caller has an option ``missing="drop"``.
    """
    row, column = (int(i) for i in np.argwhere(~(np.abs(block) <= LARGEST_VALUE))[0])
    value, place = block[row, column], where(row, column)
    drop = "Pass missing='drop' (--missing drop) to leave such rows out"
    if np.isnan(value) and can_drop:
        return InputError(
            f"rows must not hold missing values; {place} is missing or NaN. {drop}, or "
            "missing='model' (--missing model), so that missing cells are part of the model."
        )
    if np.isnan(value):
        return InputError(
            f"rows must not hold missing values (NaN, masked cells); {place} is NaN. Drop "
            "incomplete rows (missing='drop' where offered) or impute them first."
        )
    if np.isinf(value):
        cure = drop if can_drop else "Treat it as a missing value: drop or impute the row first"
        return InputError(f"rows must be finite; {place} is {value}. {cure}.")
    return InputError(
        f"rows must stay below 2^1000 ≈ 1.07e301 in size; {place} is {value:.6g}. Rescale the "
        "column, or drop the row if the number stands for a missing value."
    )


# -- weights ----------------------------------------------------------------------------------


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
