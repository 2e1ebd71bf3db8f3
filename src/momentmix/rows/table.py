"""`Table`: what one file, array or data frame offers, its columns and blocks of unchecked rows."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.rows.labels import NO_LABELS, Labels

# 16 windows of 64 KiB, read in milliseconds: other files show early. The digest of the rows that
# are read finds the rest.
_MEET_ROWS = 1 << 17  # rows of a block where only labels matter
_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16


@dataclass(frozen=True)
class RawBlock:
    """Rows as read, NaN where a value is missing.

    Attributes
    ----------
    values : array of shape (n_rows, n_features)
    where : callable
        Number of a row in the block → its place in words ("line 12", "row 7").
    """

    values: Float
    where: Callable[[int], str]

    def complete(self) -> NDArray[np.bool_]:
        """Which rows have no missing, NaN or infinite value."""
        return np.asarray(np.isfinite(self.values).all(axis=1))

    def section(self, start: int, stop: int) -> RawBlock:
        """Some of the rows."""
        if (start, stop) == (0, len(self.values)):
            return self
        return RawBlock(self.values[start:stop], lambda row: self.where(start + row))


def rows_from(first: int) -> Callable[[int], str]:
    """Places of rows that are numbered from `first`."""
    return lambda row: f"row {first + row}"


class Kind(NamedTuple):
    """What a column holds.

    Attributes
    ----------
    kind : {"number", "bool", "text", "mixed", "date", "other"}
        "mixed": mostly numbers, with some text between them.
    type : str
        Its type as the format calls it, for messages.
    is_text : bool
        Whether its cells are text, which is read as codes of labels.
    order : {"", "declared", "ordered"}
        Whether its type has labels of its own, and whether that orders them.
    """

    kind: str
    type: str
    is_text: bool = False
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
NO_CELL = Kind("number", "empty")


class Table(ABC):
    """One file, array or data frame.

    Attributes
    ----------
    name : str
        For messages.
    column_names : tuple of str or None
    n_columns : int
    n_rows : int or None
        None if it is not known before all rows have been read.
    reopens : bool
        Whether it can be read more than once.
    nulls : tuple of str
        Texts that stand for a missing cell.
    header_note : str or None
        A note where it is a guess whether a first line of numbers holds names of columns.
    first_line : tuple of str
        Cells of the first line of CSV or Excel, names or not.
    reads_ahead : bool
        Whether another thread should read it while the rows before are worked on: not where it is
        in memory, nor where reading may wait for ever, as for standard input.
    is_text : bool
        Whether it is lines of text, whose contents are known when all of it has been read.
    """

    name: str
    column_names: tuple[str, ...] | None
    n_columns: int
    n_rows: int | None = None
    reopens: bool = True
    reads_ahead: bool = False
    nulls: tuple[str, ...] = ()
    is_text: bool = False
    _text: str | None = None  # a digest, of a table that is text and has been read
    header_note: str | None = None
    first_line: tuple[str, ...] = ()

    def label(self, column: int) -> str:
        """A column as messages print it: its name (escaped), or else its number."""
        names = self.column_names
        return f"column {column}" if names is None else f"column {names[column]!a}"

    def kind(self, column: int) -> Kind:
        """What a column holds, from its type or its first cells."""
        return NUMBER

    def expect_columns(self, columns: Sequence[int]) -> None:
        """Hear which columns will be read, before the first of them is."""
        return  # what is read column by column need not know

    def stream(self, is_on: bool) -> None:
        """Hear that after the head one pass will follow and no other, or that it is over."""
        return  # what can be read again need not know

    @abstractmethod
    def read(
        self,
        columns: Sequence[int],
        start: int,
        block_rows: int,
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Iterator[RawBlock]:
        """Blocks of the given columns from row `start` on; codes of the columns with labels."""

    def meet_labels(self, labels: Mapping[int, Labels]) -> None:
        """Number all labels of columns of text, in a pass."""
        for _ in self.read(list(labels), 0, _MEET_ROWS, labels):
            pass

    def head(
        self, columns: Sequence[int], n_rows: int, labels: Mapping[int, Labels] = NO_LABELS
    ) -> Float:
        """The first rows, or fewer where the format gives these at once."""
        first = next(iter(self.read(columns, 0, n_rows, labels)), None)
        return np.empty((0, len(columns))) if first is None else first.values[:n_rows]

    def kept_kinds(self, columns: Sequence[int]) -> list[Any]:
        """What `cells` gives of each column: "number", "text", or a type of Arrow."""
        return ["number"] * len(columns)

    def cells(self, columns: Sequence[int], block_rows: int) -> Iterator[list[Any]]:
        """Blocks of the given columns as they are, each a list of columns, from the first row on.

        Rows are those of `read`, in blocks of other sizes.
        """
        for block in self.read(columns, 0, block_rows):
            yield list(block.values.T)

    @abstractmethod
    def mark(self) -> str:
        """A digest that is known before the rows are read; equal tables have the same one."""

    def contents(self) -> tuple[str, bool] | None:
        """A digest of all cells, whichever are read, and whether no other table has it.

        None where it is not known: for text that is not read to its end yet, and for queries.
        """
        return None if self._text is None else (self._text, True)

    def check_unchanged(self) -> None:
        """Raise unless the table is as it was when it was opened."""
        return  # what is in memory does not change by itself

    def stamp(self) -> dict[str, object]:
        """Name, size and time, to say in words how an input has changed."""
        return {"name": self.name}


class FileTable(Table):
    """A file on disk.

    Parameters
    ----------
    path : str or path-like
        ``str(path)`` is the name in messages. A temporary copy lives as long as the table.
    """

    reads_ahead = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name, self.source = str(path), path
        self._mark: str | None = None
        self._opened = self.stamp()

    def mark(self) -> str:
        """Digest of the size and of samples spread over the file, including both ends.

        Not of the name or the time: a copy of a file is the same file. Different files may have
        the same mark; a digest of their rows, made while they are read, tells them apart.
        """
        if self._mark is None:
            self._mark = self._sampled()
        return self._mark

    def contents(self) -> tuple[str, bool] | None:
        """A digest of text, whether it is compressed or not; of other files the mark."""
        if self.is_text:
            return super().contents()
        return self.mark(), self.path.stat().st_size <= _SAMPLES * _SAMPLE_BYTES

    def _sampled(self) -> str:
        size = self.path.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        last = max(size - _SAMPLE_BYTES, 0)
        with self.path.open("rb") as file:
            for i in range(_SAMPLES):
                file.seek(last * i // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
                if last == 0:
                    break
        return digest.hexdigest()

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
