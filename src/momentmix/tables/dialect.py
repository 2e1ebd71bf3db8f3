"""How numbers are written in CSV text, and what its columns hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from momentmix.errors import InputError
from momentmix.tables.source import NO_CELL, NUMBER, Kind

NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_THOUSANDS = (",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")  # offered in messages
_MOSTLY = 0.5  # share of numbers from which other text in a column is an error, not a level
_MOST_TRIED = 20  # texts that are tried as numbers with other decimals and thousands
_TIME = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2}|AM|PM|am|pm)?)?"
_DAY = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})"
_DATE = re.compile(_DAY + _TIME)


@dataclass(frozen=True)
class Dialect:
    """Characters of CSV text.

    Parameters
    ----------
    delimiter : str or None
        Between fields; None for a comma, or a tab in files called .tsv.
    decimal : str
        Before decimals.
    thousands : str or None
        Between groups of digits. It may be the delimiter where such numbers are quoted.
    na_values : tuple of str or None
        Texts that stand for a missing cell, beside the empty one; None for the usual ones.
    header : bool or None
        Whether the first line holds the names of the columns; None to judge by what it holds. Also
        of Excel sheets.
    """

    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    na_values: tuple[str, ...] | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.header not in (None, True, False):
            raise InputError(f"header must be True, False or None; got {self.header!r}.")
        for name in ("delimiter", "decimal", "thousands"):
            if getattr(self, name) is not None or name == "decimal":
                _check_character(name, getattr(self, name))
        if self.decimal == (self.delimiter or ","):
            raise InputError(
                f"delimiter and decimal must differ; both are {self.decimal!r}. Pass what "
                "separates the fields, such as delimiter=';' (--delimiter ';')."
            )
        if self.decimal == self.thousands:
            raise InputError(
                f"thousands and decimal must differ; both are {self.decimal!r}. Pass other "
                "characters, or leave thousands out."
            )

    @cached_property
    def nulls(self) -> tuple[str, ...]:
        """Texts that stand for a missing cell."""
        if self.na_values is None:
            return NULLS
        return tuple(dict.fromkeys(("", *(text.strip() for text in self.na_values))))

    @cached_property
    def _grouped(self) -> str:
        """Pattern of a number with marks between thousands, or hundreds of thousands as in India.

        Both Python and pyarrow (RE2) read it.
        """
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        groups = f"[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}"
        return f"^[+-]?{groups}(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"

    @cached_property
    def _ungrouped(self) -> str:
        r"""Pattern of a number without such marks, in which ``\d`` is any digit, as for Python."""
        point = re.escape(self.decimal)
        digits = rf"(?:\d+(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
        return f"^[+-]?(?:{digits}|(?i:inf|infinity|nan))$"

    def plain(self, text: str) -> str:
        """A number without marks between thousands; other text as it is."""
        if self.thousands is not None and re.match(self._grouped, text):
            return text.replace(self.thousands, "")
        return text

    def number(self, text: str) -> float | None:
        """The number a field holds, NaN where it is missing, None where it is something else."""
        text = text.strip()
        if text in self.nulls:
            return float("nan")
        text = self.plain(text)
        return float(text.replace(self.decimal, ".")) if re.match(self._ungrouped, text) else None

    def numbers(self, fields: Any) -> Any:
        """An Arrow array of the numbers in an array of fields, as `number` reads them.

        Raises
        ------
        ValueError
            Where one of them is something else.
        """
        from pyarrow import ArrowInvalid, array, compute, float64

        text = self._trimmed(fields)
        if self.thousands is not None:
            plain = compute.replace_substring(text, self.thousands, "")
            text = compute.if_else(compute.match_substring_regex(text, self._grouped), plain, text)
        pattern = self._ungrouped.replace(r"\d", r"\p{Nd}")
        if not compute.all(compute.match_substring_regex(text, pattern), min_count=0).as_py():
            raise ValueError("a field is not a number")
        text = compute.replace_substring(text, self.decimal, ".")
        try:
            return text.cast(float64())
        except ArrowInvalid:  # of other digits than 0 to 9
            return array([None if x is None else float(x) for x in text.to_pylist()], float64())

    def bools(self, fields: Any) -> Any:
        """The same for true and false."""
        from pyarrow import array, compute

        text = self._trimmed(fields)
        known = compute.index_in(text, array([*TRUE, *FALSE]))
        if known.null_count > text.null_count:
            raise ValueError("a field is neither true nor false")
        return compute.less(known, len(TRUE))

    def _trimmed(self, fields: Any) -> Any:
        """Fields without spaces around them, null where they are missing."""
        from pyarrow import array, compute, scalar

        text = compute.utf8_trim_whitespace(fields)
        is_null = compute.is_in(text, array(self.nulls))
        return compute.if_else(is_null, scalar(None, text.type), text)

    def cures(self, text: str) -> list[str]:
        """In words, what else the field could be, and the options that would read it."""
        other = "," if self.decimal == "." else "."
        cures = []
        for thousands in (*(mark for mark in _THOUSANDS if mark in text), None):
            for decimal in (self.decimal, other):
                if decimal == thousands or (decimal, thousands) == (self.decimal, self.thousands):
                    continue
                if Dialect("\t", decimal, thousands).number(text) is not None:
                    cures.append(self._cure(decimal, thousands))
        return cures

    def _cure(self, decimal: str, thousands: str | None) -> str:
        reason = f"has a decimal {'comma' if decimal == ',' else 'point'}"
        changed = {}
        if thousands is not None:
            reason = f"has {thousands!a} between thousands"
            changed["thousands"] = thousands
        if decimal != self.decimal:
            changed["decimal"] = decimal
        options = ", ".join(f"{name}={value!a}" for name, value in changed.items())
        command = " ".join(f"--{name} {shlex.quote(value)}" for name, value in changed.items())
        cure = f"{reason}: pass {options} ({command})"
        if decimal == (self.delimiter or ","):
            cure += ", and have the fields separated by another character (--delimiter ';')"
        return cure

    def separated_by(self, delimiter: str) -> Dialect:
        """The same with this delimiter where none was given."""
        return replace(self, delimiter=self.delimiter or delimiter)


def _check_character(name: str, value: Any) -> None:
    place = f"{name} (--{name}) must"
    if not isinstance(value, str) or len(value) != 1:
        raise InputError(f"{place} be one character; got {value!a}.")
    if name != "thousands" and not value.isascii():
        raise InputError(
            f"{place} be an ASCII character; got {value!a}. Replace it in the file first, e.g. "
            f"sed 's/{value if value.isprintable() else '…'}/;/g', and pass the new one."
        )
    if value in '"\r\n\0':
        raise InputError(
            f"{place} not be a quote, the end of a line or NUL; got {value!a}. Pass another "
            "character."
        )
    if name != "delimiter" and (value.isalnum() or value in "+-"):
        raise InputError(
            f"{place} not be a digit, a letter or a sign; got {value!a}. Pass another character."
        )


# -- what columns hold ------------------------------------------------------------------------


def kinds_of(rows: Sequence[Sequence[str]], n_columns: int, dialect: Dialect) -> list[Kind]:
    """What each column holds; a column without any field that is not missing holds numbers."""
    return [_kind([fields[j].strip() for fields in rows], dialect) for j in range(n_columns)]


def _kind(fields: Iterable[str], dialect: Dialect) -> Kind:
    texts = [text for text in fields if text not in dialect.nulls]
    others = [text for text in texts if dialect.number(text) is None]
    if not others:
        return NUMBER if texts else NO_CELL
    if {*texts} <= {*TRUE, *FALSE}:
        return Kind("bool", "true or false")
    if are_dates(texts):
        return Kind("date", "date and time" if any(":" in text for text in texts) else "date")
    distinct = list(dict.fromkeys(others))[:_MOST_TRIED]
    written_otherwise = sum(bool(dialect.cures(text)) for text in distinct)
    if len(others) <= (1 - _MOSTLY) * len(texts) or written_otherwise > len(distinct) / 2:
        return Kind("mixed", "numbers and text")
    return Kind("text", "text")


def are_dates(texts: Iterable[str]) -> bool:
    """Whether all texts look like dates, with or without a time.

    Examples
    --------
    >>> are_dates(["2024-02-29", "1.3.2024 08:15"]), are_dates(["2024-02-29", "soon"])
    (True, False)
    """
    return all(_DATE.fullmatch(text) for text in texts)
