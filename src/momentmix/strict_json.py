"""Strict JSON, read and written: no key twice, no NaN or infinity, not even as 1e999."""

from __future__ import annotations

import json
from math import isfinite, isinf
from typing import Any

__all__ = ["format_strict", "is_double", "parse_strict"]


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
    """The JSON text of plain values, in printable ASCII; what is not finite becomes null."""
    text = json.dumps(_nulled(value), indent=indent, allow_nan=False)
    return text.replace("\x7f", "\\u007f")  # json escapes all other control characters


def _nulled(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _nulled(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_nulled(one) for one in value]
    return value


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
