"""Rows on a cluster, as the stages of a fit want them: functions go there, sums come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from momentmix.dask.inputs import Partitions
from momentmix.dask.parts import FilePart, Part
from momentmix.dask.schedule import Schedule
from momentmix.errors import InputError, InputTypeError, ShardError
from momentmix.parallel import few_threads
from momentmix.rows.blocks import add_sums, rows_at
from momentmix.rows.protocol import Rows
from momentmix.summary.parts import PartMark, name_shards
from momentmix.summary.summary import MomentSummary

Float = NDArray[np.float64]

__all__ = ["DaskRows"]


# -- what runs on workers ---------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Which moments to keep of every part."""

    n_features: int
    order: int
    feature_names: tuple[str, ...] | None
    squared_order: int | None
    replicates: int

    def new_shard(self, shard_id: str | None) -> MomentSummary:
        """An empty summary. A worker runs as many tasks as it has threads, so one thread each."""
        return MomentSummary(
            self.n_features,
            self.order,
            self.feature_names,
            self.squared_order,
            replicates=self.replicates,
            shard_id=shard_id,
            n_threads=1,
        )


class Share(NamedTuple):
    """Summary of some parts, and the number of rows and the mark of each, in their order."""

    summary: MomentSummary
    counts: tuple[int, ...]
    marks: tuple[PartMark | None, ...]


def summarize_part(part: Part, moments: Moments, block: Any) -> Share:
    """Summary of one part; closed, so that nothing touches it any more."""
    found, mark = part.summary(block, moments.new_shard)
    summary = moments.new_shard(None) + found
    return Share(summary, (summary.n_rows,), (mark,))


def merge_summaries(shares: list[Share]) -> Share:
    """Summary of neighbouring parts: exact, so the bytes do not depend on the tree."""
    total = shares[0].summary
    for share in shares[1:]:
        try:
            total = total + share.summary
        except ShardError as error:
            raise _twice(error) from None
    counts = sum((share.counts for share in shares), ())
    return Share(total, counts, sum((share.marks for share in shares), ()))


def _twice(error: ShardError) -> InputError:
    return InputError(
        f"the same rows are given twice ({error}) Leave out the second file or partition; equal "
        "files that are different data can be passed as a Dask collection."
    )


def sum_part(part: Part, work: Callable[[Float], tuple[Any, ...]], block: Any) -> Any:
    """``work`` added up over the blocks of a part; None if it has no rows."""
    with few_threads(True):
        return add_sums(work(rows) for rows in part.blocks(block))


class Places(NamedTuple):
    """Rows to take of each part, and how many rows it has."""

    places: list[NDArray[np.int64]]
    counts: tuple[int, ...]


def take_rows(part: Part, wanted: Places, block: Any) -> list[Float]:
    """Some rows of a part, by their numbers in it."""
    places, expected = wanted.places[part.number], wanted.counts[part.number]
    if not len(places):
        return []
    n_rows = 0

    def counted() -> Iterator[Float]:
        nonlocal n_rows
        for rows in part.blocks(block):
            n_rows += len(rows)
            yield rows

    taken = rows_at(counted(), places)
    if n_rows != expected:
        raise InputError(
            f"partition {part.number} had {expected} rows in the first pass and has {n_rows} now; "
            "its rows are not the same each time they are computed. Fix the seed of the step that "
            "makes them, or persist() the collection first."
        )
    return taken


def join_rows(parts: list[list[Float]]) -> list[Float]:
    """Lists of rows one after the other."""
    return [rows for part in parts for rows in part]


# -- what runs on the client ------------------------------------------------------------------


class DaskRows(Rows):
    """Rows in partitions, and the schedule that works on them.

    Parameters
    ----------
    partitions : Partitions
    schedule : Schedule
    """

    is_remote = True

    def __init__(self, partitions: Partitions, schedule: Schedule) -> None:
        self.partitions, self.schedule = partitions, schedule
        self.feature_names = partitions.feature_names
        self._counts: tuple[int, ...] | None = None

    @property
    def n_features(self) -> int:
        """Number of columns taken."""
        return self.partitions.n_features

    @property
    def counts(self) -> tuple[int, ...]:
        """Rows of each part, as the summary found them."""
        if self._counts is None:
            self.summary(1, 0)
        assert self._counts is not None
        return self._counts

    @property
    def n_rows(self) -> int:
        """Number of rows; costs a pass if there was none so far."""
        return sum(self.counts)

    def summary(self, order: int, squared_order: int | None, replicates: int = 0) -> MomentSummary:
        """Summary of all rows: map to parts, then a tree of merges."""
        moments = Moments(self.n_features, order, self.feature_names, squared_order, replicates)
        moments.new_shard(None)  # what is wrong with the orders shows here, before any work
        found: Share = self.schedule.reduce(
            summarize_part, merge_summaries, moments, self.partitions.parts, "Summarising"
        )
        if not found.summary.n_rows:
            raise InputError(
                f"rows must hold at least one row; all {len(found.counts)} partition(s) are empty."
            )
        self._counts = found.counts
        return self._named(found)

    def _named(self, found: Share) -> MomentSummary:
        """The summary with the ids of files that were read in several parts."""
        files: dict[int, list[PartMark]] = {}
        for (part, _), mark in zip(self.partitions.parts, found.marks, strict=True):
            if mark is not None and isinstance(part, FilePart):
                files.setdefault(part.piece, []).append(mark)
        summary = found.summary
        for marks in files.values():
            try:
                summary = name_shards(summary, marks)
            except ShardError as error:
                raise _twice(error) from None
        return summary

    def summarize_into(self, summary: MomentSummary) -> MomentSummary:
        """Summary of all rows of the orders of `summary`, which is empty."""
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
        """``work`` of each block, added up in a fixed order; the workers have their own threads."""
        found: tuple[Any, ...] = self.schedule.reduce(
            sum_part, add_sums, work, self.partitions.parts, "Pass over rows"
        )
        return found

    def take(self, places: NDArray[np.int64]) -> Float:
        """Rows by their numbers, which must ascend."""
        ends = np.cumsum(self.counts)
        cuts = np.searchsorted(places, ends)[:-1]
        local = [
            some - (end - n)
            for some, end, n in zip(np.split(places, cuts), ends, self.counts, strict=True)
        ]
        wanted = Places(local, self.counts)
        rows = self.schedule.reduce(
            take_rows, join_rows, wanted, self.partitions.parts, "Sampling rows"
        )
        return np.concatenate(rows)
