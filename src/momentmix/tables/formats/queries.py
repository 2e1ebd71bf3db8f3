"""Sources of Arrow data that are no data frames: queries, datasets and streams of batches.

A query runs once, for the columns that are read; what it gives is kept, as is a stream, because
another run could give other rows first. Where one pass is all (`Source.plan`), none are kept. A
dataset is scanned in each pass. No library is imported to recognize them.
"""

from __future__ import annotations

import hashlib
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing
from itertools import chain, islice
from typing import Any

from momentmix.errors import InputError
from momentmix.tables.formats.binary_files import ArrowFile, batch_rows, numbered
from momentmix.tables.formats.copies import LocalCopy
from momentmix.tables.formats.memory import is_frame
from momentmix.tables.source import (
    BATCH_ROWS,
    ArrowSource,
    Batch,
    Columns,
    checked,
    is_text_type,
    refuse_damage,
)

_LEAST_ROWS = 1 << 12  # of a batch
_AHEAD = {"batch_readahead": 4, "fragment_readahead": 2}  # pyarrow's 16 and 4 take much memory
# In memory: writing and reading a file takes a fifteenth of the time of a summary with text.
KEPT_BYTES = 1 << 28


def query_class(data: Any) -> type[_Dataset] | None:
    """The class of source for a query, dataset or stream of record batches; None for others."""
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if library == "polars" and type(data).__name__ == "LazyFrame":
        return _LazyFrame  # asked for its columns, it warns
    if library == "duckdb" and type(data).__name__ == "DuckDBPyRelation":
        return _DuckRelation  # has the names of its columns as attributes
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset | datasets.Scanner):
        return _Dataset if isinstance(data, datasets.Dataset) else _Stream
    is_array = hasattr(data, "to_numpy")  # columns of polars and pandas have streams, too
    is_stream = hasattr(data, "__arrow_c_stream__") and not is_array and not is_frame(data)
    return _Stream if is_stream else None


class _Dataset(ArrowSource):
    """A pyarrow Dataset, scanned in each pass."""

    name = "the dataset"

    def __init__(self, data: Any) -> None:
        self.data = data
        self._read_schema()

    def _open(self) -> None:
        self.schema = self.data.schema

    @property
    def mark(self) -> str:
        """Digest of the schema: the rows are not known before they are read."""
        return hashlib.sha256(str(self.schema).encode()).hexdigest()

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        names = [self.schema.names[i] for i in columns]
        size = {"batch_size": max(batch_rows(len(names)), _LEAST_ROWS), **_AHEAD}
        # A thread that releases Python's memory when Python ends would abort the process; rows
        # in memory gain nothing from threads.
        in_memory = isinstance(self.data, sys.modules["pyarrow.dataset"].InMemoryDataset)
        with self._refuse_unreadable():
            scanned = self.data.to_batches(columns=names, use_threads=not in_memory, **size)
            yield from numbered(map(checked, scanned))


class _Query(_Dataset):
    """A query, which runs when its rows are read for the first time."""

    name = "the query"
    reads_ahead = True
    _gives_all = False  # whatever the columns that are read
    _planned: tuple[int, ...] = ()
    _is_once = False
    _run: _Run | None = None  # whose rows are kept, or of which the head was read

    def plan(self, columns: Columns, once: bool) -> None:
        """The next run gives these columns; its rows are kept unless one pass is all."""
        self._planned, self._is_once = tuple(columns), once

    def head(self, columns: Columns, as_text: Columns = ()) -> Batch | None:
        """The first batch, which is there for the pass that follows."""
        with self._refuse_unreadable():
            self._run = run = self._begun(columns)
            return next(
                run.chosen(run.memory, columns) if run.is_live else run.batches(columns), None
            )

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """All batches, as they come or from where they are kept."""
        with self._refuse_unreadable():
            run = self._begun(columns)
            self._run = None if run.is_live else run
            self._is_once = False  # a second pass is another run, which is kept
            yield from run.batches(columns)

    def _begun(self, columns: Columns) -> _Run:
        """The run that gives these columns, which is now if there was none."""
        import pyarrow

        run, self._run = self._run, None
        if run is None or not {*columns} <= {*run.columns}:
            every = range(self.n_columns)
            given = sorted(every if self._gives_all else {*columns, *self._planned})
            schema = pyarrow.schema([self.schema.field(i) for i in given])
            run = _Run(given, schema, self._begin(given))
        if run.is_live and not self._is_once:
            run.keep(self.name)
        return run

    @abstractmethod
    def _begin(self, columns: list[int]) -> Iterable[Any]:
        """Record batches with these columns."""


class _Run:
    """Record batches that come once, or are kept; text that repeats becomes dictionaries."""

    def __init__(self, columns: list[int], schema: Any, source: Any) -> None:
        given = map(checked, source)
        first = list(islice((batch for batch in given if batch.num_rows), 1))
        self._schema = _repeating(schema, first[0]) if first else schema
        self.columns, self._source, self.is_live = columns, source, True
        self.memory = [_typed(batch, self._schema) for batch in first]
        self._rest = (_typed(batch, self._schema) for batch in given)
        self._file: ArrowFile | None = None

    def close(self) -> None:
        """End the run: a connection of DuckDB has one open result only."""
        getattr(self._source, "close", lambda: None)()
        self._source, self.is_live = None, False

    def keep(self, name: str) -> None:
        """Take all batches: the first into memory, the others into a temporary file."""
        from pyarrow import ipc

        batches, self.memory, left = chain(self.memory, self._rest), [], KEPT_BYTES
        with closing(self):
            for batch in batches:
                left -= batch.get_total_buffer_size()
                if left >= 0:
                    self.memory.append(batch)
                    continue
                copy = LocalCopy(name, ".arrow")
                # In the stream format each batch may have its own dictionaries.
                with copy.filling() as path, ipc.new_stream(path, self._schema) as writer:
                    for rest in chain([batch], batches):
                        writer.write_batch(rest)
                self._file = ArrowFile(copy)

    def batches(self, columns: Columns) -> Iterator[Batch]:
        """All batches in the order in which they came."""
        with closing(self):
            yield from self.chosen(chain(self.memory, self._rest), columns)
        if self._file is not None:
            position = sum(batch.num_rows for batch in self.memory)
            for batch in self._file.batches([self.columns.index(i) for i in columns]):
                yield batch._replace(first_row=position + batch.first_row)

    def chosen(self, batches: Iterable[Any], columns: Columns) -> Iterator[Batch]:
        """Some columns of record batches."""
        places = [self.columns.index(i) for i in columns]
        return numbered(batch.select(places) for batch in batches)


def _repeating(schema: Any, first: Any) -> Any:
    """The schema with dictionaries for text that repeats in the first batch."""
    import pyarrow

    for k, field in enumerate(schema):
        if is_text_type(field.type):
            found = first.column(k).dictionary_encode()
            if len(found.dictionary) <= len(found) // 2:
                type_ = pyarrow.dictionary(pyarrow.int32(), field.type)
                schema = schema.set(k, field.with_type(type_))
    return schema


def _typed(batch: Any, schema: Any) -> Any:
    """A record batch cast to the types of a schema."""
    pairs = zip(batch.columns, schema.types, strict=True)
    arrays = [column if column.type == type_ else column.cast(type_) for column, type_ in pairs]
    return type(batch).from_arrays(arrays, schema=schema)


class _EngineQuery(_Query):
    """A query of an engine, whose errors become an `InputError`."""

    _errors = ""  # the module and name of the class of all errors of the engine
    _shown = ""

    def _refuse_unreadable(self) -> AbstractContextManager[None]:
        module, _, name = self._errors.rpartition(".")
        return refuse_damage(self._unreadable, others=(getattr(sys.modules[module], name),))

    def _unreadable(self, text: str) -> InputError:
        return InputError(
            f"{self.name} cannot be read: {text.rstrip('.')}. Run it by itself ({self._shown}) to "
            "see where it fails; if its file, table or connection is gone, make all of it again."
        )


class _LazyFrame(_EngineQuery):
    """A polars LazyFrame, collected in batches where polars can."""

    _errors = "polars.exceptions.PolarsError"
    _shown = "frame.collect()"

    def _open(self) -> None:
        polars = sys.modules["polars"]
        types = self.data.collect_schema()
        wide = {type_ for type_ in types.values() if str(type_) in ("Int128", "UInt128")}
        if wide:  # Arrow has none
            self.data = self.data.with_columns(polars.col(*wide).cast(polars.Float64))
            types = self.data.collect_schema()
        self.schema = polars.DataFrame(schema=types).to_arrow().schema

    def _begin(self, columns: list[int]) -> Iterable[Any]:
        # By number: "^x$" is a pattern, and polars keeps more rows ahead of columns with new names.
        chosen = self.data.select(sys.modules["polars"].nth(columns))
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(maintain_order=True, engine="streaming")
        else:
            frames = [chosen.collect()]
        return (batch for frame in frames for batch in frame.to_arrow().to_batches())


class _DuckRelation(_EngineQuery):
    """A DuckDB relation, fetched in record batches."""

    _errors = "duckdb.Error"
    _shown = "relation.show()"

    def _open(self) -> None:
        self.schema = self._reader(self.data.limit(0)).schema

    def _reader(self, relation: Any) -> Any:
        is_new = hasattr(relation, "to_arrow_reader")
        return (relation.to_arrow_reader if is_new else relation.fetch_arrow_reader)(BATCH_ROWS)

    def _begin(self, columns: list[int]) -> Any:
        places = ", ".join(f"#{i + 1}" for i in columns)  # names may repeat after a join
        return self._reader(self.data.project(places))


class _Stream(_Query):
    """Anything with an Arrow stream, or a pyarrow Scanner; read once, with all its columns."""

    name = "the stream"
    reads_ahead = False  # reading may block for ever
    _gives_all = True

    def _open(self) -> None:
        import pyarrow

        is_stream = hasattr(self.data, "__arrow_c_stream__")
        from_stream = pyarrow.RecordBatchReader.from_stream
        self._reader = from_stream(self.data) if is_stream else self.data.to_reader()
        self.schema = self._reader.schema

    def _begin(self, columns: list[int]) -> Any:
        reader, self._reader = self._reader, None
        if reader is None:
            raise InputError(f"{self.name} can be read once only, and that failed. Make it again.")
        return reader
