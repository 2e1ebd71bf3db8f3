"""MomentSummary: shards, merging, forgetting, names, frames, threads."""

import tracemalloc

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from momentmix import MomentSummary, summarize
from momentmix.errors import InputError, InputTypeError, ShardError


def normal(n=50, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def made(rows, shard="a", order=3, **options):
    return MomentSummary(rows.shape[1], order, shard_id=shard, **options).update(rows)


# -- shards and merging -----------------------------------------------------------------------


def test_the_same_shard_twice_is_refused_with_its_id():
    a, b = made(normal()), made(normal(seed=1), "b")
    (shard,) = a.shard_ids
    for action in (lambda: a + a, lambda: (a + b) + a, lambda: a + a.copy()):
        with pytest.raises(ShardError, match=rf"shard {shard} is in both.*count twice") as caught:
            action()
        assert caught.value.shard_ids == (shard,)
    both = a + b
    with pytest.raises(ShardError, match=r"shards .* are in both"):
        both += both.copy()
    assert both.n_rows == 100


def test_subtracting_what_was_never_added_points_to_forget():
    a, b = made(normal()), made(normal(seed=1), "b")
    with pytest.raises(ShardError, match=r"not in the summary.*MomentSummary.forget") as caught:
        a - b
    assert caught.value.shard_ids == b.shard_ids


def test_shard_ids_by_the_caller():
    text, binary, other = (made(normal(), name) for name in ("one", b"one", "two"))
    assert text.shard_ids == binary.shard_ids != other.shard_ids
    assert len((text + other).shard_ids) == 2


def test_merging_needs_alike_summaries():
    a = made(normal())
    with pytest.raises(InputError, match=r"same features; got 4 and 5.*select"):
        a + made(normal(d=5), "b")
    with pytest.raises(InputError, match=r"same orders.*truncate\(2, 1\)"):
        a + made(normal(), "b", order=2)
    with pytest.raises(InputTypeError, match=r"MomentSummary only; got ndarray.*update"):
        a - normal()
    with pytest.raises(InputTypeError, match=r"MomentSummary only; got int"):
        a + 3
    assert a != "something else"


def test_truncate_and_select():
    a = made(normal(d=5), order=4, feature_names=list("vwxyz"))
    low = a.truncate(2)
    assert (low.order, low.squared_order) == (2, 1)
    assert (low.moments().distinct[2] == a.moments().distinct[2]).all()
    with pytest.raises(InputError, match=r"truncate can only lower order=4"):
        a.truncate(5)
    part = a.select(["z", "v"])
    assert part.feature_names == ("z", "v")
    assert (part.order, part.squared_order) == (2, 1)
    assert part.moments().distinct[2] == a.moments().distinct[2][6]
    assert part.moments().squared[1][0] == pytest.approx(a.moments().squared[1][4, :1], rel=1e-13)
    with pytest.raises(InputError, match=r"no feature named 'q'; there are 'v'"):
        a.select(["q"])
    with pytest.raises(InputError, match=r"different numbers in 0…4"):
        a.select([0, 0, 1, 2, 3])


# -- forgetting -------------------------------------------------------------------------------


def test_forget_refuses_the_implausible():
    rows = normal(50)
    summary, untouched = made(rows), made(rows)
    outside = rows[:1] + 100
    with pytest.raises(InputError, match=r"column 0 goes from .* outside .* never added"):
        summary.forget(outside)
    with pytest.raises(InputError, match=r"holds 50 rows .*50 rows .* new summary"):
        summary.forget(rows)
    with pytest.raises(InputError, match=r"negative variance"):
        summary.forget(np.repeat(rows[[rows[:, 0].argmax(), rows[:, 0].argmin()]], 20, axis=0))
    with pytest.raises(InputError, match=r"row 0, column 1 is NaN"):
        summary.forget([[0, np.nan, 0, 0]])
    assert summary.to_bytes() == untouched.to_bytes()


def test_weights_that_would_be_lost_are_refused():
    weights = np.array([1e-4, 1e8, 1e8, 1e8, 1e8])
    summary = MomentSummary(4, 2, shard_id="a").update(normal(5), weights)
    with pytest.raises(InputError, match=r"In the weights these rows are about 10\^13 times"):
        summary.forget(normal(5)[1:], weights[1:])


REFUSED = "from which different rows were forgotten"


def test_forgotten_rows_are_not_taken_away_again_with_their_shard():
    rows = normal(300)
    a, b = made(rows), made(normal(seed=1), "b")
    total = (a + b).forget(rows[:10])
    again = MomentSummary.from_bytes(total.to_bytes())
    before = a.copy().forget(rows[:10])
    for late in (total, again, before + b):
        with pytest.raises(ShardError, match=REFUSED):
            late - a
        rest = late - before  # the same rows are forgotten from both
        assert rest.mean == pytest.approx(b.mean, rel=1e-12)
        assert (rest.n_rows, rest.n_forgotten) == (b.n_rows, 0)
        assert (rest - b).n_rows == 0
    with pytest.raises(ShardError, match=REFUSED):
        (a + b) - before


def test_rows_forgotten_from_other_shards_do_not_matter():
    rows, other = normal(300), normal(seed=1)
    tables = zip("abc", (rows, other, normal(seed=2)), strict=True)
    a, b, c = (made(table, name) for name, table in tables)
    late = b.copy().forget(other[:5])
    assert (a + late) - a == late
    assert ((a + late) - a).n_forgotten == 5
    in_two_steps = (a + b).forget(rows[:4]).forget(rows[4:10]) + c
    assert (in_two_steps - c).n_rows == a.n_rows + b.n_rows - 10
    with pytest.raises(ShardError, match=REFUSED):
        in_two_steps - b
    rest = in_two_steps - a.copy().forget(rows[4:10]).forget(rows[:4])  # in any order
    assert rest.mean == pytest.approx((b + c).mean, abs=1e-12)
    with pytest.raises(ShardError, match=REFUSED):
        in_two_steps - a.copy().forget(rows[:9])
    with pytest.raises(ShardError, match=REFUSED):
        in_two_steps - a.copy().forget(rows[1:11])


def test_forget_can_be_weighted():
    rows = normal(60)
    summary = made(rows)
    summary.forget(rows[:2], sample_weight=[0.5, 1.0])
    assert summary.sum_weights == 58.5


# -- names and data frames --------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_data_frames_bring_names(frame):
    rows = normal(30, 3)
    columns = {"a": rows[:, 0], "b": rows[:, 1].astype(np.float32), "c": np.arange(30)}
    summary = MomentSummary(3, 2, shard_id="a").update(frame(columns))
    assert summary.feature_names == ("a", "b", "c")
    values = np.column_stack(list(columns.values()))
    assert summary.to_bytes() == made(values, order=2, feature_names=["a", "b", "c"]).to_bytes()
    swapped = {name: columns[name] for name in "acb"}
    again = MomentSummary(3, 2, shard_id="a").update(frame(columns)).update(frame(swapped))
    both = np.concatenate([values, values])
    assert again.to_bytes() == made(both, order=2, feature_names=["a", "b", "c"]).to_bytes()
    assert again.forget(frame(swapped)).n_rows == 30
    other = {"a": columns["a"], "b\n": columns["b"], "c": columns["c"]}
    for refused in (summary.update, summary.forget):
        with pytest.raises(
            InputError, match=r"of the summary.*'b' is missing and 'b\\n' is not.*'a', 'b', 'c'"
        ):
            refused(frame(other))
        with pytest.raises(InputError, match=r"'b' is missing\. Add or rename"):
            refused(frame({"a": columns["a"], "c": columns["c"]}))
        with pytest.raises(InputError, match=r"'x', 'y' are not among them\. Drop"):
            refused(frame({"x": ["no number"] * 30, **columns, "y": columns["a"]}))
    with pytest.raises(InputTypeError, match=r"real numbers; column 'b' holds text"):
        summary.update(frame({**columns, "b": ["x"] * 30}))
    assert summary.n_rows == 30
    names = ("a", "b", "c")
    assert summarize(frame(columns), 2, columns=list(names)).feature_names == names
    plain = MomentSummary(3, 2).update(values)
    with pytest.raises(InputError, match=r"filled without any"):
        plain.update(frame(columns))


def test_names_must_agree_in_a_merge():
    a = made(normal(), feature_names=["a", "b", "c", "d"])
    with pytest.raises(InputError, match=r"column 3 \('d'\) is 'x\\n'.*Rename"):
        a + made(normal(), "b", feature_names=["a", "b", "c", "x\n"])
    assert (a + made(normal(), "c")).feature_names == ("a", "b", "c", "d")


# -- frame, threads ---------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "weighted"), [(7000, False), (7000, True), (200_000, True)])
def test_the_result_does_not_depend_on_the_cuts_between_calls(n, weighted):
    """Nor on threads: blocks have grown from 1,024 to 4,096 rows by the end."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((n, 5)) * 10.0 ** rng.integers(-4, 4, 5)
    rows[:1500, 0] = 4.0
    rows[:, 1] += np.arange(n) / 500 * rows[:, 1].std()
    weights = rng.integers(0, 3, n) if weighted else np.ones(n)

    def empty(n_threads):
        return MomentSummary(5, 3, shard_id="a", n_threads=n_threads)

    expected = empty(1).update(rows, weights).to_bytes()
    for n_threads in (1, 2, 3):
        summary = empty(n_threads)
        for part in np.split(np.arange(n), np.sort(rng.choice(n, 12, replace=False))):
            if weights[part].any():
                summary.update(rows[part], weights[part])
            _ = summary.minimum
        assert summary.to_bytes() == expected


def test_standardised_by_default():
    rows = normal(2000, 5) * 7 + 3
    rows[:, 4] = 2.5  # constant: its size is the scale
    moments = summarize(rows, 3).moments()
    assert moments.distinct[0].tolist() == [1.0]
    assert moments.distinct[1] == pytest.approx(np.zeros(5), abs=1e-15)
    assert moments.squared[0][:4, 0] == pytest.approx(np.ones(4), rel=1e-14)
    assert moments.scale[4] == 2.5
    assert summarize(rows * [1, 1, 1, 1, 0], 3).moments().scale[4] == 1.0
    assert moments.squared[0][4, 0] == 0.0
    assert (moments.order, moments.squared_order) == (3, 2)


def test_numpy_integers_are_numbers():
    number = np.int64
    summary = MomentSummary(number(4), number(3), None, number(1), shard_id="a")
    assert summary.update(normal()).to_bytes() == made(normal(), squared_order=1).to_bytes()
    assert summary.truncate(number(2)).select(np.arange(3)).n_features == 3


def test_repr():
    summary = made(normal(2000))
    assert repr(summary) == "MomentSummary(2,000 rows, 4 columns, order 3, 1 shard)"
    assert repr(MomentSummary(1, 1)) == "MomentSummary(0 rows, 1 column, order 1, 0 shards)"
    few = MomentSummary(4, 3, squared_order=1).update(normal(2000))
    assert repr(few) == "MomentSummary(2,000 rows, 4 columns, order 3, 1 shard, squared order 1)"
    table = {"x": [1.5, 2.0, 4.5], "plan": ["a", "b", "c"]}
    assert repr(summarize(table)) == (
        "MomentSummary(3 rows, 2 columns as 3 features, order 3, 1 shard)"
    )


def test_float32_input_is_cast_block_by_block():
    rows = np.random.default_rng(0).standard_normal((200_000, 6)).astype(np.float32)
    summary = MomentSummary(6, 2, n_threads=1)
    tracemalloc.start()
    summary.update(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes
