"""`summarize_by`: rows → one summary for each group, in one pass.

Rows wait until there are many, and are then sorted by group. The sums of a group are those of a
shard of its rows, in one frame for all groups of a table, so that they add up quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import usual_order
from momentmix.errors import InputError, check_count
from momentmix.groups.cube import SummaryCube, union_of_bytes
from momentmix.groups.keys import GroupKey, Key, parse_keys
from momentmix.progress import check_asked, step
from momentmix.summary.adding import renamed
from momentmix.summary.blocks import (
    OpenShard,
    RowFrame,
    add_digits,
    block_extremes,
    digits_needed,
    frame_of,
)
from momentmix.summary.digits import QUANTUM_BITS, from_places, trimmed
from momentmix.summary.file import pack
from momentmix.summary.state import shard_digest, threads_for
from momentmix.summary.summarize import shards_of, warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.summary.totals import Totals, as_shard, closed, contents_of
from momentmix.tables.learning import Families, learn
from momentmix.tables.opening import Reading, open_sources
from momentmix.tables.selection import choose_columns
from momentmix.tables.source import Source, check_different
from momentmix.tables.table_rows import Missing, TableRows

_WAITING_BYTES = 1 << 26  # of rows before they are sorted
_FIRST_ROWS = 1024  # which set the frame of all groups
_SUMS_AT_ONCE = 1 << 18  # of small groups: some megabytes for each step
_MOST_GROUPS = 1 << 22  # more are names of rows


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
        like (year, quarter, month, week, day, hour) of a column of dates or times. Keys in CSV
        are text. A missing cell is a key too, None.
    order : int, optional
        As for `summarize`.
    families, missing
        As for `summarize`; all groups have the same schema.
    min_rows : int
        Groups of fewer rows are left out.
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
    asked = Reading.of(reading)
    check_count("min_rows", min_rows, 1)
    with step("Summarizing groups", check_asked(progress)):
        table = GroupedTable.open(rows, by, families, missing, asked)
        warn_of_notes(table.rows.notes)
        cube = table.cube(order, squared_order, n_threads)
        return cube.at_least(min_rows) if min_rows > 1 else cube


class GroupedTable:
    """Rows as features, with the keys of their groups."""

    def __init__(self, rows: TableRows, keys: Sequence[Key]) -> None:
        self.rows, self.keys = rows, keys
        self._types: Any = None  # schema of the values of the keys

    @classmethod
    def open(
        cls,
        data: Any,
        by: str | Sequence[str],
        families: Families,
        missing: Missing,
        reading: Reading,
    ) -> GroupedTable:
        """Open rows with arguments as of `summarize_by`; columns of keys are no features."""
        reading.check_for(data)
        keys = parse_keys(by)
        if isinstance(data, TableRows):
            missing, reading = data.missing, replace(reading, columns=data.columns[0])
            data = data.sources
        sources = open_sources(data, reading)
        others = choose_columns(sources[0], reading.exclude) if reading.exclude else []
        exclude = {*others, *(key.number(sources[0]) for key in keys)}
        rows = replace(reading, exclude=[*exclude]).open(sources, missing)
        return cls(learn(rows, families, missing), keys)

    def cube(
        self,
        order: int | None = None,
        squared_order: int | None = None,
        n_threads: int | None = None,
    ) -> SummaryCube:
        """The cube of the rows; `rows.n_dropped` counts the rows that were left out."""
        rows, names = self.rows, [key.name for key in self.keys]
        check_different(rows.sources)
        order = usual_order(rows.n_features) if order is None else order
        empty = shards_of(rows, order, squared_order=squared_order, n_threads=n_threads)()
        pieces = dict[GroupKey, list[bytes]]()
        rows.n_dropped = 0
        for table, source in enumerate(rows.sources):
            for key, totals in self._sums(table, empty):
                totals = replace(totals, names=empty._state.closed.names)
                facts = [source.mark, names, key, contents_of(totals)]
                digest = shard_digest(json.dumps(facts, default=str))
                pieces.setdefault(key, []).append(pack(renamed(totals, digest)))
        if not pieces:
            raise rows.without_rows()
        return SummaryCube(names, {key: union_of_bytes(some) for key, some in pieces.items()})

    def _sums(self, table: int, empty: MomentSummary) -> Iterator[tuple[GroupKey, Totals]]:
        """The exact sums of the groups of one table."""
        import pyarrow as pa

        source, sums = self.rows.sources[table], _GroupSums(empty)
        numbers = [key.number(source) for key in self.keys]
        waiting, n_bytes = list[tuple[Float, Any]](), 0
        for block in self.rows.source_blocks(table, others=numbers):
            self.rows.n_dropped += block.n_read - len(block.features)
            pairs = zip(self.keys, block.others, strict=True)
            values = {key.name: key.values(x, source, block.first_row) for key, x in pairs}
            keys = pa.table(values) if block.kept is None else pa.table(values).filter(block.kept)
            waiting.append((block.features, keys))
            n_bytes += block.features.nbytes
            if n_bytes >= _WAITING_BYTES:
                sums.add(*self._sorted(waiting, source))
                waiting, n_bytes = [], 0
        if waiting:
            sums.add(*self._sorted(waiting, source))
        return sums.finish()

    def _sorted(
        self, blocks: list[tuple[Float, Any]], source: Source
    ) -> tuple[Float, Float, list[GroupKey], list[int]]:
        """All rows; the same by group, in which they keep their order; keys, and ends of groups."""
        import pyarrow as pa

        pieces, tables = zip(*blocks, strict=True)
        known = [] if self._types is None else [self._types]
        try:
            self._types = pa.unify_schemas([*known, *(keys.schema for keys in tables)])
        except pa.ArrowTypeError as error:
            raise InputError(
                f"{source.name}: a key has another type than in the inputs before it, so that the "
                f"same group would have two keys: {error}. Convert one of the columns."
            ) from None
        rows = np.concatenate(pieces)
        table = pa.concat_tables([keys.cast(self._types) for keys in tables])
        names = [str(k) for k in range(table.num_columns)]
        table = table.rename_columns(names).append_column("row", pa.array(np.arange(len(rows))))
        groups = table.group_by(names, use_threads=False).aggregate([("row", "list")])
        keys = zip(*(groups[name].to_pylist() for name in names), strict=True)
        lists = groups["row_list"].combine_chunks()
        return rows, rows.take(lists.values, axis=0), list(keys), lists.offsets.to_pylist()[1:]


class _GroupSums:
    """Exact sums of each group of the rows of one table."""

    def __init__(self, empty: MomentSummary) -> None:
        self.state, self.n_threads = empty._state, empty._n_threads
        self.frame: RowFrame | None = None  # of all groups, from the first rows
        self.shards = dict[GroupKey, OpenShard]()

    def add(self, first: Float, rows: Float, keys: list[GroupKey], ends: list[int]) -> None:
        """Add rows that are sorted by their keys, up to these ends."""
        if self.frame is None and len(first):
            head = np.ascontiguousarray(first[:_FIRST_ROWS])
            self.frame = frame_of(head, block_extremes(head[None])[0])
        for key, start, stop in zip(keys, [0, *ends], ends, strict=False):
            shard = self.shards.get(key)
            if shard is None:
                shard = OpenShard(self.state.layout, bytes(16), self.state.row_schema)
                shard.frame = self.frame
                self.shards[key] = shard
            shard.update(rows[start:stop], None, threads_for(shard, stop - start, self.n_threads))
        if len(self.shards) > _MOST_GROUPS:
            raise InputError(
                f"keys must have at most {_MOST_GROUPS:,} groups; there are more, so that they "
                "name rows. Group by other columns."
            )

    def finish(self) -> Iterator[tuple[GroupKey, Totals]]:
        """The sums of all groups; small groups of equal numbers of rows are summed together."""
        small = dict[int, list[GroupKey]]()
        for key, shard in self.shards.items():
            if shard.n_rows:
                yield key, closed(shard)
            else:
                small.setdefault(shard.n_waiting, []).append(key)
        at_once = max(1, _SUMS_AT_ONCE // self.state.layout.n_entries)
        for keys in small.values():
            for start in range(0, len(keys), at_once):
                yield from self._together(keys[start : start + at_once])

    def _together(self, keys: list[GroupKey]) -> Iterator[tuple[GroupKey, Totals]]:
        assert self.frame is not None
        shards = [self.shards.pop(key) for key in keys]
        blocks = np.array([np.concatenate([rows for rows, _ in x.waiting]) for x in shards])
        ends, n_rows, layout = block_extremes(blocks), blocks.shape[1], self.state.layout
        fits = self.frame.fits(ends).all(axis=1)
        sums = shards[0].executor.sums(blocks[fits], None, self.frame.units)
        places = np.zeros((digits_needed(float(np.abs(sums).max(initial=1.0))), sums.size))
        add_digits(sums.reshape(1, -1), places)
        digits = from_places(places)
        rest = iter(digits.reshape(len(digits), *sums.shape).swapaxes(0, 1))
        near: list[bool] = np.atleast_1d(fits).tolist()
        for key, shard, is_near, bounds in zip(keys, shards, near, ends, strict=True):
            if is_near:
                own = np.ascontiguousarray(trimmed(next(rest)))
                exact = self.frame.frame, own, n_rows << QUANTUM_BITS, n_rows
                totals = Totals(layout, *exact, *bounds)
                yield key, as_shard(totals, self.state.row_schema, bytes(16))
            else:
                yield key, closed(shard)
