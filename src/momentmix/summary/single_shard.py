"""One shard that is filled on its own and packed: for thousands of small ones at a time.

The bytes are those of a `MomentSummary` that takes the same rows. An error leaves the shard
unusable, and nobody else reads it meanwhile; that saves the copies which a summary makes.
"""

from __future__ import annotations

from momentmix._typing import Float
from momentmix.summary.exact.combining import renamed
from momentmix.summary.exact.state import labels_of, new_shard, shard_digest, threads_for
from momentmix.summary.file import pack
from momentmix.summary.summary import MomentSummary


class SingleShard:
    """A shard to fill, which could be the first of a summary without rows."""

    def __init__(self, empty: MomentSummary, shard_id: str) -> None:
        state, self.n_threads = empty._state, empty._n_threads
        self.names, self.shard = state.names, new_shard(state, shard_digest(shard_id))
        self.labels = labels_of(self.shard, state.names)

    def update(self, features: Float) -> None:
        """Add rows that are encoded and checked."""
        n_threads = threads_for(self.shard, len(features), self.n_threads)
        self.shard.update(features, None, n_threads, self.labels)

    def close(self, shard_id: str, origin: bytes | None = None) -> tuple[bytes, str]:
        """The summary under this id as bytes, and the id of its first shard; takes no more rows."""
        digest = shard_digest(shard_id)
        origins = {} if origin is None else {digest: origin}
        totals = renamed(self.shard.close(), {self.shard.shard_id: digest}, origins)
        return pack(totals, self.names), digest.hex()
