"""Compressed text, JSON lines, workbooks, addresses and streams of bytes."""

import bz2
import datetime
import functools
import gc
import gzip
import http.server
import io
import json
import lzma
import sys
import threading
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix import open_rows
from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    NoInputError,
    PrecisionWarning,
    without_secrets,
)
from momentmix.rows.csv import reader as csv_reader
from momentmix.rows.formats import copies, excel, json_lines

NAMES = ["a", "b", "c"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((1000, 3)).round(12)  # openpyxl rounds to 16


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """A folder of its own for temporary copies."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(copies.tempfile, "tempdir", str(folder))
    return folder


def csv_bytes(rows, separator=","):
    lines = [separator.join(NAMES)] + [separator.join(map(repr, r)) for r in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


def json_bytes(rows):
    lines = [json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


def zipped(text, *names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ["folder/rows.csv"]:
            archive.writestr(name, text)
        archive.writestr("__MACOSX/._rows.csv", b"of macOS")
    return file.getvalue()


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": zipped,
    ".zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}


def arrow_table(rows):
    return pa.table({name: rows[:, i] for i, name in enumerate(NAMES)})


def workbook(path, sheet):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    first = book.create_sheet("first")
    for row in sheet:
        first.append(row)
    book.create_sheet("second").append(["no rows", 1])
    book.save(path)
    return path


def write(folder, rows, kind):
    path = folder / f"rows.{kind}"
    form, _, packing = kind.partition(".")
    if form == "xlsx":
        return workbook(path, [NAMES, *rows.tolist()])
    separator = "\t" if form == "tsv" else ","
    text = json_bytes(rows) if "js" in form else csv_bytes(rows, separator)
    path.write_bytes(PACK["." + packing if packing else ""](text))
    return path


TEXTS = [form + packing for form in ("csv", "tsv", "jsonl", "ndjson") for packing in PACK]


@pytest.mark.parametrize("kind", [*TEXTS, "xlsx"])
def test_every_format_gives_the_rows_of_the_array(tmp_path, rows, kind, monkeypatch):
    for module in (csv_reader, json_lines):
        monkeypatch.setattr(module, "CHUNK", 5000)  # several chunks
    monkeypatch.setattr(excel, "_ROWS", 130)
    source = open_rows(write(tmp_path, rows, kind), block_rows=64)
    for _ in range(2):
        blocks = list(source.blocks())
        assert max(map(len, blocks)) <= 64
        np.testing.assert_array_equal(np.concatenate(blocks), rows)
    assert source.feature_names == tuple(NAMES)
    for start in (0, 1, 129, 130, 999, 1000):
        found = [kept for _, _, kept in source.numbered_blocks(0, start)]
        np.testing.assert_array_equal(np.concatenate([np.empty((0, 3)), *found]), rows[start:])
    chosen = open_rows(tmp_path / f"rows.{kind}", columns=["c", "a"])
    np.testing.assert_array_equal(chosen.read_all(), rows[:, [2, 0]])


@pytest.mark.parametrize("kind", ["csv.bz2", "jsonl", "jsonl.zst", "xlsx"])
def test_missing_rows_are_dropped_and_counted(tmp_path, rows, kind):
    rows[3, 1] = rows[500, 2] = np.nan
    path = write(tmp_path, rows, kind) if kind != "xlsx" else tmp_path / "rows.xlsx"
    if kind == "xlsx":
        workbook(path, [NAMES, *([None if np.isnan(x) else x for x in r] for r in rows.tolist())])
    source = open_rows(path, missing="drop")
    np.testing.assert_array_equal(source.read_all(), np.delete(rows, [3, 500], axis=0))
    assert source.n_dropped == 2
    with pytest.raises(InputError, match=r"rows\..*, (line 5|row 3), column 'b'"):
        open_rows(path).read_all()


# -- compressed text --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("packing", "name"),
    [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zip", "zip"), (".zst", "zstd")],
)
def test_damaged_archives(tmp_path, rows, form, packing, name):
    text = csv_bytes(rows) if form == "csv" else json_bytes(rows)
    whole = PACK[packing](text)
    middle = len(whole) // 2
    flipped = bytes(byte ^ 255 for byte in whole[middle : middle + 40])
    damaged = whole[:middle] + flipped + whole[middle + 40 :]
    damaged = text if packing == ".zst" else damaged  # pyarrow writes no checksum
    path = tmp_path / f"x.{form}{packing}"
    for content in (whole[:middle], damaged, text, b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"x.{form}{packing} is (not a whole {name}|empty)"):
            open_rows(path).read_all()


def test_archives_of_several_streams_are_read_to_the_end(tmp_path):
    for packing in (".gz", ".bz2", ".xz", ".zst"):
        path = tmp_path / f"x.csv{packing}"
        path.write_bytes(PACK[packing](b"a,b\n1,2\n") + PACK[packing](b"3,4\n"))
        assert open_rows(path).read_all().tolist() == [[1, 2], [3, 4]], packing


def test_a_zip_archive_holds_one_file(tmp_path):
    path = tmp_path / "x.csv.zip"
    path.write_bytes(zipped(b"a\n1\n", "a.csv", "b.csv"))
    with pytest.raises(InputError, match=r"must hold one file; it holds 2: a.csv, b.csv. Unpack"):
        open_rows(path)
    path.write_bytes(zipped(b"", "folder/"))
    with pytest.raises(InputError, match=r"must hold one file; it holds 0. Unpack"):
        open_rows(path)


def test_zstd_and_json_need_pyarrow(tmp_path, rows, monkeypatch):
    paths = [write(tmp_path, rows, kind) for kind in ("csv.zst", "jsonl")]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for path in paths:
        with pytest.raises(MissingDependencyError, match=r"needs pyarrow.*momentmix\[data\]"):
            open_rows(path)


def test_folders_hold_every_format(tmp_path, rows):
    for i, kind in enumerate(("csv.xz", "jsonl.bz2", "ndjson", "tsv")):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        write(folder, rows[250 * i : 250 * (i + 1)], kind)
    (tmp_path / "notes.gz").write_bytes(b"no data")
    np.testing.assert_array_equal(open_rows(tmp_path).read_all(), rows)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoInputError, match=r"without data files .*last four also with .gz, .bz2"):
        open_rows(tmp_path / "empty")


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
    ],
)
def test_json_that_is_read(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(json_lines, "CHUNK", 48)
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    assert open_rows(path).read_all().tolist() == expected


def test_keys_that_are_not_there_are_missing_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "CHUNK", 24)
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1,"b":2}\n{"a":3}\n{"b":4}\n{}\n{"a":5,"b":null}\n')
    found = open_rows(path, missing="model").read_all()
    nan = np.nan
    np.testing.assert_array_equal(found, [[1, 2], [3, nan], [nan, 4], [nan, nan], [5, nan]])


FIRST = b'{"a":1,"b":2,"s":"x","n":[1]}\n' * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty; it needs at least one line, an object such as"),
        (b"{}\n", "has no columns"),
        (FIRST + b'{"a":1,\n', "line 4 is no JSON: "),
        (
            FIRST + b'\n{"a":1,"b":"x"}\n',
            "line 5, 'b' is text, and a number in lines before. Use",
        ),
        (FIRST + b'{"a":true}\n', "line 4, 'a' is true or false, and a number in"),
        (FIRST + b'{"a":{"x":1}}\n', "line 4, 'a' is an object, and a number"),
        (FIRST + b'{"a":1,"a":2}\n', "line 4 is an object in which a key stands twice"),
        (FIRST + b'{"a":1,"z":2}\n', "line 4 has the key 'z', which no line .* with null where"),
        (FIRST + b"[1,2]\n", r"line 4 is an array; each line must be .*jq -c '\.\[\]'"),
        (b'[{"a":1},{"a":2}]', "line 1 is an array"),
        (b'{"a\xff":1}\n', "line 1 is no JSON: 'utf-8' codec"),
        (b'{"a":1}\n{"a":"x"}\n', "line 2, 'a' is text, and a number in lines before"),
        (b'{"a":"' + b"x" * 5000, "line 1 has more than 0 MiB and no end"),
    ],
)
def test_bad_json_names_the_line(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(json_lines, "CHUNK", 31)
    monkeypatch.setattr(json_lines, "LONGEST", 4096)
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    columns = ["a", "b"] if text.startswith(FIRST) else None
    with pytest.raises(InputError, match=message):
        open_rows(path, columns).read_all()


def test_text_and_nested_values_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1,"n":[1],"o":{"x":1},"z":null}\n')
    with pytest.raises(
        InputError, match=r"these do not: 'n' \(list.*, 'o' \(struct.*, 'z' \(null\)"
    ):
        open_rows(path)


def test_deep_nesting_is_refused(tmp_path):
    """Where it is 100,000 deep, pyarrow would end the process."""
    path = tmp_path / "x.jsonl"
    first = '{"a":1,"s":"' + "[" * 500 + '"}\n'  # text, not nested
    for deep in ("[" * 100_000 + "]" * 100_000, '{"x":[' * 200 + "]}" * 200, "[" * 1000):
        path.write_text(first + f'{{"a":2,"s":"]]]]","n":{deep}}}\n')
        with pytest.raises(InputError, match=r"line 2 nests values more than 100 deep. Leave the"):
            open_rows(path, columns=["a"])
    flat = "[" + ",".join(["[1]"] * 500) + "]"
    path.write_text(first + f'{{"a":2,"n":{flat}}}\n')
    assert open_rows(path, columns=["a"]).read_all().tolist() == [[1], [2]]


def test_large_integers_of_json_warn(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": 9007199254740993}\n')
    with pytest.warns(PrecisionWarning, match="column 'id' holds integers up to 9007199254740993"):
        open_rows(path).read_all()


# -- workbooks --------------------------------------------------------------------------------


def test_cells_of_a_workbook(tmp_path):
    sheet = [
        [],
        ["x", "yes", "empty"],
        [1, True],
        [],
        [2.5, False, None],
        ["NA", None],
        ["#DIV/0!", True],
    ]
    source = open_rows(workbook(tmp_path / "x.xlsx", sheet), missing="model")
    nan = np.nan
    expected = [[1, 1, nan], [2.5, 0, nan], [nan, nan, nan], [nan, 1, nan]]
    np.testing.assert_array_equal(source.read_all(), expected)
    assert source.feature_names == ("x", "yes", "empty")


def test_a_workbook_without_names(tmp_path):
    source = open_rows(workbook(tmp_path / "x.xlsx", [[1, 2], [3, 4]]))
    assert source.read_all().tolist() == [[1, 2], [3, 4]]
    assert source.feature_names is None


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ([], "is empty; its first sheet holds no cells"),
        ([["a", "b"], [1, 2], [3, "x"]], r"must hold real numbers; these do not: 'b' \(string\)"),
        ([["a"], *[[1]] * 5, ["x"]], "cell A7, column 'a': 'x' is not a number as in the rows"),
        ([["a", "b"], [1, 2], [1, 2, 3]], "cell C3 lies beyond the last column of the first row"),
        ([["a"], [1], [2, *[None] * 26, 3]], "cell B3 lies beyond"),
        ([["a", "a"], [1, 2]], "repeated: 'a'"),
    ],
)
def test_bad_workbooks(tmp_path, monkeypatch, sheet, message):
    monkeypatch.setattr(excel, "_ROWS", 3)
    path = workbook(tmp_path / "x.xlsx", sheet)
    with pytest.raises(InputError, match=message):
        open_rows(path).read_all()


def test_dates_are_no_numbers(tmp_path):
    from datetime import datetime

    sheet = [["a", "day"], [1, datetime(2024, 1, 2)], [2, datetime(2024, 1, 3)]]
    path = workbook(tmp_path / "x.xlsx", sheet)
    with pytest.raises(InputError, match=r"these do not: 'day' \(date"):
        open_rows(path, columns=["a", "day"])
    assert open_rows(path).notes == ("column 'day' left out: dates",)
    assert open_rows(path).read_all().tolist() == [[1], [2]]


DAYS = [datetime.date(2024, 1, i) for i in range(1, 8)]


@pytest.mark.parametrize("first", [range(7), DAYS, [True, False] * 4, [0.5] * 200])
@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_line_of_totals_is_no_row(tmp_path, first, place):
    sheet = [["a", "b"], *([cell, i / 3] for i, cell in enumerate(first))]
    row = len(sheet) if place == "end" else 4
    sheet.insert(row, ["Total", 66.5])
    path = workbook(tmp_path / "x.xlsx", sheet)
    said = rf"x.xlsx, sheet 'first', cell A{row + 1}, column 'a': 'Total' is not .* as in most rows"
    for columns in (None, ["b"]):
        with pytest.raises(InputError, match=rf"{said}. Remove the row if it holds totals"):
            mm.summarize(path, columns=columns)


def test_a_number_or_date_among_others_is_named(tmp_path):
    for odd, cells in [(DAYS[0], [1.5, 2.5, 3.5]), ("7", [1.5, 2.5]), (3, DAYS)]:
        path = workbook(tmp_path / "x.xlsx", [["a", "b"], *([c, 1] for c in [*cells, odd])])
        with pytest.raises(InputError, match=f"cell A{len(cells) + 2}, column 'a'"):
            open_rows(path)
    cells = ["x", "y", 3, "x"]  # text of few levels, one of which is a number
    path = workbook(tmp_path / "x.xlsx", [["a", "b"], *([cell, 1] for cell in cells)])
    assert open_rows(path).kinds[0].is_text
    cells = [*range(30), *"abcdef"]  # many: an error where the column is read
    path = workbook(tmp_path / "x.xlsx", [["a", "b"], *([cell, 1] for cell in cells)])
    assert open_rows(path, exclude=["a"]).n_rows == 36
    with pytest.raises(InputError, match="cell A32, column 'a': 'a' is not a number as in the"):
        open_rows(path).read_all()


def test_a_cell_far_to_the_right(tmp_path):
    sheet = [["a", "b", *[None] * 16381, " "], *[[1, 2]] * 3000]
    path = workbook(tmp_path / "x.xlsx", sheet)
    with pytest.raises(InputError, match="cell XFD1 has 16381 blank cells before it"):
        open_rows(path)
    assert open_rows(workbook(path, [["a", None, "b"], [1, 2, 3]])).n_features == 3


def test_texts_for_missing_cells_of_a_workbook(tmp_path):
    path = workbook(tmp_path / "x.xlsx", [["a", "b"], [1, 2], [" -- ", 3], [2**60, "#N/A"]])
    found = open_rows(path, na_values=["--"], missing="model").read_all()
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 3], [2.0**60, np.nan]])
    with pytest.raises(InputError, match=r"'first', cell A3, column 'a': '--' is not a number"):
        open_rows(path).read_all()


def test_damaged_workbooks(tmp_path, rows):
    path = write(tmp_path, rows, "xlsx")
    whole = path.read_bytes()
    middle = whole.index(b"sheet1.xml") + 500
    flipped = whole[:middle] + bytes(byte ^ 255 for byte in whole[middle : middle + 40])
    flipped += whole[middle + 40 :]
    for content in (whole[:middle], flipped, b"", b"a,b\n1,2\n", zipped(b"a\n1\n")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"rows.xlsx cannot be read; .*no .xlsx .* Save"):
            open_rows(path)


def test_workbooks_need_openpyxl(tmp_path, monkeypatch):
    (tmp_path / "x.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingDependencyError, match=r"needs openpyxl.*momentmix\[excel\]"):
        open_rows(tmp_path / "x.xlsx")


# -- addresses --------------------------------------------------------------------------------


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "npy"])
def test_addresses_are_copied_once(temporary, memory, rows, kind):
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, rows)
    elif kind == "parquet":
        pa.parquet.write_table(arrow_table(rows), file)
    else:
        text = json_bytes(rows) if kind == "jsonl" else csv_bytes(rows)
        file.write(PACK[".gz" if kind.endswith("gz") else ""](text))
    memory.pipe_file(f"/bucket/rows.{kind}", file.getvalue())
    source = open_rows(f"memory://bucket/rows.{kind}")
    memory.rm(f"/bucket/rows.{kind}")  # two passes, without it
    for _ in range(2):
        np.testing.assert_array_equal(source.read_all(), rows)
    assert source.tables[0].name == f"memory://bucket/rows.{kind}"
    assert len(list(temporary.iterdir())) == 1
    del source
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_folders_and_patterns_at_addresses(memory, rows):
    for name, part in (
        ("b.csv", rows[500:]),
        ("a.csv", rows[:500]),
        ("_x.csv", rows),
        ("x.md", rows),
    ):
        memory.pipe_file(f"/bucket/{name}", csv_bytes(part))
    for address in ("memory://bucket", "memory://bucket/[ab].csv", "memory://bucket/?.csv"):
        np.testing.assert_array_equal(open_rows(address).read_all(), rows)
    names = [table.name for table in open_rows("memory://bucket").tables]
    assert [name.rsplit("/", 1)[1] for name in names] == ["a.csv", "b.csv"]
    again = open_rows(names)
    assert again.fingerprint() == open_rows(names).fingerprint()
    with pytest.raises(InputError, match="the same file is given twice: memory"):
        open_rows(["memory://bucket/a.csv"] * 2)


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        (
            "memory://bucket/none.csv",
            NoInputError,
            "bucket/none.csv does not exist; check",
        ),
        ("memory://bucket/*.npy", NoInputError, "no data file is at 'memory://bucket/"),
        ("memory://bucket/x.md", InputError, "x.md has no name that momentmix knows"),
        (
            "nonsense://bucket/x.csv",
            InputError,
            "cannot be fetched: ValueError: Protocol",
        ),
        ("memory://bucket/bad.csv", InputError, "memory://bucket/bad.csv, line 2 has 1 field"),
        ("file:///tmp/a.csv", NoInputError, "give the path alone, without file://"),
    ],
)
def test_bad_addresses(memory, address, kind, message):
    memory.pipe_file("/bucket/x.md", b"no data")
    memory.pipe_file("/bucket/bad.csv", b"a,b\n1\n")
    with pytest.raises(kind, match=message):
        open_rows(address).read_all()


def test_an_address_whose_package_is_not_there(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingDependencyError, match=r"needs a package that is not .*s3fs"):
        open_rows("s3://bucket/x.csv")


def test_files_of_a_web_server(tmp_path, rows):
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    write(tmp_path, rows, "csv.gz")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        np.testing.assert_array_equal(open_rows(f"{place}/rows.csv.gz?x=1").read_all(), rows)
        with pytest.raises(NoInputError, match=r"none.csv does not exist"):
            open_rows(f"{place}/none.csv")
        server.shutdown()


SECRETS = ("alice", "hunter2", "5ecret", "fr4g")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("https://alice:hunter2@h.org:80/x.csv?sig=5ecret#fr4g", "https://h.org:80/x.csv"),
        ("https://alice:hun/ter2@h.org/x.csv", "https://h.org/x.csv"),
        ("https://hunter2@h.org/a@b.csv", "https://h.org/a@b.csv"),
        ("https://h.org/x.csv?5ecret", "https://h.org/x.csv"),
        ("https:/alice:hunter2@h.org/x.csv", "https:/h.org/x.csv"),
        ("http://[::1]:80/x.csv#fr4g", "http://[::1]:80/x.csv"),
        ("zip://x.csv::https://alice:p@h.org/y.zip?a=5ecret", "zip://x.csv::https://h.org/y.zip"),
        ("az://box/x.csv?sv=1&sig=5ecret", "az://box/x.csv"),
        ("--data=https://alice@h.org/x?5ecret", "--data=https://h.org/x"),
        ("at 'https://h.org/x?s=5ecret'.", "at 'https://h.org/x'."),
        ("s3://box/part-?.csv", "s3://box/part-?.csv"),
        ("C:/a@b/x?c=1.csv", "C:/a@b/x?c=1.csv"),
        ("a@b.org or 3:/4", "a@b.org or 3:/4"),
    ],
)
def test_names_of_addresses_hold_no_secrets(text, name):
    assert without_secrets(text) == name
    assert str(InputError(f"{text} is wrong")) == f"{name} is wrong"


def test_secrets_of_addresses_are_used_and_kept_nowhere():
    """The address is read; the name in notes, fingerprints and errors lacks its secrets."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe("/box/x.csv?sig=5ecret", b"0,1\n" + b"1.5,2.5\n0.5,3.5\n" * 9)
    address = "memory://box/x.csv?sig=5ecret"
    source = open_rows(address)
    assert source.n_rows == 18
    (table,) = source.tables
    assert table.name == "memory:///box/x.csv"
    kept = f"{source.fingerprint().to_dict()} {source.shard_id(0, 0, by_name=True)} {source.notes}"
    assert "memory:///box/x.csv" in kept
    messages = []
    for wrong in ("memory://none.csv?sig=5ecret", "memory://box/x.odd?sig=5ecret", [address] * 2):
        with pytest.raises(InputError) as error:
            open_rows(wrong)
        messages.append(str(error.value) + repr(error.value))
    for scheme in ("nosuch", "https"):
        with pytest.raises((InputError, MissingDependencyError)) as error:
            open_rows(f"{scheme}://alice:hunter2@127.0.0.1:1/x.csv?sig=5ecret#fr4g")
        messages.append(str(error.value) + repr(error.value))
    assert not any(secret in text for text in [kept, *messages] for secret in SECRETS)


# -- streams of bytes -------------------------------------------------------------------------


class Drops:
    """A stream that gives a few bytes at a time, and cannot seek."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def read(self, size=-1):
        return self._file.read(size if 0 <= size < 3000 else 3000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def stream_bytes(rows, kind):
    file = io.BytesIO()
    if kind == "npy":
        np.save(file, rows)
    elif kind == "parquet":
        pa.parquet.write_table(arrow_table(rows), file)
    elif kind in ("arrow", "arrow stream"):
        opener = pa.ipc.new_stream if kind == "arrow stream" else pa.ipc.new_file
        with opener(file, arrow_table(rows).schema) as writer:
            writer.write_table(arrow_table(rows))
    else:
        form, _, packing = kind.partition(".")
        text = json_bytes(rows) if form == "jsonl" else csv_bytes(rows)
        file.write(PACK["." + packing if packing else ""](text))
    return file.getvalue()


TEXT_STREAMS = ["csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zst"]
COPIED_STREAMS = ["npy", "parquet", "arrow", "arrow stream", "jsonl", "jsonl.gz"]


@pytest.mark.parametrize("kind", [*TEXT_STREAMS, *COPIED_STREAMS])
@pytest.mark.parametrize("stream", [io.BytesIO, Drops])
def test_the_first_bytes_of_a_stream_tell_its_format(rows, kind, stream):
    source = open_rows(stream(stream_bytes(rows, kind)))
    np.testing.assert_array_equal(source.read_all(), rows)
    assert source.tables[0].name == "standard input"
    if kind in COPIED_STREAMS:
        np.testing.assert_array_equal(source.read_all(), rows)
    else:
        with pytest.raises(InputError, match="standard input can be read once only"):
            source.read_all()


@pytest.mark.parametrize(
    "kind", ["csv.gz", "csv.bz2", "csv.xz", "csv.zst", "parquet", "arrow", "npy"]
)
def test_streams_that_end_early(rows, temporary, kind):
    whole = stream_bytes(rows, kind)
    with pytest.raises(
        InputError, match=r"standard input (is not a whole|cannot be read|is truncated)"
    ):
        open_rows(io.BytesIO(whole[: len(whole) // 2])).read_all()
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("stream", "kind", "message"),
    [
        (io.BytesIO(b""), InputError, "standard input is empty"),
        (io.BytesIO(zipped(b"a\n1\n")), InputError, "is a zip archive or a workbook.* Save it"),
        (io.StringIO("a,b\n1,2\n"), InputTypeError, "must give bytes; this one gives str. Open"),
        (io.BytesIO(gzip.compress(b"")), InputError, "standard input is empty"),
        (io.BytesIO(gzip.compress(gzip.compress(b"1\n"))), InputError, "UTF-16 or binary"),
    ],
)
def test_bad_streams(stream, kind, message):
    with pytest.raises(kind, match=message):
        open_rows(stream)
