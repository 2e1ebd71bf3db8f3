"""The first sheet of Excel workbooks (.xlsx) through openpyxl.

The first rows decide the kind of each column; a cell of another kind is an error that names it.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import date
from itertools import islice, takewhile
from typing import Any

from momentmix.errors import InputError, needed
from momentmix.findings.messages import Message, keyword
from momentmix.tables.formats.dialect import Dialect, judged
from momentmix.tables.source import ArrowFileSource, Batch, Columns

_ROWS = 4096  # read at a time
_FEW = 2  # cells of another kind in a column, as of a line with totals and one with remarks
_FAR = 100  # blank cells before the last one of the first row, which is then no name
_ERRORS = ("#N/A", "#DIV/0!", "#NUM!", "#VALUE!", "#REF!", "#NAME?", "#NULL!")
# Types of Arrow: in words, the classes of their cells (the first that fits), and the conversion.
_TYPES: dict[str, tuple[str, Any, Any]] = {
    "bool": ("true or false", bool, bool),
    "double": ("a number", int | float, float),
    "date32": ("a date", date, None),
    "string": ("text", object, str),
}
Row = tuple[int, list[Any]]  # its number in the sheet, from 1, and its cells


class ExcelFile(ArrowFileSource):
    """The first sheet of a workbook; of the dialect, the header and texts for missing cells."""

    def __init__(self, path: str | os.PathLike[str], dialect: Dialect) -> None:
        self._missing, self._header = {*dialect.nulls, *_ERRORS}, dialect.header
        super().__init__(path)
        self.column_names = self._names

    def _open(self) -> None:
        import pyarrow

        self._openpyxl = needed("openpyxl", f"{self.name} needs openpyxl", "momentmix[excel]")
        with closing(self._rows()) as rows:
            head = list(islice(rows, _ROWS))
        if not head:
            raise InputError(f"{self.name} is empty; its first sheet holds no cells.")
        self._named = self._has_names([row for _, row in head])
        names = ["" if cell is None else str(cell).strip() for cell in head[0][1]]
        self.column_names = self._names = tuple(names) if self._named else None
        self._types = [self._type(head[self._named :], i) for i in range(len(names))]
        types = map(pyarrow.type_for_alias, self._types)
        self.schema = pyarrow.schema(list(zip(names, types, strict=True)))

    def _has_names(self, rows: list[list[Any]]) -> bool:
        """Whether the first row holds the names of the columns."""
        first, *others = ([_as_in_csv(cell) for cell in row] for row in rows)
        self.first_line = tuple(first)
        if self._header is not None:
            return self._header
        if not all(cell is None or isinstance(cell, int | float) for cell in rows[0]):
            return True
        has_names, self.header_note = judged(f"the first row of {self.name}", first, others)
        return has_names

    def _type(self, rows: list[Row], column: int) -> str:
        """The type of most cells of a column, others being errors; text where none has half."""
        cells = [pair for pair in self._cells(rows, column) if pair[1] is not None]
        kinds = [(name, kind) for name, (_, kind, _) in _TYPES.items()]
        types = [next(name for name, kind in kinds if isinstance(x, kind)) for _, x in cells]
        most, count = Counter(types).most_common(1)[0] if types else ("double", 0)
        odd = [pair for pair, type_ in zip(cells, types, strict=True) if type_ != most]
        if not odd or 2 * count <= len(cells):
            return "string" if odd else most
        if most != "string" and len(odd) <= max(_FEW, len(cells) // 100):
            raise self._odd_cell(column, *odd[0], most, "most")
        return "double" if most == "double" else "string"

    def _cells(self, rows: list[Row], column: int) -> Iterator[tuple[int, Any]]:
        """Numbers of rows, and their cells of a column; None where they are missing."""
        for number, row in rows:
            cell = row[column]
            if isinstance(cell, str):
                cell = cell.strip()
            yield number, None if cell in self._missing else cell

    def _odd_cell(self, column: int, row: int, cell: Any, type_: str, others: str) -> InputError:
        """The error for a cell of another type than others of its column."""
        text = (
            f"{self._place(column, row)}, {self.label(column)}: {str(cell)[:60]!a} is not "
            f"{_TYPES[type_][0]} as in {others} rows. Remove the row if it holds totals or "
            "remarks; else repair the cell, name its text in "
        )
        end = " if it stands for a missing one, or format the whole column as text."
        return InputError(Message(text, keyword("na_values"), end))

    def _place(self, column: int, row: int) -> str:
        """A cell as Excel names it: B17."""
        letters = self._openpyxl.utils.get_column_letter(column + 1)
        return f"{self.name}, sheet {self._sheet!a}, cell {letters}{row}"

    def _rows(self) -> Generator[Row, None, None]:
        """Rows of the sheet that are not blank; all as wide as the first one."""
        try:
            with self.path.open("rb") as file:  # openpyxl closes what it opens at the end only
                book = self._openpyxl.load_workbook(file, read_only=True, data_only=True)
                self._sheet = book.worksheets[0].title
                yield from self._as_wide(book.worksheets[0])
        except (zipfile.BadZipFile, zlib.error, LookupError, EOFError, SyntaxError) as error:
            raise InputError(
                f"{self.name} cannot be read; it is truncated, damaged or no .xlsx workbook "
                f"({self.path.stat().st_size} bytes): {error}. Save it again as .xlsx or CSV."
            ) from None

    def _as_wide(self, sheet: Any) -> Iterator[Row]:
        width = 0
        sheet.reset_dimensions()  # some programs write wrong ones
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = list(values)
            while cells and cells[-1] is None:
                cells.pop()
            if cells and not width:
                width = len(cells)
                blank = sum(1 for _ in takewhile(lambda cell: cell is None, cells[-2::-1]))
                if blank >= _FAR:  # it would make thousands of columns
                    raise InputError(
                        f"{self._place(width - 1, number)} has {blank} blank cells before it in "
                        "the first row. Remove it, or name the columns."
                    )
            if len(cells) > width:
                raise InputError(
                    f"{self._place(width, number)} lies beyond the last column of the first row. "
                    "Name the column there, or remove the cell."
                )
            if cells:
                yield number, cells + [None] * (width - len(cells))

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """All batches; columns of dates are not read."""
        position = 0
        with self._refuse_unreadable(), closing(self._rows()) as rows:
            for _ in range(self._named):
                next(rows)
            while part := list(islice(rows, _ROWS)):
                yield Batch(position, len(part), [self._array(part, i) for i in columns])
                position += len(part)

    def _array(self, rows: list[Row], column: int) -> Any:
        """Cells of a column of numbers, true and false, or text."""
        import pyarrow

        type_, converted = self._types[column], []
        _, allowed, convert = _TYPES[type_]
        if type_ == "date32":
            raise InputError(
                f"{self.name}, {self.label(column)} holds dates, which momentmix does not read "
                "from Excel. Save the sheet as CSV, with dates such as 2026-01-31."
            )
        for number, cell in self._cells(rows, column):
            if cell is not None and not isinstance(cell, allowed):
                raise self._odd_cell(column, number, cell, type_, "the rows before, or most")
            converted.append(None if cell is None else convert(cell))
        return pyarrow.array(converted, pyarrow.type_for_alias(type_))


def _as_in_csv(cell: Any) -> str:
    """A cell as CSV would have it; to Excel 3 and 3.0 are the same."""
    is_whole = isinstance(cell, float) and cell.is_integer()
    return "" if cell is None else str(int(cell) if is_whole else cell)
