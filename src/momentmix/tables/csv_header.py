"""Whether a first line holds names of columns; also numbers, as pandas writes them: 0, 1, 2, …."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from momentmix.tables.dialect import Dialect, kinds_of
from momentmix.tables.source import NUMBER

_WHOLE = re.compile(r"[+-]?[0-9]+")
# How probable a row of whole numbers may be for the first line to be names all the same. Columns
# of one decimal have a whole number in each tenth row. Where other columns are whole throughout, a
# single column decides, and zeros are frequent in many.
_RARE, _RARER = 0.2, 0.05
_FREQUENT = 0.05  # share of rows equal to the first line from which it is a row like them
_LISTED = 5  # names in a note


def judged(
    place: str, first: Sequence[str], rows: Sequence[Sequence[str]], quoted: bool = False
) -> tuple[bool, str | None]:
    """Whether the numbers of a first line are names of the columns, and a note on a guess.

    They are where they alone are quoted; where two or more of them count from 0 or from 1; and
    where they are different whole numbers above columns of fractions. A blank first field above a
    column without blank cells, as of the index of a pandas frame, is a name too.

    Parameters
    ----------
    place : str
        What the first line is called in the note.
    first : sequence of str
        Cells of the first line, "" where one is missing.
    rows : sequence of sequences of str
        Cells of some of the lines after it; a first line alone is a row.
    quoted : bool
        Whether the cells of the first line are quoted, and numbers of others are not.

    Examples
    --------
    >>> judged("it", ["0", "1"], [["7", "3"], ["2", "2"]])[0], judged("it", ["5"], [["7"]])[0]
    (True, False)
    >>> judged("it", ["2001", "2002"], [["7.5", "0.1"], ["6.5", "3.2"]])[0]
    True
    """
    if not rows:
        return False, None
    has_index = len(first) > 1 and not first[0] and all(row[0] for row in rows)
    names, cells = list(first[has_index:]), [row[has_index:] for row in rows]
    counted = [str(i) for i in range(len(names) + 1)]
    counts = len(first) > 1 and names in (counted[:-1], counted[1:])
    whole = all(map(_WHOLE.fullmatch, names)) and len({*names}) == len(names)
    listed = ", ".join(map(ascii, first[:_LISTED])) + (", …" if len(first) > _LISTED else "")
    usual = counts and _is_usual(names, cells)
    if quoted or (whole and above_fractions(cells)) or (counts and not usual):
        return True, (
            f"{place} is taken for names of columns ({listed}); header=False (--no-header) reads "
            "it as a row"
        )
    if usual:
        return False, (
            f"{place} is taken for a row ({listed}); header=True (--header) reads it as names of "
            "columns"
        )
    return False, None


def _is_usual(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether many rows are equal to the first line, or there are too few cells to tell."""
    equal = sum(list(row) == list(first) for row in rows)
    return equal > _FREQUENT * len(rows) or (len(rows) == 1 and len(first) == 2)


def above_fractions(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a row of whole numbers only would be rare among rows like these."""
    shares = [_whole_share(column) for column in zip(*rows, strict=True)]
    fractional = all(share <= 0.5 for share in shares)
    return math.prod(shares) <= (_RARE if fractional else _RARER)


def _whole_share(cells: Iterable[str]) -> float:
    """Share of the cells of a column that are whole numbers; never 0, as there may be others."""
    whole = [_WHOLE.fullmatch(cell) is not None for cell in cells if cell]
    return (sum(whole) + 0.5) / (len(whole) + 1) if whole else 1.0


def is_row(names: Sequence[str], rows: Sequence[Sequence[str]], dialect: Dialect) -> bool:
    """Whether a first line with text, as of names, is a row like the lines after it.

    All columns of numbers have a number for a name; and one of these is not whole, as years would
    be, or all columns of text hold what names them.

    Examples
    --------
    >>> rows = [["1", "x"], ["2", "y"]]
    >>> is_row(["3", "y"], rows, Dialect()), is_row(["2024", "city"], rows, Dialect())
    (True, False)
    """
    kinds = kinds_of(rows, len(names), dialect)
    numbers = [
        dialect.number(name) for name, kind in zip(names, kinds, strict=True) if kind == NUMBER
    ]
    known = [number for number in numbers if number is not None and number == number]
    repeated = any([field.strip() for field in fields] == list(names) for fields in rows)
    if repeated or not known or len(known) < len(numbers):  # the reader refuses repeated names
        return False
    held = all(
        any(fields[j].strip() == names[j] for fields in rows)
        for j, kind in enumerate(kinds)
        if kind.kind in ("text", "bool")
    )
    return held or any(number % 1 for number in known)


def alone_is_quoted(first: str, lines: Sequence[str], delimiter: str) -> bool:
    """Whether all fields of the first line are quoted, and not all others with contents."""
    mark, field = re.escape(delimiter), r'[ \t]*"[^"]*"[ \t]*'
    cell = rf"(?:{field}|[ \t]*)"
    if not re.fullmatch(f"{field}(?:{mark}{field})*", first):
        return False
    row = re.compile(f"{cell}(?:{mark}{cell})*")
    return not all(row.fullmatch(line.rstrip("\r\n")) for line in lines)
