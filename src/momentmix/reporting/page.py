"""What a report says, as data: its template only arranges it.

Texts are plain; the template escapes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.displays.means import compared
from momentmix.displays.rows import by_separation
from momentmix.families.column import restored
from momentmix.findings.finding import FATAL, WARNING, Severity
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.outcome import Trial
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import (
    Intervals,
    Parameter,
    ParameterTable,
    column_names,
    joined_columns,
)
from momentmix.mixture.profile import NEVER_SEEN, Profile
from momentmix.wording import (
    cleared,
    cut,
    listed,
    percent,
    plural,
    short_number,
    whole_percent,
)

_SENTENCES = {
    "passed": "No test speaks against this fit.",
    "untested": "No test rejects this fit, but not everything could be tested.",
}
_SHORTCOMINGS = {  # of a fit that did not pass
    "misfit": "the data contradict the model",
    "imprecise": "the groups are not known precisely enough",
    "unsupported": "fewer groups, or others, describe the data as well",
    "not-reproduced": "other rows do not give all of these groups",
    "not-described": "the model is far from the distribution of the rows",
}
_LABELS = {FATAL: ("bad", "Needed"), WARNING: ("warn", "Worth a look")}
_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_LEVELS = 6  # of a column among the groups side by side, those that differ most
_MOST_INTERVALS = 5000  # in the table of all parameters; with more the page would grow too large
_LEAST_SEEN = 0.25  # standard deviations by which observed cells differ, where it is worth a line
_STEPS = (0.25, 0.6, 1.1, 1.8)  # overall standard deviations: the shades of a cell
_LETTERS = 40  # of the name of a column beside the groups


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    aside: str = ""  # in small print after the text
    kind: str = ""  # CSS class; numbers need none


Rows = list[list[Cell]]


def text_cell(text: object, aside: str = "") -> Cell:
    """Return a cell that is aligned left."""
    return Cell(str(text), aside, "text")


# -- the first screen --------------------------------------------------------------------------


def verdict(certificate: Certificate) -> str:
    """Return the verdict in one sentence."""
    if certificate.meaning:
        return certificate.meaning
    if certificate.verdict in _SENTENCES:
        return _SENTENCES[certificate.verdict]
    kinds = {finding.kind for finding in certificate.tests}
    against = [words for kind, words in _SHORTCOMINGS.items() if kind in kinds]
    n = sum(finding.severity is FATAL for finding in certificate.findings)
    if n:
        against.append(f"{n} finding{plural(n)} below spoil{'s' if n == 1 else ''} the fit")
    return f"Do not rely on it yet: {listed(against, 4)}."


def largest_and_smallest(profile: Profile) -> str:
    """Return the groups in a sentence."""
    if len(profile) == 1:
        return "All rows are one group."
    largest = max(profile, key=lambda c: c.share)
    smallest = min(profile, key=lambda c: c.share)
    return (
        f"The largest group, “{largest.name}”, has {percent(largest.share)} of the rows; "
        f"the smallest, “{smallest.name}”, has {percent(smallest.share)}."
    )


# -- what to do --------------------------------------------------------------------------------


class Action(NamedTuple):
    """Something to do, and why, in plain words."""

    text: str
    why: str
    kind: str  # CSS class of the severity
    label: str


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """Return what the findings of a certificate advise, the most important first."""
    names: dict[Any, Any] = dict(enumerate(column_names(mixture)))
    findings = [*certificate.findings, *certificate.tests]
    todo = []
    for found in sorted(findings, key=lambda found: -list(Severity).index(found.severity)):
        finding = replace(
            found, columns=tuple(dict.fromkeys(names.get(x, x) for x in found.columns))
        )
        severity = finding.severity
        if certificate.verdict == "useful" and severity is FATAL:  # nothing has to be done
            severity = WARNING
        kind, label = _LABELS.get(severity, ("plain", "Good to know"))
        todo.append(Action(_of_groups(finding.advice), _of_groups(finding.text), kind, label))
    return todo


def _of_groups(text: str) -> str:
    """Return a sentence in which components are groups."""
    text = text.replace("components", "groups").replace("component", "group")
    return text[:1].upper() + text[1:]


# -- the groups side by side -------------------------------------------------------------------


def side_by_side(m: Mixture) -> tuple[Rows, int]:
    """Return columns × groups in shades, the best separation first, and levels left out."""
    table, rows, n_left_out = ParameterTable(m), list[list[Cell]](), 0
    for j in by_separation(m):
        column, parts = m.columns[j], compared(table, j)
        apart = {
            k: float(np.ptp(np.nan_to_num(part.relative)))
            for k, part in enumerate(parts)
            if part.parameter.name == "probability"
        }
        fewer = sorted(apart, key=lambda k: apart[k])[: max(0, len(apart) - _MOST_LEVELS)]
        n_left_out += len(fewer)
        for k, (p, _, relative) in enumerate(parts):
            if p.name == "mean":
                transform = column.transform
                finest = (
                    None if transform else float(np.ptp(p.estimate[~np.isnan(p.estimate)])) / 10
                )
                texts = number_texts(restored(p.estimate, transform), finest)
                noun = column.model.noun if column.model.is_whole else ""
                label = cut(p.label.removeprefix(f"{transform} "), _LETTERS)
                heading = text_cell(label, "median" if transform else noun)
                rows.append([heading, *_shaded(texts, relative)])
            elif p.name == "seen" and np.nanmax(np.abs(relative), initial=0.0) < _LEAST_SEEN:
                continue  # cells that are about as often observed in all groups need no line
            elif k not in fewer:
                rows.append(_share_row(p, relative))
    return rows, n_left_out


def _share_row(p: Parameter, relative: Float) -> list[Cell]:
    level = f"={p.level_text}" if p.level_text else ""
    name = cut(p.label.removesuffix(level), _LETTERS) + cut(level, _LETTERS)
    texts = [share_cell(float(x)).text for x in p.estimate]
    return [text_cell(name), *_shaded(texts, relative)]


def _shaded(texts: list[str], relative: Float) -> Iterator[Cell]:
    """Yield cells that are above or below all rows, in four steps."""
    for text, x in zip(texts, relative.tolist(), strict=True):
        step = sum(abs(x) >= least for least in _STEPS)
        yield Cell(text, kind=f"{'h' if x > 0 else 'l'}{step}" if step else "")


# -- for experts -------------------------------------------------------------------------------


def parameter_rows(m: Mixture, intervals: Intervals | None) -> tuple[Rows, str]:
    """Return a row for each parameter, and what to know of them."""
    table = ParameterTable(m, intervals=intervals)
    rows = [[text_cell("Share of rows"), *share_cells(table.weights())]]
    for j, column in enumerate(m.columns):
        if not column.levels:
            mean, deviation = table.mean(j), table.deviation(j)
            rows.append([text_cell(mean.label, "mean"), *number_cells(mean)])
            rows.append([text_cell(mean.label, "spread"), *number_cells(deviation)])
        shown = [p for p in table.of_column(j) if p.name in ("probability", "seen")]
        rows += [[text_cell(p.label), *share_cells(p)] for p in shown]
    for p, values in table.correlations(_MOST_PAIRS):
        rows.append([text_cell(p.label, "correlation"), *map(Cell, number_texts(values))])
        rows.append([text_cell(p.label, "covariance"), *number_cells(p)])
    note = (
        "No intervals are known: they need the record of a fit, and a row for each parameter."
        if intervals is None
        else "Below each number is its 95 % interval: the range in which the true value lies with "
        "a probability of about 95 %."
    )
    if len(rows) * m.n_components > _MOST_INTERVALS:
        rows = [[row[0], *(cell._replace(aside="") for cell in row[1:])] for row in rows]
        note = "The table is large: its intervals are in FitResult.to_frame."
    note += " Spreads are standard deviations; with log they are those of the logarithm, as means."
    n_pairs = m.parameters.blocks.n_pairs
    if n_pairs:
        note += " Joined columns may be correlated within groups; others are independent."
    if n_pairs > _MOST_PAIRS:
        note += f" Shown are the {_MOST_PAIRS} most correlated of {n_pairs} pairs."
    return rows, note


def facts(m: Mixture, record: FitResult | None) -> Iterator[tuple[str, object]]:
    """Yield facts of the columns and of the fit."""
    for label, names in [] if m.schema is None else m.schema.by_family():
        yield f"Columns: {label}", ", ".join(names)
    joined = joined_columns(m) if record is None or not record.joined else record.joined
    for columns in joined:
        yield "Joined columns", str(columns)
    if record is None:
        return
    yield "Passes over the rows", record.n_passes
    if record.log_likelihood is not None:
        yield "Log-likelihood per row", f"{record.log_likelihood:.6g}"
    yield from (("Note", note) for note in record.notes)
    if record.command is not None:
        yield "Fitted by", record.command
    yield "Seed", "not recorded" if record.seed is None else record.seed
    yield "Fitted with", ", ".join(f"{x} {number}" for x, number in record.versions.items())


def trial_row(t: Trial) -> list[Cell]:
    """Return what was found with a number of components."""
    numbers = (
        (t.n_components, "d"), (t.p_value, ".2g"), (t.log_likelihood, ".6g"), (t.bic, ".1f"),
    )  # fmt: skip
    cells = [Cell("" if x != x else f"{x:{digits}}") for x, digits in numbers]
    least = t.least_reproducibility
    again = Cell("" if least != least else whole_percent(least))
    return [*cells, again, text_cell("yes" if t.chosen else "no")]


# -- cells -------------------------------------------------------------------------------------


def share_cells(p: Parameter) -> list[Cell]:
    """Return shares of the groups in percent, with their intervals."""
    return [share_cell(*map(float, x)) for x in zip(p.estimate, p.low, p.high, strict=True)]


def share_cell(value: float, low: float = nan, high: float = nan) -> Cell:
    """Return a share in percent, to a tenth; words where a component never sees the column."""
    if value != value:
        return Cell(NEVER_SEEN)
    text, *ends = (
        percent(x) if not 1e-3 <= x < 0.9995 else f"{100 * x:.1f} %" for x in (value, low, high)
    )
    return Cell(text, "" if low != low else " … ".join(ends))


def number_texts(values: Float, finest: float | None = None) -> list[str]:
    """Return numbers of the groups, three digits each."""
    return [NEVER_SEEN if x != x else short_number(x, finest) for x in cleared(values.tolist())]


def number_cells(p: Parameter) -> list[Cell]:
    """Return numbers of the groups with their intervals, to digits that tell their ends apart."""
    cells, widths = [], p.high - p.low
    finest = float(widths[widths > 0].min(initial=inf))  # inf: three digits
    for text, *ends in zip(number_texts(p.estimate, finest), p.low, p.high, strict=True):
        aside = " … ".join(short_number(float(end), finest) for end in ends)
        cells.append(Cell(text, "" if any(map(isnan, ends)) else aside))
    return cells
