"""`Source`: one table as batches of columns that can be read again; columns by number.

Columns to take of each table are chosen by a name that one column has, or by number.
"""

from __future__ import annotations

import filecmp
import hashlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from momentmix.errors import InputError, InputTypeError, printable
from momentmix.lazy import lazy_property
from momentmix.tables.columns import NO_CELL, NUMBER, Kind
from momentmix.tables.names import (
    check_encodable,
    left_out_notes,
    match_names,
    matching,
    number_of,
)
from momentmix.wording import option

BATCH_ROWS = 1 << 17  # a quarter of them takes pyarrow a third longer, though they fit a cache
_BATCH_BYTES = 1 << 24  # of numbers, however many columns
_END = 1 << 16  # bytes
_MOST_PACKED = 1000  # bytes that a byte of a file holds: lengths beyond are damaged
_USABLE = ("number", "bool", "mixed", "text")  # kinds of columns that can be features
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
        self, columns: Columns, as_text: Columns = (), others: Columns = ()
    ) -> Iterator[Batch]:
        """Batches of the given columns, then of `others`, as of `momentmix.tables.columns`.

        In CSV, columns with places `as_text` among `columns` are text, whatever they hold, and
        `others` are text as it is written, also what means a missing cell elsewhere.
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
        return InputError(
            f"{self.name} cannot be read; it is truncated, damaged or of another format ({size} "
            f"bytes): {text} Write or copy it again."
        )


def check_different(sources: Sequence[Source]) -> None:
    """Raise where one file is a copy of another, whose rows would count twice."""
    marks = dict[str, Path]()
    for source in sources if len(sources) > 1 else ():
        if source.path is not None:
            other = marks.setdefault(source.mark, source.path)
            if other is not source.path and filecmp.cmp(source.path, other, shallow=False):
                raise InputError(counted_twice(source.name))


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


# -- columns of several tables ---------------------------------------------------------------------


def choose_columns(table: Source, columns: Sequence[str | int] | None) -> list[int]:
    """Return the numbers of the chosen columns; None for all, whose names must then differ."""
    names = table.column_names
    if columns is None:
        _check_different(table, names or ())
        return list(range(table.n_columns))
    if isinstance(columns, str):
        raise InputTypeError(f"columns must be a list of names or numbers; got {columns!r}.")
    note = table.header_note  # the names may be the first row
    said = f" Note: {note}." if note else ""
    problem, chosen, n = f"{table.name} has no column", list[int](), table.n_columns
    for column in columns:
        chosen += matching(column, names) or [number_of(column, names, n, problem, said)]
    _check_different(table, [column for column in columns if isinstance(column, str)])
    if not chosen or len({*columns}) != len(columns):
        raise InputError(f"columns must be different, and at least one; got {list(columns)!a}.")
    return list(dict.fromkeys(chosen))


def _check_different(table: Source, names: Sequence[str]) -> None:
    """Raise where several columns have one of these names."""
    times = Counter(table.column_names)
    repeated = [name for name in sorted({*names}) if times[name] > 1][:5]
    if repeated:
        every = list(enumerate(table.column_names or ()))
        numbers = (", ".join([str(i) for i, x in every if x == name][:5]) for name in repeated)
        named = (f"{x!a} (columns {several})" for x, several in zip(repeated, numbers, strict=True))
        raise InputError(
            f"{table.name}: names of columns must differ from each other; repeated: "
            f"{', '.join(named)}. Choose columns by number with {option(columns=...)}, or rename "
            "them."
        )


def match_columns(first: Source, chosen: list[int], table: Source, all_columns: bool) -> list[int]:
    """The chosen columns in another table: by number if its names are the same, else by name."""
    names, others = first.column_names, table.column_names
    if names == others and (names is not None or first.n_columns == table.n_columns):
        return chosen
    if names is None or others is None:
        facts = [
            f"{x.name} has {x.n_columns} columns, with{'' if x.column_names else 'out'} names"
            for x in (first, table)
        ]
        raise InputError(
            f"all inputs must have the same columns; {', '.join(facts)}. Write names into both, or "
            f"pass {option(header=True)} or {option(header=False)} if the first lines of both are "
            "names, or rows."
        )
    wanted = [names[i] for i in chosen]
    for source in (first, table):
        _check_different(source, wanted)
    return match_names(wanted, others, first.name, others=not all_columns, of=f"{table.name}: ")


def common_kind(kinds: Sequence[Kind], labels: Sequence[str]) -> Kind:
    """Content of a column in several tables; "varied", with the error, if only some have text."""
    filled = [pair for pair in zip(kinds, labels, strict=True) if pair[0] != NO_CELL]
    if not filled:
        return kinds[0]
    kind, label = filled[0]
    for other, place in filled[1:]:
        if other.kind != kind.kind and {other.kind, kind.kind} & {"text", "bool", "date"}:
            return Kind(
                "varied",
                f"a column must hold the same in all inputs; {label} is {kind.type}, and {place} "
                f"is {other.type}. Convert it, take it as categories with {option(families=...)}, "
                f"or leave it out with {option(exclude=...)}.",
            )
    return next((kind for kind, _ in filled if kind.kind == "mixed"), kind)


def usable_columns(
    tables: Sequence[Source], columns: Sequence[Sequence[int]], excluded: Sequence[int], asked: bool
) -> tuple[list[int], list[str]]:
    """Places of usable columns, and notes on others; dates that were `asked` for are an error."""
    first = tables[0]
    places, refused, dates = list[int](), list[str](), dict[str, str]()
    for k, number in enumerate(columns[0]):
        if number in excluded:
            continue
        kinds = [table.kind(numbers[k]) for table, numbers in zip(tables, columns, strict=True)]
        odd = next((kind for kind in kinds if kind.kind not in _USABLE), None)
        label = first.label(number).removeprefix("column ")
        if odd is None:
            places.append(k)
        elif odd.kind == "date" and not asked:
            dates[label] = "dates"
        elif (problem := first.problem(number)) is not None:
            file = "" if first.in_memory else f"{first.name}: "
            raise type(problem)(f"{file}{problem} Or leave it out: {option(exclude=...)}.")
        else:
            refused.append(f"{label} ({odd.type})")
    if refused:
        raise InputError(
            f"{first.name}: columns must hold numbers, or text of few levels; these do not: "
            f"{', '.join(refused)}. Leave them out with {option(exclude=...)}, or convert them."
        )
    notes = left_out_notes(dates)
    if not places:
        raise InputError(
            f"{first.name} has no usable column: {'; '.join(notes) or 'all were left out'}. Choose "
            f"columns of numbers or of few levels with {option(columns=...)}."
        )
    return places, notes


def feature_names(table: Source, chosen: Sequence[int]) -> tuple[str, ...] | None:
    """Names of the chosen columns; if several have the same one, their numbers are appended."""
    if table.column_names is None:
        return None
    names = [table.column_names[i] for i in chosen]
    check_encodable(names)
    times = Counter(names)
    numbered = zip(names, chosen, strict=True)
    return tuple(f"{name} [{i}]" if times[name] > 1 else name for name, i in numbered)
