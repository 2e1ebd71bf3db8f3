"""Rows, families and what to do with missing cells → a schema, and the rows as features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import InputError, InputTypeError
from momentmix.rows.columns import ALL_COLUMNS, Selection
from momentmix.rows.labels import MOST_LABELS
from momentmix.names import column_label
from momentmix.rows.source import Missing, check_missing
from momentmix.schema.cells import Cells, CellTable, read_cells
from momentmix.tables.column import (
    BERNOULLI,
    CATEGORICAL,
    FAMILIES,
    GAUSSIAN,
    Column,
    Level,
    check_sizes_of,
    is_text,
    is_whole,
    number_of,
    plain_level,
    unknown_family,
)
from momentmix.schema.encoding import check_numeric, encode_cells, missing_cell
from momentmix.schema.guessing import guess_columns
from momentmix.tables.schema import Schema
from momentmix.tables.transforms import TRANSFORMS

Families = Mapping[Any, Any] | Schema | None
CENTER_BITS = 30  # of a center: leaves room to change it exactly, and far more than it needs
SMALLEST_CENTER = 2.0**-900  # its digits are in the range of units
LOOKED_AT = 1 << 14  # numbers, spread over the rows: a center need not be the mean itself
MOST_LEVELS = MOST_LABELS  # more are names of rows, not categories
OTHER = "other"  # the level for all rare ones


class EncodedTable(NamedTuple):
    """Rows as features.

    Attributes
    ----------
    schema : Schema
    features : array of shape (n_rows, n_features)
    kept : array of bool, or None
        Which rows were kept, where some were dropped.
    notes : tuple of str
        Which columns were left out, and hints what others could be taken as.
    """

    schema: Schema
    features: Float
    kept: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_dropped(self) -> int:
        """Number of rows that were left out."""
        return 0 if self.kept is None else int((~self.kept).sum())


def encode_table(
    rows: Any,
    families: Families = None,
    missing: Missing = "error",
    chosen: Selection = ALL_COLUMNS,
) -> EncodedTable:
    """The features of a table in memory, and the schema that gives them; as `schema_from`.

    A schema may stand for `families`. With missing="model", its columns get a feature ``seen``
    where they have missing cells.
    """
    check_missing(missing)
    if isinstance(families, Schema):
        table = read_cells(rows, families.column_names, families.n_columns)
        schema = with_gaps(families, table) if missing == "model" else families
        return encode_known(table, schema, missing)
    table = read_cells(rows, None, None, chosen=chosen)
    found = guessed(table, families, missing, chosen.columns is not None)
    return encode_known(found.table, found.schema, missing, found.notes)


class GuessedTable(NamedTuple):
    """Columns that are used, how they become features, and notes on the others."""

    table: CellTable
    schema: Schema
    notes: tuple[str, ...] = ()


def guessed(
    table: CellTable,
    families: Families,
    missing: Missing,
    asked: bool,
    rare: float = 0.0,
) -> GuessedTable:
    """The columns of a table that can be features, with the families given or guessed."""
    if table.names is None and all(cells.is_number for cells in table.columns):
        return GuessedTable(table, schema_of_cells(table, by_number(families, table), missing))
    found = guess_columns(table, by_number(families, table), asked, rare)
    kept = found.kept(len(table.columns))
    notes, table = found.notes(table.names), table.selected(kept.numbers)
    schema = schema_of_cells(table, kept.families, missing, rare)
    return GuessedTable(table, schema, notes)


def with_gaps(schema: Schema, table: CellTable) -> Schema:
    """The schema with a feature ``seen`` for all columns that have missing cells in the table."""
    for i, (column, cells) in enumerate(zip(schema.columns, table.columns, strict=True)):
        if not column.has_missing and cells.missing().any():
            schema = schema.with_column(i, has_missing=True, center=_center(column, cells))
    return schema


def encode_known(
    table: CellTable,
    schema: Schema,
    missing: Missing,
    notes: tuple[str, ...] = (),
) -> EncodedTable:
    """The features of columns of cells, by a schema."""
    encoded = encode_cells(schema.columns, table)
    if encoded.left_out is None:
        return EncodedTable(schema, encoded.features, None, notes)
    if missing != "drop":
        raise missing_cell(encoded.left_out, schema.column_names)
    kept = np.asarray(~encoded.left_out.any(axis=1))
    if not kept.any():
        raise InputError(
            f"every one of the {len(kept)} rows has a missing cell, so that missing='drop' leaves "
            "none. Leave out columns, or pass missing='model'."
        )
    return EncodedTable(schema, encoded.features[kept], kept, notes)


def by_number(families: Families, table: CellTable) -> dict[int, Any]:
    """Families by the number of their column."""
    if families is None:
        return {}
    if not isinstance(families, Mapping):
        raise InputTypeError(
            "families must be a dict, {name or number of a column: family}; got "
            f"{type(families).__name__}."
        )
    chosen: dict[int, Any] = {}
    for key, family in families.items():
        number = number_of(key, table.names, len(table.columns), "families names no column")
        if number in chosen:
            raise InputError(
                f"families must name a column once; {column_label(number, table.names)} is there "
                "by name and by number. Leave one of them out."
            )
        chosen[number] = family
    return chosen


def schema_of_cells(
    table: CellTable, families: dict[int, Any], missing: str, rare: float = 0.0
) -> Schema:
    """The schema of columns of cells, with families by the numbers of columns."""
    columns = []
    for i, cells in enumerate(table.columns):
        name, label = None if table.names is None else table.names[i], column_label(i, table.names)
        gap = cells.missing()
        if gap.all():
            raise InputError(
                f"{label} has no cell that is not missing: nothing can be learned of it. Leave it "
                "out; or pass families=schema, the schema of a table that has some."
            )
        column = _column(name, families.get(i, GAUSSIAN), cells, label, rare)
        if not column.levels:
            check_numeric(column, cells, label)
        if missing == "model" and gap.any():
            column = replace(column, has_missing=True, center=_center(column, cells))
        columns.append(column)
    return Schema(tuple(columns))


def _column(name: str | None, family: Any, cells: Cells, label: str, rare: float) -> Column:
    if isinstance(family, str):
        if family in TRANSFORMS:
            return Column(name, transform=family)
        if family not in FAMILIES:
            raise InputError(unknown_family(family, label))
        if family in (BERNOULLI, CATEGORICAL):
            levels, other = _found_levels(family, cells, label, rare)
            return Column(name, family, levels, other=other)
        return Column(name, family)
    if isinstance(family, Sequence | np.ndarray):
        return Column(name, CATEGORICAL, _checked_levels(list(family), label))
    raise InputTypeError(unknown_family(family, label))


# -- levels -----------------------------------------------------------------------------------


def _found_levels(
    family: str, cells: Cells, label: str, rare: float
) -> tuple[tuple[Level, ...], str | None]:
    """All levels of a column, those of its type or those that occur; and the one for others."""
    if cells.labels is None:
        found = np.unique(cells.values[~cells.missing()]).tolist()
        if cells.are_bools:
            found = [bool(value) for value in found]
        if set(found) <= {0, 1} and family == BERNOULLI:
            return (False, True) if cells.are_bools else (0, 1), None
    else:
        found = list(cells.labels)
    found, other = _without_rare(found, cells, rare)
    levels = _checked_levels([*found, *filter(None, [other])], label, len(found))
    if cells.order != "ordered":
        levels = tuple(sorted(levels, key=lambda level: (level == other, level)))
    if family == BERNOULLI and len(levels) != 2:
        raise _not_two(levels, cells, label)
    return levels, other


def _checked_levels(found: list[Any], label: str, n_found: int | None = None) -> tuple[Level, ...]:
    """Levels as strings, integers or bools; at least two, all different."""
    levels = [plain_level(level) for level in found]
    check_sizes_of(levels, label)
    if not (all(map(is_text, levels)) or all(map(is_whole, levels))):
        odd = next((x for x in levels if not (is_text(x) or is_whole(x))), levels)
        raise InputError(
            f"levels must be strings, integers or bools, all of one kind; {label} has {odd!a}. "
            "Round the column or write its levels as text; or take it as 'gaussian'."
        )
    if len(levels) > MOST_LEVELS:
        raise InputError(
            f"{label} has {len(levels)} levels; a categorical column may have {MOST_LEVELS}. "
            "Leave it out if it names the rows: exclude= (--exclude); or join rare levels with a "
            "schema (momentmix schema --rare 0.01)."
        )
    if len(levels) < 2 or len(set(levels)) < len(levels):
        problem = "has one level only" if n_found else "must have different levels, at least two"
        raise InputError(
            f"{label} {problem}: {levels!a}. Leave the column out, or give all levels that it may "
            "have: families={…: ['no', 'yes']}."
        )
    return tuple(levels)


def _not_two(levels: Sequence[Level], cells: Cells, label: str) -> InputError:
    """The error for a yes/no column of more than two levels."""
    first_two = set(levels[:2])
    if cells.labels is None:
        others = ~np.isin(cells.values, list(first_two)) & ~cells.missing()
    else:
        others = np.isin(
            cells.values, [i for i, x in enumerate(cells.labels) if x not in first_two]
        )
    row = int(np.argmax(others))
    return InputError(
        f"a bernoulli column must have two levels; {label} has {len(levels)}: beside "
        f"{levels[0]!a} and {levels[1]!a}, row {row} is {cells.text(row)}. Correct the cell, or "
        "take the column as 'categorical' in families."
    )


def _without_rare(levels: list[Any], cells: Cells, rare: float) -> tuple[list[Any], str | None]:
    """Levels of text that are frequent, and one for all others where some are rare."""
    if not rare or cells.labels is None or not all(map(is_text, levels)):
        return levels, None
    counts = cells.label_counts
    least = rare * counts.sum()
    frequent = [level for level, count in zip(levels, counts, strict=True) if count >= least]
    if len(frequent) >= len(levels) - 1 or not frequent:
        return levels, None
    other = OTHER
    while other in frequent:
        other += "_"
    return frequent, other


# -- centers ----------------------------------------------------------------------------------


def _center(column: Column, cells: Cells) -> float:
    """A short number near the mean of the cells that are seen; 0 where the column has no center."""
    if column.family != GAUSSIAN or cells.labels is not None:
        return 0.0
    sample = cells.values[:: -(-len(cells.values) // LOOKED_AT)]
    if np.isnan(sample).all():
        sample = cells.values
    return short_mean(column.transformed(sample[~np.isnan(sample)]))


def short_mean(values: Array) -> float:
    """The mean, rounded to a power of two of about the standard deviation, with few digits.

    Examples
    --------
    >>> short_mean(np.array([36.0, 41.5, 60.0]))
    48.0
    """
    size = float(np.abs(values).max())
    if not np.isfinite(size) or not size:
        return 0.0
    unit = 2.0 ** np.frexp(size)[1]  # no square may leave the range of float64
    scaled = values.astype(np.float64) / unit
    mean, deviation = float(scaled.mean()), float(scaled.std())
    finest = int(np.frexp(mean)[1]) - CENTER_BITS
    step = 2.0 ** max(int(np.frexp(deviation)[1]) - 1 if deviation else finest, finest)
    center = float(round(mean / step) * step * unit)
    return center if abs(center) >= SMALLEST_CENTER else 0.0
