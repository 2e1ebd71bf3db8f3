"""Facts of a data file: its columns, and the number of rows where the format tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from momentmix.errors import InputError
from momentmix.findings.messages import in_shell
from momentmix.tables.formats.dialect import Dialect
from momentmix.tables.opening import open_file


def data_facts(path: Path, delimiter: str | None, header: bool | None) -> dict[str, Any]:
    """Facts of a data file; of CSV the first lines are read."""
    try:
        tab = delimiter in ("\\t", "tab")
        dialect = Dialect("\t" if tab else delimiter, header=header)
    except InputError as error:
        raise click.UsageError(in_shell(error)) from None
    source = open_file(path, dialect)
    names = source.column_names or tuple(map(str, range(source.n_columns)))
    columns = [{"name": name, "type": source.kind(i).type} for i, name in enumerate(names)]
    return {
        "kind": "data",
        "n_rows": source.n_rows,
        "n_columns": source.n_columns,
        "has_names": source.column_names is not None,
        "columns": columns,
    }
