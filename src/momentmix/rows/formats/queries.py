"""Sources of Arrow data that are no data frames: queries, datasets and streams of batches.

A query (a polars LazyFrame, a DuckDB relation) runs once, for the columns that are read; what it
gives lies in a temporary file from then on, because another run could give the rows in another
order. So does a stream of batches, which can be read once only. A dataset is scanned in each pass:
its order is that of its files.

No library is imported; sources are recognized by their classes.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from momentmix.errors import InputError
from momentmix.rows.arrow_files import ArrowFile, ArrowTable
from momentmix.rows.containers import is_frame
from momentmix.rows.formats.copies import LocalCopy
from momentmix.rows.table import Table

_LEAST_ROWS = 1 << 12  # of a batch
_AHEAD = {"batch_readahead": 4, "fragment_readahead": 2}  # pyarrow's 16 and 4 take much memory


def query_table(data: Any) -> Table | None:
    """A query, dataset or stream of record batches as a table; None if it is something else."""
    kind = _kind(data)
    return None if kind is None else kind(data)


def is_query(data: Any) -> bool:
    """Whether `data` is a query, a dataset or a stream of record batches."""
    return _kind(data) is not None


def _kind(data: Any) -> type[_ArrowSource] | None:
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if library == "polars" and type(data).__name__ == "LazyFrame":
        return _LazyFrame  # asked for its columns, it warns
    if library == "duckdb" and type(data).__name__ == "DuckDBPyRelation":
        return _DuckRelation  # has the names of its columns as attributes
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset):
        return _Dataset
    if datasets is not None and isinstance(data, datasets.Scanner):
        return _Scanner
    is_array = hasattr(data, "to_numpy")  # columns of polars and pandas have streams, too
    is_stream = hasattr(data, "__arrow_c_stream__") and not is_array and not is_frame(data)
    return _Stream if is_stream else None


class _ArrowSource(ArrowTable):
    """What all share: the source itself, and a name for messages."""

    name = "the stream"

    def __init__(self, data: Any) -> None:
        self.data = data
        self._read_schema()

    def mark(self) -> str:
        """Digest of the schema: the rows are not known before they are read."""
        return hashlib.sha256(str(self.schema).encode()).hexdigest()


class _Dataset(_ArrowSource):
    """A pyarrow Dataset, scanned in each pass."""

    name = "the dataset"

    def _open(self) -> None:
        self.schema = self.data.schema

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        position, names = 0, [self.schema.names[i] for i in columns]
        size = {"batch_size": max(block_rows, _LEAST_ROWS), **_AHEAD}
        for batch in self.data.to_batches(columns=names, **size):
            yield position, batch
            position += batch.num_rows


class _Query(_ArrowSource):
    """A query, which runs when its rows are read for the first time."""

    name = "the query"

    def __init__(self, data: Any) -> None:
        self._spool: tuple[tuple[int, ...], ArrowFile] | None = None
        super().__init__(data)

    def _columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        """The columns to keep where these are to be read."""
        return tuple(columns)

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        """Record batches with these columns."""
        raise NotImplementedError

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        if self._spool is None or not {*columns} <= {*self._spool[0]}:
            kept = self._columns(columns)
            self._spool = kept, self._spooled(kept)
        kept, file = self._spool
        return file._batches([kept.index(i) for i in columns], start, block_rows)

    def _spooled(self, columns: Sequence[int]) -> ArrowFile:
        """A file in Arrow's stream format, in which each batch may have its own dictionaries."""
        copy = LocalCopy(self.name, ".arrow")
        schema = self._arrow.schema([self.schema.field(i) for i in columns])
        with self._arrow.ipc.new_stream(os.fspath(copy), schema) as writer:
            for batch in self._run(columns):
                pairs = zip(batch.columns, schema, strict=True)
                arrays = [c if c.type == field.type else c.cast(field.type) for c, field in pairs]
                writer.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=schema))
        return ArrowFile(copy)


class _LazyFrame(_Query):
    """A polars LazyFrame, collected in batches where polars can."""

    def _open(self) -> None:
        frame = sys.modules["polars"].DataFrame(schema=self.data.collect_schema())
        self.schema = frame.to_arrow().schema

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        numbers = {name: str(i) for i, name in enumerate(self.schema.names)}
        chosen = self.data.rename(numbers).select([str(i) for i in columns])  # "^x$" is a pattern
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(maintain_order=True, engine="streaming")
        else:
            frames = [chosen.collect()]
        return (batch for frame in frames for batch in frame.to_arrow().to_batches())


class _DuckRelation(_Query):
    """A DuckDB relation, fetched in record batches."""

    def _open(self) -> None:
        self.schema = self._reader(self.data.limit(0)).schema

    def _reader(self, relation: Any) -> Any:
        if hasattr(relation, "to_arrow_reader"):
            return relation.to_arrow_reader(1 << 17)
        return relation.fetch_arrow_reader(1 << 17)

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        names = [self.schema.names[i] for i in columns]
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        return self._reader(self.data.project(quoted))  # type: ignore[no-any-return]


class _Stream(_Query):
    """Anything with an Arrow stream, read once and kept with all its columns."""

    name = "the stream"

    def _open(self) -> None:
        self._reader = self._arrow.RecordBatchReader.from_stream(self.data)
        self.schema = self._reader.schema

    def _columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(range(self.n_columns))

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        reader, self._reader = self._reader, None
        if reader is None:
            raise InputError(f"{self.name} can be read once only, and that failed. Make it again.")
        return reader  # type: ignore[no-any-return]


class _Scanner(_Stream):
    """A pyarrow Scanner, which may be that of a stream."""

    name = "the scanner"

    def _open(self) -> None:
        self._reader = self.data.to_reader()
        self.schema = self._reader.schema
