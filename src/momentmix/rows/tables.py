"""Arrays and data frames in memory. No data-frame library is imported: theirs is already there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.rows.containers import (
    column_array,
    frame_column,
    frame_labels,
    frame_names,
    is_frame,
)
from momentmix.rows.piece import Piece, RawBlock, column_name, rows_from
from momentmix.rows.validation import as_rows, warn_integers

__all__ = ["ArrayPiece", "FramePiece", "is_frame"]


class _MemoryPiece(Piece):
    def __init__(self, name: str) -> None:
        self.name = name
        self._mark: str | None = None

    def _array(self, columns: Sequence[int]) -> NDArray[Any]:
        raise NotImplementedError

    def read(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[RawBlock]:
        """Blocks cast to float64."""
        array = self._array(columns)
        for first in range(start, len(array), block_rows):
            part = array[first : first + block_rows]
            yield RawBlock(np.ascontiguousarray(part, dtype=np.float64), rows_from(first))

    def mark(self) -> str:
        """Digest of all values."""
        if self._mark is None:
            digest = hashlib.sha256()
            for block in self.read(range(self.n_columns), 0, 1 << 14):
                digest.update(block.values.tobytes())
            self._mark = digest.hexdigest()
        return self._mark


class ArrayPiece(_MemoryPiece):
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


class FramePiece(_MemoryPiece):
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

    def unusable(self, columns: Sequence[int]) -> list[str]:
        """Columns that are not numbers."""
        found = []
        for i in columns:
            array = self._column(i)
            if array.dtype.kind not in "fiub":
                name = i if self.column_names is None else ascii(self.column_names[i])
                found.append(f"{name} ({array.dtype})")
        return found

    def _array(self, columns: Sequence[int]) -> NDArray[Any]:
        key = tuple(columns)
        if self._cache is None or self._cache[0] != key:
            self.warn_of_integers(key)
            arrays = [self._column(i) for i in key]
            self._cache = key, np.column_stack([a.astype(np.float64, copy=False) for a in arrays])
        return self._cache[1]

    def warn_of_integers(self, columns: Sequence[int]) -> None:
        """Warn where float64 rounds integers, which nulls may turn into floats later on."""
        for i in columns:
            label = column_name(i, self.column_names)
            warn_integers(frame_column(self.frame, i), f"{self.name}, {label} holds")

    def table(self) -> NDArray[Any]:
        """All columns as one array; an error names those that are not numbers."""
        unusable = self.unusable(range(self.n_columns))
        if unusable:
            raise InputError(
                f"columns must hold real numbers; these do not: {', '.join(unusable)}. Select "
                "others, or convert them."
            )
        return self._array(range(self.n_columns))

    def mark(self) -> str:
        """Digest of all columns that are numbers."""
        if self._mark is None:
            digest = hashlib.sha256(repr(self.column_names).encode())
            for i in range(self.n_columns):
                array = self._column(i)
                if array.dtype.kind in "fiub":
                    digest.update(np.ascontiguousarray(array).tobytes())
            self._mark = digest.hexdigest()
        return self._mark
