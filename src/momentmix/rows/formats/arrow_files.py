"""Parquet and Arrow (Feather) files through pyarrow, a few record batches at a time."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, needed, printable
from momentmix.rows.blocks import BlockMemory, side_by_side
from momentmix.rows.containers import arrow_numbers, checked, coded_indices, warn_integers, with_nan
from momentmix.rows.labels import (
    NO_LABELS,
    Labels,
    LabelsError,
    Periods,
    first_unknown,
    refused_label,
    too_many_labels,
)
from momentmix.rows.table import FileTable, Kind, RawBlock, Table, rows_from

# Of a block, whatever its reader allows. So many are decoded at a time: a quarter of them takes
# pyarrow a third longer, though they would stay in the cache.
_MOST_ROWS = 1 << 17
_MOST_PACKED = 1000  # bytes that a byte of a file holds: lengths beyond are damaged
_DAMAGE = (UnicodeError, SystemError, OverflowError)  # what pyarrow raises besides its own errors
_BUFFER, _BUFFERS, _LEAST_BUFFER = 1 << 18, 1 << 25, 1 << 12  # bytes of a column, of all


def need_pyarrow(what: str) -> Any:
    """The package pyarrow, or an error that says how to get it."""
    return needed("pyarrow", what, "data")


@contextmanager
def refuse_damage(
    refusal: Callable[[str], Exception], size: Callable[[], int] | None = None
) -> Iterator[None]:
    """Turn what pyarrow raises at bytes that it cannot read into another error.

    Parameters
    ----------
    refusal : callable
        Reason that pyarrow gives, in a line → the error.
    size : callable, optional
        Gives the number of bytes of the file.
    """
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, *_DAMAGE) as error:
        if getattr(error, "errno", None) is not None:
            raise  # of the system, not of the bytes
        if isinstance(error, MemoryError) and not (size and _asks_too_much(error, size())):
            raise
        text = str(error).strip().partition("\n")[0].partition(" Detail: ")[0]
        raise refusal(printable(text)[:200]) from None


def _asks_too_much(error: MemoryError, size: int) -> bool:
    """Whether pyarrow needed more memory than a file of so many bytes can hold."""
    asked = re.search(r"size (\d+) failed", str(error))
    return asked is not None and int(asked[1]) > _MOST_PACKED * size


class ArrowTable(Table):
    """What all that pyarrow reads share: a schema, and record batches.

    A class for one of them sets its name, and calls `_read_schema`.
    """

    schema: Any

    def _read_schema(self) -> None:
        """Read the schema, and take names and number of columns from it."""
        self._arrow = need_pyarrow(self.name)
        with self._refuse_unreadable():
            self._open()
            self.column_names = tuple(self.schema.names)  # that are UTF-8
        self.n_columns = len(self.column_names)
        if not self.n_columns:
            raise InputError(f"{self.name} has no columns.")

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        """Turn what pyarrow says of bytes that it cannot read into an `InputError`."""
        with refuse_damage(self._unreadable):
            yield

    def _unreadable(self, text: str) -> InputError:
        """The error for what pyarrow cannot read, with the reason that it gives."""
        return InputError(f"{self.name} cannot be read: {text}")

    @abstractmethod
    def _open(self) -> None:
        """Read the schema, and the number of rows where the format has it."""

    @abstractmethod
    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        """Pairs of first row and `checked` batch with the columns in this order, and no others.

        Rows before `start` may be left out.
        """

    def kind(self, column: int) -> Kind:
        """What a column holds, from its type."""
        type_ = self.schema.field(column).type
        kind, order = arrow_kind(type_), ""
        if self._arrow.types.is_dictionary(type_):
            order = "ordered" if type_.ordered else "declared"
        return Kind(kind, str(type_), kind == "text", order)

    def read(
        self,
        columns: Sequence[int],
        start: int,
        block_rows: int,
        labels: Mapping[int, Labels] = NO_LABELS,
    ) -> Iterator[RawBlock]:
        """Blocks cast to float64, NaN for nulls; small batches are put together."""
        block_rows = min(block_rows, _MOST_ROWS)
        memory = BlockMemory((block_rows, len(columns)))
        values, n_rows, position = memory.block(), 0, start
        with self._refuse_unreadable():
            for first, batch in self._batches(columns, start, block_rows):
                while position < first + batch.num_rows:
                    piece = batch.slice(position - first, block_rows - n_rows)
                    arrays = [
                        self._array(i, column, labels.get(i), position)
                        for i, column in zip(columns, piece.columns, strict=True)
                    ]
                    side_by_side(arrays, values[n_rows : n_rows + piece.num_rows])
                    n_rows, position = n_rows + piece.num_rows, position + piece.num_rows
                    if n_rows == block_rows:
                        yield RawBlock(values, rows_from(position - n_rows))
                        values, n_rows = memory.block(), 0
            if n_rows:
                yield RawBlock(values[:n_rows], rows_from(position - n_rows))

    def kept_kinds(self, columns: Sequence[int]) -> list[Any]:
        """Types of the columns; those that are nested or bytes are an error."""
        types = self._arrow.types
        kinds = [self.schema.field(i).type for i in columns]
        for i, kind in zip(columns, kinds, strict=True):
            value = kind.value_type if types.is_dictionary(kind) else kind
            if types.is_nested(value) or "binary" in str(value) or "extension" in str(value):
                raise InputError(
                    f"{self.name}: columns to keep must hold text, numbers, dates or yes/no; "
                    f"{self.schema.names[i]!a} is {kind}. Keep others, or convert it."
                )
        return kinds

    def cells(self, columns: Sequence[int], block_rows: int) -> Iterator[list[Any]]:
        """Record batches, each a list of Arrow arrays."""
        kinds = [self.schema.field(i).type for i in columns]
        with self._refuse_unreadable():
            for _, batch in self._batches(columns, 0, min(block_rows, _MOST_ROWS)):
                # Text of Parquet is read as a dictionary, whatever its type.
                yield [
                    column if kind == column.type else column.cast(kind)
                    for kind, column in zip(kinds, batch.columns, strict=True)
                ]

    def _array(
        self, number: int, column: Any, labels: Labels | None, first_row: int
    ) -> NDArray[Any]:
        if isinstance(labels, Periods) and self._arrow.types.is_temporal(column.type):
            times = self._times(column)
            return self._known(number, labels.of_times(times), labels, first_row, times)
        if labels is not None:
            return self._codes(number, column, labels, first_row)
        if self._arrow.types.is_decimal(column.type):
            column = column.cast(self._arrow.float64())
        array, valid = arrow_numbers(column)
        chosen = array if valid is None else array[valid]
        warn_integers(chosen, f"{self.name}, {self.label(number)} holds")
        return with_nan(array, valid)

    def _times(self, column: Any) -> NDArray[Any]:
        """Dates and times as datetime64, NaT for nulls; those with a zone are times of UTC."""
        types = self._arrow.types
        if not types.is_timestamp(column.type) and not types.is_date(column.type):
            column = column.cast(self._arrow.timestamp("us"))  # refused with the types
        # As they are: a cast to another unit may leave the range of 64 bits.
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def meet_labels(self, labels: Mapping[int, Labels]) -> None:
        """Number all labels of columns of text; a batch with a dictionary has them there."""
        columns = list(labels)
        with self._refuse_unreadable():
            for first, batch in self._batches(columns, 0, _MOST_ROWS):
                for number, column in zip(columns, batch.columns, strict=True):
                    cells = column[:0] if hasattr(column, "dictionary") else column
                    self._codes(number, cells, labels[number], first)

    def _codes(self, number: int, column: Any, labels: Labels, first_row: int) -> NDArray[Any]:
        """Codes of a column of text."""
        if not self._arrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        texts = column.dictionary.to_pylist()
        try:
            codes = coded_indices(column.indices, labels.codes(texts))
        except LabelsError:
            raise too_many_labels(f"{self.name}, {self.label(number)}") from None
        return self._known(number, codes, labels, first_row, column)

    def _known(
        self, number: int, codes: NDArray[Any], labels: Labels, first_row: int, cells: Any
    ) -> NDArray[Any]:
        """The codes, where all cells have one."""
        unknown = first_unknown(codes, labels)
        if unknown is not None:
            place = f"{self.name}, row {first_row + unknown}, {self.label(number)}"
            raise refused_label(place, str(cells[unknown]), labels)
        return codes


def arrow_kind(type_: Any) -> str:
    """What an Arrow type holds, as `Kind` has it."""
    from pyarrow import types

    if types.is_boolean(type_):
        return "bool"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return "number"
    if types.is_dictionary(type_):
        return "text" if _is_text(types, type_.value_type) else "other"
    if _is_text(types, type_):
        return "text"
    return "date" if types.is_temporal(type_) else "other"


def _is_text(types: Any, type_: Any) -> bool:
    # String views came with pyarrow 16, which not every type checker knows.
    is_view = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(type_) or types.is_large_string(type_) or is_view(type_))


class ArrowFileTable(ArrowTable, FileTable):
    """A file that pyarrow reads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        FileTable.__init__(self, path)
        self._read_schema()

    def kind(self, column: int) -> Kind:
        """What a column holds; decimals of files are refused by name, since float64 rounds them."""
        type_ = self.schema.field(column).type
        if self._arrow.types.is_decimal(type_):
            return Kind("other", str(type_))
        return super().kind(column)

    @contextmanager
    def _refuse_unreadable(self) -> Iterator[None]:
        with refuse_damage(self._unreadable, lambda: self.path.stat().st_size):
            yield

    def _unreadable(self, text: str) -> InputError:
        size = self.path.stat().st_size
        if not size:
            return InputError(f"{self.name} is empty (0 bytes).")
        return InputError(
            f"{self.name} cannot be read; it is truncated, damaged or of another format ({size} "
            f"bytes): {text} Write or copy it again."
        )


class ParquetFile(ArrowFileTable):
    """A Parquet file."""

    def _open(self) -> None:
        with self._file() as file:
            self.schema = file.schema_arrow
            self.n_rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            self._sizes = [file.metadata.row_group(i).num_rows for i in groups]

    def _file(self, n_columns: int = 1, texts: Sequence[str] = ()) -> Any:
        from pyarrow import parquet

        # Without a buffer, pyarrow reads all of a row group's bytes at once, however many.
        size = max(_LEAST_BUFFER, min(_BUFFER, _BUFFERS // n_columns))
        return parquet.ParquetFile(
            self.path, memory_map=False, pre_buffer=False, buffer_size=size,
            read_dictionary=list(texts),
        )  # fmt: skip

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        keys = _numbered(self.schema.names)
        wanted = [keys[i] for i in columns]
        names = [name for name, _ in wanted]
        ends = np.cumsum([0, *self._sizes])
        groups = [i for i in range(len(self._sizes)) if ends[i + 1] > start]
        if not groups:
            return
        position = int(ends[groups[0]])
        texts = [self.schema.names[i] for i in columns if self.kind(i).kind == "text"]
        with self._file(len(columns), texts) as file:
            for batch in file.iter_batches(block_rows, row_groups=groups, columns=names):
                # pyarrow gives all columns of a name, and parts of nested ones, in file order.
                positions = {key: i for i, key in enumerate(_numbered(batch.schema.names))}
                yield position, checked(batch.select([positions[key] for key in wanted]))
                position += batch.num_rows


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with the number of columns before it that have the same name."""
    seen: Counter[str] = Counter()
    keys = []
    for name in names:
        keys.append((name, seen[name]))
        seen[name] += 1
    return keys


class ArrowFile(ArrowFileTable):
    """An Arrow file: the file format (Feather version 2) or the stream format."""

    def _open(self) -> None:
        with self._file() as file:
            start = file.read(6)
            if start[:4] == b"FEA1":
                raise InputError(
                    f"{self.name} is Feather version 1; write it again as version 2 or Parquet."
                )
            self._streamed = start != b"ARROW1"
            file.seek(0)
            with self._reader(file) as reader:
                self.schema = reader.schema
                if not self._streamed:
                    self.n_rows = self._count_rows(reader)

    def _count_rows(self, reader: Any) -> int | None:
        """Number of rows of the file format, from its metadata."""
        if hasattr(reader, "count_rows"):
            return int(reader.count_rows())
        if len(set(self.schema.names)) < len(self.schema.names):
            return None  # a dataset refuses names that columns share
        from pyarrow import dataset  # imports pandas

        return int(dataset.dataset(str(self.path), format="ipc").count_rows())

    def _file(self) -> Any:
        # Not a memory map: a mapped file that is truncated by another program kills the process.
        return self._arrow.OSFile(str(self.path))

    def _reader(self, file: Any, columns: Sequence[int] | None = None) -> Any:
        ipc = self._arrow.ipc
        chosen = None if columns is None else sorted(columns)
        options = ipc.IpcReadOptions(included_fields=chosen)
        opener = ipc.open_stream if self._streamed else ipc.open_file
        return opener(file, options=options)

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        position, order = 0, np.argsort(np.argsort(columns)).tolist()
        with self._file() as file, self._reader(file, columns) as reader:
            if self._streamed:
                batches = iter(reader)
            else:
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            for batch in batches:
                yield position, checked(batch.select(order))
                position += batch.num_rows
