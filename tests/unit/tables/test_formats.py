"""Files of Parquet, Arrow and NPY as sources; JSON lines and Excel through pandas."""

import datetime
import gzip
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from unit.tables.table_files import cells, values, write

import momentmix as mm
from momentmix import open_rows
from momentmix.errors import InputError, InputTypeError, MissingDependencyError
from momentmix.tables.arrow_files import ArrowFile, ParquetFile
from momentmix.tables.csv_text import Dialect
from momentmix.tables.opening import open_file
from momentmix.tables.other_files import NpyFile


def test_names_that_repeat_and_nested_columns_go_by_number(tmp_path):
    arrays = [[1.0, 2.0], ["a", "b"], [5, 6], ["c", "d"], [{"x": 1, "y": 2}] * 2, [7, 8]]
    names = ["x", "t", "x", "t", "n", "n.x"]
    table = pa.table([pa.array(array) for array in arrays], names=names)
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    for opened in (ParquetFile(tmp_path / "x.parquet"), ArrowFile(tmp_path / "x.arrow")):
        for i, array in enumerate(arrays):
            assert cells(opened, i) == array
        ((_, batch),) = opened.batches([5, 2, 3, 0])
        assert [column.to_pylist() for column in batch] == [arrays[i] for i in (5, 2, 3, 0)]


def test_text_whose_bytes_are_no_utf8_is_refused(tmp_path):
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, pa.schema([("w", pa.string())])) as file:
        file.write_table(pa.table({"w": ["abcdefghijk"] * 3}))
    path.write_bytes(path.read_bytes().replace(b"ghijkabc", b"\xff" * 8))
    with pytest.raises(InputError, match="Invalid UTF8 sequence"):
        cells(ArrowFile(path), 0)


# -- NPY --------------------------------------------------------------------------------------


def npy_header(text, version=1, length=None):
    data = text.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(data) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + data


def shaped(kind, shape):
    return npy_header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (shaped("|O", "(1, 1)"), r"it holds object .* Python objects, .*never unpickles. Save"),
        (npy_header("{}\n", 2, 2**32 - 1), "header, expected 4294967295 bytes"),
        (
            npy_header("(" * 15000 + "\n"),
            "is truncated, damaged or of another format",
        ),
        (shaped("<f8", "(9, 2)"), r"is truncated, .*: shape \(9, 2\) of float64 needs"),
        (shaped("<f8", "(2**62, 9)"), "truncated"),
        (shaped("<f8", f"({2**62}, 9)"), "truncat"),
        (shaped("<f8", "(-1, 9)"), r"of shape \(-1, 9\)"),
        (shaped("<f8", "(0,)"), r"of shape \(0,\)"),
        (shaped("<c16", "(0, 1)"), "must hold real numbers .*; it holds complex128 .* Save"),
        (b"\x93NUM", "damaged or of another format|is empty"),
        (b"\x93NUMPY\x01\x00v", "truncated"),
        (b"PK\x03\x04", "damaged or of another format|is empty"),
        (b"", "damaged or of another format|is empty"),
    ],
)
def test_bad_npy(tmp_path, data, message):
    path = tmp_path / "bad.npy"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        NpyFile(path)


def test_an_npy_file_that_ends_while_it_is_read(tmp_path, rows):
    table = open_file(write(tmp_path / "x.npy", rows), Dialect())
    table.path.write_bytes(table.path.read_bytes()[:-8])
    with pytest.raises(InputError, match="ended while it was being read"):
        values(table)


# -- JSON lines and workbooks -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jsonl", b""),
        ("x.jsonl", b'{"a":1}\n{"a":\n'),
        ("x.jsonl", b'{"a":"\xff"}\n'),
        ("x.jsonl.gz", b'{"a":1}\n'),
        ("x.jsonl.gz", gzip.compress(b'{"a":1}\n' * 100, mtime=0)[:-12]),
        ("x.xlsx", b""),
        ("x.xlsx", b"a,b\n1,2\n"),
    ],
)
def test_damaged_files_that_pandas_reads(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"x\.{name[2:]} (cannot be read: |has none)"):
        open_rows(tmp_path / name)


def workbook(path, sheet):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    first = book.create_sheet("first")
    for row in sheet:
        first.append(row)
    book.create_sheet("second").append(["no rows", 1])
    book.save(path)
    return path


def test_cells_of_a_workbook(tmp_path):
    day = datetime.date(2026, 1, 31)
    sheet = [
        [], ["x", "yes", "empty", " word ", "day"], [1, True, None, "u", day], [],
        [2.5, False, None, "v", day], ["NA", None, None, None, day],
        ["#DIV/0!", True, None, "NaN", None],
    ]  # fmt: skip
    path = workbook(tmp_path / "x.xlsx", sheet)
    table = open_file(path, Dialect())
    assert table.column_names == ("x", "yes", "empty", " word ", "day")
    kinds = ["number", "bool", "number", "text", "date"]
    assert [table.kind(i).kind for i in range(5)] == kinds
    ((_, batch),) = table.batches([0, 1, 3])
    np.testing.assert_array_equal(batch[0], [1, 2.5, np.nan, np.nan])
    assert batch[1].to_pylist() == [True, False, None, True]
    assert batch[2].to_pylist() == ["u", "v", None, None]
    rows = open_rows(path, missing="drop", columns=["x", "yes"])
    assert rows.read_within(np.inf)[0].tolist() == [[1, 1], [2.5, 0]]
    assert open_rows(path, exclude=["empty"]).notes == ("column 'day' left out: dates",)


@pytest.mark.parametrize(
    ("sheet", "options", "message"),
    [
        ([], {}, "x.xlsx"),
        ([["a"], [1], ["Total"]], {}, r"x.xlsx: .* row 1, column 'a', holds 'Total' \(str\)"),
        ([["a"], [1], ["--"]], {}, "row 1, column 'a', holds '--'"),
        ([["a", "a"], [1, 2]], {}, r"x.xlsx: names .* repeated: 'a' \(columns 0, 1\)"),
        (
            [[1, 2], [3, 4]],
            {},
            "x.xlsx: the first row holds no text; .* header=True .* or header=",
        ),
    ],
)
def test_bad_workbooks(tmp_path, sheet, options, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        open_rows(workbook(tmp_path / "x.xlsx", sheet), **options)


def test_options_of_workbooks(tmp_path):
    path = workbook(tmp_path / "x.xlsx", [["a"], [1], ["--"]])
    assert open_rows(path, na_values=["--"], missing="drop").read_within(np.inf)[0].tolist() == [
        [1]
    ]
    path = workbook(tmp_path / "x.xlsx", [[1, 2], [3, 4]])
    assert open_rows(path, header=False).read_within(np.inf)[0].tolist() == [[1, 2], [3, 4]]
    assert open_rows(path, header=True).column_names == ("1", "2")


def test_workbooks_need_openpyxl(tmp_path, monkeypatch):
    (tmp_path / "x.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"needs openpyxl.*momentmix\[excel\]"):
        open_rows(tmp_path / "x.xlsx")


def test_json_lines_are_files_for_a_summary(tmp_path):
    """Read whole, but with ids that follow from their contents."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1}\n{"a":2.5}\n')
    first, again = mm.summarize(path), mm.summarize(path)
    assert first.shard_ids == again.shard_ids
