"""Which Spark data frames are read as files, and that these give what Spark's rows give."""

import datetime as dt
import os
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import momentmix as mm

pytest.importorskip("pyspark")

from momentmix import spark as mms
from momentmix.spark import scans, splits
from momentmix.spark.scans import plain_scan
from momentmix.spark.splits import UnsuitedFileError

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

N = 2400
UTC = dt.UTC


def drawn(seed=0, n_rows=N):
    """A table with all types that files may have."""
    rng = np.random.default_rng(seed)
    times = np.datetime64("2026-01-01T00:00:00.000001") + rng.integers(0, 10**12, n_rows)
    return pa.table({
        "a.b": rng.normal(100, 3, n_rows),
        "half": rng.normal(size=n_rows).astype(np.float32),
        "gap": pa.array(rng.normal(size=n_rows), mask=rng.random(n_rows) < 0.1),
        "plan": pa.array(rng.choice(["basic", "gold"], n_rows)).dictionary_encode(),
        "word": pa.array(rng.choice(["é", "", None], n_rows), pa.large_string()),
        "price": pa.array([Decimal(int(x)) / 4 for x in rng.integers(1, 900, n_rows)]),
        "ok": rng.random(n_rows) < 0.3,
        "tiny": rng.integers(-9, 9, n_rows).astype(np.int8),
        "store": rng.integers(0, 3, n_rows),
        "day": (np.datetime64("2026-01-01") + rng.integers(0, 20, n_rows)),
        "moment": pa.array(times, pa.timestamp("us", "Europe/Paris")),
        "clock": pa.array(times, pa.timestamp("us")),
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folders of files of several row groups, one file of no rows, and hidden ones."""
    root = tmp_path_factory.mktemp("files") / "with space, and comma"
    for i, region in enumerate(["EU", "__HIVE_DEFAULT_PARTITION__"]):
        for year in (2025, 2026):
            place = root / f"region={region}" / f"year={year}"
            place.mkdir(parents=True)
            pq.write_table(drawn(10 * i + year), place / "rows.parquet", row_group_size=500)
    pq.write_table(drawn(2026).slice(0, 0), place / "none.parquet")
    (place / "_hidden.parquet").write_text("no Parquet")
    return str(root)


@pytest.fixture(scope="module")
def frame(spark_session, folder):
    """Partitions that begin and end within files."""
    spark_session.conf.set("spark.sql.files.maxPartitionBytes", "60000")
    spark_session.conf.set("spark.sql.files.openCostInBytes", "1000")
    yield spark_session.read.parquet(folder)
    spark_session.conf.unset("spark.sql.files.maxPartitionBytes")
    spark_session.conf.unset("spark.sql.files.openCostInBytes")


def rows_of(scan):
    batches = [batch for i in range(len(scan.partitions)) for batch in scan.batches(i)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_files_give_the_rows_of_spark_in_its_order(frame):
    from pyspark.sql import functions

    chosen = frame.select(*(f"`{name}`" for name in reversed(frame.columns)))
    scan = plain_scan(chosen)
    assert len(scan.partitions) > 8
    assert sum(len(part) for part in scan.partitions) > 4  # files are cut
    found = rows_of(scan)
    place = scan.names.index("moment")
    naive = [(*row[:place], row[place].astimezone(UTC), *row[place + 1 :]) for row in found]
    # The JVM gives moments as local times of this machine, so they are compared as numbers.
    numbers = chosen.withColumn("moment", functions.unix_micros("moment"))
    wanted = [tuple(row) for row in numbers.collect()]
    epoch = dt.datetime(1970, 1, 1, tzinfo=UTC)
    micros = dt.timedelta(microseconds=1)
    moments = [(*r[:place], (r[place] - epoch) // micros, *r[place + 1 :]) for r in naive]
    assert len(wanted) == 4 * N
    assert moments == wanted
    counts = frame.groupBy(functions.spark_partition_id().alias("n")).count().collect()
    assert {row["n"]: row["count"] for row in counts} == {
        i: n for i in range(len(scan.partitions)) if (n := sum(map(len, scan.batches(i))))
    }


@pytest.fixture
def jobs(monkeypatch):
    """Of the jobs that were run, whether they read files."""
    found, add = [], mms._added

    def watched(parts, n_parts=None):
        found.append(n_parts is not None)
        return add(parts, n_parts)

    monkeypatch.setattr(mms, "_added", watched)
    return found


def test_files_and_rows_give_the_same_bytes(frame, jobs):
    options = {"columns": ["a.b", "plan", "gap", "price"], "missing": "model"}
    found = mms.summarize(frame, 2, **options)
    assert found.to_bytes() == mms.summarize(frame, 2, read_files=False, **options).to_bytes()
    assert found.n_rows == 4 * N
    by = ["region", "year", "week(moment)"]
    options = {"by": by, "families": mm.schema_from({"a.b": [0.5, 1.0], "store": [0.5, 2.0]})}
    groups = mms.summarize(frame, 2, **options)
    assert groups == mms.summarize(frame, 2, read_files=False, **options)
    assert jobs == [True, False, True, False]
    assert {key[:2] for key in groups} == {(r, y) for r in ("EU", None) for y in (2025, 2026)}


def other_frames():
    """What does more, or other things, than to choose columns of Parquet files."""
    from pyspark.sql import functions

    return {
        "filter": lambda df: df.where("store = 1"),
        "filter of folders": lambda df: df.where("year = 2026"),
        "limit": lambda df: df.limit(10),
        "sample": lambda df: df.sample(0.5, seed=1),
        "renamed": lambda df: df.withColumnRenamed("a.b", "half2").select("half2"),
        "swapped": lambda df: df.select(df.half.alias("gap"), df.gap.alias("half")),
        "new column": lambda df: df.withColumn("half", functions.col("half") * 2),
        "cast": lambda df: df.select(df.store.cast("double").alias("store")),
        "name of the file": lambda df: df.select("half", functions.input_file_name()),
        "metadata": lambda df: df.select("half", "_metadata.file_size"),
        "all metadata": lambda df: df.select("half", "_metadata"),
        "union": lambda df: df.union(df),
        "distinct": lambda df: df.distinct(),
        "join": lambda df: df.join(df.select("store").limit(1), "store"),
        "sorted": lambda df: df.sort("gap"),
        "partitions": lambda df: df.repartition(3),
        "fewer partitions": lambda df: df.coalesce(1),
        "no rows": lambda df: df.limit(0),
        "aggregate": lambda df: df.groupBy("store").count(),
        "exploded": lambda df: df.select(functions.explode(functions.array("gap", "half"))),
        "mapped": lambda df: df.select("gap").mapInArrow(as_they_are, "gap double"),
        "no nulls": lambda df: df.na.drop(subset=["gap"]),
        "window": lambda df: df.select(
            functions.row_number().over(pyspark_window().orderBy("gap")).alias("n")
        ),
        "folders only": lambda df: df.select("year"),
        "cached": lambda df: df.where("store > 0").select("gap").cache(),
    }


def as_they_are(batches):
    return batches


def pyspark_window():
    from pyspark.sql import Window

    return Window


@pytest.mark.parametrize("what", other_frames())
def test_other_frames_are_not_read_as_files(frame, what):
    other = other_frames()[what](frame)
    assert plain_scan(other) is None
    other.unpersist()


def test_a_frame_that_is_cached_after_it_was_made_is_not_read_as_files(frame):
    chosen = frame.select("gap")
    assert plain_scan(chosen) is not None
    chosen.cache()
    try:
        assert plain_scan(frame.select("gap")) is None
    finally:
        chosen.unpersist()


def test_other_sources_are_not_read_as_files(spark_session, frame, tmp_path):
    read, small = spark_session.read, frame.limit(5).select("half", "store")
    for kind in ("orc", "json"):
        small.write.format(kind).save(str(tmp_path / kind))
        assert plain_scan(read.format(kind).load(str(tmp_path / kind))) is None
    one = str(tmp_path / "one")
    small.selectExpr("half", "array(half) as many").write.parquet(one)
    assert plain_scan(read.parquet(one)) is None  # a nested column
    assert plain_scan(read.parquet(one).select("half")) is not None
    assert plain_scan(read.parquet(one, one).select("half")) is None  # each row twice
    assert plain_scan(spark_session.range(3)) is None
    assert plain_scan(spark_session.createDataFrame([(1.0,)], "x double")) is None
    stream = spark_session.readStream.schema("half float").parquet(one)
    assert plain_scan(stream) is None
    settings = {
        "spark.sql.sources.useV1SourceList": "", "spark.sql.parquet.fieldId.read.enabled": "true",
    }  # fmt: skip
    for name, value in settings.items():
        before = spark_session.conf.get(name)
        spark_session.conf.set(name, value)
        assert plain_scan(read.parquet(one).select("half")) is None
        spark_session.conf.set(name, before)
    assert plain_scan([1.0]) is None
    (tmp_path / "nothing").mkdir()
    assert plain_scan(read.schema("x double").parquet(str(tmp_path / "nothing"))) is None


class Node:
    """An object of the JVM: its class, and methods that give what they are made with."""

    def __init__(self, kind, /, **answers):
        self._kind, self._answers = kind, answers

    def getClass(self):  # noqa: N802
        return Node("Class", getName=self._kind)

    def __getattr__(self, name):
        return lambda *_: self._answers[name]


def test_other_formats_and_stores_are_not_read_as_files(frame, monkeypatch):
    formats = {scans._PARQUET: True, "org.apache.spark.sql.delta.DeltaParquetFileFormat": False}
    for kind, is_read in formats.items():
        relation = Node(
            f"{scans._SOURCES}HadoopFsRelation",
            bucketSpec=Node("None", isDefined=False),
            fileFormat=Node(kind),
        )
        output = Node("List", size=1, apply=Node("AttributeReference", name="x"))
        answers = {"relation": relation, "output": output, "isStreaming": False}
        plan = Node(f"{scans._SOURCES}LogicalRelation", **answers)
        assert (scans._relation(plan, ["x"]) is relation) == is_read
    for scheme, host, is_read in [("file", None, True), ("s3a", "x", False), ("hdfs", None, False)]:
        uri = Node("URI", getScheme=scheme, getAuthority=host, getPath="/x.parquet")
        numbers = {"start": 0, "length": 9, "fileSize": 9, "modificationTime": 1}
        file = Node("File", toPath=Node("Path", toUri=uri), partitionValues=None, **numbers)
        assert (scans._split(file, [None]) is not None) == is_read
    monkeypatch.setattr(scans, "_MOST_FILES", 3)
    assert plain_scan(frame) is None


def test_views_are_read_as_files_if_they_choose_columns_only(spark_session, frame):
    frame.createOrReplaceTempView("everything")
    frame.where("store = 1").createOrReplaceTempView("some")
    assert plain_scan(spark_session.sql("select `a.b`, day from everything")) is not None
    assert plain_scan(spark_session.table("some").select("half")) is None
    assert plain_scan(spark_session.sql("select half from everything limit 3")) is None


def test_tables_with_buckets_are_not_read_as_files(spark_session, frame, tmp_path):
    small = frame.limit(20).select("half", "store")
    for name, writer in (("plain", small.write), ("cut", small.write.bucketBy(2, "store"))):
        writer.option("path", str(tmp_path / name)).saveAsTable(name)
        try:
            assert (plain_scan(spark_session.table(name)) is None) == (name == "cut")
        finally:
            spark_session.sql(f"drop table {name}")


# -- files that only Spark can read as Spark does ---------------------------------------------


def write(path, **columns):
    pq.write_table(pa.table(columns), path)


UNSUITED = {
    "no column 'x'": {"y": [1.0]},
    "no column 'x' of its own": {"X": [1.0]},
    "'x' is float": {"x": pa.array([1.0], pa.float32())},
    "'x' is int64": {"x": [1]},
    "'x' is decimal": {"x": [Decimal("1.5")]},
}


@pytest.mark.parametrize("reason", UNSUITED)
def test_files_of_other_columns_are_left_to_spark(spark_session, tmp_path, reason):
    write(tmp_path / "a.parquet", x=[0.5, 1.5])
    write(tmp_path / "b.parquet", **UNSUITED[reason])
    rows = spark_session.read.schema("x double").parquet(str(tmp_path))
    scan = plain_scan(rows)
    with pytest.raises(UnsuitedFileError, match=reason):
        rows_of(scan)


@pytest.mark.parametrize(
    ("day", "type_"),
    [
        (dt.date(1582, 10, 14), pa.date32()),
        (dt.datetime(1899, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC")),
        (-(1 << 62), pa.timestamp("us", "UTC")),  # no date of Python
    ],
)
def test_dates_of_another_calendar_are_left_to_spark(spark_session, tmp_path, day, type_):
    write(tmp_path / "a.parquet", x=pa.array([day, None], type_))
    scan = plain_scan(spark_session.read.parquet(str(tmp_path)))
    with pytest.raises(UnsuitedFileError, match="'x' has dates before 1582"):
        rows_of(scan)


def test_files_that_changed_or_are_damaged_are_left_to_spark(spark_session, tmp_path):
    path = tmp_path / "a.parquet"
    write(path, x=[0.5, 1.5, 2.5])
    rows = spark_session.read.parquet(str(tmp_path))
    scan = plain_scan(rows)
    os.utime(path, (1e9, 1e9))
    with pytest.raises(UnsuitedFileError, match="has changed since Spark listed it"):
        rows_of(scan)
    path.write_bytes(b"PAR1" + b"x" * 50 + b"PAR1")
    rows = spark_session.read.schema("x double").parquet(str(tmp_path))
    with pytest.raises(UnsuitedFileError, match=r"a\.parquet: "):
        rows_of(plain_scan(rows))
    scan = plain_scan(rows)
    path.unlink()
    with pytest.raises(UnsuitedFileError, match="No such file"):
        rows_of(scan)


def test_no_row_of_a_file_is_lost(spark_session, tmp_path, monkeypatch):
    write(tmp_path / "a.parquet", x=[0.5, 1.5, 2.5])
    scan = plain_scan(spark_session.read.parquet(str(tmp_path)))
    ((split,),) = scan.partitions
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    with pytest.raises(UnsuitedFileError, match="row group 0 lies outside the file"):
        splits._groups(metadata, split._replace(size=5))
    cuts = [0, 7, 30, 31, 90, split.size]
    parts = [split._replace(start=a, stop=b) for a, b in pairwise(cuts)]
    assert sorted(i for part in parts for i in splits._groups(metadata, part)) == [0]
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: iter(()))
    with pytest.raises(UnsuitedFileError, match="3 rows are missing"):
        rows_of(scan)


def test_spark_reads_what_one_task_finds_unsuited(spark_session, tmp_path, jobs):
    write(tmp_path / "a.parquet", x=np.arange(50.0) ** 2, y=np.ones(50))
    write(tmp_path / "b.parquet", x=np.arange(30.0))
    rows = spark_session.read.schema("x double, y double").parquet(str(tmp_path))
    assert plain_scan(rows) is not None
    options = {"missing": "drop", "families": mm.schema_from({"x": [0.5, 1.5], "y": [0.5, 2.5]})}
    found = mms.summarize(rows, 2, **options)
    assert found.to_bytes() == mms.summarize(rows, 2, read_files=False, **options).to_bytes()
    assert found.n_rows == 50
    assert jobs == [True, False, False]
    spark_session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + b"x" * 50 + b"PAR1")
    rows = spark_session.read.schema("x double").parquet(str(tmp_path))
    summary = mms.summarize(rows, 1)
    spark_session.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert summary.n_rows == 50


def test_a_task_that_dies_at_first_changes_no_byte(frame, monkeypatch, jobs):
    from momentmix.spark import partitions

    class Failing(partitions.FileTask):
        def __call__(self, batches):
            from pyspark import TaskContext

            if TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() % 2:
                os._exit(7)
            return super().__call__(batches)

    schema = mm.schema_from({"a.b": [0.5, 1.0], "store": [0.5, 2.0]})
    expected = mms.summarize(frame, 2, families=schema)
    monkeypatch.setattr(mms, "FileTask", Failing)
    assert mms.summarize(frame, 2, families=schema).to_bytes() == expected.to_bytes()
    assert jobs == [True, True]


def test_rows_that_are_refused_are_named_as_those_of_spark(frame):
    messages = []
    for read_files in (True, False):
        with pytest.raises(mm.errors.InputError, match="column 'gap' is missing") as error:
            mms.summarize(frame, 2, columns=["a.b", "gap"], read_files=read_files)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
