"""Parquet and Arrow (Feather) files through pyarrow, a few record batches at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from momentmix.errors import InputError
from momentmix.tables.source import BATCH_ROWS, ArrowFileSource, Batch, checked

_BATCH_BYTES = 1 << 24  # of numbers, however many columns
_BUFFER, _BUFFERS, _LEAST_BUFFER = 1 << 18, 1 << 25, 1 << 12  # bytes of a column, of all


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
        with self._file() as file:
            self.schema = file.schema_arrow
            self.n_rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            self._ends = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in groups)])

    def _file(self, n_columns: int = 1, texts: Sequence[str] = ()) -> Any:
        from pyarrow import parquet

        # Without a buffer, pyarrow reads all of a row group's bytes at once, however many.
        size = max(_LEAST_BUFFER, min(_BUFFER, _BUFFERS // max(1, n_columns)))
        return parquet.ParquetFile(
            self.path, memory_map=False, pre_buffer=False, buffer_size=size,
            read_dictionary=list(texts),
        )  # fmt: skip

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """Batches from the row group on that holds row `start`."""
        first = int(np.searchsorted(self._ends[1:], start, side="right"))
        groups = range(first, len(self._ends) - 1)
        if not groups:
            return
        texts = [self.schema.names[i] for i in columns if self.kind(i).kind == "text"]
        with self._refuse_unreadable(), self._file(len(columns), texts) as file:
            yield from numbered(self._chosen(file, columns, groups), int(self._ends[first]))

    def _chosen(self, file: Any, columns: Sequence[int], groups: Sequence[int]) -> Iterator[Any]:
        """Record batches of columns of a file, which pyarrow knows by their names alone."""
        keys = _occurrences(self.schema.names)
        names = [self.schema.names[i] for i in columns]
        rows = batch_rows(len(columns))
        for batch in file.iter_batches(rows, row_groups=groups, columns=names):
            # pyarrow gives all columns of a name, and parts of nested ones, in file order.
            places = {key: i for i, key in enumerate(_occurrences(batch.schema.names))}
            yield checked(batch.select([places[keys[i]] for i in columns]))


def _occurrences(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with the number of columns before it that have the same name."""
    seen: Counter[str] = Counter()
    keys = []
    for name in names:
        keys.append((name, seen[name]))
        seen[name] += 1
    return keys


class ArrowFile(ArrowFileSource):
    """An Arrow file: the file format (Feather version 2) or the stream format."""

    def _open(self) -> None:
        with self._file() as file:
            start = file.read(6)
            if start[:4] == b"FEA1":
                raise InputError(
                    f"{self.name} is Feather version 1; write it again as version 2 or Parquet."
                )
            self._streamed = start != b"ARROW1"
            file.seek(0)
            with self._reader(file) as reader:
                self.schema = reader.schema
                if hasattr(reader, "count_rows"):  # of newer versions, and the file format
                    self.n_rows = int(reader.count_rows())

    def _file(self) -> Any:
        import pyarrow

        # Not a memory map: a mapped file that is truncated by another program kills the process.
        return pyarrow.OSFile(str(self.path))

    def _reader(self, file: Any, chosen: Sequence[int] | None = None) -> Any:
        from pyarrow import ipc

        opener = ipc.open_stream if self._streamed else ipc.open_file
        return opener(file, options=ipc.IpcReadOptions(included_fields=chosen))

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """All batches: where row `start` is, the file does not tell."""
        chosen = sorted({*columns})
        order = [chosen.index(i) for i in columns]
        with self._refuse_unreadable(), self._file() as file, self._reader(file, chosen) as reader:
            if self._streamed:
                whole = iter(reader)
            else:
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            yield from numbered(checked(batch.select(order)) for batch in whole)
