"""Columns of a Spark data frame, as far as their guess needs them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from momentmix.engines.columns import Met
from momentmix.rows.table import Kind
from momentmix.schema.building import LOOKED_AT
from momentmix.spark.jobs import run_job
from momentmix.spark.scans import plain_scan
from momentmix.spark.splits import UnsuitedFileError


def quoted(name: str) -> str:
    """A name as Spark reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class SparkRows:
    """The rows of a data frame; see `momentmix.engines.columns.EngineRows`.

    Attributes
    ----------
    df : pyspark.sql.DataFrame
    read_files : bool
        As for `momentmix.spark.summarize`.
    """

    df: Any
    read_files: bool
    name = "the data frame"

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(self.df.columns)

    def head(self, names: Sequence[str]) -> Any:
        """The first rows as an Arrow table, from as few partitions as have them.

        Those of Spark come as Python objects: to convert them to Arrow, it would read whole
        partitions.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        rows = self.df.select(*map(quoted, names))
        scan = plain_scan(rows) if self.read_files else None
        if scan is not None:
            with suppress(UnsuitedFileError):
                table = scan.head(LOOKED_AT)
                if table is not None:
                    return table
        schema = to_arrow_schema(rows.schema)
        first = run_job(lambda: rows.limit(LOOKED_AT).collect())
        columns = zip(*first, strict=True) if first else [[] for _ in schema]
        arrays = [pa.array(x, field.type) for x, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def met(self, names: Sequence[str], kinds: Sequence[Kind], listed: Sequence[int]) -> list[Met]:
        """Missing cells and levels of all rows, by an aggregation."""
        from pyspark.sql import functions

        wanted = []
        for j, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            column = functions.col(quoted(name))
            is_missing = column.isNull()
            if kind.type in ("float", "double"):
                is_missing = is_missing | functions.isnan(column)
            wanted.append(functions.max(is_missing).alias(f"missing{j}"))
            if j in listed:
                wanted.append(functions.collect_set(column).alias(f"levels{j}"))
        (met,) = run_job(lambda: self.df.agg(*wanted).collect())
        return [
            Met(bool(met[f"missing{j}"]), met[f"levels{j}"] if j in listed else ())
            for j in range(len(names))
        ]
