"""Algebraic laws of summaries, on tables that Hypothesis makes up.

A *kind* of parts is either columns of numbers of any size, whose sums round, or a table with
families, missing cells and offsets, whose cells are halves, so that all its float64 sums are exact
and a sum of parts can be compared with one pass over all rows bit by bit.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from momentmix import MomentSummary, summarize
from momentmix.errors import InputError, ShardError

laws = settings(max_examples=25, deadline=None)
FAMILIES = {1: "poisson", 2: [0, 1, 2]}
numbers = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-30, 1e12]), st.integers(-9, 9)
).map(lambda value: float(value) if abs(value) > 1e-200 else 0.0)


def arrays_of(d=3, largest=12, elements=numbers):
    return st.integers(1, largest).flatmap(lambda n: arrays(np.float64, (n, d), elements=elements))


@st.composite
def tables(draw, largest=8):
    """A part of a table: each column has missing cells or none, numbers an offset of their own."""
    n, halves = draw(st.integers(1, largest)), st.integers(-8, 8).map(lambda k: k / 2)
    offset, columns = draw(st.sampled_from([0.0, 3.0, -16.0])), []
    for start, cell in ((offset, halves), (0, st.integers(0, 5)), (0, st.integers(0, 2))):
        cells = st.one_of(st.none(), cell) if draw(st.booleans()) else cell
        column = draw(st.lists(cells, min_size=n, max_size=n).filter(lambda c: {*c} != {None}))
        columns.append([np.nan if x is None else x + start for x in column])
    return np.array(columns, dtype=np.float64).T


def summary(rows, shard, order=3, **options):
    return MomentSummary(rows.shape[1], order, shard_id=shard, n_threads=1, **options).update(rows)


def encoded(rows, shard, order=3, **options):
    options = {"families": FAMILIES, "missing": "model", "shard_id": shard} | options
    return summarize(rows, order, **options)


KINDS = {"numbers": (arrays_of(), summary), "table": (tables(), encoded)}


@st.composite
def parts(draw, n):
    """Rows of n parts of one kind, and their summaries."""
    rows, make = draw(st.sampled_from(list(KINDS.values())))
    made = [draw(rows) for _ in range(n)]
    return made, [make(x, name) for x, name in zip(made, "abcdef", strict=False)]


def largest_product(x, t):
    """Product of the t largest column sizes: what rounding errors of moments are relative to."""
    return np.sort(np.abs(x).max(axis=0))[::-1][:t].prod() + 1e-300


def all_moments(one):
    m = one.moments(0, 1)
    return [np.ravel(x) for x in (*m.distinct, *m.squared, m.powers, m.cubed, m.two_squares)]


def tree(draw, pool):
    """The sum of summaries, pair by pair in any order: in place or not, through bytes or not."""
    pool = draw(st.permutations(pool))
    while len(pool) > 1:
        right, left = pool.pop(draw(st.integers(0, len(pool) - 1))), pool.pop()
        if draw(st.booleans()):
            right = MomentSummary.from_bytes(right.to_bytes())
        if draw(st.booleans()):
            left = left.copy()
            left += right
        else:
            left = left + right
        pool.append(left)
    return pool[0]


# -- adding and subtracting -----------------------------------------------------------------------


@laws
@given(parts(5), st.data())
def test_any_order_and_tree_of_adding_gives_the_same_bytes(made, data):
    expected = sum(made[1]).to_bytes()
    for _ in range(2):
        assert tree(data.draw, made[1]).to_bytes() == expected


@laws
@given(parts(3))
def test_subtracting_undoes_adding(made):
    (x, *_), (a, b, c) = made
    whole = a + b + c
    for rest in ((whole - b) - c, whole - (b + c), (a + b) - b):
        assert rest == a
        assert rest.n_rows == len(x)
        if rest.schema is None:
            np.testing.assert_array_equal(rest.mean, a.mean)
            assert (rest.minimum <= a.minimum).all()
            assert (rest.maximum >= a.maximum).all()
    assert whole - a == b + c
    assert whole != a + b
    nothing = MomentSummary(whole.n_features, 3, schema=whole.schema)
    assert ((whole - a) - b) - c == nothing
    with pytest.raises(ShardError):
        whole + b
    with pytest.raises(ShardError):
        (a + b) - c


@laws
@given(st.tuples(tables(), tables(), tables()))
def test_a_sum_is_the_summary_of_all_rows(made):
    both = sum(encoded(part, str(i)) for i, part in enumerate(made))
    rows = np.concatenate(made)
    once = encoded(rows, "all", families=both.schema)
    assert once.feature_names == both.feature_names
    for x, y in zip(all_moments(both), all_moments(once), strict=True):
        np.testing.assert_array_equal(x, y)
    rows[0, 1] = 9 if np.isnan(rows[0, 1]) else rows[0, 1] + 1
    other = encoded(rows, "all", families=both.schema)
    assert any((x != y).any() for x, y in zip(all_moments(both), all_moments(other), strict=True))


def test_the_size_does_not_grow_with_shards():
    """Of a thousand parts of a table: at most twice that of one."""
    rows = np.random.default_rng(0).lognormal(size=(10_000, 15)) + np.arange(15) * 100
    made = [summary(part, str(i), 4) for i, part in enumerate(np.array_split(rows, 1000))]
    assert len(sum(made).to_bytes()) <= 2 * len(summary(rows, "all", 4).to_bytes())


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_readings_do_not_depend_on_how_rows_were_cut(family):
    """Of cells that are seen far from 0, some of them missing, in parts with means of their own."""
    rng = np.random.default_rng(1)
    rows = rng.poisson(np.linspace(3, 40, 4000)[:, None], (4000, 3)).astype(float)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    options = {"families": dict.fromkeys(range(3), family), "missing": "model"}
    whole = summarize(rows, 3, **options)
    both = sum(summarize(part, 3, **options) for part in np.split(rows, [300, 1500]))
    assert both.schema == whole.schema
    np.testing.assert_allclose(both.mean, whole.mean, rtol=1e-12, atol=1e-12)
    for x, y in zip(both.moments().distinct, whole.moments().distinct, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_the_same_frame_is_added_once():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [0.5, None, 1.0]})
    one, again = (summarize(frame.copy(), 2, missing="model") for _ in range(2))
    with pytest.raises(ShardError, match="count twice"):
        one + again
    assert (one + summarize(frame * 2, 2, missing="model")).n_rows == 6
    assert (one + summarize(frame.copy(), 2, missing="model", shard_id="b")).n_rows == 6


# -- forgetting -----------------------------------------------------------------------------------


@laws
@given(st.tuples(tables(), tables()), st.data())
def test_forgetting_rows_is_never_having_added_them(made, data):
    first, second = made
    both = encoded(first, "a") + encoded(second, "b")
    chosen = data.draw(st.lists(st.integers(0, len(second) - 1), unique=True, min_size=1))
    left = np.concatenate([first, np.delete(second, chosen, axis=0)])
    rest = both.copy().forget(second[chosen])
    assert MomentSummary.from_bytes(rest.to_bytes()) == rest
    expected = encoded(left, "left", families=both.schema).moments(rest.mean, 1)
    found = rest.moments(rest.mean, 1)
    pairs = zip(found.distinct + found.squared, expected.distinct + expected.squared, strict=True)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@laws
@given(
    st.lists(
        arrays(np.float64, (6, 3), elements=st.integers(-9, 9).map(float)), min_size=3, max_size=3
    ),
    st.data(),
)
def test_subtracting_after_forgetting_is_right_or_refused(made, data):
    """Rows of any shard are forgotten from a shard or from a sum, before or after adding."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    made = [part + rng.standard_normal(part.shape) for part in made]
    shards = {name: summary(x, name, 2) for name, x in zip("abc", made, strict=True)}
    rows = dict(zip("abc", made, strict=True))
    early = data.draw(st.sampled_from([None, "a", "b"]))
    late = data.draw(st.sampled_from([None, "a", "b", "c"]))
    both = data.draw(st.booleans())  # forgotten from the shard that is subtracted, too
    subtracted = data.draw(st.sampled_from(["a", "b", "ab"]))
    fresh = {name: part.copy() for name, part in shards.items()}
    gone = {name: set() for name in "abc"}
    if early:
        shards[early].forget(rows[early][:2])
        gone[early] |= {0, 1}
    total = shards["a"] + shards["b"] + shards["c"]
    if late:
        total.forget(rows[late][3:4])
        gone[late] |= {3}
    source = data.draw(st.sampled_from([shards, fresh]))
    part = sum(source[name] for name in subtracted)
    if both and late and late in subtracted:
        part.forget(rows[late][3:4])
    left = [np.delete(rows[x], list(gone[x]), axis=0) for x in "abc" if x not in subtracted]
    try:
        rest = total - part
    except InputError:
        assert early or late
        return
    assert rest.n_rows == len(np.concatenate(left))
    assert rest.mean == pytest.approx(np.concatenate(left).mean(axis=0), abs=1e-9)


# -- what is kept ---------------------------------------------------------------------------------


@laws
@given(parts(2), st.data())
def test_selecting_and_truncating_commute_with_adding(made, data):
    a, b = made[1]
    names = a.schema.column_names if a.schema else None
    order = data.draw(st.permutations(range(3)))
    some = order[: data.draw(st.integers(1, 3))]
    for change in (
        lambda s: s.truncate(2),
        lambda s: s.select(order),
        lambda s: s.truncate(1).select(some),
    ):
        assert change(a + b).to_bytes() == (change(a) + change(b)).to_bytes()
    assert a.select(order).select(np.argsort(order)).to_bytes() == a.to_bytes()
    assert names is None or (a + b).select(order).schema.column_names == names


@laws
@given(arrays_of(d=4), st.permutations(range(4)))
def test_selecting_is_the_summary_of_these_columns(x, order):
    chosen, direct = summary(x, "a").select(order), summary(x[:, order], "a")
    for t in (1, 2, 3):
        a, b = chosen.moments(0, 1).distinct[t], direct.moments(0, 1).distinct[t]
        assert np.abs(a - b).max() <= 1e-14 * largest_product(x, t)


@laws
@given(parts(2))
def test_bytes_and_pickle_come_back(made):
    for one in (*made[1], made[1][0] + made[1][1]):
        data = one.to_bytes()
        for twin in (MomentSummary.from_bytes(data), pickle.loads(pickle.dumps(one))):
            assert twin.to_bytes() == data
            assert twin == one
            for name in ("mean", "variance", "minimum", "maximum", "n_rows", "feature_names"):
                np.testing.assert_array_equal(getattr(twin, name), getattr(one, name))


def test_a_pickled_summary_keeps_its_options():
    one = pickle.loads(pickle.dumps(MomentSummary(3, 2, shard_id="a", n_threads=2)))
    assert one._n_threads == 2
    assert one.update(np.eye(3)) == summary(np.eye(3), "a", 2)


# -- rows -----------------------------------------------------------------------------------------


@laws
@given(arrays_of(), st.data())
def test_cutting_into_calls_changes_no_byte(x, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=4)))
    pieces = MomentSummary(3, 3, shard_id="a")
    for part in np.split(x, cuts):
        if len(part):
            pieces.update(part)
            assert pieces.n_rows <= len(x)
            _ = pieces.mean  # reading leaves the shard open
    assert pieces.to_bytes() == summary(x, "a").to_bytes()


@laws
@given(arrays(np.float64, (9, 3), elements=st.integers(-999, 999).map(float)), st.data())
def test_integer_weight_is_a_repeated_row(x, data):
    counts = data.draw(arrays(np.int64, 9, elements=st.integers(0, 5)).filter(lambda c: c.any()))
    weighted = MomentSummary(3, 3).update(x, counts)
    repeated = summary(np.repeat(x, counts, axis=0), "a")
    assert weighted.sum_weights == repeated.sum_weights
    for a, b in zip(all_moments(weighted), all_moments(repeated), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@laws
@given(arrays(np.int8, (7, 3), elements=st.integers(-128, 127)))
def test_dtype_twins_give_equal_bytes(x):
    expected = summary(x.astype(np.float64), "a").to_bytes()
    wide = np.zeros((14, 6))
    wide[::2, ::2] = x
    frozen = x.astype(np.float64)
    frozen.setflags(write=False)
    dtypes = (np.int8, np.int32, np.int64, np.float32, np.longdouble, ">f8", ">i4")
    twins = [wide[::2, ::2], np.asfortranarray(frozen), frozen, *(x.astype(t) for t in dtypes)]
    for twin in twins:
        assert summary(twin, "a").to_bytes() == expected


@laws
@given(arrays_of(), st.floats(-1e3, 1e3), st.sampled_from([2.0**-40, 0.25, 8.0, 2.0**30]))
def test_moments_follow_a_change_of_units(x, offset, factor):
    a = summary(x, "a").moments(0, 1)
    b = summary(x * factor, "a").moments(0, factor)
    for t, (m, n) in enumerate(zip(a.distinct, b.distinct, strict=True)):
        assert np.abs(m - n).max() <= 1e-14 * largest_product(x, t)
    # E[(y1 − c)(y2 − c)] from raw moments
    c = summary(x, "a").moments(offset, 1)
    pair = a.distinct[2][0] - offset * (a.distinct[1][0] + a.distinct[1][1]) + offset**2
    scale = np.abs(x).max() ** 2 + offset**2 + 1e-300
    assert abs(c.distinct[2][0] - pair) <= 1e-14 * scale
