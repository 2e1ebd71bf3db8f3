"""Excel workbooks (.xlsx) through openpyxl: the first sheet, names of columns in its first row.

Cells are read a few thousand rows at a time. The first rows tell the kind of each column; a cell of
another kind is an error that names it.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from itertools import islice, takewhile
from typing import Any

from momentmix.errors import InputError, needed
from momentmix.tables.dialect import judged
from momentmix.tables.source import ArrowFileSource, Batch

_ROWS = 4096  # read at a time
_FEW = 2  # cells of another kind in a column, as of a line with totals and one with remarks
_FAR = 100  # blank cells before the last one of the first row, which is then no name
_ERRORS = ("#N/A", "#DIV/0!", "#NUM!", "#VALUE!", "#REF!", "#NAME?", "#NULL!")
_WORDS = {"double": "a number", "bool": "true or false", "date32": "a date"}
Row = tuple[int, list[Any]]  # its number in the sheet, from 1, and its cells


class ExcelFile(ArrowFileSource):
    """The first sheet of a workbook.

    Parameters
    ----------
    path : str or path-like
    nulls : sequence of str
        Texts that stand for a missing cell, beside what Excel writes for a number that a formula
        could not compute.
    header : bool or None
        Whether the first row holds names; None to judge by what it holds.
    """

    def __init__(
        self, path: str | os.PathLike[str], nulls: Sequence[str], header: bool | None
    ) -> None:
        self._missing, self._header = {*nulls, *_ERRORS}, header
        super().__init__(path)
        if not self._named:
            self.column_names = None

    def _open(self) -> None:
        import pyarrow

        self._openpyxl = needed("openpyxl", self.name, "excel")
        with closing(self._rows()) as rows:
            head = list(islice(rows, _ROWS))
        if not head:
            raise InputError(f"{self.name} is empty; its first sheet holds no cells.")
        header = head[0][1]
        self._named = self._has_names(header, [row for _, row in head[1:]])
        names = ["" if cell is None else str(cell).strip() for cell in header]
        kinds = [self._type(head[self._named :], i, name) for i, name in enumerate(names)]
        types = [pyarrow.type_for_alias(kind) for kind in kinds]
        self.schema = pyarrow.schema(list(zip(names, types, strict=True)))

    def _has_names(self, header: list[Any], rows: list[list[Any]]) -> bool:
        """Whether the first row of the sheet holds the names of the columns."""
        texts, *others = ([_number_text(cell) for cell in row] for row in (header, *rows))
        self.first_line = tuple(texts)
        if self._header is not None:
            return self._header
        if not all(cell is None or isinstance(cell, int | float) for cell in header):
            return True
        has_names, self.header_note = judged(f"the first row of {self.name}", texts, others)
        return has_names

    def _type(self, rows: list[Row], column: int, name: str) -> str:
        """The type of a column: that of most cells; text where no kind has more than half.

        A few cells of another kind, as "Total" below numbers or dates, are an error: what they are
        written beside is no row like the others.
        """
        pairs = zip(rows, self._cells(rows, column), strict=True)
        kinds = [(_kind(cell), row[0], cell) for row, cell in pairs if cell is not None]
        found = Counter(kind for kind, _, _ in kinds)
        most, count = found.most_common(1)[0] if kinds else ("double", 0)
        odd = [(number, cell) for kind, number, cell in kinds if kind != most]
        if 2 * count <= len(kinds) and odd:
            return "string"
        if most != "string" and 0 < len(odd) <= max(_FEW, len(kinds) // 100):
            raise self._odd_cell(column, f"column {name!a}", *odd[0], f"{_WORDS[most]} as in most")
        return most if most == "double" or not odd else "string"

    def _odd_cell(self, column: int, label: str, number: int, cell: Any, wanted: str) -> InputError:
        """The error for a cell of another kind than others of its column."""
        return InputError(
            f"{self.name}, sheet {self._sheet!a}, cell {self._place(column, number)}, {label}: "
            f"{str(cell)[:60]!a} is not {wanted} rows. Remove the row if it "
            "holds totals or remarks; else repair the cell, name its text in na_values "
            "(--na-values) if it stands for a missing one, or format the whole column as text."
        )

    def _cells(self, rows: list[Row], column: int) -> list[Any]:
        """Cells of a column, None where they are missing."""
        cells = (row[1][column] for row in rows)
        plain = (cell.strip() if isinstance(cell, str) else cell for cell in cells)
        return [None if cell in self._missing else cell for cell in plain]

    def _place(self, column: int, row: int) -> str:
        """A cell as Excel names it: B17."""
        return f"{self._openpyxl.utils.get_column_letter(column + 1)}{row}"

    # -- rows ---------------------------------------------------------------------------------

    def _rows(self) -> Generator[Row, None, None]:
        """Rows of the sheet that are not blank; all as wide as the first one."""
        try:
            with self.path.open("rb") as file:  # openpyxl closes what it opens at the end only
                book = self._openpyxl.load_workbook(file, read_only=True, data_only=True)
                self._sheet = book.worksheets[0].title
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
            if cells and not width:
                width = len(cells)
                blank = sum(1 for _ in takewhile(lambda cell: cell is None, cells[-2::-1]))
                if blank >= _FAR:  # it would make thousands of columns
                    raise InputError(
                        f"{self.name}, sheet {self._sheet!a}, cell {self._place(width - 1, number)}"
                        f" has {blank} blank cells before it in the first row. Remove it, or name "
                        "the columns."
                    )
            if len(cells) > width:
                raise InputError(
                    f"{self.name}, cell {self._place(width, number)} lies beyond the last column "
                    "of the first row. Name the column there, or remove the cell."
                )
            if cells:
                yield number, cells + [None] * (width - len(cells))

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
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

        cells, type_ = self._cells(rows, column), self.schema.field(column).type
        if str(type_).startswith("date"):
            raise InputError(
                f"{self.name}, {self.label(column)} holds dates, which momentmix does not read "
                "from Excel. Save the sheet as CSV, with dates such as 2026-01-31."
            )
        convert, allowed = _READ[str(type_)]
        for (number, _), cell in zip(rows, cells, strict=True):
            if cell is not None and not isinstance(cell, allowed):
                wanted = f"{_WORDS[str(type_)]} as in the rows before, or most"
                raise self._odd_cell(column, self.label(column), number, cell, wanted)
        return pyarrow.array([None if cell is None else convert(cell) for cell in cells], type_)


_READ = {"double": (float, int | float), "bool": (bool, bool), "string": (str, object)}


def _kind(cell: Any) -> str:
    """The type of Arrow of a cell."""
    if isinstance(cell, bool):
        return "bool"
    if isinstance(cell, int | float):
        return "double"
    return "date32" if isinstance(cell, datetime | date) else "string"


def _number_text(cell: Any) -> str:
    """A cell as CSV would have it; Excel knows no difference between 3 and 3.0."""
    is_whole = isinstance(cell, float) and cell.is_integer()
    return "" if cell is None else str(int(cell) if is_whole else cell)
