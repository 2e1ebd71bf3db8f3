"""What a report says of tables with families or missing cells: parameters and columns."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from momentmix.displays.columns import numeric_columns
from momentmix.displays.probabilities import (
    Probabilities,
    level_probabilities,
    seen_probabilities,
)
from momentmix.displays.style import value_names_of
from momentmix.fitting.inference.standard_errors import Intervals
from momentmix.html.markup import Cell, sortable_table
from momentmix.mixture.mixture import Mixture
from momentmix.schema.column import BERNOULLI, CATEGORICAL
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary

_NEVER_SEEN = "never seen"


def families_of(mixture: Mixture) -> list[tuple[str, str]]:
    """The columns of each family, and those with missing cells."""
    found = [] if mixture.schema is None else mixture.schema.by_family()
    return [(f"Columns: {label}", ", ".join(names)) for label, names in found]


# -- components -------------------------------------------------------------------------------


def component_headings(mixture: Mixture) -> list[str]:
    """Headings of the columns of a table of components."""
    words = {"categorical": "Most probable", "bernoulli": "Probability of"}
    headings = []
    for column, name in zip(mixture.columns, value_names_of(mixture), strict=True):
        level = f"={column.levels[1]}" if column.family == BERNOULLI else ""
        suffix = "" if column.levels == (0, 1) else level
        headings.append(f"{words.get(column.family, 'Mean of')} {name}{suffix}")
    return headings


def component_cells(mixture: Mixture, component: int) -> list[Cell]:
    """Means of a component; of categories the most probable level."""
    cells = {j: _number(mixture.means[component, j]) for j in range(mixture.n_columns)}
    for j, column in enumerate(mixture.columns):
        if column.family == CATEGORICAL:
            shares = {k: p[component] for k, p in mixture.level_probabilities(j).items()}
            level, share = max(shares.items(), key=lambda pair: pair[1])
            text = f"{level} ({share:.0%})" if share == share else _NEVER_SEEN
            cells[j] = Cell(text, text)
    return [cells[j] for j in range(mixture.n_columns)]


def _number(value: float, low: float | None = None, high: float | None = None) -> Cell:
    """A number with its interval; words where a component never sees the column."""
    if value != value:
        return Cell(_NEVER_SEEN, nan)
    return Cell.number(value, low, high)


# -- parameters -------------------------------------------------------------------------------


def parameter_tables(mixture: Mixture, ends: Intervals | None) -> list[str]:
    """Tables of means and spreads, of levels, and of the probabilities of being seen."""
    parts = []
    if numeric_columns(mixture):
        parts.append(_numbers(mixture, ends))
    groups = level_probabilities(mixture, ends)
    if groups:
        caption = "Probabilities of levels in every component, where the cell is seen"
        headings = ["Component", "Column and level", "Probability"]
        parts.append(sortable_table("level-table", caption, headings, _probability_rows(groups)))
    seen = seen_probabilities(mixture, ends)
    if seen is not None:
        caption = "Probabilities that a cell is seen, not missing"
        headings = ["Component", "Column", "Probability"]
        parts.append(sortable_table("seen-table", caption, headings, _probability_rows([seen])))
    return parts


def _numbers(mixture: Mixture, ends: Intervals | None) -> str:
    headings = ["Component", "Column", "Family", "Mean", "Standard deviation"]
    names, rows = value_names_of(mixture), []
    for i in range(mixture.n_components):
        for j in numeric_columns(mixture):
            mean, deviation = float(mixture.means[i, j]), float(mixture.variances[i, j]) ** 0.5
            family = mixture.columns[j].family
            cells = [_number(mean), _number(deviation)]
            if ends is not None:
                low, high = (float(end[i, j]) for end in ends.means)
                least, most = (float(end[i, j]) ** 0.5 for end in ends.variances)
                cells = [_number(mean, low, high), _number(deviation, least, most)]
            label = Cell(names[j], names[j])
            rows.append([Cell(str(i), float(i)), label, Cell(family, family), *cells])
    caption = "Means and spreads of numbers and counts in every component, where they are seen"
    return sortable_table("parameter-table", caption, headings, rows)


def _probability_rows(groups: Sequence[Probabilities]) -> list[list[Cell]]:
    rows = []
    for i in range(len(groups[0].values)):
        for group in groups:
            labels = group.full_labels if group.title else group.labels
            for k, label in enumerate(labels):
                low, high = (
                    None if end is None else float(end[i, k]) for end in (group.low, group.high)
                )
                number = _number(float(group.values[i, k]), low, high)
                rows.append([Cell(str(i), float(i)), Cell(label, label), number])
    return rows


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
    least, most = Cell.number(low), Cell.number(high)
    center = schema.columns[column].center
    if schema.columns[column].has_missing:
        second = (deviation**2 + mean**2) / share
        mean = mean / share
        deviation = max(second - mean**2, 0.0) ** 0.5
        least = Cell.number(low + center) if low < 0 else Cell("not known", nan)
        most = Cell.number(high + center) if high > 0 else Cell("not known", nan)
    numbers = (Cell.number(mean + center), most, Cell.number(deviation))
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
