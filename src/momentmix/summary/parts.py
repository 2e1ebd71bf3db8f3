"""One pass over rows of files: one shard for each file, whose id follows from file and sums."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from momentmix.errors import InputError, ShardError
from momentmix.summary.summary import MomentSummary, named_by_contents
from momentmix.tables.rows import Rows
from momentmix.tables.selection import column_keys
from momentmix.tables.source import counted_twice
from momentmix.tables.table_rows import TableRows

NewShard = Callable[..., MomentSummary]  # of shard_id, optional: an empty summary


def shards_of(rows: Rows, order: int, **options: Any) -> NewShard:
    """Return what makes empty summaries of such rows, with the same settings for every shard."""
    names = None if rows.schema else rows.feature_names
    fixed = {"feature_names": names, "schema": rows.schema, **options}
    return partial(MomentSummary, rows.n_features, order, **fixed)


def place_id(rows: TableRows, table: int, first_row: int, others: Sequence[int] = ()) -> str:
    """Return the name of the shard that starts at a row, as far as it is known before reading."""
    source = rows.sources[table]
    columns = column_keys(source, [*rows.columns[table], *others])
    return json.dumps([source.mark, columns, rows.policy, first_row])


def summarize_parts(rows: TableRows, new_shard: NewShard) -> MomentSummary:
    """The sum of all tables; `rows.n_dropped` counts the rows that were left out."""
    total, n_dropped = new_shard(), 0
    for table, source in enumerate(rows.sources):
        part = new_shard()
        for block in rows.source_blocks(table):
            if len(block.features):
                part.update(rows.summand(block.features))
            n_dropped += block.n_read - len(block.features)
        try:
            total = total + named_by_contents(part, source.mark)
        except ShardError as error:
            raise InputError(counted_twice(source.name)) from error
    rows.n_dropped = n_dropped
    return total
