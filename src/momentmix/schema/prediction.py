"""Files and queries with the columns of a mixture, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.rows.header import warn_of_header
from momentmix.names import names_for
from momentmix.tables.opening import can_open, open_rows
from momentmix.rows.source import RowSource
from momentmix.schema.encoding import Unseen
from momentmix.tables.schema import Schema
from momentmix.schema.sources import coded_by, in_columns_of


def is_read_in_blocks(rows: Any) -> bool:
    """Whether these are files, queries or an open source, not rows in memory."""
    return isinstance(rows, RowSource) or can_open(rows)


def coded_blocks(rows: Any, schema: Schema, unseen: Unseen) -> Iterator[Float]:
    """Blocks of files or queries with the columns of a schema, as `Schema.coded` takes them.

    NaN for missing cells, unless the source was opened to drop their rows. Columns are taken by
    name where both have names, by position otherwise; others are left out.
    """
    source = rows
    if not isinstance(source, RowSource):
        source = open_rows(rows, missing="model", expected=schema.column_names, by_name=True)
        warn_of_header(source.tables, schema.column_names)
    if source.missing == "error":
        source = source.with_missing("model")
    source = in_columns_of(source, schema, "the mixture", "by open_rows(path, columns=[...])")
    if schema.column_names is None:
        source = _by_number(source)
    if not schema.is_plain:
        source = coded_by(source, schema, unseen)
    empty = True
    for table in range(len(source.tables)):
        for _, _, kept in source.numbered_blocks(table):
            if len(kept):
                empty = False
                yield kept
    if empty:
        raise InputError(f"{source.tables[0].name} holds no rows.")


def _by_number(source: RowSource) -> RowSource:
    """Columns of a mixture without names: those that are named 0, 1, 2, … go by these."""
    numbers = names_for(None, source.feature_names)  # warns where names cannot be compared
    if numbers is None or source.feature_names is None:
        return source
    return source.selected([source.feature_names.index(name) for name in numbers])
