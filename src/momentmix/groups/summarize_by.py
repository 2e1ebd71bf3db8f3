"""`summarize_by`: rows → one summary for each group, in one pass.

Rows wait until there are many, and are then sorted by group. The sums of a group are those of a
shard of its rows, in one frame for all groups of a table, so that they add up quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import usual_order
from momentmix.groups.cube import SummaryCube, union_of_bytes
from momentmix.groups.keys import GroupKey, parse_keys
from momentmix.progress import step
from momentmix.summary.blocks import (
    OpenShard,
    block_extremes,
    digits_of_sums,
    fits,
    frame_of,
    in_units,
    units_of,
)
from momentmix.summary.digits import QUANTUM_BITS, Frame, from_places, trimmed
from momentmix.summary.file import pack
from momentmix.summary.kernel import block_digits
from momentmix.summary.summarize import shards_of, warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.summary.totals import Totals, as_shard, closed
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import Families, table_rows
from momentmix.tables.opening import Reading, open_sources
from momentmix.tables.source import choose_columns
from momentmix.tables.table_rows import Missing, TableRows

_WAITING_BYTES = 1 << 26  # of rows before they are sorted
_FIRST_ROWS = 1024  # which set the frame of all groups
_SUMS_AT_ONCE = 1 << 18  # of small groups: some megabytes for each step


def summarize_by(
    rows: Any,
    by: str | Sequence[str],
    order: int | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
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
    asked = Reading(**reading)
    with step("Summarizing groups", progress):
        table, cube = grouped(
            rows,
            by,
            order,
            families,
            missing,
            asked,
            squared_order=squared_order,
            n_threads=n_threads,
        )
        warn_of_notes(table.notes)
        return cube


def grouped(
    data: Any,
    by: str | Sequence[str],
    order: int | None,
    families: Families,
    missing: Missing,
    reading: Reading,
    **settings: Any,
) -> tuple[TableRows, SummaryCube]:
    """Rows as features, and their cube, by arguments as of `summarize_by`."""
    reading.check_for(data)
    keys = parse_keys(by)
    if isinstance(data, TableRows):
        missing, reading = data.missing, replace(reading, columns=data.columns[0])
        data = data.sources
    sources = open_sources(data, reading)
    others = choose_columns(sources[0], reading.exclude) if reading.exclude else []
    exclude = {*others, *(key.number(sources[0]) for key in keys)}
    rows = table_rows(sources, families, missing, replace(reading, exclude=[*exclude]))
    order = usual_order(rows.n_features) if order is None else order
    empty = shards_of(rows, order, **settings)()
    names, pieces = [key.name for key in keys], dict[GroupKey, list[bytes]]()
    n_dropped = 0
    for part in rows.parts:
        source = part.sources[0]
        sums = _GroupSums(empty, [source.mark, names])
        for block in part.encoded([key.number(source) for key in keys]):
            pairs = zip(keys, block.others, strict=True)
            values = [key.values(cells, source, block.first_row) for key, cells in pairs]
            sums.add(block, values)
        n_dropped += part.n_dropped
        for key, totals in sums.finish():
            pieces.setdefault(key, []).append(pack(totals))
    rows.n_dropped = n_dropped
    if not pieces:
        raise rows.without_rows()
    return rows, SummaryCube(names, {key: union_of_bytes(some) for key, some in pieces.items()})


class _GroupSums:
    """Exact sums of each group of the rows of one table."""

    def __init__(self, empty: MomentSummary, label: list[Any]) -> None:
        self.state, self.n_threads, self.label = empty._state, empty._n_threads, label
        self.frame = Frame.of_zeros(self.state.layout.n_features)  # of all groups
        self.shards = dict[GroupKey, OpenShard]()
        self.waiting, self.n_bytes = list[tuple[Float, Any]](), 0

    def add(self, block: Encoded, values: Sequence[Any]) -> None:
        """Add rows with these values of each key."""
        import pyarrow as pa

        keys = pa.table(values, names=[str(k) for k in range(len(values))])
        keys = keys if block.kept is None else keys.filter(pa.array(block.kept))
        self.waiting.append((block.features, keys))
        self.n_bytes += block.features.nbytes
        if self.n_bytes >= _WAITING_BYTES:
            self._sort()

    def _sort(self) -> None:
        """Add the rows that wait to their groups, in which they keep their order."""
        import pyarrow as pa

        if not self.waiting:
            return
        pieces, tables = zip(*self.waiting, strict=True)
        self.waiting, self.n_bytes, rows = [], 0, np.concatenate(pieces)
        if not self.shards and len(rows):
            head = np.ascontiguousarray(rows[:_FIRST_ROWS])
            self.frame = frame_of(head, block_extremes(head[None])[0], self.frame)
        table = pa.concat_tables(tables, promote_options="default")  # of cells that are all missing
        names = table.column_names
        table = table.append_column("row", pa.array(np.arange(len(rows))))
        groups = table.group_by(names, use_threads=False).aggregate([("row", "list")])
        numbers = groups["row_list"].combine_chunks()
        rows, ends = rows.take(numbers.values, axis=0), numbers.offsets.to_pylist()
        keys = zip(*(groups[name].to_pylist() for name in names), strict=True)
        for key, start, stop in zip(keys, ends[:-1], ends[1:], strict=True):
            shard = self.shards.get(key)
            if shard is None:
                shard = OpenShard(self.state.layout, None, self.state.row_schema)
                shard.mark = json.dumps([*self.label, key], default=str)
                self.shards[key], shard.frame = shard, self.frame
            shard.update(rows[start:stop], None, self.n_threads)

    def finish(self) -> Iterator[tuple[GroupKey, Totals]]:
        """The sums of all groups; small groups of equal numbers of rows are summed together."""
        self._sort()
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
        shards = [self.shards.pop(key) for key in keys]
        blocks = np.array([np.concatenate([rows for rows, _ in x.waiting]) for x in shards])
        ends, n_rows = block_extremes(blocks), blocks.shape[1]
        near, layout = np.atleast_1d(fits(self.frame, ends).all(axis=1)), self.state.layout
        largest = np.abs(in_units(self.frame, ends[near])).max(axis=(0, 1), initial=0.0)
        n_digits = digits_of_sums(layout, largest, 1.0, n_rows)
        assert n_digits is not None  # rows that fit the frame are near it
        units = units_of(self.frame)
        places = block_digits(layout, blocks[near], None, units, n_digits, each=True)
        digits = from_places(places.swapaxes(0, 1).reshape(n_digits, -1))
        digits = digits.reshape(len(digits), len(places), layout.n_entries)
        number = count()
        for key, shard, is_near, bounds in zip(keys, shards, near, ends, strict=True):
            if is_near:
                own = trimmed(digits[:, next(number)])
                sums = self.frame, own, n_rows << QUANTUM_BITS
                totals = Totals(layout, *sums, n_rows, bounds[0], bounds[1], shard.schema)
                yield key, as_shard(totals, None, shard.mark)
            else:
                yield key, closed(shard)
