"""Summaries, fits and lazy predictions of Dask collections.

Rows stay where they are, functions go to them, and what comes back is a summary, the sums of an EM
pass, or a sample of at most 40,000 rows. The steps are the same as in one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputTypeError, MissingDependencyError

try:
    import dask.array
    import dask.dataframe
    import distributed  # noqa: F401
    import pandas as pd
except ImportError as error:
    raise MissingDependencyError(
        f"momentmix.dask needs dask and distributed, which are not installed ({error}): "
        "pip install momentmix[dask]"
    ) from None

from momentmix.capacity import usual_order
from momentmix.engines.dask_opening import open_at_random, open_collection, whole_rows
from momentmix.engines.dask_rows import DaskRows, named
from momentmix.engines.dask_schedule import Schedule
from momentmix.fitting import api as local
from momentmix.fitting.options import Number
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import Families, rows_to_predict
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows

__all__ = ["fit", "predict", "summarize"]


def summarize(
    data: Any,
    order: int | None = None,
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    squared_order: int | None = None,
    shard_id: str | None = None,
    client: Any = None,
    progress: bool | None = None,
) -> MomentSummary:
    """Moments of rows on a cluster, in one pass.

    Each partition becomes one shard of the summary. Merging is exact, so the bytes depend on the
    partitions alone: not on the number of workers, on which of them did what, or on workers that
    were lost meanwhile. A single process that summarizes the same partitions under the same
    shard ids gets the same bytes, given the same processor and BLAS.

    Parameters
    ----------
    data : dask.array or dask.dataframe
        An array of shape (n_rows, n_features), in any chunks, or a data frame. Files become one by
        ``dask.dataframe.read_parquet``, blocks by ``from_delayed``.
    order : int, optional
        Highest order of the moments, as for `momentmix.summarize`.
    columns : sequence of str or int, optional
        Columns to take, in this order; by default all.
    missing, squared_order
        As for `momentmix.summarize`.
    families : dict, optional
        As for `momentmix.summarize`. Levels of categories must be given where partitions may have
        different ones.
    shard_id : str, optional
        Name of the data: partition i becomes the shard ``f"{shard_id}/{i}"``. By default Dask's
        token of the collection, which is the same for the same data and version of Dask.
    client : distributed.Client, optional
        By default the current one; without any, Dask's local threads.
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
    schedule = Schedule(client, progress)
    rows = open_collection(data, schedule, columns, missing, families, shard_id)
    return rows.summary(_usual(rows) if order is None else order, squared_order)


def fit(
    data: Any,
    n_components: Number = "auto",
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    client: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> FitResult:
    """Fit a mixture to rows on a cluster.

    The steps of `momentmix.fit`: the moments in one pass, the moment fit in this process,
    then passes over the rows. Each pass computes the collection again;
    ``persist()`` it first where the cluster's memory holds it.

    Parameters
    ----------
    data, columns, missing, families, client, progress
        As for `summarize`, and missing="mar" as for `momentmix.fit`. With families, or
        missing="model", the answer comes from the moments alone, without passes over the rows.
    n_components
        As for `momentmix.fit`.
    **options
        ``blocks``, ``max_passes`` and other options of `momentmix.fit`, with its defaults. Rows on
        a cluster take no ``sample_weight``, and no options that say how files are read.

    Returns
    -------
    FitResult
        The mixture has the names of a data frame's columns. Standard errors after passes over the
        rows come from the sample of at most 40,000 rows.
    """
    schedule = Schedule(client, progress)
    if missing == "mar":
        rows = open_at_random(data, schedule, columns, families)
    else:
        rows = open_collection(data, schedule, columns, missing, families)
    table: DaskRows | MomentSummary = rows
    if missing != "mar" and (families is not None or missing == "model"):
        table = rows.summary(_usual(rows), None)
    return local.fit(table, n_components, progress=progress, **options)


def _usual(rows: DaskRows) -> int:
    """Return the order that `momentmix.summarize` takes; 4 where the features are not known yet."""
    return 4 if rows.like is None else usual_order(rows.like.n_features)


def predict(mixture: Mixture | FitResult, data: Any) -> Any:
    """Most probable component of each row, lazily.

    Parameters
    ----------
    mixture : Mixture or FitResult
    data : dask.array of shape (n_rows, n_features), or dask.dataframe
        Columns of a data frame are taken by the mixture's names, where both have any; others are
        left out. Missing values raise when the answer is computed, with partition and row.

    Returns
    -------
    dask.array of shape (n_rows,) or dask.dataframe.Series
        int64, in the chunks of the rows, or with the index and divisions of the data frame under
        the name "label".
    """
    if isinstance(mixture, FitResult):
        mixture = mixture.mixture
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            f"mixture must be a Mixture or a FitResult; got {type(mixture).__name__}."
        )
    is_array = isinstance(data, dask.array.Array)
    if not is_array and not isinstance(data, dask.dataframe.DataFrame):
        raise InputTypeError(
            f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Load files "
            "with dask.dataframe.read_parquet(...), and use the mixture itself for rows in memory."
        )
    data = whole_rows(data) if is_array else data
    example = np.zeros((1, data.shape[1]), data.dtype) if is_array else data._meta
    # Columns of partitions may come in another order than in a mixture without names.
    names = _opened(mixture, example, "the collection").column_names
    mixture = mixture if names is None else mixture.with_feature_names(names)

    def of_array(block: Any, block_id: tuple[int, ...] = (0,)) -> NDArray[np.int64]:
        if not len(block):
            return np.empty(0, np.int64)
        rows = _opened(mixture, block, f"partition {block_id[0]}")
        # Where the mixture has a schema, missing cells are for its density.
        values = mixture.predict(rows.read_all() if mixture.schema is None else rows)
        return np.asarray(values)

    def of_frame(frame: Any, partition_info: dict[str, int] | None = None) -> Any:
        values = of_array(frame, ((partition_info or {"number": 0})["number"],))
        return pd.Series(values, name="label", index=frame.index)

    if not is_array:
        return data.map_partitions(of_frame, meta=of_frame(data._meta.iloc[:0]))
    empty = np.empty(0, np.int64)
    return data.map_blocks(of_array, meta=empty, dtype=np.int64, drop_axis=1)


def _opened(mixture: Mixture, data: Any, name: str) -> TableRows:
    """Return rows with the columns of a mixture; errors name them."""
    schema = Schema(mixture.columns)
    with named(name):
        table = MemoryTable(data, name, schema.column_names)
        return rows_to_predict(schema, table, "the mixture")
