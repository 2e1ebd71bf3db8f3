"""Arrays and data frames in memory as tables."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
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
    is_missing,
)
from momentmix.rows.labels import (
    NO_LABELS,
    Labels,
    LabelsError,
    Periods,
    first_unknown,
    refused_label,
    too_many_labels,
)
from momentmix.rows.table import Kind, RawBlock, Table, rows_from
from momentmix.tables.validation import as_rows


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
    def _array(self, columns: Sequence[int], labels: Mapping[int, Labels]) -> NDArray[Any]:
        """The given columns, of shape (n_rows, n_columns)."""

    @abstractmethod
    def _add_to(self, digest: Any) -> None:
        """Add names and values to a digest."""

    def read(
        self,
        columns: Sequence[int],
        start: int,
        block_rows: int,
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Iterator[RawBlock]:
        """Blocks cast to float64."""
        array = self._array(columns, labels)
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

    def contents(self) -> tuple[str, bool]:
        """The mark."""
        return self.mark(), True


class ArrayTable(_MemoryTable):
    """An array, or anything that NumPy makes one of."""

    column_names = None

    def __init__(self, rows: Any, name: str = "the array") -> None:
        super().__init__(name)
        self.rows, _ = as_rows(rows, None)
        self.n_rows, self.n_columns = self.rows.shape

    def _array(self, columns: Sequence[int], labels: Mapping[int, Labels]) -> NDArray[Any]:
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

    def kind(self, column: int) -> Kind:
        """What a column holds, from its type."""
        array = self._column(column)
        dtype = getattr(frame_column(self.frame, column), "dtype", array.dtype)
        if str(dtype).startswith("str"):  # also where there is no cell, as in Dask's examples
            return Kind("text", str(dtype), is_text=True)
        if array.dtype.kind in "fiub":
            return Kind("bool" if array.dtype.kind == "b" else "number", str(array.dtype))
        if array.dtype.kind in "Mm":
            return Kind("date", str(array.dtype))
        first = next((value for value in array if not is_missing(value)), None)
        if isinstance(first, date):  # as pandas keeps days
            return Kind("date", "datetime64" if isinstance(first, datetime) else "date")
        is_text = array.dtype.kind in "UTO" and isinstance(first, str)
        return Kind("text" if is_text else "other", str(array.dtype), is_text)

    def _array(self, columns: Sequence[int], labels: Mapping[int, Labels]) -> NDArray[Any]:
        if labels:  # they may change between passes
            return np.column_stack([self._numbers(i, labels.get(i)) for i in columns])
        key = tuple(columns)
        if self._cache is None or self._cache[0] != key:
            self._cache = key, frame_array(self.frame, key, self._holder)
        return self._cache[1]

    def _holder(self, column: int) -> str:
        return f"{self.name}, {self.label(column)} holds"

    def _numbers(self, column: int, labels: Labels | None) -> NDArray[np.float64]:
        if labels is None:
            return frame_array(self.frame, [column], self._holder)[:, 0]
        cells: Any = self._column(column)
        if isinstance(labels, Periods) and cells.dtype.kind == "M":
            codes = labels.of_times(cells)
        else:
            cells = [None if is_missing(text) else text for text in cells]
            try:
                codes = labels.codes(cells)
            except LabelsError:
                raise too_many_labels(f"{self.name}, {self.label(column)}") from None
        row = first_unknown(codes, labels)
        if row is not None:
            place = f"{self.name}, row {row}, {self.label(column)}"
            raise refused_label(place, str(cells[row]), labels)
        return codes

    def _add_to(self, digest: Any) -> None:
        digest.update(repr(self.column_names).encode())
        for i in range(self.n_columns):
            array = self._column(i)
            if array.dtype.kind in "fiub":
                digest.update(np.ascontiguousarray(array).tobytes())
