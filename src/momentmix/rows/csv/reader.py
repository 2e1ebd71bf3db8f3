"""The CSV reader: text → blocks of rows; errors name the line.

The text is cut into chunks of whole lines. pyarrow reads a chunk where it is installed, NumPy where
it is not; a chunk that they refuse is read again field by field, slowly, to say what is wrong in
which line (or to accept it after all). Memory is bounded by the size of a chunk, also where a quote
is never closed.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO, NoReturn

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.rows.containers import warn_beyond
from momentmix.rows.csv.compression import Unpacked, split_packing
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.csv.kinds import is_row, kinds_of
from momentmix.rows.csv.lines import LineFinder, count_lines, end_of_line
from momentmix.rows.csv.numbers import parsed_fast
from momentmix.digests import TextDigest
from momentmix.rows.header import above_fractions, judged
from momentmix.rows.labels import (
    NO_LABELS,
    Labels,
    LabelsError,
    refused_label,
    too_many_labels,
)
from momentmix.rows.table import FileTable, Kind, RawBlock, Table

Chunk = tuple[int, bytes]  # number of its first line, text

CHUNK = 1 << 22  # bytes read at a time: enough for a fast parser, few beside the memory
LONGEST = 1 << 25  # bytes of a line: no table has such lines, and memory stays bounded
_LOOKED_AT, _MOST_FIELDS = 1000, 100_000  # lines, and fields of them, that tell kinds of columns
_LINE_ENDS = b"\r\n"


class CsvText(Table):
    """CSV from a stream of bytes.

    Parameters
    ----------
    name : str
    opener : callable
        Gives the stream, from its first byte.
    dialect : Dialect

    Attributes
    ----------
    packed : bool
        Whether the bytes are compressed, so that unpacking them is work for a thread.
    """

    packed = False
    is_text = True

    def __init__(self, name: str, opener: Callable[[], BinaryIO], dialect: Dialect) -> None:
        self.name, self._opener = name, opener
        self.dialect = dialect.separated_by(",")
        self.delimiter, self.nulls = str(self.dialect.delimiter), self.dialect.nulls
        self._examined: set[int] = set()  # columns whose first large number was examined
        chunks = self._chunks()
        first = next(chunks, None)
        if first is None:
            raise InputError(f"{name} is empty; it needs at least one line of numbers.")
        self._read_first(first[1])
        while not self._without_first(*first)[1].strip() and (more := next(chunks, None)):
            first = first[0], first[1] + more[1]  # a stream may give its lines one by one
        lines = self._first_lines(*self._without_first(*first))
        self._decide_header(lines, first[1])
        if self.column_names is None:
            lines = [self._fields, *lines]
        self._kinds = kinds_of(lines, self.n_columns, self.dialect)
        self._first = None if self.reopens else first
        self._unread = None if self.reopens else chain([first], chunks)

    def _all_chunks(self) -> Iterator[Chunk]:
        if self.reopens:
            return self._chunks(self.packed)
        chunks, self._unread, self._first = self._unread, None, None
        if chunks is None:
            raise InputError(
                f"{self.name} can be read once only; save it to a file for several passes."
            )
        return chunks

    # -- header -------------------------------------------------------------------------------

    def _read_first(self, text: bytes) -> None:
        """The fields of the first line, which may be names or a row."""
        try:
            reader = self._reader(text)
            fields = next(row for row in reader if row)
        except (csv.Error, StopIteration) as error:
            raise InputError(f"{self.name} has no readable first line: {error}.") from None
        if any("\ufffd" in field for field in fields):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.n_columns, self._header_lines = len(fields), reader.line_num
        self._header_text = text[: end_of_line(text, reader.line_num)].strip()
        self._fields = [field.strip() for field in fields]
        if len(fields) == 1 and self.dialect.number(fields[0]) is None:
            for other in (";", "\t", "|"):
                if other in fields[0] and other != self.delimiter:
                    raise InputError(
                        f"{self.name} seems to be separated by {other!r}, not by "
                        f"{self.delimiter!r}. Pass delimiter={other!r} (--delimiter), and "
                        "decimal=',' (--decimal ,) where numbers have decimal commas."
                    )

    def _first_lines(self, line: int, chunk: bytes) -> list[list[str]]:
        """The fields of some lines, from which the columns are known."""
        n_lines = max(1, min(_LOOKED_AT, _MOST_FIELDS // self.n_columns))
        text = chunk[: end_of_line(chunk, n_lines)]
        try:
            lines = [fields for _, fields in self._lines(text, line)]
        except InputError:  # the reader says so when it comes to the line
            lines = []
        return [fields for fields in lines if len(fields) == self.n_columns]

    def _decide_header(self, lines: list[list[str]], text: bytes) -> None:
        """Take the first line for names or for a row."""
        header = self.dialect.header
        plain = [[self._plain(field) for field in fields] for fields in lines]
        has_text = any(self.dialect.number(field) is None for field in self._fields)
        # Rows of whole numbers may well be equal to names that are.
        self._can_repeat = has_text or above_fractions(plain)
        if header is None and has_text and is_row(self._fields, lines, self.dialect):
            raise InputError(
                f"{self.name}: the first line has the names of the columns, and "
                f"{', '.join(map(ascii, self._fields[:5]))} look like a row. Write a line of names "
                "before it, or pass header=False (--no-header)."
            )
        if header is None and not has_text:
            header, self.header_note = judged(
                f"the first line of {self.name}", [self._plain(field) for field in self._fields],
                plain, self._alone_is_quoted(text),
            )  # fmt: skip
        named = has_text if header is None else header
        self.first_line = tuple(self._fields)
        self.column_names = self.first_line if named else None

    def _plain(self, field: str) -> str:
        """A number without marks between thousands; nothing where a cell is missing."""
        text = self.dialect.plain(field.strip())
        return "" if text in self.nulls else text

    def _alone_is_quoted(self, text: bytes) -> bool:
        """Whether all fields of the first line are quoted, and not all others with contents."""
        mark = re.escape(self.delimiter.encode())
        field = rb'[ \t]*"[^"]*"[ \t]*'
        all_quoted = re.compile(rb"%b(?:%b%b)*" % (field, mark, field))
        if not all_quoted.fullmatch(self._header_text):
            return False
        cell = rb"(?:%b|[ \t]*)" % field
        row = re.compile(rb"%b(?:%b%b)*" % (cell, mark, cell))
        _, rows = self._without_first(1, text)
        lines = rows[: end_of_line(rows, _LOOKED_AT)].splitlines()
        return not all(row.fullmatch(line) for line in lines)

    def kind(self, column: int) -> Kind:
        """What a column holds, from its first cells."""
        return self._kinds[column]

    def _reader(self, text: bytes) -> Any:
        decoded = io.StringIO(text.decode("utf-8", "replace"), newline="")
        return csv.reader(decoded, delimiter=self.delimiter)

    # -- chunks of whole lines ----------------------------------------------------------------

    def _chunks(self, ahead: bool = False) -> Iterator[Chunk]:
        """Chunks from the first line on; another thread unpacks the next ones where `ahead`."""
        line, start = 1, 0
        pending: list[bytes] = []  # text from `start` on, in which no line has ended
        finder = LineFinder(self.delimiter)
        for text in read_ahead(self._stretches()) if ahead else self._stretches():
            cut = finder.feed(text)
            if cut:
                chunk = b"".join([*pending, text[:cut]])
                if chunk.strip(_LINE_ENDS):
                    yield line, chunk
                line, start, pending = line + count_lines(chunk), start + len(chunk), []
            pending.append(text[cut:])
            if finder.length - start > LONGEST:
                self._refuse_length(b"".join(pending), line, finder, start)
        rest = b"".join(pending)
        if finder.inside:
            self._unterminated(rest[: finder.opened - start], line)
        if rest.strip(_LINE_ENDS):
            yield line, rest

    def _stretches(self) -> Generator[bytes, None, None]:
        """The text in stretches, none of which ends between CR and LF."""
        start, carried, digest = True, b"", TextDigest()
        with self._opener() as stream:
            while data := stream.read(CHUNK):
                text = carried + (self._without_mark(data) if start else data)
                start, carried = False, b"\r" if text.endswith(b"\r") else b""
                text = text.removesuffix(b"\r")
                if text:
                    if self._text is None:
                        digest.add(text)
                    yield text
            if carried:
                digest.add(carried)
                yield carried
        self._text = self._text or digest.hexdigest()

    def _without_mark(self, data: bytes) -> bytes:
        """The first bytes of UTF-8 text without the byte order mark; others are refused."""
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:1024]:
            raise InputError(
                f"{self.name} is UTF-16 or binary, not UTF-8 text. Convert it: iconv -f utf-16 "
                "-t utf-8."
            )
        return data.removeprefix(b"\xef\xbb\xbf")

    def _refuse_length(self, text: bytes, line: int, finder: LineFinder, start: int) -> None:
        if finder.inside:
            self._unterminated(text[: finder.opened - start], line)
        raise InputError(
            f"{self.name}, line {line} has more than {LONGEST >> 20} MiB and no end; is it CSV "
            "with lines?"
        )

    def _unterminated(self, before: bytes, line: int) -> None:
        raise InputError(
            f"{self.name}: a quote opens in line {line + count_lines(before)} and is not closed "
            'again. Close it, or remove the stray ".'
        )

    # -- chunks → numbers ---------------------------------------------------------------------

    def read(
        self,
        columns: Sequence[int],
        start: int,
        block_rows: int,
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Iterator[RawBlock]:
        """Blocks of rows, chunk by chunk."""
        skip = start
        for line, chunk in self._row_chunks():
            values = self._parsed(chunk, line, columns, labels)
            self._warn_of_integers(values, chunk, line, columns)
            if skip >= len(values):
                skip -= len(values)
                continue
            for first in range(skip, len(values), block_rows):
                block = values[first : first + block_rows]
                yield RawBlock(block, self._line_of_row(chunk, line, first))
            skip = 0

    def head(
        self, columns: Sequence[int], n_rows: int, labels: Mapping[int, Labels] = NO_LABELS
    ) -> Float:
        """The rows of the first chunk; a stream can still be read from its start."""
        if self.reopens:
            return super().head(columns, n_rows, labels)
        assert self._first is not None
        line, chunk = self._first
        if self.column_names is not None:
            line, chunk = self._without_first(line, chunk)
        return self._parsed(chunk, line, columns, labels)[:n_rows]

    def _row_chunks(self) -> Iterator[Chunk]:
        """Chunks without the header."""
        header = self.column_names is not None
        for line, chunk in self._all_chunks():
            if header:
                line, chunk = self._without_first(line, chunk)
                header = False
            if chunk.strip(_LINE_ENDS):
                yield line, chunk

    def kept_kinds(self, columns: Sequence[int]) -> list[Any]:
        """Fields are text."""
        return ["text"] * len(columns)

    def cells(self, columns: Sequence[int], block_rows: int) -> Iterator[list[Any]]:
        """Fields as they are written, chunk by chunk; other text than UTF-8 is an error."""
        for line, chunk in self._row_chunks():
            try:
                chunk.decode()
            except UnicodeDecodeError as error:
                number = line + count_lines(chunk[: error.start])
                raise InputError(
                    f"{self.name}, line {number} is not UTF-8, so that its text cannot be copied. "
                    "Convert the file: iconv -t utf-8."
                ) from None
            rows = []
            for number, fields in self._lines(chunk, line):
                if len(fields) != self.n_columns:
                    self._check_line(number, fields)
                rows.append([fields[i] for i in columns])
            yield list(np.array(rows, dtype=object).reshape(len(rows), len(columns)).T)

    def _without_first(self, line: int, chunk: bytes) -> Chunk:
        end = end_of_line(chunk, self._header_lines)
        return line + self._header_lines, chunk[end:]

    def _line_of_row(self, chunk: bytes, line: int, first: int) -> Callable[[int], str]:
        def place(row: int) -> str:
            number, _ = next(islice(self._lines(chunk, line), first + row, None))
            return f"line {number}"

        return place

    def _warn_of_integers(
        self, values: Float, chunk: bytes, line: int, columns: Sequence[int]
    ) -> None:
        """Warn once for each column that holds integers which float64 rounds.

        The first large number of a column decides: "1e17" is not meant to the last digit.
        """
        for j, column in enumerate(columns):
            if column in self._examined:
                continue
            large = (np.abs(values[:, j]) >= 2**53) & np.isfinite(values[:, j])
            if not large.any():
                continue
            row = int(large.argmax())
            number, fields = next(islice(self._lines(chunk, line), row, None))
            text = self.dialect.plain(fields[column].strip()).lstrip("+-0")
            integer = int(text) if text.isascii() and text.isdigit() else None
            if integer == 2**53:
                continue
            self._examined.add(column)
            if integer is not None:
                what = f"{self.name}, line {number}, {self.label(column)} holds"
                warn_beyond(what, integer)

    def _lines(self, chunk: bytes, line: int) -> Iterator[tuple[int, list[str]]]:
        """Fields of every line that is not blank, and the number of the line."""
        reader, before = self._reader(chunk), 0
        try:
            for fields in reader:
                if fields:
                    yield line + before, fields
                before = reader.line_num
        except csv.Error as error:
            raise InputError(f"{self.name}, line {line + before}: {error}.") from None

    def _parsed(
        self, chunk: bytes, line: int, columns: Sequence[int], labels: Mapping[int, Labels]
    ) -> Float:
        if not self._may_repeat(chunk):
            try:
                return parsed_fast(chunk, columns, self.n_columns, self.dialect, labels)
            except LabelsError:
                self._refuse_labels(labels)
            except ValueError:
                pass
        return self._parsed_slowly(chunk, line, columns, labels)

    def _may_repeat(self, chunk: bytes) -> bool:
        """Whether a line of a chunk may be the header again."""
        text = self._header_text
        if self.column_names is None or not self._can_repeat or text not in chunk:
            return False
        return chunk.startswith(text) or b"\n" + text in chunk or b"\r" + text in chunk

    def _parsed_slowly(
        self,
        chunk: bytes,
        line: int,
        columns: Sequence[int],
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Float:
        rows = []
        for number, fields in self._lines(chunk, line):
            self._check_line(number, fields)
            try:
                values = [self._value(fields[i], labels.get(i)) for i in columns]
            except LabelsError:
                self._refuse_labels(labels)
            if None in values:
                self._refuse_field(number, fields, columns[values.index(None)], labels)
            rows.append(values)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))

    def _value(self, field: str, labels: Labels | None) -> float | None:
        """The number or the code of a field; None for what is neither."""
        if labels is None:
            return self.dialect.number(field)
        if "\ufffd" in field:
            return None
        is_null = field.strip() in self.dialect.nulls
        code = float(labels.codes([None if is_null else labels.cell(field)])[0])
        return None if code == labels.refused else code

    def _refuse_labels(self, labels: Mapping[int, Labels]) -> NoReturn:
        most = max(labels, key=lambda i: len(labels[i].names))
        raise too_many_labels(f"{self.name}, {self.label(most)}") from None

    def _check_line(self, number: int, fields: list[str]) -> None:
        named = self.column_names is not None and self._can_repeat
        if named and [field.strip() for field in fields] == self._fields:
            raise InputError(
                f"{self.name}, line {number} repeats the header. Was the file put together from "
                "several? Remove that line, or pass the files."
            )
        if len(fields) != self.n_columns:
            hint = ""
            if len(fields) == 2 * self.n_columns:
                hint = " Are there decimal commas? Then use another delimiter."
            raise InputError(
                f"{self.name}, line {number} has {len(fields)} field(s), the first line "
                f"{self.n_columns}. Repair or remove it.{hint}"
            )

    def _key(self, column: int) -> str:
        """The key of a column in `families`, as messages print it."""
        return str(column) if self.column_names is None else ascii(self.column_names[column])

    def _refuse_field(
        self, number: int, fields: list[str], column: int, labels: Mapping[int, Labels]
    ) -> None:
        text, label = fields[column].strip(), self.label(column)
        if column in labels and "\ufffd" in text:
            raise InputError(
                f"{self.name}, line {number}, {label} is not UTF-8; convert it: iconv -t utf-8."
            )
        if column in labels:
            raise refused_label(f"{self.name}, line {number}, {label}", text, labels[column])
        cures = self.dialect.cures(text)
        cure = " ".join(f"{'If it' if len(cures) > 1 else 'It'} {cure}." for cure in cures)
        cure = cure or (
            "Repair the line; name the text in na_values (--na-values) if it stands for a missing "
            "cell; leave the column out with exclude= (--exclude); or take it as categories: "
            f"families={{{self._key(column)}: 'categorical'}} (--families), or a list of the "
            "levels as text where the first rows hold numbers only."
        )
        raise InputError(
            f"{self.name}, line {number}, {label}: {text[:60]!a} is not a number. {cure}"
        )


class CsvFile(CsvText, FileTable):
    """A CSV file, perhaps compressed."""

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect) -> None:
        FileTable.__init__(self, path)
        name, self._packing = split_packing(self.path.name)
        self.packed = bool(self._packing)
        separator = "\t" if name.endswith(".tsv") else ","
        CsvText.__init__(self, self.name, self._open, dialect.separated_by(separator))

    def _open(self) -> Any:
        if self.packed:
            return Unpacked(self.path, self._packing, self.name)
        return self.path.open("rb")


class CsvStream(CsvText):
    """CSV that can be read once, such as standard input."""

    reopens = False

    def __init__(self, stream: BinaryIO, dialect: Dialect) -> None:
        super().__init__("standard input", lambda: stream, dialect)
        self._mark = os.urandom(16).hex()

    def mark(self) -> str:
        """A random text that keeps shards apart: a stream is not known before it is read."""
        return self._mark
