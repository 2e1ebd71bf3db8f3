"""One pass over rows with keys: a summary for each group, from part to part.

As `summary.parts`, with larger parts, since each has a shard for each group. The state between two
parts is all that a pass needs to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from momentmix._typing import Float
from momentmix.cube.file import rows_of
from momentmix.cube.grouping import GroupedShard, KeyIndex
from momentmix.cube.keyed_rows import KeyedRows
from momentmix.cube.keys import GroupKey
from momentmix.errors import InputError
from momentmix.digests import Origin, counted_twice
from momentmix.summary.parts import ResumeCheck, digest_of, read_parts
from momentmix.summary.summary import MomentSummary, union

PART_ROWS = 1 << 24  # of a part: small shards cost more than their rows
_MOST_PIECES = 8  # summaries of a group that wait to be added

Encode = Callable[[Float], Any]


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
    source: KeyedRows,
    start: CubeProgress,
    empty: MomentSummary,
    encode: Encode | None = None,
    part_rows: int = PART_ROWS,
) -> Iterator[CubeProgress]:
    """Go on from `start` to the end of the source, and give the state after every part.

    Parameters
    ----------
    source : KeyedRows
    start : CubeProgress
        Where to begin; its sums are changed.
    empty : MomentSummary
        Without rows, as the summary of each group begins.
    encode : callable, optional
        Rows as read, without keys → what is added to a summary of features.
    part_rows : int
        As for `summary.parts.summarize_parts`.
    """
    job = _Pass(source, empty, encode)
    for pieces in start.sums.pieces.values():
        for piece in pieces:
            job.shards.update(MomentSummary.from_bytes(piece).shard_ids)
    check = ResumeCheck(start, source)
    state = replace(start, table=0, row=0, read="")
    for table, opened in enumerate(source.tables):
        for part in read_parts(
            source, table, 0, partial(job.open, table),  # type: ignore[arg-type]
            summed_to=check.summed_to(table), part_rows=part_rows,
        ):  # fmt: skip
            if part.shard is None:
                check.count(part)
            else:
                # Text is known at its end only. Groups of complete parts do without: those of the
                # last part tell where a cube comes from.
                if not (part.complete and opened.is_text):
                    part.shard.origin = job.origin(table, part_rows)  # type: ignore[attr-defined]
                job.close(part.shard, state.sums, opened.name)
                state = replace(state, n_dropped=state.n_dropped + part.n_dropped)
            state = replace(state, table=table, row=part.stop)
            state = replace(state, read=digest_of([state.read, *part.mark().texts]))
            if part.complete and check.passed((table, part.stop), state.read):
                yield state
        job.check_new(table, opened.contents())
        state = replace(state, table=table + 1, row=0)
        if check.passed((table + 1, 0), state.read):
            yield state
    check.finish()


class _Pass:
    """What the parts of one pass share."""

    def __init__(self, source: KeyedRows, empty: MomentSummary, encode: Encode | None) -> None:
        self.source, self.empty, self.encode = source, empty, encode
        self.index = KeyIndex(len(source.keys))
        self.shards: set[str] = set()
        self.tables: set[object] = set()

    def open(self, table: int, *, shard_id: str) -> GroupedShard:
        """An empty shard for each group of a part."""
        split = partial(self._split, table)
        return GroupedShard(self.index, self.empty, split, partial(self._name, shard_id))

    def _split(self, table: int, rows: Float) -> tuple[Float, Float]:
        features, keys = self.source.split(rows, table)
        return features if self.encode is None else self.encode(features).features, keys

    def _name(self, place_id: str, number: int) -> str:
        return json.dumps([place_id, [None if v is None else str(v) for v in self._key(number)]])

    def _key(self, number: int) -> GroupKey:
        numbers = self.index.keys[number]
        return tuple(key.value(x) for key, x in zip(self.source.keys, numbers, strict=True))

    def origin(self, table: int, part_rows: int) -> Origin | None:
        """Where the groups of a table come from."""
        keys = [str(key.spec) for key in self.source.keys]
        return self.source.origin(table, "groups", part_rows, keys)

    def check_new(self, table: int, contents: tuple[str, bool] | None) -> None:
        """Raise where a table holds what one before it held, for the same keys of folders."""
        if contents is None or not contents[1] or self.source.by_name:
            return
        folders = [key.folders[table] for key in self.source.keys if key.columns is None]
        if (contents, *folders) in self.tables:
            raise InputError(counted_twice(self.source.tables[table].name))
        self.tables.add((contents, *folders))

    def close(self, shard: Any, sums: GroupSums, name: str) -> None:
        """Add the groups of a part to all others."""
        for group in shard.finish():
            if group.shard_id in self.shards:
                raise InputError(counted_twice(name))
            self.shards.add(group.shard_id)
            sums.add(self._key(group.number), group.data, group.n_rows)
