"""Rows that are at hand → their summary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from momentmix.capacity import usual_order
from momentmix.errors import InputError, TableWarning, warn_caller
from momentmix.progress import check_asked, erase, row_counter, step
from momentmix.arrays import is_plain_array
from momentmix.rows.columns import Selection
from momentmix.tables.opening import can_open
from momentmix.tables.rows import Rows
from momentmix.rows.reading import Reading
from momentmix.rows.source import Missing, RowSource
from momentmix.tables.validation import as_weights, check_shape
from momentmix.schema.building import EncodedTable, Families, encode_known, encode_table
from momentmix.schema.cells import read_cells
from momentmix.schema.rows import EncodedRows
from momentmix.tables.schema import Schema
from momentmix.schema.sources import encode_rows, needs_pass
from momentmix.summary.parts import Progress, summarize_parts
from momentmix.summary.summary import MomentSummary

_NO_WEIGHTS = "sample_weight needs a single array; call update() for each block."


def summarize(
    rows: Any,
    order: int | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    families: Families = None,
    missing: Missing = "error",
    device: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> MomentSummary:
    """Moments of an array, a data frame or files, or of several tables one after the other.

    Parameters
    ----------
    rows : array or data frame of shape (n_rows, n_features), path, source, or iterator of tables
        Arrays on a device (torch, CuPy, JAX) are summed there, as in `MomentSummary.update`. Also
        lists of rows and dicts of columns. Files are read as by `open_rows`; their summary is that
        of the command ``momentmix summarize``, byte for byte.
    order : int, optional
        Highest order of the products of different features; by default 4, or the number of features
        if that is less. Powers y_j³ … y_j⁶ are kept as well, and with order ≥ 4, or two or three
        features, y_j³·y_k and y_j²·y_k²: see `MomentSummary`.
    sample_weight : array of shape (n_rows,), optional
        Frequencies; for a single array only.
    families : dict, optional
        Family of a column, by name or number: ``"gaussian"``, ``"bernoulli"``, ``"categorical"``,
        ``"poisson"``, ``"log"`` or ``"log1p"``, or a list of the levels of a categorical column. Or
        a `Schema`, as that of another summary, to encode these rows alike. Other columns of tables
        with names are guessed, as by `fit`; a `TableWarning` says which were left out.
    missing : {"error", "drop", "model"}
        What to do with missing cells (NaN, None, NA, masked): refuse them, leave their rows out,
        or keep which cells were seen, by a further feature of the column.
    device : str or torch.device, optional
        Send NumPy rows to this device and sum them there.
    progress : bool, optional
        Whether to show a progress bar on standard error. By default in a terminal or a notebook, if
        the pass takes longer than a second. The environment variable TQDM_DISABLE=1 turns all off.
    **options
        Which columns to take, and how files are read, as for `open_rows`: ``columns``,
        ``exclude``, ``numeric_only``, ``na_values``, ``delimiter``, ``decimal``, ``thousands``,
        ``header``, ``by_name``. Others as for `MomentSummary`.

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
    known = {field.name for field in fields(Reading)}
    reading = Reading(**{name: options.pop(name) for name in list(options) if name in known})
    with step("Summarizing", check_asked(progress)):
        if can_open(rows):
            if sample_weight is not None:
                raise InputError(_NO_WEIGHTS)
            source = reading.open(rows, missing)
            with source.streamed(not needs_pass(source, families, missing)):
                return _of_rows(source, order, families, missing, options)
        elif isinstance(rows, Rows):
            reading.check_nothing("the rows are opened already")
        else:
            reading.check_in_memory()
        if isinstance(rows, Rows):
            if sample_weight is not None:
                raise InputError(_NO_WEIGHTS)
            return _of_rows(rows, order, families, missing, options)
        return _of_blocks(
            [rows] if not hasattr(rows, "__next__") else _counted(rows, sample_weight),
            _Asked(order, families, missing, reading.selection, device, options),
            sample_weight,
        )


def _counted(blocks: Iterable[Any], sample_weight: ArrayLike | None) -> Iterable[Any]:
    """Blocks of an iterator, whose rows are counted for the progress bar."""
    if sample_weight is not None:
        raise InputError(_NO_WEIGHTS)
    count = row_counter(None)
    for block in blocks:
        yield block
        shape = getattr(block, "shape", None)
        count(shape[0] if shape else 0)


# -- files ------------------------------------------------------------------------------------


def _of_rows(
    rows: Rows, order: int | None, families: Families, missing: Missing, options: dict[str, Any]
) -> MomentSummary:
    """The summary of files, or of other rows that are read in blocks."""
    if isinstance(rows, RowSource) or families is not None or missing != "error":
        found = encode_rows(rows, families, missing)
        rows, schema = found.encoded, None if found.schema.is_plain else found.schema
        _warn_of(found.notes)
    else:
        schema = getattr(rows, "schema", None)
    order = usual_order(rows.n_features) if order is None else order
    names = None if schema else rows.feature_names
    options = {"feature_names": names, "schema": schema} | options
    source = rows.rows if isinstance(rows, EncodedRows) else rows
    if isinstance(source, RowSource) and "shard_id" not in options:
        new_shard = partial(MomentSummary, rows.n_features, order, **options)
        state = Progress(new_shard(), 0, 0, 0)
        encode = rows.summand_of if isinstance(rows, EncodedRows) else None
        last = deque(summarize_parts(source, state, new_shard, encode=encode), maxlen=1)
        if not last or not last[0].summary.n_rows:
            raise InputError("rows must hold at least one row; the source gave none.")
        return last[0].summary
    summary: MomentSummary = rows.summarize_into(MomentSummary(rows.n_features, order, **options))
    return summary


# -- tables in memory -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """What `summarize` was told about tables in memory."""

    order: int | None
    families: Families
    missing: Missing
    chosen: Selection
    device: Any
    options: dict[str, Any]

    def new_summary(self, n_features: int, **options: Any) -> MomentSummary:
        order = usual_order(n_features) if self.order is None else self.order
        return MomentSummary(n_features, order, **{**options, **self.options})


def _of_blocks(
    blocks: Iterable[Any], asked: _Asked, sample_weight: ArrayLike | None
) -> MomentSummary:
    """The sum of blocks; the first one says what their columns are."""
    summary: MomentSummary | None = None
    schema: Schema | None = None
    for block in blocks:
        if summary is None:
            if asked.families is None and asked.missing == "error" and is_plain_array(block):
                block = _columns_of(block, asked.chosen)
                summary = asked.new_summary(block.shape[1])
            else:
                table = encode_table(block, asked.families, asked.missing, asked.chosen)
                schema = table.schema
                _warn_of(table.notes)
                names = schema.column_names if schema.is_plain else None
                summary = asked.new_summary(schema.n_features, feature_names=names, schema=schema)
                _add(summary, table, sample_weight, asked.device)
                continue
        if schema is None:
            summary.update(_columns_of(block, asked.chosen), sample_weight, device=asked.device)
        else:
            _add(summary, _encoded(block, schema, asked.missing), sample_weight, asked.device)
    if summary is None:
        raise InputError("rows must hold at least one block; the iterator was empty.")
    return summary


def _warn_of(notes: Sequence[str]) -> None:
    """Say which columns a summary is without, and which it takes for numbers."""
    if notes:
        erase()
        warn_caller(
            f"columns were guessed: {'; '.join(notes)}. Say what they are with families=, or "
            "choose them with columns= or exclude=.",
            TableWarning,
        )


def _columns_of(array: Any, chosen: Selection) -> Any:
    check_shape(array, None)
    return array if chosen.is_all else array[:, chosen.numbers("the array", None, array.shape[1])]


def _add(
    summary: MomentSummary, table: EncodedTable, sample_weight: ArrayLike | None, device: Any
) -> None:
    """Add the rows of a table that are kept."""
    weights = as_weights(sample_weight, len(table.features) + table.n_dropped)
    if weights is not None and table.kept is not None:
        weights = weights[table.kept]
    features = table.features if table.schema.is_plain else table
    summary.update(features, weights, device=device)


def _encoded(block: Any, schema: Schema, missing: Missing) -> EncodedTable:
    """A block that is encoded as the first one was."""
    try:
        table = read_cells(block, schema.column_names, schema.n_columns)
        return encode_known(table, schema, missing)
    except InputError as error:
        raise InputError(
            f"{error} (The first block says how the others are encoded; to let each block have "
            "missing cells of its own, add up summaries of the blocks.)"
        ) from error
