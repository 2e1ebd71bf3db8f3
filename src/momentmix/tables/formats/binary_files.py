"""Parquet, Arrow (Feather) and NPY files, a few rows at a time.

None is mapped: a mapped file that is truncated by another program kills the process.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO, FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.tables.source import (
    BATCH_ROWS,
    ArrowFileSource,
    Batch,
    Columns,
    FileSource,
    checked,
)

_BATCH_BYTES = 1 << 24  # of numbers, however many columns
_BUFFER, _BUFFERS, _LEAST_BUFFER = 1 << 18, 1 << 25, 1 << 12  # bytes of a column, of all
_LONGEST_HEADER = 1 << 14  # of NPY: NumPy writes about 128 bytes, and parses them as Python code


def batch_rows(n_columns: int) -> int:
    """Rows of so many columns to read at a time."""
    fitting = max(1, min(BATCH_ROWS, _BATCH_BYTES // (8 * max(1, n_columns))))
    return 1 << (fitting.bit_length() - 1)


def numbered(batches: Iterable[Any], position: int = 0) -> Iterator[Batch]:
    """Record batches that are `checked`, numbered from a row on, and cut where they are long."""
    for batch in batches:
        for first in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(first, BATCH_ROWS)
            yield Batch(position + first, part.num_rows, part.columns)
        position += batch.num_rows


class ParquetFile(ArrowFileSource):
    """A Parquet file; its text is given as dictionaries."""

    def _open(self) -> None:
        with self._file(1, []) as file:
            self.schema, metadata = file.schema_arrow, file.metadata
            self.n_rows = metadata.num_rows
            lengths = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            self._ends = np.cumsum([0, *lengths])

    def _file(self, n_columns: int, texts: list[str]) -> Any:
        from pyarrow import parquet

        # Without a buffer, pyarrow reads all of a row group's bytes at once, however many.
        size = max(_LEAST_BUFFER, min(_BUFFER, _BUFFERS // max(1, n_columns)))
        options = {"pre_buffer": False, "buffer_size": size, "read_dictionary": texts}
        return parquet.ParquetFile(self.path, memory_map=False, **options)

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """Batches from the row group on that holds row `start`."""
        first = int(np.searchsorted(self._ends[1:], start, side="right"))
        groups = range(first, len(self._ends) - 1)
        if not groups:
            return
        names = [self.schema.names[i] for i in columns]
        texts = [self.schema.names[i] for i in columns if self.kind(i).kind == "text"]
        with self._refuse_unreadable(), self._file(len(names), texts) as file:
            whole = file.iter_batches(batch_rows(len(names)), row_groups=groups, columns=names)
            yield from numbered(self._chosen(whole, columns), int(self._ends[first]))

    def _chosen(self, batches: Iterable[Any], columns: Columns) -> Iterator[Any]:
        """Columns by number: pyarrow gives all of a name, and parts of nested ones, in order."""
        keys = _occurrences(self.schema.names)
        for batch in batches:
            places = {key: i for i, key in enumerate(_occurrences(batch.schema.names))}
            yield checked(batch.select([places[keys[i]] for i in columns]))


def _occurrences(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with the number of columns up to it that have the same name."""
    seen: Counter[str] = Counter()
    keys = []
    for name in names:
        seen[name] += 1
        keys.append((name, seen[name]))
    return keys


class ArrowFile(ArrowFileSource):
    """An Arrow file: the file format (Feather version 2) or the stream format."""

    def _open(self) -> None:
        with self.path.open("rb") as file:
            self._streamed = file.read(6) != b"ARROW1"
        with self._reader() as reader:
            self.schema = reader.schema
            if hasattr(reader, "count_rows"):  # of newer versions, and the file format
                self.n_rows = int(reader.count_rows())

    @contextmanager
    def _reader(self, chosen: list[int] | None = None) -> Iterator[Any]:
        from pyarrow import OSFile, ipc

        opener = ipc.open_stream if self._streamed else ipc.open_file
        options = ipc.IpcReadOptions(included_fields=chosen)
        with OSFile(str(self.path)) as file, opener(file, options=options) as reader:
            yield reader

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """All batches: the file has no index of row `start`."""
        chosen = sorted({*columns})
        order = np.searchsorted(chosen, columns).tolist()
        with self._refuse_unreadable(), self._reader(chosen) as reader:
            if self._streamed:
                whole = iter(reader)
            else:
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            yield from numbered(checked(batch.select(order)) for batch in whole)


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
        if dtype.kind not in "fiub":
            objects = f"holds Python objects (dtype {dtype}), which momentmix never unpickles"
            what = f"must hold real numbers; its dtype is {dtype}"
            raise InputError(
                f"{self.name} {objects if dtype.hasobject else what}. Save it with a real dtype: "
                "np.save(path, array.astype(float))."
            )
        if len(shape) != 2 or min(shape) < 0:
            raise InputError(
                f"{self.name} must have shape (n_rows, n_features); it has {len(shape)} "
                f"dimension(s), shape {shape}. Reshape it and save it again."
            )
        self.n_rows, self.n_columns = shape
        expected = self._offset + self.n_rows * self.n_columns * dtype.itemsize
        if size < expected:
            raise InputError(
                f"{self.name} is truncated: shape {shape} of {dtype} needs {expected} bytes, the "
                f"file has {size}. Copy it again."
            )

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """Batches of the type of the file: columns of one block in C order, if it is stored so."""
        step, every = batch_rows(self.n_columns), list(range(self.n_columns))
        with self.path.open("rb", buffering=0) as file:
            for first in range(start, self.n_rows, step):
                n_rows = min(step, self.n_rows - first)
                if self._is_fortran:
                    arrays = [self._values(file, i * self.n_rows + first, n_rows) for i in columns]
                else:
                    values = self._values(file, first * len(every), n_rows * len(every))
                    block = values.reshape(n_rows, len(every))
                    arrays = list((block if [*columns] == every else block.take(columns, axis=1)).T)
                yield Batch(first, n_rows, arrays)

    def _values(self, file: FileIO, place: int, n_values: int) -> NDArray[Any]:
        """Consecutive values from a place in the array that the file holds."""
        file.seek(self._offset + place * self._dtype.itemsize)
        values = np.fromfile(file, self._dtype, n_values)
        if len(values) < n_values:
            raise InputError(
                f"{self.name} is truncated: it ended while it was being read, "
                f"{n_values - len(values)} values before the next rows did. Copy it again."
            )
        return values
