"""Units and shifts: which one a block gets, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from momentmix import MomentSummary, summarize
from momentmix.errors import ShardError
from momentmix.summary.exact.totals import round_ratio
from momentmix.summary.exact.units import floor_exponent
from momentmix.summary.summary import rename_shards


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**20))
def test_round_ratio_is_pythons_rounding_of_fractions(numerator, denominator):
    assert round_ratio(numerator, denominator) == round(Fraction(numerator, denominator))


def test_floor_follows_the_largest_value():
    assert floor_exponent(1.0) == -43
    assert floor_exponent(1e-320) == -1000


BLOCK = np.random.default_rng(1).standard_normal(1024)


def outlier(value):
    rows = BLOCK.copy()
    rows[5] = value
    return rows


# Blocks, the number of shards that they open, and the unit of their sum in units of the first.
@pytest.mark.parametrize(
    ("blocks", "n_shards", "unit"),
    [
        ((BLOCK, BLOCK), 1, 1.0),
        ((BLOCK, BLOCK * 1e-6), 1, 1.0),  # their moments are lost in those of the first
        ((BLOCK * 2.0**-20, BLOCK), 2, 2.0**-20),
        ((np.zeros(1024), BLOCK * 2.0**-30), 1, 2.0**-30),  # zeros take any unit
        ((np.full(1024, 3.0), BLOCK * 2.0**-30), 1, 2.0**-30),  # a finer unit changes nothing
        ((np.full(1024, 0.1), BLOCK), 2, 2.0**-55),
        ((BLOCK, outlier(1e12), BLOCK), 1, 1.0),
        ((outlier(1e12), BLOCK), 1, 1.0),
        ((outlier(1e18), BLOCK), 1, 2.0**16),  # 2^−44 of the outlier
        ((BLOCK, *[BLOCK + 1e4] * 4), 2, 1.0),  # the mean drifts
        ((BLOCK, np.full(1024, 7.0), BLOCK), 1, 1.0),
    ],
)
def test_blocks_that_need_other_units_open_a_shard(blocks, n_shards, unit):
    rows = np.concatenate(blocks)[:, None]
    summary = MomentSummary(1, 1, n_threads=1, shard_id="a").update(rows)
    usual = MomentSummary(1, 1).update(BLOCK[:, None]).scale[0]
    assert len(summary.shard_ids) == n_shards
    assert summary.scale[0] == (unit if unit in (2.0**16, 2.0**-55) else unit * usual)
    exact = [Fraction(x) for x in rows[:, 0].tolist()]
    mean = sum(exact) / len(exact)
    for p in range(2, 7):
        expected = float(sum((x - mean) ** p for x in exact) / len(exact))
        size = float(sum(abs(x - mean) ** p for x in exact) / len(exact))
        found = summary.moments(summary.mean, 1.0)
        value = found.powers[p - 3, 0] if p > 2 else found.squared[0][0, 0]
        assert value == pytest.approx(expected, rel=1e-12, abs=1e-13 * size)


def test_shards_follow_from_the_first():
    rows = np.concatenate([BLOCK * 1e-9, BLOCK, BLOCK * 1e9])[:, None]
    whole = MomentSummary(1, 1, shard_id="a").update(rows)
    first = MomentSummary(1, 1, shard_id="a").update(rows[:1024])
    numbers = [int(shard, 16) for shard in whole.shard_ids]
    assert numbers == [int(first.shard_ids[0], 16) + i for i in range(3)]
    assert (whole - first).n_rows == 2048  # a shard that is complete is a part
    other = rename_shards(whole, {"a": "b"})
    expected = MomentSummary(1, 1, shard_id="b").update(rows)
    assert other.to_bytes() == expected.to_bytes()
    with pytest.raises(ShardError, match="in both summaries"):
        whole + first


def test_sorted_rows_open_few_shards():
    share = np.arange(0.5, 1e7) / 1e7
    columns = [np.arange(1e7), np.tan(np.pi * (share - 0.5)), np.exp(5 * ndtri(share))]
    rows = np.column_stack(columns)  # uniform, Cauchy and log-normal
    assert len(summarize(rows, 2).shard_ids) <= 64


def test_all_zero_columns_are_neutral_in_a_merge():
    zero = MomentSummary(1, 1, shard_id="z").update(np.zeros((5, 1)))
    other = MomentSummary(1, 1, shard_id="o").update(np.array([[1e-30], [3e-30]]))
    assert zero.scale.tolist() == [1.0]
    assert (zero + other).scale == other.scale
    assert (zero + other).mean == pytest.approx([4e-30 / 7], rel=1e-15)
