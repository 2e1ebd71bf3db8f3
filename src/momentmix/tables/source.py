"""`Source`: one table as a stream of record batches that can be read again; columns by number."""

from __future__ import annotations

import hashlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from momentmix.errors import InputError, printable
from momentmix.lazy import lazy_property

BATCH_ROWS = 1 << 17  # a quarter of them takes pyarrow a third longer, though they fit a cache
# 16 windows of 64 KiB, read in milliseconds: other files show early. The digest of the rows that
# are read finds the rest.
_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16
_MOST_PACKED = 1000  # bytes that a byte of a file holds: lengths beyond are damaged
_DAMAGE = (UnicodeError, SystemError, OverflowError)  # what pyarrow raises besides its own errors

Columns = Sequence[int]  # by number


class Kind(NamedTuple):
    """Content of a column, and its type as the format names it, for messages."""

    kind: str  # number, bool, text, date, other, or mixed: numbers with some text between them
    type: str
    order: str = ""  # "declared" or "ordered" where the type has levels of its own


NUMERIC = ("number", "bool", "mixed")  # kinds of columns that can be features, beside text
NUMBER = Kind("number", "number")
NO_CELL = Kind("number", "empty")  # no cell was seen that is not missing


class Batch(NamedTuple):
    """Consecutive rows: an array of each chosen column, in that order.

    Arrays are of pyarrow (numbers, true and false, text, dictionaries of text, dates) or NumPy
    (real numbers, with NaN). Of a table in memory, `Cells`; dates as datetime64 or objects.
    """

    first_row: int  # its number in the table
    n_rows: int
    columns: list[Any]


class Source(ABC):
    """One table."""

    name: str  # for messages
    column_names: tuple[str, ...] | None
    n_columns: int
    n_rows: int | None = None  # None: not known before all rows have been read
    in_memory: bool = False
    # Whether another thread should read while the rows before are worked on: not where they are in
    # memory, nor where reading may block for ever.
    reads_ahead: bool = False
    n_bytes: int | None = None  # size of a file that is read from its first byte to the last
    nulls: tuple[str, ...] = ()  # of CSV: texts that mean a missing cell
    header_note: str | None = None  # where it is a guess whether a first line of numbers is names

    @abstractmethod
    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """Batches of the given columns, which may repeat, from row `start` or before it on.

        Text of CSV is given as it is written, with its spaces and `nulls` (`cells_of` reads it).
        Columns of CSV with places `as_text` among `columns` are text, whatever they hold.
        """

    def kind(self, column: int) -> Kind:
        """Content of a column, from its type or its first cells."""
        return NUMBER

    def problem(self, column: int) -> Exception | None:
        """The error for a column that cannot be a feature, with its own reason."""
        return None

    def label(self, column: int) -> str:
        """A column as messages print it: its name (escaped), or else its number."""
        names = self.column_names
        return f"column {column if names is None else ascii(names[column])}"

    def where(self, row: int) -> str:
        """The place of a row in words."""
        return f"row {row}"

    def place(self, row: int, column: int) -> str:
        """The place of a cell in words."""
        return f"{self.name}, {self.where(row)}, {self.label(column)}"

    def head(self, columns: Columns, as_text: Columns = ()) -> Batch | None:
        """The first batch; None if there are no rows."""
        batches = self.batches(columns, as_text=as_text)
        return next((batch for batch in batches if batch.n_rows), None)

    @property
    @abstractmethod
    def mark(self) -> str:
        """A digest that is known before the rows are read; equal tables have the same one."""

    def contents(self) -> tuple[str, bool] | None:
        """A digest of all cells, and whether no other table has it; None if not known yet."""
        return None

    def check_unchanged(self) -> None:
        """Raise unless the table is as it was when it was opened."""
        return  # what is in memory does not change by itself

    def stamp(self) -> dict[str, object]:
        """Name, size and time, for the message where an input has changed."""
        return {"name": self.name}


class FileSource(Source):
    """A file on disk; ``str(path)`` is its name in messages. A `LocalCopy` lives as long as it."""

    reads_ahead = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.name, self._given = Path(path), str(path), path
        self._raw: Any = None  # the file as it is read
        self._opened = self.stamp()

    @lazy_property
    def mark(self) -> str:
        """Digest of the size and of samples of the file, not of its name: a copy is the same file.

        Files with the same mark are distinguished by a digest of their rows.
        """
        size = self.path.stat().st_size
        digest, last = hashlib.sha256(str(size).encode()), max(size - _SAMPLE_BYTES, 0)
        with self.path.open("rb") as file:
            for i in range(_SAMPLES if last else 1):
                file.seek(last * i // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def contents(self) -> tuple[str, bool] | None:
        """The mark, which has all of a small file."""
        return self.mark, self.path.stat().st_size <= _SAMPLES * _SAMPLE_BYTES

    def followed(self, stream: Any) -> Any:
        """Return the bytes of the file, and follow how far they are read."""
        self._raw = getattr(stream, "packed", stream)
        return stream

    def position(self) -> int:
        """Bytes of the file, packed as they are, that have been read."""
        with suppress(ValueError):  # it is closed
            return 0 if self._raw is None else int(self._raw.tell())
        return self.path.stat().st_size

    def check_unchanged(self) -> None:
        """Raise unless the file has the size and time of when it was opened."""
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


class ArrowSource(Source):
    """Sources with an Arrow schema: files, queries, streams of batches."""

    schema: Any

    @abstractmethod
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
        """Content of a column, from its type."""
        return arrow_kind(self.schema.field(column).type)

    def _refuse_unreadable(self) -> AbstractContextManager[None]:
        return refuse_damage(self._unreadable)

    def _unreadable(self, text: str) -> InputError:
        """The error for what pyarrow cannot read, with the reason that it gives."""
        return InputError(f"{self.name} cannot be read: {text}")


class ArrowFileSource(ArrowSource, FileSource):
    """A file with a schema of Arrow."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        FileSource.__init__(self, path)
        self._read_schema()

    def _refuse_unreadable(self) -> AbstractContextManager[None]:
        return refuse_damage(self._unreadable, lambda: self.path.stat().st_size)

    def _unreadable(self, text: str) -> InputError:
        size = self.path.stat().st_size
        if not size:
            return InputError(f"{self.name} is empty (0 bytes).")
        return InputError(
            f"{self.name} cannot be read; it is truncated, damaged or of another format ({size} "
            f"bytes): {text} Write or copy it again."
        )


def arrow_kind(type_: Any) -> Kind:
    """Content of columns of an Arrow type."""
    from pyarrow import types

    is_coded = types.is_dictionary(type_)
    kind = "date" if types.is_temporal(type_) else "other"
    if is_text_type(type_.value_type if is_coded else type_):
        kind = "text"
    elif types.is_boolean(type_):
        kind = "bool"
    elif types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        kind = "number"
    order = ("ordered" if type_.ordered else "declared") if is_coded else ""
    return Kind(kind, str(type_), order)


def is_text_type(type_: Any) -> bool:
    """Whether an Arrow type is text."""
    from pyarrow import types

    return any(f(type_) for f in (types.is_string, types.is_large_string, types.is_string_view))


def checked(data: Any) -> Any:
    """A batch or column of Arrow from outside, whose offsets and indices are checked.

    A wrong one, of its maker or a damaged file, reads other memory or ends the process.
    """
    data.validate(full=True)
    return data


@contextmanager
def refuse_damage(
    refusal: Callable[[str], Exception],
    size: Callable[[], float] = lambda: math.inf,
    others: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Turn what pyarrow raises at unreadable bytes, but for memory, into a `refusal`."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, *_DAMAGE, *others) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the system, not of the bytes
        if isinstance(error, MemoryError):
            asked = re.search(r"size (\d+) failed", str(error))
            if asked is None or int(asked[1]) <= _MOST_PACKED * size():
                raise
        text = str(error).strip().partition("\n")[0].partition(" Detail: ")[0]
        raise refusal(printable(text)[:200]) from None


def counted_twice(name: str) -> str:
    """The message for an input that holds the same rows as another one."""
    return f"{name} holds the same rows as an input before it; leave it out, or they count twice."
