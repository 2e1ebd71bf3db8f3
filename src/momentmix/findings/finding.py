"""`Finding`: one result of a check, as data; the sentences are in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from momentmix.errors import printable
from momentmix.findings.fit_sentences import FITS as CATALOG
from momentmix.findings.fit_sentences import Entry, Variants
from momentmix.wording import listed, plural

_MOST_LISTED = 8  # columns or components in a sentence
_MOST_QUOTED = 6  # columns in the plain words of a report
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


class _Share(float):
    """A number whose percents have a space, as in all other texts: ``{share:.0%}``."""

    def __format__(self, digits: str) -> str:
        text = super().__format__(digits)
        return f"{text[:-1]} %" if digits.endswith("%") else text


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
    remedy : mapping
        Keyword arguments of `fit` that help, as ``{"families": {"income": "log"}}``.

    Examples
    --------
    >>> finding = found(WARNING, "constant-column", ["age", "zip"])
    >>> finding.text
    "columns 'age', 'zip' hold one value only; they take no part in the fit and get the variance \
floor."
    >>> finding.in_plain_words(finding.entry.action)
    'Do without “age”, “zip”.'
    """

    kind: str
    severity: Severity
    columns: tuple[str | int, ...] = ()
    components: tuple[int, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    remedy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def entry(self) -> Entry:
        """The sentences of this kind of finding."""
        return CATALOG[self.kind]

    @property
    def asides(self) -> list[str]:
        """Text printed after each column or component, in parentheses; may be empty."""
        own = [self._filled(self.entry.aside, {})] * len(self.columns or self.components)
        return list(self.numbers.get("asides", own))

    @property
    def text(self) -> str:
        """The finding in the words of statistics."""
        asides = [f" ({x})" if x else "" for x in self.asides]
        names = [f"{x!a}{y}" for x, y in zip(self.columns, asides, strict=False)]
        components = [f"{x}{y}" for x, y in zip(self.components, asides, strict=False)]
        words: dict[str, Any] = {
            "names": listed(names, _MOST_LISTED),
            "columns": f"column{plural(len(names))} {listed(names, _MOST_LISTED)}",
            "components": _components("component", components),
            "component": "component",
        }
        if "pairs" in self.numbers:
            words["pairs"] = _first(list(map(_pair, self.numbers["pairs"])), _PAIRS_LISTED)
        if "outliers" in self.numbers:
            words["outliers"] = _outliers(self.numbers["outliers"])
        return self._filled(self.entry.text, words)

    def in_plain_words(self, template: str | Variants) -> str:
        """Fill a template for everybody, in which components are groups."""
        words = {
            "columns": quoted(self.columns) or "the columns named below",
            "components": _components("Group", list(map(str, self.components))),
            "component": "group",
        }
        return self._filled(template, words)

    def _filled(self, template: str | Variants, words: Mapping[str, Any]) -> str:
        counts = {k: _Count(x) for k, x in self.numbers.items() if type(x) is int}
        shares = {k: _Share(x) for k, x in self.numbers.items() if type(x) is float}
        n = _Count(len(self.columns) or len(self.components))
        chosen = template if isinstance(template, str) else template(self)
        bare = dict(zip(("column", "other"), map(str, self.columns), strict=False))
        return chosen.format_map({**self.numbers, **counts, **shares, **bare, **words, "n": n})

    def __str__(self) -> str:
        return f"[{self.severity.value}] {self.text}"


def found(
    severity: Severity,
    kind: str,
    columns: Sequence[str | int] = (),
    components: Sequence[int] = (),
    remedy: Mapping[str, Any] | None = None,
    **numbers: Any,
) -> Finding:
    """Return a finding of a kind in the catalog."""
    if kind not in CATALOG:
        raise KeyError(kind)
    return Finding(kind, severity, tuple(columns), tuple(components), numbers, remedy or {})


def sentences(findings: Iterable[Finding]) -> list[str]:
    """Return findings in a line each, in the words of statistics."""
    return [printable(f.text) for f in findings]


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that have one sentence as one, each at the place of the first.

    >>> each = [found(NOTE, "dispersion", [x], ratio=2, law="a count") for x in "ab"]
    >>> print(together(each)[0].text)
    within components, the variance of columns 'a' (2 times that of a count), 'b' (2 times that of \
a count) is not that of their family.
    """
    alike: dict[Any, list[Finding]] = {}
    for f in findings:
        own = {name: x for name, x in f.numbers.items() if name != "asides"}
        told = frozenset(own) if f.entry.aside else str(own)
        alike.setdefault((f.kind, f.severity, told), []).append(f)
    return [own[0] if len(own) == 1 else _as_one(own) for own in alike.values()]


def _as_one(findings: list[Finding]) -> Finding:
    """Return one finding about the columns, components and remedies of several."""
    columns = tuple(x for f in findings for x in f.columns)
    components = tuple(x for f in findings for x in f.components)
    remedy: dict[str, Any] = {}
    for f in findings:
        for name, x in f.remedy.items():
            remedy[name] = {**remedy.get(name, {}), **x} if isinstance(x, Mapping) else x
    numbers = {**findings[0].numbers, "asides": [x for f in findings for x in f.asides]}
    return replace(
        findings[0], columns=columns, components=components, numbers=numbers, remedy=remedy
    )


def quoted(columns: Sequence[str | int]) -> str:
    """Return names of columns in quotation marks, the first of them."""
    return listed([f"“{name}”" for name in columns], _MOST_QUOTED)


def _components(noun: str, components: list[str]) -> str:
    return f"{noun}{plural(len(components))} {listed(components, _MOST_LISTED)}"


def _pair(pair: tuple[str, str, float | None]) -> str:
    first, second, value = pair
    return f"{first} and {second}" + ("" if value is None else f" (about {value:+.2f})")


def _outliers(rows: Sequence[tuple[int, float, str | int]]) -> str:
    shown = [f"row {row} ({value:.6g} in column {column!a})" for row, value, column in rows]
    return _first(shown, _ROWS_LISTED)


def _first(texts: list[str], most: int) -> str:
    more = len(texts) - most
    return "; ".join([*texts[:most], *([f"and {more} more"] if more > 0 else [])])
