"""What the columns of CSV text hold, from the fields of some lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.table import NO_CELL, NUMBER, Kind

_MOSTLY = 0.5  # share of numbers from which other text in a column is an error, not a label
_MOST_TRIED = 20  # texts that are tried as numbers with other decimals and thousands
_BOOLS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_TIME = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2}|AM|PM|am|pm)?)?"
_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
_DATE = re.compile(_DAY + _TIME)


def kinds_of(lines: Sequence[Sequence[str]], n_columns: int, dialect: Dialect) -> list[Kind]:
    """What each column holds; a column without any field that is not missing holds numbers."""
    return [_kind([fields[j] for fields in lines], dialect) for j in range(n_columns)]


def is_row(names: Sequence[str], lines: Sequence[Sequence[str]], dialect: Dialect) -> bool:
    """Whether a first line with text, as of names, is a row like the lines after it.

    All columns of numbers have a number for a name; and one of these is not whole, as years would
    be, or all columns of text hold what names them.

    Examples
    --------
    >>> rows = [["1", "x"], ["2", "y"]]
    >>> is_row(["3", "y"], rows, Dialect()), is_row(["2024", "city"], rows, Dialect())
    (True, False)
    """
    kinds = kinds_of(lines, len(names), dialect)
    numbers = [
        dialect.number(name) for name, kind in zip(names, kinds, strict=True) if kind == NUMBER
    ]
    known = [number for number in numbers if number is not None and number == number]
    repeated = any([field.strip() for field in fields] == list(names) for fields in lines)
    if repeated or not known or len(known) < len(numbers):  # the reader refuses repeated names
        return False
    held = all(
        any(fields[j].strip() == names[j] for fields in lines)
        for j, kind in enumerate(kinds)
        if kind.is_text
    )
    return held or any(number % 1 for number in known)


def _kind(fields: Iterable[str], dialect: Dialect) -> Kind:
    texts = [text for field in fields if (text := field.strip()) not in dialect.nulls]
    others = [text for text in texts if dialect.number(text) is None]
    if not texts:
        return NO_CELL
    if not others:
        return NUMBER
    if all(text in _BOOLS for text in texts):
        return Kind("bool", "true or false", is_text=True)
    if are_dates(texts):
        return Kind("date", "date and time" if any(":" in text for text in texts) else "date")
    distinct = list(dict.fromkeys(others))[:_MOST_TRIED]
    written_otherwise = sum(bool(dialect.cures(text)) for text in distinct)
    if len(others) <= (1 - _MOSTLY) * len(texts) or written_otherwise > len(distinct) / 2:
        return Kind("mixed", "numbers and text")
    return Kind("text", "text", is_text=True)


def are_dates(texts: Iterable[str]) -> bool:
    """Whether all texts look like dates, with or without a time.

    Examples
    --------
    >>> are_dates(["2024-02-29", "1.3.2024 08:15"]), are_dates(["2024-02-29", "soon"])
    (True, False)
    """
    return all(_DATE.fullmatch(text) for text in texts)
