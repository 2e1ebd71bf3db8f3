"""Checks of rows and weights: shapes, ranges of values, sizes of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import plain_array
from momentmix.errors import InputError, InputTypeError
from momentmix.tables.names import column_label
from momentmix.wording import option

_SCAN = 8192  # rows checked together: a block of usual width stays in the processor's cache
LARGEST_VALUE = 2.0**1000  # powers of a scaled value stay finite
LARGEST_TO_FIT = 1e154  # its square is a float64 number, as variances have to be
LARGEST_WEIGHT = 2.0**50  # more than the rows of any data set
_SMALLEST_WEIGHT = 2.0**-40  # leaves room for weights that add up to 1
GAPS = (
    f"Say why cells are missing. By what is seen of their row, as in surveys: "
    f'{option(missing="mar")} fits the seen cells. By the component: "model", where gaps tell '
    'components apart. By chance alone: "drop" leaves rows with gaps out.'
)


def check_shape(array: Any, n_features: int | None) -> None:
    """Raise unless an array of any library has shape (n_rows, n_features), with rows."""
    wanted = "n_features" if n_features is None else n_features
    shape = tuple(array.shape)
    if array.ndim != 2:
        cure = "Pass a table." if not array.ndim else "Flatten it to a table."
        if array.ndim == 1:
            cure = "Use rows.reshape(1, -1) for one row, rows.reshape(-1, 1) for one feature."
        raise InputError(
            f"rows must have shape (n_rows, {wanted}); got {array.ndim} dimension(s), shape "
            f"{shape}. {cure}"
        )
    if array.shape[1] == 0:
        raise InputError(f"rows must have at least one column; got shape {shape}.")
    if n_features is not None and array.shape[1] != n_features:
        raise InputError(
            f"rows must have {n_features} columns, one for each feature of the summary; got "
            f"{array.shape[1]}. Select the columns, or make another summary."
        )
    if array.shape[0] == 0:
        raise InputError(f"rows must hold at least one row; got shape {shape}. Skip empty blocks.")


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

        raise out_of_range(block, where)


def out_of_range(block: NDArray[np.float64], where: Callable[[int, int], str]) -> InputError:
    """The error for the first value of a block that is not in range; `where` is its place."""
    row, column = (int(i) for i in np.argwhere(~(np.abs(block) <= LARGEST_VALUE))[0])
    value, place = block[row, column], where(row, column)
    if np.isnan(value):
        return InputError(
            f"rows must not hold missing values (NaN, masked cells); {place} is NaN. "
            f"Impute it, or pass missing= where it is offered. {GAPS}"
        )
    if np.isinf(value):
        return InputError(
            f"rows must be finite; {place} is {value}. If it stands for a missing value, set the "
            f"cell to NaN, or leave such rows out: {option(missing='drop')} where offered."
        )
    return InputError(
        f"rows must stay below 2^1000 ≈ 1.07e301 in size; {place} is {value:.6g}. Rescale the "
        "column, or set the cell to missing or drop the row if the number stands for that."
    )


def ordered_weights(sample_weight: Any, rows: Any) -> Any:
    """Weights in the order of the rows: a Series of pandas goes by the labels of a frame."""
    index: Any = getattr(sample_weight, "index", None)
    labels: Any = getattr(rows, "index", None)
    if not (hasattr(index, "equals") and hasattr(labels, "equals")) or index.equals(labels):
        return sample_weight
    if len(index) != len(labels) or not (index.is_unique and index.isin(labels).all()):
        raise InputError(
            "the labels of sample_weight are not those of the rows. Give it the index of the "
            "table, or pass sample_weight.to_numpy() to go by position."
        )
    return sample_weight.reindex(labels)


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
