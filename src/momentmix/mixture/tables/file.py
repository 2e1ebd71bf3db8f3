"""The part of a model file that holds a table's mixture: its schema, and its blocks by family.

``docs/model-file.md`` describes it: version 3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.families.block import NEVER_SEEN, Block
from momentmix.families.column import Column
from momentmix.families.family import all_families, is_family, named
from momentmix.json_fields import Decoder, Fields, array, integer, list_of, optional, plain, text
from momentmix.mixture.tables.block_features import placed
from momentmix.tables.names import check_encodable, check_feature_names
from momentmix.tables.schema import Schema

_LARGEST_LEVEL = 2**53  # float64, in which cells come, holds all integers up to it


def table_document(weights: Float, blocks: Sequence[Block], schema: Schema) -> dict[str, Any]:
    """A table's mixture in plain JSON; null for what a component never sees."""
    return {
        "weights": weights.tolist(),
        "schema": schema.to_dict(),
        "blocks": [_block_document(block) for block in blocks],
    }


def _block_document(block: Block) -> dict[str, Any]:
    numbers = {key: plain(getattr(block, key)) for key in block.model.parameters}
    head = {"columns": list(block.columns), "family": block.family}
    return {**head, **numbers, "seen": plain(block.seen)}


# -- reading ------------------------------------------------------------------------------------


def schema_field(value: Any, place: str) -> Schema:
    """The schema of a model file; ValueError where it is none."""
    schema = Schema.from_dict(value, place)
    if schema.is_plain:
        raise ValueError(f"{place} has numbers without missing cells only: the version is 1 or 2")
    if schema.column_names is not None:
        check_feature_names(schema.column_names)
    for level in (level for column in schema.columns for level in column.levels):
        if isinstance(level, str):
            check_encodable([level])
        elif abs(level) > _LARGEST_LEVEL:
            raise ValueError(f"{place}.columns.levels must be integers from −2^53 to 2^53")
    return schema


def _fields_of(family: str) -> Fields:
    numbers: dict[str, Decoder] = {
        key: array(*(None,) * n_axes, nulls=True)
        for key, n_axes in named(family).parameters.items()
    }
    head = {"columns": list_of(integer(0)), "family": text}
    return Fields(dict, {**head, **numbers, "seen": optional(_seen)})


def _seen(value: Any, place: str) -> Float:
    """Probabilities of being seen: a list, or of joined columns a list of lists."""
    is_wide = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    found: Float = array(*(None,) * (1 + is_wide))(value, place)
    return found


def _block(value: Any, place: str) -> dict[str, Any]:
    family = value.get("family") if isinstance(value, dict) else None
    if not isinstance(family, str) or not is_family(family):
        listed = ", ".join(repr(known.name) for known in all_families() if not known.transform)
        raise ValueError(f"{place} must hold objects whose family is one of {listed}")
    found: dict[str, Any] = _fields_of(family)(value, place)
    return found


blocks_field = list_of(_block)


def blocks_in(contents: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of a table's mixture, checked against its schema; ValueError if they are none."""
    schema: Schema = contents["schema"]
    listed = [block["columns"] for block in contents["blocks"]]
    numbers = [j for columns in listed for j in columns]
    if sorted(numbers) != list(range(schema.n_columns)):
        raise ValueError(f"blocks.columns must be 0 … {schema.n_columns - 1}, each in one block")
    if listed != sorted(sorted(columns) for columns in listed):
        raise ValueError("blocks and their columns must be in ascending order")
    r = len(contents["weights"])
    return placed([_checked_block(block, schema, r) for block in contents["blocks"]], r)


def _checked_block(values: dict[str, Any], schema: Schema, n_components: int) -> Block:
    columns, family = tuple(values["columns"]), values["family"]
    own = [schema.columns[j] for j in columns]
    if {column.family for column in own} != {family}:
        raise ValueError(f"columns {list(columns)[:8]} are not all {family} in the schema")
    if not _has_seen(values["seen"], own):
        raise ValueError(
            f"columns {list(columns)[:8]} must have seen as the schema has missing cells"
        )
    _check_numbers(values, n_components, columns)
    names = schema.column_names
    return (
        named(family)
        .read_block(values, own)
        .at(columns, None if names is None else tuple(names[j] for j in columns))
    )


def _has_seen(seen: Float | None, columns: list[Column]) -> bool:
    """Whether there are probabilities of being seen as the schema has missing cells."""
    has_missing = [column.has_missing for column in columns]
    if seen is None or len(columns) == 1:
        return has_missing == [seen is not None] * len(columns) and (seen is None or seen.ndim == 1)
    if seen.ndim != 2 or seen.shape[1] != len(columns) or not any(has_missing):
        return False
    return bool(((seen < 1).any(axis=0) == has_missing).all())


def _check_numbers(values: dict[str, Any], r: int, columns: tuple[int, ...]) -> None:
    seen = np.ones(r) if values["seen"] is None else values["seen"]
    parameters = named(values["family"]).parameters
    for key in (*parameters, "seen"):
        if values[key] is not None and len(values[key]) != r:
            raise ValueError(f"{key} of columns {list(columns)[:8]} must have {r} entries")
    for key in parameters:
        unknown = seen < NEVER_SEEN
        if seen.ndim == 1:
            unknown = unknown.reshape(r, *(1,) * (values[key].ndim - 1))
        elif key == "covariances":
            unknown = unknown[:, :, None] | unknown[:, None, :]
        if seen.ndim == 2 and values[key].shape != unknown.shape:
            raise ValueError(f"{key} of columns {list(columns)[:8]} must be as wide as seen")
        if (np.isnan(values[key]) != unknown).any():
            raise ValueError(
                f"{key} of columns {list(columns)[:8]} must be null where a component never sees "
                "the column, and nowhere else"
            )


def checked_bytes(contents: dict[str, Any]) -> list[bytes | Float]:
    """What the checksum is over, after the weights: texts and tables of numbers."""
    schema = contents["schema"]
    columns = (schema.to_dict() if isinstance(schema, Schema) else schema)["columns"]
    own = [{key: column[key] for key in column if key != "center"} for column in columns]
    centers = np.array([column["center"] for column in columns], dtype=np.float64)
    parts: list[bytes | Float] = [_compact(own), centers]
    for block in contents["blocks"]:
        parts.append(_compact([block["columns"], block["family"]]))
        for key in (*named(block["family"]).parameters, "seen"):
            if block[key] is not None:
                numbers = np.array(block[key], dtype=np.float64)  # null is NaN
                numbers[np.isnan(numbers)] = np.nan  # one NaN of the many
                parts.append(numbers.reshape(len(numbers), -1) if numbers.ndim > 1 else numbers)
    return parts


def _compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
