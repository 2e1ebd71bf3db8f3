"""Components and densities of rows, as lazy collections cut like the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from momentmix.dask.opening import whole_rows
from momentmix.dask.partitions import named_table
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.rows.columns import column_keys
from momentmix.names import names_for
from momentmix.tables.opening import open_rows

RowFunction = Callable[[NDArray[np.float64]], NDArray[Any]]


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
    mixture = _mixture(mixture)
    return _lazy(mixture, data, mixture.predict, np.dtype(np.int64), ["label"], False)


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
    mixture = _mixture(mixture)
    names = [f"probability_{i}" for i in range(mixture.n_components)]
    return _lazy(mixture, data, mixture.responsibilities, np.dtype(np.float64), names, True)


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
    mixture = _mixture(mixture)
    return _lazy(mixture, data, mixture.log_prob, np.dtype(np.float64), ["log_density"], False)


def _mixture(mixture: Any) -> Mixture:
    if isinstance(mixture, FitResult):
        return mixture.mixture
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            f"mixture must be a Mixture or a FitResult; got {type(mixture).__name__}."
        )
    return mixture


def _lazy(
    mixture: Mixture,
    data: Any,
    function: RowFunction,
    dtype: np.dtype[Any],
    names: list[str],
    wide: bool,
) -> Any:
    """``function`` of the rows of each partition, a table where `wide`."""
    if isinstance(data, da.Array):
        array = whole_rows(data)
        if array.shape[1] != mixture.n_features:
            raise InputError(
                f"rows must have {mixture.n_features} columns, one for each feature of the "
                f"mixture; the dask.array has {array.shape[1]}. Select them."
            )
        shape = {"chunks": (array.chunks[0], (len(names),))} if wide else {"drop_axis": 1}
        meta = np.empty((0, 0) if wide else (0,), dtype=dtype)
        return array.map_blocks(_of_array, function, meta=meta, dtype=dtype, **shape)
    if isinstance(data, dd.DataFrame):
        columns = None if mixture.schema is not None else _columns(mixture, data)
        plain = pd.DataFrame({name: pd.Series(dtype=dtype) for name in names})
        meta = plain.set_axis(data._meta.index, axis=0)
        return data.map_partitions(
            _of_frame, function, columns, names, wide, meta=meta if wide else meta[names[0]]
        )
    raise InputTypeError(
        f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Load files "
        "with dask.dataframe.read_parquet(...), and use the mixture itself for rows in memory."
    )


def _columns(mixture: Mixture, data: Any) -> list[str | int]:
    """Columns of a data frame that the mixture needs, checked before any work."""
    table = named_table(data._meta, "the collection")
    expected, names = mixture.feature_names, table.column_names
    if expected is None or names is None:  # labels 0, 1, 2, … mean positions, as in a plain array
        if table.n_columns != mixture.n_features:
            raise InputError(
                f"rows must have {mixture.n_features} columns, one for each feature of the "
                f"mixture; the dask.dataframe has {table.n_columns}. Select them."
            )
        expected = None if names is None else names_for(None, names)
    columns: list[str | int] = list(expected or names or range(table.n_columns))
    return column_keys(table, open_rows(table, columns).columns[0])


def _rows(block: Any, columns: list[str | int] | None, number: int) -> NDArray[np.float64]:
    """Checked rows of a partition; an error names it."""
    return open_rows(named_table(block, f"partition {number}"), columns).read_all()


def _of_array(block: Any, function: RowFunction, block_id: tuple[int, ...] = (0,)) -> Any:
    if _has_schema(function):
        return function(np.asarray(block)) if len(block) else np.zeros(0)
    return function(_rows(block, None, block_id[0]) if len(block) else np.asarray(block))


def _has_schema(function: RowFunction) -> bool:
    """Whether rows go to a mixture of a table with families, which encodes them itself."""
    return getattr(getattr(function, "__self__", None), "schema", None) is not None


def _of_frame(
    frame: Any,
    function: RowFunction,
    columns: list[str | int] | None,
    names: list[str],
    wide: bool,
    partition_info: dict[str, int] | None = None,
) -> Any:
    number = 0 if partition_info is None else partition_info["number"]
    if columns is None:  # the mixture's own schema takes columns by name
        values = function(frame) if len(frame) else np.zeros((0, len(names)) if wide else 0)
    else:
        values = function(_rows(frame, columns, number))
    if wide:
        return pd.DataFrame(values, columns=names, index=frame.index)
    return pd.Series(values, name=names[0], index=frame.index)
