"""What a task on a worker reads: a partition that Dask computed, or a stretch of a file.

A part gives its rows in checked blocks, as often as it is asked, and its summary under shard ids
that depend on its place alone. So a task may run twice, on any worker, and give the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError
from momentmix.rows.opening import open_rows
from momentmix.rows.piece import Piece
from momentmix.rows.source import Missing, RowSource
from momentmix.rows.tables import ArrayPiece, FramePiece, is_frame
from momentmix.summary.parts import (
    PART_ROWS,
    PartMark,
    Progress,
    cut_blocks,
    read_parts,
    summarize_parts,
)
from momentmix.summary.summary import MomentSummary

Float = NDArray[np.float64]
NewShard = Callable[[str | None], MomentSummary]

__all__ = ["FilePart", "HeldPart", "Part", "Reading", "piece_of", "stamp_of"]


@dataclass(frozen=True)
class Reading:
    """What to take of every partition.

    Attributes
    ----------
    labels : tuple of str or None
        Names of all columns, where they have any.
    n_columns : int
        Number of all columns.
    columns : tuple of str or int
        Those to take: by name, or by number where there is no name, or one that others share.
    missing : {"error", "drop"}
    """

    labels: tuple[str, ...] | None
    n_columns: int
    columns: tuple[str | int, ...]
    missing: Missing


def piece_of(block: Any, name: str) -> Piece:
    """A computed partition, an array or a data frame, as rows that can be read."""
    try:
        return FramePiece(block, name) if is_frame(block) else ArrayPiece(block, name)
    except (InputError, InputTypeError) as error:
        raise type(error)(f"{name}: {error}") from None


@dataclass(frozen=True)
class HeldPart:
    """A partition of a Dask collection; tasks are handed its rows."""

    number: int
    shard_id: str
    reading: Reading

    def blocks(self, block: Any) -> Iterator[Float]:
        """Blocks of the rows kept."""
        source = self._opened(block)
        return iter(()) if source is None else source.blocks()

    def summary(self, block: Any, new_shard: NewShard) -> tuple[MomentSummary, None]:
        """Summary of the partition, one shard."""
        shard = new_shard(self.shard_id)
        for rows in self.blocks(block):
            shard.update(rows)
        return shard, None

    def _opened(self, block: Any) -> RowSource | None:
        """The rows of the partition; None if it has none."""
        name = f"partition {self.number}"
        if not is_frame(block) and hasattr(block, "shape") and len(block) == 0:
            return None
        piece, reading = piece_of(block, name), self.reading
        if not piece.n_rows:
            return None
        if piece.n_columns != reading.n_columns or _differ(piece.column_names, reading.labels):
            raise InputError(
                f"every partition must have the same columns; {name} has "
                f"{_listed(piece.column_names, piece.n_columns)}, the collection "
                f"{_listed(reading.labels, reading.n_columns)}. Mend the step that makes it."
            )
        return open_rows(piece, reading.columns, reading.missing)


def _differ(found: tuple[str, ...] | None, wanted: tuple[str, ...] | None) -> bool:
    """Whether names differ, whatever their order unless some are shared; no names match any."""
    if found is None or wanted is None:
        return False
    return found != wanted if len(set(wanted)) < len(wanted) else set(found) != set(wanted)


def _listed(labels: tuple[str, ...] | None, n_columns: int) -> str:
    names = "" if labels is None else f" ({', '.join(map(ascii, labels[:8]))})"
    return f"{n_columns} column{'s' if n_columns != 1 else ''}{names}"


@dataclass(frozen=True)
class FilePart:
    """Rows of a file from `start` on: one part of fixed size, or all where `whole`.

    The parts and their shard ids are those of ``momentmix summarize``, and so are the bytes.

    Attributes
    ----------
    number, piece : int
        Numbers of the part and of its file.
    """

    number: int
    piece: int
    path: str
    stamp: dict[str, object]
    start: int
    whole: bool
    columns: tuple[int, ...]
    missing: Missing

    def blocks(self, block: None) -> Iterator[Float]:
        """Blocks of the rows kept."""
        source = self._opened()
        for _, _, kept, complete in cut_blocks(source, 0, self.start, PART_ROWS):
            if len(kept):
                yield kept
            if complete and not self.whole:
                break
        self._check_unchanged(source)

    def summary(self, block: None, new_shard: NewShard) -> tuple[MomentSummary, PartMark | None]:
        """Summary of the rows, one shard for each part of the file.

        Where this is one part of several, its shard gets its id when all of them are known; the
        mark tells what goes into it.
        """
        source, summary, mark = self._opened(), new_shard(None), None
        if self.whole:
            for state in summarize_parts(source, Progress(summary, 0, 0, 0), new_shard):
                summary = state.summary
        else:
            part = next(read_parts(source, 0, self.start, new_shard, number=self.piece), None)
            if part is not None:
                summary, mark = part.summary(), part.mark()
        self._check_unchanged(source)
        return summary, mark

    def _opened(self) -> RowSource:
        if not os.path.exists(self.path):
            raise InputError(
                f"{self.path} does not exist where the worker runs; every worker must see the "
                "files under the same path (a shared file system). Or pass a Dask collection, "
                "e.g. dask.dataframe.read_parquet(...)."
            )
        source = open_rows(self.path, self.columns, self.missing)
        self._check_unchanged(source)
        return source

    def _check_unchanged(self, source: RowSource) -> None:
        found = stamp_of(source.pieces[0])
        if found != self.stamp:
            raise InputError(
                f"{self.path} changed while it was being read ({self.stamp} before, {found} now). "
                "Run again when it is complete."
            )


def stamp_of(piece: Piece) -> dict[str, object]:
    """Size and time of change of a file, whatever it is called here."""
    return {key: value for key, value in piece.stamp().items() if key != "name"}


Part = HeldPart | FilePart
