"""Summaries of Spark data frames: rows stay on the executors, summaries come back.

Each partition becomes shards by `mapInArrow`, executors add these, and the driver adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Unpack, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines import adapter
from momentmix.errors import needed
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import LOOKED_AT

__all__ = ["summarize"]

_SUMS = 8  # tasks that add summaries, at most; the driver adds what they give


@overload
def summarize(
    df: Any, order: int | None = None, *, by: None = None, **options: Unpack[adapter.Options]
) -> MomentSummary: ...


@overload
def summarize(
    df: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str],
    **options: Unpack[adapter.Options],
) -> SummaryCube: ...


def summarize(
    df: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str] | None = None,
    **options: Unpack[adapter.Options],
) -> MomentSummary | SummaryCube:
    """Moments of a Spark data frame, or of each group of its rows, in one pass.

    Each partition becomes one shard for every 1,048,576 rows, and with `by` one for each of its
    groups. A task that is run again gives the same bytes if its rows come in the same order, as
    rows of files do; in any case every row counts once.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Only the columns that are needed are read.
    by, min_rows
        Keys of groups, and the fewest rows of a group to keep, as for `momentmix.summarize_by`.
    order, squared_order, columns, exclude, families, missing
        As for `momentmix.summarize`. Families are guessed from the first rows. Levels of text, and
        with missing="model" columns with missing cells, are found by an aggregation before, which
        a `Schema` saves.
    shard_id : str, optional
        Name of the data, which becomes part of the ids of shards. By default equal partitions with
        the same number, of whatever data frames, are the same shard, which counts once only.

    Returns
    -------
    MomentSummary, or SummaryCube with `by`
    """
    needed("pyspark", "momentmix.spark needs pyspark", "momentmix[spark]")
    adapter.check_rows(df, "Spark data frame", "mapInArrow", "limit", "agg")
    return adapter.summarize(_SparkRows(df), order, by, **options)


@dataclass(frozen=True)
class _SparkRows:
    """The rows of a data frame, as an `Engine`."""

    df: Any
    name = "the data frame"
    parts = "partitions"

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.df.columns)

    def head(self, names: Sequence[str]) -> Any:
        """The first rows as an Arrow table, from as few partitions as have them.

        They come as Python objects: to convert them to Arrow, Spark would read whole partitions.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = self.df.select(*map(_quoted, names))
        schema = to_arrow_schema(rows.schema)
        with _job():
            first = rows.limit(LOOKED_AT).collect()
        columns = zip(*first, strict=True) if first else [[] for _ in schema]
        arrays = [pa.array(x, field.type) for x, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def met(self, names: Sequence[str], listed: Sequence[str]) -> list[tuple[bool, Sequence[Any]]]:
        """Missing cells and levels of all rows, by an aggregation."""
        from pyspark.sql import functions

        types, wanted = dict(self.df.dtypes), []
        for name in names:
            column = functions.col(_quoted(name))
            is_missing = column.isNull()
            if types[name] in ("float", "double"):
                is_missing = is_missing | functions.isnan(column)
            levels = functions.collect_set(column) if name in listed else functions.array()
            wanted += [functions.max(is_missing), levels]
        aliased = [column.alias(f"column{i}") for i, column in enumerate(wanted)]
        with _job():
            (met,) = self.df.agg(*aliased).collect()
        return list(zip(map(bool, met[::2]), met[1::2], strict=True))

    def groups(self, task: adapter.Task) -> adapter.Groups:
        """The sum of each group: executors add the results of partitions, the driver theirs."""
        chosen = self.df.select(*map(_quoted, task.sent))
        numbered = chosen.toDF(*(f"column{i}" for i in range(len(task.sent))))
        types = ", ".join(map(" ".join, adapter.RESULT.items()))
        results = numbered.mapInArrow(lambda batches: _of_partition(task, batches), types)
        context = getattr(results, "_sc", None)  # of Spark Connect there is none
        n_sums = _SUMS if context is None else min(_SUMS, context.defaultParallelism)
        placed = results.repartition(n_sums, "key" if task.keys else "part")
        with _job():
            return adapter.added(placed.mapInArrow(_of_results, types).collect())


def _of_partition(task: adapter.Task, batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches of a partition → its results."""
    from pyspark import TaskContext

    part = f"partition {TaskContext.get().partitionId()}"
    return _sent(adapter.result_rows(part, lambda: task.groups(batches, part)))


def _of_results(batches: Iterable[Any]) -> Iterator[Any]:
    """Results of partitions → one for each group."""
    rows = (row for batch in batches for row in batch.to_pylist())
    return _sent(adapter.result_rows("sum", lambda: adapter.added(rows)))


def _sent(rows: Iterable[Any]) -> Iterator[Any]:
    """Results in batches of their own: together they may be larger than a batch can be."""
    import pyarrow as pa

    return (pa.RecordBatch.from_pylist([row], pa.schema(adapter.RESULT.items())) for row in rows)


def _quoted(name: str) -> str:
    """A name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _job() -> AbstractContextManager[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    needs = "executor needs momentmix (PYSPARK_PYTHON names its Python)"
    return adapter.running("Spark", (PySparkException, Py4JError), needs)
