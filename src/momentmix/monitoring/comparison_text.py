"""A comparison as a text for terminals and as a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite
from typing import TYPE_CHECKING

from momentmix.errors import printable
from momentmix.html.notebook import Markup, box, bullets, folded, paragraph, plain_table, tag
from momentmix.monitoring.compare_words import first_sentences, two_numbers, value_name
from momentmix.monitoring.compared.changes import Change
from momentmix.wording import cut, listed, percent, plural, short_number

if TYPE_CHECKING:
    from momentmix.monitoring.comparison import ColumnComparison, Comparison

_MOST_COLUMNS, _MOST_PAIRS, _MOST_NOTES = 30, 10, 8
_MOST_NAMES = 5
_WIDEST = 28  # letters of a name
_LEAST_P = 1e-4  # smaller ones are not written out
_HEADINGS = ("column", "first", "second", "change (95 % interval)", "spread", "skewness", "p")
_PAIR_HEADINGS = ("pair", "first", "second", "change (95 % interval)", "p")


def comparison_lines(
    found: Comparison, level: float = 0.05, least_effect: float = 0.0
) -> list[str]:
    """What differs in sentences, a table with the largest effects first, pairs, notes."""
    said = first_sentences(found.sentences(level, least_effect))
    lines = [verdict(found, level, least_effect), *(f"- {text}" for text in said)]
    lines += [*_joint(found), ""]
    rows, more = column_rows(found, _MOST_COLUMNS)
    lines += _aligned([_HEADINGS, *rows])
    lines += [f"and {more:,} more column{plural(more)} with smaller effects"] if more else []
    pairs, more = pair_rows(found, level, _MOST_PAIRS)
    if pairs:
        lines += ["", "correlations", *_aligned([_PAIR_HEADINGS, *pairs])]
        lines += [f"and {more:,} more pair{plural(more)}"] if more else []
    notes = [f"note: {note}" for note in found.notes[:_MOST_NOTES]]
    return [*lines, *([""] if notes else []), *notes]


def verdict(found: Comparison, level: float = 0.05, least_effect: float = 0.0) -> str:
    """Whether the summaries differ, in a sentence, and which columns cannot be judged."""
    said = _decided(found, level, least_effect)
    if not found.unjudged:
        return said
    names = listed([repr(printable(name)) for name in found.unjudged], _MOST_NAMES)
    return f"{said} Not judged: {names}, where one row dominates."


def _decided(found: Comparison, level: float, least_effect: float) -> str:
    a, b = (f"{n:,}" for n in found.n_rows)
    p = _p_is(found.p_value)
    if found.p_value != found.p_value:
        return f"Nothing can be tested between {a} and {b} rows."
    if not found.differs(level):
        return f"No difference shows between {a} and {b} rows ({p}, level {level:g})."
    names = found.named(level, least_effect)
    if least_effect and not names:
        return (
            f"No difference of at least {least_effect:g} shows between {a} and {b} rows; smaller "
            f"ones do ({p})."
        )
    which = f"{len(names)} change{plural(len(names))} named" if names else "no single change named"
    return f"{a} and {b} rows differ ({p}, level {level:g}; {which})."


def _joint(found: Comparison) -> list[str]:
    texts = [
        f"{name}: F({t.degrees[0]:.0f}, {t.degrees[1]:.0f}) = {t.statistic:.3g}, {_p_is(t.p_value)}"
        for name, t in found.tests.items()
    ]
    return ["; ".join(texts)] if texts else []


def column_rows(found: Comparison, most: int) -> tuple[list[tuple[str, ...]], int]:
    """Lines of a table, the largest effects first, and how many columns are left out."""
    ordered = sorted(found.columns, key=lambda c: -c.size)
    rows = [row for column in ordered[:most] for row in _column_rows(column)]
    return rows, max(0, len(ordered) - most)


def _column_rows(column: ColumnComparison) -> list[tuple[str, ...]]:
    rows = []
    mean, spread, skew = (column.change(w) for w in ("mean", "spread", "skewness"))
    if mean is not None:
        own = [c for c in (mean, spread, skew) if c is not None]
        rows.append(
            (
                _name(value_name(mean)),
                *two_numbers(mean),
                _effect(mean, " sd"),
                _ratio(spread),
                "" if skew is None else " → ".join(_round(x) for x in (skew.first, skew.second)),
                _least(own),
            )
        )
    for change in column.changes:
        if change.what not in ("share", "missing"):
            continue
        shares = percent(change.first), percent(change.second)
        rows.append(
            (_name(value_name(change)), *shares, _effect(change, ""), "", "", _least([change]))
        )
    return rows


def pair_rows(found: Comparison, level: float, most: int) -> tuple[list[tuple[str, ...]], int]:
    """Lines of the pairs whose correlation changed most, those beyond chance first."""
    ordered = sorted(found.pairs, key=lambda c: (not c.corrected <= level, -c.size))
    rows: list[tuple[str, ...]] = [
        (
            f"{_name(c.column)}, {_name(c.other or '')}",
            _round(c.first),
            _round(c.second),
            _effect(c, ""),
            _least([c]),
        )
        for c in ordered[:most]
    ]
    return rows, max(0, len(ordered) - most)


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


def _round(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "–"


def _least(changes: Sequence[Change]) -> str:
    """The least p-value, and what it is of."""
    known = [c for c in changes if c.corrected == c.corrected]
    if not known:
        return "–"
    least = min(known, key=lambda c: c.corrected)
    suffix = f" ({least.what})" if least.corrected <= 0.05 and least.what != "correlation" else ""
    return p_text(least.corrected) + suffix


def _p_is(p: float) -> str:
    return f"p {p_text(p)}" if p < _LEAST_P else f"p = {p_text(p)}"


def p_text(p: float) -> str:
    """A p-value for people."""
    if p != p:
        return "–"
    return "< 0.0001" if p < _LEAST_P else f"{p:.2g}" if p < 0.995 else "1"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


# -- notebooks --------------------------------------------------------------------------------


def comparison_html(found: Comparison) -> Markup:
    """A comparison as a fragment of HTML."""
    word = _word(found)
    rows, more = column_rows(found, _MOST_COLUMNS)
    said = bullets(first_sentences(found.sentences()))
    parts: list[object] = [paragraph(word, verdict(found)), said, plain_table(_HEADINGS, rows)]
    if more:
        parts.append(paragraph(f"and {more:,} more column{plural(more)} with smaller effects"))
    pairs, more = pair_rows(found, 0.05, _MOST_PAIRS)
    if pairs:
        rest = [paragraph(f"and {more:,} more")] if more else []
        parts.append(folded("Correlations", plain_table(_PAIR_HEADINGS, pairs), *rest))
    if found.notes:
        parts.append(bullets(found.notes))
    return box("Comparison of two summaries", *parts)


def _word(found: Comparison) -> Markup:
    if found.differs():
        return tag("differs", "bad")
    if found.unjudged or found.p_value != found.p_value:
        return tag("not judged", "plain")
    return tag("no difference", "good")
