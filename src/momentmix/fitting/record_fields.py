"""Fields of a parsed JSON object, taken one by one and each checked for type and range."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.strict_json import is_double

__all__ = ["Fields"]


class Fields:
    """An object of a file: every field must be taken, and no other may be there.

    Parameters
    ----------
    document : object
        What the parser gave.
    place : str
        Where it stands, for messages.
    """

    def __init__(self, document: Any, place: str) -> None:
        if not isinstance(document, dict):
            raise ValueError(f"{place} must be an object")
        self.rest = dict(document)
        self.place = place

    def finish(self) -> None:
        """Raise if fields are left that nobody asked for."""
        if self.rest:
            names = ", ".join(ascii(name)[:60] for name in sorted(self.rest)[:5])
            raise ValueError(f"{self.place} holds unknown keys: {names}")

    def _take(self, key: str) -> Any:
        if key not in self.rest:
            raise ValueError(f"{self.place} lacks {key}")
        return self.rest.pop(key)

    def _typed(self, key: str, kind: type, words: str) -> Any:
        value = self._take(key)
        if type(value) is not kind:
            raise ValueError(f"{self.place}.{key} must be {words}")
        return value

    def integer(self, key: str, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int:
        """An integer within bounds, by default of 64 bits."""
        value: int = self._typed(key, int, "an integer")
        if not least <= value <= most:
            raise ValueError(f"{self.place}.{key} is {str(value)[:20]}, out of range")
        return value

    def number(self, key: str, least: float | None = None, most: float | None = None) -> float:
        """A number within bounds; null stands for NaN."""
        value = self._take(key)
        if value is None:
            return float("nan")
        if not is_double(value):
            raise ValueError(f"{self.place}.{key} must be a number or null")
        if (least is not None and value < least) or (most is not None and value > most):
            raise ValueError(f"{self.place}.{key} is {value}, out of range")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A number, or None for null."""
        return None if self._is_null(key) else self.number(key)

    def boolean(self, key: str) -> bool:
        """True or false."""
        value: bool = self._typed(key, bool, "true or false")
        return value

    def text(self, key: str) -> str:
        """A string."""
        value: str = self._typed(key, str, "a string")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None for null."""
        return None if self._is_null(key) else self.text(key)

    def optional_integer(self, key: str) -> int | None:
        """An integer, or None for null."""
        return None if self._is_null(key) else int(self._typed(key, int, "an integer"))

    def list(self, key: str) -> Any:
        """A list of anything."""
        return self._typed(key, list, "a list")

    def texts(self, key: str) -> Any:
        """A list of strings."""
        found = self.list(key)
        if not all(isinstance(one, str) for one in found):
            raise ValueError(f"{self.place}.{key} must be a list of strings")
        return found

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose values are strings."""
        found = self._typed(key, dict, "an object")
        if not all(isinstance(one, str) for one in found.values()):
            raise ValueError(f"{self.place}.{key} must hold strings")
        return dict(found)

    def object(self, key: str) -> Fields:
        """An object, with fields of its own."""
        return Fields(self._take(key), f"{self.place}.{key}")

    def optional(self, key: str) -> Fields | None:
        """An object, or None for null."""
        return None if self._is_null(key) else self.object(key)

    def array(self, key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Numbers in lists of this shape; null stands for NaN."""
        value = self._take(key)
        flat = _flattened(value, shape)
        if flat is None:
            raise ValueError(f"{self.place}.{key} must be numbers or null in lists {shape}")
        return np.array(flat, dtype=np.float64).reshape(shape)

    def _is_null(self, key: str) -> bool:
        if self.rest.get(key, 0) is None:
            del self.rest[key]
            return True
        return False


def _flattened(value: Any, shape: tuple[int, ...]) -> list[float] | None:
    if not shape:
        if value is None:
            return [float("nan")]
        return [value] if is_double(value) else None
    if not isinstance(value, list) or len(value) != shape[0]:
        return None
    parts = [_flattened(one, shape[1:]) for one in value]
    return None if None in parts else [x for part in parts for x in part]  # type: ignore[union-attr]
