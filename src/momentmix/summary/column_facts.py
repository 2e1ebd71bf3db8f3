"""Facts of a summary about each column of its rows, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from momentmix._typing import Float
from momentmix.families.column import Column, Level
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.summary.summary import MomentSummary


@dataclass(frozen=True)
class ColumnFacts:
    """Bounds, mean and deviation of a column, or the shares of its levels, where cells are seen."""

    name: str
    family: str  # the transform where there is one, whose values bounds and means are of
    levels: tuple[Level, ...] = ()
    shares: tuple[float, ...] = ()
    seen: float | None = None  # share of cells; None where the column has no missing ones
    minimum: float | None = None  # for levels, and where nothing is known
    maximum: float | None = None
    mean: float | None = None
    deviation: float | None = None


def schema_of(summary: MomentSummary) -> Schema:
    """Return the schema of a summary, of plain numbers too."""
    return summary._totals().reading.schema


def column_facts(summary: MomentSummary) -> list[ColumnFacts]:
    """Facts of each column."""
    schema, readings = schema_of(summary), None
    if summary.n_rows:  # of all features: each of these takes a pass over them
        readings = summary.mean, summary.deviation, summary.minimum, summary.maximum
    return [_facts(schema, readings, i, column) for i, column in enumerate(schema.columns)]


def _facts(
    schema: Schema, readings: tuple[Float, ...] | None, number: int, column: Column
) -> ColumnFacts:
    name = str(number) if column.name is None else column.name
    facts = ColumnFacts(name, column.family_name, column.levels)
    if readings is None:
        return facts
    means, deviations, minima, maxima = (x[schema.features_of(number)] for x in readings)
    observed = float(means[-1]) if column.has_missing else 1.0
    facts = replace(facts, seen=observed if column.has_missing else None)
    if not observed:
        return facts
    if column.levels:
        others = [float(x) / observed for x in means[: column.n_values]]
        return replace(facts, shares=(max(0.0, 1.0 - sum(others)), *others))
    low: float | None = float(minima[0])
    high: float | None = float(maxima[0])
    center, deviation = float(means[0]) / observed, float(deviations[0])
    if column.has_missing:
        square = (deviation**2 + float(means[0]) ** 2) / observed
        deviation = float(np.sqrt(max(0.0, square - center**2)))
        # A missing cell is 0 among the features, which hides bounds on the other side of it.
        low = low + column.center if low is not None and low < 0 else None
        high = high + column.center if high is not None and high > 0 else None
    return replace(
        facts, minimum=low, maximum=high, mean=center + column.center, deviation=deviation
    )
