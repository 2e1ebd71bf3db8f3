"""What `summarize` and `fit` accept → `DaskRows`, without looking at a row."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed
from distributed import Future

from momentmix.dask.partitions import (
    CollectionPartition,
    FilePartition,
    Partition,
    named_table,
)
from momentmix.dask.rows import DaskRows
from momentmix.dask.schedule import Schedule
from momentmix.errors import InputError, InputTypeError, without_secrets
from momentmix.rows.columns import column_keys
from momentmix.rows.containers import is_frame
from momentmix.rows.header import warn_of_header
from momentmix.tables.opening import open_rows, path_list
from momentmix.rows.source import Missing
from momentmix.summary.parts import PART_ROWS
from momentmix.summary.summary import MomentSummary

_ACCEPTED = (
    "a dask.array of two dimensions, a dask.dataframe, a path, folder, glob or list of paths, or a "
    "list of Delayed or Future objects that each hold a block of rows"
)


def open_collection(
    data: Any,
    columns: Sequence[str | int] | None,
    missing: Missing,
    shard_id: str | None,
    schedule: Schedule,
) -> DaskRows:
    """Rows of anything that is accepted.

    Parameters
    ----------
    data : object
        See `momentmix.dask.summarize`.
    columns : sequence of str or int, or None
    missing : {"error", "drop"}
    shard_id : str or None
        Stem of the shard ids; None for the collection's own name.
    schedule : Schedule
    """
    paths = path_list(data)
    if paths:
        if shard_id is not None:
            raise InputError(
                "shard_id= is for Dask collections; the shards of files are named after their "
                "contents. Leave it out."
            )
        return _open_files(paths, columns, missing, schedule)
    blocks, example = blocks_of(data, schedule)
    ids = shard_ids(data, blocks, shard_id)
    table = named_table(example, "the collection")
    # Refuses columns that are not there, or no numbers.
    source = open_rows(table, columns, missing).check_numeric()
    chosen = tuple(column_keys(table, source.columns[0]))  # partitions may be in another order
    same = table.column_names, table.n_columns, chosen, missing
    partitions: list[tuple[Partition, Any]] = [
        (CollectionPartition(i, name, *same), block)
        for i, (name, block) in enumerate(zip(ids, blocks, strict=True))
    ]
    return DaskRows(partitions, source.n_features, source.feature_names, schedule)


def shard_ids(data: Any, blocks: list[Any], shard_id: str | None) -> list[str]:
    """Names of the shards that partitions become."""
    if shard_id is None and isinstance(data, list | tuple):
        return [str(block.key) for block in blocks]
    stem = dask.base.tokenize(data) if shard_id is None else shard_id
    return [f"{stem}/{i}" for i in range(len(blocks))]


def blocks_of(data: Any, schedule: Schedule) -> tuple[list[Any], Any]:
    """The lazy blocks of a collection, and an array or frame with its columns."""
    if isinstance(data, da.Array):
        data = whole_rows(data)
        blocks = data.to_delayed().ravel().tolist()
        return blocks, np.empty((1, data.shape[1]), dtype=data.dtype)
    if isinstance(data, dd.DataFrame):
        return data.to_delayed(), data._meta
    if not isinstance(data, list | tuple) or not data:
        raise InputTypeError(_refusal(data))
    if not all(isinstance(block, Delayed | Future) for block in data):
        raise InputTypeError(_refusal(data))
    key, times = Counter(str(block.key) for block in data).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"every block must be given once; the list holds {key!a} {times} times, whose rows "
            "would count as often. Leave the others out."
        )
    example = schedule.reduce(example_of, first_of, None, [(None, data[0])], "Columns")
    return list(data), example


def whole_rows(array: Any) -> Any:
    """A dask.array of two dimensions whose blocks hold whole rows."""
    if array.ndim != 2:
        raise InputError(
            f"rows must have shape (n_rows, n_features); the dask.array has {array.ndim} "
            f"dimension(s), shape {array.shape}. Reshape it to a table."
        )
    if math.isnan(array.shape[1]):
        raise InputError(
            "the number of columns must be known; the dask.array has shape "
            f"{array.shape}. Call compute_chunk_sizes() on it, or pass a dask.dataframe."
        )
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


def example_of(partition: None, shared: None, block: Any) -> Any:
    """The columns of a block, without its rows; runs on a worker."""
    if not is_frame(block):
        array = np.asarray(block)
        return np.empty((1, *array.shape[1:]), dtype=array.dtype)
    return block[:0] if hasattr(block, "to_numpy") else block.slice(0, 0)


def first_of(examples: list[Any]) -> Any:
    """The only entry."""
    return examples[0]


def _open_files(
    paths: list[str], columns: Sequence[str | int] | None, missing: Missing, schedule: Schedule
) -> DaskRows:
    for path in paths:
        if "://" in path:
            raise InputError(
                f"paths must be files that every worker sees; got {without_secrets(path)!a}. Pass "
                "dask.dataframe.read_parquet(...) for remote storage."
            )
    source = open_rows(paths, columns, missing).check_numeric()
    warn_of_header(source.tables, None)
    partitions: list[tuple[Partition, Any]] = []
    for file, (table, numbers) in enumerate(zip(source.tables, source.columns, strict=True)):
        starts = range(0, table.n_rows, PART_ROWS) if table.n_rows else [0]
        for start in starts:
            partition = FilePartition(
                len(partitions), file, os.path.abspath(table.name), table.stamp(), start,
                table.n_rows is None, tuple(numbers), missing,
                table.column_names is not None,
            )  # fmt: skip
            partitions.append((partition, None))
    return DaskRows(partitions, source.n_features, source.feature_names, schedule)


def _refusal(data: Any) -> str:
    if isinstance(data, Future | Delayed):
        kind = "Future" if isinstance(data, Future) else "Delayed"
        return (
            f"rows must be {_ACCEPTED}; got one {kind} object. Put it in a list if it holds one "
            "block of rows; if it holds a collection, pass that."
        )
    if isinstance(data, MomentSummary):
        return "a MomentSummary needs no cluster any more; pass it to momentmix.fit."
    return (
        f"rows must be {_ACCEPTED}; got {type(data).__name__}. Rows in this process go to "
        "momentmix.summarize and momentmix.fit."
    )
