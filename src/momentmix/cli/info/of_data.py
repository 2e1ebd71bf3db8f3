"""Facts of a data file: its columns, and the number of rows where the format tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from momentmix.errors import InputError
from momentmix.rows.csv.dialect import Dialect
from momentmix.tables.opening import open_file
from momentmix.rows.table import Table


def data_facts(path: Path, delimiter: str | None, header: bool | None) -> dict[str, Any]:
    """Facts of a data file; of CSV the first lines are read."""
    try:
        tab = delimiter in ("\\t", "tab")
        dialect = Dialect("\t" if tab else delimiter, header=header)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    table = open_file(path, dialect)
    names = table.column_names or tuple(map(str, range(table.n_columns)))
    pairs = zip(names, _types(table), strict=True)
    return {
        "kind": "data",
        "n_rows": table.n_rows,
        "n_columns": table.n_columns,
        "has_names": table.column_names is not None,
        "columns": [{"name": name, "type": kind} for name, kind in pairs],
    }


def _types(table: Table) -> list[str]:
    """Types of the columns, in words."""
    numbers = range(table.n_columns)
    return [table.kind(number).type for number in numbers]
