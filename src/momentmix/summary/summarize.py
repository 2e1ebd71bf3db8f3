"""Rows that are at hand → their summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from momentmix.arrays import is_plain_array
from momentmix.capacity import usual_order
from momentmix.errors import FitWarning, InputError, ShardError, read_more, warn_caller
from momentmix.progress import step
from momentmix.summary.summary import MomentSummary, named_by_contents
from momentmix.tables.learning import Families, table_rows
from momentmix.tables.opening import READ_ALL, Reading, can_open
from momentmix.tables.rows import ArrayRows, Rows
from momentmix.tables.source import counted_twice
from momentmix.tables.table_rows import Missing, TableRows
from momentmix.tables.validation import as_weights, check_shape, ordered_weights

NewShard = Callable[..., MomentSummary]  # of shard_id, optional: an empty summary


def summarize(
    rows: Any,
    order: int | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
    progress: bool | None = None,
    **options: Any,
) -> MomentSummary:
    """Moments of an array, a data frame or files.

    Parameters
    ----------
    rows : array or data frame of shape (n_rows, n_features), path or source
        Tensors of torch are summed on their device, as in `MomentSummary.update`. Also lists of
        rows and dicts of columns. Files are read as by `open_rows`; their summary is that
        of the command ``momentmix summarize``, byte for byte.
    order : int, optional
        Highest order of the products of different features; by default 4, or the number of features
        if that is less. Higher powers are kept as well: see `MomentSummary`.
    sample_weight : array of shape (n_rows,), optional
        Frequencies, as for `MomentSummary.update`; for a single array only.
    families : dict, optional
        Family of a column, by name or number, or a list of the levels of a categorical column, as
        in `fit`. Or a `Schema`, as that of another summary, to encode these rows alike. Other
        columns of tables with names are guessed, as by `fit`; a `FitWarning` says which were
        left out.
    missing : {"error", "drop", "model"}
        What to do with missing cells (NaN, None, NA, masked): refuse them, leave their rows out,
        or keep which cells were observed, by a further feature of the column.
    progress : bool, optional
        Whether to show a progress bar on standard error. By default in a terminal or a notebook, if
        the pass takes longer than a second. The environment variable TQDM_DISABLE=1 turns all off.
    **options
        Which columns to take, and how files are read, as for `open_rows`: ``columns``,
        ``exclude``, ``na_values``, ``delimiter``, ``decimal``, ``header``. Others
        as for `MomentSummary`.

    Examples
    --------
    >>> import numpy as np
    >>> summarize(np.eye(4), order=2, shard_id="identity").variance.tolist()
    [0.1875, 0.1875, 0.1875, 0.1875]
    >>> table = {"age": [31.0, None, 40.0], "plan": ["gold", "basic", "gold"]}
    >>> summary = summarize(table, 2, missing="model")
    >>> summary.feature_names
    ('age', 'age seen', 'plan=gold')
    """
    names = {field.name for field in fields(Reading)}
    reading = Reading(**{name: options.pop(name) for name in list(options) if name in names})
    with step("Summarizing", progress):
        if sample_weight is not None and (isinstance(rows, Rows) or can_open(rows)):
            raise InputError("sample_weight needs a single array; call update() for each block.")
        weights = ordered_weights(sample_weight, rows)
        opened = _opened(rows, families, missing, reading)
        summary = _of_rows(opened, order, weights, options)
        return summary if "shard_id" in options else named_by_contents(summary)


def _opened(data: Any, families: Families, missing: Missing, reading: Reading) -> Rows:
    """Rows as features: arrays of numbers as they are, tables by their schema."""
    if isinstance(data, Rows) and not isinstance(data, TableRows):
        reading.check_nothing("the rows are opened already")
        if families is None and missing == "error":
            return data
        raise InputError(
            "families and missing need a table; these are rows of numbers. Open the table with "
            "open_rows, or leave them out."
        )
    if families is None and missing == "error" and reading == READ_ALL and is_plain_array(data):
        check_shape(data, None)
        return ArrayRows(data)
    rows = table_rows(data, families, missing, reading)
    warn_of_notes(rows.notes)
    return rows


def _of_rows(
    rows: Rows, order: int | None, sample_weight: ArrayLike | None, options: dict[str, Any]
) -> MomentSummary:
    """The summary of rows: in parts where they are files, else as one shard."""
    order = usual_order(rows.n_features) if order is None else order
    new_shard = shards_of(rows, order, **options)
    if isinstance(rows, ArrayRows):
        return new_shard().update(rows.rows, sample_weight)
    if not isinstance(rows, TableRows):
        summary: MomentSummary = rows.summarize_into(new_shard())
        return summary
    if rows.sources[0].in_memory or "shard_id" in options:
        summary = new_shard()
        _add_rows(summary, rows, sample_weight)
    else:
        summary = summarize_parts(rows, new_shard)
    if not summary.n_rows:
        raise rows.without_rows()
    return summary


def _add_rows(
    summary: MomentSummary, rows: TableRows, sample_weight: ArrayLike | None = None
) -> None:
    """Add rows of a table to a summary."""
    weights = as_weights(sample_weight, rows.expected_rows or 0)
    for block in rows.encoded():
        weights_of_block = None
        if weights is not None:
            weights_of_block = weights[block.first_row : block.first_row + block.n_read]
            weights_of_block = (
                weights_of_block if block.kept is None else weights_of_block[block.kept]
            )
        if len(block.features):
            summary.update(rows.summand(block.features), weights_of_block)


def shards_of(rows: Rows, order: int, **options: Any) -> NewShard:
    """Return what makes empty summaries of such rows, with the same settings for every shard."""
    names = None if rows.schema else rows.feature_names
    fixed = {"feature_names": names, "schema": rows.schema, **options}
    return partial(MomentSummary, rows.n_features, order, **fixed)


def summarize_parts(rows: TableRows, new_shard: NewShard) -> MomentSummary:
    """The sum of all tables; `rows.n_dropped` counts the rows that were left out."""
    total, n_dropped = new_shard(), 0
    for part in rows.parts:
        shard, source = new_shard(), part.sources[0]
        for block in part.blocks():
            shard.update(rows.summand(block))
        n_dropped += part.n_dropped
        try:
            total = total + named_by_contents(shard, source.mark)
        except ShardError as error:
            raise InputError(counted_twice(source.name)) from error
    rows.n_dropped = n_dropped
    return total


def warn_of_notes(notes: Sequence[str]) -> None:
    """Say which columns a summary is without, and which it takes for numbers."""
    if notes:
        warn_caller(
            f"columns were guessed: {'; '.join(notes)} (families= says what they are, columns= and "
            f"exclude= choose them; {read_more('warnings')}).",
            FitWarning,
        )
