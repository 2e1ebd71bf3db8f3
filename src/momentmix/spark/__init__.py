"""Summaries of Spark data frames: rows stay on the executors, summaries come back.

Each partition becomes shards by `mapInArrow`, executors add these, and the driver adds the rest.
Where a data frame is a plain scan of Parquet files, tasks read these themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines.tasks import Groups, Task, job_for
from momentmix.errors import InputTypeError, needed
from momentmix.rows.source import Missing
from momentmix.schema.building import Families
from momentmix.spark.columns import SparkRows, quoted
from momentmix.spark.jobs import run_job
from momentmix.spark.partitions import RESULT, FileTask, RowTask, add_results, results_of
from momentmix.spark.scans import plain_scan
from momentmix.spark.splits import UnsuitedFileError
from momentmix.summary.summary import MomentSummary

__all__ = ["summarize"]

_SUMS = 8  # tasks that add summaries, at most; the driver adds what they give


@overload
def summarize(
    df: Any,
    order: int | None = None,
    *,
    by: Literal[None] = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    shard_id: str | None = None,
    read_files: bool = True,
) -> MomentSummary: ...


@overload
def summarize(
    df: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str],
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    shard_id: str | None = None,
    read_files: bool = True,
) -> SummaryCube: ...


def summarize(
    df: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    families: Families = None,
    missing: Missing = "error",
    min_rows: int = 1,
    squared_order: int | None = None,
    shard_id: str | None = None,
    read_files: bool = True,
) -> MomentSummary | SummaryCube:
    """Moments of a Spark data frame, or of each group of its rows, in one pass.

    Each partition becomes one shard for every 1,048,576 rows, and with `by` one for each of its
    groups. A task that is run again gives the same bytes if its rows come in the same order, as
    those of files do; in any case every row counts once.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Only the columns that are needed are read.
    order : int, optional
        As for `momentmix.summarize`.
    by : str or sequence of str, optional
        Keys of groups, as for `momentmix.summarize_by`.
    columns, exclude : sequence of str, optional
        Columns to take in this order, by default all that can be features; columns to leave out.
    families : dict or Schema, optional
        As for `momentmix.summarize`. What is not given is guessed from the first rows. Levels of
        text, and with missing="model" columns with missing cells, are found by an aggregation
        before the pass, which a `Schema` saves.
    missing : {"error", "drop", "model"}
        As for `momentmix.summarize`.
    min_rows : int
        With `by`, groups of fewer rows are left out.
    squared_order : int, optional
        As for `MomentSummary`.
    shard_id : str, optional
        Name of the data, which becomes part of the ids of shards. By default equal partitions with
        the same number, of whatever data frames, are the same shard, which counts once only.
    read_files : bool
        Whether tasks read Parquet files with pyarrow where the data frame is nothing but columns
        of such files, and their paths are those of a file system that every executor sees. The
        answer has the same bytes as that from Spark's rows; it takes a fraction of the time.

    Returns
    -------
    MomentSummary, or SummaryCube with `by`

    See Also
    --------
    momentmix.summarize, momentmix.summarize_by : The same in one process.
    """
    needed("pyspark", "momentmix.spark", "spark")
    if not all(hasattr(df, name) for name in ("mapInArrow", "limit", "agg")):
        raise InputTypeError(
            f"rows must be a Spark data frame; got {type(df).__name__}. Rows in this process go to "
            "momentmix.summarize."
        )
    job = job_for(
        SparkRows(df, read_files),
        order,
        by=by,
        columns=columns,
        exclude=exclude,
        families=families,
        missing=missing,
        min_rows=min_rows,
        squared_order=squared_order,
        shard_id=shard_id,
    )
    chosen = df.select(*map(quoted, job.task.sent))
    return job.answer(_collected(chosen, job.task, read_files))


def _collected(rows: Any, task: Task, read_files: bool) -> Groups:
    """The sum of each group; without keys of all rows."""
    scan = plain_scan(rows) if read_files else None
    if scan is not None:
        n_parts = len(scan.partitions)
        numbers = rows.sparkSession.range(0, n_parts, 1, n_parts)
        parts = numbers.mapInArrow(FileTask(task, scan), RESULT)
        with suppress(UnsuitedFileError):  # then Spark's rows; nothing of this job counts
            return results_of(_added(parts, n_parts))
    numbered = rows.toDF(*(f"column{i}" for i in range(len(rows.columns))))
    return results_of(_added(numbered.mapInArrow(RowTask(task), RESULT)))


def _added(parts: Any, n_parts: int | None = None) -> list[Any]:
    """Results of partitions, added by executors where there may be many."""
    if n_parts is None or n_parts > _SUMS:
        context = getattr(parts, "_sc", None)  # of Spark Connect there is none
        n_sums = _SUMS if context is None else min(_SUMS, context.defaultParallelism)
        parts = parts.repartition(n_sums, "place").mapInArrow(add_results, RESULT)
    rows: list[Any] = run_job(parts.collect)
    return rows
