"""Sections of a report on groups of rows (`track`) and on two summaries (`compare`)."""

from __future__ import annotations

from momentmix.displays.monitoring.comparison import ComparisonDisplay
from momentmix.displays.monitoring.shares_over_time import SharesDisplay
from momentmix.findings.finding import sentences
from momentmix.html.markup import Cell, escaped, folded, items, table, text_cell
from momentmix.monitoring.comparison import Comparison, verdict
from momentmix.monitoring.tracking import Tracking
from momentmix.reporting.contents import Contents
from momentmix.reporting.pictures import full_width
from momentmix.reporting.svg import SETTINGS, data_url
from momentmix.wording import percent, short_number

_MOST_CHANGES = 20  # in the table; the largest of them


def tracking_section(c: Contents) -> list[str]:
    """Return the shares in groups of rows: sentences, a picture, a table."""
    if c.tracking is None:
        return []
    said = sentences(c.tracking.findings(), for_report=True)
    keys = ", ".join(c.tracking.key_names)
    parts = [items(said) if said else "<p>No share changes by more than chance.</p>"]
    alt = f"Shares of {c.tracking.n_components} groups by {keys}, with intervals."
    parts.append(_figure("shares", SharesDisplay(c.tracking), alt))
    text = "Bands and bars are intervals. Crosses mark rows that the model does not fit."
    parts.append(f'<p class="soft">{text}</p>')
    return [*parts, folded(f"All shares by {keys}", _shares(c.tracking))]


def _shares(tracking: Tracking) -> str:
    names, rows = [*tracking.key_names, "Rows"], []
    names += [f"{i} {name}" for i, name in enumerate(tracking.names)]
    for g, key in enumerate(tracking.keys):
        cells = ["missing" if value is None else str(value) for value in key]
        row = [*map(text_cell, cells), Cell(f"{tracking.n_rows[g]:,}")]
        for i in range(tracking.n_components):
            ends = tracking.weights, tracking.low, tracking.high
            share, low, high = (float(x[g, i]) for x in ends)
            known = share == share
            aside = f"{percent(low)} … {percent(high)}" if known else ""
            row.append(Cell(percent(share) if known else "–", aside))
        rows.append([*row, text_cell("yes" if tracking.fits[g] else "no")])
    caption = "Shares with intervals, and whether the groups of the model fit the rows"
    return table("shares-table", caption, [*names, "Fits"], rows)


def comparison_section(c: Contents) -> list[str]:
    """Return whether two sets of rows differ, the largest changes, a picture."""
    found = c.comparison
    if found is None:
        return []
    parts = [f"<p>{escaped(verdict(found))}</p>"]
    if found.differs():
        parts += [items(found.first_sentences()), _changes(found)]
        alt = "Changes of means, spreads and correlations, with intervals."
        parts.append(_figure("changes", ComparisonDisplay(found), alt))
    return [*parts, *([items(found.notes)] if found.notes else [])]


def _changes(found: Comparison) -> str:
    rows = []
    for change in found.named()[:_MOST_CHANGES]:
        name = f"{change.column}, {change.other}" if change.other else change.value_name
        written = percent if change.what in ("share", "missing") else short_number
        numbers = [Cell(written(x)) for x in (change.first, change.second)]
        rows.append([text_cell(name), text_cell(change.what), *numbers])
    if not rows:
        return "<p>No single change is sure by itself.</p>"
    headings = ["Column", "What", "Before", "Now"]
    return table("changes-table", "The largest changes beyond chance", headings, rows)


def _figure(name: str, display: SharesDisplay | ComparisonDisplay, alt: str) -> str:
    from matplotlib import pyplot, style

    with style.context(["default", SETTINGS]):
        figure = display.plot().figure_
        pyplot.close(figure)
        return full_width(name, alt, data_url(figure))
