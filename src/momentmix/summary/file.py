"""The file of a moment summary: bytes ↔ exact sums. ``docs/file-format.md`` describes every byte.

One content has one byte string: the header is canonical JSON, and the digits of sums are unique.
A reader believes nothing before the checksum, and nothing that no rows could have given after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from functools import lru_cache
from typing import Any

import numpy as np

from momentmix.errors import InputError, SummaryFileError
from momentmix.index_sets import countable
from momentmix.summary.adding import impossible
from momentmix.summary.digits import Frame, trimmed
from momentmix.summary.layout import Layout
from momentmix.summary.totals import Totals, Version, centers_of
from momentmix.tables.schema import Schema, plain_schema

MAGIC, VERSION = b"\x89MMS\r\n\x1a\n", 8
SUFFIX = ".mms"  # by which a file that is none of ours is still taken for one
_PREFIX = struct.Struct("<8sII")
_HEADER_CAP = 1 << 30
_CHECKSUM = 32
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_COUNTS = "n_digits", "n_features", "n_rows", "order", "squared_order"


# -- writing ----------------------------------------------------------------------------------


def is_summary_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a summary, by its first bytes or its name."""
    if os.fspath(path).endswith(SUFFIX):
        return True
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def pack(totals: Totals) -> bytes:
    """The byte string of a summary."""
    layout, schema, versions = totals.layout, totals.schema, totals.shards.items()
    is_numbers = schema.is_plain and not schema.column_names
    document = {
        "exponents": list(totals.frame.exponents),
        "forgotten": {x.hex(): f"{v.forgotten:x}" for x, v in versions if v.forgotten},
        "maximum": _ends(totals, totals.maximum),
        "minimum": _ends(totals, totals.minimum),
        "n_digits": len(totals.digits),
        "n_features": layout.n_features,
        "n_rows": totals.n_rows,
        "order": layout.order,
        "origins": [str(k) for k in totals.frame.origins],
        "schema": None if is_numbers else schema.to_dict(),
        "shards": {x.hex(): v.n_rows for x, v in versions},
        "squared_order": layout.squared_order,
        "weight_squares": str(totals.weight_squares),
    }
    header = _ENCODER.encode(document).encode()
    if len(header) > _HEADER_CAP:
        raise InputError(
            f"the header would take {len(header)} bytes, the format allows {_HEADER_CAP}. Use "
            "shorter feature names."
        )
    body = (
        _PREFIX.pack(MAGIC, VERSION, len(header)) + header + totals.digits.astype("<i4").tobytes()
    )
    return body + hashlib.sha256(body).digest()


def _ends(totals: Totals, values: Any) -> list[float] | None:
    return values.tolist() if totals.n_rows else None


# -- reading ----------------------------------------------------------------------------------


def read_file(path: str | os.PathLike[str]) -> Totals:
    """Read a summary from a regular file."""
    if not os.path.isfile(path):
        if not os.path.exists(path):
            raise SummaryFileError(f"{path} does not exist.")
        raise SummaryFileError(f"{path} is not a regular file; give the path of a saved summary.")
    try:
        with open(path, "rb") as file:
            start = file.read(_PREFIX.size)
            _check_version(start)  # before all of it is read
            return read(start + file.read())
    except SummaryFileError as error:
        raise SummaryFileError(f"{path}: {error}") from None


def read(data: bytes) -> Totals:
    """Read a summary from a byte string of anyone; its sums must be possible and canonical."""
    _check_version(data)
    if not is_whole(data):
        raise SummaryFileError(
            "the checksum does not match: bytes were changed or lost, or the file is truncated. "
            "Restore it from a copy."
        )
    try:
        totals = unpack(data)
        wrong = impossible(totals)
        if wrong is None and pack(totals) != data:
            wrong = "not in the form in which it is written"
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        wrong = str(error)[:300].rstrip(".")
    if wrong is not None:
        raise SummaryFileError(f"impossible contents: {wrong}.")
    return totals


def is_whole(data: bytes) -> bool:
    """Whether bytes have the checksum of a summary."""
    return hashlib.sha256(data[:-_CHECKSUM]).digest() == data[-_CHECKSUM:]


def rows_of(data: bytes) -> int:
    """Number of rows of a byte string of `pack`, without a look at its sums."""
    _check_version(data)
    try:
        return int(_header(data)[0]["n_rows"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise SummaryFileError("the header cannot be read.") from None


def _check_version(data: bytes) -> None:
    """Raise unless the first bytes are those of a summary of this version."""
    if not data:
        raise SummaryFileError("the file is empty; it is not a momentmix summary.")
    if data[:8] != MAGIC[: len(data)]:
        kind = (
            f"it starts with {data[:8]!r}; make one of rows: summarize(path) (momentmix "
            "summarize), of a cube: SummaryCube.load(path).total()"
        )
        if data[:1] == b"\x80" or data[:2] == b"PK":
            kind = "a pickle or zip archive, which momentmix never loads"
        elif data[:1] == b"{":
            kind = "JSON, perhaps a model: use Mixture.load"
        raise SummaryFileError(f"not a momentmix summary ({kind}).")
    if len(data) < _PREFIX.size:
        raise SummaryFileError(
            f"expected at least {_PREFIX.size} bytes, found {len(data)}: the file is truncated."
        )
    version = _PREFIX.unpack_from(data)[1]
    if version != VERSION:
        raise SummaryFileError(
            f"format version {version}; this momentmix reads version {VERSION}. Use the release "
            "that wrote it, or summarize the rows again."
        )


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the sums begin."""
    end = _PREFIX.size + int(_PREFIX.unpack_from(data)[2])
    return json.loads(data[_PREFIX.size : end]), end


@lru_cache(maxsize=64)
def _schema_of(document: str) -> Schema:
    return Schema.from_dict(json.loads(document))


def unpack(data: bytes) -> Totals:
    """Read a byte string that `pack` made in this process, or whose checksum was right.

    What `pack` would write as it is, or what would take long to read, is checked here; an error of
    some kind says that bytes do not stand for any sums.
    """
    h, start = _header(data)
    if not all(type(h[key]) is int and 0 <= h[key] < 1 << 62 for key in _COUNTS):
        raise ValueError("a count that is no whole number")
    d, n_bytes = h["n_features"], len(data) - start - _CHECKSUM
    if not countable(d, h["order"], n_bytes):  # at least a byte for every sum
        raise ValueError(f"more sums than {n_bytes} bytes can hold")
    layout = Layout(d, h["order"], h["squared_order"])
    if 4 * layout.n_entries * h["n_digits"] != n_bytes or not n_bytes:
        raise ValueError("a body of another size than the header says")
    units = [e for e in h["exponents"] if e is not None]
    if not len(h["exponents"]) == len(h["origins"]) == d or not all(
        type(e) is int and -2200 <= e <= 1023 for e in units
    ):
        raise ValueError(f"{d} units and origins needed")
    low, high = h["minimum"], h["maximum"]
    if not h["n_rows"]:
        low, high = [np.inf] * d, [-np.inf] * d
    ends = np.array([low, high], dtype=np.float64)
    if ends.shape != (2, d):
        raise ValueError(f"bounds of {d} features needed")
    versions = {
        bytes.fromhex(x): Version(n, int(h["forgotten"].get(x, "0"), 16))
        for x, n in h["shards"].items()
    }
    if not all(len(x) == 16 and type(v.n_rows) is int for x, v in versions.items()):
        raise ValueError("shards that have no ids of 16 bytes, or no counts")
    schema = plain_schema(d) if h["schema"] is None else _schema_of(_ENCODER.encode(h["schema"]))
    if schema.n_features != d or (h["n_rows"] and any(centers_of(schema))):
        raise ValueError("a schema of other features, or with centers")
    digits = np.frombuffer(data[start:-_CHECKSUM], "<i4").reshape(-1, layout.n_entries)
    return Totals(
        layout=layout,
        frame=Frame(tuple(h["exponents"]), tuple(map(int, h["origins"]))),
        digits=trimmed(digits.astype(np.int64)),
        weight_squares=int(h["weight_squares"]),
        n_rows=h["n_rows"],
        minimum=ends[0],
        maximum=ends[1],
        schema=schema,
        shards=versions,
    )
