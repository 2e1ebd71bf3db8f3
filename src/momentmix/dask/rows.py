"""`DaskRows`: rows on a cluster, for the stages of a fit; functions go there, sums come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.dask.partitions import FilePartition, Partition
from momentmix.dask.schedule import Schedule
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.parallel import few_threads
from momentmix.summary.parts import PartMark, name_shards, shards_of
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows, add_sums, rows_at
from momentmix.tables.table_rows import TableRows

# -- what runs on workers ---------------------------------------------------------------------


class MergedSummary(NamedTuple):
    """Summary of neighboring partitions; rows and marks of the parts of each; notes on columns."""

    summary: MomentSummary | None
    counts: tuple[int, ...]
    marks: tuple[list[PartMark], ...]
    notes: tuple[str, ...] = ()


def summarize_partition(partition: Partition, options: dict[str, Any], data: Any) -> MergedSummary:
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
    for summary in summaries[1:]:
        try:
            total = total + summary
        except ShardError as error:
            raise _given_twice(error) from None
    counts = sum((part.counts for part in parts), ())
    marks = sum((part.marks for part in parts), ())
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return MergedSummary(total, counts, marks, tuple(notes))


def _given_twice(error: ShardError) -> InputError:
    return InputError(
        f"the same rows are given twice ({error}) Leave out the second file or partition; equal "
        "files that are different data can be passed as a Dask collection."
    )


def sum_partition(partition: Partition, work: Callable[[Float], Any], data: Any) -> Any:
    """Add up ``work`` over the blocks of a partition; None if it has no rows."""
    with few_threads(True):
        return add_sums(work(block) for block in partition.blocks(data))


def take_rows(
    partition: Partition, wanted: tuple[list[Int], tuple[int, ...]], data: Any
) -> list[Float]:
    """Return rows of a partition; `wanted` has their numbers in it and the number of all rows."""
    places, expected = wanted[0][partition.number], wanted[1][partition.number]
    if not len(places):
        return []
    n_rows = 0

    def counted() -> Iterator[Float]:
        nonlocal n_rows
        for block in partition.blocks(data):
            n_rows += len(block)
            yield block

    taken = rows_at(counted(), places)
    if n_rows != expected:
        raise InputError(
            f"partition {partition.number} had {expected} rows in the first pass and has {n_rows} "
            "now; its rows are not the same each time they are computed. Fix the seed of the step "
            "that makes them, or persist() the collection first."
        )
    return taken


# -- what runs on the client ------------------------------------------------------------------


class DaskRows(Rows):
    """Partitions with their lazy rows (None for files), and the schedule that works on them.

    `like` are rows with the same columns; None where partitions learn their columns, so that there
    is a summary of them and no pass.
    """

    is_remote = True

    def __init__(
        self,
        partitions: Sequence[tuple[Partition, Any]],
        like: TableRows | None,
        schedule: Schedule,
    ) -> None:
        self.partitions, self.schedule = partitions, schedule
        self._n_features = None if like is None else like.n_features
        self.feature_names = None if like is None else like.feature_names
        self._counts: tuple[int, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of columns."""
        assert self._n_features is not None
        return self._n_features

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each partition, as the summary counted them."""
        if self._counts is None:
            self.summary(1, 0)
        assert self._counts is not None
        return self._counts

    @property
    def n_rows(self) -> int:
        """Number of rows; costs a pass if there was none so far."""
        return sum(self.counts)

    def summary(self, order: int, squared_order: int | None) -> MomentSummary:
        """Summarize each partition, then add in a tree."""
        # A worker runs as many tasks as it has threads, so one thread each.
        options: dict[str, Any] = {"order": order, "squared_order": squared_order, "n_threads": 1}
        if self._n_features is not None:
            shards_of(self, **options)()  # wrong orders are an error here, before any work
        merged: MergedSummary = self.schedule.reduce(
            summarize_partition, merge_summaries, options, self.partitions, "Summarizing"
        )
        if merged.summary is None or not merged.summary.n_rows:
            raise InputError(
                f"rows must hold at least one row; all {len(merged.counts)} partition(s) are empty."
            )
        warn_of_notes(merged.notes)
        self._counts = merged.counts
        files: dict[int, list[PartMark]] = {}
        for (partition, _), marks in zip(self.partitions, merged.marks, strict=True):
            if isinstance(partition, FilePartition):
                files.setdefault(partition.file, []).extend(marks)
        summary = merged.summary
        for marks in filter(None, files.values()):
            try:
                summary = name_shards(summary, marks, marks[0].origin)
            except ShardError as error:
                raise _given_twice(error) from None
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

    def sum_blocks(
        self, work: Callable[[Float], tuple[Any, ...]], n_threads: int = 1
    ) -> tuple[Any, ...]:
        """Add up ``work`` of each block in a fixed order, with one thread for each task."""
        total: tuple[Any, ...] = self.schedule.reduce(
            sum_partition, add_sums, work, self.partitions, "Pass over rows"
        )
        return total

    def take(self, places: NDArray[np.int64]) -> Float:
        """Return rows by their numbers, which must ascend."""
        ends = np.cumsum(self.counts)
        cuts = np.searchsorted(places, ends)[:-1]
        local = [
            some - (end - n)
            for some, end, n in zip(np.split(places, cuts), ends, self.counts, strict=True)
        ]
        wanted = local, self.counts
        rows = self.schedule.reduce(take_rows, _joined, wanted, self.partitions, "Sampling rows")
        return np.concatenate(rows)


def _joined(lists: list[list[Float]]) -> list[Float]:
    return list(chain.from_iterable(lists))
