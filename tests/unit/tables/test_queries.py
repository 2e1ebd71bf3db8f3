"""Queries, datasets and streams of record batches as sources."""

import gc
import gzip
import json
import sys
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from unit.tables.table_files import cells, values

import momentmix as mm
from momentmix.errors import FitWarning, InputError
from momentmix.tables.formats import binary_files, copies, queries
from momentmix.tables.formats.queries import query_class

NAMES = ["a", "^b.*$", 'c "quoted"']  # a pattern for polars, and a quote within SQL


pytestmark = pytest.mark.usefixtures("temporary")


class Stream:
    """An object that has nothing but the method of Arrow's protocol."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def table_of(rows):
    return pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})


def made(folder, table, kind):
    """A query for a table."""
    if kind == "lazy frame":
        return pl.from_arrow(table).lazy()
    if kind == "scanned file":
        pa.parquet.write_table(table, folder / "x.parquet", row_group_size=170)
        return pl.scan_parquet(folder / "x.parquet")
    if kind == "reader":
        return table.to_reader(max_chunksize=130)
    if kind == "dataset":
        size = -(-len(table) // 4)
        for i in range(4):
            part = table.slice(size * i, size)
            pa.parquet.write_table(part, folder / f"{i}.parquet", row_group_size=99)
        return pa.dataset.dataset(folder)
    if kind == "scanner":
        return pa.dataset.dataset(table).scanner()
    if kind == "scanner of a stream":
        return pa.dataset.Scanner.from_batches(table.to_reader(max_chunksize=130))
    if kind == "relation":
        return pytest.importorskip("duckdb").from_arrow(table)
    return Stream(table)


QUERIES = ["lazy frame", "scanned file", "relation"]
STREAMS = ["reader", "scanner", "scanner of a stream", "protocol"]
KINDS = [*QUERIES, *STREAMS, "dataset"]


def opened(data):
    return query_class(data)(data)


@pytest.mark.parametrize("kept", [0, 8000, 1 << 20], ids=["file", "both", "memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_rows_of_the_array(
    tmp_path, temporary, rows, kind, kept, monkeypatch
):
    monkeypatch.setattr(queries, "KEPT_BYTES", kept)
    monkeypatch.setattr(binary_files, "BATCH_ROWS", 64)
    source = opened(made(tmp_path, table_of(rows), kind))
    source.plan(range(3), once=False)
    assert list(temporary.iterdir()) == []  # nothing runs before the rows are read
    first = source.head([1])
    np.testing.assert_array_equal(first.columns[0].to_numpy(), rows[: first.n_rows, 1])
    for columns in ([0, 1, 2], [0, 1, 2], [2, 0], [1]):
        np.testing.assert_array_equal(values(source, columns), rows[:, columns])
    assert source.column_names == tuple(NAMES)
    assert source.n_rows is None
    assert source.contents() is None
    assert source.mark == opened(made(tmp_path, table_of(rows), kind)).mark
    assert len(list(temporary.iterdir())) == (kind != "dataset" and kept < 1 << 20)
    del source
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_after_the_only_one(tmp_path, rows, kind):
    source = opened(made(tmp_path, table_of(rows), kind))
    source.plan(range(3), once=True)
    np.testing.assert_array_equal(values(source, [1]), rows[:, [1]])
    if kind in STREAMS:
        with pytest.raises(InputError, match=r"the (stream|scanner) can be read once only"):
            values(source)
    else:
        np.testing.assert_array_equal(values(source), rows)


def test_a_head_that_was_read_for_one_pass_is_kept_for_several(rows):
    source = opened(table_of(rows).to_reader(max_chunksize=130))
    source.plan([0], once=True)
    assert source.head([0]).n_rows == 130
    source.plan(range(3), once=False)
    for _ in range(2):
        np.testing.assert_array_equal(values(source), rows)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_cells_text_and_kinds(tmp_path, kind):
    data = {"x": [1, None, 3], "word": ["u", "v", None], "y": [True, False, None]}
    source = opened(made(tmp_path, pa.table(data), kind))
    assert [source.kind(i).kind for i in range(3)] == ["number", "text", "bool"]
    assert source.label(1) == "column 'word'"
    source.plan(range(3), once=False)
    for i, column in enumerate(data.values()):
        assert cells(source, i) == column


@pytest.mark.parametrize("once", [True, False])
def test_a_query_runs_once_for_the_columns_that_are_read(rows, once):
    ran = []

    def note(column):
        ran.append(len(column))
        return column

    def fail(column):
        raise AssertionError("nobody has asked for this column")

    a, numbers = pl.col("a"), {"return_dtype": pl.Float64}
    frame = pl.from_arrow(table_of(rows)).lazy()
    query = frame.with_columns(a.map_batches(fail, **numbers).alias("costly"))
    source = opened(query.with_columns(a.map_batches(note, **numbers)))
    source.plan([0, 1], once)
    assert ran == []
    assert source.head([1]) is not None
    for _ in range(1 if once else 3):
        np.testing.assert_array_equal(values(source, [0]), rows[:, :1])
    assert ran == [1000]


def test_rows_in_random_order_stay_in_the_order_of_the_first_pass(rows):
    source = opened(pl.from_arrow(table_of(rows)).lazy().select(pl.all().shuffle()))
    np.testing.assert_array_equal(values(source), values(source))
    duckdb = pytest.importorskip("duckdb")
    source = opened(duckdb.sql("select random() as x, random() as y from range(5000)"))
    first = values(source)
    assert first.shape == (5000, 2)
    np.testing.assert_array_equal(values(source), first)


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_categories_whose_levels_differ_between_batches(monkeypatch, kept):
    monkeypatch.setattr(queries, "KEPT_BYTES", kept)
    dictionary = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("x", pa.float64()), ("level", dictionary)])
    levels = [pa.array(texts).dictionary_encode() for texts in (["u", "v"], ["w", "u"])]
    batches = [
        pa.record_batch([pa.array([1.0, 2.0]), level.cast(dictionary)], schema=schema)
        for level in levels
    ]
    source = opened(pa.RecordBatchReader.from_batches(schema, batches))
    assert values(source, [0]).tolist() == [[1], [2], [1], [2]]
    assert cells(source, 1) == ["u", "v", "w", "u"]


def test_batches_without_rows_are_passed_over():
    schema = pa.schema([("x", pa.float64()), ("w", pa.string())])
    batches = [pa.record_batch([[], []], schema=schema), pa.record_batch([[1.5], ["u"]], schema)]
    for once in (True, False):
        source = opened(pa.RecordBatchReader.from_batches(schema, [*batches, batches[0]]))
        source.plan([0, 1], once)
        assert source.head([1]).columns[0].to_pylist() == ["u"]
        (batch,) = source.batches([0])
        assert batch.first_row == 0
        assert batch.columns[0].to_pylist() == [1.5]


def test_sources_without_rows_or_columns():
    empty = pa.table({"x": pa.array([], pa.float64()), "w": pa.array([], pa.string())})
    for data in (empty.to_reader(), pl.from_arrow(empty).lazy()):
        for once in (True, False):
            source = opened(data)
            source.plan([0, 1], once)
            assert source.head([0, 1]) is None
            assert list(source.batches([0, 1])) == []
            data = empty.to_reader()
    for data in (pa.table({}).to_reader(), pl.LazyFrame()):
        with pytest.raises(InputError, match="has no columns"):
            opened(data)


def test_names_that_columns_share_are_chosen_by_number():
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    assert values(opened(table.to_reader()), [1]).tolist() == [[2.0]]
    duckdb = pytest.importorskip("duckdb")
    left = duckdb.sql("select i, i * 0.5 as x from range(3) t(i)").set_alias("l")
    right = duckdb.sql("select i as j, i * 2.5 as x from range(3) t(i)").set_alias("r")
    source = opened(left.join(right, "i = j").order("i"))
    assert values(source, [3, 1]).tolist() == [[0, 0], [2.5, 0.5], [5, 1]]


def test_a_relation_with_columns_named_like_methods():
    duckdb = pytest.importorskip("duckdb")
    source = opened(duckdb.sql('select 1.5::double as read, 2::int as "to_numpy", 3 as "limit"'))
    assert source.column_names == ("read", "to_numpy", "limit")
    assert values(source).tolist() == [[1.5, 2, 3]]
    assert opened(duckdb.sql("select date '2026-01-31' as x")).kind(0).kind == "date"


def test_integers_of_128_bits_and_decimals_are_numbers():
    frame = pl.LazyFrame({"x": [3, -7, None]}, schema={"x": pl.Int128}).with_columns(y=0.5)
    np.testing.assert_array_equal(values(opened(frame)), [[3, 0.5], [-7, 0.5], [np.nan, 0.5]])
    prices = pa.array([Decimal("1.25"), None], pa.decimal128(30, 4))
    for data in (pa.table({"x": prices}).to_reader(), pl.LazyFrame({"x": prices})):
        source = opened(data)
        assert source.kind(0).kind == "number"
        np.testing.assert_array_equal(values(source), [[1.25], [np.nan]])


# -- errors -----------------------------------------------------------------------------------


def test_a_stream_that_fails_is_not_read_on():
    def batches():
        yield pa.record_batch({"x": [1.0]})
        raise RuntimeError("connection lost")

    for once in (True, False):
        reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.float64())]), batches())
        source = opened(reader)
        source.plan([0], once)
        with pytest.raises(InputError, match=r"the stream cannot be read: .*connection lost\.?$"):
            values(source)
        with pytest.raises(InputError, match=r"stream can be read once only, and that failed. Mak"):
            values(source)


def test_a_dataset_that_changes_is_an_error(tmp_path, rows):
    source = opened(made(tmp_path, table_of(rows), "dataset"))
    assert len(values(source)) == 1000
    (tmp_path / "2.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="the dataset cannot be read: "):
        values(source)


@pytest.mark.parametrize("once", [True, False])
def test_errors_of_duckdb_say_what_helps(once):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("create table z as select i::double as x from range(9) t(i)")
    again, source = connection.table("z"), opened(connection.table("z"))
    source.plan([0], once)
    connection.execute("drop table z")
    with pytest.raises(InputError, match=r"the query cannot be read: Catalog Error: .* z .*"):
        values(source)
    with pytest.raises(InputError, match=r"the query cannot be read: Catalog Error: .* z .*"):
        opened(again)
    ended = connection.sql("select 1.5 as x")
    connection.close()
    with pytest.raises(InputError, match=r"closed\. Run it by itself \(relation\.show\(\)\) to"):
        opened(ended)
    late = "case when i = 250_000 then 'abc' else '1' end"
    failing = opened(duckdb.sql(f"select ({late})::double as x from range(300_000) t(i)"))
    failing.plan([0], once)
    with pytest.raises(InputError, match="Error: Could not convert string 'abc' to DOUBLE"):
        values(failing)


@pytest.mark.parametrize("once", [True, False])
def test_errors_of_polars_say_what_helps(once):
    frame = pl.LazyFrame({"s": ["1"] * 1000 + ["z"]})
    failing = opened(frame.select(pl.col("s").cast(pl.Float64)))
    failing.plan([0], once)
    with pytest.raises(InputError, match=r"conversion .* failed .*itself \(frame\.collect\(\)\)"):
        values(failing)
    with pytest.raises(InputError, match='the query cannot be read: unable to find column "t"'):
        opened(frame.select("t"))
    own = opened(frame.select(pl.col("s").map_batches(lambda _: 1 / 0, return_dtype=pl.String)))
    own.plan([0], once)
    with pytest.raises(ZeroDivisionError):  # of a function in the query
        values(own)


def test_the_file_of_a_query_that_fails_is_removed_although_its_error_is_kept(
    temporary, monkeypatch
):
    monkeypatch.setattr(queries, "KEPT_BYTES", 0)
    batch = pa.record_batch({"x": [0.5] * 10, "word": ["u", "v"] * 5})

    def batches():
        yield batch
        yield batch
        assert list(temporary.rglob("*.arrow"))  # this one comes when the others are written
        raise ValueError("no more")

    source = opened(pa.RecordBatchReader.from_batches(batch.schema, batches()))
    with pytest.raises(InputError, match="no more") as kept:
        values(source, [0])
    assert not list(temporary.iterdir())
    assert kept.tb is not None  # as in a notebook


def test_no_library_is_imported_to_recognize_a_source(rows, monkeypatch):
    for library in ("polars", "duckdb", "pyarrow", "pyarrow.dataset"):
        monkeypatch.setitem(sys.modules, library, None)
    assert query_class(rows) is None


# -- as rows of fits and summaries ------------------------------------------------------------


def test_errors_name_the_query_row_and_column():
    table = pa.table({"x": [1, None, 3], "word": ["u", "v", None]})
    with pytest.raises(InputError, match=r"the query: .* these do not: 'word' \((large_)?string"):
        mm.open_rows(pl.from_arrow(table).lazy()).read_all()
    with pytest.raises(InputError, match="the stream, row 1, column 'x', is missing"):
        mm.open_rows(table.to_reader(), columns=["x"]).read_all()
    with pytest.warns(FitWarning, match="the query, column 'id' holds integers"):
        mm.open_rows(pl.LazyFrame({"id": [2**53 + 1]})).read_all()
    with pytest.raises(InputError, match="'x' left out: dates"):
        mm.open_rows(pl.LazyFrame({"x": ["2026-01-31"]}).select(pl.col("x").str.to_date()))
    shared = pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    with pytest.raises(InputError, match="repeated: 'x'"):
        mm.open_rows(shared.to_reader())


@pytest.mark.parametrize("kind", ["relation", "lazy frame", "file"])
def test_text_without_rows_is_said_to_have_none(tmp_path, kind):
    table = pa.table({"x": pa.array([], pa.float64()), "word": pa.array([], pa.string())})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    data = tmp_path / "x.parquet" if kind == "file" else made(tmp_path, table, kind)
    with pytest.raises(InputError, match=r"at least one row; .* holds no rows"):
        mm.summarize(data, 1)
    data = tmp_path / "x.parquet" if kind == "file" else made(tmp_path, table, kind)
    assert mm.open_rows(data, columns=["x"]).read_all().shape == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_of_numbers_needs_no_copy_on_disk(tmp_path, monkeypatch, kind):
    rows = np.random.default_rng(0).standard_normal((20_000, 3))
    monkeypatch.setattr(copies.LocalCopy, "__init__", None)  # no copy can be made
    monkeypatch.setattr(queries, "KEPT_BYTES", 0)
    found = mm.summarize(made(tmp_path, table_of(rows), kind), order=3)
    np.testing.assert_array_equal(found.mean, mm.summarize(table_of(rows), order=3).mean)
    assert found.n_rows == 20_000


def test_a_connection_is_free_after_a_summary_and_after_an_error():
    connection = pytest.importorskip("duckdb").connect()
    relation = connection.sql(
        "select case when i < 250_000 then sqrt(i) end as x, i % 7 / 3 as y "
        "from range(300_000) t(i)"
    )
    with pytest.raises(InputError, match="the query, row 250000, column 'x', is missing"):
        mm.summarize(relation, order=2)
    assert connection.sql("select 42").fetchall() == [(42,)]
    assert mm.summarize(relation, order=2, missing="drop").n_rows == 250_000
    assert connection.sql("select 42").fetchall() == [(42,)]


@pytest.mark.parametrize("kept", [0, 40_000, 1 << 28], ids=["file", "both", "memory"])
def test_the_bytes_of_a_summary_do_not_depend_on_batches_or_memory(monkeypatch, kept):
    n = 5000
    levels = ["z", None, "b", "a"]  # "late" is in the last row only
    words = [levels[i % 4] for i in range(n - 1)] + ["late"]
    table = pa.table({"x": np.sin(np.arange(n)), "word": words, "k": ["u", "v"] * (n // 2)})
    monkeypatch.setattr(queries, "KEPT_BYTES", kept)
    found = [
        mm.summarize(table.to_reader(max_chunksize=size), 3, missing="drop").to_bytes()
        for size in (7, 999, n)
    ]
    assert found[1:] == found[:-1]
    summary = mm.MomentSummary.from_bytes(found[0])
    expected = mm.summarize(table, 3, missing="drop")
    assert summary.schema == expected.schema
    assert summary.n_rows == expected.n_rows == n - 1250
    np.testing.assert_allclose(summary.mean, expected.mean, rtol=1e-14)


@pytest.mark.parametrize("kind", ["csv", "jsonl.gz", "xlsx", "lazy frame", "relation", "dataset"])
def test_text_becomes_the_same_categories(tmp_path, kind):
    rng = np.random.default_rng(0)
    table = pa.table({
        "x": rng.standard_normal(600).round(9),
        "plan": rng.choice(["basic", "gold", "trial"], 600),
        "ok": rng.random(600) < 0.3,
    })  # fmt: skip
    data = tmp_path / f"x.{kind}"
    if kind == "csv":
        pa.csv.write_csv(table, data)
    elif kind == "jsonl.gz":
        data.write_bytes(gzip.compress("\n".join(map(json.dumps, table.to_pylist())).encode()))
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        table.to_pandas().to_excel(data, index=False)
    else:
        data = made(tmp_path, table, kind)
    expected = mm.summarize(table, order=2)
    found = mm.summarize(data, order=2)
    assert found.feature_names == expected.feature_names
    assert found.schema == expected.schema
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-14)
