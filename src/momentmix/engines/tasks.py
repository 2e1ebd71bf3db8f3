"""Tasks of engines: record batches of a partition → bytes of summaries → sums.

Tasks are pure. The ids of shards follow from the name of the partition and its rows, so that a task
that runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any

from momentmix.cube.keys import GroupKey, KeySpec
from momentmix.cube.summarize_by import CubeProgress, GroupSums, cube_job
from momentmix.errors import InputError, MomentmixError
from momentmix.parallel import few_threads
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import rows_with
from momentmix.tables.opening import Reading, open_table
from momentmix.tables.schema import Schema
from momentmix.tables.source import Source
from momentmix.tables.table_rows import Missing

Groups = dict[GroupKey, bytes]


@dataclass(frozen=True)
class Task:
    """How every partition is summarized: by `keys`, or with [] as one summary of all rows."""

    schema: Schema
    order: int
    columns: tuple[str, ...]
    keys: list[KeySpec]
    missing: Missing
    shard_id: str | None
    options: dict[str, Any]

    @property
    def sent(self) -> list[str]:
        """Names of the columns that come, in this order: an engine may call them otherwise."""
        return list(dict.fromkeys([*self.columns, *(key.column for key in self.keys)]))

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
        from pyarrow import RecordBatch, RecordBatchReader

        failures: list[Exception] = []
        watched = _watched(batches, failures)
        named = (RecordBatch.from_arrays(b.columns, names=self.sent) for b in watched)
        try:
            first = next(named, None)
            if first is None:
                return {}
            reader = RecordBatchReader.from_batches(first.schema, chain([first], named))
            (source,) = open_table(reader)
            source.name = name if self.shard_id is None else f"{name} of {self.shard_id}"
            with few_threads(True):
                return self._summarized(source)
        except MomentmixError as error:
            if failures:
                raise failures[0] from error  # not by the rows: the engine tries again
            raise

    def _summarized(self, source: Source) -> Groups:
        reading = Reading(columns=self.columns, by_name=True)
        if self.keys:
            job = cube_job([source], self.keys, self.schema, self.missing, reading)
            cubes = CubeProgress()
            *_, cubes = cubes, *job.run(cubes, self.order, self.options)
            return cubes.sums.groups()
        opened = reading.open([source], self.missing)
        opened.plan(once=True)
        rows = rows_with(self.schema, opened, drops=self.missing == "drop")
        state = Progress(self.new_shard(), 0, 0, 0)
        *_, state = state, *summarize_parts(rows, state, self.new_shard)
        return {(): state.summary.to_bytes()} if state.n_rows else {}


def _watched(batches: Iterable[Any], failures: list[Exception]) -> Iterator[Any]:
    """Batches; the error that ends them is kept, which Arrow would turn into one of its own."""
    try:
        yield from batches
    except Exception as error:
        failures.append(error)
        raise


# -- results as rows of an engine -------------------------------------------------------------

RESULT = {"part": "string", "key": "string", "summary": "binary", "error": "string"}


def result_rows(part: str, work: Callable[[], Groups]) -> Iterator[dict[str, str | bytes]]:
    """What a task gives for the part of this name: a row for each group.

    What rows are refused for is a row as well: an engine would try a task again that raises.
    """
    try:
        groups = work()
    except MomentmixError as error:
        yield {"part": part, "error": str(error)}
        return
    for key, summary in groups.items():
        yield {"part": part, "key": packed(key), "summary": summary}


def added(rows: Iterable[Any]) -> Groups:
    """The sum of each group of results; the first refusal is raised."""
    sums = GroupSums()
    for row in rows:
        if row["error"] is not None:
            raise InputError(row["error"])
        sums.add(unpacked(row["key"]), bytes(row["summary"]))
    return sums.groups()


def packed(key: GroupKey) -> str:
    """Values of keys as text.

    Examples
    --------
    >>> packed(("EU", date(2026, 1, 5), 3, None))
    '["EU", {"date": "2026-01-05"}, 3, null]'
    """
    return json.dumps(key, default=lambda day: {type(day).__name__: day.isoformat()})


def unpacked(text: str) -> GroupKey:
    """Values of keys from text.

    Examples
    --------
    >>> unpacked(packed((date(2026, 1, 5), datetime(2026, 1, 5, 7), True, "x")))
    (datetime.date(2026, 1, 5), datetime.datetime(2026, 1, 5, 7, 0), True, 'x')
    """

    def day_of(written: dict[str, str]) -> date:
        ((kind, day),) = written.items()
        return {"date": date, "datetime": datetime}[kind].fromisoformat(day)

    return tuple(json.loads(text, object_hook=day_of))
