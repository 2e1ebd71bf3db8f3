"""Re-shifting and re-scaling against sums of fractions, exactly."""

from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest
from campaigns import reshifts
from campaigns.reshifts import check_maps, draw
from campaigns.written_out import exact_sums, monomials

from momentmix import MomentSummary
from momentmix.index_sets import index_sets
from momentmix.summary.exact.exact_sums import ExactSums, coarser

CASES = [(2, 1, 0), (3, 2, 1), (4, 4, 3), (5, 4, 2), (7, 7, 2), (6, 5, 4)]


@pytest.mark.parametrize(("d", "m", "q"), CASES)
def test_moving_and_refining_are_maps_of_points_and_can_be_undone(d, m, q):
    rng = np.random.default_rng(0)
    check_maps(*draw(d, m, q, rng), rng)


def test_random_maps():
    """The first of ten thousand."""
    assert reshifts.reshifts(0, 60, seed=0)["re-shifts"] == 60


def test_coarser_rounds_once_to_the_quantum():
    layout, points = draw(4, 4, 2, np.random.default_rng(0))
    sums = exact_sums(layout, points)
    small = ExactSums(layout, None, sums.integers + 12345)  # bits below the new quantum
    products = [s for section in layout.sections for s in monomials(section, 4)]
    pairs = zip(products, small.integers, coarser(small, [0, 9, 0, 2]).integers, strict=True)
    for s, old, new in pairs:
        exact = Fraction(old, 2 ** (9 * s.count(1) + 2 * s.count(3)))
        assert abs(new - exact) <= Fraction(1, 2)


def test_moments_of_integer_rows_equal_fractions():
    rng = np.random.default_rng(5)
    rows = rng.integers(-40, 90, (200, 5)).astype(float)
    summary = MomentSummary(5, 5, squared_order=3, shard_id="a").update(rows)
    shift, scale = [1.0, -2.0, 0.0, 100.0, 3.0], [2.0, 1.0, 4.0, 0.5, 1.0]
    points = [
        [
            (Fraction(y) - Fraction(a)) / Fraction(b)
            for y, a, b in zip(row, shift, scale, strict=True)
        ]
        for row in rows.tolist()
    ]
    moments = summary.moments(shift, scale)
    for t in range(6):
        for place, s in enumerate(index_sets(5, t).tolist()):
            exact = sum(prod(point[i] for i in s) for point in points) / len(points)
            assert moments.distinct[t][place] == pytest.approx(float(exact), rel=1e-15, abs=1e-15)
    for j in range(5):
        others = [i for i in range(5) if i != j]
        for s in range(4):
            sets = sorted(combinations(others, s), key=lambda c: c[::-1])
            for place, c in enumerate(sets):
                exact = sum(point[j] ** 2 * prod(point[i] for i in c) for point in points)
                value = float(exact / len(points))
                assert moments.squared[s][j, place] == pytest.approx(value, rel=1e-15, abs=1e-15)
                assert summary.squared(j, s, shift, scale)[place] == pytest.approx(value, rel=1e-14)
