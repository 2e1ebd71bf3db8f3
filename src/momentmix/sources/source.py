"""Pieces with the same columns, read one after the other as checked blocks of rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.sources.columns import column_keys, feature_names
from momentmix.sources.piece import Piece, RawBlock, column_name

Float = NDArray[np.float64]
Missing = Literal["error", "drop"]

__all__ = ["Fingerprint", "Missing", "RowSource"]

_LARGEST = 2.0**1000  # as for summaries: powers of a scaled value stay finite


@dataclass(frozen=True)
class Fingerprint:
    """What was read: files (name, size, time, digest of samples), columns, policy.

    Two fingerprints are equal where resuming a pass over one with the other is safe.
    """

    pieces: tuple[dict[str, Any], ...]
    columns: tuple[str | int, ...]
    missing: str

    @property
    def digest(self) -> str:
        """Twelve bytes that stand for all of it, as hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "pieces": list(self.pieces),
            "columns": list(self.columns),
            "missing": self.missing,
        }

    def difference(self, other: Fingerprint) -> str:
        """In words, the first thing in which the other one differs; empty if nothing does."""
        if len(self.pieces) != len(other.pieces):
            return f"{len(self.pieces)} inputs there, {len(other.pieces)} here"
        for there, here in zip(self.pieces, other.pieces, strict=True):
            for key in ("name", "bytes", "mtime_ns", "mark"):
                if there.get(key) != here.get(key):
                    what = {"mtime_ns": "time of change", "mark": "contents"}.get(key, key)
                    return (
                        f"{what} of {here['name']!a}: {there.get(key)} there, {here.get(key)} here"
                    )
        if self.columns != other.columns:
            return f"columns: {list(self.columns)!a} there, {list(other.columns)!a} here"
        if self.missing != other.missing:
            return f"missing: {self.missing!r} there, {other.missing!r} here"
        return ""


class RowSource:
    """Blocks of rows, as often as they are asked for; `open_rows` makes it.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
    total_rows : int or None
        Rows before any are dropped, where the formats know; for progress bars.
    n_dropped : int
        Rows with missing values that the last complete pass dropped.
    """

    def __init__(
        self, pieces: Sequence[Piece], columns: list[list[int]], missing: Missing, block_rows: int
    ) -> None:
        self.pieces, self.columns = list(pieces), columns
        self.missing, self.block_rows = missing, block_rows
        self.feature_names = feature_names(pieces[0], columns[0])
        counts = [piece.n_rows for piece in pieces]
        self.total_rows = None if None in counts else sum(n for n in counts if n is not None)
        self.n_dropped = 0
        self._n_rows: int | None = None

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns[0])

    @property
    def n_rows(self) -> int:
        """Number of rows that `blocks` gives; costs a pass where the formats cannot tell."""
        if self._n_rows is None:
            if self.missing == "error" and self.total_rows is not None:
                self._n_rows = self.total_rows
            else:
                self._n_rows = sum(len(block) for block in self.blocks())
        return self._n_rows

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, each of shape (some, n_features), from the first row on."""
        dropped = n_rows = 0
        for i in range(len(self.pieces)):
            for _, raw, kept in self.numbered_blocks(i):
                dropped += len(raw.values) - len(kept)
                n_rows += len(kept)
                if len(kept):
                    yield kept
        self.n_dropped, self._n_rows = dropped, n_rows

    def numbered_blocks(self, piece: int, start: int = 0) -> Iterator[tuple[int, RawBlock, Float]]:
        """Blocks of one piece: number of the first row, the rows as read, and the rows kept."""
        position = start
        for raw in self.pieces[piece].read(self.columns[piece], start, self.block_rows):
            yield position, raw, self._checked(raw, piece)
            position += len(raw.values)

    def read_all(self) -> Float:
        """All rows as one array of shape (n_rows, n_features), in memory."""
        blocks = list(self.blocks())
        return np.concatenate(blocks) if blocks else np.empty((0, self.n_features))

    def kept(self, raw: RawBlock, piece: int) -> Float:
        """The rows of a block that the policy keeps."""
        return self._checked(raw, piece)

    def _checked(self, raw: RawBlock, piece: int) -> Float:
        values = raw.values
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.abs(values).sum() * (2.0**1023 / _LARGEST)):
                return values
        if self.missing == "drop":
            values = values[np.isfinite(values).all(axis=1)]
            bad = np.abs(values) > _LARGEST
            if not bad.any():
                return values
            raw = RawBlock(values, lambda _: "a row")
        else:
            bad = ~(np.abs(values) <= _LARGEST)
        if not bad.any():
            return values
        raise InputError(self._complaint(raw, bad, piece))

    def _complaint(self, raw: RawBlock, bad: NDArray[np.bool_], piece: int) -> str:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = raw.values[row, column]
        source = self.pieces[piece]
        label = column_name(self.columns[piece][column], source.column_names)
        where = f"{source.name}, {raw.where(row)}, {label}"
        if np.isnan(value):
            return (
                f"rows must not hold missing values; {where} is missing or NaN. Pass "
                "missing='drop' (--missing drop) to leave such rows out, or impute them first."
            )
        if np.isinf(value):
            return (
                f"rows must be finite; {where} is {value}. Pass missing='drop' (--missing drop) "
                "to leave such rows out."
            )
        return (
            f"rows must stay below 2^1000 ≈ 1.07e301 in size; {where} is {value:.6g}. Rescale the "
            "column, or drop the row if the number stands for a missing value."
        )

    # -- what was read ------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        """Names, sizes, times and digests of the pieces, the columns and the policy."""
        pieces = tuple({**piece.stamp(), "mark": piece.mark()} for piece in self.pieces)
        columns = column_keys(self.pieces[0], self.columns[0])
        return Fingerprint(pieces, tuple(columns), self.missing)

    def shard_id(self, piece: int, first_row: int, by_name: bool = False) -> str:
        """Name of the shard that starts at a row of a piece: contents, columns, policy, place.

        Parameters
        ----------
        piece : int
            Number of the piece.
        first_row : int
            First row of the shard in the piece.
        by_name : bool
            Let the name of the file count too, so that equal files are different shards.
        """
        source = self.pieces[piece]
        columns = column_keys(source, self.columns[piece])
        text = [source.mark(), columns, self.missing, first_row]
        return json.dumps([*text, source.name] if by_name else text)

    def __repr__(self) -> str:
        rows = "unknown" if self.total_rows is None else f"{self.total_rows:,}"
        return (
            f"RowSource({len(self.pieces)} piece(s), n_features={self.n_features}, {rows} rows, "
            f"missing={self.missing!r})"
        )
