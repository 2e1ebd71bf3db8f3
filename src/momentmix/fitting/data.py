"""The data of a fit: rows, a summary of rows, or standardized moments → features and a schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from momentmix.arrays import is_plain_array, is_tensor, physical_memory
from momentmix.errors import InputError, InputTypeError
from momentmix.families.column import Column
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks, blocks_from
from momentmix.summary.file import is_summary_file
from momentmix.summary.summary import MomentSummary, read_in
from momentmix.tables.learning import Families, table_rows
from momentmix.tables.memory import as_device_rows, as_rows
from momentmix.tables.names import column_label
from momentmix.tables.opening import READ_ALL, Reading, path_list
from momentmix.tables.rows import ArrayRows, BlockRows, Rows, with_weights
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import Missing, TableRows, check_missing
from momentmix.tables.validation import LARGEST_TO_FIT, as_weights, check_sizes, check_values
from momentmix.wording import NEED_ROWS, NO_MAR, option, plural

AskedBlocks = Sequence[Sequence[int | str]] | Literal["auto", "diag", "full"] | None

SHARE_IN_MEMORY = 0.125  # of the memory: rows of files that take more are read for each pass
_SMALLEST_DEVIATION = 1e-151  # its square, times the usual variance floor, is a float64 number


@dataclass(frozen=True)
class Table:
    """The data of a fit as features, and notes on what was done to columns and rows."""

    data: Rows | StandardMoments
    schema: Schema | None = None
    notes: tuple[str, ...] = ()
    may_count: tuple[int, ...] = ()  # columns of whole numbers that nobody named a family of


def table_of(
    data: Any,
    families: Families = None,
    missing: Missing = "error",
    reading: Reading = READ_ALL,
    sample_weight: Any = None,
) -> Table:
    """Rows wherever they are, or a summary of rows, as features; arguments as for `fit`."""
    check_missing(missing)
    if isinstance(data, MomentSummary):
        return _table_of_summary(data, families, missing, reading, sample_weight)
    asks_nothing = families is None and missing == "error" and reading == READ_ALL
    has_blocks = hasattr(data, "blocks") and hasattr(data, "n_features")
    has_blocks &= not isinstance(data, TableRows)
    notes: tuple[str, ...] = getattr(data, "notes", ())
    if asks_nothing and (has_blocks or is_plain_array(data)):
        rows = rows_of(data)
    elif not has_blocks:
        rows, sample_weight, notes = _read(data, families, missing, reading, sample_weight)
    else:
        raise InputTypeError(
            "families, missing and columns need a table in memory, an array or a data frame, or "
            f"rows that mm.open_rows opened; got {type(data).__name__}. Summarize its parts with "
            "mm.summarize(part, families=…, missing=…) and fit the sum of these."
        )
    may_count = rows.may_count
    if sample_weight is not None:
        rows = with_weights(rows, sample_weight)
    return Table(rows, rows.schema, notes, may_count)


def _read(
    data: Any, families: Families, missing: Missing, reading: Reading, sample_weight: Any
) -> tuple[Rows, Any, tuple[str, ...]]:
    """Rows of a table, in memory where they take little of it; their weights, and notes."""
    rows = table_rows(data, families, missing, reading)
    n_bytes = SHARE_IN_MEMORY * physical_memory()
    if rows.sources[0].in_memory:
        n_bytes = np.inf
    elif isinstance(data, TableRows):
        n_bytes = 0.0
    held = rows.read_within(n_bytes) if n_bytes else None
    if held is None:
        return rows, sample_weight, rows.notes
    features, kept = held
    if not len(features):
        raise rows.without_rows()
    check_values(features, rows.feature_names, largest=LARGEST_TO_FIT)
    notes = rows.notes
    if kept is not None:
        n_dropped = int((~kept).sum())
        notes += (f"{n_dropped} row{plural(n_dropped)} with missing cells left out",)
        weights = as_weights(sample_weight, len(kept))
        sample_weight = None if weights is None else weights[kept]
    array = ArrayRows(features, feature_names=rows.feature_names, schema=rows.schema)
    array.dropped, array.may_count = rows.dropped, rows.may_count
    return array, sample_weight, notes


def rows_of(data: Any) -> Rows:
    """Rows that can be read again: a source or an array on a device as it is, else as float64."""
    if isinstance(data, Rows):
        return data
    if hasattr(data, "blocks") and hasattr(data, "n_features"):
        return BlockRows(data)
    if is_tensor(data):
        return ArrayRows(as_device_rows(data, None))
    array, names = as_rows(data, None)
    check_values(array, names, largest=LARGEST_TO_FIT)
    return ArrayRows(np.asarray(array, dtype=np.float64), feature_names=names)


# -- summaries --------------------------------------------------------------------------------


def _table_of_summary(
    data: MomentSummary, families: Families, missing: Missing, reading: Reading, sample_weight: Any
) -> Table:
    columns = () if data.schema is None else data.schema.columns
    if missing == "mar" and any(column.has_missing for column in columns):
        raise InputError(NO_MAR)
    if sample_weight is not None:
        raise InputError(
            "sample_weight goes with rows; a summary holds the weights of its rows. Pass them "
            "to MomentSummary.update or mm.summarize, or pass the rows."
        )
    replace(reading, columns=None).check_nothing("a summary holds moments")
    if reading.columns is not None:
        data = data.select(reading.columns)
    if families is not None and families != data.schema:
        raise InputError(
            f"a summary holds the families of its columns; leave {option(families=...)} out, or "
            "give it when the rows are summarized."
        )
    return Table(moments_of(data), data.schema)


def is_summary_path(data: Any) -> bool:
    """Whether these are paths of summaries; an error where some are and others are not."""
    paths = path_list(data)
    are_summaries = [is_summary_file(path) for path in paths]
    if any(are_summaries) and not all(are_summaries):
        raise InputError(
            f"{paths[are_summaries.index(True)]} is a summary and "
            f"{paths[are_summaries.index(False)]} is not; give summaries or data files, not both."
        )
    return any(are_summaries)


def load_summaries(paths: Sequence[str]) -> MomentSummary:
    """The sum of the summaries in files."""
    total, *others = (MomentSummary.load(path) for path in paths)
    for other in others:
        total = total + other
    return total


def moments_of(data: MomentSummary) -> StandardMoments:
    """The standardized moments of a summary."""
    data = data.copy()  # one state for all that follows, whatever other threads add meanwhile
    if data.n_rows:
        check_sizes(data.minimum, data.maximum, data.feature_names)
    view = data.moments()
    constant = (data.deviation == 0) | (data.minimum == data.maximum)
    scale = np.where(constant & (view.scale < _SMALLEST_DEVIATION), 1.0, view.scale)
    # Wide tables of a low order are fitted faster and as well without all moments of degree 4.
    is_complete = view.order >= 4 or view.n_features < 4
    cubed, two_squares = (view.cubed, view.two_squares) if is_complete else (None, None)
    moments = StandardMoments(
        view.n_features, view.order, view.distinct, view.squared, view.n_rows,
        data.effective_rows, view.shift, scale, data.minimum, data.maximum, constant,
        data.feature_names, powers=view.powers, cubed=cubed, two_squares=two_squares,
    )  # fmt: skip
    _check_spread(moments, data.feature_names)
    return moments


def _check_spread(moments: StandardMoments, feature_names: Sequence[str] | None) -> None:
    """Raise where a column varies so little that its variance is no float64 number."""
    # Below about 1e-316 the exact sums see no spread; the bounds do.
    spread = np.where(moments.constant, moments.maximum - moments.minimum, moments.scale)
    small = np.flatnonzero((spread > 0) & (spread < _SMALLEST_DEVIATION))
    if small.size:
        column = int(small[0])
        size = max(abs(moments.minimum[column]), abs(moments.maximum[column]))
        unit = 10.0 ** min(300, -int(np.log10(spread[column])))
        raise InputError(
            f"columns to be fitted must have a standard deviation of at least "
            f"{_SMALLEST_DEVIATION:g}, since variances are its square; "
            f"{column_label(column, feature_names)} has {spread[column]:.3g}, and values up to "
            f"{size:.3g}. Rescale the column: multiply it by a constant such as {unit:g}."
        )


def block_word(asked: Any) -> str:
    """The word that stands for blocks; empty where columns are named, or nothing is asked."""
    return asked if isinstance(asked, str) else ""


def known_blocks(asked: AskedBlocks, n_features: int, names: Sequence[str] | None) -> Blocks | None:
    """Blocks of all columns; None where the fit is to find them."""
    word = block_word(asked)
    if word == "auto":
        return None
    return blocks_from(() if asked is None or word == "diag" else asked, n_features, names)


def feature_blocks(blocks: Any, table: Table) -> Any:
    """Blocks of columns, by number or name, as blocks of features by number."""
    schema, has_rows = table.schema, isinstance(table.data, Rows)
    if block_word(blocks) == "full":
        blocks = [list(range(table.data.n_features))]
        if schema is not None:
            blocks = [[i for i, column in enumerate(schema.columns) if column.model.joins]]
    if schema is None or blocks is None or isinstance(blocks, str):
        return blocks
    joined = blocks_from(blocks, schema.n_columns, schema.column_names).joined
    for number in (j for block in joined for j in block):
        column, label = schema.columns[number], column_label(number, schema.column_names)
        if not column.model.joins:
            raise InputError(
                f"columns of a block must be gaussian; {label} is {column.family}. Take it out of "
                "the block."
            )
        if column.has_missing and not has_rows:
            raise InputError(
                f"from moments alone, columns of a block must have no missing cells; {label} has "
                f"some. Take it out of the block, drop such rows: {option(missing='drop')}, or "
                f"{NEED_ROWS}."
            )
    return [[schema.features_of(j)[0] for j in block] for block in joined]


# -- rows → moments ---------------------------------------------------------------------------


def summary_of(rows: Rows, order: int, squared_order: int, n_threads: int) -> MomentSummary:
    """Summary of rows in one pass."""
    names = rows.feature_names if rows.schema is None else None
    schema = None if rows.schema is None else rows.schema.at_random(False)
    empty = MomentSummary(
        rows.n_features, order, names, squared_order, n_threads=n_threads, schema=schema
    )
    summary: MomentSummary = rows.summarize_into(empty)
    return summary if schema is None else read_in(summary, schema)  # as the rows are encoded


def summarized(
    data: Any, order: int, n_threads: int, most_squared: int = 2
) -> tuple[StandardMoments, MomentSummary]:
    """Standardized moments of rows up to `order`, in one pass, and the summary of the rows."""
    rows = rows_of(data)
    squared_order = max(0, min(most_squared, order - 1))
    summary = summary_of(rows, order, squared_order, n_threads)
    moments = moments_of(summary)
    if rows.row_counts is not None:
        moments = replace(moments, counted=rows.n_counted)
        if rows.is_frequency:
            n = rows.row_counts.sum()
            moments = replace(moments, n_rows=int(n), n_effective=float(n))
    return moments, summary


# -- options ----------------------------------------------------------------------------------


def families_of(schema: Schema) -> dict[str | int, Any]:
    """Families of all columns, as `fit` takes them."""
    names: Iterable[str | int] = schema.column_names or range(schema.n_columns)
    return {name: _family(column) for name, column in zip(names, schema.columns, strict=True)}


def _family(column: Column) -> Any:
    has_levels = len(column.levels) > 2 or (column.levels and column.levels != (0, 1))
    return list(column.levels) if has_levels else column.family_name
