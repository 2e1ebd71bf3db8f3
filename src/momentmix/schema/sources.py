"""Files and other rows that are read in blocks → their schema: guessed, or found in a pass.

Text of files is read as codes of labels. `prepare` looks at the first rows and says what columns
are; `encode_rows` finds levels and missing cells in a pass, `held_table` in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from momentmix.errors import InputError
from momentmix.progress import step
from momentmix.rows.labels import Labels
from momentmix.names import match_names
from momentmix.tables.opening import can_open
from momentmix.tables.rows import Rows
from momentmix.rows.reading import Reading, reading_from
from momentmix.rows.source import Missing, RowSource, check_missing
from momentmix.rows.table import Kind
from momentmix.schema.building import (
    MOST_LEVELS,
    EncodedTable,
    Families,
    by_number,
    encode_known,
    guessed,
    schema_of_cells,
    with_gaps,
)
from momentmix.schema.cells import read_cells
from momentmix.tables.column import GAUSSIAN, Column
from momentmix.schema.encoding import Unseen
from momentmix.schema.file_cells import (
    cells_of,
    met_levels,
    met_rows,
    new_labels,
    no_cells,
    nulls_of,
)
from momentmix.schema.guessing import HEAD, guess_columns
from momentmix.tables.schema import plain_schema
from momentmix.schema.rows import SchemaOfRows
from momentmix.tables.schema import Schema

_MOST_TEXTS = 1 << 20  # of a column whose rare levels are joined


class FoundSchema(NamedTuple):
    """A schema, and notes on columns that were left out or that could be taken as others."""

    schema: Schema
    notes: tuple[str, ...]


def schema_from(
    rows: Any,
    families: Families = None,
    missing: Missing = "error",
    *,
    rare: float = 0.0,
    **reading: Any,
) -> Schema:
    """How the columns of a table become features; what no family is given for is guessed.

    Parameters
    ----------
    rows : array, data frame, Arrow table, list of rows, dict of columns, path or source
    families : dict, optional
        Family of a column, by name or number: ``"gaussian"``, ``"bernoulli"``, ``"categorical"``,
        ``"poisson"``, or a list of the levels of a categorical column. ``"log"`` and ``"log1p"``
        stand for a column whose log(y) or log(1 + y) is gaussian.
    missing : {"error", "drop", "model"}
        What to do with missing cells (NaN, None, NA, NaT, masked): refuse them, leave their rows
        out, or give the column a feature that tells whether a cell was seen.
    rare : float
        Levels of text with a smaller share of the rows are joined into one level, "other".
    **reading
        Columns to take and how files are read, as for `open_rows`.

    Examples
    --------
    >>> table = {"age": [31.0, None, 40.0], "plan": ["gold", "basic", "gold"]}
    >>> schema = schema_from(table, missing="model")
    >>> schema.feature_names
    ('age', 'age seen', 'plan=gold')
    >>> schema.encode(table).tolist()
    [[-5.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 1.0, 1.0]]
    """
    return found_schema(rows, families, missing, rare, reading_from(reading)).schema


def found_schema(
    rows: Any, families: Families, missing: Missing, rare: float, reading: Reading
) -> FoundSchema:
    """The schema of a table in memory or in files, and notes; see `schema_from`."""
    check_missing(missing)
    if not 0 <= rare < 1:
        raise InputError(f"rare is a share of the rows, from 0 to less than 1; got {rare}.")
    with step("Reading columns"):
        if can_open(rows):
            rows = reading.open(rows, missing)
        if isinstance(rows, Rows):
            found = encode_rows(rows, families, missing, rare)
            return FoundSchema(found.schema, found.notes)
    reading.check_in_memory()
    chosen = reading.selection
    table = read_cells(rows, None, None, chosen=chosen)
    guess = guessed(table, families, missing, chosen.columns is not None, rare)
    return FoundSchema(guess.schema, guess.notes)


class Prepared(NamedTuple):
    """A source whose columns can be features, and their families by number.

    Attributes
    ----------
    source : RowSource
    families : dict
        Gaussian columns need not be there.
    """

    source: RowSource
    families: dict[int, Any]

    def is_plain(self, missing: Missing) -> bool:
        """Whether all columns are numbers that nothing is done to."""
        return missing != "model" and all(f == GAUSSIAN for f in self.families.values())


def prepare(source: RowSource, families: Mapping[Any, Any] | None, rare: float = 0.0) -> Prepared:
    """The columns of a source that can be features; what no family is given for is guessed.

    The first rows are read. Levels and missing cells are found later, by `encode_prepared` in a
    pass or by `held_table` in memory.
    """
    if source.feature_names is None and not any(kind.is_text for kind in source.kinds):
        return Prepared(source, by_number(families, no_cells(source)))
    asked = by_number(families, no_cells(source))
    labels = new_labels(source, asked, _MOST_TEXTS)
    first = source.head(HEAD, labels)
    if labels and not len(first) and len(source.tables) == 1:  # not a column of missing cells
        raise InputError("rows must hold at least one row; the source gave none.")
    head = cells_of(first, source, labels)
    found = guess_columns(head, asked, source.chosen, rare)
    kept = found.kept(source.n_features)
    source = source.selected(kept.numbers, found.notes(source.feature_names))
    return Prepared(source, kept.families)


def held_table(prepared: Prepared, missing: Missing, n_bytes: float) -> EncodedTable | None:
    """All rows of a source as features in memory; None if they take more than so many bytes."""
    source = prepared.source
    source = source.with_missing("error" if missing == "error" else "model")
    labels = new_labels(source, prepared.families, MOST_LEVELS)
    values = source.with_labels(labels).read_within(n_bytes)
    if values is None:
        return None
    if not len(values):
        raise InputError(f"{source.tables[0].name} holds no rows.")
    table = cells_of(values, source, labels)
    schema = schema_of_cells(table, prepared.families, missing)
    return encode_known(table, schema, missing, source.notes)


def encode_rows(
    rows: Rows, families: Families = None, missing: Missing = "error", rare: float = 0.0
) -> SchemaOfRows:
    """Rows that are read in blocks, and how they become features.

    What no family is given for is guessed from the first rows. Where there are levels or missing
    cells to find, that takes a pass, unless `families` is a schema.

    Parameters
    ----------
    rows : Rows
    families, missing, rare
        As for `schema_from`. With missing="error", a source of files reads missing cells as it was
        opened; other rows must give NaN for them.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix.tables.opening import open_rows
    >>> source = open_rows(np.array([[1.5, 0], [np.nan, 2], [2.5, 1]]))
    >>> encode_rows(source, {1: "poisson"}, "model").schema.feature_names
    ('0', '0 seen', '1')
    """
    check_missing(missing)
    if isinstance(rows, RowSource) and missing == "error":
        missing = rows.missing
    if isinstance(families, Schema):
        return _known(rows, families, missing)
    if not isinstance(rows, RowSource):
        chosen = by_number(families, no_cells(rows))
        return SchemaOfRows(rows, schema_of_cells(met_rows(rows, chosen, {}), chosen, missing))
    return encode_prepared(prepare(rows, families, rare), missing, rare)


def encode_prepared(prepared: Prepared, missing: Missing, rare: float = 0.0) -> SchemaOfRows:
    """`encode_rows` of a source whose first rows have been looked at."""
    source, chosen = prepared
    kept = source.with_missing(missing)
    if prepared.is_plain(missing):
        plain = plain_schema(source.n_features, source.feature_names)
        return SchemaOfRows(kept, plain, source.notes)
    labels = new_labels(source, chosen, _MOST_TEXTS if rare else MOST_LEVELS)
    whole = source.with_missing("error" if missing == "error" else "model").with_labels(labels)
    if missing == "model":
        met = met_rows(whole, chosen, labels)
    else:
        met = met_levels(whole, chosen, labels, counted=rare > 0)
    schema = schema_of_cells(met, chosen, missing, rare)
    return SchemaOfRows(coded_by(kept, schema), schema, source.notes)


def _known(rows: Rows, schema: Schema, missing: Missing) -> SchemaOfRows:
    """Rows that are encoded by a schema; with more features ``seen`` where cells are missing."""
    if not isinstance(rows, RowSource):
        return SchemaOfRows(rows, schema)
    source = coded_by(in_columns_of(rows.with_missing(missing), schema), schema)
    if needs_pass(source, schema, missing):
        labels = source.labels or {}
        families = {j: list(column.levels) for j, column in enumerate(schema.columns)}
        schema = with_gaps(schema, met_rows(source, families, labels))
    gaps = [j for j, column in enumerate(schema.columns) if column.has_missing]
    return SchemaOfRows(source.with_gaps(gaps), schema, source.notes)


def needs_pass(source: RowSource, families: Families, missing: Missing) -> bool:
    """Whether `encode_rows` reads all rows, to find levels or missing cells."""
    if isinstance(families, Schema):
        return missing == "model" and not all(column.has_missing for column in families.columns)
    text = any(kind.is_text for kind in source.kinds)
    return missing == "model" or text or families is not None


def in_columns_of(
    source: RowSource,
    schema: Schema,
    owner: str = "the schema",
    how: str = "with columns= (--columns)",
) -> RowSource:
    """The source with the columns of a schema, by name where both have names.

    `owner` is whose columns they are, `how` the way to select them, in messages.
    """
    names = schema.column_names
    if names is None or source.feature_names is None:
        if source.n_features != schema.n_columns:
            raise InputError(
                f"{source.tables[0].name} has {source.n_features} columns, {owner} "
                f"{schema.n_columns}. Select them {how}."
            )
        return source
    return source.selected(match_names(names, source.feature_names, owner, others=True))


def coded_by(source: RowSource, schema: Schema, unseen: Unseen = "error") -> RowSource:
    """The source with the levels of a schema as labels of its columns of text."""
    labels = {}
    for j, (column, kind) in enumerate(zip(schema.columns, source.kinds, strict=True)):
        is_text = bool(column.levels) and isinstance(column.levels[0], str)
        place = source.tables[0].label(source.columns[0][j])
        if kind.is_text or (is_text and kind.kind in ("number", "mixed") and nulls_of(source)):
            _check_labels(column, is_text, kind, source, place)
            labels[j] = Labels(column.levels, column.other, unseen)  # type: ignore[arg-type]
        elif is_text:
            raise InputError(
                f"{source.tables[0].name}: the levels of {place} are text, as "
                f"{column.levels[0]!a}, but it holds numbers ({kind.type}). Write the levels as "
                "numbers, or convert the column."
            )
    return source.with_labels(labels)


def _check_labels(column: Column, is_text: bool, kind: Kind, source: RowSource, place: str) -> None:
    """Raise where a column of text cannot have the levels of a column."""
    name = source.tables[0].name
    if not is_text and column.levels != (False, True):
        what = f"levels {list(column.levels[:3])!a}" if column.levels else column.family
        raise InputError(
            f"{name}: {place} is {kind.type}, and the schema has {what} for it. Correct the "
            "schema, or convert the column."
        )
    lost = [level for level in column.levels if level in nulls_of(source)]
    if lost:
        raise InputError(
            f"{name}: the level {lost[0]!a} of {place} reads as a missing cell. Pass na_values "
            "(--na-values), the texts that stand for missing cells in this file, without it; or "
            "rename the level."
        )
