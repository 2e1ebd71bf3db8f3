"""Re-shifting and re-scaling against sums of integers, exactly."""

from collections import Counter

import numpy as np

from campaigns.written_out import exact_sums
from momentmix.summary.exact.exact_sums import coarser, reframed
from momentmix.summary.layout import Layout


def equal(left, right):
    return bool((left.integers == right.integers).all())


def draw(d, m, q, rng, n=8):
    """A layout, and points of large integers."""
    points = [[int(x) for x in row] for row in rng.integers(-(10**6), 10**6, (n, d))]
    return Layout(d, m, q), points


def check_maps(layout, points, rng):
    """Moving and refining exact sums is moving and refining the points, and can be undone."""
    d, start = layout.n_features, exact_sums(layout, points)
    deltas = [int(x) * 10 ** int(rng.integers(0, 25)) + 7 for x in rng.integers(-9, 10, d)]
    moved = [[z - delta for z, delta in zip(point, deltas, strict=True)] for point in points]
    still = [0] * d
    result = reframed(start, still, deltas)
    assert equal(result, exact_sums(layout, moved))
    assert equal(reframed(result, still, [-delta for delta in deltas]), start)
    bits = [int(x) for x in rng.integers(0, 60, d)]
    scaled = [[z << a for z, a in zip(point, bits, strict=True)] for point in points]
    result = reframed(start, bits, still)
    assert equal(result, exact_sums(layout, scaled))
    assert equal(coarser(result, bits), start)


def reshifts(start, stop, seed):
    """A case: a map of exact sums and its inverse."""
    counts = Counter()
    for number in range(start, stop):
        rng = np.random.default_rng([seed, 3, number])
        d = int(rng.integers(1, 6))
        m = int(rng.integers(1, min(d, 4) + 1))
        q = int(rng.integers(0, m))
        try:
            check_maps(*draw(d, m, q, rng, n=5), rng)
        except AssertionError as error:
            raise AssertionError(f"case {number}: {error}") from error
        counts += Counter({"re-shifts": 1})
    return counts
