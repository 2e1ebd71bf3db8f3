"""Summaries of Spark data frames: rows stay on the executors, summaries come back.

Each partition becomes shards by `mapInArrow`, executors add these, and the driver adds the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines.tasks import Options, check_rows, summarize_rows
from momentmix.errors import needed
from momentmix.spark.frames import SparkRows
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families
from momentmix.tables.table_rows import Missing

__all__ = ["summarize"]


@overload
def summarize(
    df: Any, order: int | None = None, *, by: Literal[None] = None, **options: Unpack[Options]
) -> MomentSummary: ...


@overload
def summarize(
    df: Any, order: int | None = None, *, by: str | Sequence[str], **options: Unpack[Options]
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

    Returns
    -------
    MomentSummary, or SummaryCube with `by`

    See Also
    --------
    momentmix.summarize, momentmix.summarize_by : The same in one process.
    """
    needed("pyspark", "momentmix.spark", "spark")
    check_rows(df, "Spark data frame", "mapInArrow", "limit", "agg")
    return summarize_rows(
        SparkRows(df),
        order,
        by,
        columns=columns,
        exclude=exclude,
        families=families,
        missing=missing,
        min_rows=min_rows,
        squared_order=squared_order,
        shard_id=shard_id,
    )
