"""Re-shifting and re-scaling against sums of fractions, exactly."""

from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest

from momentmix import MomentSummary
from momentmix.core.labels import index_sets, sets_without
from momentmix.moments.exact_sums import (
    QUANTUM_BITS,
    coarser,
    finer,
    move,
    unfold_constant,
    zeros,
)
from momentmix.moments.layout import Layout


def exact_sums(layout, points, groups):
    """Sums of products of fractions, in quanta, group by group."""
    sums = zeros(layout)
    for point, group in zip(points, groups, strict=True):
        for section, array in zip(layout.sections, sums, strict=True):
            g = group if section.n_groups > 1 else 0
            if section.kind == "distinct":
                for place, s in enumerate(index_sets(layout.n_features, section.size).tolist()):
                    array[g, place] += prod(point[i] for i in s) * 2**QUANTUM_BITS
                continue
            for j in range(layout.n_features):
                sets = sets_without(layout.n_features, section.size, j).tolist()
                for place, s in enumerate(sets):
                    array[g, j, place] += (
                        point[j] ** 2 * prod(point[i] for i in s) * 2**QUANTUM_BITS
                    )
    return sums


def equal(left, right):
    return all((a == b).all() for a, b in zip(left, right, strict=True))


CASES = [(2, 1, 0, 0), (3, 2, 1, 2), (4, 4, 3, 2), (5, 4, 2, 3), (7, 7, 2, 2), (6, 5, 4, 0)]


def draw(d, m, q, groups, seed=0):
    rng = np.random.default_rng(seed)
    layout = Layout(d, m, q, groups)
    points = [[int(x) for x in row] for row in rng.integers(-(10**6), 10**6, (8, d))]
    return layout, points, [int(g) for g in rng.integers(0, max(1, groups), 8)], rng


@pytest.mark.parametrize(("d", "m", "q", "groups"), CASES)
def test_move_is_the_binomial_map(d, m, q, groups):
    layout, points, group, rng = draw(d, m, q, groups)
    deltas = [int(x) * 10**12 + 7 for x in rng.integers(-9, 9, d)]
    moved = [[z - delta for z, delta in zip(point, deltas, strict=True)] for point in points]
    result = move(layout, exact_sums(layout, points, group), deltas)
    assert equal(result, exact_sums(layout, moved, group))
    back = move(layout, result, [-delta for delta in deltas])
    assert equal(back, exact_sums(layout, points, group))


@pytest.mark.parametrize(("d", "m", "q", "groups"), CASES)
def test_finer_is_a_left_shift_and_coarser_undoes_it(d, m, q, groups):
    layout, points, group, rng = draw(d, m, q, groups)
    bits = [int(x) for x in rng.integers(0, 60, d)]
    scaled = [[z << a for z, a in zip(point, bits, strict=True)] for point in points]
    result = finer(layout, exact_sums(layout, points, group), bits)
    assert equal(result, exact_sums(layout, scaled, group))
    for j, a in enumerate(bits):
        if a:
            result = coarser(layout, result, j, a)
    assert equal(result, exact_sums(layout, points, group))


def test_coarser_rounds_once_to_the_quantum():
    layout, points, group, _ = draw(4, 3, 2, 0)
    sums = exact_sums(layout, points, group)
    small = [array + 12345 for array in sums]  # bits below the new quantum
    result = coarser(layout, small, 1, 9)
    for section, before, after in zip(layout.sections, small, result, strict=True):
        if section.kind == "distinct":
            for place, s in enumerate(index_sets(4, section.size).tolist()):
                factor = 2**9 if 1 in s else 1
                assert abs(after[0, place] - Fraction(before[0, place], factor)) <= Fraction(1, 2)


@pytest.mark.parametrize(("d", "m", "q", "groups"), [(3, 2, 1, 2), (5, 4, 3, 2), (6, 6, 2, 0)])
def test_a_constant_feature_follows_from_the_others(d, m, q, groups):
    layout, points, group, _ = draw(d, m, q, groups)
    j, value = 1, Fraction(-7, 4)
    absent = [[0 if i == j else z for i, z in enumerate(point)] for point in points]
    present = [[value if i == j else z for i, z in enumerate(point)] for point in points]
    result = unfold_constant(layout, exact_sums(layout, absent, group), j, value)
    assert equal(result, exact_sums(layout, present, group))


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


@pytest.mark.parametrize("hops", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_hops_come_back_to_the_same_bytes(hops):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((3000, 7)) * 10.0 ** rng.integers(-5, 5, 7) + rng.standard_normal(7)
    summary = MomentSummary(7, 7, shard_id="a", replicates=2).update(rows)
    start = summary.to_bytes()
    steps = rng.integers(-4, 5, (hops // 2, 7))
    here = summary
    for step in [*steps, *-rng.permutation(steps)]:
        here = here.recentre(here.shift + step * here.scale)
    assert here.to_bytes() == start
    away = summary.recentre(summary.shift + 3 * summary.scale)
    assert away.to_bytes() != start
    assert away == summary
    assert away.recentre().to_bytes() == start
