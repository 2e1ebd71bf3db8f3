"""Codecs for the JSON of our files: one declaration both writes a value and reads it back.

A codec encodes a value as plain JSON, and decodes parsed JSON with a check of type and range. The
``place`` of a value ("fit.certificate.p_value", "" for a document) starts the message of the
ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.strict_json import is_double

__all__ = [
    "BOOLEAN",
    "TEXT",
    "TEXTS",
    "TEXT_MAP",
    "Codec",
    "Fields",
    "array",
    "check_version",
    "choice",
    "integer",
    "list_of",
    "number",
    "optional",
]


class Codec(NamedTuple):
    """How a value becomes JSON, and how parsed JSON at a place becomes the value."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]


def check_version(document: Any, place: str, expected: int) -> None:
    """Raise unless a parsed document has the expected version."""
    version = document.get("version") if isinstance(document, dict) else None
    if type(version) is not int or version != expected:
        raise ValueError(
            f"{place} has version {repr(version)[:40]}; this momentmix reads version {expected}"
        )


def _checked(
    encode: Callable[[Any], Any], is_valid: Callable[[Any], bool], requirement: str
) -> Codec:
    """Codec of values that are the same in JSON, after a check."""

    def decode(value: Any, place: str) -> Any:
        if not is_valid(value):
            raise ValueError(f"{place} must {requirement}")
        return value

    return Codec(encode, decode)


def _are_texts(values: Collection[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


TEXT = _checked(str, lambda x: isinstance(x, str), "be a string")
BOOLEAN = _checked(bool, lambda x: isinstance(x, bool), "be true or false")
_TEXT_LIST = _checked(list, lambda x: isinstance(x, list) and _are_texts(x), "be a list of strings")
TEXTS = Codec(list, lambda value, place: tuple(_TEXT_LIST.decode(value, place)))
TEXT_MAP = _checked(
    dict, lambda x: isinstance(x, dict) and _are_texts(x.values()), "hold strings in an object"
)
_INTEGER = _checked(int, lambda x: type(x) is int, "be an integer")
_NUMBER = _checked(float, lambda x: x is None or is_double(x), "be a number or null")


def integer(least: int | None = -(1 << 63), most: int | None = (1 << 63) - 1) -> Codec:
    """An integer within bounds, by default of 64 bits."""

    def decode(value: Any, place: str) -> int:
        return int(_bounded(_INTEGER.decode(value, place), place, least, most))

    return Codec(int, decode)


def number(least: float | None = None, most: float | None = None) -> Codec:
    """A number within bounds; null stands for NaN and infinity, which JSON does not have."""

    def decode(value: Any, place: str) -> float:
        if _NUMBER.decode(value, place) is None:
            return float("nan")
        return float(_bounded(value, place, least, most))

    return Codec(lambda x: float(x) if np.isfinite(x) else None, decode)


def _bounded(value: Any, place: str, least: float | None, most: float | None) -> Any:
    if (least is not None and value < least) or (most is not None and value > most):
        raise ValueError(f"{place} is {str(value)[:20]}, out of range")
    return value


def array(*shape: int | None, nulls: bool = False) -> Codec:
    """Numbers in nested lists, at least one; None in the shape stands for any length.

    With `nulls`, null stands for NaN and infinity. The shape is checked on decoding alone.
    """
    requirement = "be a list of numbers"
    if len(shape) > 1:
        requirement = "be lists of numbers, all of the same length"
    if nulls:
        requirement = f"be numbers or null in lists {shape}"

    def encode(values: Any) -> Any:
        numbers = np.asarray(values, dtype=np.float64)
        plain = numbers.astype(object)
        plain[~np.isfinite(numbers)] = None
        return plain.tolist()

    def decode(value: Any, place: str) -> NDArray[np.float64]:
        level, lengths = [value], []
        for wanted in shape:
            found = {len(x) if isinstance(x, list) else None for x in level}
            length = found.pop() if len(found) == 1 else None
            if not length or wanted not in (None, length):
                raise ValueError(f"{place} must {requirement}")
            lengths.append(length)
            level = [x for inner in level for x in inner]
        if not all(is_double(x) or (nulls and x is None) for x in level):
            raise ValueError(f"{place} must {requirement}")
        return np.array(level, dtype=np.float64).reshape(lengths)  # None becomes NaN

    return Codec(encode, decode)


def choice(members: type[Enum]) -> Codec:
    """A member of an enumeration, by its value."""
    return Codec(lambda member: member.value, lambda x, place: members(TEXT.decode(x, place)))


def optional(codec: Codec) -> Codec:
    """The same, or None as null."""
    return Codec(
        lambda value: None if value is None else codec.encode(value),
        lambda value, place: None if value is None else codec.decode(value, place),
    )


def list_of(codec: Codec | Fields) -> Codec:
    """A list of values of one kind."""

    def decode(value: Any, place: str) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{place} must be a list")
        return [codec.decode(x, place) for x in value]

    return Codec(lambda values: [codec.encode(x) for x in values], decode)


class Fields:
    """Codec of an object: its attributes are the keys, and no other key may occur.

    Parameters
    ----------
    build : callable
        Called with the decoded attributes as keywords; may raise ValueError.
    may_lack : collection of str
        Keys that may be absent; `build` is then called without them.
    renamed : dict of str, optional
        Keys that differ from the attribute.
    **attributes : Codec or Fields
        By attribute, in the order of the file. The keys of `Fields` in here stand beside the
        others and not in an object of their own (`nested` makes one).
    """

    def __init__(
        self,
        build: Callable[..., Any],
        *,
        may_lack: Collection[str] = (),
        renamed: dict[str, str] | None = None,
        **attributes: Codec | Fields,
    ) -> None:
        self.build, self.attributes, self.may_lack = build, attributes, may_lack
        self.renamed = renamed or {}

    def _key(self, attribute: str) -> str:
        return self.renamed.get(attribute, attribute)

    def keys(self) -> list[str]:
        """All keys, in the order of the file."""
        keys = []
        for name, codec in self.attributes.items():
            keys += codec.keys() if isinstance(codec, Fields) else [self._key(name)]
        return keys

    def encode(self, value: Any) -> dict[str, Any]:
        """The attributes of a value as an object of JSON."""
        document: dict[str, Any] = {}
        for name, codec in self.attributes.items():
            encoded = codec.encode(getattr(value, name))
            document.update(encoded if isinstance(codec, Fields) else {self._key(name): encoded})
        return document

    def decode(self, document: Any, place: str) -> Any:
        """The value of an object that has all keys and no others."""
        if not isinstance(document, dict):
            raise ValueError(f"{place} must be an object")
        keys = self.keys()
        missing = sorted(set(keys) - set(document) - set(self.may_lack))
        if missing:
            raise ValueError(f"{place or 'it'} lacks {', '.join(missing)}")
        unknown = sorted(set(document) - set(keys))
        if unknown:
            listed = ", ".join(ascii(key)[:60] for key in unknown[:5])
            raise ValueError(f"{place or 'it'} holds unknown keys: {listed}")
        return self._built(document, place)

    def _built(self, document: dict[str, Any], place: str) -> Any:
        values = {}
        for name, codec in self.attributes.items():
            if isinstance(codec, Fields):
                values[name] = codec._built(document, place)
            elif self._key(name) in document:
                key = self._key(name)
                values[name] = codec.decode(document[key], f"{place}.{key}".lstrip("."))
        return self.build(**values)

    def nested(self) -> Codec:
        """The same as an object of its own, within the fields of another."""
        return Codec(self.encode, self.decode)
