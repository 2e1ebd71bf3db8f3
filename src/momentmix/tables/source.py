"""`Source`: one table as a stream of record batches that can be read again.

A file, a data frame, a query or a partition of an engine is a source; `momentmix.tables.opening`
makes it. Columns go by number. A batch holds arrays of pyarrow, or NumPy arrays of real numbers.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from momentmix.errors import InputError, printable

BATCH_ROWS = 1 << 17  # a quarter of them takes pyarrow a third longer, though they fit a cache
# 16 windows of 64 KiB, read in milliseconds: other files show early. The digest of the rows that
# are read finds the rest.
_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16
_MOST_PACKED = 1000  # bytes that a byte of a file holds: lengths beyond are damaged
_DAMAGE = (UnicodeError, SystemError, OverflowError)  # what pyarrow raises besides its own errors


class Kind(NamedTuple):
    """What a column holds.

    Attributes
    ----------
    kind : {"number", "bool", "text", "mixed", "date", "other"}
        "mixed": mostly numbers, with some text between them.
    type : str
        Its type as the format calls it, for messages.
    order : {"", "declared", "ordered"}
        Whether its type has levels of its own, and whether that orders them.
    """

    kind: str
    type: str
    order: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether the column can be a feature."""
        return self.kind in ("number", "bool", "mixed", "text")

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers, or true and false."""
        return self.kind in ("number", "bool", "mixed")


NUMBER = Kind("number", "number")
NO_CELL = Kind("number", "empty")  # no cell was seen that is not missing


class Batch(NamedTuple):
    """Consecutive rows.

    Attributes
    ----------
    first_row : int
        Number of the first of them in the table.
    n_rows : int
    columns : list
        An array of each column that was asked for, in that order: of pyarrow (numbers, true and
        false, text, dictionaries of text, dates), with nulls; or of NumPy (real numbers), with NaN.
        Of a table in memory, `Cells`; dates as datetime64 or objects.
    """

    first_row: int
    n_rows: int
    columns: list[Any]


class Source(ABC):
    """One table.

    Attributes
    ----------
    name : str
        For messages.
    column_names : tuple of str or None
    n_columns : int
    n_rows : int or None
        None if it is not known before all rows have been read.
    reads_ahead : bool
        Whether another thread should read it while the rows before are worked on: not where it is
        in memory, nor where reading may wait for ever.
    is_text : bool
        Whether it is lines of text, whose contents are known when all of it has been read.
    nulls : tuple of str
        Texts that stand for a missing cell in text as it is written; of CSV only.
    header_note : str or None
        A note where it is a guess whether a first line of numbers holds names of columns.
    first_line : tuple of str
        Cells of the first line of CSV or Excel, names or not.
    """

    name: str
    column_names: tuple[str, ...] | None
    n_columns: int
    n_rows: int | None = None
    reads_ahead: bool = False
    is_text: bool = False
    nulls: tuple[str, ...] = ()
    header_note: str | None = None
    first_line: tuple[str, ...] = ()

    @abstractmethod
    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """Batches of the given columns from row `start` on; earlier rows may come too.

        Text of CSV is given as it is written, with its spaces, and `nulls` are not made null: that
        is for who reads it (`momentmix.tables.cells`). Columns of CSV with places `as_text` among
        `columns` are text, too, whatever they hold; other formats give them as they are. A column
        may be asked for twice.
        """

    def kind(self, column: int) -> Kind:
        """What a column holds, from its type or its first cells."""
        return NUMBER

    def problem(self, column: int) -> Exception | None:
        """The error for a column that can be no feature, where there is more to say of it."""
        return None

    def label(self, column: int) -> str:
        """A column as messages print it: its name (escaped), or else its number."""
        names = self.column_names
        return f"column {column}" if names is None else f"column {names[column]!a}"

    def where(self, row: int) -> str:
        """The place of a row in words."""
        return f"row {row}"

    def large_integer(self, row: int, column: int) -> int | None:
        """The size of the integer that is written in a field of CSV; None where it is none."""
        return None

    def head(self, columns: Sequence[int], as_text: Sequence[int] = ()) -> Batch | None:
        """The first batch; None if there are no rows."""
        batches = self.batches(columns, as_text=as_text)
        return next((batch for batch in batches if batch.n_rows), None)

    def plan(self, columns: Sequence[int], once: bool) -> None:
        """Prepare for reading these columns: in one pass only after the head, where `once`.

        A query then runs once for all of them, and leaves no copy on disk where one pass is all.
        """
        return  # what can be read again needs no plan

    @abstractmethod
    def mark(self) -> str:
        """A digest that is known before the rows are read; equal tables have the same one."""

    def contents(self) -> tuple[str, bool] | None:
        """A digest of all cells, whichever are read, and whether no other table has it.

        None where it is not known: for text that is not read to its end yet, and for queries.
        """
        return None

    def check_unchanged(self) -> None:
        """Raise unless the table is as it was when it was opened."""
        return  # what is in memory does not change by itself

    def stamp(self) -> dict[str, object]:
        """Name, size and time, to say in words how an input has changed."""
        return {"name": self.name}


class FileSource(Source):
    """A file on disk.

    Parameters
    ----------
    path : str or path-like
        ``str(path)`` is the name in messages. A temporary copy lives as long as the source.
    """

    reads_ahead = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name, self.given_path = str(path), path
        self._mark: str | None = None
        self._text: str | None = None  # a digest of text that has been read
        self._opened = self.stamp()

    def mark(self) -> str:
        """Digest of the size and of samples spread over the file, including both ends.

        Not of the name or the time: a copy of a file is the same file. Different files may have
        the same mark; a digest of their rows, made while they are read, tells them apart.
        """
        if self._mark is None:
            size = self.path.stat().st_size
            digest, last = hashlib.sha256(str(size).encode()), max(size - _SAMPLE_BYTES, 0)
            with self.path.open("rb") as file:
                for i in range(_SAMPLES if last else 1):
                    file.seek(last * i // (_SAMPLES - 1))
                    digest.update(file.read(_SAMPLE_BYTES))
            self._mark = digest.hexdigest()
        return self._mark

    def contents(self) -> tuple[str, bool] | None:
        """A digest of text, whether it is compressed or not; of other files the mark."""
        if self.is_text:
            return None if self._text is None else (self._text, True)
        return self.mark(), self.path.stat().st_size <= _SAMPLES * _SAMPLE_BYTES

    def expect(self, stamp: dict[str, object]) -> None:
        """Raise unless the file is as another process has opened it; so for later checks."""
        self._opened = {**stamp, "name": self.name}
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Raise unless size and time are those of the file that was opened."""
        now = self.stamp()
        if now != self._opened:
            raise InputError(
                f"{self.name} changed while it was being read ({self._opened} before, {now} "
                "after). Run again when it is complete."
            )

    def stamp(self) -> dict[str, object]:
        """Name, size and time of change."""
        status = self.path.stat()
        return {"name": self.name, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


class Held(Source):
    """Columns of another source, whose batches are in memory.

    Parameters
    ----------
    source : Source
    columns : sequence of int
        Those that will be read.
    as_text : sequence of int
        As for `Source.batches`.
    """

    def __init__(self, source: Source, columns: Sequence[int], as_text: Sequence[int]) -> None:
        self.source, self._columns, self._as_text = source, list(columns), as_text
        self.name, self.column_names = source.name, source.column_names
        self.n_columns, self.n_rows = source.n_columns, source.n_rows
        self.is_text, self.nulls = source.is_text, source.nulls
        self._batches: list[Batch] = []
        for method in ("kind", "where", "large_integer", "mark", "contents", "stamp"):
            setattr(self, method, getattr(source, method))

    def read(self, n_bytes: float) -> int:
        """Read all batches, unless they take more than so many bytes; how many they took."""
        size = 0
        for batch in self.source.batches(self._columns, as_text=self._as_text):
            size += sum(column.nbytes for column in batch.columns)
            if size > n_bytes:
                break
            self._batches.append(batch)
        self.source.check_unchanged()
        return size

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """The batches, with some of the columns."""
        places = [self._columns.index(i) for i in columns]
        for batch in self._batches:
            yield batch._replace(columns=[batch.columns[k] for k in places])

    def mark(self) -> str:
        """That of the source."""
        return self.source.mark()


# -- what pyarrow reads -----------------------------------------------------------------------


class ArrowSource(Source):
    """What has a schema of Arrow: files, queries, streams of batches.

    A class for one of them sets `schema`, perhaps in `_open`, and calls `_read_schema`.
    """

    schema: Any

    def _open(self) -> None:
        """Set the schema, and the number of rows where the format has it."""

    def _read_schema(self) -> None:
        with self._refuse_unreadable():
            self._open()
            self.column_names = tuple(self.schema.names)  # that are UTF-8
        self.n_columns = len(self.column_names)
        if not self.n_columns:
            raise InputError(f"{self.name} has no columns.")

    def kind(self, column: int) -> Kind:
        """What a column holds, from its type."""
        return arrow_kind(self.schema.field(column).type)

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        """Turn what pyarrow says of bytes that it cannot read into an `InputError`."""
        with refuse_damage(self._unreadable):
            yield

    def _unreadable(self, text: str) -> InputError:
        """The error for what pyarrow cannot read, with the reason that it gives."""
        return InputError(f"{self.name} cannot be read: {text}")


class ArrowFileSource(ArrowSource, FileSource):
    """A file with a schema of Arrow."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        FileSource.__init__(self, path)
        self._read_schema()

    def kind(self, column: int) -> Kind:
        """What a column holds; decimals of files are refused by name, since float64 rounds them."""
        kind = super().kind(column)
        return kind._replace(kind="other") if kind.type.startswith("decimal") else kind

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        with refuse_damage(self._unreadable, lambda: self.path.stat().st_size):
            yield

    def _unreadable(self, text: str) -> InputError:
        size = self.path.stat().st_size
        if not size:
            return InputError(f"{self.name} is empty (0 bytes).")
        return InputError(
            f"{self.name} cannot be read; it is truncated, damaged or of another format ({size} "
            f"bytes): {text} Write or copy it again."
        )


def arrow_kind(type_: Any) -> Kind:
    """What an Arrow type holds."""
    from pyarrow import types

    order, value = "", type_
    if types.is_dictionary(type_):
        order, value = "ordered" if type_.ordered else "declared", type_.value_type
    if is_text_type(value):
        return Kind("text", str(type_), order)
    if types.is_dictionary(type_):
        return Kind("other", str(type_), order)
    if types.is_boolean(type_):
        return Kind("bool", str(type_))
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return Kind("number", str(type_))
    return Kind("date" if types.is_temporal(type_) else "other", str(type_))


def is_text_type(type_: Any) -> bool:
    """Whether an Arrow type is text."""
    from pyarrow import types

    # String views came with pyarrow 16, which not every type checker knows.
    is_view = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(type_) or types.is_large_string(type_) or is_view(type_))


def checked(data: Any) -> Any:
    """A batch or column of Arrow from outside, all of whose memory may be read.

    Offsets, indices of dictionaries and texts are those of its maker, or of a damaged file: used
    unchecked, a wrong one reads other memory or ends the process.
    """
    data.validate(full=True)
    return data


@contextmanager
def refuse_damage(
    refusal: Callable[[str], Exception], size: Callable[[], int] | None = None
) -> Iterator[None]:
    """Turn what pyarrow raises at bytes that it cannot read into another error.

    Parameters
    ----------
    refusal : callable
        Reason that pyarrow gives, in a line → the error.
    size : callable, optional
        Gives the number of bytes of the file.
    """
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, *_DAMAGE) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the system, not of the bytes
        if isinstance(error, MemoryError) and not (size and _asks_too_much(error, size())):
            raise
        text = str(error).strip().partition("\n")[0].partition(" Detail: ")[0]
        raise refusal(printable(text)[:200]) from None


def _asks_too_much(error: MemoryError, size: int) -> bool:
    """Whether pyarrow needed more memory than a file of so many bytes can hold."""
    asked = re.search(r"size (\d+) failed", str(error))
    return asked is not None and int(asked[1]) > _MOST_PACKED * size
