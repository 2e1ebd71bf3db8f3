"""Summaries of Ray datasets: rows stay on the workers, summaries come back.

Each block becomes a shard by `map_batches`, and this process adds the shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines.tasks import Options, check_rows, summarize_rows
from momentmix.errors import needed
from momentmix.ray.datasets import RayRows
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families
from momentmix.tables.table_rows import Missing

__all__ = ["summarize"]


@overload
def summarize(
    dataset: Any, order: int | None = None, *, by: Literal[None] = None, **options: Unpack[Options]
) -> MomentSummary: ...


@overload
def summarize(
    dataset: Any, order: int | None = None, *, by: str | Sequence[str], **options: Unpack[Options]
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
    check_rows(dataset, "Ray dataset", "map_batches", "select_columns", "iter_rows")
    return summarize_rows(
        RayRows(dataset),
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
