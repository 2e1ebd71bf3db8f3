"""Files of cubes: ordinary Parquet or Arrow tables of keys, numbers of rows and summaries.

| column | type | contents |
|---|---|---|
| the keys | string, int64, bool, date32 or timestamp | null: the cell was missing |
| n_rows | int64 | number of rows of the group |
| summary | binary | the bytes of its summary, a file of its own (docs/file-format.md) |

Metadata ``momentmix-cube`` of the table: JSON with the version of the format, the names of the keys
and what was left out. A file whose metadata is lost, as that of another program, is read all the
same: all columns but n_rows and summary are keys.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.cube.keys import RESERVED, GroupKey
from momentmix.errors import InputError, SummaryFileError, needed
from momentmix.summary.file import header_of

VERSION = 1
_METADATA = b"momentmix-cube"
ENDINGS = (".parquet", ".arrow", ".feather")


def write(
    path: str | os.PathLike[str],
    names: tuple[str, ...],
    groups: Mapping[GroupKey, bytes],
    counts: Mapping[GroupKey, int],
    left_out: tuple[int, int],
) -> None:
    """Write a cube, whole or not at all."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"a cube is a file {', '.join(ENDINGS)}; got {os.fspath(path)!a}.")
    atomic_write(path, packed(names, groups, counts, left_out, ending == ".parquet"))


def packed(
    names: tuple[str, ...],
    groups: Mapping[GroupKey, bytes],
    counts: Mapping[GroupKey, int],
    left_out: tuple[int, int],
    as_parquet: bool = False,
) -> bytes:
    """The bytes of the file."""
    pa = needed("pyarrow", "a file of a cube", "data")
    keys = list(groups)
    columns: dict[str, Any] = {
        name: pa.array([key[k] for key in keys]) for k, name in enumerate(names)
    }
    columns["n_rows"] = pa.array([counts[key] for key in keys], type=pa.int64())
    columns["summary"] = pa.array([groups[key] for key in keys], type=pa.large_binary())
    about = {"version": VERSION, "keys": list(names), "left_out": list(left_out)}
    table = pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(about).encode()})
    stream = io.BytesIO()
    if as_parquet:
        from pyarrow import parquet

        parquet.write_table(table, stream, compression="zstd")
    else:
        with pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    return stream.getvalue()


Contents = tuple[tuple[str, ...], dict[GroupKey, bytes], tuple[int, int]]


def read(path: str | os.PathLike[str]) -> Contents:
    """Names of the keys, summaries as bytes, and what was left out."""
    if not os.path.exists(path):
        raise SummaryFileError(f"{os.fspath(path)} does not exist.")
    return _contents(_table(path), os.fspath(path))


def unpacked(data: bytes, name: str) -> Contents:
    """What `packed` made an Arrow file of."""
    pa = needed("pyarrow", "a file of a cube", "data")
    try:
        return _contents(pa.ipc.open_file(pa.py_buffer(data)).read_all(), name)
    except pa.ArrowException:
        raise SummaryFileError(f"{name} holds no cube. Remove it to start again.") from None


def _contents(table: Any, path: str) -> Contents:
    if not all(name in table.column_names for name in RESERVED):
        raise SummaryFileError(
            f"{path} is no cube: it has no columns n_rows and summary. momentmix summarize --by "
            "writes cubes."
        )
    about = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    if about.get("version", VERSION) != VERSION:
        raise SummaryFileError(
            f"{path} is a cube of version {about['version']}; this momentmix reads {VERSION}. "
            "Install a newer one."
        )
    names = tuple(name for name in table.column_names if name not in RESERVED)
    columns = [table.column(name).to_pylist() for name in names]
    keys = list(zip(*columns, strict=True)) if names else [()] * table.num_rows
    if len(set(keys)) < len(keys):
        raise SummaryFileError(f"{path} has several rows of the same group. Write it again.")
    groups = dict(zip(keys, table.column("summary").to_pylist(), strict=True))
    counts = table.column("n_rows").to_pylist()
    for (key, group), count in zip(groups.items(), counts, strict=True):
        if not isinstance(group, bytes) or rows_of(group) != count:
            raise SummaryFileError(
                f"{path}: the summary of group {key!a} is not that of its {count} rows. Restore "
                "the file from a copy."
            )
    first, second = about.get("left_out", (0, 0))
    return names, groups, (first, second)


def _table(path: str | os.PathLike[str]) -> Any:
    pa = needed("pyarrow", "a file of a cube", "data")
    ending = Path(path).suffix.lower()
    try:
        if ending == ".parquet":
            from pyarrow import parquet

            return parquet.ParquetFile(path, memory_map=False).read()
        with pa.OSFile(os.fspath(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except pa.ArrowException as error:
        text = str(error).partition("\\n")[0][:200]
        raise SummaryFileError(f"{path} cannot be read as a cube: {text}") from None


def is_cube(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a cube: a Parquet or Arrow file with the columns of one."""
    if Path(path).suffix.lower() not in ENDINGS or not Path(path).is_file():
        return False
    pa = needed("pyarrow", "a file of a cube", "data")
    try:
        if Path(path).suffix.lower() == ".parquet":
            from pyarrow import parquet

            names = parquet.read_schema(path).names
        else:
            with pa.OSFile(os.fspath(path)) as file:
                names = pa.ipc.open_file(file).schema.names
    except (pa.ArrowException, OSError):
        return False
    return all(name in names for name in RESERVED)


def rows_of(summary: bytes) -> int:
    """Number of rows of a summary, without unpacking its sums."""
    return int(sum(header_of(summary)["n_rows"]))
