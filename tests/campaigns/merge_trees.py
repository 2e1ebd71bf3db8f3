"""The bytes of a summary depend on the set of shards in it alone, whatever tree they meet in."""

from collections import Counter
from functools import lru_cache

import numpy as np

from momentmix.summary.summary import MomentSummary

KINDS = [(3, 3), (4, 3), (4, 4), (7, 7)]  # n_features, order
POOL = 48


def random_rows(rng, d):
    """Few rows in a frame of their own: offsets, scales, constants, outliers; perhaps weights."""
    n = int(rng.integers(1, 40))
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d)
    rows += rng.uniform(-1, 1, d) * 10.0 ** rng.uniform(-2, 6)
    kind = rng.integers(0, 8)
    if kind == 0:
        rows[:, rng.integers(d)] = 0.0
    elif kind == 1:
        rows[:, rng.integers(d)] = 0.1
    elif kind == 2:
        rows[rng.integers(n), rng.integers(d)] = 1e6 * rng.standard_normal()
    elif kind == 3:
        rows = np.tile(rows[:1], (n, 1))
    return rows, rng.uniform(0.1, 3, n) if kind == 4 else None


@lru_cache(maxsize=16)
def random_shards(n_shards, d, order, seed):
    """Closed shards of one kind, with frames of their own."""
    rng = np.random.default_rng([seed, d, order])
    shards = []
    for i in range(n_shards):
        summary = MomentSummary(d, order, shard_id=f"{i}", n_threads=1)
        shards.append(summary.update(*random_rows(rng, d)).copy())
    return tuple(shards)


def random_tree(shards, rng):
    """Merge all shards pair by pair in random order: in place or not, moved, through bytes."""
    pool = [shards[i] for i in rng.permutation(len(shards))]
    while len(pool) > 1:
        left, right = (pool.pop(int(rng.integers(len(pool)))) for _ in range(2))
        way = rng.integers(8)
        if way == 0:
            right = MomentSummary.from_bytes(right.to_bytes())
        if way < 4:
            joint = left.copy()
            joint += right
        else:
            joint = left + right
        pool.append(joint)
    return pool[0]


def detour(shards, others, rng):
    """A tree in which further shards join and leave again."""
    inside, outside = list(shards), list(others)
    whole = random_tree([*inside, *outside], rng)
    for other in outside:
        whole = whole - other
    return whole


def merge_trees(start, stop, seed):
    """A case: a set of shards, two trees with the same bytes; in every fourth a detour as well."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, number])
        d, order = KINDS[number % len(KINDS)]
        if number % 1000 == 1:  # now and then a thousand shards
            shards, size = random_shards(1000, 4, 3, seed), 1000
        else:
            shards = random_shards(POOL, d, order, seed + number // 400)
            size = 2 + int(14 * rng.random() ** 2)
        chosen = [shards[i] for i in rng.permutation(len(shards))]
        first, second = (random_tree(chosen[:size], rng) for _ in range(2))
        assert first.to_bytes() == second.to_bytes(), f"case {number}: two trees, two byte strings"
        assert first.n_rows == sum(shard.n_rows for shard in chosen[:size]), number
        counts += Counter({"merge trees": 1, "shards merged": 2 * size})
        if number % 4 == 0 and size < POOL - 3:
            rest = detour(chosen[:size], chosen[size : size + 3], rng)
            assert rest == first, f"case {number}: a shard left traces"
            counts["detours"] += 1
    return counts
