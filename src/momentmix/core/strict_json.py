"""JSON from files that may be hostile: no key twice, no NaN or infinity, not even as 1e999."""

from __future__ import annotations

import json
from math import isinf
from typing import Any

__all__ = ["parse_strict"]


def parse_strict(text: str) -> Any:
    """The value of a JSON text; ValueError (or RecursionError) where it is not strictly one."""
    return json.loads(
        text,
        object_pairs_hook=_no_duplicates,
        parse_constant=_no_constants,
        parse_float=_finite,
    )


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
