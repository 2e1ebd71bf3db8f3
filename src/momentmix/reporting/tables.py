"""Tables of a report: columns × groups, and folded ones for experts."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.displays.separation import by_separation
from momentmix.displays.style import drawable
from momentmix.families.column import restored
from momentmix.fitting.record import versions
from momentmix.html.markup import (
    Cell,
    Markup,
    chip,
    definition_table,
    escaped,
    folded,
    table,
    text_cell,
)
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    joined_columns,
    overall_spread,
)
from momentmix.mixture.profile import NEVER_SEEN
from momentmix.reporting.contents import Contents
from momentmix.reporting.verdict import statistics_of
from momentmix.wording import cleared, cut, percent, short_number, whole_percent

_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_LEVELS = 6  # of a column among the groups side by side, those that differ most
_MOST_INTERVALS = 5000  # in the table of all parameters; with more the page would grow too large
_LEAST_SEEN = 0.25  # standard deviations by which seen cells differ, where that is worth a line
_STEPS = (0.25, 0.6, 1.1, 1.8)  # overall standard deviations: the shades of a cell
_LETTERS = 28  # of the name of a group above a column
_MOST_LETTERS = 40  # of the name of a column beside the groups


# -- the groups side by side ------------------------------------------------------------------


class Compared(NamedTuple):
    """Means of numbers and probabilities of levels beside those of all rows."""

    parameters: list[Parameter]
    relative: Float  # (r, n): differences, in standard deviations of all rows

    @classmethod
    def of(cls, m: Mixture) -> Compared:
        """Return those that differ, the columns of the best separation first."""
        table, shown, relative = ParameterTable(m), list[Parameter](), list[Float]()
        center, spread = overall_spread(drawable(m))
        for j in by_separation(m):
            rows = table.of_column(j)
            own = [p for p in rows if p.name == "probability"]
            seen = [p for p in rows if p.name == "seen"]
            shares = m.weights * (np.nan_to_num(seen[0].estimate, nan=1.0) if seen else 1.0)
            if not m.columns[j].levels:
                shown.append(table.mean(j))
                relative.append((shown[-1].estimate - center[j]) / spread[j])
            for p, weights in [(p, shares) for p in own] + [(p, m.weights) for p in seen]:
                weights = weights * ~np.isnan(p.estimate)
                mean = float(weights @ np.nan_to_num(p.estimate) / max(weights.sum(), 1e-300))
                difference = (p.estimate - mean) / max(mean * (1 - mean), 1e-12) ** 0.5
                # Cells that are about as often seen in all components need no line.
                if p.name != "seen" or np.nanmax(np.abs(difference), initial=0.0) >= _LEAST_SEEN:
                    shown.append(p)
                    relative.append(difference)
        return cls(shown, np.stack(relative, axis=1))


def side_by_side(c: Contents) -> list[str]:
    """Return columns × groups in colors."""
    if len(c.profile) == 1:
        return []
    text = (
        "Orange: above the mean of all rows; blue: below; the darker, the further, in standard "
        "deviations of all rows. The columns that differ most between the groups come first."
    )
    shown = Compared.of(c.mixture)
    rows, left_out = [], 0
    for j in dict.fromkeys(p.columns[0] for p in shown.parameters):
        places = [k for k, p in enumerate(shown.parameters) if p.columns[0] == j]
        levels = [k for k in places if shown.parameters[k].name == "probability"]
        apart = [float(np.ptp(np.nan_to_num(shown.relative[:, k]))) for k in levels]
        most = set(np.array(levels)[np.argsort(apart)[::-1][:_MOST_LEVELS]]) if levels else set()
        left_out += len(levels) - len(most)
        rows += [_heat_row(c.mixture, shown, k) for k in places if k in most or k not in levels]
    if left_out:
        text += f" {left_out} more levels are in the table of all parameters, below."
    caption = "Means of numbers and counts, shares of rows in each group"
    if any(column.transform for column in c.mixture.columns):
        caption = f"Medians where there is a logarithm. {caption}"
    heat = table("heat", caption, ["Column", *_group_headings(c, is_named=True)], rows)
    return [f'<p class="soft">{text}</p>', heat]


def _heat_row(mixture: Mixture, shown: Compared, k: int) -> list[Cell]:
    p, column = shown.parameters[k], mixture.columns[shown.parameters[k].columns[0]]
    values, transform = p.estimate, column.transform
    label, aside = p.label, column.model.noun if column.model.is_whole else ""
    if p.name in ("probability", "seen"):
        texts = [share_cell(float(x)).text for x in values]
    else:
        label = label.removeprefix(f"{transform} ")
        aside = "median" if transform else aside
        spread = float(np.nanmax(values) - np.nanmin(values)) / 10
        values = restored(values, transform)
        texts = number_texts(values, spread if not transform else None)
    kinds = [_shade(float(x)) for x in shown.relative[:, k]]
    cells = (Cell(text, kind=kind) for text, kind in zip(texts, kinds, strict=True))
    level = f"={p.level_text}" if p.level_text else ""
    name = cut(label.removesuffix(level), _MOST_LETTERS) + cut(level, _MOST_LETTERS)
    return [text_cell(name, aside), *cells]


def _shade(relative: float) -> str:
    """Return the class of a cell: above or below all rows, in four steps."""
    step = sum(abs(relative) >= least for least in _STEPS)
    return f"{'h' if relative > 0 else 'l'}{step}" if step else ""


def _group_headings(c: Contents, is_named: bool = False) -> list[str]:
    names = [f"<small>{escaped(cut(p.name, _LETTERS))}</small>" * is_named for p in c.profile]
    return [Markup(chip(i) + name) for i, name in enumerate(names)]


# -- for experts ------------------------------------------------------------------------------


def expert_section(c: Contents) -> list[str]:
    """Return folded parts."""
    made = definition_table("made-table", "Versions, commands and seed", _makers(c))
    statistics = [] if c.record is None else statistics_of(c.record.certificate)
    note = "The same model, data and date give the same report, byte for byte."
    parts = [
        ("parameters", "All parameters and their intervals", _parameters(c)),
        ("certificate", "The statistics of the certificate", statistics),
        ("glance", "The fit at a glance", _glance(c)),
        ("tried", "Number of components: what was tried", _tried(c)),
        ("made", "How this was made", [made, f'<p class="soft">{note}</p>']),
    ]
    return [folded(title, *inner, name=name) for name, title, inner in parts if inner]


def _glance(c: Contents) -> list[str]:
    m, record, facts = c.mixture, c.record, c.facts
    entries: list[tuple[str, object]] = [
        ("Components", m.n_components),
        ("Features" if m.schema is None else "Columns", m.n_features),
    ]
    families = [] if m.schema is None else m.schema.by_family()
    entries += [(f"Columns: {label}", ", ".join(names)) for label, names in families]
    joined = joined_columns(m) if record is None or not record.joined else record.joined
    entries += [("Joined columns", str(columns)) for columns in joined]
    if record is not None:
        refined = (
            f"EM, {record.n_passes} passes over the rows in all"
            + ("" if record.converged else ", not converged")
            if record.refine == "em"
            else "none: the parameters come from the moments alone"
        )
        entries += [
            ("Rows fitted", f"{record.n_rows:,}"),
            ("Method", f"{record.method}, moments up to order {record.order}"),
            ("Refinement", refined),
            ("Parameters from", record.winner),
        ]
        if record.log_likelihood is not None:
            entries.append(("Log-likelihood per row", f"{record.log_likelihood:.6g}"))
        entries += [("Note", note) for note in record.notes]
    if facts is not None and facts.log_likelihood is not None:
        label = "Log-likelihood per row of the data given here"
        entries.append((label, f"{facts.log_likelihood:.6g}"))
    return [definition_table("summary-table", "The fit at a glance", entries)]


def _tried(c: Contents) -> list[str]:
    if c.record is None or not c.record.tried:
        return []
    text = (
        "The number of components was chosen automatically. A p-value below 0.01 says that a "
        "number does not fit the moments. BIC weighs the likelihood of the rows against the number "
        "of parameters: lower is better. “Found again” is how well other rows give the least "
        "reproducible group again; 75 % is the line."
    )
    headings = ["Components", "p-value", "Log-likelihood per row", "BIC", "Found again", "Chosen"]
    rows = []
    for t in c.record.tried:
        numbers = (
            (t.n_components, "d"),
            (t.p_value, ".2g"),
            (t.log_likelihood, ".6g"),
            (t.bic, ".1f"),
        )
        cells = [Cell("" if x != x else f"{x:{digits}}") for x, digits in numbers]
        least = t.least_reproducibility
        again = Cell("" if least != least else whole_percent(least))
        rows.append([*cells, again, text_cell("yes" if t.chosen else "no")])
    caption = "One row for each number of components that was tried"
    tried = table("tried-table", caption, headings, rows)
    return [f"<p>{text}</p>", tried]


def _makers(c: Contents) -> Iterator[tuple[str, object]]:
    if c.record is not None:
        if c.record.command is not None:
            yield "Fitted by", c.record.command
        yield "Seed", "not recorded" if c.record.seed is None else c.record.seed
        yield "Fitted with", _written(c.record.versions)
    named = {"Model": c.model_name, "Data": c.data_name, "Report by": c.command}
    yield from ((label, name) for label, name in named.items() if name is not None)
    yield "Report with", _written(versions())


def _written(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _parameters(c: Contents) -> list[str]:
    """Return a table of all parameters, a row for each."""
    own = ParameterTable(c.mixture, intervals=c.intervals)
    rows = [[text_cell("Share of rows"), *share_cells(own.weights())]]
    has_logarithm = any(column.transform for column in c.mixture.columns)
    for j, column in enumerate(c.mixture.columns):
        if not column.levels:
            mean, deviation = own.mean(j), own.deviation(j)
            rows.append([text_cell(mean.label, "mean"), *number_cells(mean)])
            rows.append([text_cell(mean.label, "spread"), *number_cells(deviation)])
        shown = [p for p in own.of_column(j) if p.name in ("probability", "seen")]
        rows += [[text_cell(p.label), *share_cells(p)] for p in shown]
    correlations = own.correlations(_MOST_PAIRS)
    for p, values in correlations:
        rows.append([text_cell(p.label, "correlation"), *map(Cell, number_texts(values))])
        rows.append([text_cell(p.label, "covariance"), *number_cells(p)])
    text = (
        "Below each number is its 95 % interval: the range in which the true value lies with a "
        "probability of about 95 %."
        if c.intervals is not None
        else "No intervals are known: they need the record of a fit, and a row for each parameter."
    )
    if len(rows) * len(c.profile) > _MOST_INTERVALS:
        rows = [[row[0], *(cell._replace(aside="") for cell in row[1:])] for row in rows]
        text = "The table is large: its intervals are in FitResult.to_frame."
    text += " Spreads are standard deviations." * any(not x.levels for x in c.mixture.columns)
    text += " Means and spreads with log are those of the logarithm." * has_logarithm
    n_pairs = c.mixture.parameters.blocks.n_pairs
    if n_pairs:
        text += " Joined columns may be correlated within groups; others are independent there."
    if n_pairs > _MOST_PAIRS:
        text += f" Shown are the {_MOST_PAIRS} most correlated of {n_pairs} pairs."
    headings = ["Parameter", *_group_headings(c)]
    caption = "All parameters of every group"
    return [f'<p class="soft">{text}</p>', table("parameter-table", caption, headings, rows)]


# -- cells ------------------------------------------------------------------------------------


def share_cells(p: Parameter) -> list[Cell]:
    """Return shares of the groups in percent, with their intervals."""
    return [share_cell(*map(float, x)) for x in zip(p.estimate, p.low, p.high, strict=True)]


def share_cell(value: float, low: float = nan, high: float = nan) -> Cell:
    """Return a share in percent, to a tenth; words where a component never sees the column."""
    if value != value:
        return Cell(NEVER_SEEN)
    own, *ends = (
        percent(x) if not 1e-3 <= x < 0.9995 else f"{100 * x:.1f} %" for x in (value, low, high)
    )
    return Cell(own, "" if low != low else " … ".join(ends))


def number_texts(values: Float, finest: float | None = None) -> list[str]:
    """Return numbers of the groups, three digits each."""
    return [NEVER_SEEN if x != x else short_number(x, finest) for x in cleared(values.tolist())]


def number_cells(p: Parameter) -> list[Cell]:
    """Return numbers of the groups with their intervals, to digits that tell their ends apart."""
    cells, widths = [], p.high - p.low
    finest = float(widths[widths > 0].min(initial=inf))  # inf: three digits
    for text, *ends in zip(number_texts(p.estimate, finest), p.low, p.high, strict=True):
        known = not any(map(isnan, ends))
        aside = " … ".join(short_number(float(end), finest) for end in ends) if known else ""
        cells.append(Cell(text, aside))
    return cells
