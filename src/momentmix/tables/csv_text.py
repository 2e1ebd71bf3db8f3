"""Text of CSV: numbers, kinds of columns, and whether a first line names the columns.

The first line names the columns where any of its fields is text. Numbers are names where

- they alone are in quotes,
- they count 0, 1, … or 1, 2, … over two or more columns, and no other row is like them,
- they are different years, 1900 to 2100, above rows that are no years,
- they are different whole numbers above columns of fractions.

`header=` says otherwise. Where numbers are taken for names, a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from momentmix.errors import InputError, InputTypeError
from momentmix.lazy import lazy_property
from momentmix.tables.columns import NO_CELL, NUMBER, Kind
from momentmix.wording import listed, option

NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
FIRST_YEAR, LAST_YEAR = 1900, 2100
# A number with marks between thousands; in India also between hundreds.
_GROUPED = re.compile(
    r"[+-]?[0-9]{1,3}([,.'\u2019 \u00a0\u202f_])(?:[0-9]{2,3}\1)*[0-9]{3}(?:[.,][0-9]*)?"
)
_MOST_TRIED = 20  # texts that are tried as numbers of other countries
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2}|AM|PM|am|pm)?"
_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
_DATE, _TIME = re.compile(f"{_DAY}(?:[T ]{_CLOCK})?"), re.compile(_CLOCK)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_RARE = 0.05  # how probable a row of whole numbers may be below names that are such


@dataclass(frozen=True)
class Dialect:
    """Characters of CSV text; `header`: whether the first line holds names, also in Excel.

    None: a comma, or a tab in files called .tsv; the usual texts for missing cells; judge by what
    the line holds.
    """

    delimiter: str | None = None
    decimal: str = "."
    na_values: Sequence[str] | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in self._missing_texts):
            raise InputTypeError(
                f"na_values must be strings, as they are in the file; got {self.na_values!r}."
            )
        if self.header not in (None, True, False):
            raise InputError(f"header must be True, False or None; got {self.header!r}.")
        for name, value in (("delimiter", self.delimiter or ","), ("decimal", self.decimal)):
            is_mark = isinstance(value, str) and len(value) == 1 and value.isascii()
            if not is_mark or value in '"\r\n\0' or (name == "decimal" and value.isalnum()):
                raise InputError(
                    f"{name} must be one ASCII character, not a quote, the end of a line or NUL, "
                    f"and a decimal no digit or letter; got {value!a}. Pass another, or replace it "
                    "in the file."
                )
        if self.decimal == (self.delimiter or ","):
            raise InputError(
                f"delimiter and decimal must differ; both are {self.decimal!r}. Pass what "
                f"separates the fields, such as {option(delimiter=';')}."
            )

    @property
    def _missing_texts(self) -> Sequence[str]:
        texts = NULLS if self.na_values is None else self.na_values
        return [texts] if isinstance(texts, str) else texts

    @lazy_property
    def nulls(self) -> tuple[str, ...]:
        """Texts that mean a missing cell."""
        return tuple(dict.fromkeys(("", *(text.strip() for text in self._missing_texts))))

    @lazy_property
    def _pattern(self) -> re.Pattern[str]:
        """Pattern of a number."""
        point = re.escape(self.decimal)
        digits = rf"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return re.compile(f"[+-]?(?:{digits}|(?i:inf|infinity|nan))")

    def number(self, text: str) -> float | None:
        """The number a field holds, NaN where it is missing, None where it is something else."""
        text = text.strip()
        if text in self.nulls:
            return float("nan")
        return float(text.replace(self.decimal, ".")) if self._pattern.fullmatch(text) else None

    def truth(self, text: str) -> float | None:
        """1 and 0 for true and false, NaN where a field is missing, None for something else."""
        text = text.strip()
        if text in self.nulls:
            return float("nan")
        return float(text in TRUE) if text in TRUE + FALSE else None

    def cures(self, text: str) -> list[str]:
        """In words, what else the field could be, and what would make it a number."""
        cures, decimal = [], "," if self.decimal == "." else "."
        if replace(self, delimiter="\t", decimal=decimal).number(text) is not None:
            cure = f"has a decimal {'comma' if decimal == ',' else 'point'}"
            cure += f": pass {option(decimal=decimal)}"
            if decimal == (self.delimiter or ","):
                cure += f", and have the fields separated by another: {option(delimiter=';')}"
            cures.append(cure)
        if grouped := _GROUPED.fullmatch(text):
            cures.append(f"has {grouped[1]!a} between thousands: write it without")
        return cures


def kind_of_cells(cells: Iterable[str], dialect: Dialect) -> Kind:
    """Content of a column, by its first cells; one with missing cells alone holds numbers."""
    texts = [text for text in map(str.strip, cells) if text not in dialect.nulls]
    others = [text for text in texts if dialect.number(text) is None]
    if not others:
        return NUMBER if texts else NO_CELL
    if {*texts} <= {*TRUE, *FALSE}:
        return Kind("bool", "true or false")
    if times_in(texts) == "dates":
        return Kind("date", "date and time" if any(":" in text for text in texts) else "date")
    distinct = list(dict.fromkeys(others))[:_MOST_TRIED]
    like_numbers = sum(text in NULLS or bool(dialect.cures(text)) for text in distinct)
    if 2 * len(others) <= len(texts) or 2 * like_numbers > len(distinct):
        return Kind("mixed", "numbers and text")
    return Kind("text", "text")


def times_in(texts: Sequence[str]) -> str:
    """What all texts look like: "dates", with or without a time, "times" of the day, or ""."""
    for what, pattern in (("dates", _DATE), ("times", _TIME)):
        if all(map(pattern.fullmatch, texts)):
            return what
    return ""


# -- the first line --------------------------------------------------------------------------------


def judged(
    place: str, first: Sequence[str], rows: Sequence[Sequence[str]], quoted: bool
) -> tuple[bool, str | None]:
    """Whether the numbers of a first line name the columns, and a note on a guess.

    `quoted`: whether they alone are in quotes. "" above a column without blank cells is a name too.
    """
    if not rows:
        return False, None
    has_index = len(first) > 1 and not first[0] and all(row[0] for row in rows)
    names, cells = list(first[has_index:]), [list(row[has_index:]) for row in rows]
    numbers = [str(i) for i in range(len(names) + 1)]
    counts = len(first) > 1 and names in (numbers[:-1], numbers[1:])
    whole = all(map(_WHOLE.fullmatch, names)) and len({*names}) == len(names)
    years = whole and len(names) > 1 and _are_years(names) and not any(map(_are_years, cells))
    is_header = quoted or years or (whole and are_fractions(cells))
    is_header |= counts and names not in cells and len(cells) + len(names) > 3
    if not is_header and not counts:
        return False, None
    taken, other = ("names of columns", "a row") if is_header else ("a row", "names of columns")
    cure = f"{option(header=not is_header)} reads it as {other}"
    return is_header, f"{place} is taken for {taken} ({listed(list(map(ascii, first)), 5)}); {cure}"


def _are_years(cells: Sequence[str]) -> bool:
    return all(len(x) == 4 and x.isdecimal() and FIRST_YEAR <= int(x) <= LAST_YEAR for x in cells)


def are_fractions(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a row of whole numbers only would be rare among rows like these."""
    share = 1.0
    for column in zip(*rows, strict=True):
        whole = [_WHOLE.fullmatch(cell) is not None for cell in column if cell]
        share *= (sum(whole) + 0.5) / (len(whole) + 1) if whole else 1.0  # there may be others
    return share <= _RARE


def is_row(names: Sequence[str], kinds: Sequence[Kind], dialect: Dialect) -> bool:
    """Whether a first line with text is a row: what names columns of numbers are fractions."""
    numbers = [dialect.number(x) for x, kind in zip(names, kinds, strict=True) if kind == NUMBER]
    return None not in numbers and any(x and x % 1 > 0 for x in numbers)
