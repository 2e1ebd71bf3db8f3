"""What pyarrow gives in record batches: Parquet and Arrow files, queries and streams.

Queries, datasets and streams, whose rows may come once only, are copied to an Arrow file and read
from there. No file is mapped: a mapped file that is truncated by another program kills the process.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from momentmix.errors import InputError, MomentmixError
from momentmix.tables.columns import Kind, arrow_kind, checked, plain_polars
from momentmix.tables.csv_text import Dialect
from momentmix.tables.memory import is_frame
from momentmix.tables.source import BATCH_ROWS, Batch, Columns, Source, batch_rows, first_line

_BUFFER, _BUFFERS, _LEAST_BUFFER = 1 << 18, 1 << 25, 1 << 12  # bytes of a column, of all
_FEW_ROWS = 1 << 14  # of a batch: fewer are joined with those after them


class ArrowSource(Source):
    """A table with a schema of Arrow."""

    schema: Any

    def _set_schema(self, schema: Any) -> None:
        self.schema, self.column_names = schema, tuple(schema.names)
        self.n_columns = len(schema.names)
        if not self.n_columns:
            raise InputError(f"{self.name} has no columns.")

    def kind(self, column: int) -> Kind:
        return arrow_kind(self.schema.field(column).type)

    @abstractmethod
    def _read(self, columns: list[int]) -> Iterator[Any]:
        """Record batches of the columns with these numbers, which ascend."""

    def batches(
        self, columns: Columns, as_text: Columns = (), others: Columns = ()
    ) -> Iterator[Batch]:
        chosen, position = sorted({*columns, *others}), 0
        order = [chosen.index(i) for i in (*columns, *others)]
        with self._refuses_damage():
            for batch in _joined(map(checked, self._read(chosen))):
                for first in range(0, batch.num_rows, BATCH_ROWS):
                    part = batch.slice(first, BATCH_ROWS)
                    yield position + first, [part.column(k) for k in order]
                position += batch.num_rows


def _joined(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches of many rows from small ones."""
    waiting, n_rows = list[Any](), 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows >= _FEW_ROWS:
            yield from _as_one(waiting)
            waiting, n_rows = [], 0
    yield from _as_one(waiting)


def _as_one(batches: list[Any]) -> Any:
    from pyarrow import Table

    if len(batches) < 2:
        return batches
    return Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()


class ParquetFile(ArrowSource):
    """A Parquet file; its text is read as dictionaries."""

    def __init__(self, path: str | os.PathLike[str], _: Dialect | None = None) -> None:
        super().__init__(path)
        with self._refuses_damage(), self._file(1, []) as file:
            self.n_rows = file.metadata.num_rows
            self._set_schema(file.schema_arrow)

    def _file(self, n_columns: int, texts: list[str]) -> Any:
        from pyarrow import parquet

        # Without a buffer, pyarrow reads all of a row group's bytes at once, however many.
        size = max(_LEAST_BUFFER, min(_BUFFER, _BUFFERS // max(1, n_columns)))
        options = {"pre_buffer": False, "buffer_size": size, "read_dictionary": texts}
        return parquet.ParquetFile(self.path, memory_map=False, **options)

    def _read(self, columns: list[int]) -> Iterator[Any]:
        every = self.schema.names
        names = [every[i] for i in columns]
        texts = [every[i] for i in columns if self.kind(i).kind == "text"]
        with self._file(len(columns), texts) as file:
            wanted = [*dict.fromkeys(names)]
            for batch in file.iter_batches(batch_rows(len(columns)), columns=wanted):
                if batch.schema.names != names:  # pyarrow gives all columns of a name
                    places = [(x, every[:i].count(x)) for i, x in zip(columns, names, strict=True)]
                    batch = batch.select([_nth(batch.schema.names, *place) for place in places])
                yield batch


def _nth(names: list[str], name: str, number: int) -> int:
    """The place of the column that is the first, second … of a name."""
    return [i for i, x in enumerate(names) if x == name][number]


class ArrowFile(ArrowSource):
    """An Arrow file: the file format (Feather version 2) or the stream format."""

    def __init__(self, path: str | os.PathLike[str], _: Dialect | None = None) -> None:
        super().__init__(path)
        with open(path, "rb") as file:
            self._streamed = file.read(6) != b"ARROW1"
        with self._refuses_damage(), self._reader() as reader:
            if hasattr(reader, "count_rows"):  # of newer versions, and the file format
                self.n_rows = int(reader.count_rows())
            self._set_schema(reader.schema)

    @contextmanager
    def _reader(self, chosen: list[int] | None = None) -> Iterator[Any]:
        from pyarrow import OSFile, ipc

        opener = ipc.open_stream if self._streamed else ipc.open_file
        options = ipc.IpcReadOptions(included_fields=chosen)
        with OSFile(str(self.path)) as file, opener(file, options=options) as reader:
            yield reader

    def _read(self, columns: list[int]) -> Iterator[Any]:
        with self._reader(columns) as reader:
            if self._streamed:
                yield from reader
            else:
                yield from map(reader.get_batch, range(reader.num_record_batches))


# -- queries and streams of record batches ---------------------------------------------------------


class LocalCopy(os.PathLike[str]):
    """A temporary file with the name of its original, removed with the last reference to this.

    ``with copy as path`` removes it at an error.
    """

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, os.path.join(folder, f"rows{suffix}")
        self._remove = weakref.finalize(self, _remove, folder, os.getpid())

    def __enter__(self) -> str:
        return self._path

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:  # whose traceback would keep the file
            self._remove()

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._name


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, which ends before its parent
        shutil.rmtree(folder, ignore_errors=True)


def is_query(data: Any) -> bool:
    """Whether `data` is a query, a dataset or a stream of record batches."""
    if _kind(data):
        return True
    is_array = hasattr(data, "to_numpy")  # columns of polars and pandas have streams, too
    return hasattr(data, "__arrow_c_stream__") and not is_array and not is_frame(data)


def _kind(data: Any) -> str:
    """Name of the class of a query or dataset; "" for anything else.

    No library is imported, and no attribute asked for: a relation has its columns as attributes.
    """
    library, name = type(data).__module__.partition(".")[0].lstrip("_"), type(data).__name__
    if (library, name) in (("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation")):
        return name
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is None or not isinstance(data, datasets.Dataset | datasets.Scanner):
        return ""
    return "Dataset" if isinstance(data, datasets.Dataset) else "Scanner"


def open_query(data: Any) -> ArrowFile:
    """The source of a copy of what `is_query`."""
    kind = _kind(data)
    copy = LocalCopy("the query" if kind else "the stream", ".arrow")
    try:
        from pyarrow import RecordBatchReader, ipc

        with copy as path:
            if kind == "LazyFrame":
                plain_polars(data).sink_ipc(path, maintain_order=True)
            else:
                if kind == "Dataset":  # with few batches ahead, and in their order
                    data = data.scanner(batch_readahead=4, fragment_readahead=2)
                if kind in ("Dataset", "Scanner"):
                    data = data.to_reader()
                batches = RecordBatchReader.from_stream(data)
                # In the stream format each batch may have its own dictionaries.
                with ipc.new_stream(path, batches.schema) as writer:
                    for batch in batches:
                        writer.write_batch(checked(batch))
    except Exception as error:
        if isinstance(error, MemoryError | MomentmixError) or getattr(error, "errno", None):
            raise
        raise InputError(
            f"{copy} cannot be read: {first_line(error).rstrip('.')}. Run it by itself to see "
            "where it fails; if its file, table or connection is gone, make all of it again."
        ) from None
    source = ArrowFile(copy)
    source.mark = ""  # equal rows may come in other batches
    return source
