"""CSV files: blocks of whole rows, parsed by pyarrow with the type of each column given.

What pyarrow refuses is read again with Python's csv module, which takes spaces around missing cells
and names the line and the column of anything wrong. pyarrow reads some misplaced quotes without an
error, so that these are looked for before.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from momentmix.errors import InputError
from momentmix.parallel import map_in_order, usable_cores
from momentmix.tables.columns import Kind, numbers_of
from momentmix.tables.csv_text import (
    FALSE,
    TRUE,
    Dialect,
    are_fractions,
    is_row,
    judged,
    kind_of_cells,
)
from momentmix.tables.source import Batch, Columns, Source
from momentmix.wording import option

BLOCK = 1 << 21  # bytes read at a time: enough for a fast parser, few beside the memory
LONGEST = 1 << 26  # bytes of a row: no table has such rows, and memory stays bounded
_LOOKED_AT, _MOST_FIELDS = 1000, 100_000  # rows, and fields of them, that decide kinds of columns
_READ_AS = {"text": "text", "date": "text", "bool": "bool"}  # other kinds as numbers
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # one that is not UTF-8, as Python decodes it
_MARK = b"\xef\xbb\xbf"  # of byte order
Block = tuple[int, bytes]  # whole rows: number of their first line, and their text
Asked = Sequence[tuple[int, str]]  # columns, and what they are read as: number, bool or text


class Record(NamedTuple):
    """A row: its first line, its fields, and its text with the blank lines before it."""

    line: int
    fields: list[str]
    text: str


class CsvFile(Source):
    """A CSV file, perhaps compressed."""

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect) -> None:
        super().__init__(path)
        name = os.path.basename(path).lower()
        self._open: Any = gzip.open if name.endswith(".gz") else open
        is_tsv = name.removesuffix(".gz").endswith(".tsv")
        self.delimiter = dialect.delimiter or ("\t" if is_tsv else ",")
        self.dialect, self.nulls = replace(dialect, delimiter=self.delimiter), dialect.nulls
        mark = re.escape(self.delimiter)
        cell_ends = rf'(?:[^"]++|(?<![^{mark}\r\n])"[^"]*+(?:""[^"]*+)*+"(?![^{mark}\r\n]))*+'
        self._well_quoted = re.compile(cell_ends.encode())  # quotes stand at the ends of fields
        self._may_stand_by_quotes = np.isin(np.arange(256), [ord(self.delimiter), *b'\r\n"'])
        self._header, self._repeated = "", b""  # text of the header, as it is and to be found again
        text = next(self._pieces(), b"")
        if text[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in text[:1024]:
            raise InputError(
                f"{self.name} is binary or UTF-16, not CSV in UTF-8. Give a file of another format "
                "its own ending, or convert UTF-16: iconv -f utf-16 -t utf-8."
            )
        head, most = list[Record](), _LOOKED_AT
        with suppress(InputError):  # the line is refused when it is read
            for record in chain.from_iterable(map(self._records, self._blocks())):
                head.append(record)
                most = min(_LOOKED_AT, max(1, _MOST_FIELDS // len(head[0].fields)))
                if len(head) > most:
                    break
        if not head:
            raise InputError(f"{self.name} is empty; it needs at least one line of numbers.")
        fields = head[0].fields
        if any(map(_BAD_BYTE.search, fields)):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.first_line, self.n_columns = tuple(fields), len(fields)
        self._check_quotes((1, head[0].text.encode("utf-8", "replace")))
        others = [x for x in (";", "\t", "|") if x in fields[0] and x != self.delimiter]
        if len(fields) == 1 and others and self.dialect.number(fields[0]) is None:
            raise InputError(
                f"{self.name} seems to be separated by {others[0]!r}, not by {self.delimiter!r}. "
                f"Pass {option(delimiter=others[0])}, and {option(decimal=',')} where numbers have "
                "decimal commas."
            )
        self._decide_header([record for record in head if len(record.fields) == self.n_columns])

    def _decide_header(self, head: list[Record]) -> None:
        """Take the first line for names or for a row; know what the columns hold."""
        every = [[x.strip() for x in record.fields] for record in head]
        (names, *rows), header = every, self.dialect.header
        cells = list(zip(*rows, strict=True)) or [()] * self.n_columns
        self._kinds = [kind_of_cells(column, self.dialect) for column in cells]
        plain, *others = ([x if x not in self.nulls else "" for x in row] for row in every)
        has_text = any(self.dialect.number(name) is None for name in names)
        if header is None and not has_text:
            quoted, *more = (x.text.count('"') == 2 * sum(map(bool, x.fields)) for x in head)
            place = f"the first line of {self.name}"
            header, self.header_note = judged(place, plain, others, quoted and not all(more))
        elif header is None and is_row(names, self._kinds, self.dialect):
            raise InputError(
                f"{self.name}: the first line has the names of the columns, and "
                f"{', '.join(map(ascii, names[:5]))} look like a row. Write a line of names "
                f"before it, or pass {option(header=False)}."
            )
        if header is False:
            self._kinds = [kind_of_cells(x, self.dialect) for x in zip(*every, strict=True)]
            return
        self.column_names, self._header = self.first_line, head[0].text
        if has_text or are_fractions(others):  # rows of whole numbers may be equal to names
            self._repeated = head[0].text.strip().encode()

    def kind(self, column: int) -> Kind:
        return self._kinds[column]

    # -- blocks of text ------------------------------------------------------------------------

    def _pieces(self) -> Iterator[bytes]:
        """The text piece by piece, none of which ends between CR and LF."""
        mark = _MARK
        try:
            with self._open(self.path, "rb") as file:
                while data := file.read(BLOCK):
                    while data.endswith(b"\r") and (more := file.read(1)):
                        data += more
                    yield data.removeprefix(mark)
                    mark = b""
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(
                f"{self.name} is not a whole gzip file: {error}. Compress or copy it again."
            ) from None

    def _blocks(self) -> Iterator[Block]:
        """The text behind the header, in blocks of whole rows."""
        header = self._header.encode("utf-8", "surrogateescape")
        rest, line, skipped = b"", 1 + _n_line_ends(header), len(header)
        for piece in self._pieces():
            text, skipped = rest + piece[skipped:], max(0, skipped - len(piece))
            end = _end_of_rows(text)
            if text[:end].isspace():  # blank lines belong to the row after them
                end = 0
            if end:
                yield line, text[:end]
                line += _n_line_ends(text[:end])
            rest = text[end:]
            if len(rest) > LONGEST:
                self._check_quotes((line, rest))
                raise InputError(
                    f"{self.name}, line {line}: a row has no end within 64 MiB. Is it CSV with "
                    "lines? Repair these lines."
                )
        if rest:
            yield line, rest

    def _has_wrong_quote(self, text: bytes) -> bool:
        """Whether a quote of whole rows stands inside a field, or is not closed."""
        if b'"' not in text:
            return False
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == ord('"'))
        padded = np.frombuffer(b"\n" + text + b"\n", np.uint8)
        beside = padded[quotes[::2]], padded[quotes[1::2] + 2]  # outside, where fields are whole
        return len(quotes) % 2 > 0 or not all(self._may_stand_by_quotes[x].all() for x in beside)

    def _may_repeat_header(self, text: bytes) -> bool:
        """Whether a line of a block looks like the header."""
        again = rb"(?:^|[\r\n])[ \t]*%b[ \t]*(?:$|[\r\n])" % re.escape(self._repeated)
        has_text = bool(self._repeated) and self._repeated in text  # much faster than the pattern
        return has_text and re.search(again, text) is not None

    def _check_quotes(self, block: Block) -> None:
        """Raise where a quote is wrong, with its line and column."""
        line, text = block
        if not self._has_wrong_quote(text):
            return
        place = self._well_quoted.match(text).end()  # type: ignore[union-attr]
        where = f"{self.name}, line {line + _n_line_ends(text[:place])}"
        opens = place == 0 or self._may_stand_by_quotes[text[place - 1]]
        field = re.compile(rb'"[^"]*(?:""[^"]*)*("?)').match(text, place)
        if field is not None and opens and (not field[1] or re.search(rb"[\r\n]", field[0])):
            raise InputError(
                f"{where}: a quote opens here and is not closed again. Close or remove it."
            )
        row = text[_end_of_rows(text[:place]) : place] + b"x"
        column = len(next(csv.reader([row.decode("utf-8", "replace")], delimiter=self.delimiter)))
        raise InputError(
            f"{where}, {self.label(min(column, self.n_columns) - 1)}: a quote stands inside a "
            "cell. Remove it, and spaces beside quotes; or put the whole cell in quotes, and write "
            '"" for each quote in it.'
        )

    def _records(self, block: Block) -> Iterator[Record]:
        """Every row of a block that is not blank, as Python reads it."""
        first, taken = block[0], list[str]()
        lines = io.StringIO(block[1].decode("utf-8", "surrogateescape"), newline="")
        reader = csv.reader((taken.append(x) or x for x in lines), delimiter=self.delimiter)  # type: ignore[func-returns-value]
        try:
            for fields in reader:
                if fields:
                    yield Record(first, fields, "".join(taken))
                    taken.clear()
                first = block[0] + reader.line_num
        except csv.Error as error:  # a field that is too long
            raise InputError(f"{self.name}, line {first}: {error}. Repair the line.") from None

    def batches(
        self, columns: Columns, as_text: Columns = (), others: Columns = ()
    ) -> Iterator[Batch]:
        kinds = [_READ_AS.get(self._kinds[i].kind, "number") for i in columns]
        asked = [(i, "text" if k in as_text else kinds[k]) for k, i in enumerate(columns)]
        work = partial(self._parsed, asked, [(i, "text") for i in others])
        first = 0
        for parsed in map_in_order(work, self._blocks(), min(usable_cores(), 4)):
            if parsed and len(parsed[0]):
                yield first, parsed
                first += len(parsed[0])

    def _parsed(self, asked: Asked, others: Asked, block: Block) -> list[Any]:
        """The columns of a block; an error names the line."""
        text = block[1]
        if not text.strip(b"\r\n"):
            return []
        if not (self._has_wrong_quote(text) or self._may_repeat_header(text)):
            with suppress(ValueError):
                written = self._typed(text, others, has_nulls=False) if others else []
                return [*self._typed(text, asked), *written]
        return self._read_by_line(block, [*asked, *others], len(asked))

    def _typed(self, block: bytes, asked: Asked, has_nulls: bool = True) -> list[Any]:
        """Columns of a block as pyarrow parses it."""
        import pyarrow
        from pyarrow import csv as arrow_csv

        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        types = {"number": pyarrow.float64(), "bool": pyarrow.bool_(), "text": text}
        block = b"\n" + block if block.startswith(_MARK) else block  # skipped at the beginning
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(block),
            arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.n_columns)],
                use_threads=False,
                block_size=max(1, len(block) + 1),
            ),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                include_columns=[str(i) for i in dict(asked)],
                column_types={str(i): types[kind] for i, kind in asked},
                null_values=self.nulls,
                strings_can_be_null=has_nulls,
                true_values=TRUE,
                false_values=FALSE,
                decimal_point=self.dialect.decimal,
            ),
        )
        columns = [table.column(str(i)).combine_chunks() for i, _ in asked]
        for column, (_, kind) in zip(columns, asked, strict=True):
            if kind == "number" and np.isnan(numbers_of(column)).sum() > column.null_count:
                raise ValueError("NaN")  # it may be "nan(1)", which is a number for pyarrow
        return columns

    def _read_by_line(self, block: Block, asked: Asked, n_features: int) -> list[Any]:
        """The same columns by Python's csv module; an error names the line and the column."""
        import pyarrow

        self._check_quotes(block)
        names, rows = [x.strip() for x in self.first_line], list[list[Any]]()
        for line, fields, _ in self._records(block):
            where = f"{self.name}, line {line}"
            if self._repeated and names == [x.strip() for x in fields]:
                raise InputError(
                    f"{where} repeats the header. Was the file put together from several? Remove "
                    "that line, or pass the files."
                )
            if len(fields) != self.n_columns:
                commas = " Are there decimal commas? Then use another delimiter."
                raise InputError(
                    f"{where} has {len(fields)} field(s), the first line {self.n_columns}. Repair "
                    f"or remove it.{commas if len(fields) == 2 * self.n_columns else ''}"
                )
            cells = [self._value(fields[i], kind, i, where) for i, kind in asked]
            rows.append(cells)
        columns = list[Any]()
        for k, (_, kind) in enumerate(asked):
            values = [row[k] for row in rows]
            if kind != "text":
                columns.append(np.array(values))
                continue
            texts = [None if x in self.nulls and k < n_features else x for x in values]
            columns.append(pyarrow.array(texts, pyarrow.string()).dictionary_encode())
        return columns

    def _value(self, field: str, kind: str, column: int, where: str) -> float | str:
        """What a field holds; an error with a cure where that is not what the column holds."""
        value = {"number": self.dialect.number, "bool": self.dialect.truth}.get(kind, str)(field)
        is_bad = kind == "text" and _BAD_BYTE.search(field)
        if value is not None and not is_bad:
            return value
        text, key = field.strip(), column if self.column_names is None else self.first_line[column]
        where, categorical = f"{where}, {self.label(column)}", option(families={key: "categorical"})
        if is_bad:
            raise InputError(f"{where} is not UTF-8; convert it: iconv -t utf-8.")
        if kind == "bool":
            raise InputError(
                f"{where}: {text[:60]!a} is no level of the column, which has 'false', 'true'. "
                "Correct the cell, or list the levels as text: "
                f"{option(families={key: ['false', 'true', text]})}."
            )
        if cures := self.dialect.cures(text):
            it = " If it " if len(cures) > 1 else " It "
            problem = "".join(f"{it}{cure}." for cure in cures)
            raise InputError(f"{where}: {text[:60]!a} is not a number.{problem}")
        raise InputError(
            f"{where}: {text[:60]!a} is not a number. Repair the line; name the text in "
            f"{option(na_values=...)} if it stands for a missing cell; leave the column out with "
            f"{option(exclude=...)}; or take it as categories: {categorical}, or a list of the "
            "levels as text where the first rows hold numbers only."
        )

    def where(self, row: int) -> str:
        """The line of a row in words; the file is read up to it."""
        with suppress(InputError):
            records = chain.from_iterable(map(self._records, self._blocks()))
            return f"line {next(islice(records, row, None)).line}"
        return f"row {row}"


def _n_line_ends(text: bytes) -> int:
    """Number of line ends: LF, CR LF or CR."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _end_of_rows(text: bytes) -> int:
    """The end of the last whole row of a text that begins with a row: a line end outside quotes."""
    end, stop = b"\n" if b"\n" in text else b"\r", len(text)
    is_inside = text.count(b'"') % 2 > 0  # of quotes, at `stop`
    while (place := text.rfind(end, 0, stop)) >= 0:
        is_inside ^= text.count(b'"', place, stop) % 2 > 0
        if not is_inside:
            return place + 1
        stop, is_inside = text.rfind(b'"', 0, place), False  # before the field around it
    return 0
