"""Sources of Arrow data that are no data frames: queries, datasets and streams of batches.

A query (a polars LazyFrame, a DuckDB relation) runs once, for the columns that are read; what it
gives is kept from then on (`spool`), because another run could give the rows in another order. So
is a stream of batches, which can be read once only. Where one pass is all, as for summaries of
numbers and their groups, the rows are worked on as they come, and none are kept. A dataset is
scanned in each pass: its order is that of its files.

No library is imported; sources are recognized by their classes.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.rows.containers import checked, is_frame
from momentmix.rows.formats.arrow_files import ArrowTable
from momentmix.rows.formats.spool import Spool, typed
from momentmix.rows.labels import NO_LABELS, Labels
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
            yield position, checked(batch)
            position += batch.num_rows


class _Live:
    """Batches of a run that is read once: those of the head are kept for the pass."""

    def __init__(self, columns: tuple[int, ...], batches: Iterable[Any]) -> None:
        self.columns, self._source, self._rest = columns, batches, iter(batches)
        self._head: list[Any] = []

    def batches(self, in_head: bool) -> Iterator[Any]:
        """All of them in the order of the run; after a pass there are none."""
        yield from self._head
        if in_head:
            for batch in self._rest:
                self._head.append(batch)
                yield batch
            return
        self._head = []
        try:
            yield from self._rest
        finally:
            self.close()

    def close(self) -> None:
        """End the run: a connection of DuckDB has one open result only."""
        self._head = []
        if hasattr(self._source, "close"):
            self._source.close()
        self._source, self._rest = (), iter(())


class _Query(_ArrowSource):
    """A query, which runs when its rows are read for the first time."""

    name = "the query"
    reads_ahead = True

    def __init__(self, data: Any) -> None:
        self._spool: Spool | None = None
        self._spool_columns: tuple[int, ...] = ()
        self._expected: tuple[int, ...] = ()
        self._is_streamed, self._live, self._in_head = False, _Live((), ()), False
        super().__init__(data)

    def expect_columns(self, columns: Sequence[int]) -> None:
        """The first run, for whatever columns, gives these as well."""
        self._expected = tuple(columns)

    def stream(self, is_on: bool) -> None:
        """The next pass gets its rows as they come, without a file; or it is over."""
        self._is_streamed = is_on and self._spool is None
        self._live.close()
        self._live = _Live((), ())

    def head(
        self, columns: Sequence[int], n_rows: int, labels: Mapping[int, Labels] = NO_LABELS
    ) -> Float:
        """The first rows, which a stream keeps for its pass."""
        self._in_head = True
        try:
            return super().head(columns, n_rows, labels)
        finally:
            self._in_head = False

    def _columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        """The columns to keep where these are to be read."""
        return tuple(sorted({*columns, *self._expected}))

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        """Record batches with these columns."""
        raise NotImplementedError

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        if self._is_streamed:
            return self._streamed(columns)
        spool = self._kept(columns)
        return spool.batches([self._spool_columns.index(i) for i in columns], block_rows)

    def _streamed(self, columns: Sequence[int]) -> Iterator[Any]:
        if not self._live.columns:
            kept = self._columns(columns)
            self._live = _Live(kept, self._run(kept))
        live, position = self._live, 0
        self._is_streamed = self._in_head  # a second pass is another run
        places = [live.columns.index(i) for i in columns]
        types = [self.schema.field(i).type for i in columns]
        schema = self._arrow.schema([self.schema.field(i) for i in columns])
        for batch in map(checked, live.batches(self._in_head)):
            pairs = zip([batch.column(k) for k in places], types, strict=True)
            arrays = [typed(self._arrow, column, type_) for column, type_ in pairs]
            yield position, self._arrow.RecordBatch.from_arrays(arrays, schema=schema)
            position += batch.num_rows

    def _kept(self, columns: Sequence[int]) -> Spool:
        """The rows of the run, which is now if there was none."""
        if self._spool is None or not {*columns} <= {*self._spool_columns}:
            self._spool, self._spool_columns = None, self._columns(columns)
            schema = self._arrow.schema([self.schema.field(i) for i in self._spool_columns])
            batches = (batch for batch in self._run(self._spool_columns))
            ahead = read_ahead(batches) if self.reads_ahead else batches
            self._spool = Spool(self.name, schema, ahead)
        return self._spool

    def meet_labels(self, labels: Mapping[int, Labels]) -> None:
        """Number all labels of columns of text; most were met when the query ran."""
        with self._refuse_unreadable():
            texts = self._kept(list(labels)).texts
        places = {i: self._spool_columns.index(i) for i in labels}
        met = {i: known for i, known in labels.items() if places[i] in texts}
        for i, known in met.items():
            dictionary = self._arrow.array(texts[places[i]], self._arrow.string())
            none = self._arrow.array([], self._arrow.int32())
            cells = self._arrow.DictionaryArray.from_arrays(none, dictionary)
            self._codes(i, cells, known, 0)
        if len(met) < len(labels):
            super().meet_labels({i: known for i, known in labels.items() if i not in met})


class _EngineQuery(_Query):
    """A query of an engine, whose errors become an `InputError`."""

    _shown = ""

    @property
    def _engine_error(self) -> type[Exception]:
        """What all errors of the engine are."""
        raise NotImplementedError

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        with super()._refuse_unreadable():
            try:
                yield
            except self._engine_error as error:
                raise self._unreadable(str(error).strip().partition("\n")[0][:200]) from None

    def _unreadable(self, text: str) -> InputError:
        return InputError(
            f"{self.name} cannot be read: {text.rstrip('.')}. Run it by itself ({self._shown}) to "
            "see where it fails; if its file, table or connection is gone, make all of it again."
        )


class _LazyFrame(_EngineQuery):
    """A polars LazyFrame, collected in batches where polars can."""

    _shown = "frame.collect()"

    @property
    def _engine_error(self) -> type[Exception]:
        return sys.modules["polars"].exceptions.PolarsError  # type: ignore[no-any-return]

    def _open(self) -> None:
        polars = sys.modules["polars"]
        types = self.data.collect_schema()
        wide = {type_ for type_ in types.values() if str(type_) in ("Int128", "UInt128")}
        if wide:  # Arrow has none
            self.data = self.data.with_columns(polars.col(*wide).cast(polars.Float64))
            types = self.data.collect_schema()
        self.schema = polars.DataFrame(schema=types).to_arrow().schema

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        # By number: "^x$" is a pattern, and polars keeps more rows ahead of columns with new names.
        chosen = self.data.select(sys.modules["polars"].nth(list(columns)))
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(maintain_order=True, engine="streaming")
        else:
            frames = [chosen.collect()]
        return (batch for frame in frames for batch in frame.to_arrow().to_batches())


class _DuckRelation(_EngineQuery):
    """A DuckDB relation, fetched in record batches."""

    _shown = "relation.show()"

    @property
    def _engine_error(self) -> type[Exception]:
        return sys.modules["duckdb"].Error  # type: ignore[no-any-return]

    def _open(self) -> None:
        self.schema = self._reader(self.data.limit(0)).schema

    def _reader(self, relation: Any) -> Any:
        if hasattr(relation, "to_arrow_reader"):
            return relation.to_arrow_reader(1 << 17)
        return relation.fetch_arrow_reader(1 << 17)

    def _run(self, columns: Sequence[int]) -> Iterable[Any]:
        places = ", ".join(f"#{i + 1}" for i in columns)  # names may repeat after a join
        with self._refuse_unreadable():
            return self._reader(self.data.project(places))  # type: ignore[no-any-return]


class _Stream(_Query):
    """Anything with an Arrow stream, read once and kept with all its columns."""

    name = "the stream"
    reads_ahead = False  # reading may wait for ever

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
