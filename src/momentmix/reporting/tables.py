"""Tables of a report: parameters of the groups, correlations, and columns of the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan

from momentmix._typing import Float
from momentmix.families.transforms import restored
from momentmix.html.markup import Cell, escaped, folded, sortable_table
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    numeric_columns,
    value_names,
)
from momentmix.mixture.profile import NEVER_SEEN
from momentmix.reporting.contents import Contents
from momentmix.summary.column_facts import ColumnFacts, column_facts
from momentmix.summary.summary import MomentSummary
from momentmix.wording import percent, short_number

_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_UNFOLDED = 60  # rows of a table that is shown at once


def _parameters(c: Contents) -> ParameterTable:
    return ParameterTable(c.mixture, ends=None if c.intervals is None else c.intervals.ends)


def parameter_tables(c: Contents) -> list[str]:
    """All tables of parameters."""
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
        cells = [
            [Cell(label, label), group_cell(i), cell]
            for label, p in rows
            for i, cell in enumerate(share_cells(p))
        ]
        if cells:
            parts.append(_table(name, caption, [heading, "Group", "Probability"], cells))
    return parts


def _shares(c: Contents, weights: Parameter) -> str:
    counts = None if c.facts is None else c.facts.counts
    headings = ["Group", "Name", "Share"] + (["Rows"] if counts is not None else [])
    rows = []
    for own, share in zip(c.profile, share_cells(weights), strict=True):
        row = [group_cell(own.component), Cell(own.name, own.name), share]
        if counts is not None:
            count = counts[own.component]
            row.append(Cell(f"{count:,}", float(count)))
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
    """A row for each group, with the same label."""
    return [[label, group_cell(i), *cells] for i, cells in enumerate(zip(*columns, strict=True))]


def _table(name: str, caption: str, headings: Sequence[str], rows: list[list[Cell]]) -> str:
    """A table, folded if it is long."""
    table = sortable_table(name, caption, headings, rows)
    return table if len(rows) <= _MOST_UNFOLDED else folded(f"{caption}: {len(rows)} rows", table)


def correlation_table(c: Contents) -> list[str]:
    """A table of the strongest correlations of joined columns, where there are any."""
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


# -- the data ---------------------------------------------------------------------------------


def data_tables(mixture: Mixture, summary: MomentSummary) -> list[str]:
    """Tables of the columns of the data: numbers, and levels."""
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
    """A number with three digits; missing cells can hide the ends of a column."""
    return Cell("not known", nan) if value is None else Cell(short_number(value), float(value))


# -- cells ------------------------------------------------------------------------------------


def group_cell(component: int) -> Cell:
    """The number of a component in its color."""
    return Cell("", float(component), chip=component)


def share_cells(p: Parameter) -> list[Cell]:
    """Shares of the groups in percent, with their intervals."""
    return [share_cell(*map(float, x)) for x in zip(p.estimate, p.low, p.high, strict=True)]


def share_cell(value: float, low: float = nan, high: float = nan) -> Cell:
    """A share in percent with its interval; words where a component never sees the column."""
    if value != value:
        return Cell(NEVER_SEEN, nan)
    return Cell(_share(value), value, "" if low != low else f"{_share(low)} … {_share(high)}")


def _share(value: float) -> str:
    """A share in percent with three digits, or one behind the point."""
    return percent(value) if not 1e-3 <= value < 0.9995 else f"{100 * value:.1f} %"


def number_cells(
    values: Float, low: Float | None = None, high: Float | None = None, finest: float | None = None
) -> list[Cell]:
    """Numbers of the groups with their intervals, three digits each, decimal points aligned."""
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
