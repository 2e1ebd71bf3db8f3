"""Collections → `DaskRows`, without looking at a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np

from momentmix.engines.dask_rows import DaskPartition, DaskRows, named
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import InputError, InputTypeError
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import Families, rows_with
from momentmix.tables.opening import Reading
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, keeps_gaps


def open_collection(
    data: Any,
    schedule: Schedule,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    shard_id: str | None = None,
) -> DaskRows:
    """Open a collection, with the keywords of `momentmix.dask.summarize`."""
    is_learned = families is not None or keeps_gaps(missing)
    blocks, example = blocks_of(data)
    with named("the collection"):
        table = MemoryTable(example, "the collection")
        like = Reading(columns=columns).open([table], missing)
    stem = dask.base.tokenize(data) if shard_id is None else shard_id
    partitions = [
        (DaskPartition(i, f"{stem}/{i}", like, families), block) for i, block in enumerate(blocks)
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


def blocks_of(data: Any) -> tuple[list[Any], Any]:
    """Return the lazy blocks of a collection, and an array or frame with its columns."""
    if isinstance(data, da.Array):
        data = whole_rows(data)
        blocks = data.to_delayed().ravel().tolist()
        return blocks, np.zeros((1, data.shape[1]), dtype=data.dtype)
    if isinstance(data, dd.DataFrame):
        return data.to_delayed(), data._meta
    if isinstance(data, MomentSummary):
        raise InputTypeError("a MomentSummary needs no cluster; pass it to momentmix.fit.")
    raise InputTypeError(
        f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Files become "
        "one by dask.dataframe.read_parquet(...), blocks by dask.dataframe.from_delayed(...); rows "
        "in this process go to momentmix.summarize and fit."
    )


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
