"""What the rows themselves show, beside their moments: an excerpt of them, and what is found in it.

`check_rows` runs before a fit: it finds the outliers, which the fit leaves out, and keeps an
excerpt of the other rows in their order. `row_findings` runs after it, with the fitted mixture.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.conditions.weighted_noise import MomentSpread
from momentmix.fitting.inference.column_shape import (
    FAR_SHARE,
    TO_THE_RIGHT,
    ColumnShape,
    compare_column,
    independent_columns,
    shape_words,
)
from momentmix.fitting.inference.columns_checked import ColumnFacts, ColumnKind, check_column
from momentmix.fitting.inference.component_findings import at_floor
from momentmix.fitting.inference.finding import (
    Finding,
    column_names,
    fatal,
    note,
    warning,
)
from momentmix.fitting.inference.logarithms import (
    offer_from_alike,
    offer_from_rows,
    possible_transforms,
    reaches_far,
)
from momentmix.fitting.inference.outliers import NONE, Outliers, find_outliers
from momentmix.mixture.density import joint_densities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.parameters import Parameters
from momentmix.rows.protocol import Rows
from momentmix.rows.weighted import proportional_places
from momentmix.schema.column import POISSON, families_code
from momentmix.wording import plural

EXCERPT = 20_000  # rows: enough for shapes and shares, and a small part of a fit's time
_FEWEST_ROWS = 30  # with fewer, nothing can be said about columns
_COPIES_SHARE = 0.01  # of the rows are copies of another one
_FEWEST_COPIES = 3
_FINEST_COLUMN = 50  # different values; rows of coarser columns are equal by chance
_COPIES_AMONG_TIES = 0.5  # of the rows that agree in the finest column agree in all
_SERIAL_CORRELATION = 0.1  # less hardly changes the number of independent rows
_SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns are tested
_COARSE = 0.5  # grid width in deviations of a component: a variance off by 2 %; coarser is worse
_FINE = 0.25  # of finer grids variances are off by less than 0.6 %
_MEASURED = (ColumnKind.CONTINUOUS, ColumnKind.ROUNDED)
_SHAPES_LISTED = 8  # columns in the sentence, the worst first


@dataclass(frozen=True)
class CheckedRows:
    """An excerpt of the rows of a fit, in their order, and the rows that were left out.

    Attributes
    ----------
    places : array of int of shape (n,)
        Numbers of the rows of the excerpt among the rows that are fitted, ascending.
    values : array of shape (n, n_columns)
        Of weighted rows so many as follow the weighted law.
    n_rows : int
        All rows that are fitted.
    is_everywhere : bool
        Whether the excerpt reaches from the first row to the last.
    outliers : Outliers
    weighted : tuple of arrays of shape (m, n_columns) and (m,), or None
        All rows of the excerpt and what they count as, where weights are not frequencies.
    """

    places: Int
    values: Float
    n_rows: int
    is_everywhere: bool
    outliers: Outliers = NONE
    weighted: tuple[Float, Float] | None = None

    @property
    def is_all(self) -> bool:
        """Whether the excerpt holds all rows."""
        return len(self.places) == self.n_rows

    def noise(self, moments: StandardMoments) -> MomentSpread | None:
        """How the moments of weighted rows vary; None where the model knows it."""
        if self.weighted is None:
            return None
        values, counts = self.weighted
        features = (values[:, moments.columns] - moments.shift) / moments.scale
        return MomentSpread(features, counts, self.n_rows)

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """Facts about each column."""
        columns = np.ascontiguousarray(self.values.T)
        return [check_column(column, self.places) for column in columns]

    @cached_property
    def is_copy(self) -> NDArray[np.bool_]:
        """Which rows are equal to an earlier one, of shape (n,)."""
        n = len(self.values)
        if any(facts.n_values == n for facts in self.columns):
            return np.zeros(n, bool)
        values = np.ascontiguousarray(self.values + 0.0)  # −0 + 0 is 0
        keys = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).ravel().tolist()
        first: dict[Any, int] = {}
        return np.array([first.setdefault(key, i) != i for i, key in enumerate(keys)], np.bool_)


def check_rows(rows: Rows, moments: StandardMoments) -> CheckedRows:
    """The outliers among the rows, and an excerpt of the rows without them."""
    places, values = rows.excerpt(EXCERPT)
    outliers = find_outliers(rows, moments, places, values)
    kept, weighted = ~np.isin(places, outliers.places), None
    counts = None if rows.row_counts is None else rows.row_counts[places[kept]]
    places = places[kept] - np.searchsorted(outliers.places, places[kept])
    values, n_rows = values[kept], rows.n_rows - len(outliers.places)
    is_everywhere = len(places) > 0 and int(places[-1]) == n_rows - 1
    if counts is not None and len(places):
        weighted = None if rows.is_frequency else (values, counts)
        # As many as can be drawn without copies.
        chosen = proportional_places(counts, int(counts.sum() / counts.max()))
        places, values = places[chosen], values[chosen]
    return CheckedRows(places, values, n_rows, is_everywhere, outliers, weighted)


# -- findings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowFindings:
    """Findings from rows.

    Attributes
    ----------
    findings : list of Finding
    explained : set of int
        Features whose joint moments they explain: heavy tails, and values that repeat.
    coarse : set of int
        Features with values that repeat.
    """

    findings: list[Finding]
    explained: set[int]
    coarse: set[int]


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
    shapes = _shapes(checked, moments, parameters, facts, serial) if from_rows else {}
    # A component at the floor is wider than its rows, as the user asked: no matter of shape.
    floored = np.any(at_floor(parameters, variance_floor), axis=0)
    shapes = {j: shape for j, shape in shapes.items() if not floored[j]}
    findings = [
        *_about_copies(checked),
        *_about_order(moments, facts, serial, checked),
        *_about_kinds(moments, parameters, facts, has_law),
        *_about_shapes(moments, parameters, shapes, checked),
    ]
    if any(shape.is_other for shape in shapes.values()):
        findings += _about_independent(moments, checked, shapes)
    coarse = {j for j, f in enumerate(facts) if _is_coarse(f, moments, parameters, j)} - has_law
    heavy = {j for j, shape in shapes.items() if shape.is_heavy}
    return RowFindings(findings, coarse | heavy, coarse)


def _is_coarse(
    facts: ColumnFacts, moments: StandardMoments, parameters: Parameters, j: int
) -> bool:
    if facts.kind is ColumnKind.ROUNDED:
        return _grid_in_deviations(facts, moments, parameters, j) > _COARSE
    return not facts.is_continuous


def _grid_in_deviations(
    facts: ColumnFacts, moments: StandardMoments, parameters: Parameters, j: int
) -> float:
    """Width of the grid in standard deviations of the narrowest component."""
    least = float(np.sqrt(parameters.variances[:, j].min()))
    return facts.grid / float(moments.scale[j]) / least


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
        among = "" if checked.is_all else f" of {n} that were compared"
        yield warning(
            "duplicate-rows",
            f"{copies} rows{among} ({copies / n:.0%}) are copies of another row; the test and the "
            "standard errors take them for independent observations. Keep one of each.",
        )


def _standardized(checked: CheckedRows, moments: StandardMoments) -> Float:
    """The features of the excerpt, of shape (n, d)."""
    return np.asarray((checked.values[:, moments.columns] - moments.shift) / moments.scale)


def _joint(z: Float, parameters: Parameters) -> Float:
    """Log-densities of the components in rows of standardized features, of shape (r, n)."""
    with np.errstate(over="ignore"):
        features = features_of(z, parameters.blocks)
        return np.asarray(joint_densities(coefficients(parameters), features))


def _serial_correlations(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters
) -> list[tuple[float, int]]:
    """For each feature the correlation of neighboring rows within components, and their number.

    Residuals from the most probable component: rows that are sorted by component are no matter.
    """
    z = _standardized(checked, moments)
    labels = _joint(z, parameters).argmax(axis=0)
    residuals = (z - parameters.means[labels]) / np.sqrt(parameters.variances[labels])
    residuals = np.clip(residuals, -3.0, 3.0)  # a few far rows say nothing about the order
    neighbors = np.diff(checked.places) == 1
    neighbors &= ~checked.is_copy[1:] & ~checked.is_copy[:-1]
    first, second = residuals[:-1][neighbors], residuals[1:][neighbors]
    n = len(first)
    if n < _FEWEST_ROWS:
        return [(0.0, n)] * z.shape[1]
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    lengths = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    along = (first * second).sum(axis=0)
    return [(float(a / max(b, 1e-300)), n) for a, b in zip(along, lengths, strict=True)]


def _about_order(
    moments: StandardMoments,
    facts: list[ColumnFacts],
    serial: list[tuple[float, int]],
    checked: CheckedRows,
) -> Iterator[Finding]:
    ordered = [
        j
        for j, (value, n) in enumerate(serial)
        if abs(value) > _SERIAL_CORRELATION
        and abs(value) * np.sqrt(n) > _SIGNIFICANT_DEVIATES
        and not facts[j].is_sorted
    ]
    if ordered:
        worst = max(ordered, key=lambda j: abs(serial[j][0]))
        yield warning(
            "ordered-rows",
            f"neighboring rows are alike within components, in {column_names(moments, ordered)} "
            f"(serial correlation {serial[worst][0]:.2f} in {moments.column_name(worst)}): rows "
            "in the order of time, or sorted by a group. The test and the standard errors take "
            "rows for independent; thin the rows, or remove the trend first.",
        )


def _about_kinds(
    moments: StandardMoments,
    parameters: Parameters,
    facts: list[ColumnFacts],
    has_law: Collection[int] = (),
) -> Iterator[Finding]:
    """Columns that are not continuous, but for features whose laws say so."""

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
        yield warning(
            "discrete-column",
            f"column {moments.column_name(j)} has {count} different values{on_grid}: a count, "
            "a code or a coarse grade is not Gaussian within components, and a component can "
            "shrink to one value. Name its family, as in "
            f"{_families_code(moments, {j: POISSON})}, or leave it out.",
        )
    for j in of(ColumnKind.REPEATED_VALUE):
        f = facts[j]
        yield warning(
            "repeated-value",
            f"column {moments.column_name(j)} is {f.top_value:.6g} in {f.top_share:.0%} of the "
            "rows and varies in the others: a component can shrink to that value. If it stands "
            "for a missing value, drop such rows; else fit the other rows apart.",
        )
    yield from _about_grids(moments, parameters, facts, of(ColumnKind.ROUNDED))


def _about_grids(
    moments: StandardMoments, parameters: Parameters, facts: list[ColumnFacts], rounded: list[int]
) -> Iterator[Finding]:
    """Rounded columns whose grid is wide beside a component; whole numbers may be counts."""
    widths = {j: _grid_in_deviations(facts[j], moments, parameters, j) for j in rounded}
    widths = {j: width for j, width in widths.items() if width > _FINE}
    counts = {j: POISSON for j in widths if _are_counts(facts[j])}
    if counts:
        how = warning if max(widths[j] for j in counts) > _COARSE else note
        names, many = column_names(moments, counts), len(counts) > 1
        yield how(
            "count-column",
            f"{names} {'hold' if many else 'holds'} whole numbers from 0 on and "
            f"{'are' if many else 'is'} taken as measurements. If they count something, take "
            f"them as counts: {_families_code(moments, counts)}.",
        )
    for j in sorted(widths.keys() - counts.keys()):
        how = warning if widths[j] > _COARSE else note
        yield how(
            "rounded-column",
            f"column {moments.column_name(j)} is rounded to multiples of {facts[j].grid:.6g}, "
            f"which is {widths[j]:.2g} deviations of the narrowest component: variances are "
            "too large by a twelfth of its square. Use unrounded values, or add uniform noise of "
            "that width.",
        )


def _are_counts(facts: ColumnFacts) -> bool:
    """Whether values are whole numbers as counts are: none below 0, and small ones among them."""
    values = facts.values
    return facts.grid == 1 and 0 <= values[0] <= 1 and bool((values == np.floor(values)).all())


def _shapes(
    checked: CheckedRows,
    moments: StandardMoments,
    parameters: Parameters,
    facts: list[ColumnFacts],
    serial: list[tuple[float, int]],
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
    z = _standardized(checked, moments)
    joint = _joint(z, parameters)
    offers = {}
    for j, transforms in possible.items():
        with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
            offer = offer_from_alike(columns[j], z[:, j], joint, parameters, j, transforms)
        if offer is None and j in skewed:
            offer = offer_from_rows(columns[j], joint.argmax(axis=0), transforms)
        if offer is not None:
            offers[j] = offer
    return offers


def _about_shapes(
    moments: StandardMoments,
    parameters: Parameters,
    shapes: dict[int, ColumnShape],
    checked: CheckedRows,
) -> Iterator[Finding]:
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


def _about_independent(
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
        f"{_families_code(moments, offers)}."
    )


def _families_code(moments: StandardMoments, families: Mapping[int, str]) -> str:
    """The families of features, as `fit` and as the command take them."""
    names = moments.feature_names
    keys = [int(moments.columns[j]) if names is None else names[j] for j in families]
    return families_code(dict(zip(keys, families.values(), strict=True)))


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
        cure = f"Try logarithms, {_families_code(moments, known)}, or leave out"
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
