"""NPY files. The header is checked before NumPy allocates anything for it.

Rows are read, not mapped: a mapped file that is truncated by another program kills the process.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from io import FileIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.tables.arrow_files import batch_rows
from momentmix.tables.source import Batch, FileSource

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 14  # NumPy writes about 128 bytes; a header is parsed as Python code


class NpyFile(FileSource):
    """A two-dimensional array of real numbers in an NPY file; never unpickled."""

    column_names = None
    n_rows: int

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        actual = self.path.stat().st_size
        with self.path.open("rb") as file:
            shape, self._is_fortran, dtype = self._header(file, actual)
            self._dtype, self._offset = dtype, file.tell()
        if dtype.kind not in "fiub":
            objects = f"holds Python objects (dtype {dtype}), which momentmix never unpickles"
            what = f"must hold real numbers; its dtype is {dtype}"
            raise InputError(
                f"{self.name} {objects if dtype.hasobject else what}. Save it with a real dtype: "
                "np.save(path, array.astype(float))."
            )
        if len(shape) != 2:
            raise InputError(
                f"{self.name} must have shape (n_rows, n_features); it has {len(shape)} "
                f"dimension(s), shape {shape}. Reshape it and save it again."
            )
        expected = self._offset + shape[0] * shape[1] * dtype.itemsize
        if actual < expected:
            raise InputError(
                f"{self.name} is truncated: shape {shape} of {dtype} needs {expected} bytes, the "
                f"file has {actual}. Copy it again."
            )
        self.n_rows, self.n_columns = shape

    def _header(self, file: BinaryIO, size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        start = file.read(12)
        if start[:6] != _MAGIC:
            raise InputError(f"{self.name} is not an NPY file: it starts with {start[:6]!r}.")
        if len(start) < 12:
            raise InputError(f"{self.name} is truncated: {size} bytes, inside the header.")
        length = struct.unpack("<I" if start[6] > 1 else "<Hxx", start[8:12])[0]
        if length > _LONGEST_HEADER or length > size:
            raise InputError(
                f"{self.name} claims a header of {length} bytes; momentmix reads at most "
                f"{_LONGEST_HEADER}, and the file has {size}. It is corrupt."
            )
        file.seek(0)
        try:
            formats = np.lib.format
            is_old = formats.read_magic(file) == (1, 0)
            read = formats.read_array_header_1_0 if is_old else formats.read_array_header_2_0
            shape, is_fortran, dtype = read(file, max_header_size=_LONGEST_HEADER)
        except MemoryError:
            raise
        except Exception as error:  # NumPy's parser may raise anything on arbitrary bytes
            text = (str(error).splitlines() or [""])[0][:200]
            raise InputError(f"{self.name} has no readable NPY header: {text}") from None
        if any(n < 0 for n in shape):
            raise InputError(f"{self.name} claims the impossible shape {shape}.")
        return tuple(int(n) for n in shape), bool(is_fortran), np.dtype(dtype)

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """Batches of the type of the file.

        Where the file is stored row by row, a batch has the columns ``block[:, j]`` of one block in
        C order: who puts columns side by side finds it as their ``base``.
        """
        step = batch_rows(self.n_columns)
        with self.path.open("rb", buffering=0) as file:
            for first in range(start, self.n_rows, step):
                n_rows = min(step, self.n_rows - first)
                if self._is_fortran:
                    places = [i * self.n_rows + first for i in columns]
                    arrays = [self._values(file, place, n_rows) for place in places]
                else:
                    block = self._values(file, first * self.n_columns, n_rows, self.n_columns)
                    if list(columns) != list(range(self.n_columns)):
                        block = block.take(columns, axis=1)
                    arrays = [block[:, j] for j in range(len(columns))]
                yield Batch(first, n_rows, arrays)

    def _values(self, file: FileIO, place: int, *shape: int) -> NDArray[Any]:
        """Consecutive values from a place in the array that the file holds."""
        values = np.empty(shape, self._dtype)
        left = values.reshape(-1).view(np.uint8).data
        file.seek(self._offset + place * self._dtype.itemsize)
        while left:
            n_read = file.readinto(left)
            if not n_read:
                raise InputError(
                    f"{self.name} is truncated: it ended while it was being read, {len(left)} "
                    "bytes before the next rows did. Copy it again."
                )
            left = left[n_read:]
        return values
