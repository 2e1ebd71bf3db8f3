"""NPY files, a few rows at a time; Excel sheets and JSON lines, which pandas reads as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np

from momentmix.errors import InputError, needed
from momentmix.tables.csv_text import Dialect
from momentmix.tables.memory import MemoryTable
from momentmix.tables.source import Batch, Columns, Source, batch_rows, first_line
from momentmix.wording import option

_LONGEST_HEADER = 1 << 14  # bytes; NumPy writes about 128, and parses them as Python code


class NpyFile(Source):
    """A two-dimensional array of real numbers; never mapped, never unpickled."""

    n_rows: int

    def __init__(self, path: str | os.PathLike[str], _: Dialect | None = None) -> None:
        super().__init__(path)
        with open(path, "rb") as file:
            start = BytesIO(file.read(_LONGEST_HEADER))  # all that NumPy may allocate for
        try:
            version = np.lib.format.read_magic(start)
            read = getattr(np.lib.format, f"read_array_header_{min(version[0], 2)}_0")
            shape, self._is_fortran, dtype = read(start, max_header_size=_LONGEST_HEADER)
        except MemoryError:
            raise
        except Exception as error:  # NumPy's parser may raise anything on arbitrary bytes
            raise self._unreadable(first_line(error)) from None
        if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 0:
            objects = ", Python objects, which momentmix never unpickles" if dtype.hasobject else ""
            raise InputError(
                f"{self.name} must hold real numbers of shape (n_rows, n_features); it holds "
                f"{dtype} of shape {shape}{objects}. Save it as a table: np.save(path, "
                "array.astype(float).reshape(n_rows, -1))."
            )
        self._dtype, self._offset, (self.n_rows, self.n_columns) = dtype, start.tell(), shape
        expected = self._offset + self.n_rows * self.n_columns * dtype.itemsize
        if self._n_bytes() < expected:
            raise self._unreadable(f"shape {shape} of {dtype} needs {expected} bytes.")

    def batches(
        self, columns: Columns, as_text: Columns = (), others: Columns = ()
    ) -> Iterator[Batch]:
        """Batches of the type of the file."""
        step, width, wanted = batch_rows(self.n_columns), self.n_columns, [*columns, *others]
        for first in range(0, self.n_rows, step):
            n = min(step, self.n_rows - first)
            if self._is_fortran:
                yield first, [self._values(i * self.n_rows + first, n) for i in wanted]
            else:
                block = self._values(first * width, n * width).reshape(-1, width)
                is_whole = wanted == list(range(width))
                yield first, (block if is_whole else block.take(wanted, axis=1)).T

    def _values(self, place: int, n_values: int) -> Any:
        """Consecutive values from a place in the array that the file holds."""
        offset = self._offset + place * self._dtype.itemsize
        values = np.fromfile(self.path or "", self._dtype, n_values, offset=offset)
        if len(values) < n_values:
            raise self._unreadable("it ended while it was being read.")
        return values


def read_excel(path: str | os.PathLike[str], dialect: Dialect) -> MemoryTable:
    """The first sheet of a workbook; of the dialect, the header and texts for missing cells."""
    needed("openpyxl", f"{path} needs openpyxl", "momentmix[excel]")
    reading = {"header": None, "dtype": object, "keep_default_na": False}
    frame = _read("read_excel", path, na_values=list(dialect.nulls), engine="openpyxl", **reading)
    frame = frame.dropna(how="all")
    first = list(frame.iloc[0]) if len(frame) else []
    if dialect.header is None and all(isinstance(x, int | float) and x == x for x in first):
        raise InputError(
            f"{path}: the first row holds no text; say whether it names the columns: "
            f"{option(header=True)} or {option(header=False)}."
        )
    if dialect.header is not False:
        frame = frame.iloc[1:].set_axis(["" if x != x else str(x) for x in first], axis=1)
    return _table(frame.infer_objects(), path)


def read_json_lines(path: str | os.PathLike[str], _: Dialect) -> MemoryTable:
    """An object in each line; its keys are the columns."""
    return _table(_read("read_json", path, lines=True, dtype=False, precise_float=True), path)


def _table(frame: Any, path: str | os.PathLike[str]) -> MemoryTable:
    table = MemoryTable(frame, str(path))
    table.in_memory = False  # like other files it is summarized in parts with ids
    return table


def _read(reader: str, path: str | os.PathLike[str], **reading: Any) -> Any:
    import pandas as pd

    try:
        return getattr(pd, reader)(os.fspath(path), **reading)
    except Exception as error:  # of zipfile, gzip, XML and others
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise
        reason = first_line(error)
        raise InputError(f"{path} cannot be read: {reason}. Write or copy it again.") from None
