"""Rows as features, for what reads them more than once: of arrays, files and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.tables.rows import ArrayRows, Rows
from momentmix.schema.building import EncodedTable
from momentmix.tables.schema import Schema


class EncodedArray(ArrayRows):
    """Features in memory, which know their schema."""

    def __init__(self, features: Float, schema: Schema, block_size: int = 16384) -> None:
        super().__init__(features, block_size, schema.feature_names)
        self.schema = schema

    def summand(self, block: Float) -> EncodedTable:
        """Features that know their schema."""
        return EncodedTable(self.schema, block)

    def like(self, rows: Float) -> EncodedArray:
        """Other features of the same schema."""
        return EncodedArray(rows, self.schema, self.block_size)


class EncodedRows(Rows):
    """Rows of numbers, NaN where a cell is missing, that become features block by block.

    Parameters
    ----------
    rows : Rows
        What gives the numbers, by file or cluster; codes of levels where these are text.
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
        return map(self.schema.coded.encode, self.rows.blocks())

    def summand_of(self, values: Float) -> EncodedTable:
        """Features of rows as they are read, which know their schema."""
        return self.summand(self.schema.coded.encode(values))

    def summarize_into(self, summary: Any) -> Any:
        """Add all rows to a summary that has the schema."""
        for features in self.blocks():
            summary.update(self.summand(features))
        if not summary.n_rows:
            raise InputError("rows must hold at least one row; the source gave none.")
        return summary

    def summand(self, block: Float) -> EncodedTable:
        """Features that know their schema."""
        return EncodedTable(self.schema, block)

    def without(self, places: Int) -> EncodedRows:
        """All rows but those with these numbers, which ascend."""
        return EncodedRows(self.rows.without(places), self.schema)


class SchemaOfRows(NamedTuple):
    """Rows whose columns are those of a schema, and notes on other columns."""

    rows: Rows
    schema: Schema
    notes: tuple[str, ...] = ()

    @property
    def encoded(self) -> Rows:
        """The rows as features; the rows themselves where the columns are the features."""
        return self.rows if self.schema.is_plain else EncodedRows(self.rows, self.schema)
