"""What runs on a partition of distributed rows: its record batches → the bytes of its summaries.

All functions are pure. The ids of shards follow from the name of the partition and its rows, so
that a task that runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any

from momentmix.arguments import check_count
from momentmix.capacity import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.keys import KeySpec, Value, parse_keys
from momentmix.cube.passes import CubeProgress
from momentmix.cube.summarize_by import cube_job
from momentmix.engines.columns import EngineRows, found_columns
from momentmix.parallel import few_threads
from momentmix.rows.formats.queries import query_table
from momentmix.rows.reading import Reading
from momentmix.rows.source import Missing, RowSource, check_missing
from momentmix.schema.building import Families
from momentmix.schema.rows import EncodedRows
from momentmix.tables.schema import Schema
from momentmix.schema.sources import encode_rows
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summary import MomentSummary

Groups = dict[tuple[Value, ...], bytes]


@dataclass(frozen=True)
class Task:
    """How every partition is summarized.

    Attributes
    ----------
    schema : Schema
    order : int
    columns : tuple of str
        Of the features.
    by : tuple of str
        Keys; () for one summary of all rows.
    missing : {"error", "drop"}
    shard_id : str or None
    options : dict
        Of `MomentSummary`.
    sent : tuple of str
        Names of the columns that come, in this order: an engine may call them otherwise.
    """

    schema: Schema
    order: int
    columns: tuple[str, ...]
    by: tuple[str, ...]
    missing: Missing
    shard_id: str | None
    options: dict[str, Any]
    sent: tuple[str, ...]

    @property
    def new_shard(self) -> Any:
        """Makes an empty summary."""
        plain = self.schema.is_plain
        return partial(
            MomentSummary, self.schema.n_features, self.order,
            self.schema.column_names if plain else None,
            schema=None if plain else self.schema, **self.options,
        )  # fmt: skip

    def groups(self, batches: Iterable[Any], name: str) -> Groups:
        """Summaries of the partition of this name as bytes, by their keys."""
        source = self._source(batches, name)
        if source is None:
            return {}
        with few_threads(True), source.streamed(True):
            return self._keyed(source) if self.by else self._whole(source)

    def _source(self, batches: Iterable[Any], name: str) -> RowSource | None:
        """The rows as a source that is read once; None where there are none."""
        from pyarrow import RecordBatch, RecordBatchReader

        named = (RecordBatch.from_arrays(b.columns, names=list(self.sent)) for b in batches)
        first = next(named, None)
        if first is None:
            return None
        table = query_table(RecordBatchReader.from_batches(first.schema, chain([first], named)))
        assert table is not None
        table.name = name if self.shard_id is None else f"{name} of {self.shard_id}"
        return self._reading(self.columns).open(table, self.missing)

    def _reading(self, columns: Iterable[str]) -> Reading:
        return Reading(columns=list(columns), by_name=True)

    def _whole(self, source: RowSource) -> Groups:
        rows = encode_rows(source, self.schema, self.missing).encoded
        encode = rows.summand_of if isinstance(rows, EncodedRows) else None
        read = rows.rows if isinstance(rows, EncodedRows) else rows
        assert isinstance(read, RowSource)
        start = Progress(self.new_shard(), 0, 0, 0)
        *_, state = start, *summarize_parts(read, start, self.new_shard, encode=encode)
        return {(): state.summary.to_bytes()} if state.n_rows else {}

    def _keyed(self, source: RowSource) -> Groups:
        specs = parse_keys(self.by)
        reading = self._reading([*self.columns, *(key.column for key in specs)])
        job = cube_job(source, specs, self.schema, self.missing, reading)
        start = CubeProgress()
        *_, state = start, *job.run(start, self.order, self.options)
        return state.sums.groups()


@dataclass(frozen=True)
class Job:
    """What was asked of an engine: the task of its partitions, and what becomes of their sums.

    Attributes
    ----------
    task : Task
    keys : list of KeySpec or None
        None for one summary of all rows.
    min_rows : int
    """

    task: Task
    keys: list[KeySpec] | None
    min_rows: int

    def answer(self, groups: Groups) -> MomentSummary | SummaryCube:
        """The sums of all partitions as a summary, or as a cube."""
        if self.keys is None:
            return MomentSummary.from_bytes(groups[()])
        cube = SummaryCube([key.name for key in self.keys], groups)
        return cube.at_least(self.min_rows) if self.min_rows > 1 else cube


def job_for(
    rows: EngineRows,
    order: int | None,
    *,
    by: str | Sequence[str] | None,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
    min_rows: int,
    squared_order: int | None,
    shard_id: str | None,
) -> Job:
    """The job for the arguments of `summarize`; impossible ones are an error before any work."""
    check_missing(missing)
    check_count("min_rows", min_rows, 1)
    keys = None if by is None else parse_keys(by)
    own = list(dict.fromkeys(key.column for key in keys or ()))
    schema, names = found_columns(rows, own, columns, exclude, families, missing)
    if order is None:
        order = usual_order(schema.n_features)
    options = {"squared_order": squared_order, "n_threads": 1}
    # Cells of columns without the feature "seen" must be there, whatever is asked.
    policy: Missing = "drop" if missing == "drop" else "error"
    sent = tuple(dict.fromkeys([*names, *own]))
    texts = tuple(map(str, keys or ()))
    task = Task(schema, order, names, texts, policy, shard_id, options, sent)
    task.new_shard()
    return Job(task, keys, min_rows)


# -- keys as text -----------------------------------------------------------------------------


def packed(key: tuple[Value, ...]) -> str:
    """Values of keys as text.

    Examples
    --------
    >>> packed(("EU", date(2026, 1, 5), 3, None))
    '["EU", {"date": "2026-01-05"}, 3, null]'
    """
    values: list[Any] = []
    for value in key:
        if isinstance(value, datetime):
            values.append({"time": value.isoformat()})
        elif isinstance(value, date):
            values.append({"date": value.isoformat()})
        else:
            values.append(value)
    return json.dumps(values)


def unpacked(text: str) -> tuple[Value, ...]:
    """Values of keys from text.

    Examples
    --------
    >>> unpacked(packed((date(2026, 1, 5), datetime(2026, 1, 5, 7), True, "x")))
    (datetime.date(2026, 1, 5), datetime.datetime(2026, 1, 5, 7, 0), True, 'x')
    """
    values: list[Value] = []
    for value in json.loads(text):
        if isinstance(value, dict):
            ((kind, written),) = value.items()
            read = date.fromisoformat if kind == "date" else datetime.fromisoformat
            values.append(read(written))
        else:
            values.append(value)
    return tuple(values)
