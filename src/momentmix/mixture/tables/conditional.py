"""Unknown cells of rows given the known ones: conditional mixtures, means, and filled tables.

| symbol | name here | shape |
|---|---|---|
| known columns K | ``known`` | (k,) |
| ω_i p_i(y_K) / Σ_l ω_l p_l(y_K) | ``shares`` | (r,), (n, r) |

Blocks are independent given the component, so a known column changes the parameters of its own
block (`Block.given`); those of other blocks change by the weights of the components alone. The
shares of a row are also those of which cells are missing, where the model has the probability.

| rows to fill | what comes back |
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

from momentmix._typing import Array, Float, Int
from momentmix.arrays import is_tensor, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.mixture.density import posteriors
from momentmix.mixture.tables.block_features import complete_schema, selected
from momentmix.tables.cells import is_missing
from momentmix.tables.encoding import Encoded, Unseen, decode_columns
from momentmix.tables.formats.memory import frame_labels, frame_names, is_frame
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.names import feature_number, numbers_as_names
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture
    from momentmix.mixture.row_methods import RowMethods

Gaps = NDArray[np.bool_]


def column_numbers(
    columns: Sequence[int | str], n_features: int, names: Sequence[str] | None
) -> Int:
    """Numbers of columns that are given by number or name, each once."""
    d, numbers = n_features, [int(feature_number(column, names)) for column in columns]
    if not numbers or min(numbers) < -d or max(numbers) >= d:
        raise InputError(f"features must be numbers in 0…{d - 1} or names; got {columns!r}.")
    found = np.array(numbers, dtype=np.int64) % d
    if np.unique(found).size < found.size:
        raise InputError(f"features must differ from each other; got {columns!r}.")
    return found


def some_component_is_probable(shares: Float) -> None:
    """Raise where shares of components given known values are NaN."""
    if not np.isfinite(shares).all():
        raise InputError(
            "the values of the known columns are not finite, or so far from all components that "
            "none is probable. Check them and their units."
        )


def other_columns(known: Int, n_features: int) -> Int:
    """Columns that are not known, ascending; raise where there are none."""
    others = np.setdiff1d(np.arange(n_features), known)
    if not others.size:
        raise InputError(
            f"all {n_features} columns are known, so that none is left. Leave out those that are "
            "to be predicted."
        )
    return others


def blocks_given(
    mixture: Mixture, values: Mapping[int | str, Any]
) -> tuple[Float, tuple[Block, ...], Int]:
    """Weights and blocks of the columns of a row that these values leave unknown, and which."""
    try:
        row = {column: value for column, value in dict(values).items() if not is_missing(value)}
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be cells by column, as {{'age': 31.0, 'plan': 'gold'}}; got {values!r}."
        ) from None
    d, names = mixture.n_columns, mixture.feature_names
    if not row:
        return mixture.weights, mixture.blocks, np.arange(d)
    known = column_numbers(list(row), d, names)
    others, cells = other_columns(known, d), list(row.values())
    shares = mixture.select(known.tolist()).responsibilities([cells])[0]
    some_component_is_probable(shares)
    by_number = dict(zip(known.tolist(), cells, strict=True))
    found = [block.given(by_number) for block in mixture.blocks]
    return shares / shares.sum(), selected(found, others), others


def expected_columns(mixture: Mixture, rows: Any, known: Sequence[int | str] | None) -> Float:
    """Means of the other columns given the known cells of each row, of shape (n, u)."""
    rows = to_numpy(rows) if is_tensor(rows) else rows
    if known is None and isinstance(rows, Mapping):
        known = [str(name) for name in rows]
    elif known is None:
        known = frame_names(rows) if is_frame(rows) else None
    if known is None:
        raise InputError(
            "which columns the rows hold is not known; pass known=[…], numbers or names of the "
            "mixture's columns, or a data frame with names."
        )
    numbers = column_numbers(known, mixture.n_columns, mixture.feature_names)
    others, part = other_columns(numbers, mixture.n_columns), mixture.select(numbers.tolist())
    complete = complete_schema(part.columns)
    encoded = complete.encode_for_prediction(rows)
    shares = part.table_density().map_rows(rows, posteriors)
    some_component_is_probable(shares)
    cells = np.full((len(shares), mixture.n_columns), np.nan)  # numbers that are known
    for place, number in enumerate(numbers):
        cells[:, number] = encoded.features[:, complete.features_of(place)[0]]
        if encoded.left_out is not None:
            cells[encoded.left_out[:, place], number] = np.nan
    for block in mixture.blocks:
        own = list(block.columns)
        cells[:, own] = block.expected_values(cells[:, own], shares)
    return cells[:, others]


# -- filled tables -------------------------------------------------------------------------------


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
