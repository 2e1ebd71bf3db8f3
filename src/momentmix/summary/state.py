"""The state of a summary, and its replacement by an update.

All that a summary holds is one value, `State`: the sums of closed shards, which never change, and
perhaps an open shard. `with_rows` adds checked rows to the open shard or to a new one, and returns
the next state; on an error the state is as it was.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float
from momentmix.arrays import is_tensor, namespace, on_device_of, take, to_numpy
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.parallel import usable_cores
from momentmix.summary.blocks import OpenShard
from momentmix.summary.device import add_device_rows
from momentmix.summary.layout import Layout
from momentmix.summary.totals import Totals
from momentmix.tables.formats.memory import as_device_rows, as_rows
from momentmix.tables.rows import Features
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.tables.validation import as_weights, check_values, ordered_weights

Names = tuple[str, ...] | None


def shard_digest(shard_id: object) -> bytes:
    """16 bytes for a caller's shard id, random ones for None."""
    if shard_id is None:
        return secrets.token_bytes(16)
    if isinstance(shard_id, str):
        shard_id = shard_id.encode("utf-8", "surrogatepass")
    if not isinstance(shard_id, bytes):
        raise InputTypeError(f"shard_id must be a string or bytes; got {shard_id!r}.")
    return hashlib.sha256(b"momentmix shard\0" + shard_id).digest()[:16]


class State(NamedTuple):
    """The state of a summary: closed shards, the open shard, the id of the next, names."""

    closed: Totals
    open: OpenShard | None = None
    next_id: bytes | None = None
    names: Names = None  # that the rows bring

    @property
    def shards(self) -> frozenset[bytes]:
        """Ids of all shards."""
        own = () if self.open is None else (self.open.shard_id,)
        return frozenset((*self.closed.shards, *own))

    @property
    def layout(self) -> Layout:
        """The features that the next rows become."""
        return self.closed.layout if self.open is None else self.open.layout

    @property
    def row_schema(self) -> Schema | None:
        """Schema of the next rows; None if their columns are the features."""
        return row_schema_of(self.closed) if self.open is None else self.open.schema

    @property
    def schema(self) -> Schema | None:
        """Schema of all rows."""
        before, now = row_schema_of(self.closed), self.row_schema
        if self.open is None or not self.closed.shards or before is now is None:
            return now
        n_columns = self.layout.n_features
        return joined(before or plain_schema(n_columns), now or plain_schema(n_columns))

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        return self.closed.n_rows + (0 if self.open is None else self.open.n_all)


def checked_rows(
    rows: Any, sample_weight: ArrayLike | None, state: State
) -> tuple[NDArray[Any], Float | None, Names]:
    """NumPy rows, their weights and the names that they bring, checked."""
    sample_weight = ordered_weights(sample_weight, rows)
    if state.row_schema is not None:
        features = _features(rows, state.row_schema)
        return features, as_weights(sample_weight, len(features)), None
    array, names = as_rows(rows, state.layout.n_features, state.names)
    if names is not None and state.names is None and state.n_rows:
        raise InputError(
            "rows have feature names but the summary was filled without any; pass "
            "feature_names at construction, or plain arrays throughout."
        )
    weights = as_weights(sample_weight, len(array))
    check_values(array, names or state.names)
    return array, weights, names


def _features(rows: Any, schema: Schema) -> Float:
    if not isinstance(rows, Features):
        return schema.encode(rows)
    if rows.schema != schema:
        raise InputError("rows were encoded by another schema; pass them as they are.")
    return rows.values


class NewRows(NamedTuple):
    """Checked rows of one update, without rows of weight 0."""

    rows: Any  # an array or a tensor
    weights: Float | None
    names: Names = None


def checked_update(rows: Any, sample_weight: Any, state: State) -> NewRows:
    """The rows of an update."""
    if is_tensor(sample_weight):
        sample_weight = to_numpy(sample_weight)
    if not is_tensor(rows) or state.row_schema is not None:
        array, weights, names = checked_rows(rows, sample_weight, state)
        if weights is not None and not weights.all():
            array, weights = array[weights > 0], weights[weights > 0]
        return NewRows(array, weights, names)
    rows = as_device_rows(rows, state.layout.n_features)
    weights = as_weights(sample_weight, rows.shape[0])
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        rows = take(rows, on_device_of(kept, rows, namespace(rows)), axis=0)
        weights = weights[kept]
    return NewRows(rows, weights)


def threads_for(shard: OpenShard, n_rows: int, n_threads: int | None) -> int:
    """Threads that so many more rows are worth: one for each block, by default up to the cores."""
    n_blocks = (shard.n_waiting + n_rows) // shard.block_size
    return 1 if n_blocks < 2 else min(n_threads or usable_cores(), n_blocks)


def with_rows(
    state: State, update: NewRows, shard_id: bytes | None, n_threads: int | None
) -> State:
    """The state after an update; `shard_id` is that of the shard to open, unless one is open."""
    closed, shard, next_id, names = state
    rows, weights, _ = update
    if shard is None:
        digest = shard_id or next_id or shard_digest(None)
        if digest in closed.shards:
            raise ShardError(
                f"shard {digest.hex()} is already in this summary and closed; a closed shard "
                "takes no more rows. Use another shard_id, or none for a random one.",
                shard_ids=(digest.hex(),),
            )
        shard = OpenShard(closed.layout, digest, row_schema_of(closed))
    else:
        shard = shard.clone()
    names = names if update.names is None else tuple(update.names)
    n_threads = threads_for(shard, len(rows), n_threads)
    if is_tensor(rows):
        labels = names if shard.schema is None else shard.schema.feature_names
        add_device_rows(shard, rows, weights, n_threads, labels)
    else:
        shard.update(rows, weights, n_threads)
    return State(closed, shard, None, names)


def row_schema_of(closed: Totals) -> Schema | None:
    """Schema of the next rows, with centers near the means of the rows so far."""
    return closed.reading.schema
