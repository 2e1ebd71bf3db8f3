"""Files and queries with the columns of a mixture, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.rows.names import match_names, names_for
from momentmix.rows.opening import can_open, open_rows
from momentmix.rows.source import RowSource
from momentmix.schema.encoding import Unseen
from momentmix.schema.schema import Schema
from momentmix.schema.sources import coded_by


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
    if source.missing == "error":
        source = source.with_missing("model")
    source = _in_columns_of(source, schema)
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


def _in_columns_of(source: RowSource, schema: Schema) -> RowSource:
    """The source with the columns of a schema, in their order."""
    if schema.column_names is not None and source.feature_names is not None:
        names = schema.column_names
        return source.selected(match_names(names, source.feature_names, "the mixture", others=True))
    if source.n_features != schema.n_columns:
        raise InputError(
            f"the mixture has {schema.n_columns} columns, {source.tables[0].name} has "
            f"{source.n_features}. Select them: open_rows(path, columns=[...])."
        )
    numbers = names_for(None, source.feature_names)  # warns where names cannot be compared
    if numbers is None or source.feature_names is None:
        return source
    return source.selected([source.feature_names.index(name) for name in numbers])
