"""CSV files: no row is lost or read differently, whatever the text is; errors name the line.

The oracle is Python's csv module on the whole text, which knows nothing of blocks.
"""

import csv
import io
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from momentmix.errors import InputError
from momentmix.tables import csv_file
from momentmix.tables.columns import NO_CELL, NUMBER, Kind
from momentmix.tables.csv_file import CsvFile
from momentmix.tables.csv_text import NULLS, Dialect


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


def opened(folder, text, name="x.csv", **options):
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return CsvFile(path, Dialect(**options))


def cells(column):
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return [None if x != x else x for x in column.tolist()]


def read(source, columns=None, as_text=()):
    """Rows as lists, and their batches' first rows fit together."""
    columns = list(range(source.n_columns)) if columns is None else columns
    rows, expected = [], 0
    for first_row, batch in source.batches(columns, as_text):
        assert first_row == expected
        expected += len(batch[0])
        rows += [list(row) for row in zip(*map(cells, batch), strict=True)]
    return rows


# -- any text ---------------------------------------------------------------------------------


def oracle(text):
    """Numbers of the lines in which rows start, and their fields; None if a quote stays open."""
    reader = csv.reader(io.StringIO(text + "\r\nEND", newline=""))
    rows, before = [], 0
    for fields in reader:
        if fields:
            rows.append((f"line {before + 1}", fields))
        before = reader.line_num
    return rows[:-1] if rows[-1][1] == ["END"] else None


MARKS = ["1", "2.5", ",", ",", '"', '""', "\r\n", *"\r\n xé\0", "\udcff", "\ufeff"]
SOUP = st.lists(st.sampled_from(MARKS), max_size=40).map("".join)


@given(SOUP, st.sampled_from([8, 24, 1 << 22]), st.booleans())
@example('"temp\r(C)",b\n1,2\n3,4\n5,9\n', 24, True)
@example("a,b\r1,2\r3,4\n5,6\n7,8\n", 24, True)
@example('1,""\r', 8, False)
@example('a\r\n"a,b"\r\nc\r\n"a\r\nb"\r\n', 19, True)  # the last LF alone in a block
@example('a,b\n1,"2', 1 << 22, True)
@example("x\n1\n \n   \n2\n", 8, True)
def test_text_is_read_as_python_reads_it_or_refused(folder, text, block, header):
    known = oracle(text.removeprefix("\ufeff"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "BLOCK", block)
        try:
            source = opened(folder, text, header=header)
            columns = list(range(source.n_columns))
            rows = [[x or "" for x in row] for row in read(source, as_text=columns)]
        except InputError:
            widths = {len(fields) for _, fields in known or []}
            stripped = [[field.strip() for field in fields] for _, fields in known or []]
            repeats = header and stripped[:1] and stripped[0] in stripped[1:]
            assert len(widths) != 1 or repeats or any(x in text for x in '\udcff\0"')
            return
    assert rows == [fields for _, fields in known[header:]]
    assert [source.where(i) for i in range(len(rows))] == [line for line, _ in known[header:]]
    again = read(source, columns[-1:] + columns[1:], as_text=columns)
    assert [[x or "" for x in row] for row in again] == [row[-1:] + row[1:] for row in rows]


ODD = [
    "1e5", "1E+5", "-1e-5", "1e", "e5", "1.", ".5", "-.5", ".", "+1", "--1", "+-1", "0x10", "1_000",
    "1e400", "-1e400", "1e-400", "5e-324", "-0", "-0.0", "1,5", "1.234,5", "1,234.5", "12,34",
    "1'000", "inf", "-inf", "Infinity", "INF", "infinit", "nan(1)", "-nan", "+nan", "nAn", " 1",
    "1 ", "\t2", "\u00a03", " NA", "NA ", " ", '"1.5"', '"NA"', '""', '" 1 "', '" NA "',
    "true", "x", "١٢", "1\u00b2", "1d5", "1f", "0.1e1.5", "\x00", "1\x00",
    "９", "−1", "9007199254740993", "0.1000000000000000055511151231257827", "\ufeff1",
    "2.2250738585072011e-308", "1.7976931348623159e308", "1" * 400, "0." + "0" * 400 + "1", "1 2",
]  # fmt: skip
DIALECTS = [
    {"delimiter": ";"},
    {"delimiter": ";", "decimal": ","},
    {"delimiter": "|", "na_values": ("x",)},
]


def python_number(field, dialect):
    """What Python's float says of a field; None for no number."""
    text = field.strip()
    if text in dialect.nulls:
        return math.nan
    if "_" in text or not text.isascii() or (dialect.decimal != "." and "." in text):
        return None
    try:
        return float(text.replace(dialect.decimal, "."))
    except ValueError:
        return None


@pytest.mark.parametrize("options", DIALECTS)
def test_numbers_are_those_of_python(folder, options):
    """Each alone, since a refusal says nothing of the others; the error names it."""
    dialect, mark = Dialect(**options), options["delimiter"]
    before = f"1{mark}1{mark}2\n"
    for text in [*ODD, *NULLS]:
        line = f"1{mark}{text}{mark}2"
        ((fields),) = csv.reader(io.StringIO(line, newline=""), delimiter=mark)
        if len(fields) != 3:
            continue
        number = python_number(fields[1], dialect)
        assert [number] == [dialect.number(fields[1])] or math.isnan(number), text
        if number is None:  # after the rows that tell the kinds of columns
            source = opened(folder, before * 1001 + line, header=False, **options)
            with pytest.raises(InputError, match=r"x.csv, line 1002, column 1: .* is not a number"):
                read(source)
            continue
        found = read(opened(folder, before + line, header=False, **options))[-1][1]
        expected = None if math.isnan(number) else number
        found = None if found is None or math.isnan(found) else found
        assert repr(found) == repr(expected), text


@settings(max_examples=40)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@example([5e-324, -0.0, 1.7976931348623157e308])
def test_plain_numbers_are_read_to_the_bit(folder, values):
    text = "a,b\n" + "".join(f"{value!r},{value:.17e}\n" for value in values)
    for blank in ("", ",\n", " , NA\n"):  # the last one is read as text
        rows = np.array(read(opened(folder, text + blank))[: len(values)], dtype=float)
        assert rows.tobytes() == np.array([values, values]).T.tobytes()


# -- columns ----------------------------------------------------------------------------------


def test_kinds_of_columns(folder):
    text = "n,b,t,d,m,e\n1,true,x,2024-01-31,1,\n2, FALSE,y,1.2.2024 08:15,2,NA\n,,NA,,u, \n"
    source = opened(folder, text)
    kinds = ["number", "bool", "text", "date", "mixed", "number"]
    assert [source.kind(i).kind for i in range(6)] == kinds
    assert (source.kind(0), source.kind(5)) == (NUMBER, NO_CELL)
    assert source.kind(1) == Kind("bool", "true or false")
    assert read(source, [0, 1, 2, 3, 5]) == [
        [1, True, "x", "2024-01-31", None],
        [2, False, "y", "1.2.2024 08:15", None],
        [None, None, None, None, None],
    ]
    assert read(source, [5, 0, 1, 0, 1], as_text=[0, 2, 3]) == [
        [None, 1, "true", "1", True],
        [None, 2, " FALSE", "2", False],
        [" ", None, None, None, None],
    ]
    with pytest.raises(InputError, match=r"line 4, column 'm': 'u' is not a number\. Repair"):
        read(source, [4])


# -- errors -----------------------------------------------------------------------------------


def test_a_usual_null_that_is_not_among_na_values(folder):
    source = opened(folder, "a\n1\n2\nNA\n", na_values=("x",))
    with pytest.raises(InputError, match=r"line 4, column 'a': 'NA' is not a number\. Repair"):
        read(source)


def test_the_longest_line(folder, monkeypatch):
    monkeypatch.setattr(csv_file, "BLOCK", 1 << 16)
    monkeypatch.setattr(csv_file, "LONGEST", 1 << 14)
    text = "a,b\n1,x\n3," + "4" * (1 << 15)
    with pytest.raises(InputError, match="line 3: a row has no end"):
        read(opened(folder, text), as_text=[1])


def test_long_lines_and_spaces_are_met_late(folder, monkeypatch):
    """What is read again is given once."""
    monkeypatch.setattr(csv_file, "BLOCK", 4096)
    rows = [[float(i), "x"] for i in range(5000)]
    lines = [f"{x:g},{y}\n" for x, y in rows]
    for late, number, text in [(" NA ,x\n", None, "x"), (f"7,{'y' * 9000}\n", 7.0, "y" * 9000)]:
        source = opened(folder, "a,b\n" + "".join(lines[:4000]) + late + "".join(lines[4000:]))
        assert read(source) == [*rows[:4000], [number, text], *rows[4000:]]
