"""`summarize` of an engine: find the columns, run a task on each partition, add the results.

Tasks are pure: record batches of a partition → bytes of summaries. The ids of shards follow from
the name of the partition and its rows, so that a task that runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypedDict

from momentmix.capacity.ranks import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.keys import GroupKey, KeySpec, parse_keys
from momentmix.cube.summarize_by import GroupSums, cube_job
from momentmix.errors import ClusterError, InputError, InputTypeError, MomentmixError, check_count
from momentmix.parallel import few_threads
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.cells import column_cells
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import Families, Found, has_levels, learn, rows_with
from momentmix.tables.names import match_names, place_of
from momentmix.tables.opening import Reading, open_table
from momentmix.tables.schema import Schema
from momentmix.tables.source import FileSource, Source
from momentmix.tables.table_rows import Missing, TableRows, check_missing, keeps_gaps

Groups = dict[GroupKey, bytes]
RESULT = {"part": "string", "key": "string", "summary": "binary", "error": "string"}


class Engine(Protocol):
    """Rows of an engine. `name` and `parts` are what messages call them and their partitions."""

    name: str
    parts: str

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""

    def head(self, names: Sequence[str]) -> Any:
        """Up to `LOOKED_AT` first rows of columns as a pyarrow.Table."""

    def met(self, names: Sequence[str], listed: Sequence[str]) -> list[tuple[bool, Sequence[Any]]]:
        """Of each column whether cells are missing in any row, and if it is listed its levels."""

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


def summarize(
    rows: Engine,
    order: int | None,
    by: str | Sequence[str] | None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    shard_id: str | None = None,
) -> MomentSummary | SummaryCube:
    """Return the moments of rows, or a cube; impossible arguments are an error before any work."""
    check_missing(missing)
    check_count("min_rows", min_rows, 1)
    keys = [] if by is None else parse_keys(by)
    schema, names = _schema(rows, [key.column for key in keys], columns, exclude, families, missing)
    task = Task(
        schema,
        usual_order(schema.n_features) if order is None else order,
        names,
        keys,
        # Cells of columns without the feature "seen" must be there in any case.
        "drop" if missing == "drop" else "error",
        shard_id,
        {"squared_order": squared_order, "n_threads": 1},
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


@contextmanager
def running(engine: str, failures: tuple[type[Exception], ...], needs: str) -> Iterator[None]:
    """Turn `failures` of a job of an engine into a `ClusterError` with what workers need."""
    try:
        yield
    except failures as error:
        raise ClusterError(
            f"the {engine} job failed: {reason_of(error)} No part of an answer is given. Correct "
            f"what the task reports; every {needs}."
        ) from error


def reason_of(error: Exception) -> str:
    r"""Return the last line of the message with the name of an error, else the first line.

    >>> reason_of(RuntimeError("task 3 failed\n  OSError: the disk is full\n  in line 7"))
    'OSError: the disk is full.'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [x for x in lines if x.partition(":")[0].endswith("Error") and " at " not in x]
    text = (python[-1:] or lines[:1] or [type(error).__name__])[0]
    return text if text.endswith(".") else f"{text}."


# -- columns -----------------------------------------------------------------------------------


def _schema(
    rows: Engine,
    keys: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
) -> tuple[Schema, tuple[str, ...]]:
    """Return what columns become, given or guessed from the first rows, and their names."""
    names = rows.columns
    for name in [*keys, *(columns or ())]:
        place_of(name, names, f"{rows.name} has no column")
    for name in columns or names:
        if names.count(name) > 1:
            raise InputError(
                f"names of columns must differ; {name!a} is repeated. Rename one of them."
            )
    taken = [name for name in (columns or names) if name not in keys]
    if isinstance(families, Schema):
        places = match_names(families.column_names or taken, taken, "the schema", others=True)
        return families, tuple(taken[j] for j in places)
    head = rows.head(taken)
    if not head.num_rows:
        raise InputError(f"rows must hold at least one row; {rows.name} is empty.")
    left_out = [name for name in exclude or () if name not in keys] or None
    reading = Reading(columns=None if columns is None else taken, exclude=left_out)
    opened = reading.open([MemoryTable(head, rows.name)], missing)
    learned = learn(opened, families, find=partial(_found, rows))
    warn_of_notes(learned.notes)
    return learned.learned, learned.column_names or ()


def _found(
    rows: Engine, opened: TableRows, families: Mapping[int, Any], missing: Missing, rare: float
) -> list[Found]:
    """Find levels and missing cells of all rows by an aggregation, numbers of the first rows."""
    names, head = opened.column_names or (), opened.head()
    assert head is not None
    kinds = opened.kinds
    with_levels = [has_levels(families.get(j)) and k.kind != "bool" for j, k in enumerate(kinds)]
    listed = [name for name, is_listed in zip(names, with_levels, strict=True) if is_listed]
    met: list[tuple[bool, Sequence[Any]]] = [(False, ())] * len(names)
    if listed or keeps_gaps(missing):
        met = rows.met(names, listed)
    found = []
    for j, (is_missing, levels) in enumerate(met):
        own, label = Found(kinds[j], families.get(j)), f"{rows.name}, column {names[j]!a}"
        own.add(column_cells(sorted(levels), label) if with_levels[j] else head[j], label)
        own.has_missing = is_missing
        found.append(own)
    return found


# -- what runs on a partition ------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Task that summarizes every partition: by `keys`, or with [] as one summary of all rows."""

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

        def named() -> Iterator[Any]:
            try:
                for batch in batches:
                    yield RecordBatch.from_arrays(batch.columns, names=self.sent)
            except Exception as error:  # Arrow would turn it into one of its own
                failures.append(error)
                raise

        given = named()
        try:
            first = next(given, None)
            if first is None:
                return {}
            reader = RecordBatchReader.from_batches(first.schema, chain([first], given))
            (source,) = open_table(reader)
            source.name = name if self.shard_id is None else f"{name} of {self.shard_id}"
            if isinstance(source, FileSource):
                source.expect(source.stamp())
                vars(source)["mark"] = source.name  # equal parts are different data
            with few_threads(True):
                return self._summarized(source)
        except MomentmixError as error:
            if failures:
                raise failures[0] from error  # not by the rows: the engine tries again
            raise

    def _summarized(self, source: Source) -> Groups:
        reading = Reading(columns=self.columns)
        if self.keys:
            job = cube_job([source], self.keys, self.schema, self.missing, reading)
            cubes = Progress(GroupSums())
            *_, cubes = cubes, *job.run(cubes, self.order, self.options)
            groups: Groups = cubes.summary.groups()
            return groups
        opened = reading.open([source], self.missing)
        rows = rows_with(self.schema, opened, drops=self.missing == "drop")
        state = Progress(self.new_shard(), 0, 0, 0)
        *_, state = state, *summarize_parts(rows, state, self.new_shard)
        return {(): state.summary.to_bytes()} if state.n_rows else {}


# -- results as rows of an engine --------------------------------------------------------------


def result_rows(part: str, work: Callable[[], Groups]) -> Iterator[dict[str, str | bytes]]:
    """Return the rows of a task for the part of this name: one for each group, or an error."""
    try:
        groups = work()
    except MomentmixError as error:
        yield {"part": part, "error": str(error)}
        return
    for key, summary in groups.items():
        text = json.dumps(key, default=lambda day: {type(day).__name__: day.isoformat()})
        yield {"part": part, "key": text, "summary": summary}


def added(rows: Iterable[Any]) -> Groups:
    """The sum of each group of results; the first refusal is raised."""
    sums = GroupSums()
    for row in rows:
        if row["error"] is not None:
            raise InputError(row["error"])
        sums.add(tuple(json.loads(row["key"], object_hook=_day)), bytes(row["summary"]))
    return sums.groups()


def _day(written: dict[str, str]) -> date:
    ((kind, day),) = written.items()
    return {"date": date, "datetime": datetime}[kind].fromisoformat(day)
