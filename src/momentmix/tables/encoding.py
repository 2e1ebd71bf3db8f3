"""Cells of columns → features, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import FitWarning, InputError, InputTypeError, warn_caller
from momentmix.families.column import Column, restored
from momentmix.families.family import named
from momentmix.parallel import map_in_order, usable_cores
from momentmix.tables.cells import Cells
from momentmix.tables.formats.dialect import FALSE, TRUE
from momentmix.tables.names import column_label, escaped_names
from momentmix.tables.validation import GAPS, in_range, out_of_range
from momentmix.wording import option

_BLOCK = 8192  # rows at a time: they and their features stay in the processor's cache
_SHARE = 1 << 16  # rows that are worth a thread
_UNKNOWN = -2  # the code of a label that is no level
_BOOLS = {**dict.fromkeys(FALSE, 0), **dict.fromkeys(TRUE, 1)}
_LEFT_OUT = -3  # that of one which is left out of the density, whatever the column's model

Unseen = Literal["error", "missing"]
Where = Callable[[int, int], str]  # numbers of a row and a column → its place in words


class Encoded(NamedTuple):
    """Features, 0 where a cell is to be left out of the density, and which cells these are."""

    features: Float
    left_out: NDArray[np.bool_] | None  # of shape (n_rows, n_columns); None if there are none


def check_unseen(unseen: object) -> None:
    """Raise unless this says what levels that were never seen get."""
    if unseen not in ("error", "missing"):
        raise InputError(f"unseen must be 'error' or 'missing'; got {unseen!r}.")


def place_of(columns: Sequence[Column]) -> Where:
    """Places of cells in a table in memory."""
    names = tuple(column.name for column in columns if column.name is not None) or None
    return lambda row, column: f"row {row}, {column_label(column, names)}"


def encode_cells(
    columns: Sequence[Column],
    cells: Sequence[Cells],
    where: Where,
    unseen: Unseen = "error",
) -> Encoded:
    """The features of rows; cells without a known level are errors, or left out by `unseen`."""
    ends = np.cumsum([column.n_features for column in columns])
    n_rows = len(cells[0].values)
    features = np.empty((n_rows, ends[-1]))
    sources = [
        _checked(column, own, lambda row, j=j: where(row, j), unseen)  # type: ignore[misc]
        for j, (column, own) in enumerate(zip(columns, cells, strict=True))
    ]
    parts = list(zip(columns, sources, np.split(features, ends[:-1], axis=1), strict=True))

    def fill(start: int) -> None:
        for first in range(start, min(start + _SHARE, n_rows), _BLOCK):
            rows = slice(first, first + _BLOCK)
            for column, source, target in parts:
                _fill(column, source[rows], target[rows])

    n_threads = min(usable_cores(), -(-n_rows // _SHARE))
    deque(map_in_order(fill, range(0, n_rows, _SHARE), n_threads), maxlen=0)
    if in_range(features):
        return Encoded(features, None)
    left_out = np.isnan(np.column_stack([target[:, 0] for *_, target in parts]))
    features[np.isnan(features)] = 0.0
    if not in_range(features):
        raise out_of_range(features, lambda row, feature: where(row, int((ends <= feature).sum())))
    return Encoded(features, left_out if left_out.any() else None)


def _places(levels: tuple[Any, ...], labels: Sequence[Any]) -> NDArray[np.int16]:
    """The number of the level that each label is, −2 where it is none; short, to be compared."""
    places = {level: i for i, level in enumerate(levels)}
    if levels == (False, True):
        places |= _BOOLS  # as CSV has them
    return np.array([places.get(label, _UNKNOWN) for label in labels], dtype=np.int16)


def _fill(column: Column, source: Array, target: Float) -> None:
    """Fill the features of some rows; NaN in the first one where a cell is to be left out."""
    if column.levels:
        for k in range(1, len(column.levels)):
            target[:, k - 1] = source == k
        seen = source >= 0
        left_out = source == _LEFT_OUT if column.has_missing else ~seen
        np.copyto(target[:, 0], np.nan, where=left_out)
    else:
        np.subtract(source, column.center, out=target[:, 0], dtype=np.float64)
        if column.has_missing:
            seen = np.equal(source, source)
            np.copyto(target[:, 0], 0.0, where=~seen)
    if column.has_missing:
        target[:, -1] = seen


def _checked(column: Column, cells: Cells, where: Callable[[int], str], unseen: Unseen) -> Array:
    """The numbers of a column after its transform, or the codes of its levels."""
    if column.levels:
        return _level_codes(column, cells, where, unseen)
    check_numeric(column, cells, where)
    numbers = cells.numbers()
    if column.drops and numbers.dtype.kind == "f":
        numbers = np.where(np.isinf(numbers), np.nan, numbers)
    named(column.family_name).check_values(numbers, where)
    return column.transformed(numbers) if column.transform else numbers


def check_numeric(column: Column, cells: Cells, where: Callable[[int], str]) -> None:
    """Raise where a column of numbers holds text."""
    if all(np.isscalar(x) and not isinstance(x, str) for x in cells.labels or ()):
        return
    row = int(np.argmax(cells.values >= 0))
    categories = option(families=... if column.name is None else {column.name: "categorical"})
    raise InputTypeError(
        f"a {column.family_name} column must hold numbers; {where(row)} holds {cells.text(row)}. "
        f"Convert the column to numbers, or fit with {categories}."
    )


def _level_codes(
    column: Column, cells: Cells, where: Callable[[int], str], unseen: Unseen
) -> Array:
    """The number of the level of each cell, −1 where it is missing, −3 where it is left out."""
    codes = _codes(column.levels, cells)
    unknown = codes == _UNKNOWN
    if not unknown.any():
        return codes
    if column.other is not None and not (_kinds_differ(column, cells) and (codes < 0).all()):
        codes[unknown] = column.levels.index(column.other)
        return codes
    if unseen == "missing":
        codes[unknown] = _LEFT_OUT
        return codes
    row = int(np.argmax(unknown))
    raise InputError(
        f"{where(row)} must hold its levels, {escaped_names(column.levels)}; it is "
        f"{cells.text(row)}. Correct the cell or set it to missing; or give all levels of the "
        "column from the start, in families or in a schema, perhaps with one for all others. The "
        f"methods of a mixture and predict leave such cells out with {option(unseen='missing')}."
    )


def _kinds_differ(column: Column, cells: Cells) -> bool:
    """Whether the levels are text and the cells numbers, or the other way round."""
    is_text = any(isinstance(label, str) for label in cells.labels or ())
    return isinstance(column.levels[0], str) != is_text


def warn_of_unknown(columns: Sequence[Column], cells: Sequence[Cells]) -> None:
    """Warn of columns that unseen="missing" leaves out whole: none of their cells is a level."""
    names = tuple(column.name for column in columns if column.name is not None) or None
    for i, (column, own) in enumerate(zip(columns, cells, strict=True)):
        if not column.levels or column.other is not None or not len(own.values):
            continue
        codes, differ = _codes(column.levels, own), _kinds_differ(column, own)
        n = int((codes == _UNKNOWN).sum())
        if (codes >= 0).any() or n < (1 if differ else 2):  # one row may well hold another level
            continue
        levels = "text" if isinstance(column.levels[0], str) else "numbers"
        kinds = f" (the levels are {levels}, the cells are not)" if differ else ""
        warn_caller(
            f"none of the {n} cells of {column_label(i, names)} is a level of the model{kinds}, so "
            f"that {option(unseen='missing')} leaves the whole column out. Convert the cells to "
            "the levels of the column, or set them to missing.",
            FitWarning,
        )


def _codes(levels: tuple[Any, ...], cells: Cells) -> Array:
    """The number of the level of each cell, −1 where it is missing, −2 where it is none."""
    if cells.labels is not None:
        return np.append(_places(levels, cells.labels), np.int16(-1))[cells.values]
    if isinstance(levels[0], str):
        return np.where(cells.missing(), -1, _UNKNOWN)
    order = np.argsort(levels)
    ascending = np.array(levels, dtype=np.float64)[order]
    nearest = np.searchsorted(ascending, cells.values).clip(max=len(levels) - 1)
    codes = np.where(ascending[nearest] == cells.values, order[nearest], _UNKNOWN)
    codes[cells.missing()] = -1
    return codes


def missing_cell(left_out: NDArray[np.bool_], where: Where) -> InputError:
    """The error for the first cell that is missing where none may be."""
    row, column = (int(i) for i in np.argwhere(left_out)[0])
    return InputError(
        f"rows must not hold missing values (NaN, None, masked cells); {where(row, column)}, is "
        f"missing or NaN. {GAPS}"
    )


def decode_columns(columns: Sequence[Column], features: Float) -> list[Array]:
    """Decode features to columns, each an array of its own type."""
    ends = np.cumsum([column.n_features for column in columns])[:-1]
    parts = np.split(features, ends, axis=1)
    return [_decoded(column, part) for column, part in zip(columns, parts, strict=True)]


def _decoded(column: Column, part: Float) -> Array:
    seen = part[:, -1] > 0.5 if column.has_missing else np.ones(len(part), dtype=bool)
    if not column.levels:
        return np.where(seen, restored(part[:, 0] + column.center, column.transform), np.nan)
    indicators = part[:, : column.n_values]
    codes = np.where(indicators.max(axis=1) > 0.5, indicators.argmax(axis=1) + 1, 0)
    if all(type(level) is int for level in column.levels):
        numbers = np.array(column.levels)[codes]
        return numbers if seen.all() else np.where(seen, numbers, np.nan)
    labels = np.array(column.levels, dtype=object)[codes]
    labels[~seen] = None
    is_bool = isinstance(column.levels[0], bool) and seen.all()
    return labels.astype(bool) if is_bool else labels
