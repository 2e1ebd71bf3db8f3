"""The file of a moment summary: bytes ↔ exact sums. ``docs/file-format.md`` describes every byte.

One content has one byte string: the header is canonical JSON, shard ids are sorted, integers are as
narrow as their section allows, and reading refuses anything else. Reading checks lengths before it
allocates, the checksum before it believes, and the contents after that.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from momentmix.errors import InputError, SummaryFileError
from momentmix.index_sets import countable
from momentmix.json_fields import parse_strict
from momentmix.summary.adding import impossible
from momentmix.summary.digits import Frame, packed, unpacked
from momentmix.summary.layout import COMPLETE, POWERS, Layout, known
from momentmix.summary.totals import Mark, Totals, centers_of
from momentmix.tables.names import check_encodable
from momentmix.tables.schema import Schema

MAGIC, VERSION = b"\x89MMS\r\n\x1a\n", 6
SUFFIX = ".mms"  # by which a file that is none of ours is still taken for one
_PREFIX = struct.Struct("<8sII")
_MARK = struct.Struct("<Qdd")
_HEADER_CAP = 1 << 22
_CHECKSUM = 32
_WIDTH_CAP = 1 << 16
_COUNTS = ("n_features", "order", "squared_order", "n_rows", "n_forgotten", "n_shards")
_LISTS = ("exponents", "origins")
_OTHERS = ("exact_bounds", "feature_names", "high", "schema", "weight_squares", "width")
_KEYS = {*_COUNTS, *_LISTS, *_OTHERS}

Header = dict[str, Any]
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


# -- writing ----------------------------------------------------------------------------------


def is_summary_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a summary, by its first bytes or its name."""
    if os.fspath(path).endswith(SUFFIX):
        return True
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def pack(totals: Totals, feature_names: tuple[str, ...] | None) -> bytes:
    """The byte string of a summary."""
    layout, schema = totals.layout, totals.schema
    if schema is not None:
        feature_names = schema.feature_names
    width, sums = packed(totals.digits)
    header = _canonical(
        {
            "exact_bounds": totals.exact_bounds,
            "exponents": list(totals.frame.exponents),
            "feature_names": None if feature_names is None else list(feature_names),
            "high": layout.high,
            "n_features": layout.n_features,
            "n_forgotten": totals.n_forgotten,
            "n_rows": totals.n_rows,
            "n_shards": len(totals.shards),
            "order": layout.order,
            "origins": [str(k) for k in totals.frame.origins],
            "schema": schema and schema.to_dict(),
            "squared_order": layout.squared_order,
            "weight_squares": str(totals.weight_squares),
            "width": width,
        }
    )
    if len(header) > _HEADER_CAP:
        raise InputError(
            f"the header would take {len(header)} bytes, the format allows {_HEADER_CAP}. Use "
            "shorter feature names."
        )
    shards, nothing = sorted(totals.shards), Mark(0, 0.0, 0.0)
    parts = [_PREFIX.pack(MAGIC, VERSION, len(header)), header, *shards]
    parts += [_MARK.pack(*totals.shards[shard]) for shard in shards]
    if totals.n_forgotten:
        parts += [_MARK.pack(*totals.forgotten.get(shard, nothing)) for shard in shards]
    parts += [np.asarray(b, dtype="<f8").tobytes() for b in (totals.minimum, totals.maximum)]
    body = b"".join([*parts, sums])
    return body + hashlib.sha256(body).digest()


def _canonical(header: Header) -> bytes:
    return _ENCODER.encode(header).encode()


# -- reading ----------------------------------------------------------------------------------


def read_file(path: str | os.PathLike[str]) -> tuple[Totals, tuple[str, ...] | None]:
    """Read a summary from a regular file."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        raise SummaryFileError(f"{path} does not exist.") from None
    if not stat.S_ISREG(kind):
        raise SummaryFileError(f"{path} is not a regular file; give the path of a saved summary.")
    try:
        with open(path, "rb") as file:
            start = file.read(_PREFIX.size)
            _check_version(start)  # before all of it is read
            return unpack_strange(start + file.read())
    except SummaryFileError as error:
        raise SummaryFileError(f"{path}: {error}") from None


def unpack(data: bytes) -> tuple[Totals, tuple[str, ...] | None]:
    """Read a byte string of `pack`: one that has the right checksum is not looked at closely."""
    if not is_whole(data):
        return unpack_strange(data)
    _check_version(data[: _PREFIX.size])
    start = _PREFIX.size + _PREFIX.unpack_from(data)[2]
    header = json.loads(data[_PREFIX.size : start])
    if header["schema"] is not None:
        header["schema"] = _schema_of(_canonical(header["schema"]))
    layout = _layout_of(*(header[key] for key in _COUNTS[:3]), header["high"])
    totals, names = _parse_body(layout, header, data[start:-_CHECKSUM]), header["feature_names"]
    if totals.schema is not None:
        return totals, totals.schema.column_names
    return totals, None if names is None else tuple(names)


@lru_cache(maxsize=64)
def _layout_of(n_features: int, order: int, squared_order: int, high: int) -> Layout:
    return known(Layout(n_features, order, squared_order, high))


@lru_cache(maxsize=64)
def _schema_of(text: bytes) -> Schema:
    return Schema.from_dict(json.loads(text))


def unpack_strange(data: bytes) -> tuple[Totals, tuple[str, ...] | None]:
    """Read a summary from a byte string of anyone; its sums must be possible and canonical."""
    found = totals, names = _unpack(BytesIO(data), len(data))
    wrong = impossible(totals)
    _require(wrong is None, f"{wrong}")
    _require(pack(totals, names) == data, "not in the form in which it is written")
    return found


def is_whole(data: bytes) -> bool:
    """Whether bytes have the checksum of a summary."""
    return hashlib.sha256(data[:-_CHECKSUM]).digest() == data[-_CHECKSUM:]


def _unpack(file: BinaryIO, size: int) -> tuple[Totals, tuple[str, ...] | None]:
    prefix = file.read(_PREFIX.size)
    _check_version(prefix)
    length = _PREFIX.unpack(prefix)[2]
    if length > _HEADER_CAP or length > size - _PREFIX.size - _CHECKSUM:
        raise SummaryFileError(f"the header claims {length} bytes of {size}: it is truncated.")
    raw = file.read(length)
    header = _parse_header(raw)
    layout = _checked_layout(header, size)
    expected = _PREFIX.size + length + _body_length(layout, header) + _CHECKSUM
    if size != expected:
        what = "truncated" if size < expected else "followed by foreign bytes"
        raise SummaryFileError(
            f"expected {expected} bytes, found {size}: the file is {what}. Restore it from a copy."
        )
    body = file.read(expected - _PREFIX.size - length - _CHECKSUM)
    if hashlib.sha256(prefix + raw + body).digest() != file.read(_CHECKSUM):
        raise SummaryFileError(
            "the checksum does not match: bytes were changed or lost. Restore it from a copy."
        )
    totals = _parse_body(layout, header, body)
    _require(bool(totals.shards) == (totals.n_rows > 0), "rows without shards, or the other way")
    _require(not totals.n_rows or totals.weight > 0, "rows with no weight")
    names = header["feature_names"]
    if totals.schema is not None:
        return totals, totals.schema.column_names
    return totals, None if names is None else tuple(names)


def _check_version(prefix: bytes) -> None:
    """Raise unless the first bytes are those of a summary of this version."""
    if not prefix:
        raise SummaryFileError("the file is empty; it is not a momentmix summary.")
    if prefix[:8] != MAGIC[: len(prefix[:8])]:
        if prefix[:1] == b"\x80" or prefix[:2] == b"PK":
            found = "a pickle or zip archive, which momentmix never loads"
        elif prefix[:1] == b"{":
            found = "JSON, perhaps a model: use Mixture.load"
        else:
            found = (
                f"it starts with {prefix[:8]!r}; make one of rows: summarize(path) (momentmix "
                "summarize), of a cube: SummaryCube.load(path).total()"
            )
        raise SummaryFileError(f"not a momentmix summary ({found}).")
    if len(prefix) < _PREFIX.size:
        raise SummaryFileError(
            f"expected at least {_PREFIX.size} bytes, found {len(prefix)}: the file is truncated."
        )
    version = _PREFIX.unpack(prefix)[1]
    if version != VERSION:
        raise SummaryFileError(
            f"format version {version}; this momentmix reads version {VERSION}. Use the release "
            "that wrote it, or summarize the rows again."
        )


def _parse_header(raw: bytes) -> Header:
    try:
        header = parse_strict(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SummaryFileError(f"the header cannot be read: {str(error)[:200]}.") from None
    if not isinstance(header, dict) or set(header) != _KEYS:
        raise SummaryFileError("the header does not have the keys of a summary.")
    if _canonical(header) != raw:
        raise SummaryFileError("the header is not in canonical form.")
    if header["schema"] is not None:
        header["schema"] = _parse_schema(header)
    return header


def _parse_schema(header: Header) -> Schema:
    try:
        schema = Schema.from_dict(header["schema"])
    except ValueError as error:
        raise SummaryFileError(f"impossible contents: {str(error)[:200]}.") from None
    canonical = _canonical(schema.to_dict()) == _canonical(header["schema"])
    _require(canonical, "a schema that is not in canonical form")
    _require(not schema.is_plain, "a schema of numbers without missing cells")
    _require(schema.n_features == header["n_features"], "a schema of other features")
    names = list(schema.feature_names)
    _require(names == header["feature_names"], "feature_names must be those of the schema")
    is_centered = header["n_rows"] and any(centers_of(schema))
    _require(not is_centered, "a schema with centers: those of sums are in their origins")
    return schema


def _is_integer(value: Any, low: int, high: int = 1 << 62) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_decimal(value: Any) -> bool:
    if not isinstance(value, str) or not 1 <= len(value) <= 1000:
        return False
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(value)) == value


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise SummaryFileError(f"impossible contents: {what}.")


def _checked_layout(header: Header, size: int) -> Layout:
    """The layout, after checking the type and the range of every field of the header."""
    for key in _COUNTS[:2]:
        _require(_is_integer(header[key], 1), f"{key} must be a positive integer")
    for key in _COUNTS[2:]:
        _require(_is_integer(header[key], 0), f"{key} must be an integer ≥ 0")
    _require(isinstance(header["exact_bounds"], bool), "exact_bounds must be true or false")
    d = header["n_features"]
    for key in _LISTS:
        _require(isinstance(header[key], list), f"{key} must be a list")
    _require(
        len(header["exponents"]) == len(header["origins"]) == d, f"{d} units and origins needed"
    )
    fits = countable(d, header["order"], size)  # at least a byte for every sum
    _require(fits, f"more sums than the {size} bytes of the file can hold")
    _require(_is_integer(header["high"], POWERS, COMPLETE), "high must be 1 or 2")
    try:
        orders = header["order"], header["squared_order"]
        layout = known(Layout(d, *orders, header["high"]))
    except InputError as error:
        raise SummaryFileError(f"impossible contents: {error}") from None
    _require(layout.high == header["high"], "high sections that such a summary does not have")
    exponents = [e for e in header["exponents"] if e is not None]
    _require(all(_is_integer(e, -2200, 1023) for e in exponents), "a scale out of range")
    _require(all(_is_decimal(k) for k in header["origins"]), "origins must be decimal integers")
    _require(_is_decimal(header["weight_squares"]), "weight_squares must be a decimal integer")
    _require(_is_integer(header["width"], 1, _WIDTH_CAP), "a width out of range")
    names = header["feature_names"]
    if names is not None:
        _require(
            isinstance(names, list) and all(isinstance(name, str) for name in names),
            "feature_names must be strings",
        )
        _require(len(set(names)) == len(names) == d, f"{d} different feature names needed")
        try:
            check_encodable(names)
        except InputError as error:
            raise SummaryFileError(f"impossible contents: {error}") from None
    return layout


def _body_length(layout: Layout, header: Header) -> int:
    by_shard = 16 + _MARK.size * (1 + (header["n_forgotten"] > 0))
    sums = layout.n_entries * header["width"]
    return int(by_shard * header["n_shards"] + 16 * layout.n_features + sums)


def _parse_body(layout: Layout, header: Header, body: bytes) -> Totals:
    view, n, d = memoryview(body), header["n_shards"], layout.n_features
    shards, used = [body[i : i + 16] for i in range(0, 16 * n, 16)], 16 * n
    is_sorted = all(a < b for a, b in pairwise(shards))
    _require(is_sorted, "shard ids must be sorted and different")

    def marks() -> list[Mark]:
        nonlocal used
        start, used = used, used + _MARK.size * n
        return [Mark(*numbers) for numbers in _MARK.iter_unpack(view[start:used])]

    own = dict(zip(shards, marks(), strict=True))
    lost = zip(shards, marks(), strict=True) if header["n_forgotten"] else ()
    bounds = np.frombuffer(view[used : used + 16 * d], dtype="<f8").astype(np.float64)
    return Totals(
        layout=layout,
        frame=Frame(tuple(header["exponents"]), tuple(map(int, header["origins"]))),
        digits=unpacked(view[used + 16 * d :], layout.n_entries, header["width"]),
        weight_squares=int(header["weight_squares"]),
        n_rows=header["n_rows"],
        minimum=bounds[:d],
        maximum=bounds[d:],
        exact_bounds=header["exact_bounds"],
        shards=own,
        n_forgotten=header["n_forgotten"],
        forgotten={shard: mark for shard, mark in lost if mark.n_rows},
        schema=header["schema"],
    )


def rows_of(data: bytes) -> int:
    """Number of rows of a byte string of `pack`, without a look at its sums."""
    prefix = data[: _PREFIX.size]
    _check_version(prefix)
    length = _PREFIX.unpack(prefix)[2]
    if length > len(data) - _PREFIX.size:
        raise SummaryFileError("the header is cut off.")
    try:
        return int(json.loads(data[_PREFIX.size : _PREFIX.size + length])["n_rows"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise SummaryFileError("the header cannot be read.") from None
