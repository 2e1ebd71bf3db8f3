"""Components and densities of rows, as lazy collections cut like the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from momentmix.dask.opening import whole_rows
from momentmix.dask.partitions import named
from momentmix.errors import InputTypeError
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.tables.learning import rows_to_predict
from momentmix.tables.memory import MemoryTable
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import TableRows


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
    return _lazy(data, mixture, "predict", "label", np.int64)


def predict_proba(mixture: Mixture | FitResult, data: Any) -> Any:
    """Posterior probability of each component, lazily.

    Parameters
    ----------
    mixture, data
        As for `predict`.

    Returns
    -------
    dask.array of shape (n_rows, n_components) or dask.dataframe
        float64; the columns of a data frame are probability_0, probability_1, …
    """
    return _lazy(data, mixture, "predict_proba")


def score_samples(mixture: Mixture | FitResult, data: Any) -> Any:
    """Log-density of each row, lazily.

    Parameters
    ----------
    mixture, data
        As for `predict`.

    Returns
    -------
    dask.array of shape (n_rows,) or dask.dataframe.Series
        float64, under the name "log_density".
    """
    return _lazy(data, mixture, "score_samples", "log_density")


def _lazy(
    data: Any, mixture: Any, method: str, name: str | None = None, dtype: type = np.float64
) -> Any:
    """A method of the mixture for the rows of each partition."""
    if isinstance(mixture, FitResult):
        mixture = mixture.mixture
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            f"mixture must be a Mixture or a FitResult; got {type(mixture).__name__}."
        )
    is_array = isinstance(data, da.Array)
    if not is_array and not isinstance(data, dd.DataFrame):
        raise InputTypeError(
            f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Load files "
            "with dask.dataframe.read_parquet(...), and use the mixture itself for rows in memory."
        )
    data = whole_rows(data) if is_array else data
    example = np.zeros((1, data.shape[1]), data.dtype) if is_array else data._meta
    names = _opened(mixture, example, "the collection").column_names
    mixture = mixture if names is None else mixture.with_feature_names(names)
    made = _Made(mixture, method, name, dtype)
    if not is_array:
        return data.map_partitions(made.of_frame, meta=made.of_frame(data._meta.iloc[:0]))
    shape = {"drop_axis": 1} if name else {"chunks": (data.chunks[0], (mixture.n_components,))}
    meta: NDArray[Any] = np.empty((0,) if name else (0, 0), dtype)
    return data.map_blocks(made.of_array, meta=meta, dtype=dtype, **shape)


@dataclass(frozen=True)
class _Made:
    """A method of a mixture for each partition; `name` is the column that it gives, if it is one.

    The mixture gets the names of the collection, if it has none: the columns of partitions may come
    in another order.
    """

    mixture: Mixture
    method: str
    name: str | None
    dtype: type

    def of_array(self, block: Any, block_id: tuple[int, ...] = (0,)) -> NDArray[Any]:
        """Return values of the rows of a block."""
        mixture = self.mixture
        if not len(block):
            return np.empty((0,) if self.name else (0, mixture.n_components), self.dtype)
        rows = _opened(mixture, block, f"partition {block_id[0]}")
        # Where the mixture has a schema, missing cells are for its density.
        values = getattr(mixture, self.method)(rows.read_all() if mixture.schema is None else rows)
        return np.asarray(values)

    def of_frame(self, frame: Any, partition_info: dict[str, int] | None = None) -> Any:
        """Return values of the rows of a frame, with its index."""
        values = self.of_array(frame, ((partition_info or {"number": 0})["number"],))
        if self.name is not None:
            return pd.Series(values, name=self.name, index=frame.index)
        names = [f"probability_{i}" for i in range(values.shape[1])]
        return pd.DataFrame(values, columns=names, index=frame.index)


def _opened(mixture: Mixture, data: Any, name: str) -> TableRows:
    """Return rows with the columns of a mixture; errors name them."""
    schema = Schema(mixture.columns)
    with named(name):
        table = MemoryTable(data, name, schema.column_names)
        return rows_to_predict(schema, table, "the mixture")
