"""Rows, families and what to do with missing cells → a schema, and the rows as features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Float
from momentmix.errors import InputError, InputTypeError
from momentmix.rows.names import column_label
from momentmix.schema.cells import Cells, CellTable, read_cells
from momentmix.schema.column import (
    BERNOULLI,
    CATEGORICAL,
    FAMILIES,
    GAUSSIAN,
    Column,
    Level,
    is_text,
    is_whole,
    number_of,
    plain_level,
    unknown_family,
)
from momentmix.schema.encoding import encode_cells, missing_cell
from momentmix.schema.schema import Schema
from momentmix.schema.transforms import TRANSFORMS

Missing = Literal["error", "drop", "model"]
Families = Mapping[Any, Any] | Schema | None
CENTER_BITS = 30  # of a center: leaves room to change it exactly, and far more than it needs
SMALLEST_CENTER = 2.0**-900  # its digits are in the range of units
LOOKED_AT = 1 << 14  # numbers, spread over the rows: a center need not be the mean itself
MOST_LEVELS = 1000  # more are names of rows, not categories


class EncodedTable(NamedTuple):
    """Rows as features.

    Attributes
    ----------
    schema : Schema
    features : array of shape (n_rows, n_features)
    kept : array of bool, or None
        Which rows were kept, where some were dropped.
    """

    schema: Schema
    features: Float
    kept: NDArray[np.bool_] | None = None

    @property
    def n_dropped(self) -> int:
        """Number of rows that were left out."""
        return 0 if self.kept is None else int((~self.kept).sum())


def schema_from(rows: Any, families: Families = None, missing: Missing = "error") -> Schema:
    """The schema of a table in memory.

    Parameters
    ----------
    rows : array, data frame, Arrow table, list of rows, or dict of columns
    families : dict, optional
        Family of each column that is not gaussian, by name or number: ``"bernoulli"``,
        ``"categorical"``, ``"poisson"``, or a list of the levels of a categorical column. ``"log"``
        and ``"log1p"`` stand for a column whose log(y) or log(1 + y) is gaussian.
    missing : {"error", "drop", "model"}
        What to do with missing cells (NaN, None, NA, NaT, masked): refuse them, leave their rows
        out, or give the column a feature that tells whether a cell was seen.

    Examples
    --------
    >>> table = {"age": [31.0, None, 40.0], "plan": ["gold", "basic", "gold"]}
    >>> schema = schema_from(table, {"plan": "categorical"}, missing="model")
    >>> schema.feature_names
    ('age', 'age seen', 'plan=gold')
    >>> schema.encode(table).tolist()
    [[-5.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 1.0, 1.0]]
    """
    return encode_table(rows, families, missing).schema


def encode_table(rows: Any, families: Families = None, missing: Missing = "error") -> EncodedTable:
    """The features of a table in memory, and the schema that gives them; as `schema_from`."""
    if missing not in ("error", "drop", "model"):
        raise InputError(f"missing must be 'error', 'drop' or 'model'; got {missing!r}.")
    if isinstance(families, Schema):
        schema = families
        table = read_cells(rows, schema.column_names, schema.n_columns)
    else:
        table = read_cells(rows, None, None)
        schema = schema_of_cells(table, by_number(families, table), missing)
    encoded = encode_cells(schema.columns, table)
    if encoded.left_out is None:
        return EncodedTable(schema, encoded.features)
    if missing != "drop":
        raise missing_cell(encoded.left_out, schema.column_names)
    kept = np.asarray(~encoded.left_out.any(axis=1))
    if not kept.any():
        raise InputError(
            f"every one of the {len(kept)} rows has a missing cell, so that missing='drop' leaves "
            "none. Leave out columns, or pass missing='model'."
        )
    return EncodedTable(schema, encoded.features[kept], kept)


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


def schema_of_cells(table: CellTable, families: dict[int, Any], missing: str) -> Schema:
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
        column = _column(name, families.get(i, GAUSSIAN), cells, label)
        if missing == "model" and gap.any():
            column = replace(column, has_missing=True, center=_center(column, cells))
        columns.append(column)
    return Schema(tuple(columns))


def _column(name: str | None, family: Any, cells: Cells, label: str) -> Column:
    if isinstance(family, str):
        if family in TRANSFORMS:
            return Column(name, transform=family)
        if family not in FAMILIES:
            raise InputError(unknown_family(family, label))
        if family in (BERNOULLI, CATEGORICAL):
            return Column(name, family, _found_levels(family, cells, label))
        return Column(name, family)
    if isinstance(family, Sequence | np.ndarray):
        return Column(name, CATEGORICAL, _checked_levels(list(family), label))
    raise InputTypeError(unknown_family(family, label))


# -- levels -----------------------------------------------------------------------------------


def _found_levels(family: str, cells: Cells, label: str) -> tuple[Level, ...]:
    """All levels of a column: those of its type, or those that occur."""
    if cells.labels is None:
        found = np.unique(cells.values[~cells.missing()]).tolist()
        if cells.are_bools:
            found = [bool(value) for value in found]
        if set(found) <= {0, 1} and family == BERNOULLI:
            return (False, True) if cells.are_bools else (0, 1)
    else:
        found = list(cells.labels)
    levels = _checked_levels(found, label, len(found))
    if cells.order != "ordered":
        levels = tuple(sorted(levels))
    if family == BERNOULLI and len(levels) != 2:
        raise _not_two(levels, cells, label)
    return levels


def _checked_levels(found: list[Any], label: str, n_found: int | None = None) -> tuple[Level, ...]:
    """Levels as strings, integers or bools; at least two, all different."""
    levels = [plain_level(level) for level in found]
    if not (all(map(is_text, levels)) or all(map(is_whole, levels))):
        odd = next((x for x in levels if not (is_text(x) or is_whole(x))), levels)
        raise InputError(
            f"levels must be strings, integers or bools, all of one kind; {label} has {odd!a}. "
            "Round the column or write its levels as text; or take it as 'gaussian'."
        )
    if len(levels) > MOST_LEVELS:
        raise InputError(
            f"{label} has {len(levels)} levels; a categorical column may have {MOST_LEVELS}. "
            "Leave it out if it names the rows, or join levels."
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
