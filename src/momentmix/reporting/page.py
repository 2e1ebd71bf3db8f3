"""What a report says, as data: its template only arranges it.

Texts are plain; the template escapes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isnan
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
from momentmix.mixture.profile import NEVER_SEEN
from momentmix.wording import cleared, cut, percent, short_number, whole_percent

_SENTENCES = {
    "passed": "Nothing speaks against {groups}.",
    "useful": "You can use {groups}, as an approximation of the rows.",
    "untested": "Nothing speaks against {groups}, but not everything could be tested.",
    "not passed": "Do not rely on {groups} yet.",
}
_LABELS = {FATAL: ("bad", "Needed"), WARNING: ("warn", "Worth a look")}
_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_LEVELS = 6  # of a column among the groups side by side, those that differ most
_MOST_INTERVALS = 5000  # in the table of all parameters; with more the page would grow too large
_LEAST_SEEN = 0.25  # standard deviations by which missing cells differ, where it is worth a line
_STEPS = (0.25, 0.6, 1.1, 1.8)  # overall standard deviations: the shades of a cell
_LETTERS = 40  # of the name of a column beside the groups
_SHARES = ("weight", "probability", "seen")  # parameters that are written in percent


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    aside: str = ""  # in small print after the text
    kind: str = ""  # CSS class; numbers need none


Rows = list[list[Cell]]


def verdict(certificate: Certificate) -> str:
    """The verdict in a sentence for readers without statistics."""
    groups = "these groups" if certificate.n_components > 1 else "one group for all rows"
    return _SENTENCES[certificate.verdict].format(groups=groups)


class Action(NamedTuple):
    """Something to do, and why, in plain words."""

    text: str
    why: str
    kind: str  # CSS class of the severity
    label: str


def actions(certificate: Certificate, mixture: Mixture) -> list[Action]:
    """What the findings of a certificate advise, the most important first."""
    names: dict[Any, Any] = dict(enumerate(column_names(mixture)))
    findings, todo = [*certificate.findings, *certificate.tests], []
    for found in sorted(findings, key=lambda found: -list(Severity).index(found.severity)):
        columns = tuple(dict.fromkeys(names.get(x, x) for x in found.columns))
        finding, severity = replace(found, columns=columns), found.severity
        if certificate.verdict == "useful" and severity is FATAL:  # nothing has to be done
            severity = WARNING
        kind, label = _LABELS.get(severity, ("plain", "Good to know"))
        todo.append(Action(_of_groups(finding.advice), _of_groups(finding.text), kind, label))
    return todo


def _of_groups(text: str) -> str:
    """A sentence in which components are groups."""
    text = text.replace("components", "groups").replace("component", "group")
    return text[:1].upper() + text[1:]


# -- the groups side by side -------------------------------------------------------------------


def side_by_side(m: Mixture) -> tuple[Rows, int]:
    """Columns × groups in shades, the best separation first, and how many levels are left out."""
    table, rows, n_left_out = ParameterTable(m), list[list[Cell]](), 0
    for j in by_separation(m):
        column, parts = m.columns[j], compared(table, j)
        levels = sorted(
            (k for k, part in enumerate(parts) if part.parameter.name == "probability"),
            key=lambda k: float(np.ptp(np.nan_to_num(parts[k].relative))),
        )
        fewer = levels[: max(0, len(levels) - _MOST_LEVELS)]
        n_left_out += len(fewer)
        if len(levels) == 2:  # the share of one is that of the other
            fewer = [min(levels)]
        for k, (p, _, relative) in enumerate(parts):
            is_alike = np.nanmax(np.abs(relative), initial=0.0) < _LEAST_SEEN
            if k in fewer or (p.name == "seen" and is_alike):
                continue
            if p.name == "mean":
                name, what = p.label.removeprefix(f"{column.transform} "), ""
                values = restored(p.estimate, column.transform)
                finest = None if column.transform else float(np.ptp(p.estimate[~np.isnan(values)]))
                texts = _numbers(values, finest and finest / 10)
                what = "median" if column.transform else ""
            else:
                name, what, texts = p.label, "", [_share(float(x)) for x in p.estimate]
            shades = [sum(abs(x) >= least for least in _STEPS) for x in relative.tolist()]
            signs = ["h" if x > 0 else "l" for x in relative.tolist()]
            kinds = [
                f"{sign}{step}" if step else "" for sign, step in zip(signs, shades, strict=True)
            ]
            cells = [Cell(text, kind=kind) for text, kind in zip(texts, kinds, strict=True)]
            rows.append([Cell(cut(name, _LETTERS), what, "text"), *cells])
    return rows, n_left_out


# -- for experts -------------------------------------------------------------------------------


def parameter_rows(m: Mixture, intervals: Intervals | None) -> tuple[Rows, str]:
    """A row for each parameter, and what to know of them."""
    table, parameters = ParameterTable(m, intervals=intervals), list[tuple[Parameter, str]]()
    parameters.append((table.weights()._replace(label="share of rows"), ""))
    for j, column in enumerate(m.columns):
        if not column.levels:
            parameters += [(table.mean(j), "mean"), (table.deviation(j), "spread")]
        parameters += [(p, "") for p in table.of_column(j) if p.name in _SHARES]
    n_pairs = m.parameters.blocks.n_pairs
    for p, correlations in table.correlations(_MOST_PAIRS):
        unknown = np.full(m.n_components, np.nan)
        parameters.append(
            (p._replace(estimate=correlations, low=unknown, high=unknown), "correlation")
        )
        parameters.append((p, "covariance"))
    rows = [[Cell(p.label, what, "text"), *_cells(p)] for p, what in parameters]
    note = (
        "No intervals are known: they need the record of a fit."
        if intervals is None
        else "Below each number is its 95 % interval: the range in which the true value lies with "
        "a probability of about 95 %."
    )
    if len(rows) * m.n_components > _MOST_INTERVALS:
        rows = [[row[0], *(cell._replace(aside="") for cell in row[1:])] for row in rows]
        note = "The table is large: its intervals are in FitResult.to_frame."
    note += " Spreads are standard deviations; with log they are those of the logarithm, as means."
    if n_pairs:
        note += " Joined columns may be correlated within groups; others are independent."
    if n_pairs > _MOST_PAIRS:
        note += f" Shown are the {_MOST_PAIRS} most correlated of {n_pairs} pairs."
    return rows, note


def _cells(p: Parameter) -> Iterator[Cell]:
    """The numbers of a parameter with their intervals, to digits that tell their ends apart."""
    widths = p.high - p.low
    finest = float(widths[widths > 0].min(initial=inf))  # inf: three digits
    texts = _numbers(p.estimate, finest)
    for text, value, *ends in zip(texts, p.estimate, p.low, p.high, strict=True):
        if p.name in _SHARES:
            text, *ends = (_share(float(x)) for x in (value, *ends))
            yield Cell(text, "" if isnan(p.low[0]) else " … ".join(ends))
        else:
            aside = " … ".join(short_number(float(end), finest) for end in ends)
            yield Cell(text, "" if any(map(isnan, ends)) else aside)


def _numbers(values: Float, finest: float | None) -> list[str]:
    """Numbers of the groups, three digits each, or as many as tell `finest` apart."""
    return [NEVER_SEEN if x != x else short_number(x, finest) for x in cleared(values.tolist())]


def _share(value: float) -> str:
    """A share in percent, to a tenth."""
    if value != value:
        return NEVER_SEEN
    return f"{100 * value:.1f} %" if 1e-3 <= value < 0.9995 else percent(value)


def facts(m: Mixture, result: FitResult | None) -> Iterator[tuple[str, object]]:
    """Facts of the columns and of the fit."""
    for label, names in [] if m.schema is None else m.schema.by_family():
        yield f"Columns: {label}", ", ".join(names)
    for columns in (result and result.joined) or joined_columns(m):
        yield "Joined columns", str(columns)
    if result is None:
        return
    yield "Passes over the rows", result.n_passes
    if result.log_likelihood is not None:
        yield "Log-likelihood per row", f"{result.log_likelihood:.6g}"
    yield from (("Note", note) for note in result.notes)
    if result.command is not None:
        yield "Fitted by", result.command
    yield "Seed", "not recorded" if result.seed is None else result.seed
    yield "Fitted with", ", ".join(f"{x} {number}" for x, number in result.versions.items())


def trial_row(t: Trial) -> list[Cell]:
    """What was found with a number of components."""
    numbers = (
        (t.n_components, "d"), (t.p_value, ".2g"), (t.log_likelihood, ".6g"), (t.bic, ".1f"),
    )  # fmt: skip
    cells = [Cell("" if x != x else f"{x:{digits}}") for x, digits in numbers]
    least = t.least_reproducibility
    again = Cell("" if least != least else whole_percent(least))
    return [*cells, again, Cell("yes" if t.chosen else "no", kind="text")]
