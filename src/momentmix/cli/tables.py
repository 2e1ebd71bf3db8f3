"""Tables that commands write as CSV or Parquet, block by block, with columns kept of the input."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.cli.output import output_stream
from momentmix.errors import InputError, printable
from momentmix.tables.formats.arrow_files import ArrowSource
from momentmix.tables.source import Source, choose_columns, feature_names, match_columns
from momentmix.tables.table_rows import TableRows

Answers = Iterable[tuple[Sequence[Any], Float]]  # columns that are kept, and those of the model
_TYPES = {"number": "float64", "label": "int32"}
_VALUES = {"number": float, "label": int, "text": str}


@contextmanager
def table_writer(
    path: str, names: Sequence[str], kinds: Sequence[Any]
) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Give a function that appends columns to a table; NaN and None are empty fields.

    The path is that of a Parquet file (.parquet) or of CSV, "-" is standard output. Kinds are
    "number", "label" or "text", or types of Arrow, of Arrow arrays. A terminal gets escapes.
    """
    with output_stream(path) as stream:
        if path.endswith(".parquet"):
            import pyarrow as arrow
            from pyarrow import parquet

            types = [_TYPES.get(x, "string") if isinstance(x, str) else x for x in kinds]
            schema = arrow.schema(list(zip(names, types, strict=True)))
            with parquet.ParquetWriter(stream, schema) as writer:

                def write(columns: Sequence[Any]) -> None:
                    arrays = map(_arrow_array, columns, kinds, schema.types)
                    writer.write_table(arrow.table(list(arrays), schema=schema))

                yield write
            return
        on_terminal = path == "-" and sys.stdout.isatty()
        stream.write(_as_csv([names], on_terminal))

        def write_text(columns: Sequence[Any]) -> None:
            if list(kinds) == ["label"]:
                stream.write(_labels_as_text(columns[0]))
                return
            stream.write(_as_csv(zip(*map(_cells, columns, kinds), strict=True), on_terminal))

        yield write_text


def _arrow_array(column: Any, kind: Any, type_: Any) -> Any:
    if hasattr(column, "cast"):
        return column.cast(type_)
    import pyarrow as arrow

    if kind not in _TYPES:
        return arrow.array(_cells(column, kind), type_)
    missing = np.isnan(column)
    return arrow.array(np.where(missing, 0, column).astype(_TYPES[kind]), type_, mask=missing)


def _labels_as_text(column: Float) -> bytes:
    """Write small integers ≥ 0 from a table of texts, whose last is that of a missing one."""
    numbers = np.where(np.isnan(column), -1, column).astype(np.int64)
    texts = [f"{i}\n" for i in range(int(numbers.max(initial=0)) + 1)]
    padded = np.array([*texts, '""\n'], dtype="S")[numbers]
    return padded.tobytes().replace(b"\0", b"")


def _as_csv(rows: Iterable[Sequence[Any]], on_terminal: bool) -> bytes:
    """Format lines of CSV; on a terminal control characters are escaped."""
    text = io.StringIO()
    if on_terminal:
        rows = ([printable(x) if isinstance(x, str) else x for x in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(rows)  # None is an empty field
    return text.getvalue().encode()


def _cells(column: Any, kind: Any) -> list[Any]:
    """Return values of Python, None where one is missing; those of Arrow arrays as text."""
    if hasattr(column, "cast"):
        cells: list[Any] = column.cast("string").to_pylist()
        return cells
    convert = _VALUES[kind]
    return [None if x is None or x != x else convert(x) for x in column.tolist()]


class KeptColumns:
    """Columns of the input, by name or number, that are copied beside `answers` of a model.

    `numbers` are those of the columns in each source; `kinds` are "number", "text", or a type of
    Arrow ("text" where sources differ); `names` must differ from those of the answers.
    """

    def __init__(
        self, rows: TableRows, keep: Sequence[str | int] | None, answers: Sequence[str]
    ) -> None:
        self.numbers, self.names = list[list[int]](), tuple[str, ...]()
        self.kinds = list[Any]()
        if keep is None:
            return
        first, *others = rows.sources
        numbers = choose_columns(first, keep)
        self.numbers = [numbers, *(match_columns(first, numbers, x, False) for x in others)]
        self.names = feature_names(first, numbers) or tuple(f"column_{i}" for i in numbers)
        for places in zip(*self.numbers, strict=True):
            kinds = {_kind(source, i) for source, i in zip(rows.sources, places, strict=True)}
            self.kinds.append(kinds.pop() if len(kinds) == 1 else "text")
        twice = [name for name, n in Counter([*self.names, *answers]).items() if n > 1]
        if twice:
            raise InputError(
                f"the output has a column {twice[0]!a} of its own; rename that of the input, or "
                "do not keep it."
            )

    def write(
        self, path: str, names: Sequence[str], kinds: Sequence[str], answers: Answers
    ) -> None:
        """Write the kept columns, and beside them arrays of shape (n_rows, n_answers)."""
        with table_writer(path, [*self.names, *names], [*self.kinds, *kinds]) as write:
            for columns, answer in answers:
                write([*map(_as_kind, columns, self.kinds), *answer.T])


def _kind(source: Source, column: int) -> Any:
    """Return what a column is copied as; one that is nested or bytes is an error."""
    if not isinstance(source, ArrowSource):
        return "text" if source.nulls else "number"
    from pyarrow import types

    kind = source.schema.field(column).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(value) or "binary" in str(value) or "extension" in str(value):
        raise InputError(
            f"{source.name}: columns to keep must hold text, numbers, dates or yes/no; "
            f"{source.schema.names[column]!a} is {kind}. Keep others, or convert it."
        )
    return kind


def _as_kind(column: Any, kind: Any) -> Any:
    """A column as it is written; text of Parquet is read as dictionaries, whatever its type."""
    if isinstance(column, np.ndarray):
        return column
    return column.cast("string" if isinstance(kind, str) else kind)
