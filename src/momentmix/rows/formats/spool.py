"""The rows of a query that ran: the first in memory, the others in a temporary file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from momentmix.rows.containers import checked
from momentmix.rows.formats.arrow_files import ArrowFile, arrow_kind, need_pyarrow
from momentmix.rows.formats.copies import LocalCopy
from momentmix.rows.labels import MOST_LABELS

# In memory: writing and reading a file takes a fifteenth of the time of a summary with text.
KEPT_BYTES = 1 << 28


class Spool:
    """Record batches that can be read again and again, in the order in which they came.

    Parameters
    ----------
    name : str
        Of the query, for messages.
    schema : pyarrow.Schema
        Of the query's columns. Text that repeats becomes a dictionary, which is coded once.
    batches : iterable of pyarrow.RecordBatch
        All are taken.

    Attributes
    ----------
    texts : dict
        The texts of each column of text that repeats, as they were met, by its number; not of
        columns of too many.
    """

    def __init__(self, name: str, schema: Any, batches: Iterable[Any]) -> None:
        self._arrow = need_pyarrow(name)
        self.texts: dict[int, dict[str, None]] = {}
        self._memory: list[Any] = []
        self._file: ArrowFile | None = None
        copy, writer, n_bytes = None, None, 0
        try:
            for number, given in enumerate(map(checked, batches)):
                if not number:
                    schema = self._repeating(schema, given)
                batch = self._typed(given, schema)
                self._meet(batch)
                n_bytes += batch.get_total_buffer_size()
                if n_bytes <= KEPT_BYTES:
                    self._memory.append(batch)
                    continue
                if writer is None:
                    # In the stream format each batch may have its own dictionaries.
                    copy = LocalCopy(name, ".arrow")
                    writer = self._arrow.ipc.new_stream(os.fspath(copy), schema)
                writer.write_batch(batch)
        except BaseException:
            if copy is not None:
                copy.remove()
            raise
        finally:
            if writer is not None:
                writer.close()
        if copy is not None:
            self._file = ArrowFile(copy)

    def batches(self, columns: Sequence[int], block_rows: int) -> Iterator[tuple[int, Any]]:
        """Pairs of first row and record batch with the columns in this order, and no others."""
        position = 0
        for batch in self._memory:
            yield position, batch.select(list(columns))
            position += batch.num_rows
        if self._file is not None:
            for first, batch in self._file._batches(columns, 0, block_rows):
                yield position + first, batch

    def _repeating(self, schema: Any, first: Any) -> Any:
        """The schema with dictionaries for text that repeats in the first batch."""
        fields = list(schema)
        for k, field in enumerate(fields):
            if arrow_kind(field.type) != "text":
                continue
            if not self._arrow.types.is_dictionary(field.type):
                found = first.column(k).dictionary_encode()
                if len(found.dictionary) > len(found) // 2:
                    continue
                type_ = self._arrow.dictionary(self._arrow.int32(), field.type)
                fields[k] = self._arrow.field(field.name, type_)
            self.texts[k] = {}
        return self._arrow.schema(fields)

    def _typed(self, batch: Any, schema: Any) -> Any:
        pairs = zip(batch.columns, schema, strict=True)
        arrays = [typed(self._arrow, column, field.type) for column, field in pairs]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _meet(self, batch: Any) -> None:
        for k, texts in list(self.texts.items()):
            dictionary = batch.column(k).dictionary
            if len(dictionary) <= MOST_LABELS:
                texts.update(dict.fromkeys(dictionary.to_pylist()))
            if len(texts) > MOST_LABELS or len(dictionary) > MOST_LABELS:
                del self.texts[k]


def typed(arrow: Any, column: Any, type_: Any) -> Any:
    """A column cast to a type, which may be a dictionary."""
    if column.type == type_:
        return column
    if arrow.types.is_dictionary(type_) and not hasattr(column, "dictionary"):
        column = column.dictionary_encode()
    return column if column.type == type_ else column.cast(type_)
