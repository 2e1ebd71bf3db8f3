"""Summaries of Spark data frames, against those of one process; with a local Spark and a JRE."""

import datetime as dt
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix.errors import ClusterError, FitWarning, InputError, InputTypeError

pytest.importorskip("pyspark")

from momentmix import spark as mms

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N = 3000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Numbers, text, gaps, decimals, days, and names that need quotes; 12 row groups."""
    rng = np.random.default_rng(0)
    seen = rng.random(N) < 0.9
    table = pa.table({
        "a.b": rng.normal(100, 3, N),
        "gap": pa.array(rng.normal(size=N), mask=~seen),
        "plan": pa.array(rng.choice(["basic", "gold", "trial"], N), mask=rng.random(N) < 0.05),
        "price": pa.array([Decimal(int(x)) / 4 for x in rng.integers(1, 900, N)]),
        "ok": rng.random(N) < 0.3,
        "region": rng.choice(["EU", "US", None], N),
        "store": rng.integers(0, 3, N),
        "day": np.datetime64("2026-01-01") + rng.integers(0, 20, N),
    })  # fmt: skip
    folder = tmp_path_factory.mktemp("spark")
    for i in range(4):
        part = table.slice(i * (N // 4), N // 4)
        pa.parquet.write_table(part, folder / f"{i}.parquet")
    return str(folder)


@pytest.fixture(scope="module")
def frame(spark_session, path):
    return spark_session.read.parquet(path).repartitionByRange(5, "`a.b`").persist()


def in_memory(path):
    """The rows with prices as numbers: decimals of files are refused."""
    table = pa.parquet.read_table(path)
    price = table.column("price").cast(pa.float64())
    return table.set_column(table.column_names.index("price"), "price", price)


def test_numbers(frame, path, check_same):
    columns = ["price", "a.b"]
    found = mms.summarize(frame, 2, columns=columns)
    check_same(found, mm.summarize(in_memory(path), 2, columns=columns))
    assert len(found.shard_ids) == 5
    again = mms.summarize(frame.select("*"), 2, columns=columns)
    assert again.to_bytes() == found.to_bytes()
    with pytest.raises(mm.errors.ShardError):
        found + again  # no row counts twice
    named = mms.summarize(frame, 2, columns=columns, shard_id="copy")
    assert (found + named).n_rows == 2 * N


@pytest.mark.parametrize("missing", ["model", "drop"])
def test_text_levels_and_missing_cells(spark_session, path, missing, check_same):
    columns = ["a.b", "gap", "plan", "ok"]
    rows = spark_session.read.parquet(path)
    found = mms.summarize(rows, columns=columns, missing=missing)
    expected = mm.summarize(path, columns=columns, missing=missing, families=found.schema)
    check_same(found, expected)
    guessed = mm.summarize(path, columns=columns, missing=missing)
    assert found.feature_names == guessed.feature_names
    same = mms.summarize(rows, columns=columns, missing=missing, families=found.schema)
    assert same.to_bytes() == found.to_bytes()


def test_groups(frame, path, check_same):
    by, options = ["region", "store", "week(day)"], {"columns": ["a.b", "price", "ok"]}
    found = mms.summarize(frame, 2, by=by, families={"ok": "bernoulli"}, **options)
    expected = mm.summarize_by(in_memory(path), by, 2, families={"ok": "bernoulli"}, **options)
    assert found.key_names == expected.key_names
    assert list(found) == list(expected)
    assert dt.date(2025, 12, 29) in {key[2] for key in found}
    for key in expected:
        check_same(found[key], expected[key])
    assert mms.summarize(frame, 2, by=by, min_rows=60, **options).left_out[0] > 0


def test_keys_of_folders_and_times(spark_session, tmp_path, check_same):
    rng = np.random.default_rng(1)
    seconds = rng.integers(0, 10**6, N).astype("timedelta64[s]")
    table = pa.table({
        "x": rng.normal(size=N),
        "region": rng.choice(["EU", "US", None], N),
        "moment": pa.array(np.datetime64("2026-01-01", "us") + seconds, pa.timestamp("us", "UTC")),
    })  # fmt: skip
    pa.parquet.write_to_dataset(table, tmp_path, partition_cols=["region"])
    by = ["region", "day(moment)"]
    found = mms.summarize(spark_session.read.parquet(str(tmp_path)), 1, by=by, columns=["x"])
    expected = mm.summarize_by(table, by, 1, columns=["x"])
    assert list(found) == list(expected)
    for key in expected:
        check_same(found[key], expected[key])


def test_partitions_without_rows_are_no_shards(spark_session):
    rows = spark_session.range(0, 3, 1, 6).selectExpr("id + 0.5D as x", "id % 2 as part")
    summary = mms.summarize(rows, 1, columns=["x"])
    assert (summary.n_rows, len(summary.shard_ids)) == (3, 3)
    cube = mms.summarize(rows, 1, by="part", columns=["x"])
    assert {key: group.n_rows for key, group in cube.items()} == {(0,): 2, (1,): 1}


def test_a_task_that_fails_or_dies_at_first_changes_no_byte(frame, tmp_path):
    rows = frame.select("price", "gap", "region")
    log = str(tmp_path / "tries")

    def failing(how):
        def work(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            for i, batch in enumerate(batches):
                if i == 0 and context.attemptNumber() == 0 and context.partitionId() % 2:
                    with open(log, "a") as file:
                        file.write("x")
                    if how == "raise":
                        raise RuntimeError("storage did not answer")
                    os._exit(7)
                yield batch

        return rows.mapInArrow(work, rows.schema)

    schema = mm.schema_from({"price": [1.0, 2.5], "gap": [0.5, None]}, missing="model")
    options = {"families": schema, "missing": "model"}
    expected = mms.summarize(rows, 2, **options).to_bytes()
    groups = mms.summarize(rows, 2, by="region", **options)
    assert mms.summarize(failing("raise"), 2, **options).to_bytes() == expected
    assert mms.summarize(failing("exit"), 2, by="region", **options) == groups
    with open(log) as file:
        assert len(file.read()) >= 4  # two partitions, each time


def test_what_fails_each_time_is_an_error_with_its_reason(frame):
    rows = frame.select("price", "gap")

    def work(batches):
        raise RuntimeError("the disk is full")
        yield

    with pytest.raises(ClusterError, match=r"job failed: RuntimeError: the disk is full\. No"):
        mms.summarize(rows.mapInArrow(work, rows.schema), 2)


def test_rows_that_are_refused(frame, spark_session):
    match = r"partition \d, row \d+, column 'gap', is missing"
    with pytest.raises(InputError, match=match):
        mms.summarize(frame, 2, columns=["a.b", "gap"])
    with pytest.raises(InputError, match=r"has no column 'nothing'; there are 'a.b', 'gap'"):
        mms.summarize(frame, 2, columns=["nothing"])
    with pytest.raises(InputError, match=r"must differ; 'x' is repeated\. Rename one"):
        mms.summarize(spark_session.range(3).toDF("x").selectExpr("x", "x"), 1)
    with pytest.raises(InputError, match="at least one row; the data frame is empty"):
        mms.summarize(frame.limit(0), 2)
    empty, schema = frame.selectExpr("cast(null as double) as b"), mm.schema_from({"b": [0.5, 2.5]})
    with pytest.raises(InputError, match="at least one row; all partitions are empty"):
        mms.summarize(empty, 1, missing="drop", families=schema)
    with pytest.raises(InputTypeError, match=r"Spark data frame; got list\. Rows in this process"):
        mms.summarize([[1.0]], 1)


def test_columns_that_are_left_out_are_said(frame):
    with pytest.warns(FitWarning, match="columns were guessed: column 'day' left out: dates"):
        summary = mms.summarize(frame, 2, exclude=["plan", "region", "gap"])
    assert set(summary.schema.column_names) == {"a.b", "price", "ok", "store"}
