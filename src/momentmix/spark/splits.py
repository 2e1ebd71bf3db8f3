"""Parts of Parquet files that tasks read with pyarrow, as Spark would send their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

_BATCH_ROWS = 1 << 17
_BUFFER = 1 << 18  # bytes of a column
# Spark may shift older ones, which other programs count by the Julian calendar.
_FIRST_DAY = (date(1582, 10, 15) - date(1970, 1, 1)).days
_FIRST_TIME = (datetime(1900, 1, 1) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


class UnsuitedFileError(Exception):
    """A file of which pyarrow may not give what Spark gives: Spark has to read it."""


class Split(NamedTuple):
    """The row groups of a file whose middle lies in a range of bytes.

    Attributes
    ----------
    path : str
    start, stop : int
        The range.
    size, modified : int
        Of the file when Spark listed it: bytes, and milliseconds since 1970.
    cells : tuple of tuple
        For each column (value,) where it is one of folders, else ().
    """

    path: str
    start: int
    stop: int
    size: int
    modified: int
    cells: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class FileScan:
    """Columns of Parquet files, in the partitions that Spark has made.

    Attributes
    ----------
    names : tuple of str
    types : tuple of pyarrow.DataType
        As Spark sends them.
    partitions : tuple of tuple of Split
    """

    names: tuple[str, ...]
    types: tuple[Any, ...]
    partitions: tuple[tuple[Split, ...], ...]

    def batches(self, partition: int) -> Iterator[Any]:
        """Record batches of a partition, in Spark's order of the rows.

        Raises
        ------
        UnsuitedFileError
            Where pyarrow may not give what Spark gives.
        """
        for split in self.partitions[partition]:
            yield from self._of_file(split)

    def head(self, n_rows: int) -> Any:
        """The first rows as a table; None where there are none."""
        import pyarrow as pa

        batches, left = [], n_rows
        for number in range(len(self.partitions)):
            for batch in self.batches(number):
                batches.append(batch.slice(0, left))
                left -= batches[-1].num_rows
                if not left:
                    return pa.Table.from_batches(batches)
        return pa.Table.from_batches(batches) if left < n_rows else None

    def _of_file(self, split: Split) -> Iterator[Any]:
        from pyarrow import ArrowException, parquet

        _check_same(split)
        try:
            with parquet.ParquetFile(split.path, pre_buffer=False, buffer_size=_BUFFER) as file:
                wanted = self._in_file(file.schema_arrow, split)
                groups = _groups(file.metadata, split)
                left = sum(file.metadata.row_group(i).num_rows for i in groups)
                options = {"columns": wanted, "use_threads": False}  # a task has one core
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, **options):
                    batch.validate()
                    left -= batch.num_rows
                    yield self._as_sent(batch, split)
                if left:
                    raise UnsuitedFileError(f"{split.path}: {left} rows are missing")
        except (ArrowException, OSError) as error:
            raise UnsuitedFileError(f"{split.path}: {error}") from error
        _check_same(split)

    def _in_file(self, schema: Any, split: Split) -> list[str]:
        """Names of the columns to read, each of a type that needs no conversion."""
        pairs = zip(self.names, self.types, split.cells, strict=True)
        wanted = {name: type_ for name, type_, cell in pairs if not cell}
        lower = [name.lower() for name in schema.names]
        for name, type_ in wanted.items():
            place = schema.get_field_index(name)  # -1 where there are none or several
            if place < 0 or lower.count(name.lower()) > 1:
                raise UnsuitedFileError(f"{split.path} has no column {name!a} of its own")
            if not _fits(schema.field(place).type, type_):
                raise UnsuitedFileError(f"{split.path}: {name!a} is {schema.field(place).type}")
        return list(wanted)

    def _as_sent(self, batch: Any, split: Split) -> Any:
        import pyarrow as pa

        arrays = []
        for name, type_, cell in zip(self.names, self.types, split.cells, strict=True):
            if cell:
                arrays.append(pa.repeat(pa.scalar(cell[0], type_), batch.num_rows))
                continue
            column = batch.column(batch.schema.get_field_index(name))
            column = column if column.type == type_ else column.cast(type_)
            _check_old(column, name, split)
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def can_read(type_: Any) -> bool:
    """Whether cells of this type mean the same to Spark and to pyarrow, if files have the type."""
    from pyarrow import types

    is_time = types.is_timestamp(type_) and type_.unit == "us"
    tests = (
        types.is_boolean, types.is_signed_integer, types.is_float32, types.is_float64,
        types.is_string, types.is_decimal128, types.is_date32,
    )  # fmt: skip
    return is_time or any(test(type_) for test in tests)


def _fits(found: Any, wanted: Any) -> bool:
    """Whether a column of a file holds what Spark sends, but for the way it is stored."""
    from pyarrow import types

    if found == wanted:
        return True
    if types.is_string(wanted):
        text = found.value_type if types.is_dictionary(found) else found
        return bool(types.is_string(text) or types.is_large_string(text))
    if types.is_timestamp(wanted) and types.is_timestamp(found):
        # Both are moments; the zone is that of the session, which changes no moment.
        return found.unit == wanted.unit and bool(found.tz) and bool(wanted.tz)
    return False


def _check_old(column: Any, name: str, split: Split) -> None:
    """Raise where a date is so old that Spark may count it by another calendar."""
    from pyarrow import compute, types

    if not (types.is_date32(column.type) or types.is_timestamp(column.type)):
        return
    is_day = types.is_date32(column.type)
    # Numbers: some that files can hold are no dates of Python.
    first = compute.min_max(column)["min"].value
    if first is not None and first < (_FIRST_DAY if is_day else _FIRST_TIME):
        raise UnsuitedFileError(
            f"{split.path}: {name!a} has dates before 1582, or times before 1900"
        )


def _groups(metadata: Any, split: Split) -> list[int]:
    """Row groups of a split: each belongs to the range in which its middle byte lies."""
    found = []
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        chunks = [group.column(j) for j in range(group.num_columns)]
        first = chunks[0]
        start, words = first.data_page_offset, first.dictionary_page_offset
        start = min(start, words) if words else start
        middle = start + sum(chunk.total_compressed_size for chunk in chunks) // 2
        if not 0 <= middle < split.size:
            raise UnsuitedFileError(f"{split.path}: row group {i} lies outside the file")
        if split.start <= middle < split.stop:
            found.append(i)
    return found


def _check_same(split: Split) -> None:
    """Raise where a file is not as it was when Spark listed it."""
    try:
        found = os.stat(split.path)
    except OSError as error:
        raise UnsuitedFileError(f"{split.path}: {error}") from error
    modified = found.st_mtime_ns // 1_000_000
    times = modified, modified // 1000 * 1000  # old versions of Java know seconds only
    if found.st_size != split.size or split.modified not in times:
        raise UnsuitedFileError(f"{split.path} has changed since Spark listed it")
