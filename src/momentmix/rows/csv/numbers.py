"""Whole lines of CSV → numbers and codes, fast: by pyarrow where it is installed, else by NumPy.

Both refuse what they cannot read with a ValueError that does not say where. So is little text, as
long as pyarrow is not loaded: loading takes longer than reading the text field by field.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.rows.blocks import side_by_side
from momentmix.rows.containers import arrow_numbers, coded_indices, with_nan
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.labels import NO_LABELS, Labels, first_unknown

_LITTLE = 1 << 17  # bytes


def parsed_fast(
    chunk: bytes,
    columns: Sequence[int],
    n_columns: int,
    dialect: Dialect,
    labels: Mapping[int, Labels] = NO_LABELS,
) -> Float:
    """Numbers of some of the columns, NaN where they are missing; codes of those with labels.

    Parameters
    ----------
    chunk : bytes
        Whole lines, without the header.
    columns : sequence of int
    n_columns : int
        Fields of every line.
    dialect : Dialect
        With a delimiter.
    labels : dict
        Labels of columns of text, by number.
    """
    if len(chunk) < _LITTLE and "pyarrow" not in sys.modules:
        raise ValueError
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        if labels:
            raise ValueError from None
        return _by_numpy(chunk, columns, n_columns, dialect)
    return _by_arrow(chunk, columns, n_columns, dialect, labels)


def _by_arrow(
    chunk: bytes,
    numbers: Sequence[int],
    n_columns: int,
    dialect: Dialect,
    labels: Mapping[int, Labels] = NO_LABELS,
) -> Float:
    import pyarrow
    from pyarrow import csv

    if chunk.startswith(codecs.BOM_UTF8):
        raise ValueError  # pyarrow would skip it
    wanted, names = [str(i) for i in numbers], [str(i) for i in range(n_columns)]
    grouped = dialect.thousands is not None
    kind = pyarrow.string() if grouped else pyarrow.float64()
    coded = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    kinds = {name: coded if i in labels else kind for i, name in zip(numbers, wanted, strict=True)}
    table = csv.read_csv(
        pyarrow.BufferReader(chunk),
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=b'"' in chunk
        ),
        convert_options=csv.ConvertOptions(
            include_columns=wanted,
            column_types=kinds,
            null_values=list(dialect.nulls),
            strings_can_be_null=True,
            decimal_point=dialect.decimal,
        ),
    )  # fmt: skip
    values = np.empty((table.num_rows, len(wanted)))
    start = 0
    for batch in table.to_batches():
        arrays = []
        for number, column in zip(numbers, batch.columns, strict=True):
            if number in labels:
                arrays.append(_coded(column, labels[number], dialect))
            else:
                plain = _ungrouped(column, dialect) if grouped else column
                arrays.append(with_nan(*arrow_numbers(plain)))
        side_by_side(arrays, values[start : start + batch.num_rows])
        start += batch.num_rows
    if b"(" in chunk:
        plain_numbers = [j for j, number in enumerate(numbers) if number not in labels]
        if np.isnan(values[:, plain_numbers]).any():
            raise ValueError  # "nan(1)" is a number for pyarrow
    return values


def _coded(column: Any, labels: Labels, dialect: Dialect) -> Float:
    """Codes of an Arrow column of text; ValueError where one is no level."""
    texts = column.dictionary.to_pylist()
    known = labels.codes(None if x.strip() in dialect.nulls else labels.cell(x) for x in texts)
    codes = coded_indices(column.indices, known)
    if first_unknown(codes, labels) is not None:
        raise ValueError
    return codes


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
