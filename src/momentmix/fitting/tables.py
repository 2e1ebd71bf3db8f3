"""Tables with families and missing cells, as what a fit works on: numeric features.

`momentmix.schema` knows how columns become features; here the data of a fit are brought to them,
and blocks of columns to blocks of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inputs import moments_of, rows_of
from momentmix.mixture.blocks import blocks_from
from momentmix.arrays import is_plain_array
from momentmix.names import column_label
from momentmix.tables.opening import can_open
from momentmix.tables.rows import ArrayRows, Rows
from momentmix.rows.reading import ALL_AS_IT_IS, Reading
from momentmix.rows.source import Missing, RowSource, check_missing
from momentmix.tables.validation import LARGEST_TO_FIT, as_weights, check_values
from momentmix.tables.weights import with_weights
from momentmix.schema.building import EncodedTable, Families, encode_table
from momentmix.tables.column import BERNOULLI, FAMILIES, GAUSSIAN, POISSON, Column, unknown_family
from momentmix.schema.rows import EncodedArray, SchemaOfRows
from momentmix.tables.schema import Schema
from momentmix.schema.sources import encode_prepared, encode_rows, held_table, prepare
from momentmix.tables.transforms import TRANSFORMS
from momentmix.summary.cost import physical_memory
from momentmix.summary.summary import MomentSummary
from momentmix.wording import NEED_ROWS, plural

SHARE_IN_MEMORY = 0.125  # of the memory: rows of files that take more are read for each pass


@dataclass(frozen=True)
class Table:
    """The data of a fit as features.

    Attributes
    ----------
    data : Rows or StandardMoments
    schema : Schema or None
        How columns became features; None where the features are the columns.
    notes : tuple of str
        What was done to the columns and rows.
    kept : array of bool, or None
        Which rows were kept, where some were dropped.
    """

    data: Rows | StandardMoments
    schema: Schema | None = None
    notes: tuple[str, ...] = ()
    kept: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Asked:
    """What `fit` was told about its data.

    Attributes
    ----------
    families, missing, sample_weight
        As for `fit`.
    reading : Reading
        Which columns, and how files are read.
    """

    families: Families = None
    missing: Missing = "error"
    reading: Reading = ALL_AS_IT_IS
    sample_weight: Any = None


def table_of(data: Any, asked: Asked) -> Table:
    """Rows wherever they are, or a summary of rows, as features."""
    check_missing(asked.missing)
    moments = moments_of(data)
    if moments is not None:
        return _table_of_summary(data, moments, asked)
    table = _table_of_rows(data, asked)
    if asked.sample_weight is None:
        return table
    assert isinstance(table.data, Rows)
    return replace(table, data=with_weights(table.data, _kept_weights(table, asked)))


def _table_of_rows(data: Any, asked: Asked) -> Table:
    if can_open(data):
        source = asked.reading.open(data, asked.missing)
        return _table_of_source(source, asked, SHARE_IN_MEMORY * physical_memory())
    if isinstance(data, RowSource):
        asked.reading.check_nothing("the rows are opened already, by open_rows")
        return _table_of_source(data, asked, 0.0)
    if isinstance(data, Rows) or (hasattr(data, "blocks") and hasattr(data, "n_features")):
        asked.reading.check_nothing("the rows are opened already")
        return _table_of_blocks(data, asked)
    asked.reading.check_in_memory()
    chosen = asked.reading.selection
    if is_plain_array(data) and asked.families is None and asked.missing == "error":
        numbers = None if chosen.is_all else chosen.numbers("the array", None, data.shape[1])
        return Table(rows_of(data if numbers is None else data[:, numbers]))
    encoded = encode_table(data, asked.families, asked.missing, chosen)
    return _held(encoded)


def _held(encoded: EncodedTable) -> Table:
    """A table in memory."""
    schema, notes = encoded.schema, (*encoded.notes, *_notes(encoded.n_dropped))
    names = schema.column_names if schema.is_plain else schema.feature_names
    check_values(encoded.features, names, largest=LARGEST_TO_FIT)
    if schema.is_plain:
        rows: Rows = ArrayRows(encoded.features, feature_names=names)
    else:
        rows = EncodedArray(encoded.features, schema)
    known = None if schema.is_plain else schema
    return Table(rows, known, notes, encoded.kept)


def _table_of_source(source: RowSource, asked: Asked, n_bytes: float) -> Table:
    """Rows of files: in memory where they take no more than so many bytes.

    A stream that can be read once only is in memory in any case.
    """
    if not all(table.reopens for table in source.tables):
        n_bytes = np.inf
    missing = source.missing if asked.missing == "error" else asked.missing
    if isinstance(asked.families, Schema):
        found = encode_rows(source, asked.families, missing)
        return _read(found, n_bytes)
    prepared = prepare(source, asked.families)
    if not prepared.is_plain(missing):
        encoded = held_table(prepared, missing, n_bytes) if n_bytes else None
        if encoded is not None:
            return _held(encoded)
        n_bytes = 0.0  # too many rows
    return _read(encode_prepared(prepared, missing), n_bytes)


def _read(found: SchemaOfRows, n_bytes: float) -> Table:
    """Rows whose schema is known, in memory where they take no more than so many bytes."""
    source, schema = found.rows, found.schema
    assert isinstance(source, RowSource)
    values = source.read_within(n_bytes) if n_bytes else None
    notes = (*found.notes, *_notes(source.n_dropped))
    if values is None:
        return Table(found.encoded, None if schema.is_plain else schema, notes)
    if not len(values):
        raise InputError(f"{source.tables[0].name} holds no rows.")
    if schema.is_plain:
        check_values(values, source.feature_names, largest=LARGEST_TO_FIT)
        rows = ArrayRows(values, feature_names=source.feature_names)
        return Table(rows, None, notes)
    features = schema.coded.encode(values)
    return _held(EncodedTable(schema, features, notes=notes))


def _table_of_blocks(data: Any, asked: Asked) -> Table:
    """Rows of a cluster, or of any object with blocks of rows."""
    if asked.families is None and asked.missing == "error":
        return Table(rows_of(data))
    if not isinstance(data, Rows):
        raise InputTypeError(
            "families and missing need a table in memory, an array or a data frame, or rows that "
            f"mm.open_rows opened; got {type(data).__name__}. Summarize its parts with "
            "mm.summarize(part, families=…, missing=…) and fit the sum of these."
        )
    found = encode_rows(data, asked.families, asked.missing)
    if found.schema.is_plain:
        return Table(rows_of(found.rows), None, found.notes)
    return Table(found.encoded, found.schema, found.notes)


def _kept_weights(table: Table, asked: Asked) -> Any:
    """The weights of the rows that were kept."""
    if table.kept is None:
        return asked.sample_weight
    weights = as_weights(asked.sample_weight, len(table.kept))
    return None if weights is None else weights[table.kept]


def _notes(n_dropped: int) -> tuple[str, ...]:
    if not n_dropped:
        return ()
    return (f"{n_dropped} row{plural(n_dropped)} with missing cells left out",)


# -- summaries --------------------------------------------------------------------------------


def _table_of_summary(data: Any, moments: StandardMoments, asked: Asked) -> Table:
    if asked.sample_weight is not None:
        raise InputError(
            "sample_weight goes with rows; a summary holds the weights of its rows. Pass them "
            "to MomentSummary.update or mm.summarize, or pass the rows."
        )
    columns = asked.reading.columns
    replace(asked.reading, columns=None).check_nothing("a summary holds moments")
    if columns is not None:
        if not isinstance(data, MomentSummary):
            asked.reading.check_nothing("these are standardized moments")
        data = data.truncate(min(data.order, len(columns))).select(columns)
        selected = moments_of(data)
        assert selected is not None
        moments = selected
    return Table(moments, _schema_of_summary(data, moments, asked.families))


def _schema_of_summary(
    data: MomentSummary | StandardMoments, moments: StandardMoments, families: Families
) -> Schema | None:
    """The schema of a summary; that of families where it has none."""
    own: Schema | None = getattr(data, "schema", None)
    if own is not None:
        if families is not None and families != own:
            raise InputError(
                "the summary holds the families of its columns already; leave families out, or "
                "summarize the rows again with other ones."
            )
        return own
    if families is None:
        return None
    if isinstance(families, Schema) or not isinstance(families, Mapping):
        raise InputTypeError(
            "families of a summary of numbers must be a dict, {name or number of a column: "
            f"family}}; got {type(families).__name__}."
        )
    names = moments.feature_names
    columns = [
        Column(None if names is None else names[j], GAUSSIAN) for j in range(moments.n_features)
    ]
    for key, family in families.items():
        number = Schema(tuple(columns)).number_of(key)
        columns[number] = _column_of_summary(columns[number], family, moments, number)
    return Schema(tuple(columns))


def _column_of_summary(
    column: Column, family: object, moments: StandardMoments, number: int
) -> Column:
    """A column of a summary of numbers with a family that its numbers can be of."""
    label = column_label(number, moments.feature_names)
    if family in TRANSFORMS:
        raise InputError(
            f"a summary of numbers has no moments of their logarithms; {label} cannot be "
            f"{family!r}. Summarize the rows again with families={{…: {family!r}}}."
        )
    if family not in FAMILIES:
        raise InputError(unknown_family(family, label))
    low, high = float(moments.minimum[number]), float(moments.maximum[number])
    if family == GAUSSIAN:
        return column
    if family == POISSON:
        if low < 0 or low != np.floor(low) or high != np.floor(high):
            raise InputError(
                f"counts must be integers from 0 on; {label} lies between {low:.6g} and "
                f"{high:.6g}. Take it as 'gaussian' in families."
            )
        return Column(column.name, POISSON)
    if family == BERNOULLI:
        # Of zeros and ones the standardized square is a function of the mean.
        mean, scale = float(moments.shift[number]), float(moments.scale[number])
        is_binary = abs(scale**2 - mean * (1 - mean)) < 1e-9
        if not (low == 0.0 and high == 1.0 and is_binary):
            raise InputError(
                f"a bernoulli column of a summary must hold 0 and 1 only; {label} lies between "
                f"{low:.6g} and {high:.6g}, with other values. Summarize the rows with "
                "families={…: 'bernoulli'}."
            )
        return Column(column.name, BERNOULLI, (0, 1))
    raise InputError(
        f"a summary of numbers does not tell levels apart; {label} cannot be {family!r}. "
        "Summarize the rows again with families={…}."
    )


def feature_blocks(blocks: Any, schema: Schema | None, has_rows: bool = True) -> Any:
    """Blocks of columns, by number or name, as blocks of features by number.

    Joined columns with missing cells need passes over the rows.
    """
    if schema is None or blocks is None or isinstance(blocks, str):
        return blocks
    joined = blocks_from(blocks, schema.n_columns, schema.column_names).joined
    for number in (j for block in joined for j in block):
        column, label = schema.columns[number], column_label(number, schema.column_names)
        if column.family != GAUSSIAN:
            raise InputError(
                f"columns of a block must be gaussian; {label} is {column.family}. Take it out of "
                "the block."
            )
        if column.has_missing and not has_rows:
            raise InputError(
                f"from moments alone, columns of a block must have no missing cells; {label} has "
                f"some. Take it out of the block, drop such rows: missing='drop', or {NEED_ROWS}."
            )
    return [[schema.features_of(j)[0] for j in block] for block in joined]
