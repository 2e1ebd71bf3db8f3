"""momentmix.dask on local threads and on a cluster: same bytes, same fits, lazy predictions."""

import importlib
import io
import os
import pickle
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from dask.delayed import delayed
from distributed import Client

import momentmix as mm
from momentmix import dask as mmd
from momentmix.engines.dask_opening import open_collection
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import (
    ClusterError,
    DecompositionError,
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    ShardError,
)

TRUTH = mm.DiagonalMixture(
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
    assert mmd.summarize(lazy, 3, shard_id="x", client=client).to_bytes() == wanted
    persisted = client.persist(lazy)
    assert mmd.summarize(persisted, 3, shard_id="x", client=client).to_bytes() == wanted


def test_frames_keep_names_and_bytes(client):
    frame = dd.from_pandas(FRAME, npartitions=7)
    parts = [frame.partitions[i].compute() for i in range(7)]
    found = mmd.summarize(frame, 3, shard_id="x", squared_order=1, client=client)
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
        scores = mmd.score_samples(mixture, frame)
    np.testing.assert_allclose(scores.compute(), mixture.log_prob(ROWS[:9]), rtol=1e-12)


def test_columns_that_share_a_name_are_taken_by_number(tmp_path):
    shared = FRAME.set_axis(["a", "b", "a", "c"], axis=1)
    parts = [delayed(shared[:5]), delayed(shared[5:9])]
    with pytest.raises(InputError, match=r"repeated: 'a' \(columns 0, 2\)"):
        mmd.summarize(parts, 2)
    found = mmd.summarize(parts, 2, columns=[2, "b"])
    np.testing.assert_allclose(found.mean, ROWS[:9, [2, 1]].mean(axis=0), rtol=1e-12)
    other = delayed(shared[5:9].iloc[:, [2, 0, 1, 3]])
    with pytest.raises(InputError, match="partition 1 have different columns, which are matched"):
        mmd.summarize([parts[0], other], 2, columns=[2, "b"])
    table = pa.Table.from_arrays(list(ROWS.T), names=list(shared.columns))
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    found = mmd.summarize(tmp_path / "x.parquet", 2, columns=[2, 0])
    np.testing.assert_allclose(found.mean, ROWS[:, [2, 0]].mean(axis=0), rtol=1e-12)
    assert found.feature_names == ("a [2]", "a [0]")


def test_the_default_shard_ids_are_the_same_for_the_same_data():
    again = da.from_array(ROWS.copy(), chunks=(3000, 3))
    one = mmd.summarize(ARRAY, 2)
    assert mmd.summarize(again, 2).to_bytes() == one.to_bytes()
    with pytest.raises(ShardError, match="count twice"):
        _ = one + mmd.summarize(again, 2)
    other = mmd.summarize(da.from_array(ROWS + 1, chunks=(3000, 3)), 2)
    assert (one + other).n_rows == 2 * len(ROWS)


def test_the_tree_changes_no_byte(monkeypatch):
    wanted = mmd.summarize(ARRAY, 3, shard_id="x").to_bytes()
    for fan_in in (2, 100):
        monkeypatch.setattr("momentmix.engines.dask_schedule.FAN_IN", fan_in)
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


def test_blocks_that_are_delayed_or_scattered(client):
    parts = cut(ROWS, 9000)
    wanted = in_one_process(parts, 2)
    made = [delayed(np.array)(part) for part in parts]
    assert mmd.summarize(made, 2, shard_id="x").to_bytes() == wanted
    futures = client.scatter(parts)
    found = mmd.summarize(futures, 2, client=client)
    assert mmd.summarize(futures, 2, shard_id="x", client=client).to_bytes() == wanted
    backwards = mmd.summarize(futures[::-1], 2, client=client)
    assert backwards.to_bytes() == found.to_bytes()  # the ids go by the blocks' own keys
    frames = [delayed(pd.DataFrame)(part, columns=list("abcd")) for part in parts]
    assert mmd.summarize(frames, 2).feature_names == tuple("abcd")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files of three formats; one holds more than a part of 2^20 rows."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("data")
    rng = np.random.default_rng(0)
    columns = ["u", "v"]
    pd.DataFrame(rng.normal(size=(1_060_000, 2)).astype("f4"), columns=columns).to_parquet(
        "data/a.parquet", row_group_size=300_000
    )
    pd.DataFrame(rng.normal(size=(3_000, 2)), columns=columns).to_csv("data/b.csv", index=False)
    pd.DataFrame(rng.normal(size=(10, 2)), columns=columns[::-1]).to_parquet("data/c.parquet")
    pd.DataFrame(np.empty((0, 2)), columns=columns).to_parquet("data/d.parquet")
    return tmp_path


def test_files_give_the_bytes_of_the_command(folder, momentmix, client):
    assert momentmix("summarize", "data", "-o", "all.mms", "-m", "2").code == 0
    found = mmd.summarize("data", 2, client=client)
    assert found.n_rows == 1_063_010
    assert len(found.shard_ids) == 4
    assert found.to_bytes() == (folder / "all.mms").read_bytes()
    rows = open_collection("data", Schedule())
    places = np.array([0, 1_048_575, 1_048_576, 1_060_000, 1_063_009])
    whole = np.concatenate(list(mm.open_rows("data").blocks()))
    assert rows.n_rows == len(whole)
    np.testing.assert_array_equal(rows.take(places), whole[places])
    (count,) = rows.sum_blocks(lambda block: (len(block),))
    assert count == len(whole)


def test_files_that_are_lost_doubled_or_changed(folder, monkeypatch):
    rows = open_collection(["data/b.csv", "data/c.parquet"], Schedule())
    os.utime("data/b.csv", ns=(1, 1))
    with pytest.raises(InputError, match=r"b\.csv changed while it was being read"):
        rows.summary(1, 0)
    os.remove("data/b.csv")
    with pytest.raises(InputError, match=r"b\.csv does not exist where the worker runs"):
        rows.summary(1, 0)
    (folder / "twin.parquet").write_bytes((folder / "data" / "c.parquet").read_bytes())
    with pytest.raises(InputError, match="same rows are given twice"):
        mmd.summarize(["data/c.parquet", "twin.parquet"], 1)


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
    summary = mmd.summarize(lazy, 3, client=client)
    assert sum(gathered) < 1.2 * len(summary.to_bytes()) + 10_000
    assert lazy.nbytes > 100 * sum(gathered)
    gathered.clear()
    result = mmd.fit(lazy, 1, random_state=0, client=client)
    sample = 40_000 * 4 * 8
    assert sum(gathered) < 1.05 * sample + 20_000 * (1 + result.n_passes)


def test_asking_for_blocks_is_refused():
    rows = open_collection(ARRAY, Schedule())
    with pytest.raises(InputTypeError, match="lie on a cluster and are not brought here"):
        rows.blocks()


# -- fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"blocks": [[0, 2]]}, {"blocks": [range(4)]}, {"blocks": "auto"}],
)
def test_a_fit_equals_the_one_in_memory(client, options):
    frame = dd.from_pandas(FRAME, npartitions=5)
    found = mmd.fit(frame, 2, random_state=0, client=client, **options)
    wanted = mm.fit(ROWS, 2, random_state=0, **options)
    assert found.mixture.feature_names == tuple("abcd")
    assert (found.n_rows, found.n_passes) == (wanted.n_rows, wanted.n_passes)
    assert found.mixture.parameters.blocks == wanted.mixture.parameters.blocks
    for name in ("weights", "means", "covariances"):
        expected = getattr(wanted.mixture, name)
        np.testing.assert_allclose(getattr(found.mixture, name), expected, rtol=1e-8, atol=1e-8)
    assert found.certificate.passed == wanted.certificate.passed


def test_the_printed_algorithm():
    rows = mm.DiagonalMixture([0.4, 0.6], 9 * np.eye(2, 6), np.ones((2, 6))).sample(9000, 0)[0]
    found = mmd.fit(da.from_array(rows, chunks=(2000, 6)), 2, method="paper", random_state=0)
    wanted = mm.fit(rows, 2, method="paper", random_state=0)
    np.testing.assert_allclose(found.mixture.means, wanted.mixture.means, rtol=1e-6, atol=1e-6)


def test_a_fit_finds_the_number_of_components():
    assert mmd.fit(ARRAY, "auto", random_state=0).mixture.n_components == 2


def test_rows_that_are_not_the_same_each_time(tmp_path):
    def fewer(block):
        (tmp_path / os.urandom(8).hex()).touch()
        return block[len(list(tmp_path.iterdir())) :]

    lazy = da.from_array(ROWS, chunks=(25_000, 4)).map_blocks(fewer, meta=np.empty((0, 0)))
    with pytest.raises(InputError, match=r"partition 0 had \d+ rows in the first pass and has"):
        mmd.fit(lazy, 2, random_state=0)


# -- predictions ------------------------------------------------------------------------------

CALLS = [
    ("predict", "predict"),
    ("predict_proba", "responsibilities"),
    ("score_samples", "log_prob"),
]


@pytest.mark.parametrize(("lazily", "at_once"), CALLS)
def test_predictions_of_arrays(lazily, at_once):
    wanted = getattr(TRUTH, at_once)(ROWS)
    found = getattr(mmd, lazily)(TRUTH, ARRAY)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.chunks[0] == ARRAY.chunks[0]
    assert type(found._meta) is np.ndarray
    np.testing.assert_allclose(found.compute(), wanted, rtol=1e-10)
    np.testing.assert_allclose(found[4000:4010].compute(), wanted[4000:4010], rtol=1e-10)
    some = getattr(mmd, lazily)(TRUTH, ARRAY[ARRAY[:, 0] > 0])  # unknown chunks, some maybe empty
    np.testing.assert_allclose(some.compute(), wanted[ROWS[:, 0] > 0], rtol=1e-10)


@pytest.mark.parametrize(("lazily", "at_once"), CALLS)
def test_predictions_of_frames(lazily, at_once, client):
    table = FRAME[["d", "c", "b", "a"]].assign(other=1.0)
    table.index = table.index * 2 + 7
    frame = dd.from_pandas(table, npartitions=4)
    wanted = getattr(TRUTH, at_once)(ROWS)
    found = getattr(mmd, lazily)(TRUTH, frame)
    assert found.divisions == frame.divisions
    assert not (tmp := found.loc[7:20]).compute().empty
    assert len(tmp) == 7
    computed = client.compute(found).result()
    pd.testing.assert_index_equal(computed.index, table.index)
    np.testing.assert_allclose(computed.to_numpy(), wanted, rtol=1e-10)
    meta = found._meta
    if lazily == "predict_proba":
        assert list(meta.columns) == list(computed.columns) == ["probability_0", "probability_1"]
        assert (meta.dtypes == computed.dtypes).all()
    else:
        assert meta.name == computed.name == {"predict": "label"}.get(lazily, "log_density")
        assert meta.dtype == computed.dtype


def test_predictions_take_a_result_and_empty_partitions():
    frame = dd.from_pandas(FRAME, npartitions=3)
    result = mmd.fit(frame, 2, random_state=0)
    none = frame[frame["a"] > 1e9]
    assert mmd.predict(result, none).compute().empty
    assert mmd.predict_proba(result, none).compute().shape == (0, 2)
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
    (lambda: ROWS, "got ndarray. Rows in this process go to momentmix.summarize"),
    (lambda: delayed(ROWS), "got one Delayed object. Put it in a list"),
    (lambda: mm.summarize(ROWS, 2), "needs no cluster any more; pass it to momentmix.fit"),
    (lambda: [], "got list"),
    (lambda: ARRAY[:, 0], r"the dask.array has 1 dimension\(s\), shape \(25000,\)"),
    (lambda: da.zeros((4, 4))[:, da.zeros(4) == 0], "number of columns must be known"),
    (lambda: da.from_array(ROWS * 1j), "must be real numbers; .* is complex"),
    (lambda: da.from_array(with_value(np.nan), chunks=(10, 2)),
     "partition 2, row 3, column 1, is missing or NaN. Say why"),
    (lambda: dd.from_pandas(pd.DataFrame(with_value(-np.inf), columns=list("abcd")), 5),
     "partition 2, row 3, column 'b' is -inf"),
    (lambda: da.from_array(with_value(1e305), chunks=(10, 4)),
     "below 2^1000 .* partition 2, row 3, column 1 is 1e.305"),
    (lambda: dd.from_pandas(FRAME[:9].assign(e="text"), 2), r"these do not: 'e' \(object|str"),
    (lambda: frame_of(FRAME[:5], FRAME[["a", "b"]][:5]),
     "the same columns; compared with the collection, partition 1 lacks 'c', 'd'"),
    (lambda: frame_of(FRAME[:5], FRAME[:5].rename(columns={"a": "z"})),
     "partition 1 lacks 'a' and partition 1 also has 'z'"),
    (lambda: frame_of(FRAME[:5], FRAME[:5].astype({"a": str})), "partition 1: columns must hold"),
    (lambda: [delayed(ROWS[:5]), delayed(ROWS[:5, :2])], "the collection has 4, partition 1 has 2"),
    (lambda: [delayed(ROWS[:5]), delayed("text")], "partition 1: rows must have shape"),
    (lambda: 2 * [delayed(ROWS[:5], name="one")], "the list holds 'one' 2 times"),
    (lambda: ARRAY[:0], "at least one row; all 1 partition"),
    (lambda: frame_of(FRAME[:0], FRAME[:0]), r"at least one row; all 2 partition\(s\) are empty"),
    (lambda: "no/such/folder", "no/such/folder does not exist"),
    (lambda: "s3://bucket/rows", "Pass dask.dataframe.read_parquet"),
    (lambda: ["a.csv", "https://x/y.csv"], "got 'https://x/y.csv'"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_rows_are_refused(make, message):
    with pytest.raises(MomentmixError, match=message.replace("^", r"\^")):
        mmd.summarize(make(), 2)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: mmd.summarize(ARRAY, 9), InputError, "order"),
        (lambda: mmd.summarize(ARRAY, 2, columns=[7]), InputError, "column 7 was asked for"),
        (lambda: mmd.summarize(ARRAY, 2, columns=["a"]), InputError, "has no column 'a'"),
        (lambda: mmd.summarize(ARRAY, 2, missing="fill"), InputError, "'mar', 'model' or 'drop'"),
        (lambda: mmd.summarize(ARRAY, 2, client="tcp://x"), InputTypeError, "distributed.Client"),
        (lambda: mmd.summarize(ARRAY, 2, retries=-1), InputError, "retries"),
        (lambda: mmd.summarize("x.csv", 2, shard_id="x"), InputError, "shard_id= is for Dask"),
        (lambda: mmd.summarize("x.csv", 2), NoInputError, "x.csv does not exist"),
        (lambda: mmd.predict(TRUTH, ROWS), InputTypeError, "got ndarray. Load files"),
        (lambda: mmd.predict(1, ARRAY), InputTypeError, "got int"),
        (lambda: mmd.predict(TRUTH, ARRAY[:, :3]), InputError,
         "the collection must have the 4 columns of the mixture; got 3"),
        (lambda: mmd.predict(TRUTH, dd.from_pandas(FRAME[["a"]], 2)), InputError,
         "the collection: .* 'b', 'c', 'd' are missing"),
        (lambda: mmd.predict(mm.DiagonalMixture([1], [[0]], [[1]]), dd.from_pandas(FRAME, 2)),
         InputError, "the 1 columns of the mixture; got 4"),
        (lambda: mmd.predict(TRUTH, da.from_array(with_value(np.nan), chunks=(10, 4))).compute(),
         InputError, "partition 2, row 3, column 1, is missing"),
        (lambda: mmd.predict(
            TRUTH, dd.from_pandas(pd.DataFrame(with_value(np.nan), columns=list("abcd")), 5)
        ).compute(), InputError, "partition 2, row 3, column 'b', is missing"),
        (lambda: mm.summarize(ARRAY, 2), InputTypeError, "got a Dask collection .Array"),
        (lambda: mm.fit(dd.from_pandas(FRAME, 2), 2), InputTypeError, "got a Dask collection"),
        (lambda: mm.MomentGaussianMixture().fit(ARRAY), InputTypeError, "momentmix.dask.summarize"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_tasks_that_raise_are_tried_again_and_then_given_up(client, tmp_path):
    def flaky(block, n_failures):
        tries = len(list(tmp_path.iterdir()))
        (tmp_path / os.urandom(8).hex()).touch()
        if tries < n_failures:
            raise OSError("storage is tired")
        return block

    def lazy(n_failures):
        return da.from_array(ROWS, chunks=(25_000, 4)).map_blocks(
            flaky, n_failures, meta=np.empty((0, 0)), name=os.urandom(8).hex()
        )

    assert mmd.summarize(lazy(2), 2, client=client).n_rows == len(ROWS)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(ClusterError, match=r"failed 2 times with OSError: storage .* No part of"):
        mmd.summarize(lazy(9), 2, client=client, retries=1)
    with pytest.raises(ClusterError, match="failed 1 time with OSError"):
        mmd.summarize(lazy(99), 2)


def test_an_asynchronous_client_is_refused(client, monkeypatch):
    monkeypatch.setattr(Client, "asynchronous", property(lambda self: True))
    with pytest.raises(InputTypeError, match="must not be asynchronous"):
        mmd.summarize(ARRAY, 2, client=client)


def test_a_closed_client_is_told(client):
    with Client(client.cluster, set_as_default=False) as one:
        pass
    with pytest.raises(ClusterError, match="connection to the scheduler is closed"):
        mmd.summarize(ARRAY, 2, client=one)


# -- the rest ---------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("there", [False, True])
def test_progress_shows_on_a_terminal_only(there, client, monkeypatch):
    given = {"client": client} if there else {}
    monkeypatch.setattr("momentmix.progress.DELAY", 0.0)
    monkeypatch.setattr("momentmix.progress.INTERVAL", 0.0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        mmd.summarize(ARRAY, 2, **given)
        drawn = stream.getvalue()
        assert ("Summarizing" in drawn, "100%" in drawn) == (shown, shown)
        mmd.summarize(ARRAY, 2, progress=False, **given)
        assert stream.getvalue() == drawn
    mmd.summarize(ARRAY, 2, progress=True, **given)
    assert "partitions/s" in stream.getvalue()
    with pytest.raises(InputTypeError, match="progress must be True, False or None; got 'bar'"):
        mmd.summarize(ARRAY, 2, progress="bar", **given)


@pytest.mark.parametrize(
    "error",
    [
        ShardError("twice", shard_ids=("ab",)),
        DecompositionError("no", condition="residual", diagnostics={"a": 1}),
        InputError("bad"),
    ],
)
def test_errors_travel_between_processes(error):
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


def test_the_current_client_is_taken(client):
    with client.as_current():
        assert Schedule()._client() is client
    with Client(client.cluster, set_as_default=True) as default:
        assert Schedule()._client() is default
    assert Schedule()._client() is None


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "momentmix.dask")
    with pytest.raises(MissingDependencyError, match=r"pip install momentmix\[dask\]"):
        importlib.import_module("momentmix.dask")
