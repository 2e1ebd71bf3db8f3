"""Rows of many groups in any order → one shard for each group.

Rows are collected, and sorted by group once there are many. The rows of a group are kept until
there are enough for a block of sums; then they go to its shard. The sums of a shard depend on the
sequence of its rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.parallel import begin, usable_cores
from momentmix.summary.adding import renamed
from momentmix.summary.blocks import (
    OpenShard,
    add_digits,
    block_extremes,
    block_rows,
    digits_needed,
)
from momentmix.summary.digits import QUANTUM_BITS, from_places
from momentmix.summary.file import pack
from momentmix.summary.frames import FAR, RowFrame, frame_of
from momentmix.summary.kernels.native_sums import host_executor
from momentmix.summary.state import shard_digest, threads_for
from momentmix.summary.summary import MomentSummary
from momentmix.summary.totals import Totals, as_shard, closed, contents_of

WAITING_BYTES = 1 << 26  # of rows before they are sorted
_FIRST_ROWS = 1024  # which set the frame of all groups
_SUMS_AT_ONCE = 1 << 18  # of small groups: some megabytes for each step


class KeyIndex:
    """Groups are numbered as their keys, tuples of numbers, are met."""

    def __init__(self) -> None:
        self.keys: dict[tuple[int, ...], int] = {}

    def numbers(self, columns: Sequence[Int]) -> Int:
        """Number of the group of each row, from a column of numbers for each key."""
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            codes = _codes(codes * (column.max(initial=0) + 1) + column)
        rows = np.empty(codes.max(initial=-1) + 1, dtype=np.int64)
        rows[codes] = np.arange(len(codes))  # a row of each group
        keys = zip(*(column[rows].tolist() for column in columns), strict=True)
        groups = [self.keys.setdefault(key, len(self.keys)) for key in keys]
        return np.asarray(np.array(groups, dtype=np.int64)[codes])


def _codes(values: Int) -> Int:
    """Different values numbered as they are met."""
    import pyarrow as pa

    return np.asarray(pa.array(values).dictionary_encode().indices, dtype=np.int64)


def by_group(groups: Int) -> tuple[Int, Int, Int]:
    """Order of rows by group, in which rows of a group keep theirs; the groups, and their ends."""
    # Small integers are sorted in linear time.
    small = groups.astype(np.uint16) if groups.max(initial=0) < 1 << 16 else groups
    order = np.argsort(small, kind="stable")
    counts = np.bincount(groups)
    present = np.flatnonzero(counts)
    return order, present, np.cumsum(counts[present])


class GroupedRows(NamedTuple):
    """Features of rows, of shape (n_rows, n_features), and the numbers of their groups."""

    features: Float
    groups: Int


class GroupedShard:
    """A shard for each group of the rows of one table; `name` gives the place of its rows."""

    def __init__(self, empty: MomentSummary, name: Callable[[int], str]) -> None:
        self.name, self.empty = name, empty
        self.state, self._n_threads = empty._state, empty._n_threads
        self.waiting: list[GroupedRows] = []
        self.n_bytes = 0
        self.block_rows = block_rows(self.state.layout, 0)
        self.frame: RowFrame | None = None  # of all groups, from the first rows
        self.few: dict[int, list[Float]] = {}  # rows of groups that have less than a block
        self.open: dict[int, OpenShard] = {}
        self._wait: Callable[[], None] = lambda: None  # until the rows sorted last are given

    def update(self, rows: GroupedRows) -> None:
        """Add rows."""
        self.waiting.append(rows)
        self.n_bytes += rows.features.nbytes
        if self.n_bytes >= WAITING_BYTES:
            self._sort()

    def _sort(self) -> None:
        """Sort the pending rows; another thread gives them to their groups meanwhile."""
        if not self.waiting:
            return
        rows, groups = map(np.concatenate, zip(*self.waiting, strict=True))
        self.waiting, self.n_bytes = [], 0
        if self.frame is None and len(rows):
            first = np.ascontiguousarray(rows[:_FIRST_ROWS])
            self.frame = frame_of(first, block_extremes(first[None])[0])
        order, present, ends = by_group(groups)
        rows = rows.take(order, axis=0)
        self._wait()
        self._wait = begin(partial(self._give, rows, present, ends), usable_cores())

    def _give(self, rows: Float, groups: Int, ends: Int) -> None:
        starts = np.append(0, ends[:-1])
        for group, start, stop in zip(groups.tolist(), starts, ends, strict=True):
            own = self.open.get(group)
            if own is not None:
                self._add(own, rows[start:stop])
                continue
            pieces = self.few.setdefault(group, [])
            pieces.append(rows[start:stop].copy())
            if sum(map(len, pieces)) >= self.block_rows:
                own = self.open[group] = self._new_shard()
                self._add(own, np.concatenate(self.few.pop(group)))

    def _new_shard(self) -> OpenShard:
        shard = OpenShard(self.state.layout, bytes(16), self.state.row_schema)
        shard.frame = self.frame
        return shard

    def _add(self, shard: OpenShard, rows: Float) -> None:
        shard.update(rows, None, threads_for(shard, len(rows), self._n_threads))

    def finish(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Number, rows, shard id and summary as bytes of all groups; then there are no rows."""
        self._sort()
        self._wait()
        while self.open:
            number, shard = self.open.popitem()
            yield self._packed(number, closed(shard))
        by_size = dict[int, list[tuple[int, Float]]]()
        while self.few:
            number, pieces = self.few.popitem()
            rows = np.concatenate(pieces)
            by_size.setdefault(len(rows), []).append((number, rows))
        at_once = max(1, _SUMS_AT_ONCE // self.state.layout.n_entries)
        for alike in by_size.values():
            for start in range(0, len(alike), at_once):
                numbers, blocks = zip(*alike[start : start + at_once], strict=True)
                for number, totals in zip(numbers, self._closed(np.array(blocks)), strict=True):
                    yield self._packed(number, totals)

    def _closed(self, blocks: Float) -> Iterator[Totals]:
        """The sums of groups of equal size: in the frame of all, or each alone."""
        assert self.frame is not None
        layout, ends, n_rows = self.state.layout, block_extremes(blocks), blocks.shape[1]
        values = host_executor(layout).sums(blocks, None, self.frame.units)
        means = np.abs(values[:, 1 : layout.n_features + 1])
        fits = self.frame.fits(ends).all(axis=1) & (means <= FAR * n_rows).all(axis=1)
        near = values[fits]
        places = np.zeros((digits_needed(float(np.abs(near).max(initial=1.0))), near.size))
        add_digits(near.reshape(1, -1), places)
        digits = from_places(places)
        digits = digits.reshape(len(digits), *near.shape)
        tops = np.where(digits.any(axis=2), np.arange(len(digits))[:, None], 0).max(axis=0)
        rest, schema = iter(range(len(near))), self.state.row_schema
        for i, is_near in enumerate(fits.tolist()):
            if is_near:
                j = next(rest)
                own = np.ascontiguousarray(digits[: tops[j] + 1, j])
                sums = self.frame.frame, own, n_rows << QUANTUM_BITS, n_rows
                totals = Totals(layout, *sums, ends[i, 0], ends[i, 1], True, {})
                yield as_shard(totals, schema, bytes(16))
            else:
                shard = self._new_shard()
                shard.update(blocks[i], None, 1)
                yield closed(shard)

    def _packed(self, number: int, totals: Totals) -> tuple[int, int, str, bytes]:
        """The summary of a group; its shard is named by place, key and contents."""
        names = self.state.names
        digest = shard_digest(f"{self.name(number)} {contents_of(totals, names)}")
        totals = renamed(totals, {bytes(16): digest})
        return number, totals.n_rows, digest.hex(), pack(totals, names)
