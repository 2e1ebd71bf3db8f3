"""Pieces with the same columns, read one after the other as checked blocks of rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.rows.columns import column_keys, feature_names
from momentmix.rows.piece import Piece, RawBlock, column_name
from momentmix.rows.validation import LARGEST_VALUE

Float = NDArray[np.float64]
Missing = Literal["error", "drop"]

__all__ = ["Fingerprint", "Missing", "RowDigest", "RowSource", "counted_twice"]


@dataclass(frozen=True)
class Fingerprint:
    """What is to be read: files (name, size, time, digest of samples), columns, policy.

    It shows at once, before any row is read, that an input is another one. Where two are equal, a
    pass that is resumed still compares the rows that it has read.
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


class RowDigest:
    """A digest of rows, made while they are read."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, rows: Float) -> None:
        """Add rows; other threads may run meanwhile."""
        self._hash.update(np.ascontiguousarray(rows).data)

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        return self._hash.hexdigest()


def counted_twice(name: str) -> str:
    """What is wrong with an input that holds the same rows as another one."""
    return (
        f"{name} holds the same bytes as an input before it; its rows would count twice. Leave it "
        "out, or pass by_name=True (--by-name) if equal files are different data."
    )


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
    by_name : bool
        Whether pieces with equal contents are different data; else the second one is an error.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        columns: list[list[int]],
        missing: Missing,
        block_rows: int,
        by_name: bool = False,
    ) -> None:
        self.pieces, self.columns = list(pieces), columns
        self.missing, self.block_rows, self.by_name = missing, block_rows, by_name
        self.feature_names = feature_names(pieces[0], columns[0])
        counts = [piece.n_rows for piece in pieces]
        self.total_rows = None if None in counts else sum(n for n in counts if n is not None)
        self.n_dropped = 0
        self._n_rows: int | None = None
        self._suspects: frozenset[int] | None = None

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
        seen: set[tuple[str, str]] = set()
        for i, piece in enumerate(self.pieces):
            digest = RowDigest() if i in self._may_be_equal() else None
            for _, raw, kept in self.numbered_blocks(i):
                dropped += len(raw.values) - len(kept)
                n_rows += len(kept)
                if digest is not None:
                    digest.update(kept)
                if len(kept):
                    yield kept
            if digest is not None:
                contents = piece.mark(), digest.hexdigest()
                if contents in seen:
                    raise InputError(counted_twice(piece.name))
                seen.add(contents)
        self.n_dropped, self._n_rows = dropped, n_rows
        self._suspects = frozenset()  # compared once, not in every pass

    def _may_be_equal(self) -> frozenset[int]:
        """Pieces that share their mark with another one, where that matters."""
        if self._suspects is None:
            several = len(self.pieces) > 1 and not self.by_name
            marks = [piece.mark() for piece in self.pieces] if several else []
            times = Counter(marks)
            self._suspects = frozenset(i for i, mark in enumerate(marks) if times[mark] > 1)
        return self._suspects

    def numbered_blocks(self, piece: int, start: int = 0) -> Iterator[tuple[int, RawBlock, Float]]:
        """Blocks of one piece: number of the first row, the rows as read, and the rows kept.

        A file that is not as it was when the source was opened is an error.
        """
        position, source = start, self.pieces[piece]
        source.check_unchanged()
        try:
            for raw in source.read(self.columns[piece], start, self.block_rows):
                source.check_unchanged()  # a file that grows as it is read has no end
                yield position, raw, self._checked(raw, piece)
                position += len(raw.values)
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise
        source.check_unchanged()

    def read_all(self) -> Float:
        """All rows as one array of shape (n_rows, n_features), in memory."""
        rows = self.read_within(math.inf)
        assert rows is not None
        return rows

    def read_within(self, n_bytes: float) -> Float | None:
        """All rows as one array, or None if they take more than so many bytes."""
        if self.total_rows is not None and 8 * self.total_rows * self.n_features > n_bytes:
            return None
        size, blocks = 0, []
        for block in self.blocks():
            size += block.nbytes
            if size > n_bytes:
                return None
            blocks.append(block)
        return np.concatenate(blocks) if blocks else np.empty((0, self.n_features))

    def kept(self, raw: RawBlock, piece: int) -> Float:
        """The rows of a block that the policy keeps."""
        return self._checked(raw, piece)

    def _checked(self, raw: RawBlock, piece: int) -> Float:
        values = raw.values
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.abs(values).sum() * (2.0**1023 / LARGEST_VALUE)):
                return values
        if self.missing == "drop":
            values = values[np.isfinite(values).all(axis=1)]
            bad = np.abs(values) > LARGEST_VALUE
            if not bad.any():
                return values
            raw = RawBlock(values, lambda _: "a row")
        else:
            bad = ~(np.abs(values) <= LARGEST_VALUE)
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

    def shard_id(self, piece: int, first_row: int, by_name: bool | None = None) -> str:
        """Name of the shard that starts at a row of a piece: mark, columns, policy, place.

        All that is known before the rows are read; `summarize_parts` adds a digest of them.

        Parameters
        ----------
        piece : int
            Number of the piece.
        first_row : int
            First row of the shard in the piece.
        by_name : bool, optional
            Let the name of the file count too, so that equal files are different shards; by
            default as the source was opened.
        """
        source = self.pieces[piece]
        text = [source.mark(), column_keys(source, self.columns[piece]), self.missing, first_row]
        named = self.by_name if by_name is None else by_name
        return json.dumps([*text, source.name] if named else text)

    def __repr__(self) -> str:
        rows = "unknown" if self.total_rows is None else f"{self.total_rows:,}"
        return (
            f"RowSource({len(self.pieces)} piece(s), n_features={self.n_features}, {rows} rows, "
            f"missing={self.missing!r})"
        )
