"""`Finding`: one result of a check, as data; the sentences are in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from momentmix.errors import printable
from momentmix.findings.fit_sentences import FITS as CATALOG
from momentmix.findings.fit_sentences import Entry, Variants
from momentmix.wording import listed, plural

_MOST_LISTED = 8  # columns or components in a sentence
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
    def entry(self) -> Entry:
        """The sentences of this kind of finding."""
        return CATALOG[self.kind]

    @property
    def text(self) -> str:
        """What was found."""
        return self._filled(self.entry.text, self.numbers.get("asides", ()))

    @property
    def advice(self) -> str:
        """What to do."""
        return self._filled(self.entry.advice, ())

    def _filled(self, template: str | Variants, asides: Sequence[str]) -> str:
        asides = [f" ({x})" if x else "" for x in asides] or [""] * _most(self)
        names = [f"{x!a}{y}" for x, y in zip(self.columns, asides, strict=False)]
        components = [f"{x}{y}" for x, y in zip(self.components, asides, strict=False)]
        words: dict[str, Any] = {
            "names": listed(names, _MOST_LISTED),
            "columns": f"column{plural(len(names))} {listed(names, _MOST_LISTED)}",
            "components": f"component{plural(len(components))} {listed(components, _MOST_LISTED)}",
            "component": "component",
            "n": _Count(_most(self)),
        }
        if "pairs" in self.numbers:
            words["pairs"] = _first(list(map(_pair, self.numbers["pairs"])), _PAIRS_LISTED)
        if "outliers" in self.numbers:
            rows = _first(list(map(_row, self.numbers["outliers"])), _ROWS_LISTED)
            words["outliers"] = f": {rows}; rows are counted from 0" if rows else ""
        counts = {k: _Count(x) for k, x in self.numbers.items() if type(x) is int}
        chosen = template if isinstance(template, str) else template(self)
        bare = dict(zip(("column", "other"), map(str, self.columns), strict=False))
        return chosen.format_map({**self.numbers, **counts, **bare, **words})

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


def sentences(findings: Iterable[Finding]) -> list[str]:
    """Return findings in a line each."""
    return [printable(f.text) for f in findings]


def _most(f: Finding) -> int:
    return len(f.columns) or len(f.components)


def _pair(pair: tuple[str, str, float | None]) -> str:
    first, second, value = pair
    return f"{first} and {second}" + ("" if value is None else f" (about {value:+.2f})")


def _row(row: tuple[int, float, str | int]) -> str:
    return f"row {row[0]} ({row[1]:.6g} in column {row[2]!a})"


def _first(texts: list[str], most: int) -> str:
    more = len(texts) - most
    return "; ".join([*texts[:most], *([f"and {more} more"] if more > 0 else [])])
