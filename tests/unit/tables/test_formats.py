"""Files of Parquet, Arrow, NPY, JSON lines and Excel as sources."""

import datetime
import struct
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from unit.tables.table_files import PACK, cells, text_of, values, write, zipped

from momentmix.errors import InputError, MissingDependencyError
from momentmix.tables.formats import excel, json_lines
from momentmix.tables.formats.binary_files import ArrowFile, NpyFile, ParquetFile
from momentmix.tables.formats.dialect import Dialect
from momentmix.tables.formats.excel import ExcelFile
from momentmix.tables.formats.json_lines import JsonLinesFile
from momentmix.tables.opening import open_file


def workbook(path, sheet):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    first = book.create_sheet("first")
    for row in sheet:
        first.append(row)
    book.create_sheet("second").append(["no rows", 1])
    book.save(path)
    return path


def test_the_columns_of_every_type(tmp_path):
    table = pa.table({
        "x": [1.5, None], "n": [1, 2], "yes": [True, None], "word": ["u", None],
        "level": pa.array(["lo", "hi"]).dictionary_encode(),
        "day": [datetime.date(2024, 1, 2)] * 2, "price": [Decimal("1.50")] * 2,
        "nested": [[1.0], [2.0]], "nothing": pa.nulls(2),
    })  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    pa.feather.write_feather(table, tmp_path / "x.feather")
    expected = ["number", "number", "bool", "text", "text", "date", "other", "other", "other"]
    for opened in (ParquetFile(tmp_path / "x.parquet"), ArrowFile(tmp_path / "x.feather")):
        kinds = [opened.kind(i) for i in range(9)]
        assert [kind.kind for kind in kinds] == expected
        assert [kind.order for kind in kinds[3:5]] == ["", "declared"]
        assert kinds[6].type == "decimal128(3, 2)"
        for i in range(9):
            assert cells(opened, i) == table.column(i).to_pylist()


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
        (batch,) = opened.batches([5, 2, 3, 0])
        assert [column.to_pylist() for column in batch.columns] == [arrays[i] for i in (5, 2, 3, 0)]


def test_row_groups_before_the_start_are_not_read(tmp_path, rows):
    table = open_file(write(tmp_path / "x.parquet", rows), Dialect())
    assert next(table.batches([0], start=345)).first_row == 260
    assert list(table.batches([0], start=1000)) == []


def test_files_of_arrow_without_rows_or_columns(tmp_path):
    empty = pa.table({"x": pa.array([], pa.float64())})
    pa.parquet.write_table(empty, tmp_path / "x.parquet")
    assert ParquetFile(tmp_path / "x.parquet").head([0]) is None
    pa.feather.write_feather(empty, tmp_path / "x.feather")
    assert ArrowFile(tmp_path / "x.feather").head([0]) is None
    pa.parquet.write_table(pa.table({}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="has no columns"):
        ParquetFile(tmp_path / "x.parquet")


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_damaged_files_of_arrow(tmp_path, rows, kind):
    table = open_file(write(tmp_path / f"x.{kind}", rows), Dialect())
    path, opener, whole = table.path, type(table), table.path.read_bytes()
    path.write_bytes(whole[:-60])
    with pytest.raises(InputError, match=r"cannot be read; it is truncated, damaged .* Write or"):
        values(opener(path))
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        opener(path)


def test_text_whose_bytes_are_no_utf8_is_refused(tmp_path):
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, pa.schema([("w", pa.string())])) as file:
        file.write_table(pa.table({"w": ["abcdefghijk"] * 3}))
    path.write_bytes(path.read_bytes().replace(b"ghijkabc", b"\xff" * 8))
    with pytest.raises(InputError, match="Invalid UTF8 sequence"):
        cells(ArrowFile(path), 0)


def test_feather_version_1_is_refused(tmp_path):
    (tmp_path / "x.feather").write_bytes(b"FEA1" + b"\0" * 20)
    with pytest.raises(InputError, match="is Feather version 1; write it again"):
        ArrowFile(tmp_path / "x.feather")


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
        (shaped("|O", "(1, 1)"), r"holds Python objects \(dtype object\), .*never unpickles. Save"),
        (npy_header("{}\n", 2, 2**32 - 1), "header, expected 4294967295 bytes"),
        (
            npy_header("(" * 15000 + "\n"),
            "is not an NPY file, or is truncated or damaged in its header",
        ),
        (shaped("<f8", "(9, 2)"), r"is truncated: shape \(9, 2\) of float64 needs"),
        (shaped("<f8", "(2**62, 9)"), "header"),
        (shaped("<f8", f"({2**62}, 9)"), "truncat"),
        (shaped("<f8", "(-1, 9)"), r"it has 2 dimension.* shape \(-1, 9\)"),
        (shaped("<f8", "(0,)"), "1 dimension"),
        (shaped("<c16", "(0, 1)"), "must hold real numbers; its dtype is complex128. Save"),
        (b"\x93NUM", "not an NPY file"),
        (b"\x93NUMPY\x01\x00v", "truncated"),
        (b"PK\x03\x04", "not an NPY file"),
        (b"", "not an NPY file"),
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
    with pytest.raises(InputError, match="ended while it was being read, 1 values before"):
        values(table)


# -- JSON lines -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a":1,"b":2.5}\n\n{"b":3,"a":4}\r\n', [[1, 2.5], [4, 3]]),
        (b'\xef\xbb\xbf{"a":1}', [[1]]),
        (b'{"a":true}\n{"a":false}\n', [[1], [0]]),
        (
            b'{"a":1}\n' + b" " * 80 + b"\n" + b'{"a":2}\n' * 9 + b'{"a":0.5}\n',
            [[1], *[[2]] * 9, [0.5]],
        ),
        (b'{"a":1}\n{"a":-1e-5}\n{"a":1e300}\n', [[1], [-1e-5], [1e300]]),
        (
            b'{"a":1,"b":2}\n{"a":3}\n{"b":4}\n{}\n{"a":5,"b":null}\n',
            [[1, 2], [3, np.nan], [np.nan, 4], [np.nan, np.nan], [5, np.nan]],
        ),
    ],
)
def test_json_that_is_read(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(json_lines, "CHUNK", 48)
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    np.testing.assert_array_equal(values(JsonLinesFile(path)), expected)


def test_kinds_of_json(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1,"w":"u","y":true,"n":[1],"o":{"x":1},"z":null}\n')
    table = JsonLinesFile(path)
    kinds = [table.kind(i) for i in range(6)]
    assert [kind.kind for kind in kinds] == ["number", "text", "bool", "other", "other", "other"]
    assert kinds[5].type == "null"
    assert cells(table, 1) == ["u"]


FIRST = b'{"a":1,"b":2,"s":"x","n":[1]}\n' * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty; it needs at least one line, an object such as"),
        (b"{}\n", "has no columns"),
        (FIRST + b'{"a":1,\n', "line 4 is no JSON: .*; each line must be an object such as"),
        (FIRST + b'\n{"a":1,"b":"x"}\n', "line 5, 'b' is text, and a number in lines before. Use"),
        (FIRST + b'{"a":true}\n', "line 4, 'a' is true or false, and a number in"),
        (FIRST + b'{"a":{"x":1}}\n', "line 4, 'a' is an object, and a number"),
        (FIRST + b'{"a":1,"a":2}\n', "line 4 is an object in which a key occurs twice"),
        (FIRST + b'{"a":1,"z":2}\n', "line 4 has the key 'z', which no line .* with null where"),
        (FIRST + b"[1,2]\n", r"line 4 is an array; each line must be .*jq -c '\.\[\]'"),
        (b'[{"a":1},{"a":2}]', "line 1 is an array"),
        (b'{"a\xff":1}\n', "line 1 is no JSON: 'utf-8' codec"),
        (b'{"a":1}\n{"a":"x"}\n', "line 2, 'a' is text, and a number in lines before"),
        (b'{"a":"' + b"x" * 5000, "line 1 has more than 0 MiB and no end"),
        (b'{"a":1,"s":"\xff"}\n', "Invalid UTF8 sequence"),
        (b"\xef\xbb\xbfnull\n", "line 1 is null; each line must be an object"),
        (b'{"a":1}\nnull\n', "line 2 is null; each line must be an object"),
        (FIRST + b'null\n{"a":1}\n', "line 4 is null; each line must be an object"),
        (b"nullnull\n", "line 1 is no JSON"),
    ],
)
def test_bad_json_names_the_line(tmp_path, monkeypatch, text, message):
    """Where a chunk begins with null, pyarrow would end the process."""
    monkeypatch.setattr(json_lines, "CHUNK", 31)
    monkeypatch.setattr(json_lines, "LONGEST", 4096)
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    with pytest.raises(InputError, match=message):
        values(JsonLinesFile(path), [0, 1] if text.startswith(FIRST) else None)


def test_deep_nesting_is_refused(tmp_path):
    """Where it is 100,000 deep, pyarrow would end the process."""
    path = tmp_path / "x.jsonl"
    first = '{"a":1,"s":"' + "[" * 500 + '"}\n'  # text, not nested
    for deep in ("[" * 100_000 + "]" * 100_000, '{"x":[' * 200 + "]}" * 200, "[" * 1000):
        path.write_text(first + f'{{"a":2,"s":"]]]]","n":{deep}}}\n')
        with pytest.raises(InputError, match=r"line 2 nests values more than 100 deep. Leave the"):
            JsonLinesFile(path)
    flat = "[" + ",".join(["[1]"] * 500) + "]"
    path.write_text(first + f'{{"a":2,"n":{flat}}}\n')
    assert values(JsonLinesFile(path), [0]).tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("packing", "name"),
    [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zip", "zip"), (".zst", "zstd")],
)
def test_damaged_archives(tmp_path, rows, packing, name):
    text = text_of(rows, "jsonl")
    whole, path = PACK[packing](text), tmp_path / f"x.jsonl{packing}"
    for content in (whole[: len(whole) // 2], text, b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"x.jsonl{packing} is (not a whole {name}|empty)"):
            values(JsonLinesFile(path))


# -- workbooks --------------------------------------------------------------------------------


def excel_file(folder, sheet, **options):
    return ExcelFile(workbook(folder / "x.xlsx", sheet), Dialect(**options))


def test_cells_of_a_workbook(tmp_path):
    sheet = [
        [], ["x", "yes", "empty", " word "], [1, True, None, "u"], [], [2.5, False, None, " v "],
        ["NA", None, None, None], ["#DIV/0!", True, None, "NaN"],
    ]  # fmt: skip
    table = excel_file(tmp_path, sheet)
    assert table.column_names == ("x", "yes", "empty", "word")
    assert [table.kind(i).kind for i in range(4)] == ["number", "bool", "number", "text"]
    (batch,) = table.batches([3, 0, 1, 2])
    assert [column.to_pylist() for column in batch.columns] == [
        ["u", "v", None, None], [1, 2.5, None, None], [True, False, None, True], [None] * 4
    ]  # fmt: skip
    assert [str(column.type) for column in batch.columns] == ["string", "double", "bool", "double"]


DAYS = [datetime.date(2024, 1, i) for i in range(1, 8)]


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ([], "is empty; its first sheet holds no cells"),
        ([["a"], *[[1]] * 5, ["x"]], "cell A7, column 'a': 'x' is not a number as in the rows"),
        ([["a"], *[[True]] * 4, [2]], "cell A6, .* '2' is not true or false as in the rows before"),
        ([["a", "b"], [1, 2], [1, 2, 3]], "cell C3 lies beyond the last column of the first row"),
        ([["a"], [1], [2, *[None] * 26, 3]], "cell B3 lies beyond"),
        ([["a"], *([day] for day in DAYS)], "column 'a' holds dates, .* Save the sheet as CSV"),
        ([["a", "b", *[None] * 16381, " "]], "cell XFD1 has 16381 blank cells before it"),
    ],
)
def test_bad_workbooks(tmp_path, monkeypatch, sheet, message):
    monkeypatch.setattr(excel, "_ROWS", 3)
    with pytest.raises(InputError, match=message):
        values(excel_file(tmp_path, sheet))


@pytest.mark.parametrize("first", [range(7), DAYS, [True, False] * 4, [0.5] * 200])
@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_line_of_totals_is_no_row(tmp_path, first, place):
    sheet = [["a", "b"], *([cell, i / 3] for i, cell in enumerate(first))]
    row = len(sheet) if place == "end" else 4
    sheet.insert(row, ["Total", 66.5])
    said = rf"x.xlsx, sheet 'first', cell A{row + 1}, column 'a': 'Total' is not .* as in most rows"
    with pytest.raises(InputError, match=rf"{said}. Remove the row if it holds totals"):
        excel_file(tmp_path, sheet)


def test_a_number_or_date_among_others_is_named(tmp_path):
    for odd, others in [(DAYS[0], [1.5, 2.5, 3.5]), ("7", [1.5, 2.5]), (3, DAYS)]:
        with pytest.raises(InputError, match=f"cell A{len(others) + 2}, column 'a'"):
            excel_file(tmp_path, [["a", "b"], *([cell, 1] for cell in [*others, odd])])
    mixed = excel_file(tmp_path, [["a", "b"], *([cell, 1] for cell in ["x", "y", 3, "x"])])
    assert mixed.kind(0).kind == "text"  # of few levels, one of which is a number
    assert cells(mixed, 0) == ["x", "y", "3", "x"]
    given = [*range(30), *"abcdef"]  # many: an error where the column is read
    table = excel_file(tmp_path, [["a", "b"], *([cell, 1] for cell in given)])
    assert len(values(table, [1])) == 36
    with pytest.raises(InputError, match="cell A32, column 'a': 'a' is not a number as in the"):
        values(table)
    assert excel_file(tmp_path, [["a", "day"], [1, DAYS[0]]]).kind(1).kind == "date"


def test_texts_for_missing_cells_of_a_workbook(tmp_path):
    sheet = [["a", "b"], [1, 2], [" -- ", 3], [2**60, "#N/A"]]
    found = values(excel_file(tmp_path, sheet, na_values=("--",)))
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 3], [2.0**60, np.nan]])
    with pytest.raises(InputError, match=r"'first', cell A3, column 'a': '--' is not a number"):
        excel_file(tmp_path, sheet)


def test_damaged_workbooks(tmp_path, rows):
    path = write(tmp_path / "x.xlsx", rows)
    whole = path.read_bytes()
    middle = whole.index(b"sheet1.xml") + 500
    flipped = whole[:middle] + bytes(byte ^ 255 for byte in whole[middle : middle + 40])
    flipped += whole[middle + 40 :]
    for content in (whole[:middle], flipped, b"", b"a,b\n1,2\n", zipped(b"a\n1\n")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x.xlsx cannot be read; .*no .xlsx .* Save"):
            ExcelFile(path, Dialect())


def test_workbooks_need_openpyxl(tmp_path, monkeypatch):
    (tmp_path / "x.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"needs openpyxl.*momentmix\[excel\]"):
        ExcelFile(tmp_path / "x.xlsx", Dialect())
