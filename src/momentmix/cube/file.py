"""Files of cubes: ordinary Parquet or Arrow tables of keys, numbers of rows and summaries.

docs/file-format.md describes them. Two checksums find damage: that of the whole file, the seal,
which no copy by another program has; and that of each row, which such a copy keeps.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

from momentmix.cube.keys import CHECKSUM, RESERVED, GroupKey, Value
from momentmix.errors import InputError, SummaryFileError
from momentmix.json_fields import parse_strict
from momentmix.summary.file import is_whole, rows_of
from momentmix.tables.columns import checked
from momentmix.tables.source import refuse_damage

VERSION = 3
_METADATA = b"momentmix-cube"
_VALUES = (str, int, date)  # of keys; bool is an int, a datetime is a date
ENDINGS = (".parquet", ".arrow", ".feather")
# Before the footer, whose place is counted from the end, so that readers pass over it. It is there
# twice: where a bit of the mark is damaged, the file still does not pass for an unsealed one.
_MARK = b"\x89momentmix seal\n"
_SEAL_BYTES = 2 * (len(_MARK) + 32)
_LAST_BYTES = 1 << 16  # of a file, among which the seal is, for a first look


def packed(
    names: tuple[str, ...],
    groups: Mapping[GroupKey, bytes],
    left_out: tuple[int, int],
    as_parquet: bool = False,
) -> bytes:
    """The bytes of the file; before its footer the seal: its SHA-256, twice."""
    import pyarrow as pa
    from pyarrow import parquet

    keys = list(groups)
    columns = {name: _key_array(name, [key[k] for key in keys]) for k, name in enumerate(names)}
    counts = [rows_of(group) for group in groups.values()]
    columns["n_rows"] = pa.array(counts, type=pa.int64())
    columns["summary"] = pa.array(list(groups.values()), type=pa.large_binary())
    rows = zip(keys, counts, groups.values(), strict=True)
    checksums = [_row_checksum(names, *row) for row in rows]
    columns[CHECKSUM] = pa.array(checksums, type=pa.binary())
    about: dict[str, Any] = {"keys": list(names), "left_out": list(left_out), "version": VERSION}
    about["sha256"] = _digest_of(about)
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(about).encode()})
    stream = io.BytesIO()
    if as_parquet:
        parquet.write_table(table, stream, compression="zstd")
    else:
        with pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    data = stream.getvalue()
    end = len(data) - len("PAR1" if as_parquet else "ARROW1") - 4
    footer = end - int.from_bytes(data[end : end + 4], "little")
    return data[:footer] + 2 * (_MARK + hashlib.sha256(data).digest()) + data[footer:]


def _key_array(name: str, values: list[Value]) -> Any:
    import pyarrow as pa

    if name in RESERVED:
        raise InputError(f"a key of a file cannot be called {name!a}; rename it, or use rollup().")
    try:
        if all(value is None or isinstance(value, _VALUES) for value in values):
            return pa.array(values)
        reason = "a value is none of these"
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        reason = str(error)[:200]
    raise InputError(
        f"key {name!a} cannot be stored; its values must be text that UTF-8 can write, whole "
        f"numbers of 64 bits, true and false, or dates, all of one kind: {reason}. Correct the "
        "column, and make the cube again."
    )


# -- checksums --------------------------------------------------------------------------------


def _check_seal(data: bytes, name: str) -> None:
    """Raise where a file has a seal, and it is not that of its bytes."""
    start = data.find(_MARK)
    if start < 0:
        return  # written by another program
    digest = hashlib.sha256(data[:start])
    digest.update(data[start + _SEAL_BYTES :])
    if data[start : start + _SEAL_BYTES] != 2 * (_MARK + digest.digest()):
        raise SummaryFileError(
            f"{name}: the checksum does not match: bytes were changed or lost. Restore it from a "
            "copy."
        )


def _row_checksum(names: Iterable[str], key: GroupKey, n_rows: int | None, group: bytes) -> bytes:
    """SHA-256 of what a row holds, whatever the order and the Arrow types of its columns."""
    values = {name: _plain(value) for name, value in zip(names, key, strict=True)}
    text = json.dumps([values, n_rows], sort_keys=True)
    return hashlib.sha256(text.encode() + b"\n" + group).digest()


def _digest_of(about: Mapping[str, Any]) -> str:
    """SHA-256 of the metadata without their own checksum."""
    rest = {key: value for key, value in about.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _plain(value: Value) -> object:
    """A value of a key in JSON, which marks dates and times."""
    if isinstance(value, datetime):
        return ["time", value.isoformat()]
    return ["date", value.isoformat()] if isinstance(value, date) else value


# -- reading ----------------------------------------------------------------------------------

Contents = tuple[tuple[str, ...], dict[GroupKey, bytes], tuple[int, int]]


def unpacked(data: bytes, name: str) -> Contents:
    """Return the contents of bytes of `packed`; `name` is for messages."""
    import pyarrow as pa
    from pyarrow import parquet

    _check_seal(data, name)
    with refuse_damage(lambda text: _damaged(name, text), lambda: len(data)):
        if data[:4] == b"PAR1":
            table = parquet.ParquetFile(pa.BufferReader(data)).read()
        else:
            table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        return _contents(checked(table), name)


def _damaged(name: str, text: str) -> SummaryFileError:
    return SummaryFileError(
        f"{name} cannot be read as a cube: {text.rstrip('.')}. Restore it from a copy."
    )


def _contents(table: Any, path: str) -> Contents:
    names = table.column_names
    if not all(names.count(name) == 1 for name in ("n_rows", "summary")):
        raise SummaryFileError(
            f"{path} is no cube: it has no columns n_rows and summary. momentmix summarize --by "
            "writes cubes."
        )
    left_out = _left_out(table.schema.metadata or {}, path)
    is_protected = CHECKSUM in names and "binary" in str(table.schema.field(CHECKSUM).type)
    others = RESERVED if is_protected else RESERVED[:2]
    index = "__index_level_"  # of a pandas frame, in its copy of a cube
    names = tuple(name for name in names if name not in others and not name.startswith(index))
    if len(set(names)) < len(names):
        raise _damaged(path, "several keys have the same name")
    columns = [[_value(x, path) for x in table.column(name).to_pylist()] for name in names]
    keys: list[GroupKey] = list(zip(*columns, strict=True)) if names else [()] * table.num_rows
    if len(set(keys)) < len(keys):
        raise SummaryFileError(f"{path} has several rows of the same group. Write it again.")
    counts, groups = (table.column(name).to_pylist() for name in ("n_rows", "summary"))
    checksums = table.column(CHECKSUM).to_pylist() if is_protected else [None] * len(keys)
    for key, count, group, checksum in zip(keys, counts, groups, checksums, strict=True):
        _check_group(path, key, count, group)
        if is_protected and checksum != _row_checksum(names, key, count, group):
            raise SummaryFileError(
                f"{path}: the checksum of group {key!a} does not match: its key or its summary was "
                "changed. Restore the file from a copy; where another program has changed the keys "
                f"on purpose, leave out the column {CHECKSUM}."
            )
    return names, dict(zip(keys, groups, strict=True)), left_out


def _left_out(metadata: Mapping[bytes, bytes], path: str) -> tuple[int, int]:
    """Groups and rows left out; none in the file of a program that drops metadata."""
    if _METADATA not in metadata:
        return 0, 0
    try:
        about = parse_strict(metadata[_METADATA].decode())
        version, (groups, rows) = about["version"], about["left_out"]
        if not all(type(number) is int and number >= 0 for number in (version, groups, rows)):
            raise ValueError
        if version == VERSION and about["sha256"] != _digest_of(about):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _damaged(path, f"its metadata {_METADATA.decode()!a} are damaged") from None
    if version != VERSION:
        raise SummaryFileError(
            f"{path} is a cube of version {version}; this momentmix reads version {VERSION}. Use "
            "the release that wrote it, or make the cube again."
        )
    return groups, rows


def _value(value: Any, path: str) -> Value:
    """A value of a key; other programs make times of their own, and floats of whole numbers."""
    if isinstance(value, float):
        value = None if value != value else int(value) if value.is_integer() else value
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    if value is None or isinstance(value, _VALUES):
        return value
    raise _damaged(
        path,
        f"a key holds {str(value)[:40]!a} ({type(value).__name__}), not text, a whole number, true "
        "or false, or a date",
    )


def _check_group(path: str, key: GroupKey, count: int | None, group: bytes | None) -> None:
    """Raise unless the bytes are a summary of so many rows."""
    with suppress(SummaryFileError):
        if group is not None and is_whole(group) and rows_of(group) == count:
            return
    raise SummaryFileError(
        f"{path}: the summary of group {key!a} is not that of its {count} rows. Restore the file "
        "from a copy."
    )


def is_cube(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a cube: a Parquet or Arrow file with a seal, or the columns of one."""
    if Path(path).suffix.lower() not in ENDINGS or not Path(path).is_file():
        return False
    from pyarrow import ipc, parquet

    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        if _MARK in file.read():
            return True  # it may be damaged, and is nothing else
    try:
        with refuse_damage(SummaryFileError):
            is_parquet = Path(path).suffix.lower() == ".parquet"
            with open(path, "rb") as file:
                schema = parquet.read_schema(file) if is_parquet else ipc.open_file(file).schema
    except (SummaryFileError, OSError):
        return False
    return all(name in schema.names for name in RESERVED[:2])
