"""One shard that is filled on its own and packed: for thousands of small ones at a time.

The bytes are those of a `MomentSummary` that takes the same rows. An error leaves the shard
unusable, and nobody else reads it meanwhile; that saves the copies which a summary makes.
"""

from __future__ import annotations

from dataclasses import replace

from momentmix._typing import Float
from momentmix.parallel import usable_cores
from momentmix.summary.file import pack
from momentmix.summary.shard.accumulator import State, new_shard, shard_digest


class SingleShard:
    """A shard to fill.

    Parameters
    ----------
    empty : State
        Of an empty summary: the features, their names and their schema.
    shard_id : str
    n_threads : int, optional
        By default as many as cores.
    """

    def __init__(self, empty: State, shard_id: str, n_threads: int | None = None) -> None:
        self.names, self.n_threads = empty.names, n_threads
        self.shard = new_shard(empty, shard_digest(shard_id))

    def update(self, features: Float) -> None:
        """Add rows that are encoded and checked."""
        shard = self.shard
        n_blocks = (shard.n_waiting + len(features)) // shard.block_size
        n_threads = max(1, min(self.n_threads or usable_cores(), n_blocks)) if n_blocks > 1 else 1
        labels = self.names if shard.schema is None else shard.schema.feature_names
        shard.update(features, None, n_threads, labels)

    def close(self, shard_id: str) -> tuple[bytes, str]:
        """The summary under this id as bytes, and its `shard_ids`; it takes no more rows."""
        digest = shard_digest(shard_id)
        totals = replace(self.shard.close(), shards=frozenset([digest]))
        return pack(totals, self.names), digest.hex()
