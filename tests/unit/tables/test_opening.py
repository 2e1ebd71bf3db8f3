"""Anything that holds a table, opened: the same rows, and errors that name the place."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy import sparse
from unit.tables.table_files import table_of, write

from momentmix import open_rows
from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, InputTypeError, MissingDependencyError, NoInputError


@pytest.mark.parametrize("dtype", [">f8", np.float16, np.float32, np.int64, np.uint8, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_other_types_are_cast_before_anything_else(tmp_path, dtype, order):
    rows = np.asarray((np.arange(300).reshape(100, 3) % 7).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", rows)
    for source in (rows, tmp_path / "x.npy"):
        found = open_rows(source).read_within(np.inf)[0]
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, rows.astype(float))


def test_columns_of_nulls():
    for kind in ("Int64", "int64[pyarrow]"):
        nulls = pd.DataFrame({"n": pd.array([None, None], dtype=kind)})
        assert open_rows(nulls, missing="drop").read_within(np.inf)[0].shape == (0, 1)
    for values in (pa.table({"n": pa.array([None], pa.int64())}), pl.DataFrame({"n": [1]})[:0]):
        assert open_rows(values, missing="drop").read_within(np.inf)[0].shape == (0, 1)


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (np.array([["a", "b"]]), InputTypeError, "must hold numbers; row 0, column 0 holds 'a'"),
        (np.array([[1.0, None]], dtype=object), InputError, "row 0, column 1, is missing"),
        (np.array([[1.0, "b"]], dtype=object), InputTypeError, "row 0, column 1 holds 'b'"),
        (sparse.eye(3).tocsr(), InputTypeError, "toarray"),
        (np.ma.masked_all(4, dtype=[("a", float)]), InputTypeError, "dtype"),
        ((row for row in [[1.0]]), InputTypeError, "more than once"),
    ],
)
def test_what_is_no_table_is_refused(rows, kind, message):
    with pytest.raises(kind, match=message):
        open_rows(rows).read_within(np.inf)[0]


@pytest.mark.parametrize("kind", ["npy", "parquet", "csv", "frame", "array"])
@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "is missing or NaN. Say why"), (np.inf, "is inf"), (1e308, "2\\^1000")],
)
def test_bad_values_are_placed(tmp_path, rows, kind, value, message):
    rows[777, 1] = value
    source = {"frame": table_of(rows).to_pandas(), "array": rows}.get(kind)
    source = open_rows(write(tmp_path / f"x.{kind}", rows) if source is None else source)
    source = source.changed(block_rows=100)
    where = "line 779" if kind == "csv" else "row 777"
    column = {"frame": "column 1 ('b')", "npy": "column 1", "array": "column 1"}.get(kind)
    column = column or "column 'b'"
    with pytest.raises(InputError, match=message) as caught:
        source.read_within(np.inf)[0]
    assert f"{where}, {column}" in str(caught.value)


# -- folders and globs ------------------------------------------------------------------------


def test_folders_and_globs_are_read_in_the_order_of_names(tmp_path, rows):
    np.save(tmp_path / "b.npy", rows[500:])
    np.save(tmp_path / "a.npy", rows[:500])
    (tmp_path / "notes.md").write_text("no data")
    (tmp_path / "_hidden.npy").write_text("no data")
    for source in (tmp_path, str(tmp_path / "[ab].npy"), [tmp_path / "a.npy", tmp_path / "b.npy"]):
        np.testing.assert_array_equal(open_rows(source).read_within(np.inf)[0], rows)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("x,y\n1,2\n", "x,z\n1,2\n", "b.csv: .*'y' is missing and 'z' is not among"),
        ("x,y\n1,2\n", "1,2\n", "with names, .* without names"),
        ("1,2\n", "1,2,3\n", "a.csv has 2 columns.*b.csv has 3"),
    ],
)
def test_shards_with_different_columns_are_found_at_once(tmp_path, first, second, message):
    (tmp_path / "a.csv").write_text(first)
    (tmp_path / "b.csv").write_text(second)
    with pytest.raises(InputError, match=message):
        open_rows(tmp_path)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("nowhere.csv", NoInputError, "does not exist"),
        ("*.parquet", NoInputError, "no file matches"),
        ("x.docx", InputError, "momentmix reads .npy"),
        ("https://x.org/a.csv", MissingDependencyError, r"is an address; .*momentmix\[remote\]"),
        (Path("https://x.org/a.csv"), MissingDependencyError, "is an address"),
        ("file:///tmp/a.csv", NoInputError, "give the path alone, without file://"),
    ],
)
def test_no_input(tmp_path, monkeypatch, source, kind, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    (tmp_path / "x.docx").write_text("")
    np.save("a.npy", np.zeros((2, 2)))
    with pytest.raises(kind, match=message):
        open_rows(source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "impute"}, "missing must be 'error', 'mar', 'model' or 'drop'"),
        ({"columns": []}, "at least one"),
        ({"columns": [0, 0]}, "different"),
        ({"columns": [7]}, "no column 7"),
        ({"columns": ["x"]}, "no names"),
    ],
)
def test_wrong_options(rows, options, message):
    with pytest.raises(InputError, match=message):
        open_rows(rows, **options)


# -- files ------------------------------------------------------------------------------------


def test_archives_of_several_streams_are_read_to_the_end(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"))
    assert open_rows(path).read_within(np.inf)[0].tolist() == [[1, 2], [3, 4]]
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-12])
    with pytest.raises(InputError, match=r"x\.csv\.gz is not a whole gzip file"):
        open_rows(path).read_within(np.inf)[0]


class Bomb:
    def __reduce__(self):
        return (atomic_write, ("unpickled", b""))


def test_objects_in_npy_are_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("bomb.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="never unpickles"):
        open_rows("bomb.npy")
    assert not (tmp_path / "unpickled").exists()
