"""CSV files → batches of Arrow; errors name the line.

pyarrow reads the text, with the type of each column given. What it refuses is read again: first
with numbers as text, which takes spaces around missing cells and marks between thousands, then with
Python's csv module, slowly, to say which line is wrong.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from momentmix.digests import TextDigest
from momentmix.errors import InputError
from momentmix.tables.cells import arrow_numbers
from momentmix.tables.compression import Unpacked, split_packing
from momentmix.tables.csv_header import above_fractions, alone_is_quoted, is_row, judged
from momentmix.tables.dialect import FALSE, TRUE, Dialect, kinds_of
from momentmix.tables.source import BATCH_ROWS, Batch, FileSource, Kind

BLOCK = 1 << 22  # bytes read at a time: enough for a fast parser, few beside the memory
LONGEST = 1 << 25  # bytes of a line: no table has such lines, and memory stays bounded
_LOOKED_AT, _MOST_FIELDS = 1000, 100_000  # lines, and fields of them, that tell kinds of columns
_END = "\x1fend\x1f"  # a line after the last one, unless a quote is open there
_WRONG_LINE = "CSV parse error"  # of pyarrow, for too few or too many fields
_LINE_END = re.compile(r"\r\n|\r|\n")
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # one that is not UTF-8, as Python decodes it


class CsvFile(FileSource):
    """A CSV file, perhaps compressed.

    Parameters
    ----------
    path : str or path-like
    dialect : Dialect
    """

    is_text = True

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect) -> None:
        super().__init__(path)
        stem, self._packing = split_packing(self.path.name)
        self.dialect = dialect.separated_by("\t" if stem.endswith(".tsv") else ",")
        self.nulls, self.delimiter = self.dialect.nulls, str(self.dialect.delimiter)
        self._careful = dialect.thousands is not None  # whether numbers are read as text
        with self.open_text() as file:
            head = file.read(1024)
        if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
            raise InputError(
                f"{self.name} is UTF-16 or binary, not UTF-8 text. Convert it: iconv -f utf-16 "
                "-t utf-8."
            )
        lines: list[str] = []
        with closing(self._records(lines)) as records:
            _, fields = next(records, (0, []))
            self._check_first(fields)
            first = "".join(lines)
            lines.clear()
            rows = self._first_rows(records)
        self._decide_header(rows, first.strip(), lines)
        self.header_bytes = b""
        if self.column_names is None:
            rows = [list(self.first_line), *rows]
        else:
            self.header_bytes = first.encode()
        self._kinds = kinds_of(rows, self.n_columns, self.dialect)

    def open_text(self) -> Any:
        """The bytes of the text."""
        if self._packing:
            return Unpacked(self.path, self._packing, self.name)
        return self.path.open("rb")

    def kind(self, column: int) -> Kind:
        """What a column holds, from its first cells."""
        return self._kinds[column]

    # -- the first lines ----------------------------------------------------------------------

    def _check_first(self, fields: list[str]) -> None:
        """Take the fields of the first line, which may be names or a row."""
        if not fields:
            raise InputError(f"{self.name} is empty; it needs at least one line of numbers.")
        if any(map(_BAD_BYTE.search, fields)):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.first_line, self.n_columns = tuple(field.strip() for field in fields), len(fields)
        if len(fields) == 1 and self.dialect.number(fields[0]) is None:
            for other in (";", "\t", "|"):
                if other in fields[0] and other != self.delimiter:
                    raise InputError(
                        f"{self.name} seems to be separated by {other!r}, not by "
                        f"{self.delimiter!r}. Pass delimiter={other!r} (--delimiter), and "
                        "decimal=',' (--decimal ,) where numbers have decimal commas."
                    )

    def _first_rows(self, records: Iterator[tuple[int, list[str]]]) -> list[list[str]]:
        """The fields of some lines, from which the columns are known."""
        rows, most = [], max(1, min(_LOOKED_AT, _MOST_FIELDS // self.n_columns))
        with suppress(InputError):  # the line is refused when it is read
            for _, fields in islice(records, most):
                rows += [fields] if len(fields) == self.n_columns else []
        return rows

    def _decide_header(self, rows: list[list[str]], first: str, lines: list[str]) -> None:
        """Take the first line for names or for a row."""
        names, header = self.first_line, self.dialect.header
        plain = [[self._plain(field) for field in fields] for fields in rows]
        has_text = any(self.dialect.number(name) is None for name in names)
        # Rows of whole numbers may well be equal to names that are.
        can_repeat = has_text or above_fractions(plain)
        if header is None and has_text and is_row(names, rows, self.dialect):
            raise InputError(
                f"{self.name}: the first line has the names of the columns, and "
                f"{', '.join(map(ascii, names[:5]))} look like a row. Write a line of names "
                "before it, or pass header=False (--no-header)."
            )
        if header is None and not has_text:
            quoted = alone_is_quoted(first, lines, self.delimiter)
            place = f"the first line of {self.name}"
            header, self.header_note = judged(place, [*map(self._plain, names)], plain, quoted)
        self.column_names = names if (has_text if header is None else header) else None
        self.repeated = first.encode() if self.column_names and can_repeat else b""

    def _plain(self, field: str) -> str:
        """A number without marks between thousands; nothing where a cell is missing."""
        text = self.dialect.plain(field.strip())
        return "" if text in self.nulls else text

    # -- batches ------------------------------------------------------------------------------

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """Batches from row `start` on."""
        given, kinds = start, self._kinds_read(columns, as_text)
        while True:
            n_good, blocks = 0, self._blocks(kinds)
            try:
                for block in blocks:
                    for skipped in range(max(0, given - n_good), block.num_rows, BATCH_ROWS):
                        piece = block.slice(skipped, BATCH_ROWS)
                        yield Batch(given, piece.num_rows, piece.columns[:-1])
                        given += piece.num_rows
                    n_good += block.num_rows
                return
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                if self._careful or _WRONG_LINE in str(error):
                    self._check_lines(n_good, kinds)
                    reason = str(error).partition("\n")[0]
                    raise InputError(f"{self.name} cannot be read: {reason}") from None
                self._careful = True
            finally:
                blocks.close()

    def _blocks(self, kinds: Sequence[tuple[int, str]]) -> Generator[Any, None, None]:
        """Rows as pyarrow parses them, in stretches of the text; the last column comes after them."""
        import pyarrow
        from pyarrow import csv as arrow_csv

        last, careful, file = self.n_columns - 1, self._careful, _Rows(self)
        text = pyarrow.string()
        types = {"unread": pyarrow.binary(), "text": pyarrow.dictionary(pyarrow.int32(), text)}
        types["number"] = text if careful else pyarrow.float64()
        types["bool"] = text if careful else pyarrow.bool_()
        read = {last: types["unread"], **{i: types[kind] for i, kind in kinds}}
        # A column that is asked for as text, too, is converted from that.
        read |= {i: text for i, kind in kinds if kind != "text" and (i, "text") in kinds}
        options = {
            "read_options": arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.n_columns)],
                block_size=LONGEST if careful else BLOCK,
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True
            ),
            "convert_options": arrow_csv.ConvertOptions(
                include_columns=[str(i) for i in read],
                column_types={str(i): type_ for i, type_ in read.items()},
                null_values=self.nulls,
                true_values=TRUE,
                false_values=FALSE,
                decimal_point=self.dialect.decimal,
            ),
        }
        held = None
        with closing(file), arrow_csv.open_csv(pyarrow.PythonFile(file, "r"), **options) as reader:
            for block in reader:
                if file.may_repeat and self.repeated:
                    self._check_lines(0, kinds)
                    self.repeated = b""  # there is none, where a line in quotes looks like it
                if not block.num_rows:
                    continue
                if held is not None:
                    yield held
                held = self._converted(block, kinds)
        assert held is not None
        if held.columns[-1][-1].as_py():
            raise ValueError(_WRONG_LINE)  # the line after the last one is part of a quoted field
        self._text = file.digest.hexdigest()
        yield held.slice(0, held.num_rows - 1)

    def _kinds_read(self, columns: Sequence[int], as_text: Sequence[int]) -> list[tuple[int, str]]:
        """Each column, and what it is read as: "number", "bool" or "text"."""
        kinds = [self._kinds[i].kind for i in columns]
        kinds = ["text" if kind == "date" else kind.replace("mixed", "number") for kind in kinds]
        return [(i, "text" if k in as_text else kinds[k]) for k, i in enumerate(columns)]

    def _converted(self, block: Any, kinds: Sequence[tuple[int, str]]) -> Any:
        """The columns asked for, of which those read as text are converted, and the last one."""
        from pyarrow import RecordBatch, types

        convert = {"number": self.dialect.numbers, "bool": self.dialect.bools}
        columns = []
        for i, kind in [*kinds, (self.n_columns - 1, "text")]:
            column = block.column(str(i))
            if kind != "text" and types.is_string(column.type):
                column = convert[kind](column)
            elif kind == "number" and np.isnan(arrow_numbers(column)[0]).any():
                raise ValueError("NaN")  # it may be "nan(1)", which is a number for pyarrow
            columns.append(column)
        return RecordBatch.from_arrays(columns, names=[""] * len(columns))

    # -- line by line -------------------------------------------------------------------------

    def where(self, row: int) -> str:
        """The line of a row in words; the file is read up to it."""
        return f"line {self._row(row)[0]}"

    def field(self, row: int, column: int) -> str:
        """A field as it is written; the file is read up to it."""
        return self._row(row)[1][column]

    def large_integer(self, row: int, column: int) -> int | None:
        """The size of the integer in a field; None where it has a point or an exponent.

        "1e17" is not meant to the last digit.
        """
        text = self.dialect.plain(self.field(row, column).strip()).lstrip("+-0")
        return int(text) if text.isascii() and text.isdigit() else None

    def _row(self, row: int) -> tuple[int, list[str]]:
        with closing(self._records()) as records:
            return next(islice(records, row + (self.column_names is not None), None))

    def _records(
        self, lines: list[str] | None = None
    ) -> Generator[tuple[int, list[str]], None, None]:
        """Number and fields of every line that is not blank.

        Parameters
        ----------
        lines : list of str, optional
            Takes the lines as they are read.
        """
        record: list[str] = []
        with io.TextIOWrapper(
            self.open_text(), "utf-8-sig", errors="surrogateescape", newline=""
        ) as text:
            reader, before = csv.reader(self._lines(text, record), delimiter=self.delimiter), 0
            try:
                for fields in reader:
                    if fields == [_END]:
                        return
                    if fields and fields[-1].endswith(_END):
                        self._refuse_quote(reader.line_num - 1, fields[-1].removesuffix(_END))
                    if lines is not None:
                        lines += record
                    if fields:
                        yield before + 1, fields
                    before = reader.line_num
                    record.clear()
            except csv.Error as error:
                if len(record) > 1:
                    *_, last = next(csv.reader(record[:-1], delimiter=self.delimiter))
                    self._refuse_quote(before + len(record) - 1, last)
                raise InputError(f"{self.name}, line {before + 1}: {error}.") from None

    def _lines(self, text: io.TextIOWrapper, record: list[str]) -> Iterator[str]:
        """Lines of the text, also those that end in quotes, and one more."""
        for number, line in enumerate(iter(lambda: text.readline(LONGEST), ""), 1):
            if len(line) == LONGEST:
                raise InputError(
                    f"{self.name}, line {number} has more than {LONGEST >> 20} MiB and no end; is "
                    "it CSV with lines?"
                )
            record.append(line)
            yield line
        yield _END

    def _refuse_quote(self, n_lines: int, field: str) -> NoReturn:
        """Raise for a field in quotes that lasts to the end of so many lines."""
        ends = _LINE_END.findall(field)
        number = n_lines - len(ends) + field.endswith(("\r", "\n"))
        raise InputError(
            f"{self.name}: a quote opens in line {number} and is not closed again. Close it, or "
            'remove the stray ".'
        )

    def _check_lines(self, n_good: int, kinds: Sequence[tuple[int, str]]) -> None:
        """Raise for the first line that is wrong after so many good rows."""
        with closing(self._records()) as records:
            for number, fields in islice(records, n_good + (self.column_names is not None), None):
                self._check_line(number, fields)
                for column, kind in kinds:
                    self._check_field(number, column, kind, fields[column])

    def _check_line(self, number: int, fields: list[str]) -> None:
        if self.repeated and tuple(field.strip() for field in fields) == self.first_line:
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

    def _check_field(self, number: int, column: int, kind: str, field: str) -> None:
        text, place = field.strip(), f"{self.name}, line {number}, {self.label(column)}"
        if kind == "text":
            if _BAD_BYTE.search(field):
                raise InputError(f"{place} is not UTF-8; convert it: iconv -t utf-8.")
            return
        key = column if self.column_names is None else self.column_names[column]
        if kind == "bool" and text not in (*TRUE, *FALSE, *self.nulls):
            raise InputError(
                f"{place}: {text[:60]!a} is no level of the column, which has 'false', 'true'. "
                f"Correct the cell, or list the levels as text: families={{{key!a}: ['false', "
                "'true', …]} (--families)."
            )
        if kind == "bool" or self.dialect.number(text) is not None:
            return
        cures = self.dialect.cures(text)
        cure = " ".join(f"{'If it' if len(cures) > 1 else 'It'} {cure}." for cure in cures)
        cure = cure or (
            "Repair the line; name the text in na_values (--na-values) if it stands for a missing "
            "cell; leave the column out with exclude= (--exclude); or take it as categories: "
            f"families={{{key!a}: 'categorical'}} (--families), or a list of the levels as text "
            "where the first rows hold numbers only."
        )
        raise InputError(f"{place}: {text[:60]!a} is not a number. {cure}")


class _Rows(io.RawIOBase):
    """The text of the rows as pyarrow reads it: without mark and header, and with one more line.

    All fields of that line are empty. It is part of the last one where a quote is not closed.

    Attributes
    ----------
    may_repeat : bool
        Whether a line so far may be the header again.
    digest : TextDigest
        Of the text so far, with the header.
    """

    may_repeat = False

    def __init__(self, source: CsvFile) -> None:
        self._source, self.digest, self._lock = source, TextDigest(), Lock()
        self._pieces: Generator[bytes, None, None] | None = None

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Some bytes, none at the end."""
        with self._lock:  # pyarrow may still read, in a thread of its own, when the file is closed
            self._pieces = self._pieces or self._read(size)
            return b"" if self.closed else next(self._pieces, b"")

    def close(self) -> None:
        """Close the file."""
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
        with source.open_text() as file:
            while data := file.read(size):
                data, mark = carried + data.removeprefix(mark), b""
                carried = b"\r" if data.endswith(b"\r") else b""
                data = data.removesuffix(b"\r")
                self.digest.add(data)
                text, skipped = data[skipped:], max(0, skipped - len(data))
                if again:
                    looked_at = looked_at[-len(again) - 64 :] + text
                    self.may_repeat |= again in looked_at and bool(pattern.search(looked_at))
                if text:
                    yield text
        self.digest.add(carried)
        self.may_repeat |= bool(again and pattern.search(looked_at + b"\n"))
        yield f'\n{source.delimiter * (source.n_columns - 1)}""'.encode()
