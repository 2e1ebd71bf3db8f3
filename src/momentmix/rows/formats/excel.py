"""Excel workbooks (.xlsx) through openpyxl: the first sheet, names of columns in its first row.

Cells are read a few thousand rows at a time. The first rows tell the kind of each column; a cell of
another kind is an error that names it.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

from momentmix.errors import InputError, needed
from momentmix.rows.arrow_files import ArrowFileTable
from momentmix.rows.csv.dialect import NULLS

_ROWS = 4096  # read at a time
Row = tuple[int, list[Any]]  # its number in the sheet, from 1, and its cells

# What a cell of a column may be; the first that all cells of the first rows are.
_KINDS: list[tuple[str, tuple[type, ...]]] = [
    ("float64", (int, float)),
    ("bool", (bool,)),
    ("timestamp", (datetime, date)),
    ("string", (str, int, float, bool, datetime, date, time, timedelta)),
]


class ExcelFile(ArrowFileTable):
    """The first sheet of a workbook."""

    def _open(self) -> None:
        self._openpyxl = needed("openpyxl", self.name, "excel")
        with closing(self._rows()) as rows:
            head = list(islice(rows, _ROWS))
        if not head:
            raise InputError(f"{self.name} is empty; its first sheet holds no cells.")
        header = head[0][1]
        self._named = any(not _is_number(cell) for cell in header)
        head = head[1:] if self._named else head
        names = [str(_plain(cell, "")) for cell in header]
        columns = ([row[1][i] for row in head] for i in range(len(header)))
        kinds = [self._type(column) for column in columns]
        names = names if self._named else [str(i) for i in range(len(header))]
        self.schema = self._arrow.schema(list(zip(names, kinds, strict=True)))

    def _read_schema(self) -> None:
        super()._read_schema()
        if not self._named:
            self.column_names = None

    def _type(self, cells: list[Any]) -> Any:
        arrow = self._arrow
        kinds = {type(cell) for cell in cells if not _is_missing(cell)}
        name = next((name for name, allowed in _KINDS if kinds <= {*allowed}), "string")
        return arrow.timestamp("us") if name == "timestamp" else getattr(arrow, _TYPES[name])()

    # -- rows ---------------------------------------------------------------------------------

    def _rows(self) -> Generator[Row, None, None]:
        """Rows of the sheet that are not blank; all as wide as the first one."""
        try:
            with self.path.open("rb") as file:  # openpyxl closes what it opens at the end only
                book = self._openpyxl.load_workbook(file, read_only=True, data_only=True)
                yield from self._as_wide(book.worksheets[0])
        except (zipfile.BadZipFile, zlib.error, LookupError, EOFError, SyntaxError) as error:
            size = self.path.stat().st_size
            raise InputError(
                f"{self.name} cannot be read; it is truncated, damaged or no .xlsx workbook "
                f"({size} bytes): {error}. Save it again as .xlsx or CSV."
            ) from None

    def _as_wide(self, sheet: Any) -> Iterator[Row]:
        width = 0
        sheet.reset_dimensions()  # some programs write wrong ones
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(values)
            while cells and cells[-1] is None:
                cells.pop()
            width = width or len(cells)
            if len(cells) > width:
                raise InputError(
                    f"{self.name}, cell {_place(width, number)} lies beyond the last column of the "
                    "first row. Name the column there, or remove the cell."
                )
            if cells:
                yield number, cells + [None] * (width - len(cells))

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        position, names = 0, [self.schema.names[i] for i in columns]
        with closing(self._rows()) as rows:
            if self._named:
                next(rows)
            while part := list(islice(rows, _ROWS)):
                arrays = [self._array_of(part, i) for i in columns]
                yield position, self._arrow.RecordBatch.from_arrays(arrays, names)
                position += len(part)

    def _array_of(self, rows: list[Row], column: int) -> Any:
        kind, types = self.schema.field(column).type, self._arrow.types
        if types.is_string(kind):
            cells = [_plain(row[1][column]) for row in rows]
            return self._arrow.array([c if c is None else str(c) for c in cells], kind)
        cells = [None if _is_missing(row[1][column]) else row[1][column] for row in rows]
        dates = types.is_timestamp(kind)
        allowed = (datetime, date) if dates else (bool, int, float)
        for (number, _), cell in zip(rows, cells, strict=True):
            if cell is not None and not isinstance(cell, allowed):
                raise InputError(
                    f"{self.name}, cell {_place(column, number)}, {self.label(column)}: "
                    f"{str(cell)[:60]!a} is not a {'date' if dates else 'number'}"
                    " as in the rows before. Repair the cell, or select other columns with columns="
                    " (--columns)."
                )
        if types.is_boolean(kind) and not all(c is None or isinstance(c, bool) for c in cells):
            kind = self._arrow.float64()
        return self._arrow.array(cells, kind)


_TYPES = {"bool": "bool_", "float64": "float64", "string": "string"}


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip() in _MISSING)


# What Excel writes for a number that a formula could not compute counts as missing, too.
_MISSING = {*NULLS, "#N/A", "#DIV/0!", "#NUM!", "#VALUE!", "#REF!", "#NAME?", "#NULL!"}


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _plain(cell: Any, missing: Any = None) -> Any:
    return missing if _is_missing(cell) else cell.strip() if isinstance(cell, str) else cell


def _place(column: int, row: int) -> str:
    """A cell as Excel names it: B17."""
    letters, rest = "", column + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row}"
