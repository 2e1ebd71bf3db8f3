"""The file of a model: readable JSON, checked before it is believed."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from momentmix.core.atomic_file import atomic_write
from momentmix.core.strict_json import parse_strict
from momentmix.errors import ModelFileError

__all__ = ["read_model", "write_model"]

_FORMAT, _VERSION = "momentmix.DiagonalMixture", 1
_LARGEST = 1 << 30
_NUMBERS = ("weights", "means", "variances")
_KEYS = {"format", "version", *_NUMBERS, "feature_names", "fit"}


def write_model(path: str | os.PathLike[str], contents: dict[str, Any]) -> None:
    """Replace the file as a whole; floats are written so that they read back as the same bits."""
    document = {"format": _FORMAT, "version": _VERSION, **contents}
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    atomic_write(path, text.encode("ascii"))


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a model file, of the right format, version and types."""
    document = _parsed(path, _bytes(path))
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f'{path} is not a momentmix model: no "format": "{_FORMAT}" in it.')
    if document.get("version") != _VERSION:
        raise ModelFileError(
            f"{path} has version {document.get('version')!r}; this momentmix reads version "
            f"{_VERSION}. Use the release that wrote it, or a newer one."
        )
    missing, unknown = {*_NUMBERS} - set(document), set(document) - _KEYS
    if missing:
        raise ModelFileError(f"{path} lacks {', '.join(sorted(missing))}.")
    if unknown:
        listed = ", ".join(ascii(key) for key in sorted(unknown)[:5])
        raise ModelFileError(
            f"{path} holds unknown keys: {listed}. Use the release that wrote it, or remove them."
        )
    for key in _NUMBERS:
        if not _numbers(document[key]):
            raise ModelFileError(f"{path} does not hold a mixture: {key} must be numbers in lists.")
    names = document.get("feature_names")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ModelFileError(f"{path}: feature_names must be a list of strings.")
    if not isinstance(document.get("fit", {}), dict):
        raise ModelFileError(f"{path}: fit, the record of the fit, must be an object.")
    return document


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


def _numbers(value: Any) -> bool:
    if isinstance(value, list):
        return all(_numbers(one) for one in value)
    return isinstance(value, int | float) and not isinstance(value, bool)
