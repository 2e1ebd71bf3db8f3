"""The state of a summary, and its replacement by an update.

All that a summary holds is one value, `State`: the sums of closed shards and perhaps an open shard.
Neither is ever changed: `with_rows` returns the next state.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import is_tensor, namespace, on_device_of, take, to_numpy
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.summary.blocks import OpenShard
from momentmix.summary.layout import Layout
from momentmix.summary.totals import Totals
from momentmix.tables.formats.memory import as_device_rows, as_rows
from momentmix.tables.rows import Features
from momentmix.tables.schema import Schema
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
    """The state of a summary: closed shards, the open shard, the id of the next."""

    closed: Totals
    open: OpenShard | None = None
    next_id: bytes | None = None

    @property
    def shards(self) -> set[bytes]:
        """Ids of all shards."""
        return {*self.closed.shards, *([] if self.open is None else [self.open.shard_id])}

    @property
    def layout(self) -> Layout:
        """The features that the next rows become."""
        return self.closed.layout if self.open is None else self.open.layout

    @property
    def row_schema(self) -> Schema | None:
        """Schema of the next rows, with centers near the means of the rows so far."""
        return self.closed.reading.schema if self.open is None else self.open.schema

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        return self.closed.n_rows + (0 if self.open is None else self.open.n_all)


class NewRows(NamedTuple):
    """Checked rows, an array or a tensor, without those of weight 0."""

    rows: Any
    weights: Float | None
    names: Names  # of columns, that the rows bring


def checked_rows(rows: Any, sample_weight: Any, state: State) -> NewRows:
    """Rows to be added, their weights and their names; values are checked when they are summed."""
    schema, names = state.row_schema, None
    if is_tensor(sample_weight):
        sample_weight = to_numpy(sample_weight)
    sample_weight = ordered_weights(sample_weight, rows)
    if schema is not None:
        if isinstance(rows, Features) and rows.schema != schema:
            raise InputError("rows were encoded by another schema; pass them as they are.")
        rows = rows.values if isinstance(rows, Features) else schema.encode(rows)
    elif is_tensor(rows):
        rows = as_device_rows(rows, state.layout.n_features)
    else:
        rows, names = as_rows(rows, state.layout.n_features, state.closed.names)
        if names is not None and state.closed.names is None and state.n_rows:
            raise InputError(
                "rows have feature names but the summary was filled without any; pass "
                "feature_names at construction, or plain arrays throughout."
            )
    weights = as_weights(sample_weight, rows.shape[0])
    if weights is not None and not weights.all():
        if not is_tensor(rows):  # others are checked when they are summed
            check_values(rows, names or state.closed.names)
        some = np.flatnonzero(weights)
        rows, weights = take(rows, on_device_of(some, rows, namespace(rows)), 0), weights[some]
    return NewRows(rows, weights, None if names is None else tuple(names))


def with_rows(state: State, new: NewRows, shard_id: bytes | None, n_threads: int | None) -> State:
    """The state after an update; `shard_id` is that of the shard to open, unless one is open."""
    closed, shard, next_id = state
    if shard is None:
        digest = shard_id or next_id or shard_digest(None)
        if digest in closed.shards:
            raise ShardError(
                f"shard {digest.hex()} is already in this summary and closed; a closed shard "
                "takes no more rows. Use another shard_id, or none for a random one.",
                shard_ids=(digest.hex(),),
            )
        shard = OpenShard(closed.layout, digest, state.row_schema)
    else:
        shard = shard.clone()
    if new.names is not None:
        closed = replace(closed, names=new.names)
    names = closed.names if shard.schema is None else shard.schema.feature_names
    if is_tensor(new.rows):
        from momentmix.summary.gpu import add_device_rows  # Triton is slow to import

        add_device_rows(shard, new.rows, new.weights, n_threads, names)
    else:
        shard.update(new.rows, new.weights, n_threads, names)
    return State(closed, shard)
