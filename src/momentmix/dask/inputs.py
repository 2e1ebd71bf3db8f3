"""What the front door accepts → parts that tasks can read, without looking at a row."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed
from distributed import Future

from momentmix.dask.parts import FilePart, HeldPart, Part, Reading, piece_of, stamp_of
from momentmix.dask.schedule import Schedule
from momentmix.errors import InputError, InputTypeError
from momentmix.rows.columns import column_keys
from momentmix.rows.opening import open_rows
from momentmix.rows.source import Missing
from momentmix.rows.tables import is_frame
from momentmix.summary.parts import PART_ROWS
from momentmix.summary.summary import MomentSummary

__all__ = ["Partitions", "partitions_of", "whole_rows"]

_ACCEPTED = (
    "a dask.array of two dimensions, a dask.dataframe, a path, folder, glob or list of paths, or a "
    "list of Delayed or Future objects that each hold a block of rows"
)


@dataclass(frozen=True)
class Partitions:
    """Parts with their blocks, and the columns that are taken of each."""

    parts: list[tuple[Part, Any]]
    n_features: int
    feature_names: tuple[str, ...] | None


def partitions_of(
    data: Any,
    columns: Sequence[str | int] | None,
    missing: Missing,
    shard_id: str | None,
    schedule: Schedule,
) -> Partitions:
    """Parts of anything that is accepted.

    Parameters
    ----------
    data : object
        See `momentmix.dask.summarize`.
    columns : sequence of str or int, or None
    missing : {"error", "drop"}
    shard_id : str or None
        Stem of the shard ids; None for the collection's own name.
    schedule : Schedule
        Tells the columns of blocks that say nothing of themselves.
    """
    if isinstance(data, str | os.PathLike) or _all(data, str | os.PathLike):
        if shard_id is not None:
            raise InputError(
                "shard_id= is for Dask collections; the shards of files are named after their "
                "contents. Leave it out."
            )
        return _of_files(data, columns, missing)
    if isinstance(data, da.Array):
        data = whole_rows(data)
        sample: Any = np.empty((1, data.shape[1]), dtype=data.dtype)
        blocks = data.to_delayed().ravel().tolist()
    elif isinstance(data, dd.DataFrame):
        sample, blocks = data._meta, data.to_delayed()
    elif _all(data, Delayed | Future):
        blocks = list(data)
        _check_different([str(block.key) for block in blocks])
        sample = schedule.reduce(sample_of, first_of, None, [(None, blocks[0])], "Columns")
    else:
        raise InputTypeError(_refusal(data))
    if shard_id is None and isinstance(data, list | tuple):
        ids = [str(block.key) for block in blocks]
    else:
        stem = dask.base.tokenize(data) if shard_id is None else shard_id
        ids = [f"{stem}/{i}" for i in range(len(blocks))]
    return _held(list(zip(ids, blocks, strict=True)), sample, columns, missing)


def _all(data: Any, kind: Any) -> bool:
    listed = isinstance(data, list | tuple) and len(data) > 0
    return listed and all(isinstance(one, kind) for one in data)


def _check_different(keys: list[str]) -> None:
    key, times = Counter(keys).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"every block must be given once; the list holds {key!a} {times} times, whose rows "
            "would count as often. Leave the others out."
        )


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


def sample_of(part: None, shared: None, block: Any) -> Any:
    """The columns of a block, without its rows."""
    if not is_frame(block):
        array = np.asarray(block)
        return np.empty((1, *array.shape[1:]), dtype=array.dtype)
    return block[:0] if hasattr(block, "to_numpy") else block.slice(0, 0)


def first_of(samples: list[Any]) -> Any:
    """The one there is."""
    return samples[0]


def _held(
    blocks: list[tuple[str, Any]],
    sample: Any,
    columns: Sequence[str | int] | None,
    missing: Missing,
) -> Partitions:
    piece = piece_of(sample, "the collection")
    source = open_rows(piece, columns, missing)  # refuses columns that are not there, or no numbers
    chosen = tuple(column_keys(piece, source.columns[0]))  # partitions may be in another order
    reading = Reading(piece.column_names, piece.n_columns, chosen, missing)
    parts: list[tuple[Part, Any]] = [
        (HeldPart(i, shard_id, reading), block) for i, (shard_id, block) in enumerate(blocks)
    ]
    return Partitions(parts, source.n_features, source.feature_names)


def _of_files(data: Any, columns: Sequence[str | int] | None, missing: Missing) -> Partitions:
    for path in [data] if isinstance(data, str | os.PathLike) else data:
        if "://" in os.fspath(path):
            raise InputError(
                f"paths must be files that every worker sees; got {os.fspath(path)!a}. Pass "
                "dask.dataframe.read_parquet(...) for remote storage."
            )
    source = open_rows(data, columns, missing)
    parts: list[tuple[Part, Any]] = []
    for number, (piece, numbers) in enumerate(zip(source.pieces, source.columns, strict=True)):
        starts = [0] if not piece.n_rows else range(0, piece.n_rows, PART_ROWS)
        for start in starts:
            part = FilePart(
                len(parts), number, os.path.abspath(piece.name), stamp_of(piece), start,
                piece.n_rows is None, tuple(numbers), missing,
            )  # fmt: skip
            parts.append((part, None))
    return Partitions(parts, source.n_features, source.feature_names)


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
