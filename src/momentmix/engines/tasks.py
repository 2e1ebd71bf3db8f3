"""What `summarize` of an engine does: record batches of a partition → bytes of summaries → sums.

What runs on partitions is pure. The ids of shards follow from the name of the partition and its
rows, so that a task that runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from momentmix.errors import InputError, InputTypeError, MomentmixError
from momentmix.parallel import few_threads
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.cells import column_cells
from momentmix.tables.learning import Families, Found, has_levels, learn, rows_with
from momentmix.tables.memory import MemoryTable
from momentmix.tables.names import match_names
from momentmix.tables.opening import Reading, open_table
from momentmix.tables.schema import Schema
from momentmix.tables.source import Source
from momentmix.tables.table_rows import Missing, TableRows, check_missing

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


class EngineRows(Protocol):
    """Rows of an engine, as far as the guess of columns needs them."""

    @property
    def name(self) -> str:
        """What the engine calls them, for messages."""

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""

    def head(self, names: Sequence[str]) -> Any:
        """Up to `LOOKED_AT` first rows of columns as a pyarrow.Table."""

    def met(self, names: Sequence[str], listed: Sequence[str]) -> list[tuple[bool, Sequence[Any]]]:
        """Of each column whether cells are missing in any row, and if it is listed its levels."""


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


# -- columns -----------------------------------------------------------------------------------


def found_columns(
    rows: EngineRows,
    keys: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
) -> tuple[Schema, tuple[str, ...]]:
    """What columns become, by a schema or guessed from the first rows; and their names.

    Parameters
    ----------
    rows : EngineRows
    keys : sequence of str
        Columns of keys, which are no features.
    columns, exclude, families, missing
        As for `momentmix.summarize`.
    """
    names = rows.columns
    for name in [*keys, *(columns or ())]:
        if name not in names:
            listed = ", ".join(map(ascii, names[:20]))
            raise InputError(f"{rows.name} has no column {name!a}; it has {listed}.")
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
    rows: EngineRows, opened: TableRows, families: Mapping[int, Any], missing: Missing, rare: float
) -> list[Found]:
    """What all rows hold: levels and missing cells by an aggregation, numbers of the first rows."""
    names, head = opened.column_names or (), opened.head()
    assert head is not None
    found = [Found(kind, families.get(j)) for j, kind in enumerate(opened.kinds)]
    with_levels = [
        has_levels(families.get(j)) and kind.kind != "bool" for j, kind in enumerate(opened.kinds)
    ]
    listed = [name for name, is_listed in zip(names, with_levels, strict=True) if is_listed]
    met = (
        [(False, ())] * len(names) if not listed and missing != "model" else rows.met(names, listed)
    )
    for j, (own, (is_missing, levels)) in enumerate(zip(found, met, strict=True)):
        label = f"{rows.name}, column {names[j]!a}"
        own.add(column_cells(sorted(levels), label) if with_levels[j] else head[j], label)
        own.has_missing = is_missing
    return found
