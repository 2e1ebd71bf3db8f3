"""Rows of many groups in any order → one shard for each group.

Rows are collected, and sorted by group once there are many. The rows of a group are kept until
there are enough for a block of sums; then they go to its shard. The sums of a shard depend on the
sequence of its rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.parallel import begin, usable_cores
from momentmix.summary.exact.combining import renamed
from momentmix.summary.exact.open_shard import block_rows
from momentmix.summary.exact.schemas import encoded
from momentmix.summary.exact.shard_sums import totals_of_blocks
from momentmix.summary.exact.state import labels_of, new_shard, shard_digest, threads_for
from momentmix.summary.exact.totals import recentered
from momentmix.summary.file import pack
from momentmix.summary.kernels.native_sums import host_executor
from momentmix.summary.parts import Origin
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.digests import RowDigest

WAITING_BYTES = 1 << 26  # of rows before they are sorted
_SUMS_AT_ONCE = 1 << 18  # of small groups: some megabytes for each step


Whole = tuple[int, Float, RowDigest]  # number, all rows and their digest, of a group


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
    """A shard for each group of the rows of one part; `name` gives their ids without the digest."""

    def __init__(self, empty: MomentSummary, name: Callable[[int], str]) -> None:
        self.name, self.empty = name, empty
        self.new_group = partial(KeyGroup, empty)
        self.n_features = empty.n_features
        self.waiting: list[GroupedRows] = []
        self.n_bytes = 0
        self.origin: Origin | None = None  # of the rows, where it is known
        self.block_rows = block_rows(empty._state.layout, 0)
        self.few: dict[int, list[Float]] = {}  # rows of groups that have less than a block
        self.open: dict[int, KeyGroup] = {}
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
        order, present, ends = by_group(groups)
        rows = rows.take(order, axis=0)
        self._wait()
        self._wait = begin(partial(self._give, rows, present, ends), usable_cores())

    def _give(self, rows: Float, groups: Int, ends: Int) -> None:
        starts = np.append(0, ends[:-1])
        for group, start, stop in zip(groups.tolist(), starts, ends, strict=True):
            own = self.open.get(group)
            if own is not None:
                own.add(rows[start:stop])
                continue
            pieces = self.few.setdefault(group, [])
            pieces.append(rows[start:stop].copy())
            if sum(map(len, pieces)) >= self.block_rows:
                own = self.open[group] = self.new_group(group, self.name(group))
                own.add(np.concatenate(self.few.pop(group)))

    def finish(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Number, rows, shard id and summary as bytes of all groups; then there are no rows."""
        self._sort()
        self._wait()
        for own in self.open.values():
            yield own.packed(self.origin)
        self.open.clear()
        yield from self._packed()

    def _packed(self) -> Iterator[tuple[int, int, str, bytes]]:
        """The same of groups of less than a block; those of equal size some at a time."""
        state, by_size = self.empty._state, dict[int, list[Whole]]()
        while self.few:
            number, pieces = self.few.popitem()
            rows, digest = np.concatenate(pieces), RowDigest()
            digest.update(rows)
            by_size.setdefault(len(rows), []).append((number, rows, digest))
        executor, layout, schema = host_executor(state.layout), state.layout, state.row_schema
        at_once = max(1, _SUMS_AT_ONCE // layout.n_entries)
        for n_rows, alike in by_size.items():
            for start in range(0, len(alike), at_once):
                part = alike[start : start + at_once]
                names = [f"{self.name(x)} {digest.hexdigest()}" for x, _, digest in part]
                ids = [*map(shard_digest, names)]
                blocks = np.array([rows for _, rows, _ in part])
                found = totals_of_blocks(executor, layout, blocks, ids)
                for k, (number, rows, digest) in enumerate(part):
                    totals = found[k]
                    if totals is None:
                        own = self.new_group(number, self.name(number))
                        own.add(rows, digest)
                        yield own.packed(self.origin)
                        continue
                    if self.origin is not None:
                        origin = self.origin.of(self.name(number), names[k])
                        totals = replace(totals, origins={ids[k]: origin})
                    if schema is not None:
                        totals = recentered(encoded(totals, schema))
                    yield number, n_rows, ids[k].hex(), pack(totals, state.names)


class KeyGroup:
    """The shard of one group while rows come: its bytes equal a `MomentSummary` of them.

    An error leaves it unusable, and no other thread reads it meanwhile: it needs no copies as a
    summary makes.
    """

    def __init__(self, empty: MomentSummary, number: int, name: str) -> None:
        state, self._n_threads = empty._state, empty._n_threads
        self.number, self.name, self.n_rows, self.digest = number, name, 0, RowDigest()
        self._names, self._shard = state.names, new_shard(state, shard_digest(name))
        self._labels = labels_of(self._shard, state.names)

    def add(self, features: Float, digest: RowDigest | None = None) -> None:
        """Add rows; where they are the first and their digest is known, it is given."""
        self.n_rows += len(features)
        if digest is None:
            self.digest.update(features)
        else:
            self.digest = digest
        n_threads = threads_for(self._shard, len(features), self._n_threads)
        self._shard.update(features, None, n_threads, self._labels)

    def packed(self, origin: Origin | None) -> tuple[int, int, str, bytes]:
        """The summary with its numbers; its shard is named by place, key and rows."""
        name = f"{self.name} {self.digest.hexdigest()}"
        digest = shard_digest(name)
        origins = {} if origin is None else {digest: origin.of(self.name, name)}
        totals = renamed(self._shard.close(), {self._shard.shard_id: digest}, origins)
        return self.number, self.n_rows, digest.hex(), pack(totals, self._names)
