"""Moments of integer rows are those of fractions, whatever they are shifted and scaled by."""

from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import pytest

from momentmix import MomentSummary
from momentmix.index_sets import index_sets


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
