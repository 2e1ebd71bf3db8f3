"""The file of a model: readable JSON, checked in full before any of it is used.

``docs/model-file.md`` describes it. Versions 1 and 2 hold numbers without missing cells, version 3
a schema and blocks by family. The checksum is over the numbers, not their text, so that a file may
be formatted anew; it may be absent, and must be removed after editing by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float
from momentmix.atomic_file import atomic_write
from momentmix.errors import ModelFileError
from momentmix.families.block import NEVER_SEEN, Block
from momentmix.families.family import FAMILIES, named
from momentmix.findings.messages import Message, either
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
    texts,
)
from momentmix.mixture.blocks import blocks_from
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import placed, schema_of
from momentmix.tables.names import check_encodable, check_feature_names
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

# The name is that of what version 1 holds: releases that read no other then say so.
_FORMAT, _DIAGONAL, _JOINED, _TABLE = "momentmix.DiagonalMixture", 1, 2, 3
_LARGEST = 1 << 30  # bytes; more than any model that was fitted has, and still fits in memory
_LARGEST_LEVEL = 2**53  # float64, in which cells come, holds all integers up to it
_HEAD: dict[str, Decoder] = {"columns": list_of(integer(0)), "family": text}


# -- writing ------------------------------------------------------------------------------------


def model_document(mixture: Mixture) -> dict[str, Any]:
    """A mixture as plain values, null where never seen; blocks and names where there are any."""
    document = _numbers_of(mixture)
    if mixture.background is not None:
        own = _numbers_of(mixture.background)
        kept = {key: own[key] for key in own if key not in ("schema", "feature_names")}
        document["background"] = {"weight": mixture.background_weight, **kept}
    return document


def _numbers_of(mixture: Mixture) -> dict[str, Any]:
    """The same without the background."""
    document: dict[str, Any] = {"weights": mixture.weights.tolist()}
    if mixture.schema is not None:
        blocks = [
            {
                "columns": list(block.columns),
                "family": block.family,
                **{key: plain(getattr(block, key)) for key in (*block.model.parameters, "seen")},
            }
            for block in mixture.blocks
        ]
        return {**document, "schema": mixture.schema.to_dict(), "blocks": blocks}
    document |= {"means": mixture.means.tolist(), "variances": mixture.variances.tolist()}
    if not mixture.parameters.blocks.is_diagonal:
        document["blocks"] = [
            {
                "columns": list(block.columns),
                "family": block.family,
                "covariances": block.covariances.tolist(),
            }
            for block in mixture.blocks
            if len(block.columns) > 1
        ]
    if mixture.feature_names is not None:
        document["feature_names"] = list(mixture.feature_names)
    return document


def write_model(path: str | os.PathLike[str], contents: dict[str, Any]) -> None:
    """Replace the file as a whole; floats are written so that the same bits are read back.

    Mixtures without joined columns are written as version 1, which older releases read.
    """
    version = _JOINED if "blocks" in contents else _DIAGONAL
    version = _TABLE if "schema" in contents else version
    document = {"format": _FORMAT, "version": version, **contents, "sha256": _checksum(contents)}
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    atomic_write(path, text.encode("ascii"))


def _checksum(contents: dict[str, Any]) -> str:
    """SHA-256 of the numbers as doubles, row by row, then names and record of the fit as JSON."""
    digest = hashlib.sha256()
    for part in _table_parts(contents) if "schema" in contents else _number_parts(contents):
        if isinstance(part, bytes):
            digest.update(part)
            continue
        table = np.atleast_2d(np.asarray(part, dtype="<f8"))
        digest.update(struct.pack("<QQ", *table.shape))
        digest.update(table.tobytes())
    if "background" in contents:
        own, schema = contents["background"], contents.get("schema")
        digest.update(_checksum(own if schema is None else own | {"schema": schema}).encode())
        digest.update(struct.pack("<d", own["weight"]))
    if "fit" in contents:
        digest.update(_compact(contents["fit"]))
    return digest.hexdigest()


def _number_parts(contents: dict[str, Any]) -> Iterator[Any]:
    """The input of the checksum in versions 1 and 2: texts as bytes, and tables of numbers."""
    for key in ("weights", "means", "variances"):
        yield contents[key]
    for block in contents.get("blocks", []):
        yield _compact([block["columns"], block["family"]])
        yield np.reshape(block["covariances"], (len(block["covariances"]), -1))
    yield _compact(contents.get("feature_names"))


def _table_parts(contents: dict[str, Any]) -> Iterator[Any]:
    """The same in version 3."""
    schema = contents["schema"]
    columns = (schema.to_dict() if isinstance(schema, Schema) else schema)["columns"]
    yield contents["weights"]
    yield _compact([{key: x for key, x in own.items() if key != "center"} for own in columns])
    yield [column["center"] for column in columns]
    for block in contents["blocks"]:
        yield _compact([block["columns"], block["family"]])
        for key in (*named(block["family"]).parameters, "seen"):
            if block[key] is not None:
                numbers = np.array(block[key], dtype=np.float64)  # null is NaN
                numbers[np.isnan(numbers)] = np.nan  # one NaN of the many
                yield numbers.reshape(len(numbers), -1) if numbers.ndim > 1 else numbers


def _compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


# -- reading ------------------------------------------------------------------------------------


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a model file of the right format, version and types; numbers as arrays."""
    document = _parsed(path)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f'{path} is not a momentmix model: no "format": "{_FORMAT}" in it.')
    try:
        check_version(document, str(path), _DIAGONAL, _JOINED, _TABLE)
    except ValueError as error:
        raise ModelFileError(f"{error}. Use the release that wrote it, or a newer one.") from None
    try:
        contents: dict[str, Any] = _contents(document["version"])(document, "")
    except ValueError as error:
        raise ModelFileError(
            f"{path} does not hold a mixture: {str(error).rstrip('.')}. Use the release that wrote "
            "it, register its families first, or restore it from a copy."
        ) from None
    if "sha256" in contents and contents["sha256"] != _checksum(contents):
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
        load = "use MomentSummary.load, or fit it first"
        text = f"{path} is not a momentmix model but a moment summary: "
        raise ModelFileError(Message(text, either(load, "fit it first, with `momentmix fit`"), "."))
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


def _contents(version: int) -> Fields:
    head = {"format": _anything, "version": _anything, "weights": array(None)}
    tail: dict[str, Decoder] = {"fit": _record, "sha256": _anything}
    if version == _TABLE:
        own: dict[str, Decoder] = {"blocks": list_of(_family_block)}
        others: dict[str, Decoder] = {"schema": _schema}
    else:
        joined = {"blocks": _joined_blocks} if version == _JOINED else {}
        own = {"means": array(None, None), "variances": array(None, None), **joined}
        others, tail = {}, {"feature_names": optional(texts), **tail}
    background = {"weight": number(0, 1), "weights": array(None), **own}
    tail = {"background": Fields(dict, background), **tail}
    return Fields(dict, {**head, **others, **own, **tail}, may_lack=tail)


def _anything(value: Any, place: str) -> Any:
    return value


def _record(value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{place}, the record of the fit, must be an object")
    return value


# -- numbers without missing cells --------------------------------------------------------------


def _joined_blocks(value: Any, place: str) -> list[dict[str, Any]]:
    numbers = {"covariances": array(None, None, None)}
    found: list[dict[str, Any]] = list_of(Fields(dict, {**_HEAD, **numbers}))(value, place)
    if not found:
        raise ValueError(f"{place} must hold a block; without one, the version is {_DIAGONAL}")
    for block in found:
        columns = block["columns"]
        if len(columns) < 2 or sorted(set(columns)) != columns:
            raise ValueError("blocks.columns must be two or more different numbers, ascending")
        if block["family"] != "gaussian":
            raise ValueError("blocks.family must be 'gaussian'")
    return found


def parameters_in(contents: dict[str, Any]) -> Parameters:
    """The parameters in the contents of a model file; ValueError where blocks do not fit them."""
    weights, means, variances = (contents[key] for key in ("weights", "means", "variances"))
    joined = contents.get("blocks", [])
    (r, d), groups = means.shape, [block["columns"] for block in joined]
    blocks = blocks_from(groups, d, None)
    covariances = np.zeros((r, blocks.n_pairs))
    if joined and variances.shape == means.shape:  # others are refused with the mixture
        spread = np.hstack([variances, covariances])
        for columns, block in zip(groups, joined, strict=True):
            matrices, k = block["covariances"], len(columns)
            what = f"the covariances of columns {columns[:8]} must"
            if matrices.shape != (r, k, k):
                raise ValueError(f"{what} be {r} matrices of {k} rows and {k} columns")
            if (matrices != matrices.swapaxes(1, 2)).any():
                raise ValueError(f"{what} be symmetric")
            if (np.diagonal(matrices, axis1=1, axis2=2) != variances[:, columns]).any():
                raise ValueError(f"{what} have the variances on their diagonals")
            spread[:, blocks.table(np.array(columns))] = matrices
        covariances = spread[:, d:]
    return Parameters(weights, means, variances, covariances, blocks)


# -- tables -------------------------------------------------------------------------------------


def _schema(value: Any, place: str) -> Schema:
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


def blocks_in(contents: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of a table's mixture, checked against its schema; ValueError if they are none."""
    schema: Schema = contents["schema"]
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
