"""Re-shifting and re-scaling against sums of fractions, exactly."""

from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest
from campaigns import reshifts
from campaigns.reshifts import check_maps, draw, equal
from campaigns.written_out import exact_sums, monomials

from momentmix import MomentSummary
from momentmix.index_sets import index_sets
from momentmix.summary.exact.exact_sums import ExactSums, coarser

CASES = [(2, 1, 0), (3, 2, 1), (4, 4, 3), (5, 4, 2), (7, 7, 2), (6, 5, 4)]


@pytest.mark.parametrize(("d", "m", "q"), CASES)
def test_moving_and_refining_are_maps_of_points_and_can_be_undone(d, m, q):
    rng = np.random.default_rng(0)
    check_maps(*draw(d, m, q, rng), rng)


def test_random_maps_and_walks():
    """The first of ten thousand."""
    assert reshifts.reshifts(0, 60, seed=0)["re-shifts"] == 60


def test_negative_control_a_wrong_move_is_noticed():
    rng = np.random.default_rng(1)
    layout, points = draw(3, 2, 1, rng)
    sums = exact_sums(layout, points)
    wrong = sums.integers.copy()
    wrong[-1] += 1
    assert not equal(sums, ExactSums(layout, None, wrong))


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


def test_hops_come_back_to_the_same_bytes():
    hops, rng = 300, np.random.default_rng(6)
    rows = rng.standard_normal((3000, 7)) * 10.0 ** rng.integers(-5, 5, 7) + rng.standard_normal(7)
    summary = MomentSummary(7, 7, shard_id="a").update(rows)
    start = summary.to_bytes()
    steps = rng.integers(-4, 5, (hops // 2, 7))
    here = summary
    for step in [*steps, *-rng.permutation(steps)]:
        here = here.recenter(here.shift + step * here.scale)
    assert here.to_bytes() == start
    away = summary.recenter(summary.shift + 3 * summary.scale)
    assert away.to_bytes() != start
    assert away == summary
    assert away.recenter().to_bytes() == start
