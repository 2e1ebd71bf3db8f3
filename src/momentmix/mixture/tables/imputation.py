"""Missing cells filled from a mixture, given what is seen in their row.

The components' shares of a row are those of its seen cells, and of which cells are missing where
the model has the probability of that. Cells of different blocks are independent given the
component; those of a joined block are regressed on its seen cells.

| rows | what comes back |
|---|---|
| pandas or polars frame | the same kind of frame: its index, the order and types of its columns |
| anything else, of a table's mixture | a dict of columns by name, or an array without names |
| anything else, of numbers alone | an array; a dict for a dict |

A column without missing cells stays as it is. Numbers that were filled are float64; levels keep the
type of their column where it can hold them. No data-frame library is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import InputError
from momentmix.families.block import Block
from momentmix.mixture.density import posteriors
from momentmix.mixture.tables.block_features import complete_schema
from momentmix.tables.encoding import Encoded, Unseen, decode_columns
from momentmix.tables.formats.memory import frame_labels, frame_names
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.names import numbers_as_names
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.row_methods import RowMethods

Gaps = NDArray[np.bool_]


def complete_tables(
    mixture: RowMethods, rows: Any, n_draws: int | None, rng: np.random.Generator, unseen: Unseen
) -> list[Any]:
    """One table of means and most probable levels, or `n_draws` tables of draws."""
    density, blocks = mixture.table_density(), mixture.blocks
    complete = complete_schema(mixture.columns)  # its features are the values themselves
    tables: list[list[Float]] = [[] for _ in range(n_draws or 1)]
    gaps: list[Gaps] = []
    both = (
        encoded_blocks(schema, rows, "the mixture", unseen) for schema in (density.schema, complete)
    )
    for encoded, cells in zip(*both, strict=True):
        shares = density.map_encoded(encoded, posteriors)
        if np.isnan(shares).any():
            row = sum(map(len, gaps)) + int(np.argmax(np.isnan(shares).any(axis=1)))
            raise InputError(
                f"row {row} is so far from all components that none is probable. Check its cells "
                "and their units."
            )
        no_gaps = np.zeros((len(shares), complete.n_columns), dtype=bool)
        gaps.append(no_gaps if cells.left_out is None else cells.left_out)
        for table in tables:
            chance = None if n_draws is None else rng
            table.append(_filled(blocks, complete, cells, shares, chance))
    has_schema, found = mixture.schema is not None, np.concatenate(gaps)
    return [_as_given(rows, np.concatenate(t), found, complete, has_schema) for t in tables]


def _filled(
    blocks: Sequence[Block],
    complete: Schema,
    cells: Encoded,
    shares: Float,
    rng: np.random.Generator | None,
) -> Float:
    """Features where missing cells have been filled, block by block; by draws if there is `rng`."""
    features = cells.features.copy()
    if rng is not None:  # a component of each row, drawn with its shares
        ends = np.cumsum(shares, axis=1)
        labels = (rng.random((len(shares), 1)) * ends[:, -1:] >= ends).sum(axis=1)
        labels = np.minimum(labels, shares.shape[1] - 1)
    if cells.left_out is None:
        return features
    for block in blocks:
        gaps = cells.left_out[:, list(block.columns)]
        rows = np.flatnonzero(gaps.any(axis=1))
        if rows.size:
            own = [j for column in block.columns for j in complete.features_of(column)]
            places, gaps = np.ix_(rows, np.array(own)), gaps[rows]
            values = features[places]
            seen = np.where(gaps, np.nan, values)
            if rng is None:
                found = block.expected(seen, shares[rows])
            else:
                found = block.drawn(seen, labels[rows], rng)
            features[places] = np.where(gaps, found, values)
    return features


def _as_given(rows: Any, features: Float, gaps: Gaps, complete: Schema, has_schema: bool) -> Any:
    """Complete rows of these features, of the kind that was given; `gaps` (n, n_columns)."""
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
