"""What a report says of tables with families or missing cells: columns."""

from __future__ import annotations

from math import nan

from momentmix.displays.columns import numeric_columns
from momentmix.displays.style import value_names_of
from momentmix.html.markup import Cell, sortable_table
from momentmix.mixture.mixture import Mixture
from momentmix.reporting.tables import number_cell
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary


def families_of(mixture: Mixture) -> list[tuple[str, str]]:
    """The columns of each family, and those with missing cells."""
    found = [] if mixture.schema is None else mixture.schema.by_family()
    return [(f"Columns: {label}", ", ".join(names)) for label, names in found]


# -- data -------------------------------------------------------------------------------------


def data_tables(mixture: Mixture, schema: Schema, summary: MomentSummary) -> list[str]:
    """Tables of the columns of the data: numbers, and levels beside the model."""
    parts, names = [], value_names_of(mixture)
    numbers = [
        [Cell(names[j], names[j]), *_column_numbers(schema, summary, j)]
        for j in numeric_columns(mixture)
    ]
    if numbers:
        headings = ["Column", "Seen", "Minimum", "Mean", "Maximum", "Standard deviation"]
        caption = "Columns of numbers and counts of the data, where they are seen"
        parts.append(sortable_table("data-table", caption, headings, numbers))
    levels = [
        row for j in range(schema.n_columns) for row in _level_rows(schema, summary, names, j)
    ]
    if levels:
        headings = ["Column", "Level", "Seen", "Share of the rows where it is seen"]
        caption = "Levels of the data"
        parts.append(sortable_table("data-level-table", caption, headings, levels))
    return parts


def _seen_share(schema: Schema, summary: MomentSummary, column: int) -> float:
    seen = schema.seen_of(column)
    return 1.0 if seen is None else float(summary.mean[seen])


def _column_numbers(schema: Schema, summary: MomentSummary, column: int) -> list[Cell]:
    """Share of cells seen, least, mean, largest and deviation of the numbers that are seen.

    A summary holds the ends of (value − center)·seen, which may be those of missing cells.
    """
    feature, share = schema.features_of(column)[0], _seen_share(schema, summary, column)
    mean, deviation = float(summary.mean[feature]), float(summary.deviation[feature])
    low, high = float(summary.minimum[feature]), float(summary.maximum[feature])
    least, most = number_cell(low), number_cell(high)
    center = schema.columns[column].center
    if schema.columns[column].has_missing:
        second = (deviation**2 + mean**2) / share
        mean = mean / share
        deviation = max(second - mean**2, 0.0) ** 0.5
        least = number_cell(low + center) if low < 0 else Cell("not known", nan)
        most = number_cell(high + center) if high > 0 else Cell("not known", nan)
    numbers = (number_cell(mean + center), most, number_cell(deviation))
    return [Cell(f"{share:.1%}", share), least, *numbers]


def _level_rows(
    schema: Schema, summary: MomentSummary, names: list[str], column: int
) -> list[list[Cell]]:
    levels = schema.columns[column].levels
    if not levels:
        return []
    seen = _seen_share(schema, summary, column)
    shares = [float(summary.mean[j]) / seen for j in schema.values_of(column)]
    shares = [1.0 - sum(shares), *shares]
    label = Cell(names[column], names[column])
    return [
        [label, Cell(str(level), str(level)), Cell(f"{seen:.1%}", seen), Cell(f"{x:.1%}", x)]
        for level, x in zip(levels, shares, strict=True)
    ]
