"""Findings from the rows about a fit: copies, their order, columns that are not continuous."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.families.family import FAMILIES
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.checked_rows import (
    CheckedRows,
    ColumnFacts,
    ColumnKind,
    joint_of,
    standardized,
)
from momentmix.fitting.inference.column_shapes import about_independent, about_shapes, column_shapes
from momentmix.fitting.inference.logarithms import log_normal
from momentmix.fitting.inference.pair_findings import SIGNIFICANT_DEVIATES
from momentmix.mixture.density import posteriors
from momentmix.mixture.parameters import Parameters

_FEWEST_ROWS = 30  # with fewer, nothing can be said about columns
_COPIES_SHARE = 0.01  # of the rows are copies of another one
_FEWEST_COPIES = 3
_FINEST_COLUMN = 50  # different values; rows of coarser columns are equal by chance
_COPIES_AMONG_TIES = 0.5  # of the rows that agree in the finest column agree in all
_SERIAL_CORRELATION = 0.1  # less hardly changes the number of independent rows
_COARSE = 0.5  # grid width in deviations of a component: a variance off by 2 %; coarser is worse
_FINE = 0.25  # of finer grids variances are off by less than 0.6 %


@dataclass(frozen=True)
class RowFindings:
    """Findings from rows."""

    findings: list[Finding]
    explained: set[int]  # features whose joint moments they explain: heavy tails, and `coarse`
    coarse: set[int]  # features with values that repeat


def row_findings(
    checked: CheckedRows,
    moments: StandardMoments,
    parameters: Parameters,
    from_rows: bool,
    variance_floor: float = 0.0,
) -> RowFindings:
    """Findings from the rows about a fit of the features of `moments`; `from_rows` after EM."""
    if len(checked.values) < _FEWEST_ROWS:
        return RowFindings([], set(), set())
    facts = [checked.columns[c] for c in moments.columns.tolist()]
    has_law = set(parameters.blocks.with_law.tolist())
    serial = _serial_correlations(checked, moments, parameters)
    # Answers from moments alone are less precise than the rows: these would find them wrong.
    shapes = column_shapes(checked, moments, parameters, facts, serial) if from_rows else {}
    # A component at the floor is wider than its rows, as the user asked: no matter of shape.
    floored = np.any(at_floor(parameters, variance_floor), axis=0)
    shapes = {j: shape for j, shape in shapes.items() if not floored[j]}
    findings = [
        *_about_copies(checked),
        *_about_order(moments, facts, serial),
        *about_kinds(moments, parameters, checked, has_law),
        *about_shapes(moments, parameters, shapes, checked),
    ]
    if any(shape.is_other for shape in shapes.values()):
        findings += about_independent(moments, checked, shapes)
    coarse = {j for j, f in enumerate(facts) if is_coarse(f, moments, parameters, j)} - has_law
    heavy = {j for j, shape in shapes.items() if shape.is_heavy}
    return RowFindings(findings, coarse | heavy, coarse)


def at_floor(parameters: Parameters, floor: float) -> NDArray[np.bool_]:
    """Which variances are at the floor, of shape (r, d); those of Gaussian features."""
    floored = parameters.variances <= 1.01 * floor
    floored[:, parameters.blocks.with_law] = False
    return np.asarray(floored)


def _about_copies(checked: CheckedRows) -> Iterator[Finding]:
    n, place = len(checked.values), int(np.argmax([f.n_values for f in checked.columns]))
    finest = checked.columns[place]
    varying = sum(f.n_values > 1 for f in checked.columns)
    copies, tied = int(checked.is_copy.sum()), n - finest.n_values
    if finest.kind is ColumnKind.REPEATED_VALUE:
        # Rows that share it, as where the cell is missing, are equal by chance in the others.
        is_common = checked.values[:, place] == finest.top_value
        copies -= int((checked.is_copy & is_common).sum())
        tied -= max(0, int(is_common.sum()) - 1)
    if (
        varying > 1  # of one column alone, equal rows are rounded values
        and finest.n_values >= _FINEST_COLUMN
        and copies >= max(_FEWEST_COPIES, _COPIES_SHARE * n)
        and copies >= _COPIES_AMONG_TIES * tied
    ):
        n_all = checked.n_rows
        yield found(WARNING, "duplicate-rows", copies=copies, compared=n, n_rows=n_all)


def _serial_correlations(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters
) -> list[tuple[float, float]]:
    """For each feature the correlation of neighboring rows within components, and its deviates.

    Residuals from the most probable component: rows that are sorted by component are no matter.
    Deviates are those of the sum of products by their own squares: two neighbors that share a level
    of five rows make a correlation of 0.2, and are one product.
    """
    z = standardized(checked, moments)
    labels = joint_of(z, parameters).argmax(axis=0)
    neighbors = np.diff(checked.places) == 1
    neighbors &= ~checked.is_copy[1:] & ~checked.is_copy[:-1]
    if neighbors.sum() < _FEWEST_ROWS:
        return [(0.0, 0.0)] * z.shape[1]
    serial, deviations = [], np.sqrt(parameters.variances)
    for column, means, units in zip(z.T, parameters.means.T, deviations.T, strict=True):
        # A few far rows say nothing about the order.
        residuals = np.clip((column - means[labels]) / units[labels], -3.0, 3.0)
        first, second = residuals[:-1][neighbors], residuals[1:][neighbors]
        first, second = first - first.mean(), second - second.mean()
        products = first * second
        length, noise = np.linalg.norm(first) * np.linalg.norm(second), np.linalg.norm(products)
        along = products.sum()
        serial.append((float(along / max(length, 1e-300)), float(along / max(noise, 1e-300))))
    return serial


def _about_order(
    moments: StandardMoments,
    facts: list[ColumnFacts],
    serial: list[tuple[float, float]],
) -> Iterator[Finding]:
    ordered = [
        j
        for j, (value, deviates) in enumerate(serial)
        if abs(value) > _SERIAL_CORRELATION
        and abs(deviates) > SIGNIFICANT_DEVIATES
        and not facts[j].is_sorted
    ]
    if ordered:
        worst = max(ordered, key=lambda j: abs(serial[j][0]))
        columns, name = moments.columns_of(ordered), moments.column_name(worst)
        yield found(WARNING, "ordered-rows", columns, worst=name, correlation=serial[worst][0])


def is_coarse(facts: ColumnFacts, moments: StandardMoments, parameters: Parameters, j: int) -> bool:
    """Whether values of a feature repeat so much that a variance is off by 2 % or more."""
    if facts.kind is ColumnKind.ROUNDED:
        return grid_in_deviations(facts, moments, parameters, j) > _COARSE
    return facts.kind is not ColumnKind.CONTINUOUS


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
    values = checked.values[:, moments.columns[j]]

    def components() -> tuple[Float, Float]:
        z = standardized(checked, moments)
        joint = joint_of(z, parameters)
        own = log_normal(z[:, j], parameters.means[:, j], parameters.variances[:, j])
        return joint - own, posteriors(joint)

    counts = (family for family in FAMILIES.values() if family.is_whole)
    with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
        return next((f.name for f in counts if f.suits(values, components)), None)
