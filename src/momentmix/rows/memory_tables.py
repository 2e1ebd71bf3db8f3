"""Arrays and data frames in memory as tables."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.rows.containers import (
    column_array,
    frame_array,
    frame_column,
    frame_labels,
    frame_names,
    is_frame,
)
from momentmix.rows.table import RawBlock, Table, rows_from
from momentmix.rows.validation import as_rows


def memory_table(data: Any, name: str | None = None) -> Table:
    """A data frame, an array, or anything that NumPy makes one of, as a table."""
    if is_frame(data):
        return FrameTable(data, name or "the table")
    return ArrayTable(data, name or "the array")


class _MemoryTable(Table):
    def __init__(self, name: str) -> None:
        self.name = name
        self._mark: str | None = None

    @abstractmethod
    def _array(self, columns: Sequence[int]) -> NDArray[Any]:
        """The given columns, of shape (n_rows, n_columns)."""

    @abstractmethod
    def _add_to(self, digest: Any) -> None:
        """Add names and values to a digest."""

    def read(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[RawBlock]:
        """Blocks cast to float64."""
        array = self._array(columns)
        for first in range(start, len(array), block_rows):
            block = array[first : first + block_rows]
            yield RawBlock(np.ascontiguousarray(block, dtype=np.float64), rows_from(first))

    def mark(self) -> str:
        """Digest of all values."""
        if self._mark is None:
            digest = hashlib.sha256()
            self._add_to(digest)
            self._mark = digest.hexdigest()
        return self._mark


class ArrayTable(_MemoryTable):
    """An array, or anything that NumPy makes one of."""

    column_names = None

    def __init__(self, rows: Any, name: str = "the array") -> None:
        super().__init__(name)
        self.rows, _ = as_rows(rows, None)
        self.n_rows, self.n_columns = self.rows.shape

    def _array(self, columns: Sequence[int]) -> NDArray[Any]:
        if list(columns) == list(range(self.n_columns)):
            return self.rows
        return self.rows[:, list(columns)]

    def _add_to(self, digest: Any) -> None:
        for block in self.read(range(self.n_columns), 0, 1 << 14):
            digest.update(block.values.tobytes())


class FrameTable(_MemoryTable):
    """A pandas or polars data frame, or an Arrow table."""

    def __init__(self, frame: Any, name: str = "the table") -> None:
        super().__init__(name)
        self.frame = frame
        self.column_names = frame_names(frame)
        self.n_columns, self.n_rows = len(frame_labels(frame)), int(frame.shape[0])
        if not self.n_columns:
            raise InputError(f"{name} has no columns; pass one with numbers.")
        self._cache: tuple[tuple[int, ...], NDArray[Any]] | None = None

    def _column(self, i: int) -> NDArray[Any]:
        return column_array(frame_column(self.frame, i))

    def not_numeric(self, columns: Sequence[int]) -> list[str]:
        """Columns of text, times, objects and the like."""
        refused = []
        for i in columns:
            dtype = self._column(i).dtype
            if dtype.kind not in "fiub":
                name = i if self.column_names is None else ascii(self.column_names[i])
                refused.append(f"{name} ({dtype})")
        return refused

    def _array(self, columns: Sequence[int]) -> NDArray[Any]:
        key = tuple(columns)
        if self._cache is None or self._cache[0] != key:
            holder = lambda i: f"{self.name}, {self.label(i)} holds"  # noqa: E731
            self._cache = key, frame_array(self.frame, key, holder)
        return self._cache[1]

    def _add_to(self, digest: Any) -> None:
        digest.update(repr(self.column_names).encode())
        for i in range(self.n_columns):
            array = self._column(i)
            if array.dtype.kind in "fiub":
                digest.update(np.ascontiguousarray(array).tobytes())
