"""Whole lines of CSV → numbers, fast: by pyarrow where it is installed, else by NumPy.

Both refuse what they cannot read with a ValueError that does not say where. So is little text, as
long as pyarrow is not loaded: loading takes longer than reading the text field by field.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.rows.blocks import side_by_side
from momentmix.rows.containers import arrow_numbers, with_nan
from momentmix.rows.csv.dialect import NULLS, Dialect

_LITTLE = 1 << 17  # bytes


def parsed_fast(chunk: bytes, columns: Sequence[int], n_columns: int, dialect: Dialect) -> Float:
    """Numbers of some of the columns, NaN where they are missing.

    Parameters
    ----------
    chunk : bytes
        Whole lines, without the header.
    columns : sequence of int
    n_columns : int
        Fields of every line.
    dialect : Dialect
        With a delimiter.
    """
    if len(chunk) < _LITTLE and "pyarrow" not in sys.modules:
        raise ValueError
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return _by_numpy(chunk, columns, n_columns, dialect)
    return _by_arrow(chunk, columns, n_columns, dialect)


def _by_arrow(chunk: bytes, numbers: Sequence[int], n_columns: int, dialect: Dialect) -> Float:
    import pyarrow
    from pyarrow import csv

    if chunk.startswith(codecs.BOM_UTF8):
        raise ValueError  # pyarrow would skip it
    wanted, names = [str(i) for i in numbers], [str(i) for i in range(n_columns)]
    grouped = dialect.thousands is not None
    kind = pyarrow.string() if grouped else pyarrow.float64()
    table = csv.read_csv(
        pyarrow.BufferReader(chunk),
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=b'"' in chunk
        ),
        convert_options=csv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, kind),
            null_values=list(NULLS),
            strings_can_be_null=True,
            decimal_point=dialect.decimal,
        ),
    )  # fmt: skip
    values = np.empty((table.num_rows, len(wanted)))
    start = 0
    for batch in table.to_batches():
        columns = [_ungrouped(c, dialect) for c in batch.columns] if grouped else batch.columns
        arrays = [with_nan(*arrow_numbers(column)) for column in columns]
        side_by_side(arrays, values[start : start + batch.num_rows])
        start += batch.num_rows
    if b"(" in chunk and np.isnan(values).any():
        raise ValueError  # "nan(1)" is a number for pyarrow
    return values


def _ungrouped(column: Any, dialect: Dialect) -> Any:
    """Numbers of an Arrow column of text with marks between thousands."""
    from pyarrow import compute, float64

    text = compute.utf8_trim_whitespace(column)
    plain = compute.replace_substring(text, dialect.thousands, "")
    text = compute.if_else(compute.match_substring_regex(text, dialect.grouped), plain, text)
    if dialect.decimal != ".":
        if compute.any(compute.match_substring(text, ".")).as_py():
            raise ValueError
        text = compute.replace_substring(text, dialect.decimal, ".")
    return text.cast(float64())


def _by_numpy(chunk: bytes, columns: Sequence[int], n_columns: int, dialect: Dialect) -> Float:
    if dialect.decimal != "." or dialect.thousands is not None:
        raise ValueError
    values = np.loadtxt(
        io.BytesIO(chunk), delimiter=dialect.delimiter, quotechar='"', ndmin=2, comments=None
    )
    if values.shape[1] != n_columns:
        raise ValueError
    return np.ascontiguousarray(values[:, list(columns)])
