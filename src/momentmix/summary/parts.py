"""One pass over a source, cut into parts that are always the same.

A part is a run of rows of one piece that starts at a multiple of ``part_rows``; it becomes one
shard. The parts and the order of adding them do not depend on where a pass was interrupted, so
neither do the bytes of the result.

The id of a shard follows from the contents of its whole file, the columns and the place, so that a
copy of a file is noticed and a file that differs in one value is another one. The contents are
known when the file has been read: until then its shards go by their place in the pass.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, ShardError
from momentmix.rows.piece import RawBlock
from momentmix.rows.source import RowDigest, RowSource, counted_twice
from momentmix.summary.summary import MomentSummary, rename_shards

Float = NDArray[np.float64]
NewShard = Callable[[str], MomentSummary]

__all__ = [
    "PART_ROWS",
    "Part",
    "PartMark",
    "Progress",
    "cut_blocks",
    "name_shards",
    "read_parts",
    "summarize_parts",
]

PART_ROWS = 1 << 20


class PartMark(NamedTuple):
    """What names a part: its id in this pass, what was known before it was read, its contents."""

    in_pass: str
    place_id: str
    contents: str


@dataclass(frozen=True)
class Progress:
    """The state between two parts: `summary` holds all rows before row `row` of piece `piece`.

    Attributes
    ----------
    read : str
        Digest of all rows before that place.
    """

    summary: MomentSummary
    piece: int
    row: int
    n_dropped: int
    read: str = ""


class Part:
    """A part while it is read: its sums, and a digest that a second thread makes meanwhile."""

    def __init__(self, place_id: str, in_pass: str, shard: MomentSummary | None) -> None:
        self.place_id, self.in_pass, self.shard = place_id, in_pass, shard
        self.n_kept = self.n_dropped = self.stop = 0
        self.complete = False
        self._digest = RowDigest()
        self._hashing: Future[None] | None = None

    def add(self, raw: RawBlock, kept: Float, pool: ThreadPoolExecutor) -> None:
        """Add the rows of a block."""
        self._wait()
        self._hashing = pool.submit(self._digest.update, kept)
        if self.shard is not None and len(kept):
            self.shard.update(kept)
        self.n_kept += len(kept)
        self.n_dropped += len(raw.values) - len(kept)

    def _wait(self) -> None:
        if self._hashing is not None:
            self._hashing.result()

    def mark(self) -> PartMark:
        """Names of the part; the contents are the rows kept and the number of the others."""
        self._wait()
        contents = f"{self._digest.hexdigest()}-{self.n_dropped}"
        return PartMark(self.in_pass, self.place_id, contents)

    def summary(self) -> MomentSummary:
        """Sums of the part under its id in this pass."""
        assert self.shard is not None
        return rename_shards(self.shard, {self.place_id: self.in_pass})


def read_parts(
    source: RowSource,
    piece: int,
    start: int,
    new_shard: NewShard,
    *,
    number: int | None = None,
    summed_to: float = 0,
    part_rows: int = PART_ROWS,
    on_rows: Callable[[int], None] = lambda n: None,
) -> Iterator[Part]:
    """The parts of one piece from a row on, each when all of it has been read.

    Parameters
    ----------
    source : RowSource
    piece, start : int
        Where to begin; a multiple of `part_rows`.
    number : int, optional
        Number of the piece in the pass, where `source` is not all of it.
    summed_to : float
        Parts that start before this row are summed already: only their digests are made.
    new_shard, part_rows, on_rows
        As for `summarize_parts`.
    """
    part = None
    with ThreadPoolExecutor(1) as pool:
        for row, raw, kept, complete in cut_blocks(source, piece, start, part_rows):
            if part is None:
                name = source.shard_id(piece, row)
                in_pass = json.dumps(["part", piece if number is None else number, row])
                part = Part(name, in_pass, None if row < summed_to else new_shard(name))
            part.add(raw, kept, pool)
            on_rows(len(raw.values))
            if complete:
                part.stop, part.complete = row + len(raw.values), True
                yield part
                part = None
        if part is not None:
            yield part


def name_shards(summary: MomentSummary, marks: Sequence[PartMark]) -> MomentSummary:
    """Give the parts of one piece the ids that follow from the contents of all of it."""
    contents = _digest([mark.contents for mark in marks])
    names = {mark.in_pass: f"{mark.place_id} {contents}" for mark in marks}
    return rename_shards(summary, names)


def _digest(texts: Sequence[str]) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()


def summarize_parts(
    source: RowSource,
    start: Progress,
    new_shard: NewShard,
    part_rows: int = PART_ROWS,
    on_rows: Callable[[int], None] = lambda n: None,
) -> Iterator[Progress]:
    """Go on from `start` to the end of the source, and give the state after every part.

    Parameters
    ----------
    source : RowSource
    start : Progress
        Where to begin; piece 0, row 0 and an empty summary for a new pass. The rows before that
        place are read again, without summing, and compared with what was read then.
    new_shard : callable
        Shard id → an empty summary.
    part_rows : int
        Rows in a part, before any are dropped.
    on_rows : callable
        Told the number of rows of every block.
    """
    check = _Check(start, source)
    total, dropped, read = start.summary, start.n_dropped, ""
    for piece in range(len(source.pieces)):
        marks: list[PartMark] = []
        for part in read_parts(
            source, piece, 0, new_shard,
            summed_to=check.summed_to(piece), part_rows=part_rows, on_rows=on_rows,
        ):  # fmt: skip
            marks.append(part.mark())
            read = _digest([read, *marks[-1]])
            if part.shard is None:
                check.seen(part)
            else:
                total, dropped = total + part.summary(), dropped + part.n_dropped
            if part.complete and check.passed((piece, part.stop), read):
                yield Progress(total, piece, part.stop, dropped, read)
        if (piece + 1, 0) > check.goal:
            total = _named(total, marks, source.pieces[piece].name)
        if check.passed((piece + 1, 0), read):
            yield Progress(total, piece + 1, 0, dropped, read)
    check.finish()


def _named(total: MomentSummary, marks: Sequence[PartMark], name: str) -> MomentSummary:
    try:
        return name_shards(total, marks)
    except ShardError as error:
        raise InputError(counted_twice(name)) from error


class _Check:
    """Whether the rows before the start of a pass are those that were summed before."""

    def __init__(self, start: Progress, source: RowSource) -> None:
        self.start, self.goal, self.source = start, (start.piece, start.row), source
        self.n_kept = self.n_dropped = 0
        self.waiting = self.goal > (0, 0)

    def summed_to(self, piece: int) -> float:
        """The first row of a piece that was not summed before."""
        return math.inf if piece < self.goal[0] else self.goal[1] if piece == self.goal[0] else 0

    def seen(self, part: Part) -> None:
        """Count a part that was summed before."""
        self.n_kept += part.n_kept
        self.n_dropped += part.n_dropped

    def passed(self, place: tuple[int, int], read: str) -> bool:
        """Whether a place is beyond the start; compares the rows when the start is reached."""
        if place < self.goal:
            return False
        if not self.waiting:
            return True
        before = self.start.read, self.start.summary.n_rows, self.start.n_dropped
        self.waiting = place != self.goal or before != (read, self.n_kept, self.n_dropped)
        self.finish()
        return False

    def finish(self) -> None:
        """Raise unless the rows before the start were met, and were the same."""
        if self.waiting:
            piece = min(self.start.piece, len(self.source.pieces) - 1)
            raise InputError(
                f"the rows before row {self.start.row} of {self.source.pieces[piece].name} are not "
                "those that were summed before the interruption: a file has changed, whatever its "
                "time says. Remove the checkpoint to start again."
            )


def cut_blocks(
    source: RowSource, piece: int, start: int, part_rows: int
) -> Iterator[tuple[int, RawBlock, Float, bool]]:
    """Blocks that end where parts end: first row, rows as read, rows kept, whether a part ends."""
    for first, raw, kept in source.numbered_blocks(piece, start):
        n_rows, done = len(raw.values), 0
        while done < n_rows:
            room = part_rows - (first + done) % part_rows
            stop = min(done + room, n_rows)
            whole = done == 0 and stop == n_rows
            part: Any = raw if whole else RawBlock(raw.values[done:stop], raw.where)
            rows = kept if whole else source.kept(part, piece)
            yield first + done, part, rows, stop - done == room
            done = stop
