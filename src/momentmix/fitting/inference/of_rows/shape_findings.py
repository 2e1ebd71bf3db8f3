"""Findings about the shapes of continuous columns, against the fitted mixture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.finding import (
    Finding,
    column_names,
    fatal,
    feature_families,
    warning,
)
from momentmix.fitting.inference.of_rows.column_shape import (
    FAR_SHARE,
    TO_THE_RIGHT,
    ColumnShape,
    compare_column,
    independent_columns,
    shape_words,
)
from momentmix.fitting.inference.of_rows.columns_checked import (
    ColumnFacts,
    ColumnKind,
)
from momentmix.fitting.inference.of_rows.logarithms import (
    offer_from_alike,
    offer_from_rows,
    possible_transforms,
    reaches_far,
)
from momentmix.fitting.inference.of_rows.rows_checked import CheckedRows, joint_of, standardized
from momentmix.mixture.parameters import Parameters
from momentmix.wording import plural

_MEASURED = (ColumnKind.CONTINUOUS, ColumnKind.ROUNDED)
_SHAPES_LISTED = 8  # columns in the sentence, the worst first


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
        yield fatal("column-shape", shape_text(moments, [(j, words[j]) for j in others], offers))
    absorbed = {j: transform for j, transform in offers.items() if j not in others}
    if absorbed:
        yield warning("skewed-column", _absorbed_text(moments, absorbed))
    for j, shape in shapes.items():
        if shape.is_heavy and (words[j] == "heavy-tailed" or not shape.is_other):
            severity = fatal if shape.n_far > FAR_SHARE * n else warning
            yield severity(
                "heavy-tails",
                f"column {moments.column_name(j)} has heavy tails: {shape.n_far} of {n} rows lie "
                "where the mixture expects one in 50,000. Transform or trim the column.",
            )


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
            yield warning(
                "independent-column",
                f"column {moments.column_name(j)} ({words}) is not Gaussian and does not depend "
                "on the other columns: components that describe it are missing elsewhere. Leave "
                "it out, or fit it alone.",
            )


def _absorbed_text(moments: StandardMoments, offers: Mapping[int, str]) -> str:
    names = column_names(moments, offers)
    has, it = ("is", "its") if len(offers) == 1 else ("are", "their")
    return (
        f"{names} {has} skewed to the right, and some components differ in nothing but {it} "
        f"values: fewer components describe {it} logarithm as well. Try logarithms, "
        f"{feature_families(moments, offers)}."
    )


def shape_text(
    moments: StandardMoments,
    columns: Sequence[tuple[int, str]],
    offers: Mapping[int, str | None] | None = None,
) -> str:
    """The sentence about features that do not follow the mixture, each with its `shape_words`.

    `offers` are transforms that would help, by feature.
    """
    cure, found = "Transform or leave out", offers or {}
    known = {j: t for j, _ in columns if (t := found.get(j))}
    if known:
        cure = f"Try logarithms, {feature_families(moments, known)}, or leave out"
    listed = ", ".join(
        f"{moments.column_name(j)} ({words})" for j, words in columns[:_SHAPES_LISTED]
    )
    more = f" and {len(columns) - _SHAPES_LISTED} more" if len(columns) > _SHAPES_LISTED else ""
    verb = "does" if len(columns) == 1 else "do"
    return (
        f"column{plural(len(columns))} {listed}{more} {verb} not follow the fitted mixture: not "
        f"Gaussian within components, or a component is missing. {cure} such columns, or ask for "
        "more components."
    )
