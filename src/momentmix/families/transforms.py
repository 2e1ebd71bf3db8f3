"""Transforms of numbers that are Gaussian within components only after them.

| transform T | y = T⁻¹(t) | range of y | log dT/dy |
|---|---|---|---|
| log | exp t | y > 0 | −log y = −t |
| log1p, log(1 + y) | exp t − 1 | y > −1 | −log(1 + y) = −t |

So the log-density of y is that of t, less t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Array, Float
from momentmix.errors import InputError
from momentmix.findings.messages import Message, keyword

LOG, LOG1P = "log", "log1p"
_MAPS = {LOG: (np.log, np.exp), LOG1P: (np.log1p, np.expm1)}
_ENDS = {LOG: 0, LOG1P: -1}  # numbers must be greater
_OTHERS = {LOG: "'log1p' where it holds 0, or as 'gaussian',", LOG1P: "'gaussian'"}


def transformed(values: Any, transform: str) -> Float:
    """T(y); −inf or NaN for numbers that are not in the range.

    >>> transformed([1.0, 0.0], "log").tolist(), transformed([0.0], "log1p").tolist()
    ([0.0, -inf], [0.0])
    """
    # Contiguous doubles: processors have other code for others, whose last bits may differ.
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    if not transform:
        return numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_MAPS[transform][0](numbers))


def restored(values: Float, transform: str) -> Float:
    """The numbers y of T(y); infinity beyond the range of doubles."""
    if not transform:
        return values
    with np.errstate(over="ignore"):
        return np.asarray(_MAPS[transform][1](values))


def transformed_columns(values: Float, transforms: Sequence[str]) -> Float:
    """`transformed` of a table, whose columns have a transform each; none if there are no."""
    return _by_column(values, transforms, transformed)


def restored_columns(values: Float, transforms: Sequence[str]) -> Float:
    """`restored` of a table, whose columns have a transform each; none if there are no."""
    return _by_column(values, transforms, restored)


def _by_column(values: Float, transforms: Sequence[str], change: Any) -> Float:
    if not any(transforms):
        return values
    columns = [change(x, t) for x, t in zip(values.T, transforms, strict=True)]
    return np.stack(columns, axis=1)


def check_range(numbers: Array, transform: str, where: Callable[[int], str]) -> None:
    """Raise unless all numbers are missing or have a transform."""
    with np.errstate(invalid="ignore"):
        wrong = numbers <= _ENDS[transform]
    if wrong.any():
        row = int(np.argmax(wrong))
        text = (
            f"numbers of a {transform} column must be greater than {_ENDS[transform]}; "
            f"{where(row)}, is {float(numbers[row]):.17g}. Correct the cell or set it to missing; "
            f"or take the column as {_OTHERS[transform]} in "
        )
        raise InputError(Message(text, keyword("families"), "."))
