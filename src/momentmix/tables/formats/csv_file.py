"""CSV files → batches of Arrow; errors name the line.

pyarrow reads the text, with the type of each column given. What it refuses is read again: first
with numbers as text, which takes spaces around missing cells, then with Python's csv module,
slowly, to say which line is wrong.
"""

from __future__ import annotations

import atexit
import csv
import io
import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

from momentmix.errors import InputError
from momentmix.tables.cells import arrow_numbers
from momentmix.tables.formats.copies import open_bytes, without_packing
from momentmix.tables.formats.dialect import (
    FALSE,
    TRUE,
    Dialect,
    are_fractions,
    is_row,
    judged,
    kinds_of,
)
from momentmix.tables.source import BATCH_ROWS, Batch, Columns, FileSource, Kind
from momentmix.wording import option

BLOCK = 1 << 22  # bytes read at a time: enough for a fast parser, few beside the memory
LONGEST = 1 << 25  # bytes of a line: no table has such lines, and memory stays bounded
_LOOKED_AT, _MOST_FIELDS = 1000, 100_000  # lines, and fields of them, that decide kinds of columns
_READ_AS = {"text": "text", "date": "text", "bool": "bool"}  # other kinds as numbers
_WRONG_LINE = "CSV parse error"  # of pyarrow, for too few or too many fields
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # one that is not UTF-8, as Python decodes it
Record = tuple[int, list[str], str]  # number of a line, its fields, and the text with blank lines


class CsvFile(FileSource):
    """A CSV file, perhaps compressed."""

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect) -> None:
        super().__init__(path)
        self.n_bytes = self.path.stat().st_size
        is_tsv = without_packing(self.path.name).endswith(".tsv")
        self.delimiter = dialect.delimiter or ("\t" if is_tsv else ",")
        self.dialect, self.nulls = replace(dialect, delimiter=self.delimiter), dialect.nulls
        self._careful = False  # whether numbers are read as text
        with open_bytes(self.path, self.name) as file:
            head = file.read(1024)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
            raise InputError(
                f"{self.name} is binary or UTF-16, not CSV in UTF-8. Give a file of another format "
                "its own ending, or convert UTF-16: iconv -f utf-16 -t utf-8."
            )
        with closing(self._records()) as records:
            _, fields, first = next(records, (0, [], ""))
            self._check_first(fields)
            most, found = max(1, min(_LOOKED_AT, _MOST_FIELDS // self.n_columns)), []
            with suppress(InputError):  # the line is refused when it is read
                for _, fields, text in islice(records, most):
                    found += [(fields, text)] if len(fields) == self.n_columns else []
        rows = [_stripped(fields) for fields, _ in found]
        self._decide_header(first, rows, [text.strip("\r\n") for _, text in found])

    def _check_first(self, fields: list[str]) -> None:
        """Take the fields of the first line, which may be names or a row."""
        if not fields:
            raise InputError(f"{self.name} is empty; it needs at least one line of numbers.")
        if any(map(_BAD_BYTE.search, fields)):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.first_line, self.n_columns = tuple(_stripped(fields)), len(fields)
        others = [x for x in (";", "\t", "|") if x in fields[0] and x != self.delimiter]
        if len(fields) == 1 and others and self.dialect.number(fields[0]) is None:
            raise InputError(
                f"{self.name} seems to be separated by {others[0]!r}, not by {self.delimiter!r}. "
                f"Pass {option(delimiter=others[0])}, and {option(decimal=',')} where numbers have "
                "decimal commas."
            )

    def _decide_header(self, first: str, rows: list[list[str]], texts: list[str]) -> None:
        """Take the first line for names or for a row; know what the columns hold."""
        names, header = self.first_line, self.dialect.header
        self._kinds = kinds_of(rows, self.n_columns, self.dialect)
        plain, *others = (
            ["" if text in self.nulls else text for text in cells] for cells in (names, *rows)
        )
        has_text = any(self.dialect.number(name) is None for name in names)
        if header is None and not has_text:
            quoted = _alone_is_quoted(first.strip(), texts, self.delimiter)
            place = f"the first line of {self.name}"
            header, self.header_note = judged(place, plain, others, quoted)
        elif header is None and is_row(names, rows, self._kinds, self.dialect):
            raise InputError(
                f"{self.name}: the first line has the names of the columns, and "
                f"{', '.join(map(ascii, names[:5]))} look like a row. Write a line of names "
                f"before it, or pass {option(header=False)}."
            )
        self.column_names, self.header_bytes, self.repeated = None, b"", b""
        if header is not None and not header:
            self._kinds = kinds_of([names, *rows], self.n_columns, self.dialect)
            return
        self.column_names, self.header_bytes = names, first.encode()
        if has_text or are_fractions(others):  # rows of whole numbers may be equal to names
            self.repeated = first.strip().encode()

    def kind(self, column: int) -> Kind:
        return self._kinds[column]

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        kinds = [_READ_AS.get(self._kinds[i].kind, "number") for i in columns]
        kinds = ["text" if k in as_text else kind for k, kind in enumerate(kinds)]
        given, asked = start, list(zip(columns, kinds, strict=True))
        while True:
            n_good, blocks = 0, self._blocks(asked)
            try:
                for block in blocks:
                    for skipped in range(max(0, given - n_good), block.num_rows, BATCH_ROWS):
                        piece = block.slice(skipped, BATCH_ROWS)
                        yield Batch(given, piece.num_rows, piece.columns[: len(columns)])
                        given += piece.num_rows
                    n_good += block.num_rows
                return
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                if self._careful or _WRONG_LINE in str(error):
                    self._check_lines(n_good, asked)
                    reason = str(error).partition("\n")[0]
                    raise InputError(f"{self.name} cannot be read: {reason}") from None
                self._careful = True
            finally:
                blocks.close()

    def _blocks(self, asked: list[tuple[int, str]]) -> Generator[Any, None, None]:
        """Rows as pyarrow parses them, in stretches of the text; the last column is among them."""
        import pyarrow
        from pyarrow import csv as arrow_csv

        last, careful, file = self.n_columns - 1, self._careful, _Rows(self)
        read = {last: "unread", **dict(asked)}
        read |= {i: "both" for i, kind in asked if kind != read[i]}  # a key that is a feature, too
        text = pyarrow.string()
        types = {"unread": pyarrow.binary(), "text": pyarrow.dictionary(pyarrow.int32(), text)}
        if not careful:
            types |= {"number": pyarrow.float64(), "bool": pyarrow.bool_()}
        reading = arrow_csv.ReadOptions(
            column_names=[str(i) for i in range(self.n_columns)],
            block_size=LONGEST if careful else BLOCK,
        )
        parsing = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        converting = arrow_csv.ConvertOptions(
            include_columns=[str(i) for i in read],
            column_types={str(i): types.get(kind, text) for i, kind in read.items()},
            null_values=self.nulls,
            true_values=TRUE,
            false_values=FALSE,
            decimal_point=self.dialect.decimal,
        )
        stream = pyarrow.PythonFile(file, "r")
        held = None
        with closing(file), arrow_csv.open_csv(stream, reading, parsing, converting) as reader:
            for block in reader:
                if file.may_repeat and self.repeated:
                    self._check_lines(0, asked)
                    self.repeated = b""  # there is none, where a line in quotes looks like it
                if not block.num_rows:
                    continue
                if held is not None:
                    yield held
                held = self._converted(block, asked)
        assert held is not None
        if held.column(len(asked))[-1].as_py():
            raise ValueError(_WRONG_LINE)  # the line after the last one is part of a quoted field
        yield held.slice(0, held.num_rows - 1)

    def _converted(self, block: Any, asked: list[tuple[int, str]]) -> Any:
        """The chosen columns, with the ones read as text converted, and the last one."""
        from pyarrow import RecordBatch, types

        columns = []
        for i, kind in [*asked, (self.n_columns - 1, "text")]:
            column = block.column(str(i))
            if kind != "text" and types.is_string(column.type):
                column = self.dialect.parsed(column, kind)
            elif kind == "number" and np.isnan(arrow_numbers(column)[0]).any():
                raise ValueError("NaN")  # it may be "nan(1)", which is a number for pyarrow
            columns.append(column)
        return RecordBatch.from_arrays(columns, names=[""] * len(columns))

    def where(self, row: int) -> str:
        """The line of a row in words; the file is read up to it."""
        return f"line {self._row(row)[0]}"

    def _row(self, row: int) -> Record:
        with closing(self._records()) as records:
            return next(islice(records, row + (self.column_names is not None), None))

    def _records(self) -> Generator[Record, None, None]:
        """Every line that is not blank; lines with a field in quotes between them are one."""
        record: list[str] = []
        before, text, file = 0, "", open_bytes(self.path, self.name)
        with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as lines:
            reader = csv.reader(self._lines(lines, record), delimiter=self.delimiter)
            try:
                for fields in reader:
                    text += "".join(record)
                    if fields:
                        yield before + 1, fields, text
                        text = ""
                    before = reader.line_num
                    record.clear()
            except csv.Error as error:
                if len(record) == 1:
                    raise InputError(f"{self.name}, line {before + 1}: {error}.") from None
                *_, last = next(csv.reader(record[:-1], delimiter=self.delimiter))
                n_open = max(1, len(io.StringIO(last, newline="").readlines()))
                raise InputError(
                    f"{self.name}: a quote opens in line {before + len(record) - n_open} and is "
                    'not closed again. Close it, or remove the stray ".'
                ) from None

    def _lines(self, file: io.TextIOWrapper, record: list[str]) -> Iterator[str]:
        """Lines of the text; the lines of a row are in `record`, which is empty before a row."""
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), ""), 1):
            if len(line) == LONGEST:
                raise InputError(
                    f"{self.name}, line {number} has more than {LONGEST >> 20} MiB and no end; is "
                    "it CSV with lines?"
                )
            record.append(line)
            yield line
        if record:  # the row needs one more line
            record.append("")
            raise csv.Error

    def _check_lines(self, n_good: int, asked: list[tuple[int, str]]) -> None:
        """Raise for the first line that is wrong after so many good rows."""
        with closing(self._records()) as records:
            skipped = n_good + (self.column_names is not None)
            for number, fields, _ in islice(records, skipped, None):
                place = f"{self.name}, line {number}"
                if self.repeated and tuple(_stripped(fields)) == self.first_line:
                    raise InputError(
                        f"{place} repeats the header. Was the file put together from several? "
                        "Remove that line, or pass the files."
                    )
                if len(fields) != self.n_columns:
                    commas = " Are there decimal commas? Then use another delimiter."
                    raise InputError(
                        f"{place} has {len(fields)} field(s), the first line {self.n_columns}. "
                        f"Repair or remove it.{commas * (len(fields) == 2 * self.n_columns)}"
                    )
                for column, kind in asked:
                    if problem := self._problem(fields[column], kind, column):
                        raise InputError(f"{place}, {self.label(column)}{problem}")

    def _problem(self, field: str, kind: str, column: int) -> str:
        """Return the error of a field with its cure, or ""."""
        text, key = field.strip(), column if self.column_names is None else self.first_line[column]
        if kind == "text" and _BAD_BYTE.search(field):
            return " is not UTF-8; convert it: iconv -t utf-8."
        if kind == "bool" and text not in (*TRUE, *FALSE, *self.nulls):
            levels = option(families={key: ["false", "true", text]})
            return (
                f": {text[:60]!a} is no level of the column, which has 'false', 'true'. Correct "
                f"the cell, or list the levels as text: {levels}."
            )
        if kind != "number" or self.dialect.number(text) is not None:
            return ""
        cures = self.dialect.cures(text)
        said = f": {text[:60]!a} is not a number."
        if cures:
            it = " If it " if len(cures) > 1 else " It "
            return said + "".join(f"{it}{cure}." for cure in cures)
        categorical = option(families={key: "categorical"})
        return (
            f"{said} Repair the line; name the text in {option(na_values=...)} if it stands for a "
            f"missing cell; leave the column out with {option(exclude=...)}; or take it as "
            f"categories: {categorical}, or a list of the levels as text where the first rows hold "
            "numbers only."
        )


def _stripped(fields: list[str]) -> list[str]:
    return [field.strip() for field in fields]


def _alone_is_quoted(first: str, texts: list[str], delimiter: str) -> bool:
    """Whether all fields of the first line are quoted, and not all others with contents."""
    mark, field = re.escape(delimiter), r'[ \t]*"[^"]*"[ \t]*'
    quoted, row = (f"{x}(?:{mark}{x})*" for x in (field, rf"(?:{field}|[ \t]*)"))
    is_quoted = re.fullmatch(quoted, first) is not None
    return is_quoted and not all(re.fullmatch(row, text) for text in texts)


_LENT: list[ref[Any]] = []  # pieces of text that threads of pyarrow may hold


@atexit.register
def _wait_for_threads() -> None:
    """Let pyarrow give back its pieces: a thread that does so later ends the process (SIGABRT)."""
    end = time.monotonic() + 2.0  # far more than blocks need that are being parsed
    while any(piece() is not None for piece in _LENT) and time.monotonic() < end:
        time.sleep(0.001)


class _Rows(io.RawIOBase):
    """The rows as pyarrow reads them, and a line of empty fields: it shows an open quote."""

    may_repeat = False

    def __init__(self, source: CsvFile) -> None:
        self._source, self._lock = source, Lock()
        self._pieces: Generator[bytes, None, None] | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        """Some bytes, none at the end."""
        with self._lock:  # pyarrow may still read, in a thread of its own, when the file is closed
            self._pieces = self._pieces or self._read(size)
            piece = np.frombuffer(b"" if self.closed else next(self._pieces, b""), np.uint8)
        _LENT[:] = [ref(piece), *(other for other in _LENT if other() is not None)]
        return piece

    def close(self) -> None:
        with self._lock:
            if self._pieces is not None:
                self._pieces.close()
            super().close()

    def _read(self, size: int) -> Generator[bytes, None, None]:
        """Stretches of the text, none of which ends between CR and LF."""
        source, again = self._source, self._source.repeated
        pattern = re.compile(rb"[\r\n][ \t]*%b[ \t]*[\r\n]" % re.escape(again))
        skipped, carried, looked_at, mark = len(source.header_bytes), b"", b"\n", b"\xef\xbb\xbf"
        yield b"\n"  # a mark in the first field is not that of the file, which pyarrow would skip
        with source.followed(open_bytes(source.path, source.name)) as file:
            while data := file.read(size):
                data, mark = carried + data.removeprefix(mark), b""
                carried = b"\r" if data.endswith(b"\r") else b""
                data = data.removesuffix(b"\r")
                text, skipped = data[skipped:], max(0, skipped - len(data))
                if again:
                    looked_at = looked_at[-len(again) - 64 :] + text
                    self.may_repeat |= again in looked_at and bool(pattern.search(looked_at))
                if text:
                    yield text
        self.may_repeat |= bool(again and pattern.search(looked_at + b"\n"))
        yield f'\n{source.delimiter * (source.n_columns - 1)}""'.encode()
