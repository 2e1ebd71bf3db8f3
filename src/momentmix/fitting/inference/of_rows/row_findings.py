"""Findings from the rows about a fit: copies, their order, kinds and shapes of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from momentmix.findings.finding import WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.component_findings import at_floor
from momentmix.fitting.inference.of_rows.kind_findings import about_kinds, is_coarse
from momentmix.fitting.inference.of_rows.rows_checked import (
    CheckedRows,
    ColumnFacts,
    ColumnKind,
    joint_of,
    standardized,
)
from momentmix.fitting.inference.of_rows.shape_findings import (
    about_independent,
    about_shapes,
    column_shapes,
)
from momentmix.mixture.parameters import Parameters

_FEWEST_ROWS = 30  # with fewer, nothing can be said about columns
_COPIES_SHARE = 0.01  # of the rows are copies of another one
_FEWEST_COPIES = 3
_FINEST_COLUMN = 50  # different values; rows of coarser columns are equal by chance
_COPIES_AMONG_TIES = 0.5  # of the rows that agree in the finest column agree in all
_SERIAL_CORRELATION = 0.1  # less hardly changes the number of independent rows
_SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns are tested


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
        and abs(deviates) > _SIGNIFICANT_DEVIATES
        and not facts[j].is_sorted
    ]
    if ordered:
        worst = max(ordered, key=lambda j: abs(serial[j][0]))
        columns, name = moments.columns_of(ordered), moments.column_name(worst)
        yield found(WARNING, "ordered-rows", columns, worst=name, correlation=serial[worst][0])
