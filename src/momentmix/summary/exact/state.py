"""The state of a summary, a value, and its replacement by an update."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix._typing import Float
from momentmix.arrays import is_foreign, namespace, on_device_of, to_numpy
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.summary.exact.combining import Names
from momentmix.summary.exact.device_shard import add_device_rows
from momentmix.summary.exact.open_shard import OpenShard
from momentmix.summary.exact.totals import Totals
from momentmix.tables.formats.memory import as_device_rows, as_rows
from momentmix.tables.rows import Features
from momentmix.tables.validation import as_weights, check_values


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
    open: OpenShard | None = None  # its rows have the columns of the closed ones
    next_id: bytes | None = None
    names: Names = None  # that the rows bring

    @property
    def n_rows(self) -> int:
        """Number of rows, zero weights not counted."""
        return self.closed.n_rows + (0 if self.open is None else self.open.n_all)


def checked_rows(
    rows: Any, sample_weight: ArrayLike | None, state: State
) -> tuple[NDArray[Any], Float | None, Names]:
    """NumPy rows, their weights and the names that they bring, checked."""
    schema = state.closed.schema
    if schema is not None:
        if not isinstance(rows, Features):
            rows = Features(schema, schema.encode(rows))
        if rows.schema != schema:
            raise InputError("rows were encoded by another schema; pass them as they are.")
        return rows.values, as_weights(sample_weight, len(rows.values)), None
    array, names = as_rows(rows, state.closed.layout.n_features, state.names)
    if names is not None and state.names is None and state.n_rows:
        raise InputError(
            "rows have feature names but the summary was filled without any; pass "
            "feature_names at construction, or plain arrays throughout."
        )
    weights = as_weights(sample_weight, len(array))
    check_values(array, names or state.names)
    return array, weights, names


def checked_update(rows: Any, sample_weight: Any, state: State) -> tuple[Any, Float | None, Names]:
    """As `checked_rows`, of whatever library, without rows of weight 0."""
    if is_foreign(sample_weight):
        sample_weight = to_numpy(sample_weight)
    if not is_foreign(rows) or state.closed.schema is not None:
        array, weights, names = checked_rows(rows, sample_weight, state)
        if weights is not None and not weights.all():
            array, weights = array[weights > 0], weights[weights > 0]
        return array, weights, names
    rows = as_device_rows(rows, state.closed.layout.n_features)
    weights = as_weights(sample_weight, rows.shape[0])
    if weights is not None and not weights.all():
        xp, kept = namespace(rows), np.flatnonzero(weights)
        rows, weights = xp.take(rows, on_device_of(kept, rows, xp), axis=0), weights[kept]
    return rows, weights, None


def with_rows(
    state: State,
    rows: Any,
    weights: Float | None,
    names: Names,
    shard_id: bytes | None,
    n_threads: int | None,
) -> State:
    """The state after an update; `shard_id` is that of the shard to open, unless one is open.

    On an error the present state is as it was.
    """
    closed, shard, n_rows = state.closed, state.open, rows.shape[0]
    if shard is None:
        digest = shard_id or state.next_id or shard_digest(None)
        if digest in closed.shards:
            raise ShardError(
                f"shard {digest.hex()} is already in this summary and closed; a closed shard "
                "takes no more rows. Use another shard_id, or none for a random one.",
                shard_ids=(digest.hex(),),
            )
        shard = OpenShard(closed.layout, digest, closed.schema)
    elif shard.n_waiting + n_rows >= shard.block_size:  # completes a block
        shard = shard.clone()
    names = state.names if names is None else tuple(names)
    add = add_device_rows if is_foreign(rows) else OpenShard.update
    add(shard, rows, weights, n_threads, names)
    return State(closed, shard, None, names)
