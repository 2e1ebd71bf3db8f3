"""Findings from the rows about a fit: copies, their order, columns that are not continuous."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.findings.finding import FATAL, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.checked_rows import CheckedRows, ColumnKind, joint_of, standardized
from momentmix.fitting.inference.column_shapes import (
    about_independent,
    about_shapes,
    column_shapes,
)
from momentmix.fitting.inference.whitening import SIGNIFICANT_DEVIATES
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VARIANCE_FLOOR

_FEWEST_ROWS = 30  # with fewer, nothing can be said about columns
_SERIAL_CORRELATION = 0.1  # less hardly changes the number of independent rows
_VARIES = 1e-6  # deviations; less is rounding
_COARSE = 0.5  # grid width in deviations of a component: a variance off by 2 %; coarser is worse


@dataclass(frozen=True)
class RowFindings:
    """Findings from rows."""

    findings: list[Finding]
    explained: set[int]  # features whose joint moments they explain: heavy tails, and `coarse`
    coarse: set[int]  # features with values that repeat
    of_everywhere: bool  # whether the excerpt reaches from the first row to the last


def row_findings(
    checked: CheckedRows,
    moments: StandardMoments,
    parameters: Parameters,
    from_rows: bool,
) -> RowFindings:
    """Findings from the rows about a fit of the features of `moments`; `from_rows` after EM."""
    if len(checked.values) < _FEWEST_ROWS:
        return RowFindings([], set(), set(), checked.is_everywhere)
    serial = _serial_correlations(checked, moments, parameters)
    # Answers from moments alone are less precise than the rows: these would find them wrong.
    shapes = column_shapes(checked, moments, parameters, serial) if from_rows else {}
    # A component at the floor is wider than its rows: no matter of shape.
    floored = np.any(at_floor(parameters), axis=0)
    shapes = {j: shape for j, shape in shapes.items() if not floored[j]}
    widths = _grids_in_deviations(checked, moments, parameters)
    coarse = {j for j, width in widths.items() if width > _COARSE}
    findings = [
        *_about_copies(checked),
        *_about_order(checked, moments, serial),
        *_about_kinds(checked, moments, widths),
        *about_shapes(moments, parameters, shapes, checked),
    ]
    if any(shape.is_other for shape in shapes.values()):
        findings += about_independent(moments, checked, shapes)
    heavy = {j for j, shape in shapes.items() if shape.is_heavy}
    return RowFindings(findings, coarse | heavy, coarse, checked.is_everywhere)


def at_floor(parameters: Parameters) -> NDArray[np.bool_]:
    """Return which variances of Gaussian features are at the floor, of shape (r, d)."""
    floored = parameters.variances <= 1.01 * VARIANCE_FLOOR
    floored[:, parameters.blocks.with_law] = False
    return np.asarray(floored)


def _about_copies(checked: CheckedRows) -> Iterator[Finding]:
    if copies := checked.n_duplicates:
        compared, n_rows = len(checked.values), checked.n_rows
        yield found(WARNING, "duplicate-rows", copies=copies, compared=compared, n_rows=n_rows)


def _serial_correlations(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters
) -> list[tuple[float, float]]:
    """Return the correlation of neighboring rows within components, and deviates, by feature."""
    z = standardized(checked, moments)
    labels = joint_of(z, parameters).argmax(axis=0)
    neighbors = np.diff(checked.places) == 1
    neighbors &= ~checked.is_copy[1:] & ~checked.is_copy[:-1]
    if neighbors.sum() < _FEWEST_ROWS:
        return [(0.0, 0.0)] * z.shape[1]
    serial, deviations = [], np.sqrt(parameters.variances)
    r = parameters.n_components
    n_rows = np.maximum(np.bincount(labels, minlength=r), 1)
    for column, means, units in zip(z.T, parameters.means.T, deviations.T, strict=True):
        # A few far rows say nothing about the order.
        residuals = np.clip((column - means[labels]) / units[labels], -3.0, 3.0)
        # Means of the rows, which differ from the fitted ones: of a level that all rows of a
        # component have, the probability is below 1.
        residuals -= (np.bincount(labels, residuals, minlength=r) / n_rows)[labels]
        first, second = residuals[:-1][neighbors], residuals[1:][neighbors]
        if min(first.std(), second.std()) < _VARIES:
            serial.append((0.0, 0.0))
            continue
        first, second = first - first.mean(), second - second.mean()
        products = first * second
        length, noise = np.linalg.norm(first) * np.linalg.norm(second), np.linalg.norm(products)
        along = products.sum()
        serial.append((float(along / max(length, 1e-300)), float(along / max(noise, 1e-300))))
    return serial


def _about_order(
    checked: CheckedRows, moments: StandardMoments, serial: list[tuple[float, float]]
) -> Iterator[Finding]:
    worst: dict[str | int, float] = {}
    for j, (value, deviates) in enumerate(serial):
        is_clear = abs(value) > _SERIAL_CORRELATION and abs(deviates) > SIGNIFICANT_DEVIATES
        if is_clear and not checked.columns[int(moments.columns[j])].is_sorted:
            name = moments.columns_of([j])[0]
            worst[name] = max(value, worst.get(name, 0.0), key=abs)
    for is_alike in (True, False):
        columns = [x for x in worst if (worst[x] > 0) == is_alike]
        columns.sort(key=lambda x: -abs(worst[x]))
        if columns:
            asides = [f"{worst[x]:.2f}" for x in columns]
            yield found(WARNING, "ordered-rows", columns, is_alike=is_alike, asides=asides)


def _grids_in_deviations(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters
) -> dict[int, float]:
    """Features whose values repeat: the grid in deviations of the narrowest component, or ∞."""
    widths, has_law = {}, set(parameters.blocks.with_law.tolist())
    for j, column in enumerate(moments.columns.tolist()):
        facts = checked.columns[column]
        if facts.kind is ColumnKind.ROUNDED and j not in has_law:
            least = float(np.sqrt(parameters.variances[:, j].min()))
            widths[j] = facts.grid / float(moments.scale[j]) / least
        elif facts.kind is not ColumnKind.CONTINUOUS and j not in has_law:
            widths[j] = np.inf
    return widths


def _about_kinds(
    checked: CheckedRows, moments: StandardMoments, features: Iterable[int]
) -> Iterator[Finding]:
    """Columns that are not continuous."""
    facts = {j: checked.columns[int(moments.columns[j])] for j in features}
    by_kind = {kind: [j for j in facts if facts[j].kind is kind] for kind in ColumnKind}
    if by_kind[ColumnKind.ROW_NUMBER]:
        yield found(FATAL, "row-number", moments.columns_of(by_kind[ColumnKind.ROW_NUMBER]))
    alike: dict[tuple[int, float, bool], dict[str | int, str | None]] = {}
    for j in by_kind[ColumnKind.FEW_VALUES]:
        family = None
        if _are_whole(facts[j].values):
            family = "bernoulli" if facts[j].values.tolist() == [0, 1] else "categorical"
        key = facts[j].n_values, facts[j].grid, family is None
        alike.setdefault(key, {})[moments.columns_of([j])[0]] = family
    for (n_values, grid, is_unknown), families in alike.items():
        columns, remedy = list(families), {} if is_unknown else {"families": families}
        yield found(WARNING, "discrete-column", columns, (), remedy, n_values=n_values, grid=grid)
    for j in by_kind[ColumnKind.REPEATED_VALUE]:
        columns, value, share = moments.columns_of([j]), facts[j].top_value, facts[j].top_share
        yield found(WARNING, "repeated-value", columns, value=value, share=share)


def _are_whole(values: Float) -> bool:
    return bool((values == np.floor(values)).all())
