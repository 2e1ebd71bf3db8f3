"""Units and shifts: which one a block gets, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from momentmix import MomentSummary
from momentmix.summary.shard.units import (
    constant_exponent,
    floor_exponent,
    round_ratio,
    typical_exponent,
    typical_exponents,
)


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**20))
def test_round_ratio_is_pythons_rounding_of_fractions(numerator, denominator):
    assert round_ratio(numerator, denominator) == round(Fraction(numerator, denominator))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e290, max_value=1e290))
def test_constants_are_whole_numbers_of_their_unit_or_nearly(value):
    exponent = constant_exponent(value)
    if value == 0:
        assert exponent is None
        return
    units = Fraction(value) / Fraction(2) ** exponent
    assert units.denominator == 1 or abs(units) >= 2**43 or exponent == -1000
    assert abs(units) <= 2**53


def test_typical_deviation_ignores_outliers_and_repeated_values():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(1001)
    assert typical_exponent(values)[0] in (0, 1)
    values[:20] = 1e100
    assert typical_exponent(values)[0] in (0, 1)
    sparse = np.zeros(1001)
    sparse[:5] = 3.0
    assert typical_exponent(sparse) == (2, 0.0)
    assert typical_exponent(np.full(7, 0.3)) is None


@pytest.mark.parametrize("n", [1, 2, 7, 1024])
def test_typical_exponents_of_columns_are_those_of_sorted_deviations(n):
    rng = np.random.default_rng(n)
    columns = [rng.standard_normal(n), rng.integers(0, 3, n), np.full(n, 0.3)]
    columns += [1e300 * rng.integers(0, 2, n), 5.0 * (rng.random(n) < 0.1)]
    expected = []
    for column in columns:
        median = np.sort(column)[(n - 1) // 2]
        deviations = sorted(abs(x - median) for x in column if x != median)
        typical = deviations[(len(deviations) - 1) // 2] if deviations else None
        expected.append(None if typical is None else (math.frexp(typical)[1], median))
    assert typical_exponents(np.column_stack(columns)) == expected
    assert typical_exponents(np.empty((n, 0))) == []


def test_floor_follows_the_largest_value():
    assert floor_exponent(1.0) == -43
    assert floor_exponent(1e-320) == -1000


def unit_after(*blocks):
    summary = MomentSummary(1, 1, n_threads=1)
    for block in blocks:
        summary.update(np.asarray(block)[:, None])
    return float(summary.scale[0])


def test_the_unit_follows_the_rows():
    rng = np.random.default_rng(1)
    block = rng.standard_normal(1024)
    usual = unit_after(block)
    assert usual in (0.5, 1.0, 2.0)
    assert unit_after(block, block * 1e-6) < 1e-4  # finer when the rows turn out narrow
    assert unit_after(block * 1e-17, block) == usual  # coarser when the first rows were noise
    assert unit_after(np.zeros(1024), block) == usual
    assert unit_after(np.full(1024, 1e3), block) in (0.5, 1, 2)
    outlier = block.copy()
    outlier[5] = 1e12
    assert unit_after(block, outlier, block) == usual
    assert unit_after(outlier, block) == usual
    outlier[5] = 1e18
    assert unit_after(outlier, block) == 2.0**16  # 2^−44 of the outlier


def test_all_zero_columns_are_neutral_in_a_merge():
    zero = MomentSummary(1, 1, shard_id="z").update(np.zeros((5, 1)))
    other = MomentSummary(1, 1, shard_id="o").update(np.array([[1e-30], [3e-30]]))
    assert zero.scale.tolist() == [1.0]
    assert (zero + other).scale == other.scale
    assert (zero + other).mean == pytest.approx([4e-30 / 7], rel=1e-15)
