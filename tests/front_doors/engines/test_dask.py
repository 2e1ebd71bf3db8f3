"""momentmix.dask on local threads and on a cluster: same bytes, same fits, lazy predictions."""

import importlib
import os
import pickle
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from distributed import Client

import momentmix as mm
from momentmix import dask as mmd
from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
)

TRUTH = mm.Mixture.diagonal(
    [0.4, 0.6], [[-3.0, 0.0, 2.0, 1.0], [3.0, 1.0, -2.0, 0.0]], np.ones((2, 4)), list("abcd")
)
ROWS = TRUTH.sample(25_000, random_state=0)[0]
ARRAY = da.from_array(ROWS, chunks=(3000, 3))
FRAME = pd.DataFrame(ROWS, columns=list("abcd"))


@pytest.fixture(scope="module")
def client():
    """A cluster in this process: a real scheduler and two workers, which start at once."""
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, silence_logs=50,
        dashboard_address="127.0.0.1:0", set_as_default=False,
    ) as one:  # fmt: skip
        yield one


def in_one_process(parts, order, **options):
    summaries = [
        mm.summarize(part, order, shard_id=f"x/{i}", **options)
        for i, part in enumerate(parts)
        if len(part)
    ]
    return sum(summaries).to_bytes()


def cut(rows, size):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


# -- summaries --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_bytes_are_those_of_one_process(client, dtype):
    rows = (100 * ROWS).astype(dtype)
    lazy = da.from_array(rows, chunks=(1000, 3))  # rows of a block come from two chunks
    wanted = in_one_process(cut(rows, 1000), 3)
    assert mmd.summarize(lazy, 3, shard_id="x").to_bytes() == wanted
    with client.as_current():
        assert mmd.summarize(lazy, 3, shard_id="x").to_bytes() == wanted
        persisted = client.persist(lazy)
        assert mmd.summarize(persisted, 3, shard_id="x").to_bytes() == wanted


def test_frames_keep_names_and_bytes(client):
    frame = dd.from_pandas(FRAME, npartitions=7)
    parts = [frame.partitions[i].compute() for i in range(7)]
    found = mmd.summarize(frame, 3, shard_id="x", squared_order=1)
    assert found.feature_names == tuple("abcd")
    assert found.to_bytes() == in_one_process(parts, 3, squared_order=1)
    few = mmd.summarize(frame, 2, columns=["d", "a"])
    assert few.feature_names == ("d", "a")
    np.testing.assert_allclose(few.mean, ROWS[:, [3, 0]].mean(axis=0), rtol=1e-12)


def test_numbers_are_those_of_the_collection_in_every_partition():
    frame = frame_of(FRAME[:5], FRAME[5:9][["d", "b", "a", "c"]])
    found = mmd.summarize(frame, 2, columns=[0, 3])
    assert found.feature_names == ("a", "d")
    np.testing.assert_allclose(found.mean, ROWS[:9, [0, 3]].mean(axis=0), rtol=1e-12)
    mixture = mm.fit(ROWS[:50], 1).mixture
    with pytest.warns(UserWarning, match="the mixture has none"):
        labels = mmd.predict(mixture, frame)
    np.testing.assert_array_equal(labels.compute(), mixture.predict(ROWS[:9]))


def test_the_tree_changes_no_byte(monkeypatch):
    wanted = mmd.summarize(ARRAY, 3, shard_id="x").to_bytes()
    for fan_in in (2, 100):
        monkeypatch.setattr("momentmix.dask._FAN_IN", fan_in)
        assert mmd.summarize(ARRAY, 3, shard_id="x").to_bytes() == wanted


def test_unknown_chunks_empty_and_dropped_rows():
    rows = ROWS.copy()
    rows[5, 2], rows[24_990, 0] = np.nan, np.inf
    lazy = da.from_array(rows, chunks=(5000, 4))
    lazy = lazy[lazy[:, 0] < 1e9]  # NaN and infinity are not; chunk sizes are unknown now
    kept = lazy.map_blocks(lambda block: block[:0] if block[0, 0] == rows[5000, 0] else block)
    parts = [part[part[:, 0] < 1e9] for part in cut(rows, 5000)]
    parts[1] = parts[1][:0]
    parts = [part[np.isfinite(part).all(axis=1)] for part in parts]
    found = mmd.summarize(kept, 2, shard_id="x", missing="drop")
    assert found.n_rows == sum(map(len, parts)) == 20_000 - 2
    assert found.to_bytes() == in_one_process(parts, 2)


# -- what travels -----------------------------------------------------------------------------


@pytest.fixture
def gathered(client, monkeypatch):
    """Sizes in bytes of everything that the client receives."""
    sizes, gather = [], Client._gather

    async def recorded(self, futures, *arguments, **options):
        found = await gather(self, futures, *arguments, **options)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Client, "_gather", recorded)
    return sizes


def test_rows_are_never_pulled_to_the_client(client, gathered):
    lazy = da.random.default_rng(0).normal(size=(400_000, 4), chunks=(20_000, 4))
    with client.as_current():
        summary = mmd.summarize(lazy, 3)
        assert 0 < sum(gathered) < 1.2 * len(summary.to_bytes()) + 10_000
        assert lazy.nbytes > 100 * sum(gathered)
        gathered.clear()
        result = mmd.fit(lazy, 1, random_state=0)
    sample = 40_000 * 4 * 8
    assert sum(gathered) < 1.05 * sample + 20_000 * (1 + result.n_passes)


# -- fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"blocks": [[0, 2]]}, {"blocks": [range(4)]}, {"blocks": "auto"}],
)
def test_a_fit_equals_the_one_in_memory(client, options):
    frame = dd.from_pandas(FRAME, npartitions=5)
    with client.as_current():
        found = mmd.fit(frame, 2, random_state=0, **options)
    wanted = mm.fit(ROWS, 2, random_state=0, **options)
    assert found.mixture.feature_names == tuple("abcd")
    assert (found.n_rows, found.n_passes) == (wanted.n_rows, wanted.n_passes)
    assert found.mixture.parameters.blocks == wanted.mixture.parameters.blocks
    for name in ("weights", "means", "covariances"):
        expected = getattr(wanted.mixture, name)
        np.testing.assert_allclose(getattr(found.mixture, name), expected, rtol=1e-8, atol=1e-8)
    assert found.certificate.passed == wanted.certificate.passed


def test_a_fit_finds_the_number_of_components():
    assert mmd.fit(ARRAY, "auto", random_state=0).mixture.n_components == 2


def test_rows_that_are_not_the_same_each_time(tmp_path):
    def fewer(block):
        (tmp_path / os.urandom(8).hex()).touch()
        return block[len(list(tmp_path.iterdir())) :]

    lazy = da.from_array(ROWS, chunks=(25_000, 4)).map_blocks(fewer, meta=np.empty((0, 0)))
    with pytest.raises(InputError, match="other numbers of rows in the first pass than now"):
        mmd.fit(lazy, 2, random_state=0)


# -- predictions ------------------------------------------------------------------------------


def test_predictions_of_arrays():
    wanted = TRUTH.predict(ROWS)
    found = mmd.predict(TRUTH, ARRAY)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.chunks[0] == ARRAY.chunks[0]
    assert type(found._meta) is np.ndarray
    np.testing.assert_array_equal(found.compute(), wanted)
    np.testing.assert_array_equal(found[4000:4010].compute(), wanted[4000:4010])
    some = mmd.predict(TRUTH, ARRAY[ARRAY[:, 0] > 0])  # unknown chunks, some maybe empty
    np.testing.assert_array_equal(some.compute(), wanted[ROWS[:, 0] > 0])


def test_predictions_of_frames(client):
    table = FRAME[["d", "c", "b", "a"]].assign(other=1.0)
    table.index = table.index * 2 + 7
    frame = dd.from_pandas(table, npartitions=4)
    found = mmd.predict(TRUTH, frame)
    assert found.divisions == frame.divisions
    assert len(found.loc[7:20].compute()) == 7
    computed = client.compute(found).result()
    pd.testing.assert_index_equal(computed.index, table.index)
    np.testing.assert_array_equal(computed.to_numpy(), TRUTH.predict(ROWS))
    assert found._meta.name == computed.name == "label"
    assert found._meta.dtype == computed.dtype


def test_predictions_take_a_result_and_empty_partitions():
    frame = dd.from_pandas(FRAME, npartitions=3)
    result = mmd.fit(frame, 2, random_state=0)
    none = frame[frame["a"] > 1e9]
    assert mmd.predict(result, none).compute().empty
    assert len(mmd.predict(result, frame).compute()) == len(ROWS)


# -- what is wrong is said --------------------------------------------------------------------


def with_value(value):
    rows = ROWS[:50].copy()
    rows[23, 1] = value
    return rows


def frame_of(*partitions):
    meta = FRAME.iloc[:0]
    return dd.from_delayed([delayed(part) for part in partitions], meta=meta, verify_meta=False)


BAD = [
    (lambda: ROWS, "got ndarray. Files become one"),
    (lambda: "x.csv", r"got str. Files become one by dask.dataframe.read_parquet"),
    (lambda: mm.summarize(ROWS, 2), "got MomentSummary. Files become one"),
    (lambda: [], "got list"),
    (lambda: ARRAY[:, 0], r"the dask.array has shape \(25000,\)"),
    (lambda: da.zeros((4, 4))[:, da.zeros(4) == 0], "known number of columns"),
    (lambda: da.from_array(ROWS * 1j), "must be real numbers; .* is complex"),
    (lambda: da.from_array(with_value(np.nan), chunks=(10, 2)),
     "partition 2, row 3, column 1, is missing or NaN. Say why"),
    (lambda: dd.from_pandas(pd.DataFrame(with_value(-np.inf), columns=list("abcd")), 5),
     "partition 2, row 3, column 'b' is -inf"),
    (lambda: da.from_array(with_value(1e305), chunks=(10, 4)),
     "below 2^1000 .* partition 2, row 3, column 1 is 1e.305"),
    (lambda: frame_of(FRAME[:5], FRAME[["a", "b"]][:5]),
     "partition 1: the columns must be those of the collection, .*'c', 'd' are missing"),
    (lambda: frame_of(FRAME[:5], FRAME[:5].rename(columns={"a": "z"})),
     "partition 1: .*'a' is missing and 'z' is not among"),
    (lambda: frame_of(FRAME[:5], FRAME[:5].astype({"a": str})),
     "must hold numbers; partition 1, row 0, column 'a' holds"),
    (lambda: ARRAY[:0], "at least one row; all 1 partition"),
    (lambda: frame_of(FRAME[:0], FRAME[:0]), r"at least one row; all 2 partition\(s\) are empty"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_rows_are_refused(make, message):
    with pytest.raises(MomentmixError, match=message.replace("^", r"\^")):
        mmd.summarize(make(), 2)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: mmd.summarize(ARRAY, 9), InputError, "order"),
        (lambda: mmd.summarize(ARRAY, 2, columns=[7]), InputError, "no column 7"),
        (lambda: mmd.summarize(ARRAY, 2, columns=["a"]), InputError, "has no column 'a'"),
        (lambda: mmd.summarize(ARRAY, 2, missing="fill"), InputError, "'mar', 'model' or 'drop'"),
        (lambda: mmd.predict(TRUTH, ROWS), InputTypeError, "got ndarray. Files become"),
        (lambda: mmd.predict(1, ARRAY), InputTypeError, "got int"),
        (lambda: mmd.predict(TRUTH, ARRAY[:, :3]), InputError,
         "the collection must have the 4 columns of the mixture; got 3"),
        (lambda: mmd.predict(TRUTH, dd.from_pandas(FRAME[["a"]], 2)), InputError,
         "the collection: .* 'b', 'c', 'd' are missing"),
        (lambda: mmd.predict(mm.Mixture.diagonal([1], [[0]], [[1]]), dd.from_pandas(FRAME, 2)),
         InputError, "the 1 columns of the mixture; got 4"),
        (lambda: mm.summarize(ARRAY, 2), InputTypeError, "got a Dask collection .Array"),
        (lambda: mm.fit(dd.from_pandas(FRAME, 2), 2), InputTypeError, "got a Dask collection"),
        (lambda: mm.MomentGaussianMixture().fit(ARRAY), InputTypeError, "momentmix.dask.summarize"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_missing_cell_is_left_out_of_the_density_as_here():
    rows = with_value(np.nan)
    expected = TRUTH.predict(rows)
    array = da.from_array(rows, chunks=(10, 4))
    frame = dd.from_pandas(pd.DataFrame(rows, columns=list("abcd")), 5)
    for lazy in (array, frame):
        np.testing.assert_array_equal(mmd.predict(TRUTH, lazy).compute(), expected)


def test_a_task_that_raises_is_retried_or_gives_no_part_of_an_answer(client, tmp_path):
    def fail_once(block, block_id=None):
        mark = tmp_path / str(block_id[0])
        if not mark.exists():
            mark.touch()
            raise OSError("storage is tired")
        return block

    lazy, wanted = ARRAY.map_blocks(fail_once, meta=np.empty((0, 0))), mmd.summarize(ARRAY, 2)
    with pytest.raises(OSError, match="storage is tired"):
        mmd.summarize(lazy, 2)
    with client.as_current():
        for mark in tmp_path.iterdir():
            mark.unlink()
        with pytest.raises(OSError, match="storage is tired"):
            mmd.summarize(lazy, 2)
        for mark in tmp_path.iterdir():
            mark.unlink()
        found = mmd.summarize(lazy, 2, retries=1)
    np.testing.assert_array_equal(found.mean, wanted.mean)


# -- the rest ---------------------------------------------------------------------------------


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.bag", None)
    monkeypatch.delitem(sys.modules, "momentmix.dask")
    with pytest.raises(MissingDependencyError, match=r"pip install momentmix\[dask\]"):
        importlib.import_module("momentmix.dask")
