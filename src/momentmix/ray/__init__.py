"""Summaries of Ray datasets: rows stay on the workers, summaries come back.

Each block becomes a shard by `map_batches`, and this process adds the shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Literal, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines.tasks import job_for
from momentmix.errors import InputTypeError, needed
from momentmix.ray.blocks import BlockTask, add_results
from momentmix.ray.datasets import RayRows, rows_of
from momentmix.rows.source import Missing
from momentmix.schema.building import Families
from momentmix.summary.summary import MomentSummary

__all__ = ["summarize"]


@overload
def summarize(
    dataset: Any,
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
) -> MomentSummary: ...


@overload
def summarize(
    dataset: Any,
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
) -> SummaryCube: ...


def summarize(
    dataset: Any,
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
    """Moments of a Ray dataset, or of each group of its rows, in one pass.

    Each block becomes one shard for every 1,048,576 rows, and with `by` one for each of its
    groups. Ids of shards follow from the rows of the block, so that the bytes of the answer depend
    on the blocks alone: not on their order, nor on the workers, nor on those that were lost.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Only the columns that are needed are read.
    order : int, optional
        As for `momentmix.summarize`.
    by : str or sequence of str, optional
        Keys of groups, as for `momentmix.summarize_by`.
    columns, exclude : sequence of str, optional
        Columns to take in this order, by default all that can be features; columns to leave out.
    families : dict or Schema, optional
        As for `momentmix.summarize`. What is not given is guessed from the first rows. Levels of
        text, and with missing="model" columns with missing cells, are found in a pass before,
        which a `Schema` saves.
    missing : {"error", "drop", "model"}
        As for `momentmix.summarize`.
    min_rows : int
        With `by`, groups of fewer rows are left out.
    squared_order : int, optional
        As for `MomentSummary`.
    shard_id : str, optional
        Name of the data, which becomes part of the ids of shards. By default equal blocks of two
        datasets are the same shard, which counts once only; those of one dataset all count.

    Returns
    -------
    MomentSummary, or SummaryCube with `by`

    See Also
    --------
    momentmix.summarize, momentmix.summarize_by : The same in one process.
    """
    needed("ray", "momentmix.ray", "ray")
    if not all(hasattr(dataset, name) for name in ("map_batches", "select_columns", "iter_rows")):
        raise InputTypeError(
            f"rows must be a Ray dataset; got {type(dataset).__name__}. Rows in this process go to "
            "momentmix.summarize."
        )
    job = job_for(
        RayRows(dataset),
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
    with closing(rows_of(dataset, job.task.sent, BlockTask(job.task))) as results:
        groups = add_results(results)  # where it raises, the run ends at once
    return job.answer(groups)
