"""Tables of parameters: shares, means and spreads, levels, missing cells, correlations."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

import numpy as np

from momentmix.displays.probabilities import (
    Probabilities,
    level_probabilities,
    seen_probabilities,
)
from momentmix.displays.style import strongest_pairs
from momentmix.families.transforms import restored
from momentmix.html.markup import Cell, escaped, folded, sortable_table
from momentmix.mixture.overall import column_names, numeric_columns
from momentmix.reporting.contents import Contents
from momentmix.wording import percent, short_number

_MOST_PAIRS = 20  # pairs of joined columns in the table, the strongest of them
_MOST_UNFOLDED = 60  # rows of a table that is shown at once
_NEVER_SEEN = "never seen"


def parameter_tables(c: Contents) -> list[str]:
    """All tables of parameters."""
    text = (
        "Below each number is its 95 % interval: the range in which the true value lies with a "
        "probability of about 95 %."
        if c.intervals is not None
        else "No intervals are recorded for this model."
    )
    hint = '<p class="soft hint">Click a heading to sort a table (needs scripts).</p>'
    parts = [f'<p class="soft">{escaped(text)}</p>', hint, _shares(c)]
    if numeric_columns(c.mixture):
        parts.append(_numbers(c))
    groups = level_probabilities(c.mixture, c.intervals)
    if groups:
        caption = "Probabilities of categories and answers, where the cell is seen"
        headings = ["Column and value", "Group", "Probability"]
        parts.append(_table("level-table", caption, headings, _probabilities(groups)))
    seen = seen_probabilities(c.mixture, c.intervals)
    if seen is not None:
        caption = "Probabilities that a cell is seen, not missing"
        headings = ["Column", "Group", "Probability"]
        parts.append(_table("seen-table", caption, headings, _probabilities([seen])))
    return parts


def _shares(c: Contents) -> str:
    ends, counts = c.intervals, None if c.facts is None else c.facts.counts
    headings = ["Group", "Name", "Share"] + (["Rows"] if counts is not None else [])
    rows = []
    for own in c.profile:
        i = own.component
        low, high = (None, None) if ends is None else (ends.weights[0][i], ends.weights[1][i])
        row = [group_cell(i), Cell(own.name, own.name), share_cell(own.share, low, high)]
        if counts is not None:
            row.append(Cell(f"{counts[i]:,}", float(counts[i])))
        rows.append(row)
    return sortable_table("component-table", "Shares of the groups", headings, rows)


def _numbers(c: Contents) -> str:
    m, ends, rows = c.mixture, c.intervals, []
    for j in numeric_columns(m):
        deviations = np.sqrt(m.variances[:, j])
        least = float(np.nanmin(np.where(deviations > 0, deviations, np.inf), initial=np.inf))
        finest = least if isfinite(least) else None
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * m.n_components
        spreads = bounds
        if ends is not None:
            bounds = _pairs(*(end[:, j] for end in ends.means))
            spreads = _pairs(*(np.sqrt(end[:, j]) for end in ends.variances))
        means = number_cells(m.means[:, j], bounds, finest)
        widths = number_cells(deviations, spreads)
        aside = m.columns[j].model.noun if m.columns[j].model.is_whole else ""
        if m.columns[j].transform:
            aside = "mean and spread of the logarithm"
            rows += _medians(c, j, bounds)
        label = Cell(c.names[j], c.names[j], aside)
        rows += [[label, group_cell(i), means[i], widths[i]] for i in range(m.n_components)]
    caption = "Means and spreads (standard deviations) of numbers and counts in every group"
    headings = ["Column", "Group", "Mean", "Spread"]
    if any(column.transform for column in m.columns):
        caption += "; medians of columns with a logarithm, in units of the data"
        headings[2] = "Mean or median"
    return _table("parameter-table", caption, headings, rows)


def _medians(
    c: Contents, j: int, bounds: Sequence[tuple[float | None, float | None]]
) -> list[list[Cell]]:
    """Rows with the medians of a column with a logarithm, in units of the data."""
    transform, name = c.mixture.columns[j].transform, column_names(c.mixture)[j]
    values = restored(c.mixture.means[:, j], transform)
    ends = [
        tuple(None if x is None else float(restored(np.array([x]), transform)[0]) for x in pair)
        for pair in bounds
    ]
    medians = number_cells(values, ends)  # type: ignore[arg-type]
    label = Cell(name, name, "median")
    return [[label, group_cell(i), cell, Cell("", nan)] for i, cell in enumerate(medians)]


def _table(name: str, caption: str, headings: Sequence[str], rows: list[list[Cell]]) -> str:
    """A table, folded if it is long."""
    table = sortable_table(name, caption, headings, rows)
    return table if len(rows) <= _MOST_UNFOLDED else folded(f"{caption}: {len(rows)} rows", table)


def _pairs(low: object, high: object) -> list[tuple[float | None, float | None]]:
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]  # type: ignore[call-overload]


def _probabilities(groups: Sequence[Probabilities]) -> list[list[Cell]]:
    rows = []
    for group in groups:
        labels = group.full_labels if group.title else group.labels
        for k, label in enumerate(labels):
            for i in range(len(group.values)):
                low, high = (
                    None if end is None else float(end[i, k]) for end in (group.low, group.high)
                )
                number = share_cell(float(group.values[i, k]), low, high)
                rows.append([Cell(label, label), group_cell(i), number])
    return rows


def correlation_table(c: Contents) -> list[str]:
    """A table of the strongest correlations of joined columns, where there are any."""
    p, ends = c.mixture.parameters, None if c.intervals is None else c.intervals.covariances
    if not p.blocks.n_pairs:
        return []
    shown = strongest_pairs(c.mixture, _MOST_PAIRS)
    column_of = range(len(c.names)) if c.mixture.schema is None else c.mixture.schema.column_of
    rows = []
    for place in shown:
        j, k = (column_of[feature] for feature in p.blocks.pairs[place])
        names = f"{c.names[j]}, {c.names[k]}"
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * c.mixture.n_components
        if ends is not None:
            bounds = _pairs(*(end[:, j, k] for end in ends))
        covariances = number_cells(p.covariances[:, place], bounds)
        correlations = number_cells(p.correlations[:, place])
        rows += [
            [Cell(names, names), group_cell(i), correlations[i], covariances[i]]
            for i in range(c.mixture.n_components)
        ]
    text = "Joined columns may be correlated within groups; all others are independent there."
    if len(shown) < p.blocks.n_pairs:
        text += f" Shown are the {len(shown)} most correlated of {p.blocks.n_pairs} pairs."
    headings = ["Columns", "Group", "Correlation", "Covariance"]
    caption = "Correlations of joined columns within groups"
    table = sortable_table("correlation-table", caption, headings, rows)
    return [f'<p class="soft">{text}</p>', table]


# -- cells ------------------------------------------------------------------------------------


def group_cell(component: int) -> Cell:
    """The number of a component in its color."""
    return Cell("", float(component), chip=component)


def share_cell(value: float, low: float | None = None, high: float | None = None) -> Cell:
    """A share in percent with its interval; words where a component never sees the column."""
    if value != value:
        return Cell(_NEVER_SEEN, nan)
    has_interval = low is not None and high is not None and low == low and high == high
    aside = f"{_share(low)} … {_share(high)}" if has_interval else ""  # type: ignore[arg-type]
    return Cell(_share(value), value, aside)


def _share(value: float) -> str:
    """A share in percent with three digits, or one behind the point."""
    return percent(value) if not 1e-3 <= value < 0.9995 else f"{100 * value:.1f} %"


def number_cells(
    values: Sequence[float] | np.ndarray,
    ends: Sequence[tuple[float | None, float | None]] | None = None,
    finest: float | None = None,
) -> list[Cell]:
    """Numbers of one kind with their intervals, three digits each, decimal points aligned."""
    floats = [float(value) for value in values]
    texts = [_NEVER_SEEN if x != x else short_number(x, finest) for x in floats]
    pairs = [(None, None)] * len(floats) if ends is None else ends
    asides = []
    for low, high in pairs:
        known = low is not None and high is not None and low == low and high == high
        asides.append(
            f"{short_number(low, finest)} … {short_number(high, finest)}"  # type: ignore[arg-type]
            if known
            else ""
        )
    missing = missing_digits(texts)
    return [
        Cell(text, value, aside, digits_after=n)
        for text, value, aside, n in zip(texts, floats, asides, missing, strict=True)
    ]


def number_cell(value: float) -> Cell:
    """One number with three digits; nothing for NaN."""
    return Cell("" if value != value else short_number(value), float(value))


def missing_digits(texts: Sequence[str]) -> list[int]:
    """How many digits each number has fewer behind the point than that with the most.

    Examples
    --------
    >>> missing_digits(["12", "3.45", "never seen"])
    [2, 0, 0]
    """
    is_plain = [text[-1:].isdigit() and "e" not in text for text in texts]
    after = [len(text.partition(".")[2]) for text in texts]
    most = max((n for n, plain in zip(after, is_plain, strict=True) if plain), default=0)
    return [most - n if plain else 0 for n, plain in zip(after, is_plain, strict=True)]
