"""Tables with families and missing cells, as what a fit works on: numeric features.

`momentmix.schema` knows how columns become features; here the data of a fit are brought to them,
and blocks of columns to blocks of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.finding import plural
from momentmix.fitting.inputs import moments_of, rows_of
from momentmix.mixture.blocks import blocks_from
from momentmix.rows.names import column_label
from momentmix.rows.protocol import ArrayRows, Rows
from momentmix.rows.validation import LARGEST_TO_FIT, check_values
from momentmix.schema.building import Families, Missing, encode_table
from momentmix.schema.column import BERNOULLI, FAMILIES, GAUSSIAN, POISSON, Column, unknown_family
from momentmix.schema.rows import EncodedArray, EncodedRows, encode_rows
from momentmix.schema.schema import Schema
from momentmix.schema.transforms import TRANSFORMS
from momentmix.summary.summary import MomentSummary


@dataclass(frozen=True)
class Table:
    """The data of a fit as features.

    Attributes
    ----------
    data : Rows or StandardMoments
    schema : Schema or None
        How columns became features; None where the features are the columns.
    notes : tuple of str
        What was done to the rows.
    """

    data: Rows | StandardMoments
    schema: Schema | None = None
    notes: tuple[str, ...] = ()


def table_of(data: Any, families: Families, missing: Missing) -> Table:
    """Rows, or a summary of rows, as features."""
    if missing not in ("error", "drop", "model"):
        raise InputError(f'missing must be "error", "drop" or "model"; got {missing!r}.')
    moments = moments_of(data)
    if moments is not None:
        return Table(moments, _schema_of_summary(data, moments, families))
    if families is None and missing == "error":
        return Table(rows_of(data))
    if isinstance(data, Rows):
        return _table_of_rows(encode_rows(data, families, missing))
    if hasattr(data, "blocks") and hasattr(data, "n_features"):
        raise InputTypeError(
            "families and missing need a table in memory, an array or a data frame, or rows that "
            f"mm.open_rows opened; got {type(data).__name__}. Summarize its parts with "
            "mm.summarize(part, families=…, missing=…) and fit the sum of these."
        )
    encoded = encode_table(data, families, missing)
    schema, notes = encoded.schema, _notes(encoded.n_dropped)
    names = schema.column_names if schema.is_plain else schema.feature_names
    check_values(encoded.features, names, largest=LARGEST_TO_FIT)
    if schema.is_plain:
        return Table(ArrayRows(encoded.features, feature_names=names), None, notes)
    return Table(EncodedArray(encoded.features, schema), schema, notes)


def _table_of_rows(rows: Rows) -> Table:
    """Rows of numbers that may have been encoded."""
    source = rows.rows if isinstance(rows, EncodedRows) else rows
    notes = _notes(getattr(source, "n_dropped", 0))
    if isinstance(rows, EncodedRows):
        return Table(rows, rows.schema, notes)
    return Table(rows_of(rows), None, notes)


def _notes(n_dropped: int) -> tuple[str, ...]:
    if not n_dropped:
        return ()
    return (f"{n_dropped} row{plural(n_dropped)} with missing cells left out",)


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
                'some. Pass the rows with refine="auto", take it out of the block, or drop the '
                "rows: missing='drop'."
            )
    return [[schema.features_of(j)[0] for j in block] for block in joined]
