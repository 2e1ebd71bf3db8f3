"""What runs on executors: a partition → the bytes of its summaries; many summaries → their sum.

All functions are pure. The ids of shards follow from the number of the partition and its rows, so
that a task that runs twice gives the same bytes. What the rows are refused for comes back as a
row, since a task that raises would be tried again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any
from zlib import crc32

from momentmix.cube.keys import Value, parse_keys
from momentmix.cube.passes import CubeProgress, GroupSums
from momentmix.cube.summarize_by import cube_job
from momentmix.errors import InputError, MomentmixError
from momentmix.parallel import few_threads
from momentmix.rows.formats.queries import query_table
from momentmix.rows.reading import Reading
from momentmix.rows.source import Missing, RowSource
from momentmix.schema.rows import EncodedRows
from momentmix.schema.schema import Schema
from momentmix.schema.sources import encode_rows
from momentmix.spark.splits import FileScan, UnsuitedFileError
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summary import MomentSummary

RESULT = "place int, key string, summary binary, error string, unsuited string"
_PLACES = 1 << 16
Groups = dict[tuple[Value, ...], bytes]


@dataclass(frozen=True)
class Task:
    """How every partition is summarized; called with its record batches.

    Attributes
    ----------
    schema : Schema
    order : int
    columns : tuple of str
        Of the features.
    by : tuple of str
        Keys; () for one summary of all rows.
    missing : {"error", "drop"}
    shard_id : str or None
    options : dict
        Of `MomentSummary`.
    sent : tuple of str
        Names of the columns that come, which Spark cannot read where they have dots.
    """

    schema: Schema
    order: int
    columns: tuple[str, ...]
    by: tuple[str, ...]
    missing: Missing
    shard_id: str | None
    options: dict[str, Any]
    sent: tuple[str, ...]

    @property
    def new_shard(self) -> Any:
        """Makes an empty summary."""
        plain = self.schema.is_plain
        return partial(
            MomentSummary, self.schema.n_features, self.order,
            self.schema.column_names if plain else None,
            schema=None if plain else self.schema, **self.options,
        )  # fmt: skip

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Record batches of one partition → its results."""
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        return self.results(batches, number)

    def results(self, batches: Iterable[Any], number: int) -> Iterator[Any]:
        """Record batches of the partition of this number → its results."""
        watched = _Watched(batches)
        try:
            groups = self.groups(watched, number)
        except MomentmixError as error:
            if watched.failure is not None:
                raise watched.failure from error  # not by the rows: Spark tries again
            yield _batch(number % _PLACES, error=str(error))
            return
        for key, summary in groups.items():
            text = _packed(key)
            place = number if not key else crc32(text.encode())
            yield _batch(place % _PLACES, text, summary)

    def groups(self, batches: Iterable[Any], number: int) -> Groups:
        """Summaries of a partition as bytes, by their keys."""
        source = self._source(batches, number)
        if source is None:
            return {}
        with few_threads(True), source.streamed(True):
            return self._keyed(source) if self.by else self._whole(source)

    def _source(self, batches: Iterable[Any], number: int) -> RowSource | None:
        """The rows as a source that is read once; None where there are none."""
        from pyarrow import RecordBatch, RecordBatchReader

        named = (RecordBatch.from_arrays(b.columns, names=list(self.sent)) for b in batches)
        first = next(named, None)
        if first is None:
            return None
        table = query_table(RecordBatchReader.from_batches(first.schema, chain([first], named)))
        assert table is not None
        table.name = f"partition {number}"
        if self.shard_id is not None:
            table.name += f" of {self.shard_id}"
        return self._reading(self.columns).open(table, self.missing)

    def _reading(self, columns: Iterable[str]) -> Reading:
        return Reading(columns=list(columns), by_name=True)

    def _whole(self, source: RowSource) -> Groups:
        rows = encode_rows(source, self.schema, self.missing).encoded
        encode = rows.summand_of if isinstance(rows, EncodedRows) else None
        read = rows.rows if isinstance(rows, EncodedRows) else rows
        assert isinstance(read, RowSource)
        start = Progress(self.new_shard(), 0, 0, 0)
        *_, state = start, *summarize_parts(read, start, self.new_shard, encode=encode)
        return {(): state.summary.to_bytes()} if state.n_rows else {}

    def _keyed(self, source: RowSource) -> Groups:
        specs = parse_keys(self.by)
        reading = self._reading([*self.columns, *(key.column for key in specs)])
        job = cube_job(source, specs, self.schema, self.missing, reading)
        start = CubeProgress()
        *_, state = start, *job.run(start, self.order, self.options)
        return state.sums.groups()


@dataclass(frozen=True)
class FileTask:
    """The same for rows that the task itself reads; called with numbers of partitions.

    Attributes
    ----------
    task : Task
    scan : FileScan
        Its columns are those of `Task.sent`.
    """

    task: Task
    scan: FileScan

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Numbers of partitions → their results."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    yield from self.task.results(self.scan.batches(number), number)
                except UnsuitedFileError as error:
                    yield _batch(number % _PLACES, unsuited=str(error))


class _Watched:
    """Batches, and the error that ended them, which Arrow would turn into one of its own."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = iter(batches)
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batches
        except Exception as error:
            self.failure = error
            raise


def add_results(batches: Iterable[Any]) -> Iterator[Any]:
    """Results of partitions → one for each group."""
    sums: dict[str, GroupSums] = {}
    places: dict[str, int] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if row["summary"] is None:
                yield _batch(row["place"], error=row["error"], unsuited=row["unsuited"])
                return
            group = sums.setdefault(row["key"], GroupSums())
            group.add_bytes((), row["summary"])
            places[row["key"]] = row["place"]
    for key, group in sums.items():
        yield _batch(places[key], key, group.groups()[()])


def results_of(rows: Iterable[Any]) -> Groups:
    """What was collected, by keys; the first error is raised."""
    sums, errors = GroupSums(), []
    for row in rows:
        if row["unsuited"] is not None:
            raise UnsuitedFileError(row["unsuited"])
        if row["error"] is not None:
            errors.append(row["error"])
        else:
            sums.add_bytes(_unpacked(row["key"]), bytes(row["summary"]))
    if errors:
        raise InputError(min(errors))
    if not sums.n_rows:
        raise InputError("rows must hold at least one row; all partitions are empty.")
    return sums.groups()


def _batch(
    place: int,
    key: str | None = None,
    summary: bytes | None = None,
    error: str | None = None,
    unsuited: str | None = None,
) -> Any:
    import pyarrow as pa

    types = (pa.int32(), pa.string(), pa.binary(), pa.string(), pa.string())
    cells = zip((place, key, summary, error, unsuited), types, strict=True)
    arrays = [pa.array([cell], type_) for cell, type_ in cells]
    return pa.RecordBatch.from_arrays(
        arrays, names=["place", "key", "summary", "error", "unsuited"]
    )


# -- keys as text -----------------------------------------------------------------------------


def _packed(key: tuple[Value, ...]) -> str:
    """Values of keys as text.

    Examples
    --------
    >>> _packed(("EU", date(2026, 1, 5), 3, None))
    '["EU", {"date": "2026-01-05"}, 3, null]'
    """
    values: list[Any] = []
    for value in key:
        if isinstance(value, datetime):
            values.append({"time": value.isoformat()})
        elif isinstance(value, date):
            values.append({"date": value.isoformat()})
        else:
            values.append(value)
    return json.dumps(values)


def _unpacked(text: str) -> tuple[Value, ...]:
    """Values of keys from text.

    Examples
    --------
    >>> _unpacked(_packed((date(2026, 1, 5), datetime(2026, 1, 5, 7), True, "x")))
    (datetime.date(2026, 1, 5), datetime.datetime(2026, 1, 5, 7, 0), True, 'x')
    """
    values: list[Value] = []
    for value in json.loads(text):
        if isinstance(value, dict):
            ((kind, written),) = value.items()
            read = date.fromisoformat if kind == "date" else datetime.fromisoformat
            values.append(read(written))
        else:
            values.append(value)
    return tuple(values)
