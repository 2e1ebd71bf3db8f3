"""CSV text in blocks, with the line of every complaint.

The text is cut into chunks of whole lines. pyarrow reads a chunk where it is installed, NumPy where
it is not; a chunk that they refuse is read again field by field, slowly, to say what is wrong in
which line (or to accept it after all). Memory is bounded by the size of a chunk, also where a quote
is never closed.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.sources.piece import FilePiece, Piece, RawBlock, column_name

__all__ = ["CsvFile", "CsvStream", "CsvText"]

Float = NDArray[np.float64]
Chunk = tuple[int, bytes]  # number of its first line, text

CHUNK, LONGEST = 1 << 22, 1 << 25
_NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


def _number(text: str, decimal: str) -> float | None:
    """The number a field holds, NaN where it is missing, None where it is something else."""
    text = text.strip()
    if text in _NULLS:
        return float("nan")
    if decimal != ".":
        if "." in text:
            return None
        text = text.replace(decimal, ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


class CsvText(Piece):
    """CSV from a stream of bytes.

    Parameters
    ----------
    name : str
    opener : callable
        Gives the stream, from its first byte.
    delimiter, decimal : str
        Single characters.
    """

    def __init__(
        self, name: str, opener: Callable[[], BinaryIO], delimiter: str = ",", decimal: str = "."
    ) -> None:
        self.name, self._opener = name, opener
        self.delimiter, self.decimal = delimiter, decimal
        chunks = self._chunks()
        first = next(chunks, None)
        if first is None or not first[1].strip():
            raise InputError(f"{name} is empty; it needs at least one line of numbers.")
        self._read_header(first[1])
        self._keep(first, chunks)

    def _keep(self, first: Chunk, rest: Iterator[Chunk]) -> None:
        """What a stream that cannot be opened again does with its first chunk."""

    def _again(self) -> Iterator[Chunk]:
        return self._chunks()

    # -- header -------------------------------------------------------------------------------

    def _read_header(self, text: bytes) -> None:
        try:
            reader = csv.reader(io.StringIO(text.decode("utf-8", "replace"), newline=""),
                                delimiter=self.delimiter)  # fmt: skip
            fields = next(row for row in reader if row)
        except (csv.Error, StopIteration) as error:
            raise InputError(f"{self.name} has no readable first line: {error}.") from None
        if any("\ufffd" in field for field in fields):
            raise InputError(
                f"{self.name} is not UTF-8 in its first line; convert it: iconv -t utf-8."
            )
        self.n_columns, self._header_end = len(fields), reader.line_num
        self._fields = [field.strip() for field in fields]
        named = any(_number(field, self.decimal) is None for field in fields)
        self.column_names = tuple(self._fields) if named else None
        if named and len(fields) == 1:
            for other in (";", "\t", "|"):
                if other in fields[0] and other != self.delimiter:
                    raise InputError(
                        f"{self.name} seems to be separated by {other!r}, not by "
                        f"{self.delimiter!r}. Pass delimiter={other!r} (--delimiter), and "
                        "decimal=',' (--decimal ,) where numbers have decimal commas."
                    )

    # -- chunks of whole lines ----------------------------------------------------------------

    def _chunks(self) -> Iterator[Chunk]:
        line, rest, first = 1, b"", True
        with self._opener() as stream:
            while True:
                data = self._bytes(stream)
                if first:
                    data, first = self._checked_start(data), False
                text = rest + data
                cut = self._cut(text) if data else len(text)
                if not data and text.count(b'"') % 2:
                    self._unterminated(text, line)
                if cut:
                    yield line, text[:cut]
                    line += text.count(b"\n", 0, cut)
                rest = text[cut:]
                if not data:
                    return
                if len(rest) > LONGEST:
                    if b'"' in rest:
                        self._unterminated(rest, line)
                    raise InputError(
                        f"{self.name}, line {line} has more than {LONGEST >> 20} MiB and no end; "
                        "is it CSV with lines?"
                    )

    def _bytes(self, stream: BinaryIO) -> bytes:
        try:
            return stream.read(CHUNK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{self.name} is not a whole gzip file: {error}. Compress or copy it again."
            ) from None

    def _checked_start(self, data: bytes) -> bytes:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:1024]:
            raise InputError(
                f"{self.name} is UTF-16 or binary, not UTF-8 text. Convert it: iconv -f utf-16 "
                "-t utf-8."
            )
        return data.removeprefix(b"\xef\xbb\xbf")

    def _cut(self, text: bytes) -> int:
        """End of the last line that is not inside quotes."""
        cut = text.rfind(b"\n") + 1
        while cut and text.count(b'"', 0, cut) % 2:
            cut = text.rfind(b"\n", 0, text.rfind(b'"', 0, cut)) + 1
        return cut

    def _unterminated(self, text: bytes, line: int) -> None:
        line += text.count(b"\n", 0, text.index(b'"'))
        raise InputError(
            f"{self.name}: a quote opens in line {line} or soon after and is not closed again. "
            'Close it, or remove the stray ".'
        )

    # -- chunks → numbers ---------------------------------------------------------------------

    def read(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[RawBlock]:
        """Blocks of rows, chunk by chunk."""
        skip, header = start, self.column_names is not None
        for line, chunk in self._again():
            if header:
                line, chunk = self._without_header(line, chunk)
                header = False
            values = self._parsed(chunk, line, columns) if chunk.strip() else None
            if values is None:
                continue
            if skip >= len(values):
                skip -= len(values)
                continue
            for first in range(skip, len(values), block_rows):
                part = values[first : first + block_rows]
                yield RawBlock(part, self._places(chunk, line, first))
            skip = 0

    def _without_header(self, line: int, chunk: bytes) -> Chunk:
        end = 0
        for _ in range(self._header_end):
            end = chunk.find(b"\n", end) + 1
            if not end:
                return line, b""
        return line + self._header_end, chunk[end:]

    def _places(self, chunk: bytes, line: int, first: int) -> Callable[[int], str]:
        def place(row: int) -> str:
            for i, (number, _) in enumerate(self._lines(chunk, line)):
                if i == first + row:
                    return f"line {number}"
            raise AssertionError

        return place

    def _lines(self, chunk: bytes, line: int) -> Iterator[tuple[int, list[str]]]:
        """Fields of every line that is not blank, and the number of the line."""
        text = io.StringIO(chunk.decode("utf-8", "replace"), newline="")
        reader = csv.reader(text, delimiter=self.delimiter)
        before = 0
        try:
            for fields in reader:
                if fields:
                    yield line + before, fields
                before = reader.line_num
        except csv.Error as error:
            raise InputError(f"{self.name}, line {line + before}: {error}.") from None

    def _parsed(self, chunk: bytes, line: int, columns: Sequence[int]) -> Float:
        try:
            from pyarrow import ArrowInvalid
        except ImportError:
            try:
                return self._parsed_by_numpy(chunk, columns)
            except ValueError:
                return self._parsed_slowly(chunk, line, columns)
        try:
            return self._parsed_by_arrow(chunk, columns)
        except ArrowInvalid:
            return self._parsed_slowly(chunk, line, columns)

    def _parsed_by_arrow(self, chunk: bytes, columns: Sequence[int]) -> Float:
        import pyarrow
        from pyarrow import csv as arrow_csv

        wanted, every = [str(i) for i in columns], [str(i) for i in range(self.n_columns)]
        table = arrow_csv.read_csv(
            pyarrow.BufferReader(chunk),
            read_options=arrow_csv.ReadOptions(column_names=every),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in chunk
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pyarrow.float64()),
                null_values=list(_NULLS),
                decimal_point=self.decimal,
            ),
        )  # fmt: skip
        values = np.empty((table.num_rows, len(wanted)))
        for j in range(len(wanted)):
            values[:, j] = table.column(j).to_numpy()
        return values

    def _parsed_by_numpy(self, chunk: bytes, columns: Sequence[int]) -> Float:
        if self.decimal != ".":
            raise ValueError
        values = np.loadtxt(
            io.BytesIO(chunk), delimiter=self.delimiter, quotechar='"', ndmin=2, comments=None
        )
        if values.shape[1] != self.n_columns:
            raise ValueError
        return np.ascontiguousarray(values[:, list(columns)])

    def _parsed_slowly(self, chunk: bytes, line: int, columns: Sequence[int]) -> Float:
        rows = []
        for number, fields in self._lines(chunk, line):
            self._check_line(number, fields)
            values = [_number(fields[i], self.decimal) for i in columns]
            if None in values:
                self._refuse_field(number, fields, columns[values.index(None)])
            rows.append(values)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(columns))

    def _check_line(self, number: int, fields: list[str]) -> None:
        if self.column_names is not None and [f.strip() for f in fields] == self._fields:
            raise InputError(
                f"{self.name}, line {number} repeats the header. Was the file put together from "
                "several? Remove that line, or pass the parts."
            )
        if len(fields) != self.n_columns:
            hint = ""
            if len(fields) == 2 * self.n_columns:
                hint = " Are there decimal commas? Then use another delimiter."
            raise InputError(
                f"{self.name}, line {number} has {len(fields)} field(s), the first line "
                f"{self.n_columns}. Repair or remove it.{hint}"
            )

    def _refuse_field(self, number: int, fields: list[str], column: int) -> None:
        text, label = fields[column].strip(), column_name(column, self.column_names)
        cure = "Select numeric columns (--columns), or repair the line."
        if _DECIMAL_COMMA.fullmatch(text):
            cure = "It has a decimal comma: pass decimal=',' (--decimal ,)."
        raise InputError(
            f"{self.name}, line {number}, {label}: {text[:60]!a} is not a number. {cure}"
        )


class CsvFile(CsvText, FilePiece):
    """A CSV file, perhaps compressed by gzip."""

    def __init__(
        self, path: str | os.PathLike[str], delimiter: str | None = None, decimal: str = "."
    ) -> None:
        FilePiece.__init__(self, path)
        name = self.path.name.lower().removesuffix(".gz")
        delimiter = delimiter or ("\t" if name.endswith(".tsv") else ",")
        CsvText.__init__(self, self.name, self._open, delimiter, decimal)

    def _open(self) -> Any:
        if self.path.name.lower().endswith(".gz"):
            return gzip.open(self.path, "rb")
        return self.path.open("rb")


class CsvStream(CsvText):
    """CSV that can be read once, such as standard input."""

    def __init__(self, stream: BinaryIO, delimiter: str | None = None, decimal: str = ".") -> None:
        self._waiting: Iterator[Chunk] | None = None
        super().__init__("standard input", lambda: stream, delimiter or ",", decimal)

    def _keep(self, first: Chunk, rest: Iterator[Chunk]) -> None:
        self._waiting = chain([first], rest)

    def _again(self) -> Iterator[Chunk]:
        if self._waiting is None:
            raise InputError(
                "standard input can be read once only; save it to a file for several passes."
            )
        waiting, self._waiting = self._waiting, None
        return waiting

    def mark(self) -> str:
        """Nothing is known of a stream before it is read; a random name keeps shards apart."""
        if not hasattr(self, "_random"):
            self._random = os.urandom(16).hex()
        return self._random
