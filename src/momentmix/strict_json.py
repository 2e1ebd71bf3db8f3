"""Strict JSON, read and written: no key twice, no NaN or infinity, not even as 1e999."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite, isinf
from typing import Any


def parse_strict(text: str) -> Any:
    """The value of a JSON text; ValueError (or RecursionError) where it is not strictly one."""
    return json.loads(
        text,
        object_pairs_hook=_no_duplicates,
        parse_constant=_no_constants,
        parse_float=_finite,
    )


def is_double(value: Any) -> bool:
    """Whether a parsed value is a number that a double can hold; integers may be too large."""
    if type(value) not in (int, float):
        return False
    try:
        return isfinite(value)
    except OverflowError:
        return False


def format_strict(value: Any, indent: int | None = None) -> str:
    """The JSON text of values, as `plain` gives them, in printable ASCII."""
    text = json.dumps(plain(value), indent=indent, allow_nan=False)
    return text.replace("\x7f", "\\u007f")  # json escapes all other control characters


def plain(value: Any) -> Any:
    """A value as JSON has it.

    Dataclasses and named tuples become objects, arrays lists, NaN and infinity None.
    """
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return plain(value.tolist()) if hasattr(value, "tolist") else value  # NumPy


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constants(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text[:20]} is beyond the range of numbers")
    return value
