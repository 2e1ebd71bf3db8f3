"""`Finding`: one result of a check, as data; the sentences are in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from momentmix.findings.fit_sentences import FITS as CATALOG
from momentmix.wording import listed, plural

_LISTED = 8  # columns or components in a sentence
_PAIRS_LISTED, _ROWS_LISTED = 3, 5


class Severity(Enum):
    """Severity of a finding: a fatal one fails the certificate."""

    NOTE = "note"
    WARNING = "warning"
    FATAL = "fatal"


NOTE, WARNING, FATAL = Severity


class _Count(int):
    """A number that chooses between words: ``{n:it|them}``."""

    def __format__(self, words: str) -> str:
        return words.split("|")[self != 1] if "|" in words else super().__format__(words)


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes
    ----------
    kind : str
        Its name in the catalog, such as "constant-column".
    severity : Severity
    columns : tuple of str or int
        Columns that it is about, by name or by number, the most important first.
    components : tuple of int
    numbers : mapping
        Values that its sentences need: numbers, texts, or lists of them. ``asides`` are printed
        after the columns or components, one after each.

    Examples
    --------
    >>> finding = found(WARNING, "constant-column", ["age", "zip"])
    >>> finding.text
    "columns 'age', 'zip' hold one value only; they take no part in the fit and get the variance \
floor."
    >>> finding.advice
    "Do without columns 'age', 'zip'."
    """

    kind: str
    severity: Severity
    columns: tuple[str | int, ...] = ()
    components: tuple[int, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What was found."""
        return self._filled(CATALOG[self.kind].text, self.numbers.get("asides", ()))

    @property
    def advice(self) -> str:
        """What to do."""
        return self._filled(CATALOG[self.kind].advice, ())

    def _filled(self, template: str, asides: Sequence[str]) -> str:
        n = len(self.columns) or len(self.components)
        after = [f" ({x})" if x else "" for x in asides] or [""] * n
        names = listed([f"{x!a}{y}" for x, y in zip(self.columns, after, strict=False)], _LISTED)
        components = [f"{x}{y}" for x, y in zip(self.components, after, strict=False)]
        words: dict[str, Any] = {
            "names": names,
            "columns": f"column{plural(len(self.columns))} {names}",
            "components": f"component{plural(len(components))} {listed(components, _LISTED)}",
            "n": _Count(n),
        }
        if "pairs" in self.numbers:
            words["pairs"] = _first([_pair(*pair) for pair in self.numbers["pairs"]], _PAIRS_LISTED)
        if "outliers" in self.numbers:
            rows = _first([_row(*row) for row in self.numbers["outliers"]], _ROWS_LISTED)
            words["outliers"] = f": {rows}; rows are counted from 0" if rows else ""
        counts = {k: _Count(x) for k, x in self.numbers.items() if type(x) is int}
        return template.format_map({**self.numbers, **counts, **words})

    def __str__(self) -> str:
        return f"[{self.severity.value}] {self.text}"


def found(
    severity: Severity,
    kind: str,
    columns: Sequence[str | int] = (),
    components: Sequence[int] = (),
    **numbers: Any,
) -> Finding:
    """Return a finding of a kind in the catalog."""
    if kind not in CATALOG:
        raise KeyError(kind)
    return Finding(kind, severity, tuple(columns), tuple(components), numbers)


def _pair(first: str, second: str, value: float | None) -> str:
    return f"{first} and {second}" + ("" if value is None else f" (about {value:+.2f})")


def _row(number: int, value: float, column: str | int) -> str:
    return f"row {number} ({value:.6g} in column {column!a})"


def _first(texts: list[str], most: int) -> str:
    more = len(texts) - most
    return "; ".join([*texts[:most], *([f"and {more} more"] if more > 0 else [])])
