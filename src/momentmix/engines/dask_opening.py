"""Collections, paths and lists of blocks → `DaskRows`, without looking at a row."""

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

from momentmix.engines.dask_rows import (
    CollectionPartition,
    DaskPartition,
    DaskRows,
    FilePartition,
    named,
)
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import InputError, InputTypeError, without_secrets
from momentmix.summary.parts import PART_ROWS
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable, is_frame
from momentmix.tables.learning import Families, rows_with
from momentmix.tables.opening import Reading, path_list, warn_of_header
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, keeps_gaps

_ACCEPTED = (
    "a dask.array of two dimensions, a dask.dataframe, a path, folder, glob or list of paths, or a "
    "list of Delayed or Future objects that each hold a block of rows"
)


def open_collection(
    data: Any,
    schedule: Schedule,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    shard_id: str | None = None,
) -> DaskRows:
    """Open `data` of any kind that `momentmix.dask.summarize` accepts, with its keywords."""
    is_learned = families is not None or keeps_gaps(missing)
    if paths := path_list(data):
        if is_learned:
            raise InputError(
                f"families and missing={missing!r} need a collection; got paths. Pass "
                "dask.dataframe.read_parquet(...) or read_csv(...) of them."
            )
        if shard_id is not None:
            raise InputError(
                "shard_id= is for Dask collections; the shards of files are named after their "
                "contents. Leave it out."
            )
        return _open_files(paths, columns, missing, schedule)
    blocks, example = blocks_of(data, schedule)
    with named("the collection"):
        table = MemoryTable(example, "the collection")
        like = Reading(columns=columns).open([table], missing)
    if shard_id is None and isinstance(data, list | tuple):
        ids = [str(block.key) for block in blocks]
    else:
        stem = dask.base.tokenize(data) if shard_id is None else shard_id
        ids = [f"{stem}/{i}" for i in range(len(blocks))]
    partitions: list[tuple[DaskPartition, Any]] = [
        (CollectionPartition(i, name, like, families), block)
        for i, (name, block) in enumerate(zip(ids, blocks, strict=True))
    ]
    if isinstance(families, Schema):
        return DaskRows(partitions, rows_with(families, like), schedule)
    return DaskRows(partitions, None if is_learned else like.check_numeric(), schedule)


def open_at_random(
    data: Any, schedule: Schedule, columns: Sequence[str | int] | None, families: Families
) -> DaskRows:
    """Open rows whose cells are missing at random; a pass finds levels and gaps."""
    schema = open_collection(data, schedule, columns, "model", families).summary(1, 0).schema
    if schema is None:
        return open_collection(data, schedule, columns)
    rows = open_collection(data, schedule, columns, "model", schema)
    rows.schema = schema.at_random()
    return rows


def blocks_of(data: Any, schedule: Schedule) -> tuple[list[Any], Any]:
    """Return the lazy blocks of a collection, and an array or frame with its columns."""
    if isinstance(data, da.Array):
        data = whole_rows(data)
        blocks = data.to_delayed().ravel().tolist()
        return blocks, np.zeros((1, data.shape[1]), dtype=data.dtype)
    if isinstance(data, dd.DataFrame):
        return data.to_delayed(), data._meta
    is_list = isinstance(data, list | tuple) and len(data) > 0
    if not is_list or not all(isinstance(block, Delayed | Future) for block in data):
        raise InputTypeError(_refusal(data))
    key, times = Counter(str(block.key) for block in data).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"every block must be given once; the list holds {key!a} {times} times, whose rows "
            "would count as often. Leave the others out."
        )
    (example,) = schedule.reduce(_example, list, None, [(None, data[0])], "Columns")
    return list(data), example


def whole_rows(array: Any) -> Any:
    """Return a dask.array of two dimensions whose blocks hold whole rows."""
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


def _example(partition: None, shared: None, block: Any) -> Any:
    """Return the columns of a block, without its rows; runs on a worker."""
    if not is_frame(block):
        array = np.asarray(block)
        return np.zeros((1, *array.shape[1:]), dtype=array.dtype)
    return block[:0] if hasattr(block, "to_numpy") else block.slice(0, 0)


def _open_files(
    paths: list[str], columns: Sequence[str | int] | None, missing: Missing, schedule: Schedule
) -> DaskRows:
    for path in paths:
        if "://" in path:
            raise InputError(
                f"paths must be files that every worker sees; got {without_secrets(path)!a}. Pass "
                "dask.dataframe.read_parquet(...) for remote storage."
            )
    rows = Reading(columns=columns).open(paths, missing).check_numeric()
    warn_of_header(rows.sources, None)
    partitions: list[tuple[DaskPartition, Any]] = []
    for file, (source, numbers) in enumerate(zip(rows.sources, rows.columns, strict=True)):
        starts = range(0, source.n_rows, PART_ROWS) if source.n_rows else [0]
        for start in starts:
            stop = math.inf if source.n_rows is None else start + PART_ROWS
            partition = FilePartition(
                len(partitions), file, os.path.abspath(source.name), source.stamp(), numbers,
                missing, source.column_names is not None, start, stop,
            )  # fmt: skip
            partitions.append((partition, None))
    return DaskRows(partitions, rows, schedule)


def _refusal(data: Any) -> str:
    if isinstance(data, MomentSummary):
        return "a MomentSummary needs no cluster any more; pass it to momentmix.fit."
    kind, cure = type(data).__name__, "Rows in this process go to momentmix.summarize and fit."
    if isinstance(data, Future | Delayed):
        kind = f"one {'Future' if isinstance(data, Future) else 'Delayed'} object"
        cure = "Put it in a list if it holds one block of rows; a collection goes by itself."
    return f"rows must be {_ACCEPTED}; got {kind}. {cure}"
