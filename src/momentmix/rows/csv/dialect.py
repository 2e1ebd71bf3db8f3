"""How numbers are written in CSV text: what separates fields, decimals and thousands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from functools import cached_property

from momentmix.errors import InputError

NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None")
_THOUSANDS = (",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")  # offered in messages


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
            value = getattr(self, name)
            if value is None and name != "decimal":
                continue
            if not isinstance(value, str) or len(value) != 1:
                raise InputError(f"{name} (--{name}) must be one character; got {value!a}.")
            self._check(name, value)
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

    def _check(self, name: str, value: str) -> None:
        if name != "thousands" and not value.isascii():
            raise InputError(
                f"{name} (--{name}) must be an ASCII character; got {value!a}. Replace it in the "
                f"file first, e.g. sed 's/{value if value.isprintable() else '…'}/;/g', and pass "
                "the new one."
            )
        if value in '"\r\n\0':
            raise InputError(
                f"{name} (--{name}) must not be a quote, the end of a line or NUL; got {value!a}. "
                "Pass another character."
            )
        if name != "delimiter" and (value.isalnum() or value in "+-"):
            raise InputError(
                f"{name} (--{name}) must not be a digit, a letter or a sign; got {value!a}. Pass "
                "another character."
            )

    @cached_property
    def nulls(self) -> tuple[str, ...]:
        """Texts that stand for a missing cell."""
        if self.na_values is None:
            return NULLS
        return tuple(dict.fromkeys(("", *(text.strip() for text in self.na_values))))

    @cached_property
    def grouped(self) -> str:
        """Pattern of a number with marks between thousands, or hundreds of thousands as in India.

        Both Python and pyarrow (RE2) read it.
        """
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        groups = f"[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}"
        return f"^[+-]?{groups}(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"

    def plain(self, text: str) -> str:
        """A number without marks between thousands; other text as it is."""
        if self.thousands is not None and re.match(self.grouped, text):
            return text.replace(self.thousands, "")
        return text

    def number(self, text: str) -> float | None:
        """The number a field holds, NaN where it is missing, None where it is something else."""
        text = text.strip()
        if text in self.nulls:
            return float("nan")
        text = self.plain(text)
        if self.decimal != ".":
            if "." in text:
                return None
            text = text.replace(self.decimal, ".")
        try:
            return None if "_" in text else float(text)
        except ValueError:
            return None

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
