"""Summaries of Ray datasets, against those of one process; with a local Ray of two CPUs."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix.errors import ClusterError, FitWarning, InputError, InputTypeError, ShardError

pytest.importorskip("ray.data")

import ray

from momentmix import ray as mmr
from momentmix.ray import block_digest

pytestmark = pytest.mark.filterwarnings("ignore")  # by Ray, of many kinds

N = 1200


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    patch = pytest.MonkeyPatch()
    patch.setenv("OPENBLAS_NUM_THREADS", "1")
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(num_cpus=2, **options)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
    patch.undo()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Numbers, gaps, text, booleans and days in two Hive folders."""
    rng = np.random.default_rng(0)
    table = pa.table({
        "a.b": rng.normal(100, 3, N),
        "gap": pa.array(rng.normal(size=N), mask=rng.random(N) < 0.1),
        "plan": pa.array(rng.choice(["basic", "gold", "trial"], N), mask=rng.random(N) < 0.05),
        "ok": rng.random(N) < 0.3,
        "store": rng.integers(0, 3, N),
        "day": np.datetime64("2026-01-01") + rng.integers(0, 20, N),
        "region": rng.choice(["EU", "US"], N),
    })  # fmt: skip
    folder = tmp_path_factory.mktemp("ray")
    pa.parquet.write_to_dataset(table, folder, partition_cols=["region"])
    return str(folder)


@pytest.fixture(scope="module")
def dataset(path, local_ray):
    """In blocks that are kept: to read them again takes Ray seconds."""
    return ray.data.read_parquet(path).repartition(5).materialize()


def test_numbers(dataset, path, check_same):
    columns = ["store", "a.b"]
    found = mmr.summarize(dataset, 2, columns=columns)
    check_same(found, mm.summarize(path, 2, columns=columns))
    assert len(found.shard_ids) == 5
    again = mmr.summarize(dataset, 2, columns=columns)
    assert again.to_bytes() == found.to_bytes()
    assert not dataset.context.execution_options.preserve_order
    with pytest.raises(ShardError):
        found + again  # no row counts twice
    named = mmr.summarize(dataset, 2, columns=columns, shard_id="copy")
    assert (found + named).n_rows == 2 * N


def test_blocks_with_the_same_rows_all_count(check_same):
    rows = pa.table({"x": [1.0, 2.5, 4.0], "y": [3.0, 1.0, 0.5], "g": ["a", "b", "b"]})
    first = rows.slice(0, 2)
    dataset = ray.data.from_arrow([rows, rows, first, rows])
    found = mmr.summarize(dataset, 2, columns=["x", "y"])
    whole = pa.concat_tables([rows, rows, rows, first])
    check_same(found, mm.summarize(whole, 2, columns=["x", "y"]))
    assert len(found.shard_ids) == 4
    turned = ray.data.from_arrow([rows, first, rows, rows])
    assert mmr.summarize(turned, 2, columns=["x", "y"]).to_bytes() == found.to_bytes()
    cube = mmr.summarize(dataset, 2, by="g")
    assert {key: group.n_rows for key, group in cube.items()} == {("a",): 4, ("b",): 7}


@pytest.mark.parametrize("missing", ["model", "drop"])
def test_text_levels_and_missing_cells(dataset, path, missing, check_same):
    columns = ["a.b", "gap", "plan", "ok"]
    found = mmr.summarize(dataset, columns=columns, missing=missing)
    check_same(found, mm.summarize(path, columns=columns, missing=missing, families=found.schema))
    guessed = mm.summarize(path, columns=columns, missing=missing)
    assert found.feature_names == guessed.feature_names
    same = mmr.summarize(dataset, columns=columns, missing=missing, families=found.schema)
    assert same.to_bytes() == found.to_bytes()


def test_groups_with_keys_of_folders(dataset, path, check_same):
    by, options = ["region", "store", "week(day)"], {"families": {"ok": "bernoulli"}}
    found = mmr.summarize(dataset, 2, by=by, columns=["a.b", "ok"], **options)
    expected = mm.summarize_by(path, by, 2, columns=["a.b", "ok"], **options)
    assert found.key_names == expected.key_names
    assert list(found) == list(expected)
    for key in expected:
        check_same(found[key], expected[key])
    few = mmr.summarize(dataset, 2, by=by, columns=["a.b", "ok"], min_rows=50, **options)
    assert few.left_out[0] > 0


@pytest.fixture
def failing(dataset, tmp_path):
    """Makes a dataset whose workers do something in each of their second halves of blocks."""

    def rows_with(act):
        armed, log = str(tmp_path / "armed"), str(tmp_path / "log")

        def halves(block):
            yield block.slice(0, 100)
            if os.path.exists(armed):
                with open(log, "a") as file:
                    file.write("x")
                act(os.path.getsize(log))
            yield block.slice(100)

        chosen = dataset.select_columns(["a.b", "ok", "store"])
        rows = chosen.map_batches(halves, batch_format="pyarrow", batch_size=None)
        rows.schema()  # runs a task, and is kept
        return rows, lambda: open(armed, "w").close(), lambda: os.path.getsize(log)

    return rows_with


def test_a_worker_that_dies_at_first_changes_no_byte(failing):
    rows, arm, tries = failing(lambda n: os._exit(7) if n in (1, 3) else None)
    schema = mm.schema_from({"a.b": [1.0, 2.5], "ok": [True, False]})
    summary = mmr.summarize(rows, 2, families=schema)
    groups = mmr.summarize(rows, 2, by="store", families=schema)
    assert len(summary.shard_ids) == 5
    arm()
    assert mmr.summarize(rows, 2, by="store", families=schema) == groups
    assert tries() > 5  # blocks: at least one was tried twice
    assert mmr.summarize(rows, 2, families=schema).to_bytes() == summary.to_bytes()


def test_what_fails_is_an_error_with_its_reason(failing):
    def act(n):
        raise RuntimeError("the disk is full")

    rows, arm, _ = failing(act)
    schema = mm.schema_from({"a.b": [1.0, 2.5]})
    mmr.summarize(rows, 1, families=schema)
    arm()
    with pytest.raises(ClusterError, match=r"Ray job failed: RuntimeError: the disk is full\. No"):
        mmr.summarize(rows, 1, families=schema)


def test_rows_that_are_refused(dataset):
    match = r"block [0-9a-f]{32}, row \d+, column 'gap', is missing"
    with pytest.raises(InputError, match=match) as caught:
        mmr.summarize(dataset, 2, columns=["a.b", "gap"])
    assert caught.tb is not None  # which keeps the frames
    assert not dataset.context.execution_options.preserve_order
    with pytest.raises(InputError, match=r"the dataset has no column 'nothing'; there are 'a.b'"):
        mmr.summarize(dataset, 2, columns=["nothing"])
    empty = ray.data.from_arrow(pa.table({"b": pa.array([None, None], pa.float64())}))
    with pytest.raises(InputError, match="at least one row; the dataset is empty"):
        mmr.summarize(empty.limit(0), 2)
    schema = mm.schema_from({"b": [0.5, 2.5]})
    with pytest.raises(InputError, match="at least one row; all blocks are empty"):
        mmr.summarize(empty, 1, missing="drop", families=schema)
    with pytest.raises(InputTypeError, match=r"Ray dataset; got list\. Rows in this process"):
        mmr.summarize([[1.0]], 1)


def test_columns_that_are_left_out_are_said(dataset):
    with pytest.warns(FitWarning, match="columns were guessed: column 'day' left out: dates"):
        summary = mmr.summarize(dataset, 2, exclude=["plan", "gap", "region"])
    assert set(summary.schema.column_names) == {"a.b", "ok", "store"}


def test_the_digest_of_a_block_is_that_of_its_cells():
    numbers, texts = [1.5, None, 2.5, float("nan")], ["a", None, "b", "b"]
    bools = [True, None, False, True]
    plain = pa.table({"x": numbers, "y": texts, "z": bools})
    longer = pa.table({"x": [9.0, *numbers], "y": ["c", *texts], "z": [False, *bools]})
    below = pa.Array.from_buffers(  # 7.0 where the cell is missing
        pa.float64(), 4,
        [pa.py_buffer(bytes([0b1101])), pa.py_buffer(np.array([1.5, 7.0, 2.5, np.nan]))],
    )  # fmt: skip
    same = [
        longer.slice(1),
        pa.concat_tables([plain.slice(0, 1), plain.slice(1)]),
        plain.set_column(0, "x", below),
        plain.set_column(1, "y", plain["y"].dictionary_encode()),
    ]
    assert {block_digest(table) for table in same} == {block_digest(plain)}
    full = pa.table({"x": [None, 1.5], "y": [None, "a"]}).slice(1)
    assert block_digest(full) == block_digest(pa.table({"x": [1.5], "y": ["a"]}))
    others = [longer, plain.slice(0, 3), plain.set_column(1, "y", pa.array(["a", "b", None, "b"]))]
    assert len({block_digest(table) for table in [plain, *others]}) == 4
