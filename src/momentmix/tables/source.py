"""`Source`: one table as batches of columns that can be read again; columns by number."""

from __future__ import annotations

import filecmp
import hashlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from momentmix.errors import InputError, printable
from momentmix.lazy import lazy_property
from momentmix.tables.columns import NO_CELL, NUMBER, Kind
from momentmix.wording import option

BATCH_ROWS = 1 << 17  # a quarter of them takes pyarrow a third longer, though they fit a cache
_BATCH_BYTES = 1 << 24  # of numbers, however many columns
_END = 1 << 16  # bytes
_MOST_PACKED = 1000  # bytes that a byte of a file holds: lengths beyond are damaged
_DAMAGE = (UnicodeError, SystemError, OverflowError)  # what pyarrow raises besides its own errors

Columns = Sequence[int]  # by number
# Number of the first row; the chosen columns, in that order: a list, or the rows of one array.
Batch = tuple[int, Any]


class Source(ABC):
    """One table; of a file, `path` is where it is, and `name` is for messages."""

    name: str
    path: Path | None = None
    column_names: tuple[str, ...] | None = None
    n_columns: int
    n_rows: int | None = None  # None: not known before all rows have been read
    in_memory: bool = False
    nulls: tuple[str, ...] = ()  # of CSV: texts that mean a missing cell
    header_note: str | None = None  # where it is a guess whether a first line of numbers is names

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.name = Path(path), str(path)
        self._copy = path  # a temporary file lives as long as this
        self._opened = self._stamp()

    @abstractmethod
    def batches(
        self, columns: Columns, as_text: Columns = (), as_written: Columns = ()
    ) -> Iterator[Batch]:
        """Batches of the given columns, which may repeat, as of `momentmix.tables.columns`.

        Columns of CSV with places `as_text` among `columns` are text, whatever they hold. Those
        `as_written` are text in which texts that mean a missing cell stay as they are.
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

    # -- files -------------------------------------------------------------------------------------

    @lazy_property
    def mark(self) -> str:
        """Digest of the size and the ends of a file, not of its name: a copy is the same file."""
        if self.path is None:
            return ""
        with self.path.open("rb") as file:
            head, size = file.read(_END), file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END))
            return hashlib.sha256(b"%d %b %b" % (size, head, file.read())).hexdigest()

    def _stamp(self) -> tuple[int, int] | None:
        if self.path is None:
            return None  # what is in memory does not change by itself
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raise unless a file has the size and time of when it was opened."""
        if self.path is not None and self._stamp() != self._opened:
            raise InputError(
                f"{self.name} changed while it was being read (bytes and time of change were "
                f"{self._opened}, and are {self._stamp()}). Run again when it is complete."
            )

    def _refuses_damage(self) -> Any:
        """Turn what pyarrow raises at unreadable bytes into an error that names the source."""
        return refuse_damage(self._unreadable, self._n_bytes)

    def _n_bytes(self) -> float:
        return math.inf if self.path is None else self.path.stat().st_size

    def _unreadable(self, text: str) -> InputError:
        size = self._n_bytes()
        if not size:
            return InputError(f"{self.name} is empty (0 bytes).")
        if self.path is None:
            return InputError(f"{self.name} cannot be read: {text}")
        return InputError(
            f"{self.name} cannot be read; it is truncated, damaged or of another format ({size} "
            f"bytes): {text} Write or copy it again."
        )


def check_different(sources: Sequence[Source]) -> None:
    """Raise where one file is a copy of another, whose rows would count twice."""
    alike = defaultdict[str, list[Path]](list)
    for source in sources if len(sources) > 1 else ():
        if source.path is None:
            continue
        others = alike[source.mark]
        if any(filecmp.cmp(source.path, other, shallow=False) for other in others):
            raise InputError(counted_twice(source.name))
        others.append(source.path)


def counted_twice(name: str) -> str:
    """The message for an input that holds the same rows as another one."""
    return f"{name} holds the same rows as an input before it; leave it out, or they count twice."


def batch_rows(n_columns: int) -> int:
    """Rows of so many columns to read at a time."""
    fitting = max(1, min(BATCH_ROWS, _BATCH_BYTES // (8 * max(1, n_columns))))
    return 1 << (fitting.bit_length() - 1)


@contextmanager
def refuse_damage(
    refusal: Callable[[str], Exception], n_bytes: Callable[[], float] = lambda: math.inf
) -> Iterator[None]:
    """Turn what pyarrow raises at unreadable bytes, but for memory, into a `refusal`."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, *_DAMAGE) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the system, not of the bytes
        if isinstance(error, MemoryError):
            asked = re.search(r"size (\d+) failed", str(error))
            if asked is None or int(asked[1]) <= _MOST_PACKED * n_bytes():
                raise
        raise refusal(first_line(error)) from None


def first_line(error: BaseException) -> str:
    """The first line of an error of another library, without what a terminal would obey."""
    return printable(str(error).strip().partition("\n")[0].partition(" Detail: ")[0])[:200]


def common_kind(sources: Sequence[Source], columns: Sequence[int]) -> Kind:
    """Content of a column in all sources; "varied", with the error, if only some have text."""
    kinds = [source.kind(i) for source, i in zip(sources, columns, strict=True)]
    filled = [k for k, kind in enumerate(kinds) if kind != NO_CELL] or [0]
    first, *others = filled
    for k in others:
        if any((kinds[k].kind == x) != (kinds[first].kind == x) for x in ("text", "bool", "date")):
            one, other = (f"{kinds[i].type} in {sources[i].name}" for i in (first, k))
            return Kind(
                "varied",
                f"a column must hold the same in all inputs; {sources[first].label(columns[first])}"
                f" is {one}, and {sources[k].label(columns[k])} is {other}. Convert it, take it as "
                f"categories with {option(families=...)}, or leave it out with "
                f"{option(exclude=...)}.",
            )
    return next((kinds[k] for k in filled if kinds[k].kind == "mixed"), kinds[first])
