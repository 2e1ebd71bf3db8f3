"""One pass over a source, cut into parts that are always the same.

A part is a run of rows of one piece that starts at a multiple of ``part_rows``; it becomes one
shard whose id follows from the file's contents, the columns and the place. The parts and the order
of adding them do not depend on where a pass was interrupted, so neither do the bytes of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, ShardError
from momentmix.moments.summary import MomentSummary
from momentmix.sources.piece import RawBlock
from momentmix.sources.source import RowSource

Float = NDArray[np.float64]

__all__ = ["PART_ROWS", "Progress", "cut_blocks", "summarize_parts"]

PART_ROWS = 1 << 20


@dataclass(frozen=True)
class Progress:
    """The state between two parts: `summary` holds all rows before row `row` of piece `piece`."""

    summary: MomentSummary
    piece: int
    row: int
    n_dropped: int


def summarize_parts(
    source: RowSource,
    start: Progress,
    new_shard: Callable[[str], MomentSummary],
    part_rows: int = PART_ROWS,
    on_rows: Callable[[int], None] = lambda n: None,
    by_name: bool = False,
) -> Iterator[Progress]:
    """Go on from `start` to the end of the source, and give the state after every part.

    Parameters
    ----------
    source : RowSource
    start : Progress
        Where to begin; piece 0, row 0 and an empty summary for a new pass.
    new_shard : callable
        Shard id → an empty summary.
    part_rows : int
        Rows in a part, before any are dropped.
    on_rows : callable
        Told the number of rows of every block.
    by_name : bool
        As for `RowSource.shard_id`.
    """
    total, dropped, first = start.summary, start.n_dropped, start.row
    for piece in range(start.piece, len(source.pieces)):
        shard = new_shard(source.shard_id(piece, first, by_name))
        for position, raw, kept, complete in cut_blocks(source, piece, first, part_rows):
            if len(kept):
                shard.update(kept)
            dropped += len(raw.values) - len(kept)
            on_rows(len(raw.values))
            if complete:
                total = _added(total, shard, source, piece)
                after = position + len(raw.values)
                yield Progress(total, piece, after, dropped)
                shard = new_shard(source.shard_id(piece, after, by_name))
        total = _added(total, shard, source, piece)
        yield Progress(total, piece + 1, 0, dropped)
        first = 0


def _added(
    total: MomentSummary, shard: MomentSummary, source: RowSource, piece: int
) -> MomentSummary:
    if not shard.n_rows:
        return total
    try:
        return total + shard
    except ShardError as error:
        raise InputError(
            f"{source.pieces[piece].name} holds the same bytes as an input before it; its rows "
            "would count twice. Leave it out, or pass by_name=True (--by-name) if equal files are "
            "different data."
        ) from error


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
