"""A comparison as a text for terminals and as a table for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite
from typing import TYPE_CHECKING

from momentmix.errors import printable
from momentmix.findings.changes import two_numbers
from momentmix.html.notebook import Markup, box, bullets, folded, paragraph, plain_table, tag
from momentmix.monitoring.compared.changes import Change
from momentmix.wording import aligned, cut, listed, p_text, percent, plural, short_number

if TYPE_CHECKING:
    from momentmix.monitoring.comparison import ColumnComparison, Comparison

_MOST_COLUMNS, _MOST_PAIRS, _MOST_NOTES = 30, 10, 8
_MOST_NAMES = 5
_WIDEST = 28  # letters of a name
_HEADINGS = ("column", "first", "second", "change (95 % interval)", "spread", "skewness", "p")
_PAIR_HEADINGS = ("pair", "first", "second", "change (95 % interval)", "p")


def comparison_lines(
    found: Comparison, level: float = 0.05, least_effect: float = 0.0
) -> list[str]:
    """Return the changes in sentences, tables with the largest effects first, and notes."""
    said = (f"- {text}" for text in found.first_sentences(level, least_effect))
    tests = [
        f"{name}: F({t.degrees[0]:.0f}, {t.degrees[1]:.0f}) = {t.statistic:.3g}, {_p_is(t.p_value)}"
        for name, t in found.tests.items()
    ]
    lines = [verdict(found, level, least_effect), *said, *(["; ".join(tests)] if tests else []), ""]
    rows, more = _table_of_columns(found)
    lines += [*aligned([_HEADINGS, *rows]), *more]
    pairs, n_more = _table_of_pairs(found, level)
    if pairs:
        lines += ["", "correlations", *aligned([_PAIR_HEADINGS, *pairs])]
        lines += [f"and {n_more:,} more pair{plural(n_more)}"] if n_more else []
    notes = [f"note: {note}" for note in found.notes[:_MOST_NOTES]]
    return [*lines, *([""] if notes else []), *notes]


def comparison_html(found: Comparison) -> Markup:
    """A comparison as a fragment of HTML."""
    word = tag("no difference", "good")
    if found.differs():
        word = tag("differs", "bad")
    elif found.unjudged or found.p_value != found.p_value:
        word = tag("not judged", "plain")
    rows, more = _table_of_columns(found)
    parts: list[object] = [paragraph(word, verdict(found)), bullets(found.first_sentences())]
    parts += [plain_table(_HEADINGS, rows), *map(paragraph, more)]
    pairs, n_more = _table_of_pairs(found, 0.05)
    if pairs:
        rest = [paragraph(f"and {n_more:,} more")] if n_more else []
        parts.append(folded("Correlations", plain_table(_PAIR_HEADINGS, pairs), *rest))
    if found.notes:
        parts.append(bullets(found.notes))
    return box("Comparison of two summaries", *parts)


def verdict(found: Comparison, level: float = 0.05, least_effect: float = 0.0) -> str:
    """Whether the summaries differ, in a sentence, and which columns cannot be judged."""
    a, b = (f"{n:,}" for n in found.n_rows)
    p, names = _p_is(found.p_value), found.named(level, least_effect)
    which = f"{len(names)} change{plural(len(names))} named" if names else "no single change named"
    said = f"{a} and {b} rows differ ({p}, level {level:g}; {which})."
    if found.p_value != found.p_value:
        said = f"Nothing can be tested between {a} and {b} rows."
    elif not found.differs(level):
        said = f"No difference shows between {a} and {b} rows ({p}, level {level:g})."
    elif least_effect and not names:
        said = (
            f"No difference of at least {least_effect:g} shows between {a} and {b} rows; smaller "
            f"ones do ({p})."
        )
    if not found.unjudged:
        return said
    columns = listed([repr(printable(name)) for name in found.unjudged], _MOST_NAMES)
    return f"{said} Not judged: {columns}, where one row dominates."


def _table_of_columns(found: Comparison) -> tuple[list[tuple[str, ...]], list[str]]:
    """Cells of a table, the largest effects first, and how many columns are left out."""
    ordered = sorted(found.columns, key=lambda c: -c.size)
    rows = [row for column in ordered[:_MOST_COLUMNS] for row in _column_rows(column)]
    more = len(ordered) - _MOST_COLUMNS
    text = f"and {more:,} more column{plural(more)} with smaller effects"
    return rows, [text] if more > 0 else []


def _column_rows(column: ColumnComparison) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    mean, spread, skew = (column.change(w) for w in ("mean", "spread", "skewness"))
    if mean is not None:
        numbers = two_numbers(mean.first, mean.second, mean.effect)
        skews = "" if skew is None else " → ".join(_round(x) for x in (skew.first, skew.second))
        least = _least([c for c in (mean, spread, skew) if c is not None])
        cells = *numbers, _effect(mean, " sd"), _ratio(spread), skews, least
        rows.append((_name(mean.value_name), *cells))
    for c in column.changes:
        if c.what in ("share", "missing"):
            shares = percent(c.first), percent(c.second)
            rows.append((_name(c.value_name), *shares, _effect(c, ""), "", "", _least([c])))
    return rows


def _table_of_pairs(found: Comparison, level: float) -> tuple[list[tuple[str, ...]], int]:
    """Cells of the pairs whose correlation changed most, those beyond chance first."""
    ordered = sorted(found.pairs, key=lambda c: (not c.corrected <= level, -c.size))
    rows: list[tuple[str, ...]] = []
    for c in ordered[:_MOST_PAIRS]:
        pair = f"{_name(c.column)}, {_name(c.other or '')}"
        rows.append((pair, _round(c.first), _round(c.second), _effect(c, ""), _least([c])))
    return rows, max(0, len(ordered) - _MOST_PAIRS)


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
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
