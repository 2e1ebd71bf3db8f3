"""Rows as features, for what reads them more than once: of arrays, files and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from momentmix._typing import Array, Float, Int
from momentmix.errors import InputError
from momentmix.rows.protocol import ArrayRows, Rows
from momentmix.rows.source import RowSource
from momentmix.schema.building import (
    LOOKED_AT,
    MOST_LEVELS,
    EncodedTable,
    Families,
    Missing,
    by_number,
    schema_of_cells,
)
from momentmix.schema.cells import Cells, CellTable
from momentmix.schema.column import BERNOULLI, CATEGORICAL, GAUSSIAN
from momentmix.schema.schema import Schema


class EncodedArray(ArrayRows):
    """Features in memory, which know their schema."""

    def __init__(self, features: Float, schema: Schema, block_size: int = 16384) -> None:
        super().__init__(features, block_size, schema.feature_names)
        self.schema = schema

    def summarize_into(self, summary: Any) -> Any:
        """Add all rows to a summary that has the schema."""
        return summary.update(EncodedTable(self.schema, self.rows))

    def without(self, places: Int) -> EncodedArray:
        """All rows but those with these numbers."""
        return EncodedArray(np.delete(self.rows, places, axis=0), self.schema, self.block_size)


class EncodedRows(Rows):
    """Rows of numbers, NaN where a cell is missing, that become features block by block.

    Parameters
    ----------
    rows : Rows
        What gives the numbers, by file or cluster.
    schema : Schema
    """

    def __init__(self, rows: Rows, schema: Schema) -> None:
        self.rows, self.schema = rows, schema
        self.feature_names, self.is_remote = schema.feature_names, rows.is_remote

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.schema.n_features

    @property
    def expected_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        return self.rows.expected_rows

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of features."""
        return map(self.schema.encode, self.rows.blocks())

    def summarize_into(self, summary: Any) -> Any:
        """Add all rows to a summary that has the schema."""
        for features in self.blocks():
            summary.update(EncodedTable(self.schema, features))
        if not summary.n_rows:
            raise InputError("rows must hold at least one row; the source gave none.")
        return summary

    def without(self, places: Int) -> EncodedRows:
        """All rows but those with these numbers, which ascend."""
        return EncodedRows(self.rows.without(places), self.schema)


def encode_rows(rows: Rows, families: Families = None, missing: Missing = "error") -> Rows:
    """Rows of numbers as features; the rows themselves where the columns are the features.

    Takes a pass, in which levels, missing cells and centers are found, unless `families` is a
    schema.

    Parameters
    ----------
    rows : Rows
    families, missing
        As for `schema_from`. A source of files reads missing cells as `missing` says, whatever it
        was opened with; others must give NaN.

    Examples
    --------
    >>> from momentmix.rows.opening import open_rows
    >>> source = open_rows(np.array([[1.5, 0], [np.nan, 2], [2.5, 1]]))
    >>> encode_rows(source, {1: "poisson"}, "model").feature_names
    ('0', '0 seen', '1')
    """
    if missing not in ("error", "drop", "model"):
        raise InputError(f"missing must be 'error', 'drop' or 'model'; got {missing!r}.")
    if isinstance(rows, RowSource):
        rows = rows.with_missing(missing)
    schema = families if isinstance(families, Schema) else _schema_of(rows, families, missing)
    return rows if schema.is_plain else EncodedRows(rows, schema)


def _schema_of(rows: Rows, families: Families, missing: Missing) -> Schema:
    """The schema of all rows, from a pass."""
    empty = [Cells(np.empty(0))] * rows.n_features
    chosen = by_number(families, CellTable(empty, rows.feature_names))
    columns = [_Met(chosen.get(j, GAUSSIAN)) for j in range(rows.n_features)]
    for block in rows.blocks():
        for j, column in enumerate(columns):
            column.meet(block[:, j])
    table = CellTable([Cells(column.cells()) for column in columns], rows.feature_names)
    return schema_of_cells(table, chosen, missing)


class _Met:
    """Cells that stand for a column: all its levels, or some of its numbers, and a missing one."""

    def __init__(self, family: Any) -> None:
        self.has_levels = isinstance(family, str) and family in (BERNOULLI, CATEGORICAL)
        self.has_missing, self.values = False, np.empty(0)

    def meet(self, numbers: Array) -> None:
        seen = numbers[~np.isnan(numbers)]
        self.has_missing = self.has_missing or len(seen) < len(numbers)
        if self.has_levels and len(self.values) <= MOST_LEVELS:
            self.values = np.union1d(self.values, seen)
        elif not self.has_levels and len(self.values) < LOOKED_AT:
            self.values = np.append(self.values, seen[: LOOKED_AT - len(self.values)])

    def cells(self) -> Float:
        return np.append(self.values, [np.nan] * self.has_missing)
