"""Tables of numbers as CSV or Parquet, block by block."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.cli.output import output_stream
from momentmix.errors import printable
from momentmix.families.column import Column

Table = NDArray[np.float64]


@contextmanager
def table_writer(
    path: str, names: Sequence[str], n_integers: int = 0
) -> Iterator[Callable[[Table], None]]:
    """A function that appends blocks to the table at `path`; NaN stands for an empty field.

    Parameters
    ----------
    path : str
        ``.parquet`` for Parquet, else CSV; "-" for CSV on standard output.
    names : sequence of str
        Names of the columns. On a terminal control characters in them are escaped.
    n_integers : int
        The first so many columns are written as integers.
    """
    if path.endswith(".parquet"):
        with _parquet(path, names, n_integers) as write:
            yield write
        return
    if _is_terminal(path):
        names = [printable(name) for name in names]
    with output_stream(path) as stream:
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(names)
        stream.write(head.getvalue().encode())
        yield lambda table: _write_text(stream, table, n_integers)


def _is_terminal(path: str) -> bool:
    return path == "-" and sys.stdout.isatty()


def _write_text(stream: Any, table: Table, n_integers: int) -> None:
    if n_integers == table.shape[1] == 1:
        stream.write(_integers_as_text(table[:, 0]))
        return
    # repr of a float is the shortest text that reads back as the same number
    lines = []
    for row in table.tolist():
        fields = ["" if x != x else str(int(x)) for x in row[:n_integers]]
        fields += ["" if x != x else repr(x) for x in row[n_integers:]]
        lines.append(",".join(fields) or '""')
    stream.write("".join(f"{line}\n" if line else '""\n' for line in lines).encode())


def _integers_as_text(column: Table) -> bytes:
    """Lines of small integers ≥ 0, each taken from a table of texts; the last is of no number."""
    numbers = np.where(np.isnan(column), -1, column).astype(np.int64)
    texts = [f"{i}\n" for i in range(int(numbers.max(initial=0)) + 1)]
    padded = np.array([*texts, '""\n'], dtype="S")[numbers]
    return padded.tobytes().replace(b"\0", b"")


@contextmanager
def _parquet(path: str, names: Sequence[str], n_integers: int) -> Iterator[Callable[[Table], None]]:
    import pyarrow as arrow
    from pyarrow import parquet

    kinds = [arrow.int32() if i < n_integers else arrow.float64() for i in range(len(names))]
    schema = arrow.schema(list(zip(names, kinds, strict=True)))

    def column(values: Table, kind: Any) -> Any:
        missing = np.isnan(values)
        if kind == arrow.int32():
            values = np.where(missing, 0, values).astype(np.int32)
        return arrow.array(values, kind, mask=missing)

    with output_stream(path) as stream, parquet.ParquetWriter(stream, schema) as writer:

        def write(table: Table) -> None:
            columns = [column(table[:, i], kind) for i, kind in enumerate(kinds)]
            writer.write_table(arrow.table(columns, schema=schema))

        yield write


# -- columns of several kinds -------------------------------------------------------------------


def guarded(cell: Any) -> Any:
    """Text that a spreadsheet would compute, with an apostrophe before it; other cells as they are.

    Examples
    --------
    >>> guarded("=HYPERLINK(1)"), guarded("-5"), guarded("a=b"), guarded(-5.0)
    ("'=HYPERLINK(1)", '-5', 'a=b', -5.0)
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def kind_of(column: Column) -> str:
    """What the cells of a column are written as: "number", "integer", "bool" or "text"."""
    if not column.levels:
        return "integer" if column.model.is_whole else "number"
    kinds = {type(level) for level in column.levels}
    return {bool: "bool", int: "integer", str: "text"}[kinds.pop() if len(kinds) == 1 else int]


@contextmanager
def column_writer(
    path: str, names: Sequence[str], kinds: Sequence[Any], guard: bool = False
) -> Iterator[Callable[[Sequence[Any]], None]]:
    """A function that appends columns to the table at `path`; NaN and None are empty fields.

    Parameters
    ----------
    path, names
        As for `table_writer`.
    kinds : sequence of str
        As `kind_of` gives them; or types of Arrow, of columns that are Arrow arrays.
    guard : bool
        Whether text of CSV is `guarded`; copies of an input are not.
    """
    if path.endswith(".parquet"):
        import pyarrow as arrow
        from pyarrow import parquet

        types = {"number": arrow.float64(), "integer": arrow.int64(), "bool": arrow.bool_()}
        types["text"] = arrow.string()
        chosen = [types[kind] if isinstance(kind, str) else kind for kind in kinds]
        schema = arrow.schema(list(zip(names, chosen, strict=True)))
        with output_stream(path) as stream, parquet.ParquetWriter(stream, schema) as writer:

            def write(columns: Sequence[Any]) -> None:
                parts = zip(columns, kinds, chosen, strict=True)
                arrays = [
                    arrow.array(_cells(column, kind), type_) if isinstance(kind, str) else column
                    for column, kind, type_ in parts
                ]
                writer.write_table(arrow.table(arrays, schema=schema))

            yield write
        return
    on_terminal = _is_terminal(path)
    with output_stream(path) as stream:
        stream.write(_as_csv([names], on_terminal))

        def write_text(columns: Sequence[Any]) -> None:
            rows: Iterable[Any] = zip(*map(_cells, columns, kinds), strict=True)
            if guard:
                rows = (list(map(guarded, row)) for row in rows)
            stream.write(_as_csv(rows, on_terminal))

        yield write_text


def _as_csv(rows: Iterable[Sequence[Any]], on_terminal: bool) -> bytes:
    """Lines of CSV; on a terminal control characters are escaped."""
    text = io.StringIO()
    if on_terminal:
        rows = ([printable(x) if isinstance(x, str) else x for x in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(rows)  # None is an empty field
    return text.getvalue().encode()


def _cells(column: Any, kind: Any) -> list[Any]:
    """Cells as Python's values, None where one is missing; those of Arrow arrays as text."""
    if hasattr(column, "cast"):
        cells: list[Any] = column.cast("string").to_pylist()
        return cells
    values = column.tolist()
    convert = {"number": float, "integer": int, "bool": bool, "text": str}[kind]
    return [None if x is None or x != x else convert(x) for x in values]
