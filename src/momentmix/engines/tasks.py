"""What `summarize` of an engine does: record batches of a partition → bytes of summaries → sums.

What runs on partitions is pure. The ids of shards follow from the name of the partition and its
rows, so that a task that runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypedDict, Unpack

from momentmix.arguments import check_count
from momentmix.capacity import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.keys import GroupKey, KeySpec, parse_keys
from momentmix.cube.passes import CubeProgress, GroupSums
from momentmix.cube.summarize_by import cube_job
from momentmix.engines.columns import EngineRows, found_columns
from momentmix.errors import InputError, InputTypeError, MomentmixError
from momentmix.parallel import few_threads
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families, rows_with
from momentmix.tables.opening import Reading, open_table
from momentmix.tables.schema import Schema
from momentmix.tables.source import Source
from momentmix.tables.table_rows import Missing, check_missing

Groups = dict[GroupKey, bytes]


@dataclass(frozen=True)
class Task:
    """How every partition is summarized.

    Attributes
    ----------
    schema : Schema
    order : int
    columns : tuple of str
        Of the features.
    keys : list of KeySpec
        [] for one summary of all rows.
    missing : {"error", "drop"}
    shard_id : str or None
    options : dict
        Of `MomentSummary`.
    """

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
        failures: list[Exception] = []
        try:
            source = self._source(_watched(batches, failures), name)
            if source is None:
                return {}
            with few_threads(True):
                return self._keyed(source) if self.keys else self._whole(source)
        except MomentmixError as error:
            if failures:
                raise failures[0] from error  # not by the rows: the engine tries again
            raise

    def _source(self, batches: Iterable[Any], name: str) -> Source | None:
        """The rows as a source that is read once; None where there are none."""
        from pyarrow import RecordBatch, RecordBatchReader

        named = (RecordBatch.from_arrays(b.columns, names=self.sent) for b in batches)
        first = next(named, None)
        if first is None:
            return None
        reader = RecordBatchReader.from_batches(first.schema, chain([first], named))
        (source,) = open_table(reader)
        source.name = name if self.shard_id is None else f"{name} of {self.shard_id}"
        return source

    @property
    def _reading(self) -> Reading:
        return Reading(columns=self.columns, by_name=True)

    def _whole(self, source: Source) -> Groups:
        opened = self._reading.open([source], self.missing)
        opened.plan(once=True)
        rows = rows_with(self.schema, opened, drops=self.missing == "drop")
        start = Progress(self.new_shard(), 0, 0, 0)
        *_, state = start, *summarize_parts(rows, start, self.new_shard)
        return {(): state.summary.to_bytes()} if state.n_rows else {}

    def _keyed(self, source: Source) -> Groups:
        job = cube_job([source], self.keys, self.schema, self.missing, self._reading)
        start = CubeProgress()
        *_, state = start, *job.run(start, self.order, self.options)
        return state.sums.groups()


def _watched(batches: Iterable[Any], failures: list[Exception]) -> Iterator[Any]:
    """Batches; the error that ends them is kept, which Arrow would turn into one of its own."""
    try:
        yield from batches
    except Exception as error:
        failures.append(error)
        raise


class Engine(EngineRows, Protocol):
    """Rows of an engine, which can run a task on them."""

    @property
    def parts(self) -> str:
        """What the engine calls parts of its rows, for messages."""

    def groups(self, task: Task) -> Groups:
        """The sum of each group over all parts, with `result_rows` and `added`."""


class Options(TypedDict, total=False):
    """Keywords of `summarize` of each engine, besides `by`."""

    columns: Sequence[str] | None
    exclude: Sequence[str] | None
    families: Families
    missing: Missing
    min_rows: int
    squared_order: int | None
    shard_id: str | None


def summarize_rows(
    rows: Engine, order: int | None, by: str | Sequence[str] | None, **options: Unpack[Options]
) -> MomentSummary | SummaryCube:
    """What `summarize` of an engine gives; impossible arguments are an error before any work."""
    missing, min_rows = options["missing"], options["min_rows"]
    check_missing(missing)
    check_count("min_rows", min_rows, 1)
    keys = [] if by is None else parse_keys(by)
    own = list(dict.fromkeys(key.column for key in keys))
    asked = (options["columns"], options["exclude"], options["families"])
    schema, names = found_columns(rows, own, *asked, missing)
    task = Task(
        schema,
        usual_order(schema.n_features) if order is None else order,
        names,
        keys,
        # Cells of columns without the feature "seen" must be there, whatever is asked.
        "drop" if missing == "drop" else "error",
        options["shard_id"],
        {"squared_order": options["squared_order"], "n_threads": 1},
    )
    task.new_shard()
    groups = rows.groups(task)
    if not groups:
        raise InputError(f"rows must hold at least one row; all {rows.parts} are empty.")
    if not keys:
        return MomentSummary.from_bytes(groups[()])
    cube = SummaryCube([key.name for key in keys], groups)
    return cube.at_least(min_rows) if min_rows > 1 else cube


def check_rows(rows: Any, kind: str, *methods: str) -> None:
    """Raise unless rows have the methods of this kind."""
    if not all(hasattr(rows, name) for name in methods):
        raise InputTypeError(
            f"rows must be a {kind}; got {type(rows).__name__}. Rows in this process go to "
            "momentmix.summarize."
        )


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
