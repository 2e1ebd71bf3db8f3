"""`DaskRows`: rows on a cluster, for the stages of a fit; functions go there, sums come back.

Shard ids depend on the place of a partition alone, so that a task may run twice, on any worker,
and give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np

from momentmix._typing import Float, Int
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import InputError, InputTypeError
from momentmix.parallel import few_threads
from momentmix.summary.summarize import shards_of, warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import Families, learn
from momentmix.tables.opening import Reading
from momentmix.tables.rows import Rows, Sums, add_sums, rows_at
from momentmix.tables.selection import match_columns
from momentmix.tables.table_rows import TableRows, keeps_gaps

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


@dataclass(frozen=True)
class DaskPartition:
    """A partition of a Dask collection, one shard; all have the columns that `like` has."""

    number: int
    shard_id: str
    like: TableRows
    families: Families

    def open(self, data: Any) -> TableRows | None:
        """Open the rows, None if there are none; learn columns that may be other than numbers."""
        if data.shape[0] == 0:
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

    def blocks(self, data: Any) -> Iterator[Float]:
        """Yield blocks of the rows that are kept."""
        rows = self.open(data)
        for block in () if rows is None else rows.blocks():
            if len(block):
                yield block


class MergedSummary(NamedTuple):
    """Summary of neighboring partitions; rows of each; notes on columns."""

    summary: MomentSummary | None
    counts: tuple[int, ...]
    notes: tuple[str, ...] = ()


def summarize_partition(
    partition: DaskPartition, options: dict[str, Any], data: Any
) -> MergedSummary:
    """Summarize one partition; its shards are closed, so that nothing changes it later."""
    rows = partition.open(data)
    if rows is None:
        return MergedSummary(None, (0,))
    new_shard = shards_of(rows, **options)
    shard = new_shard(shard_id=partition.shard_id)
    for block in rows.blocks():
        shard.update(rows.summand(block))
    summary = new_shard() + shard
    return MergedSummary(summary, (summary.n_rows,), rows.notes)


def merge_summaries(parts: list[MergedSummary]) -> MergedSummary:
    """Add summaries: exact, so the bytes do not depend on the tree."""
    summaries = [part.summary for part in parts if part.summary is not None]
    total = summaries[0] if summaries else None
    for summary in summaries[1:]:
        total = total + summary
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    counts = sum((part.counts for part in parts), ())
    return MergedSummary(total, counts, tuple(notes))


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
