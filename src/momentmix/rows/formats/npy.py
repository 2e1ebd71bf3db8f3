"""NPY files. The header is checked before NumPy allocates anything for it.

Rows are read, not mapped: a mapped file that is truncated by another program kills the process.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from momentmix.errors import InputError
from momentmix.rows.blocks import BlockMemory, side_by_side
from momentmix.rows.containers import warn_integers
from momentmix.rows.labels import NO_LABELS, Labels
from momentmix.rows.table import FileTable, RawBlock, rows_from

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 14  # NumPy writes about 128 bytes; a header is parsed as Python code
_READ_BYTES = 1 << 24  # at a time, however wide the rows


class NpyFile(FileTable):
    """A two-dimensional array of real numbers in an NPY file; never unpickled."""

    column_names = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        shape, fortran, dtype, offset = self._header()
        if dtype.hasobject:
            raise InputError(
                f"{self.name} holds Python objects (dtype {dtype}), which momentmix never "
                "unpickles. Save it with a real dtype: np.save(path, array.astype(float))."
            )
        if dtype.kind not in "fiub":
            raise InputError(
                f"{self.name} must hold real numbers; its dtype is {dtype}. Save it with a real "
                "dtype: np.save(path, array.astype(float))."
            )
        if len(shape) != 2:
            raise InputError(
                f"{self.name} must have shape (n_rows, n_features); it has {len(shape)} "
                f"dimension(s), shape {shape}. Reshape it and save it again."
            )
        n_values = shape[0] * shape[1]
        expected, actual = offset + n_values * dtype.itemsize, self.path.stat().st_size
        if actual < expected:
            raise InputError(
                f"{self.name} is truncated: shape {shape} of {dtype} needs {expected} bytes, the "
                f"file has {actual}. Copy it again."
            )
        self.n_rows, self.n_columns = shape
        self._fortran, self._dtype, self._offset = fortran, dtype, offset

    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            start = file.read(12)
            if start[:6] != _MAGIC:
                raise InputError(f"{self.name} is not an NPY file: it starts with {start[:6]!r}.")
            if len(start) < 12:
                raise InputError(f"{self.name} is truncated: {size} bytes, inside the header.")
            version = start[6]
            length = struct.unpack("<H", start[8:10])[0]
            if version > 1:
                length = struct.unpack("<I", start[8:12])[0]
            if length > _LONGEST_HEADER or length > size:
                raise InputError(
                    f"{self.name} claims a header of {length} bytes; momentmix reads at most "
                    f"{_LONGEST_HEADER}, and the file has {size}. It is corrupt."
                )
            file.seek(0)
            try:
                file_version = np.lib.format.read_magic(file)
                reader = np.lib.format.read_array_header_2_0
                if file_version == (1, 0):
                    reader = np.lib.format.read_array_header_1_0
                shape, fortran, dtype = reader(file, max_header_size=_LONGEST_HEADER)
            except MemoryError:
                raise
            except Exception as error:  # NumPy's parser may raise anything on arbitrary bytes
                text = (str(error).splitlines() or [""])[0][:200]
                raise InputError(f"{self.name} has no readable NPY header: {text}") from None
            if any(n < 0 for n in shape):
                raise InputError(f"{self.name} claims the impossible shape {shape}.")
            return tuple(int(n) for n in shape), bool(fortran), np.dtype(dtype), file.tell()

    def read(
        self,
        columns: Sequence[int],
        start: int,
        block_rows: int,
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Iterator[RawBlock]:
        """Blocks cast to float64."""
        read = self._columns if self._fortran else self._rows
        end = self.n_rows or 0
        memory = BlockMemory((min(block_rows, end), len(columns)))
        with self.path.open("rb", buffering=0) as file:
            for first in range(start, end, block_rows):
                values = memory.block()[: end - first]
                read(file, list(columns), first, values)
                yield RawBlock(values, rows_from(first))

    def _rows(self, file: Any, columns: list[int], first: int, values: Any) -> None:
        """Fill `values` from an array that is stored row by row."""
        if columns == list(range(self.n_columns)) and self._dtype == values.dtype:
            self._fill(file, first * self.n_columns, values)
            return
        step = max(1, _READ_BYTES // (self.n_columns * self._dtype.itemsize))
        for i in range(0, len(values), step):
            rows = np.empty((min(step, len(values) - i), self.n_columns), self._dtype)
            self._fill(file, (first + i) * self.n_columns, rows)
            chosen = rows[:, columns]
            warn_integers(chosen, f"{self.name} holds")
            values[i : i + step] = chosen

    def _columns(self, file: Any, columns: list[int], first: int, values: Any) -> None:
        """Fill `values` from an array that is stored column by column."""
        stored = np.empty((len(columns), len(values)), self._dtype)
        for column, part in zip(columns, stored, strict=True):
            self._fill(file, column * (self.n_rows or 0) + first, part)
        warn_integers(stored, f"{self.name} holds")
        side_by_side(list(stored), values)

    def _fill(self, file: BinaryIO, position: int, array: Any) -> None:
        """Read consecutive values from a position in the array that the file holds."""
        left = memoryview(array.reshape(-1).view(np.uint8))
        file.seek(self._offset + position * self._dtype.itemsize)
        while left:
            n_read = file.readinto(left)  # type: ignore[attr-defined]
            if not n_read:
                raise InputError(
                    f"{self.name} is truncated: it ended while it was being read, {len(left)} "
                    "bytes before the next rows did. Copy it again."
                )
            left = left[n_read:]
