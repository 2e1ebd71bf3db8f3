"""The file of a moment summary: bytes ↔ exact sums. ``docs/file-format.md`` describes every byte.

One content has one byte string: the header is canonical JSON, shard ids are sorted, sums are as
narrow as they allow. A reader believes nothing before the checksum, and nothing that no rows could
have given after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from momentmix.errors import InputError, SummaryFileError
from momentmix.index_sets import countable
from momentmix.summary.adding import impossible
from momentmix.summary.digits import Frame, packed, unpacked
from momentmix.summary.layout import Layout, known
from momentmix.summary.totals import Totals, Version, centers_of
from momentmix.tables.names import check_feature_names
from momentmix.tables.schema import Schema

MAGIC, VERSION = b"\x89MMS\r\n\x1a\n", 7
SUFFIX = ".mms"  # by which a file that is none of ours is still taken for one
_PREFIX = struct.Struct("<8sII")
_TOKEN = 16  # bytes of what distinguishes forgotten rows
_HEADER_CAP = 1 << 22
_CHECKSUM = 32
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


_COUNTS = (
    "high", "n_features", "n_forgotten", "n_rows", "n_shards", "order", "squared_order", "width",
)  # fmt: skip


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
    layout, schema = totals.layout, totals.schema
    names = totals.names if schema is None else schema.feature_names
    width, sums = packed(totals.digits)
    document = {
        "exact_bounds": totals.exact_bounds,
        "exponents": list(totals.frame.exponents),
        "feature_names": None if names is None else list(names),
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
    header = _ENCODER.encode(document).encode()
    if len(header) > _HEADER_CAP:
        raise InputError(
            f"the header would take {len(header)} bytes, the format allows {_HEADER_CAP}. Use "
            "shorter feature names."
        )
    shards = sorted(totals.shards.items())
    parts = [_PREFIX.pack(MAGIC, VERSION, len(header)), header, *(shard for shard, _ in shards)]
    parts += [version.n_rows.to_bytes(8, "little") for _, version in shards]
    if totals.n_forgotten:
        parts += [version.forgotten.to_bytes(_TOKEN, "little") for _, version in shards]
    parts += [np.asarray(b, dtype="<f8").tobytes() for b in (totals.minimum, totals.maximum)]
    body = b"".join([*parts, sums])
    return body + hashlib.sha256(body).digest()


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
        _check_header(_header(data), len(data))
        totals = unpack(data)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise SummaryFileError(f"impossible contents: {str(error)[:300].rstrip('.')}.") from None
    wrong = impossible(totals)
    if wrong is None and pack(totals) != data:
        wrong = "not in the form in which it is written"
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
        return int(_header(data)["n_rows"])
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


def _header(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data[_PREFIX.size : _end_of_header(data)])
    return document


def _end_of_header(data: bytes) -> int:
    return _PREFIX.size + int(_PREFIX.unpack_from(data)[2])


def _check_header(header: dict[str, Any], size: int) -> None:
    """Refuse what `pack` would write as it is, or what would take long to read."""
    exponents = [e for e in header["exponents"] if e is not None]
    if not all(type(header[key]) is int and 0 <= header[key] < 1 << 62 for key in _COUNTS):
        raise ValueError("a count that is no whole number")
    if not all(type(e) is int and -2200 <= e <= 1023 for e in exponents):
        raise ValueError("a unit out of range")
    if type(header["exact_bounds"]) is not bool:
        raise ValueError("exact_bounds must be true or false")
    if header["feature_names"] is not None:
        check_feature_names(header["feature_names"], header["n_features"])
    if not countable(header["n_features"], header["order"], size):  # at least a byte for every sum
        raise ValueError(f"more sums than {size} bytes can hold")


@lru_cache(maxsize=64)
def _schema_of(document: str) -> Schema:
    return Schema.from_dict(json.loads(document))


def unpack(data: bytes) -> Totals:
    """Read a byte string that `pack` made in this process, or whose checksum was right.

    A ValueError says that bytes do not stand for any sums.
    """
    h, start = _header(data), _end_of_header(data)
    d, n_shards, names = h["n_features"], h["n_shards"], h["feature_names"]
    layout = known(Layout(d, h["order"], h["squared_order"], h["high"]))
    n_tokens = n_shards if h["n_forgotten"] else 0
    sizes = 16 * n_shards, 8 * n_shards, _TOKEN * n_tokens, 16 * d, layout.n_entries * h["width"]
    stops = list(accumulate(sizes, initial=start))
    if stops[-1] + _CHECKSUM != len(data) or layout.high != h["high"]:
        raise ValueError("a body of another size than the header says")
    ids, counts, tokens, ends, sums = (memoryview(data)[a:b] for a, b in pairwise(stops))
    shards = [bytes(ids[i : i + 16]) for i in range(0, len(ids), 16)]
    if not all(a < b for a, b in pairwise(shards)):
        raise ValueError("shard ids that are not sorted and different")
    starts = range(0, len(tokens), _TOKEN)
    forgotten = [int.from_bytes(tokens[i : i + _TOKEN], "little") for i in starts]
    n_rows = np.frombuffer(counts, dtype="<u8").tolist()
    versions = map(Version, n_rows, forgotten or [0] * n_shards)
    schema = None if h["schema"] is None else _schema_of(_ENCODER.encode(h["schema"]))
    if schema is not None:
        is_centered = h["n_rows"] and any(centers_of(schema))
        if is_centered or schema.is_plain or schema.n_features != d:
            raise ValueError("a schema of other features, or with centers")
        names = schema.column_names
    if not len(h["exponents"]) == len(h["origins"]) == d:
        raise ValueError(f"{d} units and origins needed")
    bounds = np.frombuffer(ends, dtype="<f8").astype(np.float64)
    return Totals(
        layout=layout,
        frame=Frame(tuple(h["exponents"]), tuple(map(int, h["origins"]))),
        digits=unpacked(sums, layout.n_entries, h["width"]),
        weight_squares=int(h["weight_squares"]),
        n_rows=h["n_rows"],
        minimum=bounds[:d],
        maximum=bounds[d:],
        exact_bounds=h["exact_bounds"],
        shards=dict(zip(shards, versions, strict=True)),
        n_forgotten=h["n_forgotten"],
        names=None if names is None else tuple(names),
        schema=schema,
    )
