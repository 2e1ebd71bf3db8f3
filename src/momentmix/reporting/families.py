"""What a report says of the columns: their families, and what the data hold in them."""

from __future__ import annotations

from math import nan

from momentmix.displays.style import value_names_of
from momentmix.html.markup import Cell, sortable_table
from momentmix.mixture.mixture import Mixture
from momentmix.reporting.tables import number_cell, share_cell
from momentmix.summary.column_facts import ColumnFacts, column_facts
from momentmix.summary.summary import MomentSummary


def families_of(mixture: Mixture) -> list[tuple[str, str]]:
    """The columns of each family, and those with missing cells."""
    found = [] if mixture.schema is None else mixture.schema.by_family()
    return [(f"Columns: {label}", ", ".join(names)) for label, names in found]


def data_tables(mixture: Mixture, summary: MomentSummary) -> list[str]:
    """Tables of the columns of the data: numbers, and levels."""
    found = list(zip(value_names_of(mixture), column_facts(summary), strict=True))
    has_missing = any(facts.seen is not None for _, facts in found)
    seen = ["Seen"] if has_missing else []
    parts = []
    numbers = [
        [Cell(name, name), *_seen(facts, has_missing), *_numbers(facts)]
        for name, facts in found
        if not facts.levels
    ]
    if numbers:
        headings = ["Column", *seen, "Minimum", "Mean", "Maximum", "Standard deviation"]
        caption = "Columns of numbers and counts of the data, where they are seen"
        parts.append(sortable_table("data-table", caption, headings, numbers))
    levels = [
        [Cell(name, name), Cell(str(level), str(level)), *_seen(facts, has_missing), share_cell(x)]
        for name, facts in found
        for level, x in zip(facts.levels, facts.shares, strict=False)
    ]
    if levels:
        headings = ["Column", "Value", *seen, "Share where it is seen"]
        caption = "Categories and answers of the data"
        parts.append(sortable_table("data-level-table", caption, headings, levels))
    return parts


def _seen(facts: ColumnFacts, has_missing: bool) -> list[Cell]:
    return [share_cell(1.0 if facts.seen is None else facts.seen)] if has_missing else []


def _numbers(facts: ColumnFacts) -> list[Cell]:
    """Least, mean, largest and deviation; missing cells can hide the ends."""
    found = (facts.minimum, facts.mean, facts.maximum, facts.deviation)
    return [Cell("not known", nan) if x is None else number_cell(x) for x in found]
