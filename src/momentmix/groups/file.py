"""Files of cubes: Parquet tables of keys, numbers of rows, summaries and a checksum of each row.

docs/file-format.md describes them. A row keeps its checksum where another program copies it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, SummaryFileError
from momentmix.groups.keys import RESERVED, GroupKey, plain
from momentmix.summary.file import is_whole, rows_of
from momentmix.tables.columns import checked
from momentmix.tables.source import refuse_damage

ENDING = ".parquet"
_COUNT, _SUMMARY, _CHECKSUM = RESERVED


def write_cube(
    path: str | os.PathLike[str], names: Sequence[str], groups: Mapping[GroupKey, bytes]
) -> None:
    """Write groups with keys of these names."""
    import pyarrow as pa
    from pyarrow import parquet

    if Path(path).suffix.lower() != ENDING:
        raise InputError(f"a cube is a file {ENDING}; got {os.fspath(path)!a}.")
    columns = {name: _key_array(name, [key[k] for key in groups]) for k, name in enumerate(names)}
    counts = [rows_of(group) for group in groups.values()]
    rows = zip(groups, counts, groups.values(), strict=True)
    columns[_COUNT] = pa.array(counts, pa.int64())
    columns[_SUMMARY] = pa.array(list(groups.values()), pa.large_binary())
    columns[_CHECKSUM] = pa.array([_row_checksum(names, *row) for row in rows], pa.binary())
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream, compression="zstd", write_page_checksum=True)
    atomic_write(path, stream.getvalue())


def _key_array(name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    if name in RESERVED:
        raise InputError(f"a key of a file cannot be called {name!a}; rename it, or use rollup().")
    try:
        array = pa.array(values)
        if pa.types.is_timestamp(array.type) or plain(array, name).type == array.type:
            return array
        reason = f"they are {array.type}"
    except (pa.ArrowException, InputError, UnicodeError, OverflowError) as error:
        reason = str(error)[:200]
    raise InputError(
        f"key {name!a} cannot be stored; its values must be text that UTF-8 can write, whole "
        f"numbers of 64 bits, true and false, or dates, all of one kind: {reason}. Correct the "
        "column, and make the cube again."
    )


def _row_checksum(names: Sequence[str], key: GroupKey, n_rows: int | None, group: bytes) -> bytes:
    """SHA-256 of what a row holds, whatever the order and the Arrow types of its columns."""
    values = {name: _in_json(value) for name, value in zip(names, key, strict=True)}
    text = json.dumps([values, n_rows], sort_keys=True)
    return hashlib.sha256(text.encode() + b"\n" + group).digest()


def _in_json(value: Any) -> object:
    if isinstance(value, datetime):
        return ["time", value.isoformat()]
    return ["date", value.isoformat()] if isinstance(value, date) else value


# -- reading -----------------------------------------------------------------------------------


def read_cube(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], dict[GroupKey, bytes]]:
    """Names of the keys, and groups, of a file or a filtered copy of one."""
    from pyarrow import parquet

    name = os.fspath(path)
    if not os.path.isfile(path):
        why = "is not a regular file" if os.path.exists(path) else "does not exist"
        raise SummaryFileError(f"{name} {why}; give the path of a saved cube.")
    with refuse_damage(lambda text: _damaged(name, text), lambda: os.path.getsize(path)):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        return _contents(checked(file.read()), name)


def _damaged(name: str, text: str) -> SummaryFileError:
    return SummaryFileError(
        f"{name} cannot be read as a cube: {text.rstrip('.')}. Restore it from a copy."
    )


def _contents(table: Any, path: str) -> tuple[tuple[str, ...], dict[GroupKey, bytes]]:
    columns = table.column_names
    if columns.count(_COUNT) != 1 or columns.count(_SUMMARY) != 1:
        raise SummaryFileError(
            f"{path} is no cube: it has no columns n_rows and summary. momentmix summarize --by "
            "writes cubes."
        )
    index = "__index_level_"  # of a pandas frame, in its copy of a cube
    names = tuple(x for x in columns if x not in RESERVED and not x.startswith(index))
    if len(set(names)) < len(names):
        raise _damaged(path, "several keys have the same name")
    values = [_key_values(table.column(name), path) for name in names]
    keys: list[GroupKey] = list(zip(*values, strict=True)) if names else [()] * table.num_rows
    if len(set(keys)) < len(keys):
        raise SummaryFileError(f"{path} has several rows of the same group. Write it again.")
    counts, groups = (table.column(name).to_pylist() for name in (_COUNT, _SUMMARY))
    checksums = table.column(_CHECKSUM).to_pylist() if _CHECKSUM in columns else None
    for k, (key, count, group) in enumerate(zip(keys, counts, groups, strict=True)):
        if checksums and checksums[k] != _row_checksum(names, key, count, group or b""):
            raise SummaryFileError(
                f"{path}: the checksum of group {key!a} does not match: its key or its summary was "
                "changed. Restore the file from a copy; where another program has changed the keys "
                f"on purpose, leave out the column {_CHECKSUM}."
            )
        if not _is_summary(group, count):
            raise SummaryFileError(
                f"{path}: the summary of group {key!a} is not that of its {count} rows. Restore "
                "the file from a copy."
            )
    return names, dict(zip(keys, groups, strict=True))


def _is_summary(group: bytes | None, n_rows: int | None) -> bool:
    with suppress(SummaryFileError):
        return group is not None and is_whole(group) and rows_of(group) == n_rows
    return False


def _key_values(column: Any, path: str) -> list[Any]:
    """Values of a key; other programs make other types of text, numbers and dates."""
    import pyarrow as pa

    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        is_time = pa.types.is_timestamp(array.type)
        array = array.cast(pa.timestamp("us")) if is_time else plain(array, "a key")
    except InputError as error:
        raise _damaged(path, str(error)) from None
    values: list[Any] = array.to_pylist()
    return values


def is_cube(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a cube, by its ending and columns."""
    if Path(path).suffix.lower() != ENDING or not Path(path).is_file():
        return False
    from pyarrow import parquet

    try:
        with refuse_damage(SummaryFileError):
            schema = parquet.read_schema(path)
    except (SummaryFileError, OSError):
        return False
    return {_COUNT, _SUMMARY} <= {*schema.names}
