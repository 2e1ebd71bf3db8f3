"""Findings about columns that are not continuous: row numbers, counts, repeated values, grids."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from momentmix._typing import Float
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.family_findings import DISPERSION_THAT_MATTERS
from momentmix.fitting.inference.of_rows.columns_checked import (
    ColumnFacts,
    ColumnKind,
)
from momentmix.fitting.inference.of_rows.logarithms import log_normal
from momentmix.fitting.inference.of_rows.rows_checked import CheckedRows, joint_of, standardized
from momentmix.mixture.density import posteriors
from momentmix.mixture.parameters import Parameters
from momentmix.tables.column import BERNOULLI, CATEGORICAL, POISSON

_COARSE = 0.5  # grid width in deviations of a component: a variance off by 2 %; coarser is worse
_STEPS = 20  # of EM for the rates of a column that may be counts
_LEAST_RATE = 1e-9  # of counts, for its logarithm
_LIKELY_DEVIATES = 2.0  # an excess of variance that chance explains
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
    counts = [j for j in widths if _are_counts(checked, moments, parameters, j)]
    if counts:
        severity = WARNING if max(widths[j] for j in counts) > _COARSE else NOTE
        columns = moments.columns_of(counts)
        remedy = {"families": dict.fromkeys(columns, POISSON)}
        yield found(severity, "count-column", columns, remedy=remedy)
    for j in sorted(widths.keys() - set(counts)):
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
        return BERNOULLI
    return POISSON if _are_counts(checked, moments, parameters, j) else CATEGORICAL


def _are_whole(values: Float) -> bool:
    return bool((values == np.floor(values)).all())


def _are_counts(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters, j: int
) -> bool:
    """Whether a column holds counts that vary within components as Poisson's law says.

    EM for the rates of the column, given the fitted laws of the others, tells how its variance
    then compares: what `dispersion` would say of a fit with counts.
    """
    different = checked.columns[int(moments.columns[j])].values
    values = checked.values[:, moments.columns[j]]
    noise = float(((values - values.mean()) ** 2).std() / np.sqrt(len(values)))
    least = values.mean() - max(DISPERSION_THAT_MATTERS * values.mean(), _LIKELY_DEVIATES * noise)
    # The variance of a mixture of counts is its mean at least.
    if different[0] < 0 or not _are_whole(different) or values.var() < least:
        return False
    if j not in parameters.blocks.single:
        return False  # joined with others as a number
    z = standardized(checked, moments)
    with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
        joint = joint_of(z, parameters)
        others = joint - log_normal(z[:, j], parameters.means[:, j], parameters.variances[:, j])
        shares = posteriors(joint)
        for _ in range(_STEPS):
            rates = shares @ values / np.maximum(shares.sum(axis=1), 1e-300)
            logs = np.log(np.maximum(rates, _LEAST_RATE))[:, None]
            shares = posteriors(others + logs * values - rates[:, None])
    weights = shares.mean(axis=1)
    within = float(weights @ rates)
    excess = float(values.var() - within - weights @ (rates - within) ** 2)
    return abs(excess) < max(DISPERSION_THAT_MATTERS * within, _LIKELY_DEVIATES * noise)
