"""`summarize_by`: rows → one summary for each group, in one pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from momentmix.capacity import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.grouping import GroupedRows, GroupedShard, KeyIndex
from momentmix.cube.keys import GroupKey, Key, KeySpec, columns_read, find_key, parse_keys
from momentmix.errors import InputError, check_count
from momentmix.progress import check_asked, step
from momentmix.summary.file import rows_of
from momentmix.summary.parts import place_id
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary, union_of_groups
from momentmix.tables.learning import Families, learn
from momentmix.tables.opening import Reading, open_sources
from momentmix.tables.selection import choose_columns
from momentmix.tables.source import counted_twice
from momentmix.tables.table_rows import Missing, RowBlock, TableRows

_MOST_PIECES = 8  # summaries of a group that are not added yet


def summarize_by(
    rows: Any,
    by: str | Sequence[str],
    order: int | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    n_threads: int | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> SummaryCube:
    """One summary for each group of rows, in one pass.

    Parameters
    ----------
    rows : data frame, Arrow table, query, path, glob, folder or list of paths
        As for `open_rows`. Columns of keys are no features.
    by : str or sequence of str
        Keys: names of columns of text, whole numbers, true and false or days; ``week(ts)`` and its
        like (year, quarter, month, week, day, hour) of a column of dates or times; names of
        folders, ``region=EU/…``. A missing cell is a key too, None.
    order : int, optional
        As for `summarize`.
    families, missing
        As for `summarize`; all groups have the same schema.
    min_rows : int
        Groups of fewer rows are left out; `SummaryCube.left_out` counts them.
    squared_order, n_threads
        As for `MomentSummary`.
    progress : bool, optional
        As for `summarize`.
    **reading
        Columns to take and how files are read, as for `open_rows`.

    Returns
    -------
    SummaryCube

    Notes
    -----
    Rows of a group in a file make one shard, named by the file, the key and the sums. The sum of
    the cube has the rows of `summarize`, in other shards: moments agree to about 1e-12 of their
    size, and have the same bytes in any order of adding.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"day": ["Mon", "Tue", "Mon"], "x": [1.0, 2.0, 3.0]})
    >>> summarize_by(frame, by="day")[("Mon",)].n_rows
    2
    """
    check_count("min_rows", min_rows, 1)
    settings = {"squared_order": squared_order, "n_threads": n_threads}
    with step("Summarizing groups", check_asked(progress)):
        asked = Reading.of(reading)
        asked.check_for(rows)
        job = cube_job(rows, parse_keys(by), families, missing, asked)
        warn_of_notes(job.rows.notes)
        return job.cube(order, settings, min_rows)


def cube_job(
    data: Any, specs: Sequence[KeySpec], families: Families, missing: Missing, reading: Reading
) -> CubeJob:
    """Rows with their keys, of sources or open rows; families that are not given are guessed."""
    if isinstance(data, TableRows):
        keys = [find_key(data.sources, spec) for spec in specs]
        own = columns_read(keys, 0)
        places = [j for j, number in enumerate(data.columns[0]) if number not in own]
        if not places:
            raise InputError(f"{data.sources[0].name} has no column beside the keys; open others.")
        rows = data.selected(places)
    else:
        sources = open_sources(data, reading)
        keys = [find_key(sources, spec) for spec in specs]
        own, names = columns_read(keys, 0), {key.spec.column for key in keys}
        if reading.columns is None:
            reading = replace(reading, exclude=[*(reading.exclude or ()), *own] or None)
        else:
            asked = choose_columns(sources[0], [x for x in reading.columns if x not in names])
            reading = replace(reading, columns=[number for number in asked if number not in own])
        rows = reading.open(sources, missing)
    return CubeJob(learn(rows, families, missing), keys)


@dataclass
class GroupSums:
    """Summaries of groups as bytes, by key; several for a group until they are added."""

    pieces: dict[GroupKey, list[bytes]] = field(default_factory=dict)
    n_rows: int = 0

    def add(self, key: GroupKey, summary: bytes, n_rows: int | None = None) -> None:
        """Add the bytes of a summary to a group; the number of its rows is known or read."""
        pieces = self.pieces.setdefault(key, [])
        pieces.append(summary)
        self.n_rows += rows_of(summary) if n_rows is None else n_rows
        if len(pieces) > _MOST_PIECES:
            pieces[:] = [_sum_of(pieces)]

    def groups(self) -> dict[GroupKey, bytes]:
        """The summary of each group."""
        return {key: _sum_of(pieces) for key, pieces in self.pieces.items()}


def _sum_of(pieces: list[bytes]) -> bytes:
    if len(pieces) == 1:
        return pieces[0]
    return union_of_groups(pieces).to_bytes()


class CubeJob:
    """A pass over rows as features, with their keys."""

    def __init__(self, rows: TableRows, keys: list[Key]) -> None:
        self.rows, self.keys = rows, keys
        self.names = tuple(key.spec.name for key in keys)

    def cube(self, order: int | None, settings: dict[str, Any], min_rows: int = 1) -> SummaryCube:
        """The cube of the rows; `rows.n_dropped` counts the rows that were left out."""
        sums, n_dropped = self.sums(order, settings), self.rows.n_dropped
        if not sums.n_rows:
            dropped = f" besides the {n_dropped} dropped" if n_dropped else ""
            raise InputError(f"{self.rows.sources[0].name} holds no rows{dropped}.")
        cube = self._named(sums.groups())
        return cube.at_least(min_rows) if min_rows > 1 else cube

    def sums(self, order: int | None, settings: dict[str, Any]) -> GroupSums:
        """The sums of each group, by the values of keys as they are in the rows."""
        rows, n_features = self.rows, self.rows.n_features
        order = usual_order(n_features) if order is None else order
        names = None if rows.schema else rows.feature_names
        self._empty = MomentSummary(n_features, order, names, schema=rows.schema, **settings)
        self._index, self._found = KeyIndex(), list[GroupKey]()
        self._shards = set[str]()
        sums, n_dropped = GroupSums(), 0
        for table, source in enumerate(rows.sources):
            own = columns_read(self.keys, table)
            place = place_id(rows, table, 0, own)
            shard = GroupedShard(self._empty, partial(self._place, place))
            for block in rows.source_blocks(table, others=own):
                n_dropped += block.n_read - len(block.features)
                if len(block.features):
                    shard.update(self._grouped(table, block))
            self.close(shard, sums, source.name)
        rows.n_dropped = n_dropped
        return sums

    def _place(self, place: str, number: int) -> str:
        """The place of the rows of a group."""
        return json.dumps([place, self._texts(number)])

    def _grouped(self, table: int, block: RowBlock) -> GroupedRows:
        """The rows of a block with their groups."""
        pieces = dict(zip(columns_read(self.keys, table), block.others, strict=True))
        groups = self._index.numbers([
            key.numbers(table, block, pieces[key.columns[table]] if key.columns else ())
            for key in self.keys
        ])  # fmt: skip
        self._found += [
            tuple([key.values[x] for key, x in zip(self.keys, numbers, strict=True)])
            for numbers in islice(self._index.keys, len(self._found), None)
        ]
        return GroupedRows(block.features, groups)

    def _texts(self, number: int) -> list[str | None]:
        return [None if value is None else str(value) for value in self._found[number]]

    def close(self, shard: Any, sums: GroupSums, name: str) -> None:
        """Add the groups of a part to all others."""
        for number, n_rows, shard_id, data in shard.finish():
            if shard_id in self._shards:
                raise InputError(counted_twice(name))
            self._shards.add(shard_id)
            sums.add(self._found[number], data, n_rows)

    def _named(self, groups: Mapping[GroupKey, bytes]) -> SummaryCube:
        """The cube of groups, by the meanings of the values of their keys."""
        columns = zip(self.keys, zip(*groups, strict=True), strict=True)
        meanings = [key.meanings(set(column)) for key, column in columns]
        sums = GroupSums()
        for key, group in groups.items():
            named = (known.get(x, x) for known, x in zip(meanings, key, strict=True))
            sums.add(tuple(named), group)
        return SummaryCube(self.names, sums.groups())
