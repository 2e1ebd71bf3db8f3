"""Filled cells in the kind of table that the rows came in; no data-frame library is imported.

| rows | what comes back |
|---|---|
| pandas or polars frame | the same kind of frame: its index, the order and types of its columns |
| anything else, of a table's mixture | a dict of columns by name, or an array without names |
| anything else, of numbers alone | an array; a dict for a dict |

A column without missing cells stays as it is. Numbers that were filled are float64; levels keep the
type of their column where it can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.tables.encoding import decode_columns
from momentmix.tables.formats.memory import frame_labels, frame_names
from momentmix.tables.names import numbers_as_names
from momentmix.tables.schema import Schema

Gaps = NDArray[np.bool_]


def filled_rows(rows: Any, features: Float, gaps: Gaps, complete: Schema, has_schema: bool) -> Any:
    """Complete rows, of the kind that was given.

    Parameters
    ----------
    rows : table
        With missing cells.
    features : array of shape (n_rows, n_features)
        Of complete rows.
    gaps : array of bool of shape (n_rows, n_columns)
        Which cells were filled.
    complete : Schema
        Of the features.
    has_schema : bool
        Whether the mixture has a schema, so that columns may be of several types.
    """
    is_pandas = hasattr(rows, "iloc") and hasattr(rows, "isetitem")
    if is_pandas or (hasattr(rows, "with_columns") and hasattr(rows, "to_series")):
        columns = decode_columns(complete.columns, features)
        fill = _filled_pandas if is_pandas else _filled_polars
        filled = rows.copy() if is_pandas else rows
        for number, place in enumerate(_places(rows, complete.column_names)):
            if gaps[:, number].any():
                are_levels = bool(complete.columns[number].levels)
                filled = fill(filled, place, columns[number], gaps[:, number], are_levels)
        return filled
    return complete.decode(features) if has_schema or isinstance(rows, Mapping) else features


def _places(frame: Any, expected: tuple[str, ...] | None) -> list[int]:
    """Place in the frame of each column of the mixture, as it was read."""
    names = frame_names(frame, expected)
    if expected is None and names is not None:
        expected = numbers_as_names(names)
    if expected is None or names is None:
        return list(range(len(frame_labels(frame))))
    return [names.index(name) for name in expected]


def _filled_pandas(frame: Any, place: int, values: Array, gaps: Gaps, are_levels: bool) -> Any:
    """The frame with a column changed, in place."""
    if not are_levels:
        frame.isetitem(place, values)
        return frame
    column = frame.iloc[:, place]
    cells, dtype = column.to_numpy(dtype=object, copy=True), column.dtype
    cells[gaps] = values[gaps]
    if hasattr(dtype, "categories"):
        lacking = set(cells.tolist()) - set(dtype.categories)
        dtype = column.cat.add_categories(sorted(lacking)).dtype
    new = type(column)(cells, index=column.index, name=column.name, dtype=object)
    with suppress(TypeError, ValueError):  # text for numbers, none of which was a level
        new = new.astype(dtype)
    frame.isetitem(place, new)
    return frame


def _filled_polars(frame: Any, place: int, values: Array, gaps: Gaps, are_levels: bool) -> Any:
    """The frame with a column changed."""
    column = frame.to_series(place)
    if not are_levels:
        return frame.with_columns(type(column)(column.name, values))
    cells = np.array(column.to_list(), dtype=object)
    cells[gaps] = values[gaps]
    new = type(column)(column.name, cells.tolist(), dtype=column.dtype, strict=False)
    if new.null_count():  # an Enum without the level
        new = type(column)(column.name, cells.tolist())
    return frame.with_columns(new)
