"""Queries, datasets and streams of record batches as sources of rows."""

import gc
import gzip
import io
import json
import re
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix import open_rows
from momentmix.errors import InputError, PrecisionWarning
from momentmix.rows.formats import copies, spool
from momentmix.rows.labels import Labels
from momentmix.tables.opening import can_open

NAMES = ["a", "^b.*$", 'c "quoted"']  # a pattern for polars, and a quote within SQL


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((1000, 3))


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """A folder of its own for temporary copies."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(copies.tempfile, "tempdir", str(folder))
    return folder


class Stream:
    """An object that has nothing but the method of Arrow's protocol."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def table_of(rows):
    return pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})


def made(folder, rows, kind):
    table = table_of(rows)
    if kind == "lazy frame":
        return pl.from_arrow(table).lazy()
    if kind == "scanned file":
        pa.parquet.write_table(table, folder / "x.parquet", row_group_size=170)
        return pl.scan_parquet(folder / "x.parquet")
    if kind == "reader":
        return table.to_reader(max_chunksize=130)
    if kind == "dataset":
        size = len(rows) // 4
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


KINDS = [
    "lazy frame", "scanned file", "reader", "dataset", "scanner", "scanner of a stream", "relation",
    "protocol",
]  # fmt: skip


@pytest.mark.parametrize("kept", [0, 8000, 1 << 20], ids=["file", "both", "memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_rows_of_the_array(
    tmp_path, temporary, rows, kind, kept, monkeypatch
):
    monkeypatch.setattr(spool, "KEPT_BYTES", kept)
    source = open_rows(made(tmp_path, rows, kind), block_rows=64)
    assert list(temporary.iterdir()) == []  # nothing runs before the rows are read
    for _ in range(2):
        blocks = list(source.blocks())
        assert {len(block) for block in blocks} == {64, 1000 % 64}
        np.testing.assert_array_equal(np.concatenate(blocks), rows)
    assert source.feature_names == tuple(NAMES)
    assert source.n_rows == 1000
    for start in (0, 1, 130, 999, 1000):
        found = [kept for _, _, kept in source.numbered_blocks(0, start)]
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 3)), *found]), rows[start:])
    assert len(list(temporary.iterdir())) == (kind != "dataset" and kept < 1 << 20)
    del source
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_columns_by_name_and_number(tmp_path, rows, kind):
    source = open_rows(made(tmp_path, rows, kind), columns=[NAMES[2], 0])
    np.testing.assert_array_equal(source.read_all(), rows[:, [2, 0]])
    assert source.feature_names == (NAMES[2], NAMES[0])
    again = open_rows(source.tables[0], columns=[1])
    np.testing.assert_array_equal(again.read_all(), rows[:, [1]])


@pytest.mark.parametrize("kind", KINDS)
def test_missing_cells_and_text(tmp_path, kind):
    values = {"x": [1, None, 3], "word": ["u", "v", None], "y": [True, False, None]}
    table = pa.table(values)
    if kind == "scanned file":
        pa.parquet.write_table(table, tmp_path / "x.parquet")
        data = pl.scan_parquet(tmp_path / "x.parquet")
    else:
        data = {
            "lazy frame": lambda: pl.from_arrow(table).lazy(),
            "reader": table.to_reader,
            "dataset": lambda: pa.dataset.dataset(table),
            "scanner": lambda: pa.dataset.dataset(table).scanner(),
            "scanner of a stream": lambda: pa.dataset.Scanner.from_batches(table.to_reader()),
            "relation": lambda: pytest.importorskip("duckdb").from_arrow(table),
            "protocol": lambda: Stream(table),
        }[kind]()
    source = open_rows(data, columns=["y", "x"], missing="model")
    np.testing.assert_array_equal(source.read_all(), [[1, 1], [0, np.nan], [np.nan, 3]])
    with pytest.raises(InputError, match=r"the .* these do not: 'word' \((large_)?string"):
        open_rows(source.tables[0]).read_all()
    with pytest.raises(InputError, match=r"the .*, row 1, column 'x'"):
        open_rows(source.tables[0], columns=["x"]).read_all()


def test_a_query_runs_once_for_the_columns_that_are_read(rows):
    ran = []

    def note(column):
        ran.append(len(column))
        return column

    def fail(column):
        raise AssertionError("nobody has asked for this column")

    a, numbers = pl.col("a"), {"return_dtype": pl.Float64}
    frame = pl.from_arrow(table_of(rows)).lazy()
    query = frame.with_columns(a.map_batches(fail, **numbers).alias("costly"))
    query = query.with_columns(a.map_batches(note, **numbers))
    source = open_rows(query, columns=["a"])
    assert ran == []
    for _ in range(3):
        np.testing.assert_array_equal(source.read_all(), rows[:, :1])
    assert ran == [1000]


def test_rows_in_random_order_stay_in_the_order_of_the_first_pass(rows):
    query = pl.from_arrow(table_of(rows)).lazy().select(pl.all().shuffle())
    source = open_rows(query)
    np.testing.assert_array_equal(source.read_all(), source.read_all())
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select random() as x, random() as y from range(5000)")
    source = open_rows(relation)
    first = source.read_all()
    assert first.shape == (5000, 2)
    np.testing.assert_array_equal(source.read_all(), first)


def test_categories_whose_levels_differ_between_batches():
    dictionary = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("x", pa.float64()), ("level", dictionary)])
    levels = [pa.array(values).dictionary_encode() for values in (["u", "v"], ["w", "u"])]
    batches = [
        pa.record_batch([pa.array([1.0, 2.0]), level.cast(dictionary)], schema=schema)
        for level in levels
    ]
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    assert open_rows(reader, columns=["x"]).read_all().tolist() == [[1], [2], [1], [2]]


def test_a_stream_that_fails_is_not_read_on():
    def batches():
        yield pa.record_batch({"x": [1.0]})
        raise RuntimeError("connection lost")

    schema = pa.schema([("x", pa.float64())])
    source = open_rows(pa.RecordBatchReader.from_batches(schema, batches()))
    with pytest.raises(InputError, match=r"the stream cannot be read: .*connection lost\.$"):
        source.read_all()
    with pytest.raises(InputError, match=r"stream can be read once only, and that failed. Make"):
        source.read_all()


def test_sources_without_rows_or_columns():
    empty = pa.table({"x": pa.array([], pa.float64())})
    assert open_rows(empty.to_reader()).read_all().shape == (0, 1)
    assert open_rows(pl.from_arrow(empty).lazy()).read_all().shape == (0, 1)
    for data in (pa.table({}).to_reader(), pl.LazyFrame()):
        with pytest.raises(InputError, match="has no columns"):
            open_rows(data)


def test_names_that_columns_share_are_chosen_by_number():
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    assert open_rows(table.to_reader(), columns=[1]).read_all().tolist() == [[2.0]]
    with pytest.raises(InputError, match="repeated: 'x'"):
        open_rows(table.to_reader())


def test_integers_beyond_float64_warn():
    frame = pl.LazyFrame({"id": [2**53 + 1]})
    with pytest.warns(PrecisionWarning, match="the query, column 'id' holds integers"):
        open_rows(frame).read_all()


def test_a_dataset_that_changes_is_an_error(tmp_path, rows):
    data = made(tmp_path, rows, "dataset")
    source = open_rows(data)
    assert source.n_rows == 1000
    (tmp_path / "2.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="the dataset cannot be read: "):
        source.read_all()


def test_a_relation_with_columns_named_like_methods():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql('select 1.5::double as read, 2::int as "to_numpy", 3 as "limit"')
    source = open_rows(relation)
    assert source.feature_names == ("read", "to_numpy", "limit")
    assert source.read_all().tolist() == [[1.5, 2, 3]]
    with pytest.raises(InputError, match="'x' left out: dates"):
        open_rows(duckdb.sql("select date '2026-01-31' as x"))


def test_columns_of_a_join_that_share_a_name_are_chosen_by_number():
    duckdb = pytest.importorskip("duckdb")
    left = duckdb.sql("select i, i * 0.5 as x from range(3) t(i)").set_alias("l")
    right = duckdb.sql("select i as j, i * 2.5 as x from range(3) t(i)").set_alias("r")
    source = open_rows(left.join(right, "i = j").order("i"), columns=[3, 1])
    assert source.read_all().tolist() == [[0, 0], [2.5, 0.5], [5, 1]]


def test_errors_of_duckdb_say_what_helps(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("create table z as select i::double as x from range(9) t(i)")
    relation, again = connection.table("z"), connection.table("z")
    source = open_rows(relation)
    connection.execute("drop table z")
    for data in (source, again):  # gone after it was opened, and before
        with pytest.raises(InputError, match=r"the query cannot be read: Catalog Error: .* z .*"):
            mm.summarize(data, 1)
    ended = connection.sql("select 1.5 as x")
    connection.close()
    with pytest.raises(InputError, match=r"closed\. Run it by itself \(relation\.show\(\)\) to"):
        mm.summarize(ended, 1)
    late = "case when i = 250_000 then 'abc' else '1' end"
    for other in ("i % 7 as y", "'a' as y"):  # in a stream, and where the rows are kept
        failing = duckdb.sql(f"select ({late})::double as x, {other} from range(300_000) t(i)")
        with pytest.raises(InputError, match="Error: Could not convert string 'abc' to DOUBLE"):
            mm.summarize(failing, 1, columns=["x", "y"])


@pytest.mark.parametrize("word", [1.0, "a"], ids=["streamed", "kept"])
def test_errors_of_polars_say_what_helps(word):
    frame = pl.LazyFrame({"s": ["1"] * 1000 + ["z"], "y": [word] * 1001})
    failing = frame.select(pl.col("s").cast(pl.Float64).alias("x"), "y")
    with pytest.raises(InputError, match=r"conversion .* failed .*itself \(frame\.collect\(\)\)"):
        mm.summarize(failing, 1, columns=["x", "y"])
    with pytest.raises(InputError, match='the query cannot be read: unable to find column "t"'):
        mm.summarize(frame.select("t"), 1)


def test_errors_of_functions_in_a_query_are_their_own():
    frame = pl.LazyFrame({"x": [1.0, 2.0]})
    failing = frame.select(pl.col("x").map_batches(lambda _: 1 / 0, return_dtype=pl.Float64))
    with pytest.raises(ZeroDivisionError):
        mm.summarize(failing, 1)


@pytest.mark.parametrize("kind", ["relation", "lazy frame", "file"])
def test_text_without_rows_is_said_to_have_none(tmp_path, kind):
    table = pa.table({"x": pa.array([], pa.float64()), "word": pa.array([], pa.string())})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    data = {
        "relation": lambda: pytest.importorskip("duckdb").from_arrow(table),
        "lazy frame": lambda: pl.from_arrow(table).lazy(),
        "file": lambda: str(tmp_path / "x.parquet"),
    }[kind]()
    with pytest.raises(InputError, match="at least one row; the source gave none"):
        mm.summarize(data, 1)


def test_integers_of_128_bits_are_numbers():
    frame = pl.LazyFrame({"x": [3, -7, None]}, schema={"x": pl.Int128}).with_columns(y=0.5)
    found = open_rows(frame, missing="model").read_all()
    np.testing.assert_array_equal(found, [[3, 0.5], [-7, 0.5], [np.nan, 0.5]])


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_conditions_and_columns_reach_the_scan(tmp_path, monkeypatch, engine):
    path, plans = str(tmp_path / "x.parquet"), []
    pa.parquet.write_table(pa.table({name: np.arange(100.0) for name in "abcd"}), path)
    if engine == "duckdb":
        data = pytest.importorskip("duckdb").read_parquet(path).filter("a > 90")
        (table,) = open_rows(data).tables
        run = table._reader
        monkeypatch.setattr(table, "_reader", lambda it: plans.append(it.explain()) or run(it))
    else:
        (table,) = open_rows(pl.scan_parquet(path).filter(pl.col("a") > 90)).tables
        run = pl.LazyFrame.collect_batches
        monkeypatch.setattr(
            pl.LazyFrame,
            "collect_batches",
            lambda it, **how: plans.append(it.explain()) or run(it, **how),
        )
    assert next(table.read([1, 2], 0, 1000)).values.tolist() == [[i, i] for i in range(91, 100)]
    (plan,) = plans
    read = {"duckdb": r"Projections:\W+b\W+c\W", "polars": r"PROJECT (2|3)/4 COLUMNS"}[engine]
    assert re.search(read, plan)
    condition = {"duckdb": r"Filters:\W+a ?> ?90", "polars": r"SELECTION:.*a.*> .*90"}[engine]
    assert re.search(condition, plan)
    assert not re.search(r"(?i)\bfilter\b", plan)  # as a step of its own above the scan


@pytest.mark.parametrize("kind", ["relation", "lazy frame"])
def test_decimals_of_queries_are_numbers(tmp_path, kind):
    cells = [Decimal("1.25"), None, Decimal("-3.5")]
    table = pa.table({"x": pa.array(cells, pa.decimal128(30, 4)), "y": [1.0, 2.0, 4.0]})
    if kind == "relation":
        data = pytest.importorskip("duckdb").from_arrow(table)
    else:
        data = pl.from_arrow(table).lazy()
    source = open_rows(data, missing="model")
    np.testing.assert_array_equal(source.read_all(), [[1.25, 1], [np.nan, 2], [-3.5, 4]])
    found = mm.summarize(data, 2, missing="drop")
    np.testing.assert_array_equal(found.mean, [-1.125, 2.5])


@pytest.mark.parametrize("kind", ["lazy frame", "scanned file", "reader", "relation", "protocol"])
def test_a_summary_of_numbers_needs_no_copy_on_disk(tmp_path, temporary, monkeypatch, kind):
    rows = np.random.default_rng(0).standard_normal((200_000, 3))
    monkeypatch.setattr(copies.LocalCopy, "__init__", None)  # no copy can be made
    found = mm.summarize(made(tmp_path, rows, kind), order=3)
    np.testing.assert_array_equal(found.mean, mm.summarize(table_of(rows), order=3).mean)
    assert found.n_rows == 200_000
    assert list(temporary.iterdir()) == []


def test_a_connection_is_free_after_a_summary_and_after_an_error():
    connection = pytest.importorskip("duckdb").connect()
    relation = connection.sql(
        "select case when i < 250_000 then sqrt(i) end as x, i % 7 / 3 as y "
        "from range(300_000) t(i)"
    )
    with pytest.raises(InputError, match="the query, row 250000, column 'x' is missing"):
        mm.summarize(relation, order=2)
    assert connection.sql("select 42").fetchall() == [(42,)]
    assert mm.summarize(relation, order=2, missing="drop").n_rows == 250_000
    assert connection.sql("select 42").fetchall() == [(42,)]
    source = open_rows(relation, missing="drop")
    for block in source.blocks():
        assert connection.sql("select 42").fetchall() == [(42,)]
        assert len(block)


def test_the_file_of_a_query_that_fails_is_removed_although_its_error_is_kept(
    temporary, monkeypatch
):
    monkeypatch.setattr(spool, "KEPT_BYTES", 0)
    batch = pa.record_batch({"x": [0.5] * 10, "word": ["u", "v"] * 5})

    def batches():
        yield batch
        assert list(temporary.rglob("*.arrow"))  # the second one comes when the first is written
        yield batch
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as kept:
        spool.Spool("the query", batch.schema, batches())
    assert not list(temporary.iterdir())
    assert kept.tb is not None  # as in a notebook


def test_text_that_repeats_is_kept_as_codes_and_other_text_as_it_is(temporary, monkeypatch):
    monkeypatch.setattr(spool, "KEPT_BYTES", 0)
    texts = {"word": ["u", None, "v", "u"] * 50, "name": [f"n{i}" for i in range(200)]}
    source = open_rows(pl.LazyFrame({"x": [0.5] * 200, **texts}), columns=["x", "word", "name"])
    (columns,) = source.tables[0].cells([1, 2], 1000)
    assert [column.to_pylist() for column in columns] == list(texts.values())
    (file,) = temporary.rglob("*.arrow")
    with pa.ipc.open_stream(str(file)) as reader:
        types = {field.name: field.type for field in reader.schema}
    assert [pa.types.is_dictionary(types[name]) for name in texts] == [True, False]


@pytest.mark.parametrize("kept", [0, 40_000, 1 << 28], ids=["file", "both", "memory"])
def test_the_bytes_of_a_summary_do_not_depend_on_batches_or_memory(monkeypatch, kept):
    n = 5000
    levels = ["z", None, "b", "a"]  # "late" is in the last row only
    words = [levels[i % 4] for i in range(n - 1)] + ["late"]
    table = pa.table({"x": np.sin(np.arange(n)), "word": words, "k": ["u", "v"] * (n // 2)})
    monkeypatch.setattr(spool, "KEPT_BYTES", kept)
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


@pytest.mark.parametrize("n_levels", [998, 1001, 4000])
def test_many_texts_are_refused_whether_they_were_met_or_not(n_levels):
    table = pa.table(
        {"x": np.arange(8.0 * n_levels), "word": [f"w{i % n_levels}" for i in range(8 * n_levels)]}
    )
    source = open_rows(table.to_reader(max_chunksize=2 * n_levels), columns=["x", "word"])
    if n_levels > 1000:
        with pytest.raises(InputError, match="the stream, column 'word' has more than 1000"):
            source.meet_labels({1: Labels()})
    else:
        labels = Labels()
        source.meet_labels({1: labels})
        assert labels.names == tuple(f"w{i}" for i in range(n_levels))


def test_labels_of_a_query_that_ran_are_not_read_again(monkeypatch):
    words = ["u", "v", "w"] * 100
    query = pl.LazyFrame({"x": np.arange(300.0), "word": words, "name": map(str, range(300))})
    source = open_rows(query, columns=["x", "word", "name"])
    assert len(list(source.tables[0].cells([0, 1, 2], 1000))) == 1
    read = []
    batches = spool.Spool.batches
    monkeypatch.setattr(
        spool.Spool, "batches", lambda *args: read.append(args[1]) or batches(*args)
    )
    labels = {1: Labels(), 2: Labels()}
    source.meet_labels(labels)
    assert labels[1].names == ("u", "v", "w")
    assert labels[2].names == tuple(map(str, range(300)))
    assert read == [[2]]  # names do not repeat: they are no dictionary


def test_what_can_be_opened(tmp_path, rows):
    sources = [made(tmp_path, rows, kind) for kind in KINDS if kind != "relation"]
    assert all(can_open(data) for data in ("x.npy", ["x.npy"], tmp_path, io.BytesIO(), *sources))
    frame = table_of(rows)
    frames = [frame, frame.to_pandas(), pl.from_arrow(frame), pd.DataFrame({"read": [1.0]})]
    others = [rows, rows.tolist(), iter([rows]), [], None, 3.5, {"a": [1.0]}, open_rows(rows)]
    others += [frame.column(0), frame.to_pandas()["a"], pl.Series([1.0])]
    assert not any(can_open(data) for data in (*frames, *others))


@pytest.mark.parametrize("kind", KINDS)
def test_fit_and_summarize_take_them(tmp_path, kind):
    rng = np.random.default_rng(0)
    component = rng.integers(2, size=2000)
    rows = rng.standard_normal((2000, 3)) + 6.0 * component[:, None]
    fitted = mm.fit(made(tmp_path, rows, kind), 2, random_state=0).mixture
    expected = mm.fit(table_of(rows), 2, random_state=0).mixture
    np.testing.assert_array_equal(fitted.means, expected.means)
    summary = mm.summarize(made(tmp_path, rows, kind), order=3)
    np.testing.assert_array_equal(summary.mean, mm.summarize(table_of(rows), order=3).mean)


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
        book = pytest.importorskip("openpyxl").Workbook()
        for row in (table.column_names, *(list(row.values()) for row in table.to_pylist())):
            book.active.append(row)
        book.save(data)
    elif kind == "relation":
        data = pytest.importorskip("duckdb").from_arrow(table)
    else:
        data = pl.from_arrow(table).lazy() if kind == "lazy frame" else pa.dataset.dataset(table)
    expected = mm.summarize(table, order=2)
    found = mm.summarize(data, order=2)
    assert found.feature_names == expected.feature_names
    assert found.schema == expected.schema
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-14)


def test_no_library_is_imported_to_recognize_a_source(rows, monkeypatch):
    for library in ("polars", "duckdb", "pyarrow", "pyarrow.dataset"):
        monkeypatch.setitem(sys.modules, library, None)
    np.testing.assert_array_equal(open_rows(rows).read_all(), rows)
