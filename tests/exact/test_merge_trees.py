"""The bytes of a summary depend on the set of shards in it alone."""

import numpy as np
import pytest

from momentmix import MomentSummary


def random_shards(n_shards, d, order, seed, replicates=2):
    """Shards of few rows with frames of their own: offsets, scales, constants, outliers."""
    rng = np.random.default_rng(seed)
    shards = []
    for i in range(n_shards):
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
        weights = rng.uniform(0.1, 3, n) if kind == 4 else None
        summary = MomentSummary(
            d, order, replicates=replicates, shard_id=f"{seed}/{i}", n_threads=1
        )
        shards.append(summary.update(rows, weights))
    return shards


def random_tree(shards, rng):
    """Merge all shards pair by pair in random order, in place or not."""
    pool = [shards[i] for i in rng.permutation(len(shards))]
    while len(pool) > 1:
        i, j = rng.choice(len(pool), 2, replace=False)
        left, right = pool[i], pool[j]
        if rng.random() < 0.3:
            joint = left.copy()
            joint += right
        else:
            joint = left + right
        pool = [x for k, x in enumerate(pool) if k not in (i, j)]
        pool.insert(int(rng.integers(len(pool) + 1)), joint)
    return pool[0]


def check_trees(order, d, n_trees, largest, seed):
    rng = np.random.default_rng(seed)
    shards = random_shards(largest, d, order, seed)
    done = 0
    while done < n_trees:
        share = rng.random() ** 1.5  # more small trees than large ones, up to the largest
        size = int(np.clip(2.0 ** (1 + share * np.log2(largest / 1.9)), 2, largest))
        chosen = [shards[i] for i in rng.choice(largest, size, replace=False)]
        expected = random_tree(chosen, rng).to_bytes()
        for _ in range(min(9, n_trees - done)):
            assert random_tree(chosen, rng).to_bytes() == expected
            done += 1


@pytest.mark.parametrize(("order", "d", "largest"), [(3, 4, 24), (7, 7, 16)])
def test_two_hundred_trees(order, d, largest):
    check_trees(order, d, n_trees=200, largest=largest, seed=order)


@pytest.mark.parametrize(("order", "d"), [(3, 4), (7, 7)])
def test_a_thousand_shards(order, d):
    rng = np.random.default_rng(11)
    shards = random_shards(1000 if order == 3 else 200, d, order, seed=99, replicates=0)
    assert random_tree(shards, rng).to_bytes() == random_tree(shards, rng).to_bytes()


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize(("order", "d"), [(3, 4), (7, 7)])
def test_ten_thousand_trees(order, d, part):
    check_trees(order, d, n_trees=500, largest=1000, seed=1000 + 10 * order + part)


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


def test_negative_control_float_sums_depend_on_the_tree():
    """The same trees in plain float64 give many byte strings, so the test above can fail."""
    rng = np.random.default_rng(6)
    sums = [
        np.array([shard.moments(0, 1).distinct[3][0] * shard.sum_weights])
        for shard in random_shards(40, 4, 3, seed=6)
    ]
    found = {sum((sums[i] for i in rng.permutation(40)), np.zeros(1)).tobytes() for _ in range(20)}
    assert len(found) > 1
