"""`Comparison`: what differs between two summaries, by how much, and how surely; its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import exp, isfinite, nan
from numbers import Real
from typing import Any

from momentmix.errors import InputError, InputTypeError, printable
from momentmix.findings.change_sentences import two_numbers
from momentmix.findings.finding import NOTE, Finding, found, sentences
from momentmix.html.notebook import Markup, box, bullets, paragraph, plain_table, tag
from momentmix.json_fields import plain
from momentmix.monitoring.compared.changes import Change
from momentmix.wording import (
    aligned,
    cut,
    cut_lines,
    p_text,
    percent,
    plural,
    short_number,
)

_MOST_COLUMNS, _MOST_NOTES = 30, 8
_WIDEST = 28  # letters of a name
_HEADINGS = ("column", "first", "second", "change (95 % interval)", "spread", "p")
_MOST_SAID = 6


@dataclass(frozen=True)
class ColumnComparison:
    """All changes of one column.

    Attributes
    ----------
    name : str
    family : str
    changes : tuple of Change
        Of numbers: mean and spread; else the shares of levels; and the share of missing cells where
        there are any.
    """

    name: str
    family: str
    changes: tuple[Change, ...]

    @property
    def p_value(self) -> float:
        """Least corrected p-value of its changes; NaN if none was tested."""
        return _least_p(self.changes)

    @property
    def size(self) -> float:
        """Largest effect."""
        return max((c.size for c in self.changes if c.size == c.size), default=0.0)

    def change(self, what: str) -> Change | None:
        """The change of a kind; the largest one of several shares."""
        own = [c for c in self.changes if c.what == what]
        return max(own, key=lambda c: c.size, default=None)


@dataclass(frozen=True)
class Comparison:
    """Differences between two summaries: how large they are, and whether they can be chance.

    Attributes
    ----------
    n_rows : tuple of two int
    columns : tuple of ColumnComparison
        In the order of the columns.
    remarks : tuple of Finding
        What was not tested, and why.
    """

    n_rows: tuple[int, int]
    columns: tuple[ColumnComparison, ...]
    remarks: tuple[Finding, ...] = ()

    @property
    def p_value(self) -> float:
        """Least corrected p-value of all changes; NaN if none was tested."""
        return _least_p(self.changes)

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks in words."""
        return tuple(remark.text for remark in self.remarks)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of all columns."""
        return tuple(c for column in self.columns for c in column.changes)

    def named(self, level: float = 0.05, least_effect: float = 0.0) -> tuple[Change, ...]:
        """Changes that are beyond chance at this level and at least so large, the largest first."""
        _check_level(level, least_effect)
        kept = [c for c in self.changes if c.corrected <= level and c.size >= least_effect]
        return tuple(sorted(kept, key=lambda c: -c.size))

    def differs(self, level: float = 0.05, least_effect: float = 0.0) -> bool:
        """Whether the summaries differ by more than chance.

        Parameters
        ----------
        level : float, default=0.05
            Share of pairs of summaries of one law for which the answer is yes.
        least_effect : float, default=0
            Smaller effects are neglected.
        """
        return bool(self.named(level, least_effect))

    def findings(self, level: float = 0.05, least_effect: float = 0.0) -> list[Finding]:
        """The changes that `named` gives as findings, the most important first.

        Importance is the size of a change in standard deviations.
        """
        changes = self.named(level, least_effect)
        return [change.finding for change in sorted(changes, key=lambda c: -c.size / c.unit)]

    def sentences(self, level: float = 0.05, least_effect: float = 0.0) -> list[str]:
        """The findings in words."""
        return sentences(self.findings(level, least_effect))

    def first_sentences(self, level: float = 0.05, least_effect: float = 0.0) -> list[str]:
        """The most important findings in words, and how many there are more."""
        every = self.findings(level, least_effect)
        more = len(every) - _MOST_SAID
        rest = [found(NOTE, "more-changes", more=more)] if more > 0 else []
        return sentences([*every[:_MOST_SAID], *rest])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for strict JSON; numbers that are not known are None."""
        head = {"n_rows": self.n_rows, "p_value": self.p_value, "sentences": self.sentences()}
        found: dict[str, Any] = plain(head | {"columns": self.columns, "notes": self.notes})
        return found

    def to_frame(self) -> Any:
        """All changes as a pandas frame, a row for each."""
        import pandas as pd

        names = [field.name for field in fields(Change)]
        rows = [[getattr(c, name) for name in names] for c in self.changes]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        a, b = self.n_rows
        head = (
            f"Comparison({a:,} and {b:,} rows, {len(self.columns)} columns, "
            f"p_value={self.p_value:.3g}, {len(self.named())} changes named)"
        )
        return cut_lines("\n".join([head, *self.first_sentences()]))

    def __str__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        return comparison_html(self)


def _least_p(changes: Sequence[Change]) -> float:
    return min((c.corrected for c in changes if c.corrected == c.corrected), default=nan)


def _check_level(level: float, least_effect: float) -> None:
    given: dict[str, Any] = {"level": level, "least_effect": least_effect}
    for name, value in given.items():
        if not isinstance(value, Real):
            raise InputTypeError(f"{name} must be a number; got {value!r}.")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; got {level}.")
    if not least_effect >= 0:
        raise InputError(f"least_effect must be at least 0; got {least_effect}.")


def comparison_lines(
    found: Comparison, level: float = 0.05, least_effect: float = 0.0
) -> list[str]:
    """Return the changes in sentences, tables with the largest effects first, and notes."""
    said = (f"- {text}" for text in found.first_sentences(level, least_effect))
    lines = [verdict(found, level, least_effect), *said, ""]
    rows, more = _table_of_columns(found)
    lines += [*aligned([_HEADINGS, *rows]), *more]
    notes = [f"note: {note}" for note in found.notes[:_MOST_NOTES]]
    return [*lines, *([""] if notes else []), *notes]


def comparison_html(found: Comparison) -> Markup:
    """A comparison as a fragment of HTML."""
    word = tag("no difference", "good")
    if found.differs():
        word = tag("differs", "bad")
    elif found.p_value != found.p_value:
        word = tag("not judged", "plain")
    rows, more = _table_of_columns(found)
    parts: list[object] = [paragraph(word, verdict(found)), bullets(found.first_sentences())]
    parts += [plain_table(_HEADINGS, rows), *map(paragraph, more)]
    if found.notes:
        parts.append(bullets(found.notes))
    return box("Comparison of two summaries", *parts)


def verdict(found: Comparison, level: float = 0.05, least_effect: float = 0.0) -> str:
    """Whether the summaries differ, in a sentence."""
    a, b = (f"{n:,}" for n in found.n_rows)
    p, names = _p_is(found.p_value), found.named(level, least_effect)
    if found.p_value != found.p_value:
        return f"Nothing can be tested between {a} and {b} rows."
    if not found.differs(level):
        return f"No difference shows between {a} and {b} rows ({p}, level {level:g})."
    if not names:
        return (
            f"No difference of at least {least_effect:g} shows between {a} and {b} rows; smaller "
            f"ones do ({p})."
        )
    which = f"{len(names)} change{plural(len(names))} named"
    return f"{a} and {b} rows differ ({p}, level {level:g}; {which})."


def _table_of_columns(found: Comparison) -> tuple[list[tuple[str, ...]], list[str]]:
    """Cells of a table, the largest effects first, and how many columns are left out."""
    ordered = sorted(found.columns, key=lambda c: -c.size)
    rows = [row for column in ordered[:_MOST_COLUMNS] for row in _column_rows(column)]
    more = len(ordered) - _MOST_COLUMNS
    text = f"and {more:,} more column{plural(more)} with smaller effects"
    return rows, [text] if more > 0 else []


def _column_rows(column: ColumnComparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    mean, spread = column.change("mean"), column.change("spread")
    if mean is not None:
        numbers = two_numbers(mean.first, mean.second, mean.effect)
        least = _least([c for c in (mean, spread) if c is not None])
        cells = *numbers, _effect(mean, " sd"), _ratio(spread), least
        rows.append((_name(mean.value_name), *cells))
    for c in column.changes:
        if c.what in ("share", "missing"):
            shares = percent(c.first), percent(c.second)
            rows.append((_name(c.value_name), *shares, _effect(c, ""), "", _least([c])))
    return rows


# -- cells ------------------------------------------------------------------------------------


def _name(text: str) -> str:
    return cut(printable(text), _WIDEST)


def _effect(change: Change, unit: str) -> str:
    if not isfinite(change.effect):
        return "certain" if change.p_value == 0 else "–"
    text = f"{change.effect:+.3f}{unit}"
    if isfinite(change.low + change.high):
        text += f" ({change.low:+.3f} … {change.high:+.3f})"
    return text


def _ratio(change: Change | None) -> str:
    if change is None or change.effect != change.effect:
        return ""
    if not isfinite(change.effect):  # one of them is constant
        return "×0" if change.effect < 0 else "×∞"
    return f"×{short_number(exp(min(change.effect, 700.0)))}"


def _least(changes: Sequence[Change]) -> str:
    """The least p-value, and what it is of."""
    known = [c for c in changes if c.corrected == c.corrected]
    if not known:
        return "–"
    least = min(known, key=lambda c: c.corrected)
    suffix = f" ({least.what})" if least.corrected <= 0.05 else ""
    return p_text(least.corrected) + suffix


def _p_is(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
