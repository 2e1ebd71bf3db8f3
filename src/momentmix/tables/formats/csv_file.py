"""CSV files: blocks of whole rows, parsed by pyarrow with the type of each column given.

What pyarrow refuses is read again: first with numbers as text, which takes spaces around missing
cells, then line by line with Python's csv module, to name the line and the column that are wrong.
pyarrow reads some misplaced quotes without an error, so that these are looked for before.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from momentmix.errors import InputError
from momentmix.parallel import map_in_order, usable_cores
from momentmix.tables.columns import Kind, codes_of, numbers_of
from momentmix.tables.formats.csv_text import (
    FALSE,
    TRUE,
    Dialect,
    are_alone_quoted,
    are_fractions,
    end_of_rows,
    is_row,
    judged,
    kind_of_cells,
    n_line_ends,
    quote_places,
    wrong_quote,
)
from momentmix.tables.source import Batch, Columns, Source
from momentmix.wording import option

BLOCK = 1 << 21  # bytes read at a time: enough for a fast parser, few beside the memory
LONGEST = 1 << 26  # bytes of a row: no table has such rows, and memory stays bounded
_LOOKED_AT, _MOST_FIELDS = 1000, 100_000  # rows, and fields of them, that decide kinds of columns
_READ_AS = {"text": "text", "date": "text", "bool": "bool"}  # other kinds as numbers
_BAD_BYTE = re.compile("[\udc80-\udcff]")  # one that is not UTF-8, as Python decodes it
_MARK = b"\xef\xbb\xbf"  # of byte order
Asked = Sequence[tuple[int, str]]  # columns, and what they are read as: number, bool, text, written
Block = tuple[int, bytes]  # whole rows: number of their first line, and their text


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
        self._header, self._repeated = "", b""  # text of the header, as it is and to be found again
        text = next(self._pieces(), b"")
        if text[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in text[:1024]:
            raise InputError(
                f"{self.name} is binary or UTF-16, not CSV in UTF-8. Give a file of another format "
                "its own ending, or convert UTF-16: iconv -f utf-16 -t utf-8."
            )
        head, most = list[Record](), _LOOKED_AT
        with suppress(csv.Error):  # the line is refused when it is read
            for record in chain.from_iterable(map(self._records, self._blocks())):
                head.append(record)
                most = min(_LOOKED_AT, max(1, _MOST_FIELDS // len(head[0].fields)))
                if len(head) > most:
                    break
        if not head:
            raise InputError(f"{self.name} is empty; it needs at least one line of numbers.")
        first, fields = head[0], head[0].fields
        if any(map(_BAD_BYTE.search, fields)):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.first_line, self.n_columns = tuple(fields), len(fields)
        if problem := self._problem_of_quotes((1, first.text.encode("utf-8", "replace"))):
            raise InputError(f"{self.name}, {problem}")
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
            texts = [record.text for record in head]
            quoted = are_alone_quoted(texts[0], texts[1:], self.delimiter)
            place = f"the first line of {self.name}"
            header, self.header_note = judged(place, plain, others, quoted)
        elif header is None and is_row(names, rows, self._kinds, self.dialect):
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
        rest, line, skipped = b"", 1 + n_line_ends(header), len(header)
        for piece in self._pieces():
            text, skipped = rest + piece[skipped:], max(0, skipped - len(piece))
            end = end_of_rows(text, quote_places(text))
            end *= not text[:end].isspace()  # blank lines belong to the row after them
            if end:
                yield line, text[:end]
                line += n_line_ends(text[:end])
            rest = text[end:]
            if len(rest) > LONGEST:
                raise self._error((line, rest), [], "a row has no end within 64 MiB")
        if rest:
            yield line, rest

    def _records(self, block: Block) -> Iterator[Record]:
        """Every row of a block that is not blank, as Python reads it."""
        first, taken = block[0], list[str]()
        lines = io.StringIO(block[1].decode("utf-8", "surrogateescape"), newline="")
        reader = csv.reader((taken.append(x) or x for x in lines), delimiter=self.delimiter)  # type: ignore[func-returns-value]
        for fields in reader:
            if fields:
                yield Record(first, fields, "".join(taken))
                taken.clear()
            first = block[0] + reader.line_num

    def batches(
        self, columns: Columns, as_text: Columns = (), as_written: Columns = ()
    ) -> Iterator[Batch]:
        kinds = [_READ_AS.get(self._kinds[i].kind, "number") for i in columns]
        kinds = ["text" if k in as_text else kind for k, kind in enumerate(kinds)]
        kinds = ["written" if k in as_written else kind for k, kind in enumerate(kinds)]
        first, asked = 0, list(zip(columns, kinds, strict=True))
        work: Callable[[Block], Any] = lambda block: self._parsed(block, asked)  # noqa: E731
        for parsed in map_in_order(work, self._blocks(), min(usable_cores(), 4)):
            if parsed and len(parsed[0]):
                yield first, parsed
                first += len(parsed[0])

    def _parsed(self, block: Block, asked: Asked) -> list[Any]:
        """The columns of a block; an error names the line."""
        text = block[1]
        if not text.strip(b"\r\n"):
            return []
        if wrong_quote(text, quote_places(text), self.delimiter) or self._repeats(block):
            raise self._error(block, asked)
        for careful in (False, True):
            try:
                return self._read(text, asked, careful)
            except ValueError as error:
                reason = str(error).partition("\n")[0]
        raise self._error(block, asked, reason)

    def _repeats(self, block: Block) -> bool:
        """Whether a row is the header again."""
        again = rb"(?:^|[\r\n])[ \t]*%b[ \t]*(?:$|[\r\n])" % re.escape(self._repeated)
        if not self._repeated or self._repeated not in block[1] or not re.search(again, block[1]):
            return False
        return any(map(self._is_header, self._records(block)))

    def _is_header(self, record: Record) -> bool:
        names = [x.strip() for x in self.first_line]
        return bool(self._repeated) and [x.strip() for x in record.fields] == names

    def _read(self, block: bytes, asked: Asked, careful: bool) -> list[Any]:
        """A block as pyarrow parses it; numbers from text where it is `careful`."""
        import pyarrow
        from pyarrow import csv as arrow_csv
        from pyarrow import types

        numbers = {"number": pyarrow.float64(), "bool": pyarrow.bool_()}
        text, of_kind = (
            pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            {} if careful else numbers,
        )
        read, as_written = dict(asked), any(kind == "written" for _, kind in asked)
        read |= {i: "text" for i, kind in asked if kind != read[i]}  # a key that is a feature, too
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(b"\n" * block.startswith(_MARK) + block),  # skipped at first
            arrow_csv.ReadOptions(
                column_names=[str(i) for i in range(self.n_columns)],
                use_threads=False,
                block_size=max(1, len(block) + 1),
            ),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                include_columns=[str(i) for i in read],
                column_types={str(i): of_kind.get(kind, text) for i, kind in read.items()},
                null_values=self.nulls,
                strings_can_be_null=not as_written,
                true_values=TRUE,
                false_values=FALSE,
                decimal_point=self.dialect.decimal,
            ),
        )
        columns = []
        for i, kind in asked:
            column = table.column(str(i)).combine_chunks()
            if kind in numbers and types.is_dictionary(column.type):
                column = self._values(column, kind)
            elif kind == "number" and np.isnan(numbers_of(column)).sum() > column.null_count:
                raise ValueError("NaN")  # it may be "nan(1)", which is a number for pyarrow
            elif kind == "text" and as_written:
                from pyarrow import compute

                labels, nulls = column.dictionary, "|".join(map(re.escape, self.nulls))
                is_null = compute.match_substring_regex(labels, f"^(?:{nulls})$")
                labels = compute.if_else(is_null, pyarrow.scalar(None, labels.type), labels)
                column = pyarrow.DictionaryArray.from_arrays(column.indices, labels)
            columns.append(column)
        return columns

    def _values(self, column: Any, kind: str) -> Any:
        """Texts as numbers, or as 0 and 1 for true and false; ValueError where one is neither."""
        codes, labels = codes_of(column)
        value = self.dialect.number if kind == "number" else self.dialect.truth
        values = [value(label) for label in labels]
        if None in values:
            raise ValueError("a field is no number")
        return np.array([*values, np.nan], dtype=np.float64)[codes]

    # -- errors --------------------------------------------------------------------------------

    def where(self, row: int) -> str:
        """The line of a row in words; the file is read up to it."""
        with suppress(csv.Error):
            records = chain.from_iterable(map(self._records, self._blocks()))
            return f"line {next(islice(records, row, None)).line}"
        return f"row {row}"

    def _error(self, block: Block, asked: Asked, reason: str = "") -> InputError:
        """The error for the first line of a block that is wrong."""
        if problem := self._problem_of_quotes(block):
            return InputError(f"{self.name}, {problem}")
        with suppress(csv.Error):
            for record in self._records(block):
                if problem := self._problem_of(record, asked):
                    return InputError(f"{self.name}, line {record.line}{problem}")
        last = block[0] + n_line_ends(block[1])
        return InputError(
            f"{self.name}, lines {block[0]} to {last} cannot be read: {reason}. Is it CSV with "
            "lines? Repair these lines."
        )

    def _problem_of_quotes(self, block: Block) -> str:
        """What is wrong with the quotes of a block, with the line and column; or ""."""
        line, text = block
        quotes = quote_places(text)
        wrong = wrong_quote(text, quotes, self.delimiter)
        if wrong is None:
            return ""
        place, is_open = wrong
        line += n_line_ends(text[:place])
        if is_open:
            return f"line {line}: a quote opens here and is not closed again. Close or remove it."
        row = text[end_of_rows(text[:place], quotes[quotes < place]) : place] + b"x"
        fields = next(csv.reader([row.decode("utf-8", "replace")], delimiter=self.delimiter))
        label = self.label(min(len(fields), self.n_columns) - 1)
        return (
            f"line {line}, {label}: a quote stands inside a cell. Remove it, and spaces beside "
            'quotes; or put the whole cell in quotes, and write "" for each quote in it.'
        )

    def _problem_of(self, record: Record, asked: Asked) -> str:
        """What is wrong with a row, with its column and a cure; or ""."""
        n_fields = len(record.fields)
        if self._is_header(record):
            return (
                " repeats the header. Was the file put together from several? Remove that line, or "
                "pass the files."
            )
        if n_fields != self.n_columns:
            commas = " Are there decimal commas? Then use another delimiter."
            return (
                f" has {n_fields} field(s), the first line {self.n_columns}. Repair or remove it."
                f"{commas * (n_fields == 2 * self.n_columns)}"
            )
        for column, kind in asked:
            if problem := self._problem_of_field(record.fields[column], kind, column):
                return f", {self.label(column)}{problem}"
        return ""

    def _problem_of_field(self, field: str, kind: str, column: int) -> str:
        text, key = field.strip(), column if self.column_names is None else self.first_line[column]
        if kind in ("text", "written"):
            is_bad = _BAD_BYTE.search(field)
            return " is not UTF-8; convert it: iconv -t utf-8." if is_bad else ""
        if kind == "bool":
            levels = option(families={key: ["false", "true", text]})
            problem = (
                f": {text[:60]!a} is no level of the column, which has 'false', 'true'. Correct "
                f"the cell, or list the levels as text: {levels}."
            )
            return problem if self.dialect.truth(field) is None else ""
        if self.dialect.number(text) is not None:
            return ""
        cures, said = self.dialect.cures(text), f": {text[:60]!a} is not a number."
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
