"""Findings about the shapes of continuous columns, against the fitted mixture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from momentmix.findings.finding import FATAL, WARNING, Finding, Severity, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.of_rows.column_shape import (
    FAR_SHARE,
    HEAVY_TAILED,
    TO_THE_RIGHT,
    ColumnShape,
    compare_column,
    independent_columns,
    shape_words,
)
from momentmix.fitting.inference.of_rows.logarithms import (
    offer_from_alike,
    offer_from_rows,
    possible_transforms,
    reaches_far,
)
from momentmix.fitting.inference.of_rows.rows_checked import (
    CheckedRows,
    ColumnFacts,
    ColumnKind,
    joint_of,
    standardized,
)
from momentmix.mixture.parameters import Parameters

_MEASURED = (ColumnKind.CONTINUOUS, ColumnKind.ROUNDED)


def column_shapes(
    checked: CheckedRows,
    moments: StandardMoments,
    parameters: Parameters,
    facts: list[ColumnFacts],
    serial: list[tuple[float, float]],
) -> dict[int, ColumnShape]:
    """Continuous columns of an excerpt from all over the rows, against the mixture."""
    if not checked.is_everywhere:
        return {}
    n = float((~checked.is_copy).sum())
    shapes = {}
    has_law = set(parameters.blocks.with_law.tolist())
    for j, f in enumerate(facts):
        if f.kind not in _MEASURED or j in has_law:
            continue
        # Rows like their neighbors count for fewer; sorted ones are as independent as before.
        alike = 0.0 if f.is_sorted and checked.is_all else min(max(serial[j][0], 0.0), 0.99)
        independent = n * (1 - alike) / (1 + alike)
        shift, scale = float(moments.shift[j]), float(moments.scale[j])
        shapes[j] = compare_column(f, shift, scale, parameters, j, independent, checked.is_all)
    return shapes


def _offers(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters, skewed: Collection[int]
) -> dict[int, str]:
    """Transforms after which features are less skewed, or need fewer components.

    `skewed` are features that do not follow the mixture. Of the others, those that it follows
    since some components describe their shape alone.
    """
    columns = checked.values[:, moments.columns].T
    possible = {
        j: possible_transforms(moments, j)
        for j in parameters.blocks.single.tolist()
        if checked.columns[int(moments.columns[j])].kind in _MEASURED
    }
    possible = {j: t for j, t in possible.items() if j in skewed or (t and reaches_far(columns[j]))}
    if not possible:
        return {}
    z = standardized(checked, moments)
    joint = joint_of(z, parameters)
    offers = {}
    for j, transforms in possible.items():
        with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
            offer = offer_from_alike(columns[j], z[:, j], joint, parameters, j, transforms)
        if offer is None and j in skewed:
            offer = offer_from_rows(columns[j], joint.argmax(axis=0), transforms)
        if offer is not None:
            offers[j] = offer
    return offers


def about_shapes(
    moments: StandardMoments,
    parameters: Parameters,
    shapes: dict[int, ColumnShape],
    checked: CheckedRows,
) -> Iterator[Finding]:
    """Columns that do not follow the mixture, or need a logarithm, or have heavy tails."""
    n = len(checked.values)
    words = {j: shape_words(s.skewness_gap, s.kurtosis_gap) for j, s in shapes.items()}
    others = sorted((j for j in shapes if shapes[j].is_other), key=lambda j: -shapes[j].distance)
    offers = {}
    if shapes:
        skewed = [j for j in others if words[j] == TO_THE_RIGHT]
        offers = _offers(checked, moments, parameters, skewed)
    if others:
        yield shape_finding(FATAL, moments, {j: words[j] for j in others}, offers)
    absorbed = {j: transform for j, transform in offers.items() if j not in others}
    if absorbed:
        remedy = _families(moments, absorbed)
        yield found(WARNING, "skewed-column", moments.columns_of(absorbed), remedy=remedy)
    for j, shape in shapes.items():
        if shape.is_heavy and (words[j] == HEAVY_TAILED or not shape.is_other):
            severity = FATAL if shape.n_far > FAR_SHARE * n else WARNING
            columns = moments.columns_of([j])
            yield found(severity, "heavy-tails", columns, n_far=shape.n_far, n_rows=n)


def about_independent(
    moments: StandardMoments, checked: CheckedRows, shapes: dict[int, ColumnShape]
) -> Iterator[Finding]:
    """Columns that draw components away from the others, so that these do not follow the mixture.

    Clusters along one column are a mixture as good as any: only where it leaves others unexplained
    does the column need words.
    """
    continuous = sorted(shapes)
    values = checked.values[:, moments.columns[continuous]]
    for place, words in independent_columns(values):
        j = continuous[place]
        if not shapes[j].is_other:
            columns = moments.columns_of([j])
            yield found(WARNING, "independent-column", columns, asides=[words])


def shape_finding(
    severity: Severity,
    moments: StandardMoments,
    shapes: Mapping[int, str],
    offers: Mapping[int, str | None],
) -> Finding:
    """Return the finding about features that do not follow the mixture, by their `shape_words`.

    `offers` are transforms that would help, by feature.
    """
    remedy = _families(moments, {j: t for j in shapes if (t := offers.get(j))})
    asides = list(shapes.values())
    return found(severity, "column-shape", moments.columns_of(shapes), (), remedy, asides=asides)


def _families(moments: StandardMoments, transforms: Mapping[int, str]) -> dict[str, Any]:
    """Return the remedy that transforms features."""
    families = {moments.part(j).column: transform for j, transform in transforms.items()}
    return {"families": families} if families else {}
