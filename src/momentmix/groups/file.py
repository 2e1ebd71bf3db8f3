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
from pathlib import Path
from typing import Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import InputError, SummaryFileError
from momentmix.groups.keys import RESERVED, GroupKey, check_names, key_array
from momentmix.summary.file import is_whole, rows_of
from momentmix.tables.columns import checked
from momentmix.tables.source import refuse_damage

ENDING = ".parquet"
_COUNT, _SUMMARY, _CHECKSUM = RESERVED
_INDEX = "__index_level_"  # of a pandas frame, in its copy of a cube


def write_cube(
    path: str | os.PathLike[str], names: Sequence[str], groups: Mapping[GroupKey, bytes]
) -> None:
    """Write groups with keys of these names."""
    import pyarrow as pa
    from pyarrow import parquet

    if Path(path).suffix.lower() != ENDING:
        raise InputError(f"a cube is a file {ENDING}; got {os.fspath(path)!a}.")
    columns = {name: key_array([key[k] for key in groups], name) for k, name in enumerate(names)}
    counts = [rows_of(group) for group in groups.values()]
    rows = zip(groups, counts, groups.values(), strict=True)
    columns[_COUNT] = pa.array(counts, pa.int64())
    columns[_SUMMARY] = pa.array([*groups.values()], pa.large_binary())
    columns[_CHECKSUM] = pa.array([_row_checksum(names, *row) for row in rows], pa.binary())
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream, compression="zstd", write_page_checksum=True)
    atomic_write(path, stream.getvalue())


def _row_checksum(names: Sequence[str], key: GroupKey, n_rows: int | None, group: bytes) -> bytes:
    """SHA-256 of what a row holds, whatever the order and the Arrow types of its columns."""
    values = dict(zip(names, key, strict=True))
    text = json.dumps([values, n_rows], sort_keys=True, default=str)  # days and times: ISO 8601
    return hashlib.sha256(text.encode() + b"\n" + group).digest()


def read_cube(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], dict[GroupKey, bytes]]:
    """Names of the keys, and groups, of a file or a filtered copy of one."""
    from pyarrow import parquet

    name = os.fspath(path)
    if not os.path.isfile(path):
        raise SummaryFileError(f"{name} does not exist, or is no regular file.")
    try:
        with refuse_damage(InputError, lambda: os.path.getsize(path)):
            file = parquet.ParquetFile(path, page_checksum_verification=True)
            return _contents(checked(file.read()))
    except InputError as error:
        raise SummaryFileError(
            f"{name} cannot be read as a cube: {str(error).rstrip('.')}. Restore it from a copy, "
            "or make it again: momentmix summarize --by."
        ) from None


def _contents(table: Any) -> tuple[tuple[str, ...], dict[GroupKey, bytes]]:
    columns = table.column_names
    if columns.count(_COUNT) != 1 or columns.count(_SUMMARY) != 1:
        raise InputError(f"it has no columns {_COUNT} and {_SUMMARY}")
    names = tuple(x for x in columns if x not in RESERVED and not x.startswith(_INDEX))
    check_names(names)
    values = [key_array(table.column(x).combine_chunks(), f"key {x!a}").to_pylist() for x in names]
    keys: list[GroupKey] = list(zip(*values, strict=True)) if names else [()] * table.num_rows
    counts, groups = (table.column(name).to_pylist() for name in (_COUNT, _SUMMARY))
    checksums = table.column(_CHECKSUM).to_pylist() if _CHECKSUM in columns else None
    for k, (key, count, group) in enumerate(zip(keys, counts, groups, strict=True)):
        if checksums and checksums[k] != _row_checksum(names, key, count, group or b""):
            raise InputError(
                f"the checksum of group {key!a} does not match: its key or its summary was "
                f"changed. Where keys were changed on purpose, leave out the column {_CHECKSUM}"
            )
        if not group or not is_whole(group) or rows_of(group) != count:
            raise InputError(f"the summary of group {key!a} is not that of its {count} rows")
    if len({*keys}) < len(keys):
        raise InputError("it has several rows of the same group")
    return names, dict(zip(keys, groups, strict=True))


def is_cube(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a cube, by its ending and columns."""
    if Path(path).suffix.lower() != ENDING or not Path(path).is_file():
        return False
    from pyarrow import parquet

    with suppress(InputError, OSError), refuse_damage(InputError):
        return {_COUNT, _SUMMARY} <= {*parquet.read_schema(path).names}
    return False
