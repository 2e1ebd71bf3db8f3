"""NPY files, a few rows at a time; never mapped, never unpickled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np

from momentmix.errors import InputError
from momentmix.tables.formats.csv_text import Dialect
from momentmix.tables.source import Batch, Columns, Source, batch_rows, first_line

_LONGEST_HEADER = 1 << 14  # bytes; NumPy writes about 128, and parses them as Python code


class NpyFile(Source):
    """A two-dimensional array of real numbers."""

    column_names = None
    n_rows: int

    def __init__(self, path: str | os.PathLike[str], _: Dialect | None = None) -> None:
        super().__init__(path)
        formats = np.lib.format
        with open(path, "rb") as file:
            start = BytesIO(file.read(_LONGEST_HEADER))  # all that NumPy may allocate for
        try:
            is_old = formats.read_magic(start) == (1, 0)
            read = formats.read_array_header_1_0 if is_old else formats.read_array_header_2_0
            shape, self._is_fortran, dtype = read(start, max_header_size=_LONGEST_HEADER)
        except MemoryError:
            raise
        except Exception as error:  # NumPy's parser may raise anything on arbitrary bytes
            raise self._unreadable(first_line(error)) from None
        if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 0:
            objects = ", Python objects, which momentmix never unpickles" * dtype.hasobject
            raise InputError(
                f"{self.name} must hold real numbers of shape (n_rows, n_features); it holds "
                f"{dtype} of shape {shape}{objects}. Save it as a table: np.save(path, "
                "array.astype(float).reshape(n_rows, -1))."
            )
        self._dtype, self._offset, (self.n_rows, self.n_columns) = dtype, start.tell(), shape
        expected = self._offset + self.n_rows * self.n_columns * dtype.itemsize
        if self._n_bytes() < expected:
            raise self._unreadable(f"shape {shape} of {dtype} needs {expected} bytes.")

    def batches(self, columns: Columns, *_: Columns) -> Iterator[Batch]:
        """Batches of the type of the file."""
        step, width = batch_rows(self.n_columns), self.n_columns
        with open(self.path or "", "rb", buffering=0) as file:
            for first in range(0, self.n_rows, step):
                n_rows = min(step, self.n_rows - first)
                if self._is_fortran:
                    arrays = [self._values(file, i * self.n_rows + first, n_rows) for i in columns]
                else:
                    block = self._values(file, first * width, n_rows * width).reshape(-1, width)
                    is_whole = list(columns) == list(range(width))
                    arrays = (block if is_whole else block.take(columns, axis=1)).T
                yield first, arrays

    def _values(self, file: Any, place: int, n_values: int) -> Any:
        """Consecutive values from a place in the array that the file holds."""
        file.seek(self._offset + place * self._dtype.itemsize)
        values = np.fromfile(file, self._dtype, n_values)
        if len(values) < n_values:
            raise self._unreadable("it ended while it was being read.")
        return values
