"""Facts of a schema."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from momentmix.families.column import Column
from momentmix.tables.schema import FORMAT, Schema


def is_schema(path: Path) -> bool:
    """Whether a JSON file says that it is a schema."""
    with path.open("rb") as stream:
        return f'"{FORMAT}"'.encode() in stream.read(256)


def schema_facts(path: Path) -> dict[str, Any]:
    """Facts of a schema file."""
    schema = Schema.load(path)
    return {
        "kind": "schema",
        "n_columns": schema.n_columns,
        "n_features": schema.n_features,
        "columns": column_facts(schema.columns),
    }


def column_facts(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """What each column is taken as."""
    return [
        {
            "name": str(number) if column.name is None else column.name,
            "family": column.family_name,
            "levels": list(column.levels),
            "missing": column.has_missing,
        }
        for number, column in enumerate(columns)
    ]
