"""Columns of a Spark data frame → how they become features, before the pass over its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.rows.names import match_names
from momentmix.rows.opening import open_rows
from momentmix.rows.source import Missing, RowSource
from momentmix.schema.building import LOOKED_AT, Families, schema_of_cells
from momentmix.schema.cells import Cells, CellTable
from momentmix.schema.column import BERNOULLI, CATEGORICAL
from momentmix.schema.file_cells import new_labels
from momentmix.schema.joining import plain_schema
from momentmix.schema.schema import Schema
from momentmix.schema.sources import prepare
from momentmix.spark.jobs import run_job
from momentmix.spark.scans import plain_scan
from momentmix.spark.splits import UnsuitedFileError


class FoundColumns(NamedTuple):
    """The schema, names of the columns that it needs, and notes on others."""

    schema: Schema
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def quoted(name: str) -> str:
    """A name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def found_columns(
    df: Any,
    keys: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    families: Families,
    missing: Missing,
    read_files: bool,
) -> FoundColumns:
    """What columns become: by a schema, or guessed from the first rows.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    keys : sequence of str
        Columns of keys, which are no features.
    columns, exclude, families, missing, read_files
        As for `momentmix.spark.summarize`.
    """
    names = _checked(df, keys, columns)
    taken = [name for name in (columns or names) if name not in keys]
    left_out = [name for name in exclude or () if name not in keys] or None
    rows = df.select(*map(quoted, taken))
    if isinstance(families, Schema):
        places = match_names(families.column_names or taken, taken, "the schema", others=True)
        return FoundColumns(families, tuple(taken[j] for j in places))
    asked = None if columns is None else taken
    source = open_rows(_head(rows, read_files).to_reader(), asked, "model", exclude=left_out)
    prepared = prepare(source, families)
    source = prepared.source
    found = source.feature_names or ()
    if prepared.is_plain(missing):
        return FoundColumns(plain_schema(len(found), found), found, source.notes)
    cells = _met_cells(df, source, prepared.families)
    schema = schema_of_cells(cells, prepared.families, missing)
    return FoundColumns(schema, found, source.notes)


def _checked(df: Any, keys: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Names of all columns, where those that are asked for are there, once each."""
    names = list(df.columns)
    for name in [*keys, *(columns or ())]:
        if name not in names:
            listed = ", ".join(map(ascii, names[:20]))
            raise InputError(f"the data frame has no column {name!a}; it has {listed}.")
    for name in columns or names:
        if names.count(name) > 1:
            raise InputError(
                f"names of columns must differ; {name!a} is repeated. Rename one of them, as by "
                "toDF()."
            )
    return names


def _head(rows: Any, read_files: bool) -> Any:
    """The first rows as an Arrow table, from as few partitions as have them.

    Those of Spark come as Python objects: to convert them to Arrow, it would read whole partitions.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    scan = plain_scan(rows) if read_files else None
    if scan is not None:
        with suppress(UnsuitedFileError):
            table = scan.head(LOOKED_AT)
            if table is not None:
                return table
    schema = to_arrow_schema(rows.schema)
    first = run_job(lambda: rows.limit(LOOKED_AT).collect())
    if not first:
        raise InputError("rows must hold at least one row; the data frame is empty.")
    columns = zip(*first, strict=True)
    arrays = [pa.array(x, field.type) for x, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _met_cells(df: Any, source: RowSource, families: Mapping[int, Any]) -> CellTable:
    """Cells that stand for all rows: levels and missing cells from an aggregation."""
    from pyspark.sql import functions

    names, labels = source.feature_names or (), new_labels(source, families, LOOKED_AT)
    listed = [
        j
        for j in range(len(names))
        if (j in labels and not labels[j].are_bools) or families.get(j) in (BERNOULLI, CATEGORICAL)
    ]
    wanted = []
    for j, (name, kind) in enumerate(zip(names, source.kinds, strict=True)):
        column = functions.col(quoted(name))
        is_missing = column.isNull()
        if kind.type in ("float", "double"):
            is_missing = is_missing | functions.isnan(column)
        wanted.append(functions.max(is_missing).alias(f"missing{j}"))
        if j in listed:
            wanted.append(functions.collect_set(column).alias(f"levels{j}"))
    (met,) = run_job(lambda: df.agg(*wanted).collect())
    first = source.head(LOOKED_AT, labels)
    columns = []
    for j, kind in enumerate(source.kinds):
        levels = sorted(met[f"levels{j}"]) if j in listed else None
        gap = bool(met[f"missing{j}"])
        if levels is not None and kind.kind == "text":
            codes = np.append(np.arange(len(levels)), [-1] * gap).astype(np.int64)
            columns.append(Cells(codes, tuple(levels)))
            continue
        numbers = _seen(first[:, j]) if levels is None else np.array(levels, dtype=np.float64)
        numbers = np.append(_seen(numbers), [np.nan] * gap)
        columns.append(Cells(numbers, are_bools=kind.kind == "bool"))
    return CellTable(columns, source.feature_names)


def _seen(numbers: Float) -> Float:
    return np.asarray(numbers[~np.isnan(numbers)][:LOOKED_AT])
