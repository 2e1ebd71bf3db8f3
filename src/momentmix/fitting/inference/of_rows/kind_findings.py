"""Findings about columns that are not continuous: row numbers, counts, repeated values, grids."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from momentmix._typing import Float
from momentmix.families.family import all_families
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.of_rows.logarithms import log_normal
from momentmix.fitting.inference.of_rows.rows_checked import (
    CheckedRows,
    ColumnFacts,
    ColumnKind,
    joint_of,
    standardized,
)
from momentmix.mixture.density import posteriors
from momentmix.mixture.parameters import Parameters

_COARSE = 0.5  # grid width in deviations of a component: a variance off by 2 %; coarser is worse
_FINE = 0.25  # of finer grids variances are off by less than 0.6 %


def is_coarse(facts: ColumnFacts, moments: StandardMoments, parameters: Parameters, j: int) -> bool:
    """Whether values of a feature repeat so much that a variance is off by 2 % or more."""
    if facts.kind is ColumnKind.ROUNDED:
        return grid_in_deviations(facts, moments, parameters, j) > _COARSE
    return not facts.is_continuous


def grid_in_deviations(
    facts: ColumnFacts, moments: StandardMoments, parameters: Parameters, j: int
) -> float:
    """Width of the grid in standard deviations of the narrowest component."""
    least = float(np.sqrt(parameters.variances[:, j].min()))
    return facts.grid / float(moments.scale[j]) / least


def about_kinds(
    moments: StandardMoments,
    parameters: Parameters,
    checked: CheckedRows,
    has_law: Collection[int] = (),
) -> Iterator[Finding]:
    """Columns that are not continuous, but for features whose laws say so."""
    facts = [checked.columns[c] for c in moments.columns.tolist()]

    def of(kind: ColumnKind) -> list[int]:
        return [j for j, f in enumerate(facts) if f.kind is kind and j not in has_law]

    numbers = of(ColumnKind.ROW_NUMBER)
    if numbers:
        yield found(FATAL, "row-number", moments.columns_of(numbers))
    for j in of(ColumnKind.FEW_VALUES):
        columns, family = moments.columns_of([j]), _family(checked, moments, parameters, j)
        remedy = {} if family is None else {"families": {columns[0]: family}}
        size = {"n_values": facts[j].n_values, "grid": facts[j].grid}
        yield found(WARNING, "discrete-column", columns, remedy=remedy, **size)
    for j in of(ColumnKind.REPEATED_VALUE):
        value = {"value": facts[j].top_value, "share": facts[j].top_share}
        yield found(WARNING, "repeated-value", moments.columns_of([j]), **value)
    yield from _about_grids(moments, parameters, checked, facts, of(ColumnKind.ROUNDED))


def _about_grids(
    moments: StandardMoments,
    parameters: Parameters,
    checked: CheckedRows,
    facts: list[ColumnFacts],
    rounded: list[int],
) -> Iterator[Finding]:
    """Rounded columns whose grid is wide beside a component; whole numbers may be counts."""
    widths = {j: grid_in_deviations(facts[j], moments, parameters, j) for j in rounded}
    widths = {j: width for j, width in widths.items() if width > _FINE}
    known = {j: _family_of_counts(checked, moments, parameters, j) for j in widths}
    counts = {moments.part(j).column: family for j, family in known.items() if family}
    if counts:
        is_coarse_one = any(widths[j] > _COARSE for j in widths if known[j])
        severity = WARNING if is_coarse_one else NOTE
        yield found(severity, "count-column", list(counts), remedy={"families": counts})
    for j in sorted(j for j in widths if known[j] is None):
        yield found(
            WARNING if widths[j] > _COARSE else NOTE,
            "rounded-column",
            moments.columns_of([j]),
            grid=facts[j].grid,
            width=widths[j],
            is_whole=_are_whole(facts[j].values) and bool(facts[j].values[0] >= 0),
        )


def _family(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters, j: int
) -> str | None:
    """The family that a column of few values can be taken as; None where its numbers fit none."""
    values = checked.columns[int(moments.columns[j])].values
    if not _are_whole(values):
        return None
    if values.tolist() == [0, 1]:
        return "bernoulli"
    return _family_of_counts(checked, moments, parameters, j) or "categorical"


def _are_whole(values: Float) -> bool:
    return bool((values == np.floor(values)).all())


def _family_of_counts(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters, j: int
) -> str | None:
    """The family of counts that describes a column of whole numbers; None if there is none."""
    different = checked.columns[int(moments.columns[j])].values
    if different[0] < 0 or not _are_whole(different) or j not in parameters.blocks.single:
        return None  # or joined with others as a number
    values, z = checked.values[:, moments.columns[j]], standardized(checked, moments)
    with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
        joint = joint_of(z, parameters)
        others = joint - log_normal(z[:, j], parameters.means[:, j], parameters.variances[:, j])
        shares = posteriors(joint)
        counts = (family for family in all_families() if family.is_whole)
        return next((f.name for f in counts if f.suits(values, others, shares)), None)
