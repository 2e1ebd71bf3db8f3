"""The file of a model: readable JSON, checked before it is believed.

``docs/model-file.md`` describes it. The checksum is over the numbers, not their text, so that a
file may be laid out anew; it may be left out, and must be after editing by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import ModelFileError
from momentmix.strict_json import is_double, parse_strict

__all__ = ["read_model", "write_model"]

_FORMAT, _VERSION = "momentmix.DiagonalMixture", 1
_LARGEST = 1 << 30
_NUMBERS = ("weights", "means", "variances")
_KEYS = {"format", "version", *_NUMBERS, "feature_names", "fit", "sha256"}


def write_model(path: str | os.PathLike[str], contents: dict[str, Any]) -> None:
    """Replace the file as a whole; floats are written so that they read back as the same bits."""
    document = {"format": _FORMAT, "version": _VERSION, **contents, "sha256": _checksum(contents)}
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    atomic_write(path, text.encode("ascii"))


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a model file, of the right format, version and types."""
    document = _parsed(path, _bytes(path))
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f'{path} is not a momentmix model: no "format": "{_FORMAT}" in it.')
    version = document.get("version")
    if version != _VERSION or type(version) is not int:
        raise ModelFileError(
            f"{path} has version {repr(version)[:40]}; this momentmix reads version "
            f"{_VERSION}. Use the release that wrote it, or a newer one."
        )
    missing, unknown = {*_NUMBERS} - set(document), set(document) - _KEYS
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(sorted(missing))}.")
    if unknown:
        listed = ", ".join(ascii(key)[:60] for key in sorted(unknown)[:5])
        raise ModelFileError(
            f"{path} holds unknown keys: {listed}. Use the release that wrote it, or remove them."
        )
    if not _is_vector(document["weights"]) or not document["weights"]:
        raise ModelFileError(f"{path} does not hold a mixture: weights must be a list of numbers.")
    for key in _NUMBERS[1:]:
        if not _is_table(document[key]):
            raise ModelFileError(
                f"{path} does not hold a mixture: {key} must be lists of numbers, all of the same "
                "length."
            )
    names = document.get("feature_names")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ModelFileError(f"{path}: feature_names must be a list of strings.")
    if not isinstance(document.get("fit", {}), dict):
        raise ModelFileError(f"{path}: fit, the record of the fit, must be an object.")
    if "sha256" in document and document["sha256"] != _checksum(document):
        raise ModelFileError(
            f"{path}: the checksum does not match: the numbers were changed or damaged. Restore it "
            'from a copy; if you edited it on purpose, remove the line "sha256".'
        )
    return document


def _checksum(contents: dict[str, Any]) -> str:
    """SHA-256 of the numbers as doubles, row by row, then names and record of the fit as JSON."""
    digest = hashlib.sha256()
    tables = [[contents["weights"]], contents["means"], contents["variances"]]
    for table in tables:
        digest.update(struct.pack("<QQ", len(table), len(table[0])))
        for row in table:
            digest.update(struct.pack(f"<{len(row)}d", *row))
    digest.update(json.dumps(contents.get("feature_names"), separators=(",", ":")).encode())
    if "fit" in contents:
        record = json.dumps(contents["fit"], sort_keys=True, separators=(",", ":"))
        digest.update(record.encode())
    return digest.hexdigest()


def _bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist.") from None
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"{path} is not a regular file; give the path of a saved model.")
    if found.st_size > _LARGEST:
        raise ModelFileError(
            f"{path} has {found.st_size} bytes; a model has at most {_LARGEST}. Is it data?"
        )
    with open(path, "rb") as file:
        return file.read()


def _parsed(path: str | os.PathLike[str], data: bytes) -> Any:
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


def _is_vector(value: Any) -> bool:
    """A list of finite doubles; an integer counts if it fits."""
    return isinstance(value, list) and all(is_double(one) for one in value)


def _is_table(value: Any) -> bool:
    """Lists of numbers of the same length, at least one of at least one number."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(_is_vector(row) for row in value)
        and len({len(row) for row in value}) == 1
        and bool(value[0])
    )
