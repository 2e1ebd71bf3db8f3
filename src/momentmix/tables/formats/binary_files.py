"""Parquet, Arrow (Feather) and NPY files, a few rows at a time.

None is mapped: a mapped file that is truncated by another program kills the process.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np

from momentmix.errors import InputError
from momentmix.tables.source import (
    ArrowSource,
    Batch,
    Columns,
    FileSource,
    batch_rows,
    numbered,
)

_BUFFER, _BUFFERS, _LEAST_BUFFER = 1 << 18, 1 << 25, 1 << 12  # bytes of a column, of all
_LONGEST_HEADER = 1 << 14  # of NPY: NumPy writes about 128 bytes, and parses them as Python code


class ParquetFile(ArrowSource, FileSource):
    """A Parquet file; its text is read as dictionaries."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        FileSource.__init__(self, path)
        with self.refuse_damage(), self._file(1, []) as file:
            self.n_rows = file.metadata.num_rows
            self.set_schema(file.schema_arrow)

    def _file(self, n_columns: int, texts: list[str]) -> Any:
        from pyarrow import parquet

        # Without a buffer, pyarrow reads all of a row group's bytes at once, however many.
        size = max(_LEAST_BUFFER, min(_BUFFER, _BUFFERS // max(1, n_columns)))
        options = {"pre_buffer": False, "buffer_size": size, "read_dictionary": texts}
        return parquet.ParquetFile(self.path, memory_map=False, **options)

    def batches(self, columns: Columns, *_: Columns) -> Iterator[Batch]:
        every = self.schema.names
        names = [every[i] for i in columns]
        texts = [every[i] for i in columns if self.kind(i).kind == "text"]
        with self.refuse_damage(), self._file(len(names), texts) as file:
            whole = file.iter_batches(batch_rows(len(names)), columns=list(dict.fromkeys(names)))
            yield from numbered(self._chosen(whole, columns))

    def _chosen(self, batches: Iterable[Any], columns: Columns) -> Iterator[Any]:
        """Columns by number: pyarrow gives all of a name, and parts of nested ones, in order."""
        keys = _occurrences(self.schema.names)
        for batch in batches:
            places = {key: i for i, key in enumerate(_occurrences(batch.schema.names))}
            yield batch.select([places[keys[i]] for i in columns])


def _occurrences(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with the number of columns up to it that have the same name."""
    times: Counter[str] = Counter()
    keys = []
    for name in names:
        times[name] += 1
        keys.append((name, times[name]))
    return keys


class ArrowFile(ArrowSource, FileSource):
    """An Arrow file: the file format (Feather version 2) or the stream format."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        FileSource.__init__(self, path)
        with self.path.open("rb") as file:
            self._streamed = file.read(6) != b"ARROW1"
        with self.refuse_damage(), self._reader() as reader:
            if hasattr(reader, "count_rows"):  # of newer versions, and the file format
                self.n_rows = int(reader.count_rows())
            self.set_schema(reader.schema)

    @contextmanager
    def _reader(self, chosen: list[int] | None = None) -> Iterator[Any]:
        from pyarrow import OSFile, ipc

        opener = ipc.open_stream if self._streamed else ipc.open_file
        options = ipc.IpcReadOptions(included_fields=chosen)
        with OSFile(str(self.path)) as file, opener(file, options=options) as reader:
            yield reader

    def batches(self, columns: Columns, *_: Columns) -> Iterator[Batch]:
        chosen = sorted({*columns})
        order = np.searchsorted(chosen, columns).tolist()
        with self.refuse_damage(), self._reader(chosen) as reader:
            if self._streamed:
                whole = iter(reader)
            else:
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            yield from numbered(batch.select(order) for batch in whole)


class NpyFile(FileSource):
    """A two-dimensional array of real numbers in an NPY file; never unpickled."""

    column_names = None
    n_rows: int

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        size, formats = self.path.stat().st_size, np.lib.format
        with self.path.open("rb") as file:
            start = BytesIO(file.read(_LONGEST_HEADER))  # all that NumPy may allocate for
        try:
            is_old = formats.read_magic(start) == (1, 0)
            read = formats.read_array_header_1_0 if is_old else formats.read_array_header_2_0
            shape, self._is_fortran, dtype = read(start, max_header_size=_LONGEST_HEADER)
        except MemoryError:
            raise
        except Exception as error:  # NumPy's parser may raise anything on arbitrary bytes
            text = (str(error).splitlines() or [""])[0][:200]
            raise InputError(
                f"{self.name} is not an NPY file, or is truncated or damaged in its header ({size} "
                f"bytes): {text}. Copy or save it again."
            ) from None
        self._dtype, self._offset = dtype, start.tell()
        if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 0:
            objects = ", Python objects, which momentmix never unpickles" * dtype.hasobject
            raise InputError(
                f"{self.name} must hold real numbers of shape (n_rows, n_features); it holds "
                f"{dtype} of shape {shape}{objects}. Save it as a table: np.save(path, "
                "array.astype(float).reshape(n_rows, -1))."
            )
        self.n_rows, self.n_columns = shape
        expected = self._offset + self.n_rows * self.n_columns * dtype.itemsize
        if size < expected:
            raise InputError(
                f"{self.name} is truncated: shape {shape} of {dtype} needs {expected} bytes, the "
                f"file has {size}. Copy it again."
            )

    def batches(self, columns: Columns, *_: Columns) -> Iterator[Batch]:
        """Batches of the type of the file: columns of one block in C order, if it is stored so."""
        step, width = batch_rows(self.n_columns), self.n_columns
        with self.path.open("rb", buffering=0) as file:
            for first in range(0, self.n_rows, step):
                n_rows = min(step, self.n_rows - first)
                if self._is_fortran:
                    arrays = [self._values(file, i * self.n_rows + first, n_rows) for i in columns]
                else:
                    block = self._values(file, first * width, n_rows * width).reshape(-1, width)
                    is_whole = list(columns) == list(range(width))
                    arrays = list((block if is_whole else block.take(columns, axis=1)).T)
                yield first, arrays

    def _values(self, file: Any, place: int, n_values: int) -> Any:
        """Consecutive values from a place in the array that the file holds."""
        file.seek(self._offset + place * self._dtype.itemsize)
        values = np.fromfile(file, self._dtype, n_values)
        if len(values) < n_values:
            raise InputError(
                f"{self.name} is truncated: it ended while it was being read, "
                f"{n_values - len(values)} values before the next rows did. Copy it again."
            )
        return values
