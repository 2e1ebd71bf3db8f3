"""Findings about columns that are not continuous: row numbers, counts, repeated values, grids."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from momentmix._typing import Float
from momentmix.families.family import all_families
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.finding import (
    Finding,
    column_names,
    fatal,
    feature_families,
    note,
    warning,
)
from momentmix.fitting.inference.of_rows.columns_checked import (
    ColumnFacts,
    ColumnKind,
)
from momentmix.fitting.inference.of_rows.logarithms import log_normal
from momentmix.fitting.inference.of_rows.rows_checked import CheckedRows, joint_of, standardized
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
        yield fatal(
            "row-number",
            f"{column_names(moments, numbers)}: values grow evenly from row to row, as row "
            "numbers and time stamps do. They are no measurement; leave them out.",
        )
    for j in of(ColumnKind.FEW_VALUES):
        n = facts[j].n_values
        count = "two" if n == 2 else f"only {n}"
        on_grid = f", multiples of {facts[j].grid:.6g}" if facts[j].grid > 0 and n > 2 else ""
        family, cure = _family(checked, moments, parameters, j), "Leave it out"
        if family is not None:
            cure = f"Name its family, {feature_families(moments, {j: family})}, or leave it out"
        yield warning(
            "discrete-column",
            f"column {moments.column_name(j)} has {count} different values{on_grid}: a count, "
            "a code or a coarse grade is not Gaussian within components, and a component can "
            f"shrink to one value. {cure}.",
        )
    for j in of(ColumnKind.REPEATED_VALUE):
        f = facts[j]
        yield warning(
            "repeated-value",
            f"column {moments.column_name(j)} is {f.top_value:.6g} in {f.top_share:.0%} of the "
            "rows and varies in the others: a component can shrink to that value. If it stands "
            "for a missing value, drop such rows; else fit the other rows apart.",
        )
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
    found = {j: _family_of_counts(checked, moments, parameters, j) for j in widths}
    counts = {j: family for j, family in found.items() if family is not None}
    if counts:
        how = warning if max(widths[j] for j in counts) > _COARSE else note
        names, many = column_names(moments, counts), len(counts) > 1
        yield how(
            "count-column",
            f"{names} {'hold' if many else 'holds'} whole numbers from 0 on and "
            f"{'are' if many else 'is'} taken as measurements. If they count something, take "
            f"them as counts: {feature_families(moments, counts)}.",
        )
    for j in sorted(widths.keys() - counts.keys()):
        how = warning if widths[j] > _COARSE else note
        cure = "Use unrounded values, or add uniform noise of that width."
        if _are_whole(facts[j].values) and facts[j].values[0] >= 0:
            cure = (
                "If it counts something, cut it into levels; else add uniform noise of that width."
            )
        yield how(
            "rounded-column",
            f"column {moments.column_name(j)} is rounded to multiples of {facts[j].grid:.6g}, "
            f"which is {widths[j]:.2g} deviations of the narrowest component: variances are "
            f"too large by a twelfth of its square. {cure}",
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
