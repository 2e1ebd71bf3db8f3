"""Sources of Arrow data that are no data frames: queries, datasets and streams of batches.

A query runs once, when it is opened. Its rows are copied to a temporary file, as are those of a
stream. A dataset is scanned in each pass. No library is imported to recognize them.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from momentmix.errors import InputError
from momentmix.lazy import lazy_property
from momentmix.tables.formats.binary_files import ArrowFile, batch_rows, numbered
from momentmix.tables.formats.copies import LocalCopy
from momentmix.tables.formats.memory import is_frame
from momentmix.tables.source import (
    BATCH_ROWS,
    ArrowSource,
    Batch,
    Columns,
    Source,
    checked,
    refuse_damage,
)

_LEAST_ROWS = 1 << 12  # of a batch
_AHEAD = {"batch_readahead": 4, "fragment_readahead": 2}  # pyarrow's 16 and 4 take much memory


def is_query(data: Any) -> bool:
    """Whether `data` is a query, a dataset or a stream of record batches."""
    return _opener(data) is not None


def open_query(data: Any, columns: Any = None, keys: Sequence[str] = ()) -> Source:
    """The source of what `is_query`; a query is asked for `columns` and `keys` alone, if named."""
    opener = _opener(data)
    assert opener is not None
    if isinstance(columns, list | tuple):
        columns = [*columns, *keys]
    return opener(data, columns) if opener in (_lazy_frame, _relation) else opener(data)


def _asked(names: list[str], columns: Any) -> list[str]:
    """The columns that a query is asked for: all where some are numbers, unknown or repeated."""
    is_list = isinstance(columns, list | tuple) and all(isinstance(x, str) for x in columns)
    if not is_list or not set(columns) <= set(names) or len(set(names)) < len(names):
        return names
    return [name for name in names if name in columns]


def _opener(data: Any) -> Callable[..., Source] | None:
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if library == "polars" and type(data).__name__ == "LazyFrame":
        return _lazy_frame  # asked for its columns, it warns
    if library == "duckdb" and type(data).__name__ == "DuckDBPyRelation":
        return _relation  # has the names of its columns as attributes
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is not None and isinstance(data, datasets.Dataset | datasets.Scanner):
        return _Dataset if isinstance(data, datasets.Dataset) else _scanner
    is_array = hasattr(data, "to_numpy")  # columns of polars and pandas have streams, too
    is_stream = hasattr(data, "__arrow_c_stream__") and not is_array and not is_frame(data)
    return _stream if is_stream else None


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


class _Copied(ArrowFile):
    """The record batches of a query or stream, in a temporary file."""

    @lazy_property
    def mark(self) -> str:
        """Digest of the schema: equal rows may come in other batches."""
        return hashlib.sha256(str(self.schema).encode()).hexdigest()

    def contents(self) -> None:
        return None


def _copied(name: str, schema: Any, batches: Iterable[Any]) -> Source:
    from pyarrow import ipc

    copy, n_rows = LocalCopy(name, ".arrow"), 0
    # In the stream format each batch may have its own dictionaries.
    with copy.filling() as path, ipc.new_stream(path, schema) as writer:
        for batch in batches:
            writer.write_batch(checked(batch))
            n_rows += batch.num_rows
    source = _Copied(copy)
    source.n_rows = n_rows
    return source


def _lazy_frame(data: Any, columns: Any) -> Source:
    """A polars LazyFrame, collected in batches where polars can."""
    polars = sys.modules["polars"]
    with refuse_damage(_failed("frame.collect()"), others=(polars.exceptions.PolarsError,)):
        names = data.collect_schema().names()
        places = [names.index(name) for name in _asked(names, columns)]
        data = data.select(polars.nth(places))  # a name may read as a pattern
        types = data.collect_schema()
        wide = {type_ for type_ in types.values() if str(type_) in ("Int128", "UInt128")}
        if wide:  # Arrow has none
            data = data.with_columns(polars.col(*wide).cast(polars.Float64))
            types = data.collect_schema()
        schema = polars.DataFrame(schema=types).to_arrow().schema
        if hasattr(data, "collect_batches"):
            frames = data.collect_batches(maintain_order=True, engine="streaming")
        else:
            frames = [data.collect()]
        batches = (batch.cast(schema) for x in frames for batch in x.to_arrow().to_batches())
        return _copied("the query", schema, batches)


def _relation(data: Any, columns: Any) -> Source:
    """A DuckDB relation, fetched in record batches."""
    duckdb = sys.modules["duckdb"]
    with refuse_damage(_failed("relation.show()"), others=(duckdb.Error,)):
        if (asked := _asked(data.columns, columns)) != data.columns:
            data = data.select(*map(duckdb.ColumnExpression, asked))
        is_new = hasattr(data, "to_arrow_reader")
        reader = (data.to_arrow_reader if is_new else data.fetch_arrow_reader)(BATCH_ROWS)
        return _copied("the query", reader.schema, reader)


def _failed(shown: str) -> Callable[[str], InputError]:
    return lambda text: InputError(
        f"the query cannot be read: {text.rstrip('.')}. Run it by itself ({shown}) to see where it "
        "fails; if its file, table or connection is gone, make all of it again."
    )


def _scanner(data: Any) -> Source:
    """A pyarrow Scanner."""
    return _stream(data.to_reader())


def _stream(data: Any) -> Source:
    """Anything with an Arrow stream."""
    import pyarrow

    with refuse_damage(lambda text: InputError(f"the stream cannot be read: {text}")):
        reader = pyarrow.RecordBatchReader.from_stream(data)
        return _copied("the stream", reader.schema, reader)
