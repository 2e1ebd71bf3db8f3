"""Algebraic laws of summaries, on rows that Hypothesis makes up."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from momentmix import MomentSummary
from momentmix.errors import InputError

values = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-30, 1e12]), st.integers(-9, 9)
).map(lambda value: float(value) if abs(value) > 1e-200 else 0.0)


def tables(d=3, largest=12):
    return st.integers(1, largest).flatmap(lambda n: arrays(np.float64, (n, d), elements=values))


def summary(rows, shard, order=3, weights=None, **options):
    options |= {"shard_id": shard, "n_threads": 1}
    return MomentSummary(rows.shape[1], order, **options).update(rows, weights)


def largest_product(x, t):
    """Product of the t largest column sizes: what rounding errors of moments are relative to."""
    return np.sort(np.abs(x).max(axis=0))[::-1][:t].prod() + 1e-300


laws = settings(max_examples=30, deadline=None)


@laws
@given(tables(), tables())
def test_subtracting_undoes_adding(x, y):
    a, b = summary(x, "a"), summary(y, "b")
    back = (a + b) - b
    assert back == a
    assert back.n_rows == len(x)
    assert (back.mean == a.mean).all()
    assert (back.minimum <= x.min(axis=0)).all()
    assert (back.maximum >= x.max(axis=0)).all()
    assert ((a + b) - a) - b == MomentSummary(3, 3)


@laws
@given(
    st.lists(
        arrays(np.float64, (6, 3), elements=st.integers(-9, 9).map(float)), min_size=3, max_size=3
    ),
    st.data(),
)
def test_subtracting_after_forgetting_is_right_or_refused(parts, data):
    """Rows of any shard are forgotten from a shard or from a sum, before or after adding."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    parts = [part + rng.standard_normal(part.shape) for part in parts]
    made = {name: summary(x, name, 2) for name, x in zip("abc", parts, strict=True)}
    rows = dict(zip("abc", parts, strict=True))
    early = data.draw(st.sampled_from([None, "a", "b"]))
    late = data.draw(st.sampled_from([None, "a", "b", "c"]))
    both = data.draw(st.booleans())  # forgotten from the shard that is subtracted, too
    subtracted = data.draw(st.sampled_from(["a", "b", "ab"]))
    fresh = {name: part.copy() for name, part in made.items()}
    gone = {name: set() for name in "abc"}
    if early:
        made[early].forget(rows[early][:2])
        gone[early] |= {0, 1}
    total = made["a"] + made["b"] + made["c"]
    if late:
        total.forget(rows[late][3:4])
        gone[late] |= {3}
    if data.draw(st.booleans()):
        total = MomentSummary.from_bytes(total.to_bytes())
    source = data.draw(st.sampled_from([made, fresh]))
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


@laws
@given(tables(), st.data())
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
    weighted = summary(x, "a", weights=counts).moments(0, 1)
    repeated = summary(np.repeat(x, counts, axis=0), "a").moments(0, 1)
    assert weighted.sum_weights == repeated.sum_weights
    for a, b in zip(
        weighted.distinct + weighted.squared, repeated.distinct + repeated.squared, strict=True
    ):
        assert a == pytest.approx(b, rel=1e-12, abs=1e-12)


@laws
@given(tables(d=4), st.permutations(range(4)))
def test_select_permutes_columns(x, order):
    chosen = summary(x, "a").select(list(order))
    direct = summary(x[:, list(order)], "a")
    for t in (1, 2, 3):
        a, b = chosen.tensor(t, 0, 1).values, direct.tensor(t, 0, 1).values
        assert np.abs(a - b).max() <= 1e-14 * largest_product(x, t)
    inverse = np.argsort(order).tolist()
    assert chosen.select(inverse).to_bytes() == summary(x, "a").to_bytes()


@laws
@given(arrays(np.int8, (7, 3), elements=st.integers(-128, 127)))
def test_dtype_twins_give_equal_bytes(x):
    expected = summary(x.astype(np.float64), "a").to_bytes()
    for dtype in (np.int8, np.int32, np.int64, np.float32, np.longdouble, ">f8", ">i4"):
        assert summary(x.astype(dtype), "a").to_bytes() == expected
    fortran = np.asfortranarray(x.astype(np.float64))
    assert summary(fortran, "a").to_bytes() == expected
    wide = np.zeros((14, 6))
    wide[::2, ::2] = x
    assert summary(wide[::2, ::2], "a").to_bytes() == expected
    frozen = x.astype(np.float64)
    frozen.setflags(write=False)
    assert summary(frozen, "a").to_bytes() == expected


@laws
@given(tables())
def test_bytes_and_pickle_come_back(x):
    a = summary(x, "a", feature_names=["x", "y", "é\n"])
    data = a.to_bytes()
    twin = MomentSummary.from_bytes(data)
    assert twin.to_bytes() == data
    assert twin == a
    assert pickle.loads(pickle.dumps(a)).to_bytes() == data
    assert (twin.minimum == x.min(axis=0)).all()
    assert (twin.maximum == x.max(axis=0)).all()
    assert (twin.mean == a.mean).all()


@laws
@given(tables(d=4))
def test_truncating_commutes_with_adding(x):
    a, b = summary(x, "a", order=4), summary(x[::-1] + 1, "b", order=4)
    assert (a + b).truncate(2).to_bytes() == (a.truncate(2) + b.truncate(2)).to_bytes()


@laws
@given(tables(), st.floats(-1e3, 1e3), st.sampled_from([2.0**-40, 0.25, 8.0, 2.0**30]))
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
