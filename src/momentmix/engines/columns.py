"""Columns of distributed rows → how they become features, before the pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, TableWarning, warn_caller
from momentmix.names import match_names
from momentmix.tables.opening import open_rows
from momentmix.rows.source import Missing, RowSource
from momentmix.rows.table import Kind
from momentmix.schema.building import LOOKED_AT, Families, schema_of_cells
from momentmix.schema.cells import Cells, CellTable
from momentmix.tables.column import BERNOULLI, CATEGORICAL
from momentmix.schema.file_cells import new_labels
from momentmix.tables.schema import plain_schema
from momentmix.tables.schema import Schema
from momentmix.schema.sources import prepare


class FoundColumns(NamedTuple):
    """The schema, and names of the columns that it needs."""

    schema: Schema
    names: tuple[str, ...]


class Met(NamedTuple):
    """Whether cells of a column are missing, and its levels where these were asked for."""

    is_missing: bool
    levels: Sequence[Any]


class EngineRows(Protocol):
    """Rows of an engine, as far as the guess of columns needs them."""

    @property
    def name(self) -> str:
        """What the engine calls them, for messages."""

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""

    def head(self, names: Sequence[str]) -> Any:
        """Up to `LOOKED_AT` first rows of columns as a pyarrow.Table."""

    def met(self, names: Sequence[str], kinds: Sequence[Kind], listed: Sequence[int]) -> list[Met]:
        """What all rows hold, for each column; levels of those whose number is listed."""


def found_columns(
    rows: EngineRows,
    keys: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
) -> FoundColumns:
    """What columns become: by a schema, or guessed from the first rows.

    Parameters
    ----------
    rows : EngineRows
    keys : sequence of str
        Columns of keys, which are no features.
    columns, exclude, families, missing
        As for `momentmix.summarize`.
    """
    names = _checked(rows, keys, columns)
    taken = [name for name in (columns or names) if name not in keys]
    left_out = [name for name in exclude or () if name not in keys] or None
    if isinstance(families, Schema):
        places = match_names(families.column_names or taken, taken, "the schema", others=True)
        return FoundColumns(families, tuple(taken[j] for j in places))
    asked = None if columns is None else taken
    source = open_rows(_head(rows, taken).to_reader(), asked, "model", exclude=left_out)
    prepared = prepare(source, families)
    source = prepared.source
    if source.notes:
        warn_caller(f"columns were guessed: {'; '.join(source.notes)}.", TableWarning)
    found = source.feature_names or ()
    if prepared.is_plain(missing):
        return FoundColumns(plain_schema(len(found), found), found)
    cells = _met_cells(rows, source, prepared.families)
    return FoundColumns(schema_of_cells(cells, prepared.families, missing), found)


def _checked(rows: EngineRows, keys: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Names of all columns, where those that are asked for are there, once each."""
    names = rows.columns
    for name in [*keys, *(columns or ())]:
        if name not in names:
            listed = ", ".join(map(ascii, names[:20]))
            raise InputError(f"{rows.name} has no column {name!a}; it has {listed}.")
    for name in columns or names:
        if names.count(name) > 1:
            raise InputError(
                f"names of columns must differ; {name!a} is repeated. Rename one of them."
            )
    return names


def _head(rows: EngineRows, names: Sequence[str]) -> Any:
    table = rows.head(names)
    if not table.num_rows:
        raise InputError(f"rows must hold at least one row; {rows.name} is empty.")
    return table


def _met_cells(rows: EngineRows, source: RowSource, families: Mapping[int, Any]) -> CellTable:
    """Cells that stand for all rows: levels and missing cells from an aggregation."""
    names, labels = source.feature_names or (), new_labels(source, families, LOOKED_AT)
    listed = [
        j
        for j in range(len(names))
        if (j in labels and not labels[j].are_bools) or families.get(j) in (BERNOULLI, CATEGORICAL)
    ]
    found = rows.met(names, source.kinds, listed)
    first = source.head(LOOKED_AT, labels)
    columns = []
    for j, (kind, met) in enumerate(zip(source.kinds, found, strict=True)):
        levels = sorted(met.levels) if j in listed else None
        if levels is not None and kind.kind == "text":
            codes = np.append(np.arange(len(levels)), [-1] * met.is_missing).astype(np.int64)
            columns.append(Cells(codes, tuple(levels)))
            continue
        numbers = _seen(first[:, j]) if levels is None else np.array(levels, dtype=np.float64)
        numbers = np.append(_seen(numbers), [np.nan] * met.is_missing)
        columns.append(Cells(numbers, are_bools=kind.kind == "bool"))
    return CellTable(columns, source.feature_names)


def _seen(numbers: Float) -> Float:
    return np.asarray(numbers[~np.isnan(numbers)][:LOOKED_AT])
