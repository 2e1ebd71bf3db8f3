from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from momentmix.index_sets import colex_rank, index_sets, sets_without


def colex(d, m):
    """Oracle: sort all combinations by their reversed tuples."""
    return sorted(combinations(range(d), m), key=lambda s: s[::-1])


@pytest.mark.parametrize(("d", "m"), [(1, 0), (1, 1), (5, 2), (7, 3), (6, 6), (9, 5), (4, 0)])
def test_sets_are_all_combinations_in_colex_order(d, m):
    assert [tuple(s) for s in index_sets(d, m)] == colex(d, m)


def test_no_set_is_larger_than_the_features():
    assert index_sets(3, 4).shape == (0, 4)


@given(d=st.integers(1, 12), m=st.integers(1, 6))
def test_ranks_count_the_sets(d, m):
    sets = index_sets(d, m)
    np.testing.assert_array_equal(colex_rank(sets), np.arange(comb(d, m)))


def test_sets_below_an_index_are_a_prefix():
    np.testing.assert_array_equal(index_sets(9, 4)[: comb(6, 4)], index_sets(6, 4))


@given(cut=st.integers(1, 7), a=st.integers(0, 3), b=st.integers(0, 3))
def test_rank_of_a_union_is_a_sum(cut, a, b):
    low, high = index_sets(cut, a), index_sets(9 - cut, b) + cut
    for x in low:
        for y in high:
            parts = colex_rank(x) + colex_rank(y, position=a)
            assert parts == colex_rank(np.concatenate([x, y]))


def test_sets_without_one_index():
    found = [tuple(s) for s in sets_without(6, 3, 2)]
    assert found == [s for s in colex(6, 3) if 2 not in s]
