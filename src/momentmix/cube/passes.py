"""One pass over rows with keys: a summary for each group, from part to part.

As `summary.parts`, with larger parts, since each has a shard for each group. The state between two
parts is all that a pass needs to go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from momentmix._typing import Array
from momentmix.cube.file import rows_of
from momentmix.cube.grouping import GroupedRows, GroupedShard, KeyIndex
from momentmix.cube.keys import GroupKey, Key, columns_read
from momentmix.errors import InputError
from momentmix.summary.parts import Origin, ResumeCheck, digest_of, origin_of, read_parts
from momentmix.summary.summary import MomentSummary, union
from momentmix.tables.digests import counted_twice
from momentmix.tables.table_rows import Block, TableRows

PART_ROWS = 1 << 24  # of a part: small shards cost more than their rows
_MOST_PIECES = 8  # summaries of a group that wait to be added


@dataclass
class GroupSums:
    """Summaries of groups as bytes, several for a group until they are added.

    Attributes
    ----------
    pieces : dict
        By the values of the keys.
    n_rows : int
        Of all groups.
    """

    pieces: dict[GroupKey, list[bytes]] = field(default_factory=dict)
    n_rows: int = 0

    @classmethod
    def of(cls, groups: dict[GroupKey, bytes]) -> GroupSums:
        """Groups that were summed before."""
        n_rows = sum(rows_of(group) for group in groups.values())
        return cls({key: [group] for key, group in groups.items()}, n_rows)

    def add(self, key: GroupKey, summary: bytes, n_rows: int | None = None) -> None:
        """Add the bytes of a summary to a group; the number of its rows is known or read."""
        pieces = self.pieces.setdefault(key, [])
        pieces.append(summary)
        self.n_rows += rows_of(summary) if n_rows is None else n_rows
        if len(pieces) > _MOST_PIECES:
            pieces[:] = [sum_of(pieces)]

    def groups(self) -> dict[GroupKey, bytes]:
        """The summary of each group."""
        return {key: sum_of(pieces) for key, pieces in self.pieces.items()}


def sum_of(pieces: list[bytes]) -> bytes:
    """The sum of summaries."""
    if len(pieces) == 1:
        return pieces[0]
    return union([MomentSummary.from_bytes(piece) for piece in pieces]).to_bytes()


@dataclass(frozen=True)
class CubeProgress:
    """The state between two parts; see `summary.parts.Progress`."""

    sums: GroupSums = field(default_factory=GroupSums)
    table: int = 0
    row: int = 0
    n_dropped: int = 0
    read: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows that are summed."""
        return self.sums.n_rows


def summarize_groups(
    rows: TableRows,
    keys: Sequence[Key],
    start: CubeProgress,
    empty: MomentSummary,
    part_rows: int = PART_ROWS,
) -> Iterator[CubeProgress]:
    """Go on from `start` to the end of the rows, and give the state after every part.

    Parameters
    ----------
    rows : TableRows
    keys : sequence of Key
    start : CubeProgress
        Where to begin; its sums are changed.
    empty : MomentSummary
        Without rows, as the summary of each group begins.
    part_rows : int
        As for `summary.parts.summarize_parts`.
    """
    job = _Pass(rows, keys, empty)
    for pieces in start.sums.pieces.values():
        for piece in pieces:
            job.shards.update(MomentSummary.from_bytes(piece).shard_ids)
    check = ResumeCheck(start, rows)
    state = replace(start, table=0, row=0, read="")
    for table, source in enumerate(rows.sources):
        for part in read_parts(
            rows, table, 0, job.open,  # type: ignore[arg-type]
            summed_to=check.summed_to(table), part_rows=part_rows,
            others=columns_read(keys, table), added=partial(job.grouped, table),
        ):  # fmt: skip
            if part.shard is None:
                check.count(part)
            else:
                # Text is known at its end only. Groups of complete parts do without: those of the
                # last part tell where a cube comes from.
                if not (part.complete and source.is_text):
                    part.shard.origin = job.origin(table, part_rows)  # type: ignore[attr-defined]
                job.close(part.shard, state.sums, source.name)
                state = replace(state, n_dropped=state.n_dropped + part.n_dropped)
            state = replace(state, table=table, row=part.stop)
            state = replace(state, read=digest_of([state.read, *part.mark().texts]))
            if part.complete and check.passed((table, part.stop), state.read):
                yield state
        job.check_new(table, source.contents())
        state = replace(state, table=table + 1, row=0)
        if check.passed((table + 1, 0), state.read):
            yield state
    check.finish()


class _Pass:
    """What the parts of one pass share."""

    def __init__(self, rows: TableRows, keys: Sequence[Key], empty: MomentSummary) -> None:
        self.rows, self.keys, self.empty = rows, keys, empty
        self.index = KeyIndex(len(keys))
        self.marks = np.empty(0, dtype=np.int64)  # digests of the values of the groups
        self.shards: set[str] = set()
        self.tables: set[object] = set()

    def open(self, *, shard_id: str) -> GroupedShard:
        """An empty shard for each group of a part."""
        return GroupedShard(self.empty, partial(self._name, shard_id))

    def grouped(self, table: int, block: Block) -> tuple[GroupedRows, list[Array]]:
        """The rows of a block with their groups, and the marks of these."""
        pieces = dict(zip(columns_read(self.keys, table), block.others, strict=True))
        numbers = [
            key.numbers(table, block, pieces[key.columns[table]] if key.columns else ())
            for key in self.keys
        ]
        groups = self.index.numbers(np.column_stack(numbers))
        new = range(len(self.marks), len(self.index.keys))
        self.marks = np.append(self.marks, [_mark(self._texts(number)) for number in new])
        return GroupedRows(block.features, groups), [self.marks[groups]]

    def _name(self, place_id: str, number: int) -> str:
        return json.dumps([place_id, self._texts(number)])

    def _texts(self, number: int) -> list[str | None]:
        return [None if value is None else str(value) for value in self._key(number)]

    def _key(self, number: int) -> GroupKey:
        pairs = zip(self.keys, self.index.keys[number], strict=True)
        return tuple(None if x is None else key.value(int(x)) for key, x in pairs)

    def origin(self, table: int, part_rows: int) -> Origin | None:
        """Where the groups of a table come from."""
        way = "groups", part_rows, [str(key.spec) for key in self.keys]
        return origin_of(self.rows, table, *way, others=columns_read(self.keys, table))

    def check_new(self, table: int, contents: tuple[str, bool] | None) -> None:
        """Raise where a table holds what one before it held, for the same keys of folders."""
        if contents is None or not contents[1] or self.rows.by_name:
            return
        folders = [key.value(table) for key in self.keys if key.columns is None]
        if (contents, *folders) in self.tables:
            raise InputError(counted_twice(self.rows.sources[table].name))
        self.tables.add((contents, *folders))

    def close(self, shard: Any, sums: GroupSums, name: str) -> None:
        """Add the groups of a part to all others."""
        for group in shard.finish():
            if group.shard_id in self.shards:
                raise InputError(counted_twice(name))
            self.shards.add(group.shard_id)
            sums.add(self._key(group.number), group.data, group.n_rows)


def _mark(texts: list[str | None]) -> int:
    """A digest of the values of a group."""
    digest = hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
