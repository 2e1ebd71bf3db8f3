"""How objects are written to our JSON files and read from them: each is declared once, as `Fields`.

A decoder takes parsed JSON and its place in the file ("fit.certificate.p_value") and gives the
value, or raises a ValueError that starts with the place. Encoding is the same for all: `plain`.
JSON is strict: no key twice, no NaN or infinity, not even as 1e999.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from math import inf, isfinite
from operator import attrgetter
from sys import float_info
from typing import Any

import numpy as np

Decoder = Callable[[Any, str], Any]


def parse_strict(text: str) -> Any:
    """The value of a JSON text; ValueError (or RecursionError) where it is not strictly one."""

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    def to_float(text: str) -> float:
        if not isfinite(float(text)):
            what = "beyond the range of numbers" if text[-1].isdigit() else "not a number"
            raise ValueError(f"{text[:20]} is {what}")
        return float(text)

    return json.loads(
        text, object_pairs_hook=to_object, parse_constant=to_float, parse_float=to_float
    )


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


# -- decoders -------------------------------------------------------------------------------------


def check_version(document: Any, place: str, known: int) -> None:
    """Raise unless a parsed document has this version."""
    version = document.get("version") if isinstance(document, dict) else None
    if type(version) is not int or version != known:
        raise ValueError(
            f"{place} has version {repr(version)[:40]}; this momentmix reads version {known}"
        )


def _kind(types: tuple[type, ...], name: str, least: float = -inf, most: float = inf) -> Decoder:
    """Values of these very types; numbers within bounds that a double can hold."""

    def decode(value: Any, place: str) -> Any:
        is_number = type(value) in (int, float)
        if type(value) not in types or (float in types and is_number and not _is_double(value)):
            raise ValueError(f"{place} must be {name}")
        if is_number and not least <= value <= most:
            raise ValueError(f"{place} is {str(value)[:20]}, out of range")
        return value

    return decode


def _is_double(value: Any) -> bool:
    """Whether a parsed value is a number that a double can hold; integers may be too large."""
    return type(value) in (int, float) and abs(value) <= float_info.max


text = _kind((str,), "a string")
boolean = _kind((bool,), "true or false")
column = _kind((str, int), "a string or an integer")


def anything(value: Any, place: str) -> Any:
    """Take a value of any kind."""
    return value


def integer(least: float = -(1 << 63), most: float = (1 << 63) - 1) -> Decoder:
    """An integer within bounds, by default of 64 bits."""
    return _kind((int,), "an integer", least, most)


def number(least: float = -inf, most: float = inf) -> Decoder:
    """A number within bounds; null stands for NaN and infinity, which JSON does not have."""
    decode = _kind((int, float), "a number or null", least, most)
    return lambda value, place: float("nan") if value is None else float(decode(value, place))


def array(*shape: int | None, nulls: bool = False) -> Decoder:
    """Numbers in nested lists, at least one; None in the shape stands for any length.

    With `nulls`, null stands for NaN and infinity.
    """

    def decode(value: Any, place: str) -> Any:
        level, lengths = [value], []
        for wanted in shape:
            length, *others = {len(x) if isinstance(x, list) else 0 for x in level}
            lengths.append(length)
            if others or not length or wanted not in (None, length):
                break
            level = [x for inner in level for x in inner]
        else:
            if all(_is_double(x) or (nulls and x is None) for x in level):
                return np.array(level, dtype=np.float64).reshape(lengths)  # None becomes NaN
        raise ValueError(f"{place} must be numbers{' or null' * nulls} in lists {shape}")

    return decode


def choice(members: type[Enum]) -> Decoder:
    """A member of an enumeration, by its value."""

    def decode(value: Any, place: str) -> Any:
        try:
            return members(text(value, place))
        except ValueError:
            values = ", ".join(repr(member.value) for member in members)
            raise ValueError(f"{place} must be one of {values}") from None

    return decode


def optional(decode: Decoder) -> Decoder:
    """The same, or null as None."""
    return lambda value, place: None if value is None else decode(value, place)


class list_of:  # noqa: N801 - a decoder that also encodes
    """Values of one kind."""

    def __init__(self, decode: Decoder) -> None:
        self.decode = decode

    def __call__(self, value: Any, place: str) -> list[Any]:
        """Decode the list."""
        if not isinstance(value, list):
            raise ValueError(f"{place} must be a list")
        return [self.decode(x, place) for x in value]

    def encode(self, values: Iterable[Any]) -> list[Any]:
        """The values as plain JSON."""
        return [getattr(self.decode, "encode", plain)(value) for value in values]


def map_of(decode: Decoder) -> Decoder:
    """Values of one kind by name."""
    is_map = _kind((dict,), "an object")
    return lambda value, place: {
        key: decode(x, f"{place}.{key}") for key, x in is_map(value, place).items()
    }


class Fields:
    """An object of a file: all keys must occur, and no others.

    `build` makes the object of the values by key, and may raise ValueError; `fields` are decoders
    by key, in the order of the file. Keys of `may_lack` may be absent, and so may those of
    `defaults`, whose values are not written. `attributes` are the attributes of the object by key,
    where they are not the key: ``"test.statistic"``.
    """

    def __init__(
        self,
        build: Callable[[dict[str, Any]], Any],
        fields: dict[str, Decoder],
        *,
        may_lack: Collection[str] = (),
        attributes: dict[str, str] | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.build, self.fields, self.may_lack = build, fields, may_lack
        self.attributes, self.defaults = attributes or {}, defaults or {}

    def encode(self, value: Any) -> dict[str, Any]:
        """The attributes of a value as an object of plain JSON."""
        document = {}
        for key, field in self.fields.items():
            attribute = attrgetter(self.attributes.get(key, key))(value)
            if key not in self.defaults or attribute != self.defaults[key]:
                document[key] = getattr(field, "encode", plain)(attribute)
        return document

    def __call__(self, document: Any, place: str) -> Any:
        """Decode the object."""
        if not isinstance(document, dict):
            raise ValueError(f"{place} must be an object")
        missing = set(self.fields) - {*document, *self.may_lack, *self.defaults}
        if missing:
            raise ValueError(f"{place or 'it'} lacks {', '.join(sorted(missing))}")
        if unknown := sorted(set(document) - set(self.fields)):
            listed = ", ".join(ascii(key)[:60] for key in unknown[:5])
            raise ValueError(f"{place or 'it'} holds unknown keys: {listed}")
        values = {
            key: self.fields[key](value, f"{place}.{key}".lstrip("."))
            for key, value in document.items()
        }
        return self.build(values)
