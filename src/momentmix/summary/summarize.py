"""Rows that are at hand → their summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from momentmix.errors import InputError
from momentmix.rows.arrays import is_foreign
from momentmix.rows.protocol import Rows
from momentmix.rows.validation import as_device_rows, as_rows, as_weights
from momentmix.schema.building import EncodedTable, Families, Missing, encode_table
from momentmix.schema.rows import encode_rows
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary


def summarize(
    rows: Any,
    order: int,
    sample_weight: ArrayLike | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
    device: Any = None,
    **options: Any,
) -> MomentSummary:
    """Moments of an array, a data frame, or several of them one after the other.

    Parameters
    ----------
    rows : array or data frame of shape (n_rows, n_features), an iterator of these, or `open_rows`
        Arrays on a device (torch, CuPy, JAX) are summed there, as in `MomentSummary.update`. With
        families or missing cells also lists of rows and dicts of columns.
    order : int
        Highest order of the products of different features. Powers y_j³ … y_j⁶ are kept as well,
        and with order ≥ 4, or two or three features, y_j³·y_k and y_j²·y_k²: see `MomentSummary`.
    sample_weight : array of shape (n_rows,), optional
        Frequencies; for a single array only.
    families : dict, optional
        Family of each column that is not gaussian, by name or number: ``"bernoulli"``,
        ``"categorical"``, ``"poisson"``, or a list of the levels of a categorical column;
        ``"log"`` or ``"log1p"`` to sum up log(y) or log(1 + y) of a column. Or the `schema` of
        another summary, to encode these rows alike.
    missing : {"error", "drop", "model"}
        What to do with missing cells (NaN, None, NA, masked): refuse them, leave their rows out,
        or keep which cells were seen, by a further feature of the column.
    device : str or torch.device, optional
        Send NumPy rows to this device and sum them there.
    **options
        As for `MomentSummary`.

    Examples
    --------
    >>> import numpy as np
    >>> summarize(np.eye(4), order=2, shard_id="identity").variance.tolist()
    [0.1875, 0.1875, 0.1875, 0.1875]
    >>> table = {"age": [31.0, None, 40.0], "plan": ["gold", "basic", "gold"]}
    >>> summary = summarize(table, 2, families={"plan": "categorical"}, missing="model")
    >>> summary.feature_names
    ('age', 'age seen', 'plan=gold')
    """
    if isinstance(rows, Rows):
        return _of_rows(rows, order, sample_weight, families, missing, options)
    blocks: Iterable[Any] = [rows]
    if hasattr(rows, "__next__"):
        if sample_weight is not None:
            raise InputError("sample_weight needs a single array; call update() for each block.")
        blocks = rows
    if families is not None or missing != "error":
        return _encoded(blocks, order, sample_weight, families, missing, device, options)
    summary = None
    for block in blocks:
        if summary is None:
            if is_foreign(block):
                array, names = as_device_rows(block, None), None
            else:
                array, names = as_rows(block, None)
            options = {"feature_names": names, **options}
            summary = MomentSummary(array.shape[1], order, **options)
        summary.update(block, sample_weight, device=device)
    return _made(summary)


def _of_rows(
    rows: Rows,
    order: int,
    sample_weight: ArrayLike | None,
    families: Families,
    missing: Missing,
    options: dict[str, Any],
) -> MomentSummary:
    """The summary of files, or of other rows that are read in blocks."""
    if sample_weight is not None:
        raise InputError("sample_weight needs a single array; call update() for each block.")
    if families is not None or missing != "error":
        rows = encode_rows(rows, families, missing)
    schema = getattr(rows, "schema", None)
    options = {"feature_names": None if schema else rows.feature_names, "schema": schema} | options
    summary: MomentSummary = rows.summarize_into(MomentSummary(rows.n_features, order, **options))
    return summary


def _made(summary: MomentSummary | None) -> MomentSummary:
    if summary is None:
        raise InputError("rows must hold at least one block; the iterator was empty.")
    return summary


def _encoded(
    blocks: Iterable[Any],
    order: int,
    sample_weight: ArrayLike | None,
    families: Families,
    missing: Missing,
    device: Any,
    options: dict[str, Any],
) -> MomentSummary:
    """The summary of blocks that are encoded by the schema of the first one."""
    summary, schema = None, None
    for block in blocks:
        table = _table(block, families, missing, schema)
        if summary is None:
            schema = table.schema
            names = schema.column_names if schema.is_plain else None
            options = {"feature_names": names, "schema": schema, **options}
            summary = MomentSummary(schema.n_features, order, **options)
        weights = as_weights(sample_weight, len(table.features) + table.n_dropped)
        if weights is not None and table.kept is not None:
            weights = weights[table.kept]
        features = table.features if table.schema.is_plain else table
        summary.update(features, weights, device=device)
    return _made(summary)


def _table(block: Any, families: Families, missing: Missing, schema: Schema | None) -> EncodedTable:
    if schema is None:
        return encode_table(block, families, missing)
    try:
        return encode_table(block, schema, missing)
    except InputError as error:
        raise InputError(
            f"{error} (The first block says how the others are encoded; to let each block have "
            "missing cells of its own, add up summaries of the blocks.)"
        ) from error
