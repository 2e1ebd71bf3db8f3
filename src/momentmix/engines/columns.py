"""Columns of distributed rows → how they become features, before the pass over the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from momentmix.errors import InputError
from momentmix.summary.summarize import warn_of_notes
from momentmix.tables.cells import column_cells
from momentmix.tables.column import BERNOULLI, CATEGORICAL
from momentmix.tables.learning import Families, Found, learn
from momentmix.tables.memory import MemoryTable
from momentmix.tables.names import match_names
from momentmix.tables.opening import Reading
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows


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

    def met(self, names: Sequence[str], listed: Sequence[str]) -> list[tuple[bool, Sequence[Any]]]:
        """Of each column whether cells are missing in any row, and if it is listed its levels."""


def found_columns(
    rows: EngineRows,
    keys: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
) -> tuple[Schema, tuple[str, ...]]:
    """What columns become, by a schema or guessed from the first rows; and their names.

    Parameters
    ----------
    rows : EngineRows
    keys : sequence of str
        Columns of keys, which are no features.
    columns, exclude, families, missing
        As for `momentmix.summarize`.
    """
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
    taken = [name for name in (columns or names) if name not in keys]
    if isinstance(families, Schema):
        places = match_names(families.column_names or taken, taken, "the schema", others=True)
        return families, tuple(taken[j] for j in places)
    head = rows.head(taken)
    if not head.num_rows:
        raise InputError(f"rows must hold at least one row; {rows.name} is empty.")
    left_out = [name for name in exclude or () if name not in keys] or None
    reading = Reading(columns=None if columns is None else taken, exclude=left_out)
    opened = reading.open([MemoryTable(head, rows.name)], missing)
    learned = learn(opened, families, find=partial(_found, rows))
    warn_of_notes(learned.notes)
    return learned.learned, learned.column_names or ()


def _found(
    rows: EngineRows, opened: TableRows, families: Mapping[int, Any], missing: Missing, rare: float
) -> list[Found]:
    """What all rows hold: levels and missing cells by an aggregation, numbers of the first rows."""
    names, head = opened.column_names or (), opened.head()
    assert head is not None
    found = [Found(kind, families.get(j)) for j, kind in enumerate(opened.kinds)]
    with_levels = [
        families.get(j) in (BERNOULLI, CATEGORICAL) and kind.kind != "bool"
        for j, kind in enumerate(opened.kinds)
    ]
    listed = [name for name, is_listed in zip(names, with_levels, strict=True) if is_listed]
    met = (
        [(False, ())] * len(names) if not listed and missing != "model" else rows.met(names, listed)
    )
    for j, (own, (is_missing, levels)) in enumerate(zip(found, met, strict=True)):
        label = f"{rows.name}, column {names[j]!a}"
        own.add(column_cells(sorted(levels), label) if with_levels[j] else head[j], label)
        own.has_missing = is_missing
    return found
