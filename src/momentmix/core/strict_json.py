"""JSON from files that may be hostile: no key twice, no NaN or infinity."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_strict"]


def parse_strict(text: str) -> Any:
    """The value of a JSON text; ValueError (or RecursionError) where it is not strictly one."""
    return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constants(text: str) -> None:
    raise ValueError(f"{text} is not a number")
