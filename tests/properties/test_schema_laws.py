"""Laws of summaries with families and missing cells, on tables that Hypothesis makes up.

Cells are small integers or halves, so that float64 sums of their products are exact and a sum of
shards can be compared with one pass over all rows bit by bit.
"""

import itertools
from fractions import Fraction
from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from momentmix import MomentSummary, summarize
from momentmix.index_sets import index_sets

laws = settings(max_examples=20, deadline=None)
FAMILIES = {1: "poisson", 2: [0, 1, 2]}
halves = st.integers(-8, 8).map(lambda k: k / 2)
offsets = st.sampled_from([0.0, 3.0, -16.0])


@st.composite
def shards(draw, largest=8):
    """A shard: each column has missing cells or none, and an offset of its own."""
    n = draw(st.integers(1, largest))
    columns = []
    for offset, cell in ((draw(offsets), halves), (0, st.integers(0, 5)), (0, st.integers(0, 2))):
        cells = st.one_of(st.none(), cell) if draw(st.booleans()) else cell
        column = draw(st.lists(cells, min_size=n, max_size=n).filter(lambda c: {*c} != {None}))
        columns.append([np.nan if x is None else x + offset for x in column])
    return np.array(columns, dtype=np.float64).T


def summary(rows, name, order=3, **options):
    options = {"families": FAMILIES, "missing": "model", "shard_id": name} | options
    return summarize(rows, order, **options)


def sums_of(one):
    """All moments about 0, which are quotients of exact sums; the rows, and the names."""
    m = one.moments(0, 1)
    parts = (*m.distinct, *m.squared, m.powers, m.cubed, m.two_squares)
    return one.n_rows, one.feature_names, [part.tolist() for part in parts]


@laws
@given(st.tuples(shards(), shards(), shards()))
def test_any_order_of_adding_gives_the_same_bytes(parts):
    a, b, c = (summary(part, name) for part, name in zip(parts, "abc", strict=True))
    expected = (a + (b + c)).to_bytes()
    for order in itertools.permutations((a, b, c)):
        assert sum(order).to_bytes() == expected
    grown = b.copy()
    grown += c
    grown += a
    assert grown.to_bytes() == expected


@laws
@given(st.tuples(shards(), shards(), shards()))
def test_a_sum_is_the_summary_of_all_rows(parts):
    both = sum(summary(part, str(i), 4) for i, part in enumerate(parts))
    rows = np.concatenate(parts)
    once = summary(rows, "all", 4, families=both.schema)
    assert once.schema == both.schema
    assert sums_of(both) == sums_of(once)
    other = rows.copy()
    other[0, 1] = 9 if np.isnan(other[0, 1]) else other[0, 1] + 1
    assert sums_of(both) != sums_of(summary(other, "all", 4, families=both.schema))


@laws
@given(st.tuples(shards(), shards()))
def test_sums_are_those_of_the_features(parts):
    """Against exact products of the encoded rows."""
    both = summary(parts[0], "a") + summary(parts[1], "b")
    rows = np.concatenate(parts)
    features = [[Fraction(x) for x in row] for row in both.schema.encode(rows).tolist()]
    found = both.moments(0, 1)
    for order in (1, 2, 3):
        sets = index_sets(both.n_features, order).tolist()
        expected = [sum(prod(row[j] for j in s) for row in features) for s in sets]
        assert found.distinct[order].tolist() == [float(x / len(rows)) for x in expected]
    for p in (3, 4, 5, 6):
        expected = [sum(x**p for x in column) for column in zip(*features, strict=True)]
        assert found.powers[p - 3].tolist() == [float(x / len(rows)) for x in expected]


@laws
@given(st.tuples(shards(), shards()))
def test_subtracting_undoes_adding(parts):
    a, b = summary(parts[0], "a"), summary(parts[1], "b")
    both = a + b
    assert both - b == a
    assert both - a == b
    assert (both - a) - b == MomentSummary(both.n_features, 3, schema=both.schema)
    assert both != a


@laws
@given(shards(), shards(), st.data())
def test_forgetting_rows(first, second, data):
    both = summary(first, "a") + summary(second, "b")
    chosen = data.draw(st.lists(st.integers(0, len(second) - 1), unique=True, min_size=1))
    left = np.concatenate([first, np.delete(second, chosen, axis=0)])
    rest = both.copy().forget(second[chosen])
    assert rest.schema == both.schema
    expected = summary(left, "left", families=both.schema).moments(0, 1)
    found = rest.moments(0, 1)
    pairs = zip(found.distinct + found.squared, expected.distinct + expected.squared, strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
