"""The bytes of a summary depend on the set of shards in it alone."""

import numpy as np
from campaigns import merge_trees
from campaigns.merge_trees import random_shards, random_tree


def test_random_trees():
    """Some of ten thousand; at order 7, too. The second one of them has a thousand shards."""
    assert merge_trees.merge_trees(2, 26, seed=0)["merge trees"] == 24
    many, rng = random_shards(200, 4, 3, seed=0), np.random.default_rng(0)
    assert random_tree(many, rng).to_bytes() == random_tree(many, rng).to_bytes()


def test_a_tree_that_loses_a_shard_is_noticed():
    """Negative control of the campaign."""
    shards = random_shards(12, 4, 3, seed=1)
    rng = np.random.default_rng(0)
    whole = random_tree(shards, rng)
    assert whole.to_bytes() != random_tree(shards[1:], rng).to_bytes()


def test_shards_leave_without_a_trace():
    rng = np.random.default_rng(5)
    shards = random_shards(12, 7, 7, seed=5)
    kept, gone = shards[:5], shards[5:]
    whole = random_tree(shards, rng)
    for shard in gone:
        whole = whole - shard
    assert whole == random_tree(kept, rng)
    assert not whole.exact_bounds
    assert whole.n_rows == sum(shard.n_rows for shard in kept)
