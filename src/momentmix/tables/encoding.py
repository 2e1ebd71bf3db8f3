"""Columns of a batch → features by a schema, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import FitWarning, InputError, InputTypeError, warn_caller
from momentmix.families.column import Column, is_text, restored
from momentmix.families.family import named
from momentmix.parallel import map_in_order, usable_cores
from momentmix.tables.columns import MISSING, cell_text, codes_of, is_labeled, numbers_of
from momentmix.tables.csv_text import FALSE, TRUE
from momentmix.tables.names import column_label, escaped_names
from momentmix.tables.validation import GAPS, in_range, out_of_range
from momentmix.wording import option

_BLOCK = 8192  # rows at a time: they and their features stay in the processor's cache
_SHARE = 1 << 16  # rows that are worth a thread
_UNKNOWN = -2  # the code of a label that is no level
_LEFT_OUT = -3  # that of one which is left out of the density, whatever the column's model
_BOOLS = {**dict.fromkeys(FALSE, 0), **dict.fromkeys(TRUE, 1)}

Unseen = Literal["error", "missing"]
Where = Callable[..., str]  # row, column, by number → the place of a cell in words


class Encoded(NamedTuple):
    """Features of rows, 0 where a cell is to be left out of the density, and where they are from.

    Masks of cells have shape (n_rows, n_columns), and are None if no cell is one of these.
    """

    features: Float
    left_out: NDArray[np.bool_] | None = None  # cells to be left out of the density
    missing: NDArray[np.bool_] | None = None  # missing cells, not those of unknown levels
    first_row: int = 0  # number in the source of the first row that was read
    n_read: int = 0  # rows that were read
    kept: NDArray[np.bool_] | None = None  # which of the rows read were kept; None if all were
    dropped: Float | None = None  # features of the rows that were not kept, NaN where missing
    others: Sequence[Any] = ()  # columns beside those of the features, of all rows read


def check_unseen(unseen: object) -> None:
    """Raise unless this says what levels that were never seen get."""
    if unseen not in ("error", "missing"):
        raise InputError(f"unseen must be 'error' or 'missing'; got {unseen!r}.")


def encode(
    columns: Sequence[Column],
    batch: Any,
    where: Where,
    unseen: Unseen = "error",
    drops: bool = False,
) -> Encoded:
    """The features of rows; cells without a known level are errors, or left out by `unseen`.

    Where rows with missing cells are to be dropped, infinite numbers are missing.
    """
    if isinstance(batch, np.ndarray) and all(column.is_plain for column in columns):
        features = np.ascontiguousarray(batch.T, dtype=np.float64)
        if in_range(features):
            return Encoded(features)
    ends = np.cumsum([column.n_features for column in columns])
    n_rows, names = len(batch[0]), [x.name for x in columns if x.name is not None] or None
    features = np.empty((n_rows, ends[-1]))
    sources = [
        _checked(column, cells, partial(where, column=j), column_label(j, names), unseen, drops)
        for j, (column, cells) in enumerate(zip(columns, batch, strict=True))
    ]
    parts = list(zip(columns, sources, np.split(features, ends[:-1], axis=1), strict=True))

    def fill(start: int) -> None:
        for first in range(start, min(start + _SHARE, n_rows), _BLOCK):
            rows = slice(first, first + _BLOCK)
            for column, source, target in parts:
                _fill(column, source[rows], target[rows])

    n_threads = min(usable_cores(), -(-n_rows // _SHARE))
    deque(map_in_order(fill, range(0, n_rows, _SHARE), n_threads), maxlen=0)
    is_whole = in_range(features)
    if is_whole and not (drops and any(column.has_missing for column in columns)):
        return Encoded(features)
    left_out = np.isnan(np.column_stack([target[:, 0] for *_, target in parts]))
    missing = left_out.copy()
    for j, (column, source, target) in enumerate(parts):
        if column.levels:  # a level that was never seen is no missing cell
            missing[:, j] &= source == MISSING
        if column.has_missing and drops:
            missing[:, j] |= target[:, -1] == 0
    features[np.isnan(features)] = 0.0
    if not is_whole and not in_range(features):
        raise out_of_range(features, lambda row, feature: where(row, int((ends <= feature).sum())))
    return Encoded(
        features, left_out if left_out.any() else None, missing if missing.any() else None
    )


def _fill(column: Column, source: Array, target: Float) -> None:
    """Fill the features of some rows; NaN in the first one where a cell is to be left out."""
    if column.levels:
        for k in range(1, len(column.levels)):
            target[:, k - 1] = source == k
        observed = source >= 0
        left_out = source == _LEFT_OUT if column.has_missing else ~observed
        np.copyto(target[:, 0], np.nan, where=left_out)
    else:
        np.subtract(source, column.center, out=target[:, 0], dtype=np.float64)
        if column.has_missing:
            observed = np.equal(source, source)
            np.copyto(target[:, 0], 0.0, where=~observed)
    if column.has_missing:
        target[:, -1] = observed


def _checked(
    column: Column, cells: Any, where: Callable[[int], str], label: str, unseen: Unseen, drops: bool
) -> Array:
    """The numbers of a column after its transform, or the codes of its levels."""
    if not column.levels:
        check_numeric(column, cells, where)
        numbers = numbers_of(cells)
        if drops and numbers.dtype.kind == "f":
            numbers = np.where(np.isinf(numbers), np.nan, numbers)
        named(column.family_name).check_values(numbers, where)
        return column.transformed(numbers) if column.transform else numbers
    codes = level_codes(column.levels, cells)
    unknown = codes == _UNKNOWN
    n, are_text = int(unknown.sum()), is_text(column.levels[0])
    if n and unseen == "error":
        row = int(np.argmax(unknown))
        raise InputError(
            f"{where(row)} must hold its levels, {escaped_names(column.levels)}; it is "
            f"{cell_text(cells, row)}. Correct the cell or set it to missing; or give all "
            "levels of the column from the start, in families or in a schema. The methods of a "
            f"mixture and predict leave such cells out with {option(unseen='missing')}."
        )
    differ = is_labeled(cells) != are_text
    if n > (not differ) and not (codes >= 0).any():  # one row may well hold another level
        kinds = f" (the levels are {'text' if are_text else 'numbers'}, the cells are not)"
        warn_caller(
            f"none of the {n} cells of {label} is a level of the model{kinds if differ else ''}: "
            f"{option(unseen='missing')} leaves the whole column out. Convert the cells to the "
            "levels of the column, or set them to missing.",
            FitWarning,
        )
    codes[unknown] = _LEFT_OUT
    return codes


def check_numeric(column: Column, cells: Any, where: Callable[[int], str]) -> None:
    """Raise where a column of numbers holds text."""
    if not is_labeled(cells) or not any(isinstance(x, str) for x in codes_of(cells)[1]):
        return
    row = int(np.argmax(codes_of(cells)[0] >= 0))
    categories = option(families=... if column.name is None else {column.name: "categorical"})
    raise InputTypeError(
        f"a {column.family_name} column must hold numbers; {where(row)} holds "
        f"{cell_text(cells, row)}. Convert the column to numbers, or fit with {categories}."
    )


def level_codes(levels: tuple[Any, ...], cells: Any) -> Array:
    """The number of the level of each cell, −1 where it is missing, −2 where it is none."""
    if is_labeled(cells):
        codes, labels = codes_of(cells)
        numbers = {level: i for i, level in enumerate(levels)}
        if levels == (False, True):
            numbers |= _BOOLS  # as CSV has them
        of_labels = [*(numbers.get(label, _UNKNOWN) for label in labels), MISSING]
        return np.array(of_labels, dtype=np.int16)[codes]  # short, to be compared
    values = numbers_of(cells)
    if isinstance(levels[0], str):
        return np.where(values != values, MISSING, _UNKNOWN)
    order = np.argsort(levels)
    ascending = np.array(levels, dtype=np.float64)[order]
    nearest = np.searchsorted(ascending, values).clip(max=len(levels) - 1)
    codes = np.where(ascending[nearest] == values, order[nearest], _UNKNOWN)
    codes[values != values] = MISSING
    return codes


def missing_cell(missing: NDArray[np.bool_], where: Where) -> InputError:
    """The error for the first cell that is missing where none may be."""
    row, column = (int(i) for i in np.argwhere(missing)[0])
    return InputError(
        f"rows must not hold missing values (NaN, None, masked cells); {where(row, column)}, is "
        f"missing or NaN. {GAPS}"
    )


def decode(column: Column, part: Float) -> Array:
    """The cells of a column from its features, as an array of its own type."""
    observed = part[:, -1] > 0.5 if column.has_missing else np.ones(len(part), dtype=bool)
    if not column.levels:
        values = restored(part[:, 0] + column.center, column.transform)
        return np.where(observed, values, np.nan)
    indicators = part[:, : column.n_values]
    codes = np.where(indicators.max(axis=1) > 0.5, indicators.argmax(axis=1) + 1, 0)
    if all(type(level) is int for level in column.levels):
        numbers = np.array(column.levels)[codes]
        return numbers if observed.all() else np.where(observed, numbers, np.nan)
    labels = np.array(column.levels, dtype=object)[codes]
    labels[~observed] = None
    is_bool = isinstance(column.levels[0], bool) and observed.all()
    return labels.astype(bool) if is_bool else labels
