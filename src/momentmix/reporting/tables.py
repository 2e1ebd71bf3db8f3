"""Tables of a report: parameters of the groups, and folded ones for experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, nan

from momentmix._typing import Float
from momentmix.families.column import restored
from momentmix.fitting.record import versions
from momentmix.html.markup import Cell, definition_table, escaped, folded, sortable_table
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    joined_columns,
    numeric_columns,
    value_names,
)
from momentmix.mixture.profile import NEVER_SEEN
from momentmix.reporting.contents import Contents
from momentmix.summary.column_facts import ColumnFacts, column_facts
from momentmix.summary.summary import MomentSummary
from momentmix.wording import percent, short_number, whole_percent

_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_UNFOLDED = 60  # rows of a table that is shown at once


def _parameters(c: Contents) -> ParameterTable:
    return ParameterTable(c.mixture, intervals=c.intervals)


def parameter_tables(c: Contents) -> list[str]:
    """Return all tables of parameters."""
    text = (
        "Below each number is its 95 % interval: the range in which the true value lies with a "
        "probability of about 95 %."
        if c.intervals is not None
        else "No intervals are recorded for this model."
    )
    hint = '<p class="soft hint">Click a heading to sort a table (needs scripts).</p>'
    table = _parameters(c)
    parts = [f'<p class="soft">{escaped(text)}</p>', hint, _shares(c, table.weights())]
    if numeric_columns(c.mixture):
        parts.append(_numbers(table))
    shown = table.probabilities()
    levels = [(p.label, p) for p in shown if p.name == "probability"]
    seen = [(table.names[p.columns[0]], p) for p in shown if p.name == "seen"]
    where = "Probabilities of categories and answers, where the cell is seen"
    for name, caption, heading, rows in (
        ("level-table", where, "Column and value", levels),
        ("seen-table", "Probabilities that a cell is seen, not missing", "Column", seen),
    ):
        cells = [row for label, p in rows for row in _by_group(Cell(label, label), share_cells(p))]
        if cells:
            parts.append(_table(name, caption, [heading, "Group", "Probability"], cells))
    return parts


def _shares(c: Contents, weights: Parameter) -> str:
    counts = None if c.facts is None else c.facts.counts
    is_known = any(own.found_again for own in c.profile)
    headings = ["Group", "Name", "Share"] + ["Rows"] * (counts is not None)
    headings += ["Found again in other rows"] * is_known
    rows = []
    for own, share in zip(c.profile, share_cells(weights), strict=True):
        row = [group_cell(own.component), Cell(own.name, own.name), share]
        if counts is not None:
            count = counts[own.component]
            row.append(Cell(f"{count:,}", float(count)))
        again = own.reproducibility
        row += [Cell(whole_percent(again) if own.found_again else "unknown", again)] * is_known
        rows.append(row)
    return sortable_table("component-table", "Shares of the groups", headings, rows)


def _numbers(table: ParameterTable) -> str:
    rows, columns = [], table.mixture.columns
    for j in numeric_columns(table.mixture):
        mean, deviation, transform = table.mean(j), table.deviation(j), columns[j].transform
        positive = deviation.estimate[deviation.estimate > 0]
        finest = float(positive.min()) if len(positive) else None
        empty = [Cell("", nan)] * len(mean.estimate)
        aside = columns[j].model.noun if columns[j].model.is_whole else ""
        if transform:
            aside = "mean and spread of the logarithm"
            ends = [restored(x, transform) for x in (mean.estimate, mean.low, mean.high)]
            medians = number_cells(ends[0], ends[1], ends[2])
            rows += _by_group(Cell(table.names[j], table.names[j], "median"), medians, empty)
        label = Cell(mean.label, mean.label, aside)
        means = number_cells(mean.estimate, mean.low, mean.high, finest)
        spreads = number_cells(deviation.estimate, deviation.low, deviation.high)
        rows += _by_group(label, means, spreads)
    caption = "Means and spreads (standard deviations) of numbers and counts in every group"
    headings = ["Column", "Group", "Mean", "Spread"]
    if any(column.transform for column in columns):
        caption += "; medians of columns with a logarithm, in units of the data"
        headings[2] = "Mean or median"
    return _table("parameter-table", caption, headings, rows)


def _by_group(label: Cell, *columns: list[Cell]) -> list[list[Cell]]:
    """Return a row for each group, with the same label."""
    return [[label, group_cell(i), *cells] for i, cells in enumerate(zip(*columns, strict=True))]


def _table(name: str, caption: str, headings: Sequence[str], rows: list[list[Cell]]) -> str:
    """Return a table, folded if it is long."""
    table = sortable_table(name, caption, headings, rows)
    return table if len(rows) <= _MOST_UNFOLDED else folded(f"{caption}: {len(rows)} rows", table)


# -- for experts ------------------------------------------------------------------------------


def expert_section(c: Contents) -> list[str]:
    """Return folded parts."""
    made = definition_table("made-table", "Versions, commands and seed", _makers(c))
    note = "The same model, data and date give the same report, byte for byte."
    parts = [
        ("glance", "The fit at a glance", _glance(c)),
        ("residuals", "Residuals of the moments", list(filter(None, [c.pictures.residuals]))),
        ("correlations", "Correlations within groups", _correlation_table(c)),
        ("tried", "Number of components: what was tried", _tried(c)),
        ("data", "Quality of the data", _data(c)),
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
        numbers = (t.n_components, 20), (t.p_value, 2), (t.log_likelihood, 6), (t.bic, 9)
        cells = [Cell("" if x != x else f"{x:.{n}g}", float(x)) for x, n in numbers]
        least, chosen = t.least_reproducibility, "yes" if t.chosen else "no"
        again = Cell("" if least != least else whole_percent(least), least)
        rows.append([*cells, again, Cell(chosen, chosen)])
    caption = "One row for each number of components that was tried"
    table = sortable_table("tried-table", caption, headings, rows)
    return [f"<p>{text}</p>", table, c.pictures.tried]


def _data(c: Contents) -> list[str]:
    if c.facts is None:
        return ["<p>No data were given to this report (--data).</p>"]
    s = c.facts.summary
    text = (
        f"{s.n_rows:,} rows were checked for constant columns, copies of columns, values far from "
        "the mean, and rows that are improbable under the model."
    )
    if not c.facts.findings(c.names):
        text += " Nothing unusual was found."
    return [f'<p class="soft">{text}</p>', *_data_tables(c.mixture, s)]


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


def _correlation_table(c: Contents) -> list[str]:
    """Return a table of the strongest correlations of joined columns, where there are any."""
    n_pairs, rows = c.mixture.parameters.blocks.n_pairs, []
    if not n_pairs:
        return []
    for p, correlations in _parameters(c).correlations(_MOST_PAIRS):
        covariances = number_cells(p.estimate, p.low, p.high)
        rows += _by_group(Cell(p.label, p.label), number_cells(correlations), covariances)
    text = "Joined columns may be correlated within groups; all others are independent there."
    if n_pairs > _MOST_PAIRS:
        text += f" Shown are the {_MOST_PAIRS} most correlated of {n_pairs} pairs."
    headings = ["Columns", "Group", "Correlation", "Covariance"]
    caption = "Correlations of joined columns within groups"
    table = sortable_table("correlation-table", caption, headings, rows)
    return [f'<p class="soft">{text}</p>', table]


def _data_tables(mixture: Mixture, summary: MomentSummary) -> list[str]:
    """Return tables of the columns of the data: numbers, and levels."""
    found = list(zip(value_names(mixture), column_facts(summary), strict=True))
    seen = ["Seen"] if any(facts.seen is not None for _, facts in found) else []
    parts = []

    def start(name: str, facts: ColumnFacts, *texts: str) -> list[Cell]:
        cells = [Cell(text, text) for text in (name, *texts)]
        return cells + [share_cell(1.0 if facts.seen is None else facts.seen)] * len(seen)

    numbers = [
        [*start(name, facts), *map(_number, (facts.minimum, facts.mean, facts.maximum)),
         _number(facts.deviation)]
        for name, facts in found
        if not facts.levels
    ]  # fmt: skip
    if numbers:
        headings = ["Column", *seen, "Minimum", "Mean", "Maximum", "Standard deviation"]
        caption = "Columns of numbers and counts of the data, where they are seen"
        parts.append(sortable_table("data-table", caption, headings, numbers))
    levels = [
        [*start(name, facts, str(level)), share_cell(x)]
        for name, facts in found
        for level, x in zip(facts.levels, facts.shares, strict=False)
    ]
    if levels:
        headings = ["Column", "Value", *seen, "Share where it is seen"]
        caption = "Categories and answers of the data"
        parts.append(sortable_table("data-level-table", caption, headings, levels))
    return parts


def _number(value: float | None) -> Cell:
    """Return a number with three digits; missing cells can hide the ends of a column."""
    return Cell("not known", nan) if value is None else Cell(short_number(value), float(value))


# -- cells ------------------------------------------------------------------------------------


def group_cell(component: int) -> Cell:
    """Return the number of a component in its color."""
    return Cell("", float(component), chip=component)


def share_cells(p: Parameter) -> list[Cell]:
    """Return shares of the groups in percent, with their intervals."""
    return [share_cell(*map(float, x)) for x in zip(p.estimate, p.low, p.high, strict=True)]


def share_cell(value: float, low: float = nan, high: float = nan) -> Cell:
    """Return a share in percent, to a tenth; words where a component never sees the column."""
    if value != value:
        return Cell(NEVER_SEEN, nan)
    own, *ends = (
        percent(x) if not 1e-3 <= x < 0.9995 else f"{100 * x:.1f} %" for x in (value, low, high)
    )
    return Cell(own, value, "" if low != low else " … ".join(ends))


def number_cells(
    values: Float, low: Float | None = None, high: Float | None = None, finest: float | None = None
) -> list[Cell]:
    """Return numbers of the groups with intervals, three digits each, decimal points aligned."""
    texts = [NEVER_SEEN if x != x else short_number(float(x), finest) for x in values]
    is_plain = [text[-1:].isdigit() and "e" not in text for text in texts]
    after = [len(text.partition(".")[2]) for text in texts]
    most = max((n for n, plain in zip(after, is_plain, strict=True) if plain), default=0)
    cells = []
    for i, text in enumerate(texts):
        ends = [float(end[i]) for end in (low, high) if end is not None]
        known = bool(ends) and not any(map(isnan, ends))
        aside = " … ".join(short_number(end, finest) for end in ends) if known else ""
        digits_after = most - after[i] if is_plain[i] else 0
        cells.append(Cell(text, float(values[i]), aside, digits_after=digits_after))
    return cells
