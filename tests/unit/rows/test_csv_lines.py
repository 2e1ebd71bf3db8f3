"""Ends of lines in CSV: no row is lost, whatever ends the lines and wherever a read ends.

The oracle is Python's csv module on the whole text, which knows nothing of chunks.
"""

import csv
import gzip
import io
import sys
from contextlib import contextmanager, suppress
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from momentmix import open_rows
from momentmix.errors import InputError
from momentmix.rows.csv import lines as csv_lines
from momentmix.rows.csv import reader as csv_text
from momentmix.rows.csv.lines import LineFinder, count_lines


def number(text):
    try:
        return float(text.strip() or "nan")
    except ValueError:
        return None


def oracle(text):
    """Numbers of the lines in which rows start, and the rows; None where the text is no table."""
    reader = csv.reader(io.StringIO(text + "\r\nEND", newline=""))
    rows, before = [], 0
    for fields in reader:
        if fields:
            rows.append((before + 1, fields))
        before = reader.line_num
    if rows.pop()[1] != ["END"] or not rows:
        return None
    width = len(rows[0][1])
    if None in map(number, rows[0][1]):
        rows = rows[1:]
    table = [[number(field) for field in fields] for _, fields in rows]
    if any(len(fields) != width or None in fields for fields in table):
        return None
    return [line for line, _ in rows], np.array(table, dtype=float).reshape(-1, width)


@contextmanager
def chunks_of(size, arrow):
    with mock.patch.object(csv_text, "CHUNK", size), mock.patch.dict(sys.modules):
        if not arrow:
            sys.modules["pyarrow"] = None
        yield


def read(source, columns, start=0, header=None):
    """Places of all rows from `start` on, and the rows, as they are in the text."""
    opened = open_rows(source, columns=columns, header=header)
    values, places = [np.empty((0, len(columns)))], []
    for block in opened.tables[0].read(columns, start, 3):
        values.append(block.values)
        places += [block.where(i) for i in range(len(block.values))]
    return places, np.concatenate(values)


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
SOUP = st.lists(
    st.sampled_from(["1", "2.5", ",", ",", '"', '""', "\r", "\n", "\r\n", " ", "x"]), max_size=40
).map("".join)
CELL = st.one_of(
    st.sampled_from(["x", "", '5" pipe', "it's", '"a,b"', '"say ""hi"""', '""', '"a"b', 'b"c"']),
    ENDS.map(lambda end: f'"two{end}lines"'),
    ENDS.map(lambda end: f'"{end}"",{end}{end}"'),
)
VALUE = st.one_of(st.sampled_from(["1", "-2.5", "3e2", '"4"', " 5 "]))


@st.composite
def tables(draw):
    """CSV with a column of text between two of numbers, and any mixture of ends of lines."""
    header = draw(st.sampled_from(["a,b,c", '"temp\r(C)",b,c', '"a\r\nb",",\n",c', '\r\na,"""",c']))
    text = header + draw(ENDS)
    for _ in range(draw(st.integers(0, 12))):
        blank = draw(st.one_of(st.just(""), ENDS))
        text += f"{draw(VALUE)},{draw(CELL)},{draw(VALUE)}{draw(ENDS)}{blank}"
    return text.rstrip("\r\n") if draw(st.booleans()) else text


CHUNKS = st.one_of(st.integers(1, 9), st.integers(10, 200))


@given(SOUP, CHUNKS, st.booleans())
@example('"temp\r(C)",b\n1,2\n3,4\n5,9\n', 100, True)
@example("a,b\r1,2\r3,4\n5,6\n7,8\n", 100, True)
@example("a,b\r1,2\r3,4\r", 100, True)
@example("1,2\r\n3,4\r\n", 4, True)
@example('1,""\r', 1, True)
def test_any_text_is_read_as_python_reads_it_or_refused(text, chunk, arrow):
    first = next((row for row in csv.reader(io.StringIO(text, newline="")) if row), [""])
    known, every = oracle(text), list(range(len(first)))
    with chunks_of(chunk, arrow):
        source, header = io.BytesIO(text.encode()), None in map(number, first)
        if known is None:
            with pytest.raises(InputError):
                read(source, every, header=header)
            return
        places, rows = read(source, every, header=header)
    assert places == [f"line {line}" for line in known[0]]
    np.testing.assert_array_equal(rows, known[1])


@given(tables(), CHUNKS, st.booleans(), st.integers(0, 5))
def test_rows_are_never_lost(text, chunk, arrow, start):
    reader = csv.reader(io.StringIO(text, newline=""))
    rows, lines, before = [], [], 0
    for fields in reader:
        if fields:
            rows.append(fields)
            lines.append(f"line {before + 1}")
        before = reader.line_num
    with chunks_of(chunk, arrow):
        places, found = read(io.BytesIO(text.encode()), [0, 2], start)
    assert found.tolist() == [[float(row[0]), float(row[2])] for row in rows[1:]][start:]
    assert places == lines[1:][start:]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "stream"])
def test_files_and_streams_with_any_line_end(tmp_path, monkeypatch, end, kind):
    monkeypatch.setattr(csv_text, "CHUNK", 50)
    delimiter = "\t" if kind == "tsv" else ","
    lines = [["a", "b"], *([str(i), str(-i)] for i in range(500))]
    text = end.join(delimiter.join(line) for line in lines).encode()
    path = tmp_path / f"x.{kind}"
    path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    source = open_rows(io.BytesIO(text) if kind == "stream" else path)
    assert source.read_all().tolist() == [[i, -i] for i in range(500)]


@given(SOUP, st.lists(st.integers(1, 10), max_size=20))
def test_stretches_do_not_change_what_is_found(text, sizes):
    """The state between two stretches is that of the whole text."""
    data = text.replace("\r\n", "\n").encode()
    cuts = [0, *np.cumsum(sizes).tolist(), len(data)]
    cuts = sorted({min(cut, len(data)) for cut in cuts})
    parts, ends = LineFinder(","), [0]
    for start, stop in pairwise(cuts):
        found = parts.feed(data[start:stop])
        ends += [start + found] if found else []
    whole = LineFinder(",")
    last = whole.feed(data) if data else 0
    assert (parts.inside, parts.length, ends[-1]) == (whole.inside, whole.length, last)
    assert parts.opened == whole.opened


def test_lines_are_counted_as_editors_do():
    assert count_lines(b"a\nb\r\nc\rd\r\r\n\n") == 6


STRAY = {
    "never closed": b'a,b\n1,"2\n' + b"3,4\n" * 5000,
    "pairs after an open one": b'a,b\n1,"2\n' + b'"3",4\n' * 5000,
    "pairs after one inside a field": b'n,b\n5" pipe,1\n' + b'"x",1\n' * 5000,
    "in every line": b"n,b\n" + b'5" pipe,1\n' * 5001,
    "at the start of every line": b"n,b\n" + b'"5 pipe,1\n' * 5001,
    "nothing else": b'n,b\n1,"' + b'"' * 20000,
    "one long field": b'n,b\n"' + b"x\r" * 20000,
}


@pytest.mark.parametrize("text", STRAY.values(), ids=STRAY.keys())
@pytest.mark.parametrize("chunk", [64, 4096, 1 << 22])
def test_a_stray_quote_costs_no_more_than_others(monkeypatch, text, chunk):
    scanned = 0

    def counted(function):
        def run(data, start=0, stop=None):
            nonlocal scanned
            scanned += (len(data) if stop is None else stop) - start
            return function(data) if stop is None else function(data, start, stop)

        return run

    monkeypatch.setattr(csv_text, "CHUNK", chunk)
    for name in ("_find_quotes", "_last_line_end"):
        monkeypatch.setattr(csv_lines, name, counted(getattr(csv_lines, name)))
    with suppress(InputError):
        open_rows(io.BytesIO(text), columns=["b"]).read_all()
    assert min(chunk, len(text)) <= scanned <= 2 * len(text)


def test_an_open_quote_holds_bounded_memory(monkeypatch):
    monkeypatch.setattr(csv_text, "CHUNK", 64)
    monkeypatch.setattr(csv_text, "LONGEST", 1024)
    given = 0

    class Endless(io.RawIOBase):
        def read(self, size=-1):
            nonlocal given
            given += size
            return b'a,b\n1,2\n3,"4\n'.ljust(size, b"5") if given == size else b"5" * size

    with pytest.raises(InputError, match=r"a quote opens in line 3 and is not closed"):
        open_rows(Endless()).read_all()
    assert given <= 1024 + 2 * 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\r1,2\r3,x\r", "line 3, column 'b': 'x'"),
        ('"a\rb",c\r\n1,2\n3\r', "line 4 has 1 field"),
        ("a,b\r\r\n1,2\n\r3,4\ra,b\r", "line 6 repeats the header"),
        ('a,b\r1,2\r\n"3\r\n,4', "a quote opens in line 3"),
        ('a,b\r1,"2 ""x""\r\n\r', "a quote opens in line 2"),
        ("a,b\r1,2\r3,\r", "line 3, column 'b' is missing"),
    ],
)
@pytest.mark.parametrize("chunk", [5, 1000])
def test_lines_in_messages(tmp_path, monkeypatch, text, message, chunk):
    monkeypatch.setattr(csv_text, "CHUNK", chunk)
    (tmp_path / "x.csv").write_bytes(text.encode())
    with pytest.raises(InputError, match=message):
        open_rows(tmp_path / "x.csv").read_all()


def test_a_file_may_start_with_many_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "CHUNK", 8)
    (tmp_path / "x.csv").write_bytes(b"\r\n\n\r" * 20 + b"a,b\n1,2\n" + b"\r" * 50 + b"3,x\n")
    with pytest.raises(InputError, match="line 113, column 'b'"):
        open_rows(tmp_path / "x.csv").read_all()


def test_a_row_of_blanks_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "CHUNK", 4)
    (tmp_path / "x.csv").write_bytes(b"a\n1\n \n   \n2\n")
    source = open_rows(tmp_path / "x.csv", missing="drop")
    assert source.read_all().tolist() == [[1], [2]]
    assert source.n_dropped == 2
