"""Queries, datasets and streams of record batches as sources."""

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
from momentmix.errors import InputError, InputTypeError
from momentmix.tables.arrow_files import is_query, open_query

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


def test_rows_in_random_order_stay_in_the_order_of_the_first_pass(rows):
    source = open_query(pl.from_arrow(table_of(rows)).lazy().select(pl.all().shuffle()))
    np.testing.assert_array_equal(values(source), values(source))
    duckdb = pytest.importorskip("duckdb")
    source = open_query(duckdb.sql("select random() as x, random() as y from range(5000)"))
    first = values(source)
    assert first.shape == (5000, 2)
    np.testing.assert_array_equal(values(source), first)


def test_categories_whose_levels_differ_between_batches():
    dictionary = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("x", pa.float64()), ("level", dictionary)])
    levels = [pa.array(texts).dictionary_encode() for texts in (["u", "v"], ["w", "u"])]
    batches = [
        pa.record_batch([pa.array([1.0, 2.0]), level.cast(dictionary)], schema=schema)
        for level in levels
    ]
    source = open_query(pa.RecordBatchReader.from_batches(schema, batches))
    assert values(source, [0]).tolist() == [[1], [2], [1], [2]]
    assert cells(source, 1) == ["u", "v", "w", "u"]


def test_sources_without_rows_or_columns():
    empty = pa.table({"x": pa.array([], pa.float64()), "w": pa.array([], pa.string())})
    for data in (empty.to_reader(), pl.from_arrow(empty).lazy()):
        source = open_query(data)
        assert list(source.batches([0, 1])) == []
    for data in (pa.table({}).to_reader(), pl.LazyFrame()):
        with pytest.raises(InputError, match="has no columns"):
            open_query(data)


def test_a_relation_with_columns_named_like_methods():
    duckdb = pytest.importorskip("duckdb")
    query = duckdb.sql('select 1.5::double as read, 2::int as "to_numpy", 3 as "limit"')
    source = open_query(query)
    assert source.column_names == ("read", "to_numpy", "limit")
    assert values(source).tolist() == [[1.5, 2, 3]]
    assert open_query(duckdb.sql("select date '2026-01-31' as x")).kind(0).kind == "date"


def test_integers_of_128_bits_and_decimals_are_numbers():
    frame = pl.LazyFrame({"x": [3, -7, None]}, schema={"x": pl.Int128}).with_columns(y=0.5)
    np.testing.assert_array_equal(values(open_query(frame)), [[3, 0.5], [-7, 0.5], [np.nan, 0.5]])
    prices = pa.array([Decimal("1.25"), None], pa.decimal128(30, 4))
    for data in (pa.table({"x": prices}).to_reader(), pl.LazyFrame({"x": prices})):
        source = open_query(data)
        assert source.kind(0).kind == "number"
        np.testing.assert_array_equal(values(source), [[1.25], [np.nan]])


# -- errors -----------------------------------------------------------------------------------


def test_errors_of_duckdb_say_what_helps():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("create table z as select i::double as x from range(9) t(i)")
    gone = connection.table("z")
    connection.execute("drop table z")
    with pytest.raises(InputError, match=r"the query cannot be read: Catalog Error: .* z .*"):
        open_query(gone)
    ended = connection.sql("select 1.5 as x")
    connection.close()
    with pytest.raises(InputError, match=r"closed\. Run it by itself to"):
        open_query(ended)
    late = "case when i = 250_000 then 'abc' else '1' end"
    failing = duckdb.sql(f"select ({late})::double as x from range(300_000) t(i)")
    with pytest.raises(InputError, match="Error: Could not convert string 'abc' to DOUBLE"):
        open_query(failing)


def test_the_file_of_a_stream_that_fails_is_removed_although_its_error_is_kept(temporary):
    batch = pa.record_batch({"x": [0.5] * 10, "word": ["u", "v"] * 5})

    def batches():
        yield batch
        assert list(temporary.rglob("*.arrow"))
        raise ValueError("no more")

    reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
    with pytest.raises(InputError, match=r"the stream cannot be read: .*no more") as kept:
        open_query(reader)
    assert not list(temporary.iterdir())
    assert kept.tb is not None  # as in a notebook


def test_no_library_is_imported_to_recognize_a_source(rows, monkeypatch):
    for library in ("polars", "duckdb", "pyarrow", "pyarrow.dataset"):
        monkeypatch.setitem(sys.modules, library, None)
    assert not is_query(rows)


# -- as rows of fits and summaries ------------------------------------------------------------


def test_errors_name_the_query_row_and_column():
    table = pa.table({"x": [1, None, 3], "word": ["u", "v", None]})
    with pytest.raises(InputTypeError, match="the query, row 0, column 'word' holds 'u'"):
        mm.open_rows(pl.from_arrow(table).lazy()).read_within(np.inf)[0]
    with pytest.raises(InputError, match="the stream, row 1, column 'x', is missing"):
        mm.open_rows(table.to_reader(), columns=["x"]).read_within(np.inf)[0]
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
    assert mm.open_rows(data, columns=["x"]).read_within(np.inf)[0].shape == (0, 1)


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
