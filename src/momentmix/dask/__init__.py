"""Summaries, fits and lazy predictions of Dask collections.

Rows stay where they are, functions go to them, and what comes back is a summary, the sums of an EM
pass, or a sample of at most 40,000 rows. The steps are those of one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from momentmix.errors import InputError, MissingDependencyError

try:
    import dask.array
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        f"momentmix.dask needs dask and distributed, which are not installed ({error}): "
        "pip install momentmix[dask]"
    ) from None

from momentmix.dask.opening import open_collection
from momentmix.dask.prediction import predict, predict_proba, score_samples
from momentmix.dask.rows import DaskRows
from momentmix.dask.schedule import Schedule
from momentmix.fitting import api as local
from momentmix.fitting.data import AskedBlocks
from momentmix.fitting.result import FitResult
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families
from momentmix.tables.table_rows import Missing

__all__ = ["fit", "predict", "predict_proba", "score_samples", "summarize"]


def summarize(
    data: Any,
    order: int,
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    squared_order: int | None = None,
    shard_id: str | None = None,
    client: Any = None,
    retries: int = 2,
    progress: bool | None = None,
) -> MomentSummary:
    """Moments of rows on a cluster, in one pass.

    Each partition becomes one shard of the summary. Merging is exact, so the bytes depend on the
    partitions alone: not on the number of workers, on which of them did what, or on those that
    were lost meanwhile. A single process that summarizes the same partitions under the same
    shard ids gets the same bytes, given the same processor and BLAS.

    Parameters
    ----------
    data : dask.array, dask.dataframe, path, or list
        A dask.array of shape (n_rows, n_features), in any chunks; a dask.dataframe of numbers; a
        path, folder, glob or list of paths to files that every worker sees (as for `open_rows`:
        the bytes are then those of ``momentmix summarize``); or a list of Delayed or Future
        objects, each a block of rows.
    order : int
        Highest order of the moments.
    columns : sequence of str or int, optional
        Columns to take, in this order; by default all.
    missing, squared_order
        As for `momentmix.summarize`.
    families : dict, optional
        As for `momentmix.summarize`. Levels of categories must be given where partitions may have
        different ones.
    shard_id : str, optional
        Name of the data: partition i becomes the shard ``f"{shard_id}/{i}"``. By default Dask's
        token of the collection, which is the same for the same data and version of Dask; in a list
        each block goes by its own key.
    client : distributed.Client, optional
        By default the current one; without any, Dask's local threads.
    retries : int
        How often a task that raised is tried again. Lost workers do not count.
    progress : bool, optional
        As for `momentmix.summarize`; the bar counts partitions.

    Returns
    -------
    MomentSummary

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> rows = np.arange(12.0).reshape(6, 2) ** 2
    >>> lazy = dask.array.from_array(rows, chunks=(2, 1))
    >>> summary = summarize(lazy, order=2, shard_id="squares")
    >>> summary.n_rows, summary.mean.tolist() == rows.mean(axis=0).tolist()
    (6, True)
    """
    schedule = Schedule(client, retries, progress)
    rows = open_collection(data, schedule, columns, missing, families, shard_id)
    return rows.summary(order, squared_order)


def fit(
    data: Any,
    n_components: int | Literal["auto"],
    order: int | Literal["auto"] = "auto",
    method: Literal["robust", "paper"] = "robust",
    refine: Literal["auto", "em"] | None = "auto",
    random_state: int | np.random.Generator | None = None,
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    blocks: AskedBlocks = None,
    variance_floor: float = 1e-6,
    max_passes: int = 100,
    client: Any = None,
    retries: int = 2,
    progress: bool | None = None,
) -> FitResult:
    """Fit a mixture to rows on a cluster.

    The steps are those of `momentmix.fit`: the moments in one pass, the moment fit in this process,
    then passes over the rows where `refine` asks for them. Each pass computes the collection again;
    ``persist()`` it first where the cluster's memory holds it.

    Parameters
    ----------
    data, columns, missing, families, client, retries, progress
        As for `summarize`. With families, or missing="model", the answer comes from the moments
        alone, without passes over the rows.
    n_components, order, method, refine, random_state, blocks, variance_floor, max_passes
        As for `momentmix.fit`.

    Returns
    -------
    FitResult
        The mixture has the names of a data frame's columns. Standard errors after passes over the
        rows come from the sample of at most 40,000 rows.
    """
    schedule = Schedule(client, retries, progress)
    rows = open_collection(data, schedule, columns, missing, families)
    table: DaskRows | MomentSummary = rows
    if families is not None or missing == "model":
        if refine == "em":
            raise InputError(
                'refine="em" has no passes over rows with families on a cluster. Use '
                'refine="auto": the answer comes from the moments alone.'
            )
        table = rows.summary(4 if order == "auto" else order, None)
    return local.fit(
        table, n_components, order, method, refine, random_state,
        blocks=blocks, variance_floor=variance_floor, max_passes=max_passes, progress=progress,
    )  # fmt: skip
