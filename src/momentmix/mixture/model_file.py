"""The file of a model: readable JSON, checked in full before any of it is used.

``docs/model-file.md`` describes it. The checksum is over the numbers, not their text, so that a
file may be formatted anew; it may be absent, and must be removed after editing by hand.
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

from momentmix.atomic_file import atomic_write
from momentmix.errors import ModelFileError
from momentmix.findings.messages import Message, either
from momentmix.json_fields import (
    Decoder,
    Fields,
    array,
    check_version,
    integer,
    list_of,
    optional,
    parse_strict,
    text,
    texts,
)
from momentmix.mixture.blocks import blocks_from
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.file import blocks_field, checked_bytes, schema_field, table_document

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

# The name is that of what version 1 holds: releases that read no other then say so.
_FORMAT, _DIAGONAL, _JOINED, _TABLE = "momentmix.DiagonalMixture", 1, 2, 3
_LARGEST = 1 << 30  # bytes; more than any model that was fitted has, and still fits in memory


def _anything(value: Any, place: str) -> Any:
    return value


def _record(value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{place}, the record of the fit, must be an object")
    return value


def _block(values: dict[str, Any]) -> dict[str, Any]:
    columns = values["columns"]
    if len(columns) < 2 or sorted(set(columns)) != columns:
        raise ValueError("blocks.columns must be two or more different numbers, ascending")
    if values["family"] != "gaussian":
        raise ValueError("blocks.family must be 'gaussian'")
    return values


_BLOCK = Fields(
    _block,
    {"columns": list_of(integer(0)), "family": text, "covariances": array(None, None, None)},
)


def _blocks(value: Any, place: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list_of(_BLOCK)(value, place)
    if not found:
        raise ValueError(f"{place} must hold a block; without one, the version is {_DIAGONAL}")
    return found


def _contents(version: int) -> Fields:
    head = {"format": _anything, "version": _anything, "weights": array(None)}
    tail = {"fit": _record, "sha256": _anything}
    if version == _TABLE:
        own: dict[str, Decoder] = {"schema": schema_field, "blocks": blocks_field}
        return Fields(dict, {**head, **own, **tail}, may_lack=tail)
    joined = {"blocks": _blocks} if version == _JOINED else {}
    own = {"means": array(None, None), "variances": array(None, None), **joined}
    names = {"feature_names": optional(texts)}
    return Fields(dict, {**head, **own, **names, **tail}, may_lack={**names, **tail})


def model_document(mixture: Mixture) -> dict[str, Any]:
    """A mixture as plain values; ``blocks`` and ``feature_names`` only where there are any."""
    if mixture.schema is not None:
        return table_document(mixture.weights, mixture.blocks, mixture.schema)
    document: dict[str, Any] = {
        "weights": mixture.weights.tolist(),
        "means": mixture.means.tolist(),
        "variances": mixture.variances.tolist(),
    }
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


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a model file of the right format, version and types; numbers as arrays."""
    document = _parsed(path, _bytes(path))
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
            if matrices.shape != (r, k, k):
                raise ValueError(
                    f"the covariances of columns {columns[:8]} must be {r} matrices of {k} rows "
                    f"and {k} columns"
                )
            if (matrices != matrices.swapaxes(1, 2)).any():
                raise ValueError(f"the covariances of columns {columns[:8]} must be symmetric")
            if (np.diagonal(matrices, axis1=1, axis2=2) != variances[:, columns]).any():
                raise ValueError(
                    f"the covariances of columns {columns[:8]} must have the variances on their "
                    "diagonals"
                )
            spread[:, blocks.table(np.array(columns))] = matrices
        covariances = spread[:, d:]
    return Parameters(weights, means, variances, covariances, blocks)


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
    if "fit" in contents:
        record = json.dumps(contents["fit"], sort_keys=True, separators=(",", ":"))
        digest.update(record.encode())
    return digest.hexdigest()


def _number_parts(contents: dict[str, Any]) -> Iterator[Any]:
    """What the checksum is over in versions 1 and 2: texts as bytes, and tables of numbers."""
    for key in ("weights", "means", "variances"):
        yield contents[key]
    for block in contents.get("blocks", []):
        yield json.dumps([block["columns"], block["family"]], separators=(",", ":")).encode()
        yield np.reshape(block["covariances"], (len(block["covariances"]), -1))
    yield json.dumps(contents.get("feature_names"), separators=(",", ":")).encode()


def _table_parts(contents: dict[str, Any]) -> list[Any]:
    """The same in version 3."""
    return [contents["weights"], *checked_bytes(contents)]


def _bytes(path: str | os.PathLike[str]) -> bytes:
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
        return file.read()


def _parsed(path: str | os.PathLike[str], data: bytes) -> Any:
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
