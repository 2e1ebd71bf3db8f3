"""`summarize` of an engine: find the columns, run a task on each partition, add the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypedDict

from momentmix.capacity import usual_order
from momentmix.cube.cube import SummaryCube
from momentmix.cube.keys import parse_keys
from momentmix.engines.tasks import Groups, Task
from momentmix.errors import ClusterError, InputError, InputTypeError, check_count
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.cells import column_cells
from momentmix.tables.learning import Families, Found, has_levels, learn
from momentmix.tables.memory import MemoryTable
from momentmix.tables.names import match_names
from momentmix.tables.opening import Reading
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows, check_missing


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
    key_columns = list(dict.fromkeys(key.column for key in keys))
    schema, names = _schema(rows, key_columns, columns, exclude, families, missing)
    task = Task(
        schema,
        usual_order(schema.n_features) if order is None else order,
        names,
        keys,
        # Cells of columns without the feature "seen" must be there, whatever is asked.
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
    """Turn `failures` of a job of an engine into a `ClusterError` that says what workers need."""
    try:
        yield
    except failures as error:
        raise ClusterError(
            f"the {engine} job failed: {reason_of(error)} No part of an answer is given. Correct "
            f"what the task reports; every {needs}."
        ) from error


def reason_of(error: Exception) -> str:
    r"""Return the last line of the message with the name of an error, else the first line.

    Examples
    --------
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
    rows: Engine, opened: TableRows, families: Mapping[int, Any], missing: Missing, rare: float
) -> list[Found]:
    """Find levels and missing cells of all rows by an aggregation, numbers of the first rows."""
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
