"""The file of a model: readable JSON, checked in full before any of it is used.

``docs/model-file.md`` describes it: weights, a schema and blocks by family. The checksum is over
the numbers, not their text, so that a file may be formatted anew; it may be absent, and must be
removed after editing by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float
from momentmix.atomic_file import atomic_write
from momentmix.errors import ModelFileError
from momentmix.families.block import NEVER_SEEN, Block
from momentmix.families.family import FAMILIES, named
from momentmix.json_fields import (
    Decoder,
    Fields,
    array,
    check_version,
    integer,
    list_of,
    number,
    optional,
    parse_strict,
    plain,
    text,
)
from momentmix.mixture.tables.block_features import placed, schema_of
from momentmix.tables.names import check_encodable, check_feature_names
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

_FORMAT, _VERSION = "momentmix.Mixture", 4
_LARGEST = 1 << 30  # bytes; more than any model that was fitted has, and still fits in memory
_LARGEST_LEVEL = 2**53  # float64, in which cells come, holds all integers up to it
_HEAD: dict[str, Decoder] = {"columns": list_of(integer(0)), "family": text}


# -- writing ------------------------------------------------------------------------------------


def model_document(mixture: Mixture) -> dict[str, Any]:
    """A mixture as plain values, null where never seen."""
    schema = {"schema": Schema(mixture.columns).to_dict()}
    document = {"weights": mixture.weights.tolist(), **schema, "blocks": _blocks_of(mixture)}
    if mixture.background is not None:
        document["background"] = {
            "weight": mixture.background_weight,
            "weights": mixture.background.weights.tolist(),
            "blocks": _blocks_of(mixture.background),
        }
    return document


def _blocks_of(mixture: Mixture) -> list[dict[str, Any]]:
    return [
        {
            "columns": list(block.columns),
            "family": block.family,
            **{key: plain(getattr(block, key)) for key in (*block.model.parameters, "seen")},
        }
        for block in mixture.blocks
    ]


def write_model(path: str | os.PathLike[str], contents: dict[str, Any]) -> None:
    """Replace the file as a whole; floats are written so that the same bits are read back."""
    document = {"format": _FORMAT, "version": _VERSION, **contents}
    document["sha256"] = _checksum(document)
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    atomic_write(path, text.encode("ascii"))


def _checksum(document: dict[str, Any]) -> str:
    """SHA-256 of the document as compact JSON with sorted keys, all numbers as doubles."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    doubles = json.loads(json.dumps(rest), parse_int=float)
    return hashlib.sha256(
        json.dumps(doubles, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


# -- reading ------------------------------------------------------------------------------------


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a model file of the right format, version and types; numbers as arrays."""
    document = _parsed(path)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(
            f'{path} is not a momentmix model of this version: no "format": "{_FORMAT}" in it.'
        )
    try:
        check_version(document, str(path), _VERSION)
    except ValueError as error:
        raise ModelFileError(f"{error}. Fit again, or use the release that wrote it.") from None
    try:
        contents: dict[str, Any] = _CONTENTS(document, "")
    except ValueError as error:
        raise ModelFileError(
            f"{path} does not hold a mixture: {str(error).rstrip('.')}. Use the release that wrote "
            "it, register its families first, or restore it from a copy."
        ) from None
    if "sha256" in contents and contents["sha256"] != _checksum(document):
        raise ModelFileError(
            f"{path}: the checksum does not match: the numbers were changed or damaged. Restore it "
            'from a copy; if you edited it on purpose, remove the line "sha256".'
        )
    return contents


def _parsed(path: str | os.PathLike[str]) -> Any:
    """The JSON of a file that may be a model."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist.") from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is not a regular file; give the path of a saved model.")
    if status.st_size > _LARGEST:
        raise ModelFileError(
            f"{path} has {status.st_size} bytes; a model has at most {_LARGEST}. Is it data?"
        )
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"\x89MMS":
        raise ModelFileError(
            f"{path} is not a momentmix model but a moment summary: use MomentSummary.load, or fit "
            "it first."
        )
    if data[:1] == b"\x80" or data[:2] == b"PK":
        raise ModelFileError(
            f"{path} is not a momentmix model but a pickle or zip archive, which momentmix never "
            "loads."
        )
    if not data:
        raise ModelFileError(f"{path} is not a momentmix model: it is empty.")
    try:
        return parse_strict(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a momentmix model: {str(error)[:200]}.") from None


def _anything(value: Any, place: str) -> Any:
    return value


def _record(value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{place}, the record of the fit, must be an object")
    return value


def _schema(value: Any, place: str) -> Schema:
    schema = Schema.from_dict(value, place)
    if schema.column_names is not None:
        check_feature_names(schema.column_names)
    for level in (level for column in schema.columns for level in column.levels):
        if isinstance(level, str):
            check_encodable([level])
        elif abs(level) > _LARGEST_LEVEL:
            raise ValueError(f"{place}.columns.levels must be integers from −2^53 to 2^53")
    return schema


def _family_block(value: Any, place: str) -> dict[str, Any]:
    family = value.get("family") if isinstance(value, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        known = ", ".join(repr(name) for name, own in FAMILIES.items() if not own.transform)
        raise ValueError(f"{place} must hold objects whose family is one of {known}")
    numbers: dict[str, Decoder] = {
        key: array(*(None,) * n_axes, nulls=True)
        for key, n_axes in FAMILIES[family].parameters.items()
    }
    found: dict[str, Any] = Fields(dict, {**_HEAD, **numbers, "seen": optional(_seen)})(
        value, place
    )
    return found


def _seen(value: Any, place: str) -> Float:
    """Probabilities of being seen: a list, or of joined columns a list of lists."""
    is_wide = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    found: Float = array(*(None,) * (1 + is_wide))(value, place)
    return found


_PARAMETERS: dict[str, Decoder] = {"weights": array(None), "blocks": list_of(_family_block)}
_BACKGROUND = Fields(dict, {"weight": number(0, 1), **_PARAMETERS})
_CONTENTS = Fields(
    dict,
    {
        "format": _anything,
        "version": _anything,
        "schema": _schema,
        **_PARAMETERS,
        "background": _BACKGROUND,
        "fit": _record,
        "sha256": _anything,
    },
    may_lack=("background", "fit", "sha256"),
)


def blocks_in(contents: dict[str, Any], schema: Schema) -> tuple[Block, ...]:
    """The blocks of a mixture, checked against its schema; ValueError if they are none."""
    names, found = schema.column_names, []
    for values in contents["blocks"]:
        columns, model = tuple(values["columns"]), named(values["family"])
        own = [schema.columns[j] for j in columns if j < schema.n_columns]
        if len(own) < len(columns) or {column.family for column in own} != {model.name}:
            raise ValueError(f"columns {list(columns)[:8]} are not all {model.name} in the schema")
        block = model.read_block(values, own)
        found.append(block.at(columns, names and tuple(names[j] for j in columns)))
    blocks = placed(found, len(contents["weights"]))
    if [block.columns for block in blocks] != [block.columns for block in found]:
        raise ValueError("blocks and their columns must be in ascending order")
    for values in contents["blocks"]:
        seen, keys = values["seen"], FAMILIES[values["family"]].parameters
        if seen is not None and not all(np.isnan(values[k][seen < NEVER_SEEN]).all() for k in keys):
            raise ValueError("numbers must be null where a component never sees the column")
    has_missing = [
        [column.has_missing for column in s.columns] for s in (schema, schema_of(blocks))
    ]
    if has_missing[0] != has_missing[1]:
        raise ValueError("blocks must have all columns, and seen as the schema has missing cells")
    return blocks
