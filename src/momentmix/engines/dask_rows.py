"""`DaskRows`: rows on a cluster, for the stages of a fit; functions go there, sums come back.

A task reads a partition of a Dask collection, or some rows of a file. Shard ids depend on the place
of a partition alone, so that a task may run twice, on any worker, and give the same bytes.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np

from momentmix._typing import Float, Int
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.parallel import few_threads
from momentmix.summary.parts import (
    PART_ROWS,
    NewShard,
    PartMark,
    name_shards,
    origin_of,
    read_parts,
    shards_of,
)
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import Families, learn
from momentmix.tables.opening import Reading
from momentmix.tables.rows import Rows, Sums, add_sums, rows_at
from momentmix.tables.selection import match_columns
from momentmix.tables.source import FileSource
from momentmix.tables.table_rows import Missing, TableRows, keeps_gaps

# -- what runs on workers ----------------------------------------------------------------------


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of rows into the messages of their errors."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from None


class DaskPartition(ABC):
    """Rows that one task reads."""

    number: int
    start: int = 0
    stop: float = math.inf

    @abstractmethod
    def open(self, data: Any) -> TableRows | None:
        """Open the table of the rows; None if there are none."""

    @abstractmethod
    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summarize the rows; marks give the ids of the shards where these are not known."""

    def blocks(self, data: Any) -> Iterator[Float]:
        """Yield blocks of the rows that are kept."""
        rows = self.open(data)
        if rows is not None:
            for block in rows.source_blocks(0, self.start, PART_ROWS, self.stop):
                if len(block.features):
                    yield block.features


@dataclass(frozen=True)
class CollectionPartition(DaskPartition):
    """A partition of a Dask collection, one shard; all have the columns that `like` has."""

    number: int
    shard_id: str
    like: TableRows
    families: Families

    def open(self, data: Any) -> TableRows | None:
        """Open the rows; learn their columns where these may be other than numbers."""
        if hasattr(data, "shape") and data.shape[:1] == (0,):
            return None
        name, like = f"partition {self.number}", self.like
        with named(name):
            table = MemoryTable(data, name)
            numbers = match_columns(like.sources[0], like.columns[0], table, not like.chosen)
            rows = Reading(columns=numbers).open([table], like.missing)
            rows.chosen = like.chosen
            if self.families is None and not keeps_gaps(like.missing):
                return rows.check_numeric()
            return learn(rows, self.families)

    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        shard = new_shard(shard_id=self.shard_id)
        for block in rows.blocks():
            shard.update(rows.summand(block))
        return shard, []


@dataclass(frozen=True)
class FilePartition(DaskPartition):
    """Rows of a file: one part of ``PART_ROWS`` rows, or all where their number is not known.

    Parts, shard ids and bytes are the same as of ``momentmix summarize``.
    `stamp` and `header` are what the client has found: size and time of the file, and whether the
    first line of text holds names.
    """

    number: int
    file: int
    path: str
    stamp: dict[str, object]
    columns: list[int]
    missing: Missing
    header: bool
    start: int = 0
    stop: float = math.inf

    def open(self, data: None) -> TableRows:
        if not os.path.exists(self.path):
            raise InputError(
                f"{self.path} does not exist where the worker runs; every worker must see the "
                "files under the same path (a shared file system). Or pass a Dask collection, "
                "e.g. dask.dataframe.read_parquet(...)."
            )
        rows = Reading(columns=self.columns, header=self.header).open(self.path, self.missing)
        (file,) = rows.sources
        if isinstance(file, FileSource):
            file.expect(self.stamp)
        return rows

    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summarize each part as a shard; shards get their ids from the marks of the whole file."""
        summary, marks, number = new_shard(), [], self.file
        for part in read_parts(rows, 0, self.start, new_shard, number=number, stop=self.stop):
            summary = summary + part.summary()
            marks.append(part.mark())
        origin = origin_of(rows, 0, "parts", PART_ROWS)
        return summary, [mark._replace(origin=origin) for mark in marks]


class MergedSummary(NamedTuple):
    """Summary of neighboring partitions; rows and marks of the parts of each; notes on columns."""

    summary: MomentSummary | None
    counts: tuple[int, ...]
    marks: tuple[list[PartMark], ...]
    notes: tuple[str, ...] = ()


def summarize_partition(
    partition: DaskPartition, options: dict[str, Any], data: Any
) -> MergedSummary:
    """Summarize one partition; its shards are closed, so that nothing changes it later."""
    rows = partition.open(data)
    if rows is None:
        return MergedSummary(None, (0,), ([],))
    new_shard = shards_of(rows, **options)
    filled, marks = partition.summary(rows, new_shard)
    summary = new_shard() + filled
    return MergedSummary(summary, (summary.n_rows,), (marks,), rows.notes)


def merge_summaries(parts: list[MergedSummary]) -> MergedSummary:
    """Add summaries: exact, so the bytes do not depend on the tree."""
    summaries = [part.summary for part in parts if part.summary is not None]
    total = summaries[0] if summaries else None
    with _refused_twice():
        for summary in summaries[1:]:
            total = total + summary
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    counts = sum((part.counts for part in parts), ())
    return MergedSummary(total, counts, sum((part.marks for part in parts), ()), tuple(notes))


@contextmanager
def _refused_twice() -> Iterator[None]:
    """Turn the error for a shard that is there already into one about rows."""
    try:
        yield
    except ShardError as error:
        raise InputError(
            f"the same rows are given twice ({error}) Leave out the second file or partition; "
            "equal files that are different data can be passed as a Dask collection."
        ) from None


def sum_partition(partition: DaskPartition, work: Callable[[Float], Any], data: Any) -> Any:
    """Add up ``work`` over the blocks of a partition; None if it has no rows."""
    with few_threads(True):
        return add_sums(work(block) for block in partition.blocks(data))


def take_rows(
    partition: DaskPartition, wanted: tuple[list[Int], tuple[int, ...]], data: Any
) -> list[Float]:
    """Return rows of a partition; `wanted` has their numbers in it and the number of all rows."""
    places, expected = wanted[0][partition.number], wanted[1][partition.number]
    if not len(places):
        return []
    sizes: list[int] = []

    def counted() -> Iterator[Float]:
        for block in partition.blocks(data):
            sizes.append(len(block))
            yield block

    taken = rows_at(counted(), places)
    if sum(sizes) != expected:
        raise InputError(
            f"partition {partition.number} had {expected} rows in the first pass and has "
            f"{sum(sizes)} now; its rows are not the same each time they are computed. Fix the "
            "seed of the step that makes them, or persist() the collection first."
        )
    return taken


def join_rows(lists: list[list[Float]]) -> list[Float]:
    """Join rows of neighboring partitions."""
    return list(chain.from_iterable(lists))


# -- what runs on the client -------------------------------------------------------------------


class DaskRows(Rows):
    """Partitions with lazy rows, their schedule, and rows `like` them; None: to be learned."""

    is_remote = True
    _counts: tuple[int, ...] = ()

    def __init__(
        self,
        partitions: Sequence[tuple[DaskPartition, Any]],
        like: TableRows | None,
        schedule: Schedule,
    ) -> None:
        self.partitions, self.schedule, self.like = partitions, schedule, like
        self.feature_names = None if like is None else like.feature_names
        self.schema = None if like is None else like.schema

    @property
    def n_features(self) -> int:
        assert self.like is not None
        return self.like.n_features

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each partition, as the summary counted them."""
        if not self._counts:
            self.summary(1, 0)
        return self._counts

    @property
    def n_rows(self) -> int:
        """Number of rows; costs a pass if there was none so far."""
        return sum(self.counts)

    def summary(self, order: int, squared_order: int | None) -> MomentSummary:
        """Summarize each partition, then add in a tree."""
        # A worker runs as many tasks as it has threads, so one thread each.
        options: dict[str, Any] = {"order": order, "squared_order": squared_order, "n_threads": 1}
        if self.like is not None:
            shards_of(self.like, **options)()  # wrong orders are an error here, before any work
        merged: MergedSummary = self.schedule.reduce(
            summarize_partition, merge_summaries, options, self.partitions, "Summarizing"
        )
        summary, self._counts = merged.summary, merged.counts
        if summary is None or not summary.n_rows:
            raise InputError(
                f"rows must hold at least one row; all {len(merged.counts)} partition(s) are empty."
            )
        warn_of_notes(merged.notes)
        files: dict[int, list[PartMark]] = {}
        for (partition, _), marks in zip(self.partitions, merged.marks, strict=True):
            if isinstance(partition, FilePartition) and marks:
                files.setdefault(partition.file, []).extend(marks)
        with _refused_twice():
            for marks in files.values():
                summary = name_shards(summary, marks, marks[0].origin)
        return summary

    def summarize_into(self, summary: MomentSummary) -> MomentSummary:
        """Return a summary of all rows of the orders of `summary`, which is empty."""
        return self.summary(summary.order, summary.squared_order)

    def blocks(self) -> NoReturn:
        """Refused: the rows are not brought here."""
        raise InputTypeError(
            "these rows lie on a cluster and are not brought here block by block; use sum_blocks() "
            "to work on them there, or take() for a few of them."
        )

    def sum_blocks(self, work: Callable[[Float], Sums], n_threads: int = 1) -> Sums:
        """Add up ``work`` of each block in a fixed order, with one thread for each task."""
        total: Sums = self.schedule.reduce(
            sum_partition, add_sums, work, self.partitions, "Pass over rows"
        )
        return total

    def take(self, places: Int) -> Float:
        ends = np.cumsum(self.counts)
        cuts = np.split(places, np.searchsorted(places, ends)[:-1])
        local = [some - end + n for some, end, n in zip(cuts, ends, self.counts, strict=True)]
        wanted = local, self.counts
        rows = self.schedule.reduce(take_rows, join_rows, wanted, self.partitions, "Sampling rows")
        return np.concatenate(rows)
