"""What runs on executors: a partition → the bytes of its summaries; many summaries → their sum.

All functions are pure. The ids of shards follow from the number of the partition and its rows, so
that a task that runs twice gives the same bytes. What the rows are refused for comes back as a
row, since a task that raises would be tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from momentmix.cube.passes import GroupSums
from momentmix.engines.tasks import Groups, Task, packed, unpacked
from momentmix.errors import InputError, MomentmixError
from momentmix.spark.splits import FileScan, UnsuitedFileError

RESULT = "place int, key string, summary binary, error string, unsuited string"
_PLACES = 1 << 16


@dataclass(frozen=True)
class RowTask:
    """A task on rows that Spark sends; called with the record batches of one partition.

    Attributes
    ----------
    task : Task
    """

    task: Task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Record batches of one partition → its results."""
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        return results(self.task, batches, number)


@dataclass(frozen=True)
class FileTask:
    """A task on rows that it reads itself; called with numbers of partitions.

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
                    yield from results(self.task, self.scan.batches(number), number)
                except UnsuitedFileError as error:
                    yield _batch(number % _PLACES, unsuited=str(error))


def results(task: Task, batches: Iterable[Any], number: int) -> Iterator[Any]:
    """Record batches of the partition of this number → its results."""
    watched = _Watched(batches)
    try:
        groups = task.groups(watched, f"partition {number}")
    except MomentmixError as error:
        if watched.failure is not None:
            raise watched.failure from error  # not by the rows: Spark tries again
        yield _batch(number % _PLACES, error=str(error))
        return
    for key, summary in groups.items():
        text = packed(key)
        place = number if not key else crc32(text.encode())
        yield _batch(place % _PLACES, text, summary)


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
            group.add((), row["summary"])
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
            sums.add(unpacked(row["key"]), bytes(row["summary"]))
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
