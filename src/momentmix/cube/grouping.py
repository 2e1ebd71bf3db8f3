"""Rows of many groups in any order → one shard for each group, in bounded memory.

Rows are collected, and sorted by group once there are many. A group's rows go to its open shard
while there is room for more shards in memory, else to a file on disk, together with rows of other
groups. When all rows have come, the files are read one after the other, and each holds all rows of
its groups. The sums of a shard depend on the sequence of its rows alone, so neither the memory nor
the disk changes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.parallel import begin, read_ahead, usable_cores
from momentmix.summary.exact.combining import renamed
from momentmix.summary.exact.open_shard import block_rows
from momentmix.summary.exact.schemas import encoded
from momentmix.summary.exact.shard_sums import totals_of_blocks
from momentmix.summary.exact.state import labels_of, new_shard, shard_digest, threads_for
from momentmix.summary.exact.totals import Totals, recentered
from momentmix.summary.file import pack
from momentmix.summary.kernels.native_sums import host_executor
from momentmix.summary.parts import Origin
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.digests import RowDigest

WAITING_BYTES = 1 << 26  # of rows before they are sorted
OPEN_BYTES = 1 << 27  # of shards in memory
_SHARD_BYTES = 1 << 16  # of an open shard, beside its moments and its pending rows
_ENTRY_BYTES, _WAITING_ROWS = 160, 1024
_WHOLE_BYTES = 1 << 24  # of groups; groups of equal size are summed together
_SUMS_AT_ONCE = 1 << 18  # of small groups: some megabytes for each step
_FILES = 64  # on disk; each is read into memory as a whole


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
        self.open: dict[int, KeyGroup] = {}
        self.files: dict[int, IO[bytes]] = {}
        waiting = 8 * _WAITING_ROWS * (empty.n_features + 1)
        shard_bytes = _SHARD_BYTES + _ENTRY_BYTES * empty.cost.n_entries + waiting
        self.most_open = max(16, OPEN_BYTES // shard_bytes)
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
            if own is None and len(self.open) < self.most_open:
                own = self.open[group] = self.new_group(group, self.name(group))
            if own is not None:
                own.add(rows[start:stop])
            else:
                self._spill(group, rows[start:stop])

    def _spill(self, group: int, rows: Float) -> None:
        file = self.files.get(group % _FILES)
        if file is None:
            file = tempfile.TemporaryFile(prefix="momentmix-")  # noqa: SIM115, until they are read
            self.files[group % _FILES] = file
        file.write(np.array([group, len(rows)], dtype=np.int64).tobytes())
        file.write(np.ascontiguousarray(rows).data)

    def finish(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Number, rows, shard id and summary as bytes of all groups; then there are no rows."""
        self._sort()
        self._wait()
        for own in self.open.values():
            if own.first_rows is None:
                yield own.packed(self.origin)
        whole = [(own.number, own.first_rows, own.digest) for own in self.open.values()]
        yield from self._packed([(a, rows, b) for a, rows, b in whole if rows is not None])
        self.open.clear()
        groups, n_bytes = list[Whole](), 0
        for more in read_ahead(self._read_files(), n_ahead=1):
            groups, n_bytes = groups + more, n_bytes + sum(rows.nbytes for _, rows, _ in more)
            if n_bytes >= _WHOLE_BYTES:
                yield from self._packed(groups)
                groups, n_bytes = [], 0
        yield from self._packed(groups)

    def _packed(self, groups: list[Whole]) -> Iterator[tuple[int, int, str, bytes]]:
        """The same of groups whose rows are all in memory; groups of one block some at a time."""
        state, by_size = self.empty._state, dict[int, list[Whole]]()
        for group in groups:
            by_size.setdefault(len(group[1]), []).append(group)
        executor, layout, schema = host_executor(state.layout), state.layout, state.row_schema
        most, at_once = block_rows(layout, 0), max(1, _SUMS_AT_ONCE // layout.n_entries)
        for n_rows, alike in by_size.items():
            for start in range(0, len(alike), at_once):
                part = alike[start : start + at_once]
                if n_rows >= most:
                    found: list[Totals | None] = [None] * len(part)
                else:
                    names = [f"{self.name(x)} {digest.hexdigest()}" for x, _, digest in part]
                    ids, blocks = (
                        [*map(shard_digest, names)],
                        np.array([rows for _, rows, _ in part]),
                    )
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

    def _read_files(self) -> Generator[list[Whole], None, None]:
        """The groups of each file: their numbers, all their rows, and the digests of these."""
        for part in list(self.files):
            pieces: dict[int, list[Float]] = {}
            with self.files.pop(part) as file:
                file.seek(0)
                data = np.frombuffer(file.read(), dtype=np.float64)
            place = 0
            while place < len(data):
                group, n_rows = data[place : place + 2].view(np.int64).tolist()
                start, place = place + 2, place + 2 + n_rows * self.n_features
                rows = data[start:place].reshape(n_rows, self.n_features)
                pieces.setdefault(group, []).append(rows)
            together, stop = np.concatenate([x for own in pieces.values() for x in own]), 0
            found = []
            for number, own in pieces.items():
                start, stop = stop, stop + sum(map(len, own))
                digest = RowDigest()
                digest.update(together[start:stop])
                found.append((number, together[start:stop], digest))
            yield found


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

    @property
    def first_rows(self) -> Float | None:
        """All rows, where they are fewer than a block has."""
        shard = self._shard
        return None if shard.n_blocks else shard.waiting[: shard.n_waiting]

    def packed(self, origin: Origin | None) -> tuple[int, int, str, bytes]:
        """The summary with its numbers; its shard is named by place, key and rows."""
        name = f"{self.name} {self.digest.hexdigest()}"
        digest = shard_digest(name)
        origins = {} if origin is None else {digest: origin.of(self.name, name)}
        totals = renamed(self._shard.close(), {self._shard.shard_id: digest}, origins)
        return self.number, self.n_rows, digest.hex(), pack(totals, self._names)
