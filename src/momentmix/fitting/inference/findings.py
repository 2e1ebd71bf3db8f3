"""All findings about a fit: of its moments and components here, of rows and pairs beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from scipy.special import chdtrc

from momentmix._typing import Float
from momentmix.families.count import DISPERSION_THAT_MATTERS
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.conditions import feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.checked_rows import CheckedRows
from momentmix.fitting.inference.column_shapes import shape_finding, shape_words
from momentmix.fitting.inference.logarithms import offer_from_moments
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.inference.pair_findings import (
    SIGNIFICANT_DEVIATES,
    about_copies,
    about_correlations,
)
from momentmix.fitting.inference.row_findings import RowFindings, at_floor, row_findings
from momentmix.mixture.parameters import Parameters

LEAST_ROWS_PER_PARAMETER = 2  # with fewer, neither parameters nor their errors are known
LARGE_CONDITION_NUMBER = 1e4  # errors grow by it: few moments are known to four digits
# One row's share of a column's fourth moment or, where that is unknown, of its variance: from
# here on the fit is about this row.
_SHARE_OF_FOURTH_MOMENT, _SHARE_OF_VARIANCE = 0.5, 0.25
_EXCESS_THAT_MATTERS = 1.0  # of a fourth standardized moment; Student's t with 10 degrees has it
LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
_CHANCE = 1e-4  # that a probability of being seen is said to differ where it does not
_DIFFERENCE_THAT_MATTERS = 0.02  # between probabilities of being seen
_NO_INFORMATION = 1e-3  # share of a column's variance that lies between components


def collect_findings(
    moments: StandardMoments,
    parameters: Parameters,
    test: OverIdentification,
    capacity: int,
    variance_floor: float,
    from_rows: bool = False,
    checked: CheckedRows | None = None,
    shown: RowFindings | None = None,
) -> list[Finding]:
    """All findings about a fit of standardized features.

    `from_rows` after EM passes; `checked` holds an excerpt of the rows, where there are rows, and
    `shown` what `row_findings` found in it, where it is known.
    """
    p = parameters
    if checked is not None and not len(checked.values):  # remote rows
        checked = None
    if checked is None:
        shown = RowFindings([], set(), set())
    elif shown is None:
        shown = row_findings(checked, moments, p, from_rows, variance_floor)
    influenced = _influenced_feature(moments)
    compared = checked is not None and from_rows and checked.is_everywhere
    heavy = [] if compared else _heavy_tailed(moments, p, influenced)
    outliers = list(_about_outliers(moments, influenced, checked is not None))
    findings = [
        *_about_size(moments, p, capacity, from_rows),
        *component_findings(moments, p, variance_floor, shown.coarse),
        *about_copies(moments),
        *shown.findings,
        *([] if compared else _about_shapes(moments, p, test)),
        *([found(WARNING, "heavy-tails", moments.columns_of(heavy))] if heavy else []),
        *outliers,
        *_about_test(test),
    ]
    # Components that serve one row, or one of the values that repeat, leave the other columns
    # correlated within them: that is a consequence, not a cause.
    floored = at_floor(p, variance_floor)[:, sorted(shown.coarse)]
    if not floored.any() and all(f.severity is not FATAL for f in outliers):
        explained = {*influenced, *heavy, *shown.explained}
        findings += about_correlations(moments, p, test, explained, from_rows)
    return findings


def _about_size(
    moments: StandardMoments, p: Parameters, capacity: int, from_rows: bool
) -> Iterator[Finding]:
    r, d = p.means.shape
    size = {"order": moments.order, "n_features": d, "capacity": capacity, "asked": r}
    if r > capacity:
        yield found(WARNING if from_rows else FATAL, "over-capacity", from_rows=from_rows, **size)
    elif r > 1 and r == capacity and not from_rows:
        yield found(WARNING, "capacity-margin", **size)
    least = LEAST_ROWS_PER_PARAMETER * p.n_free
    if moments.n_effective < least:
        n = moments.n_effective
        yield found(FATAL, "too-few-rows", n_rows=n, n_parameters=p.n_free, least=least)


def find_constants(moments: StandardMoments) -> list[Finding]:
    """Return findings about columns that hold one value only, which the fit leaves out."""
    numbers = np.flatnonzero(moments.constant & moments.is_number).tolist()
    others = np.flatnonzero(moments.constant & ~moments.is_number).tolist()
    others = [j for j in others if not moments.part(j).is_seen]
    findings = []
    if others:
        levels = ", ".join(moments.part(j).words for j in others)
        findings.append(found(WARNING, "empty-level", moments.columns_of(others), levels=levels))
    if numbers:
        findings.append(found(WARNING, "constant-column", moments.columns_of(numbers)))
    return findings


def _about_shapes(
    moments: StandardMoments, p: Parameters, test: OverIdentification
) -> Iterator[Finding]:
    """Columns whose powers the test rejects, the worst first."""
    if moments.powers is None:
        return
    rejected = [g.feature for g in test.rejected_groups if g.feature is not None]
    powers = feature_powers(p, 4)
    gaps = [moments.powers[k] - p.weights @ powers[3 + k] for k in range(2)]
    if rejected:
        words = {j: shape_words(float(gaps[0][j]), float(gaps[1][j])) for j in rejected}
        has_law = set(p.blocks.with_law.tolist())
        offers = {j: offer_from_moments(moments, j, has_law) for j in rejected}
        yield shape_finding(WARNING, moments, words, offers)


def _influenced_feature(moments: StandardMoments) -> list[int]:
    """The feature whose farthest row moves third moments most, if it moves them too much."""
    farthest = np.where(moments.is_number, _farthest(moments), 0.0)
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(moments.n_effective)
    j = int(influence.argmax())
    # Normal rows reach 6 deviations, and then by chance: neither alone is an outlier.
    return [j] if influence[j] > 10 and farthest[j] > 8 else []


def _farthest(moments: StandardMoments) -> Float:
    low, high = moments.standard_range
    return np.maximum(-low, high)


def _about_outliers(
    moments: StandardMoments, influenced: list[int], were_rows_checked: bool
) -> Iterator[Finding]:
    for j in influenced:
        far, n = float(_farthest(moments)[j]), moments.n_effective
        fourth = np.nan if moments.powers is None else float(moments.powers[1, j])
        dominates = far**2 > _SHARE_OF_VARIANCE * n
        if np.isfinite(fourth):
            dominates = far**4 > _SHARE_OF_FOURTH_MOMENT * n * fourth
        if dominates or not were_rows_checked:  # else it is the tail of the column
            yield found(
                FATAL if dominates else WARNING,
                "outlier-influence",
                moments.columns_of([j]),
                deviations=far,
                influence=float(far**3 / np.sqrt(n)),
            )


def _heavy_tailed(moments: StandardMoments, p: Parameters, others: list[int]) -> list[int]:
    """Features with a larger fourth moment than the mixture's, but for `others`."""
    if moments.powers is None:
        return []
    powers = feature_powers(p, 8)
    fourth, eighth = p.weights @ powers[4], p.weights @ powers[8]
    excess = np.nan_to_num(moments.powers[1] - fourth)
    noise = np.sqrt((eighth - fourth**2) / moments.n_effective)
    heavy = (excess > _EXCESS_THAT_MATTERS) & (excess > SIGNIFICANT_DEVIATES * noise)
    return [j for j in np.flatnonzero(heavy).tolist() if j not in others]


def _about_test(test: OverIdentification) -> Iterator[Finding]:
    if test.overdispersed_model:
        dof = test.degrees_of_freedom
        yield found(FATAL, "no-power", statistic=test.statistic, degrees_of_freedom=dof)
    if test.testable and test.condition_number > LARGE_CONDITION_NUMBER:
        is_known = test.condition_number < 1 / np.finfo(float).eps
        number = test.condition_number if is_known else None
        yield found(WARNING, "conditioning", condition_number=number)


# -- components -----------------------------------------------------------------------------------


def component_findings(
    moments: StandardMoments, p: Parameters, floor: float, coarse: Collection[int] = ()
) -> Iterator[Finding]:
    """Findings about the components and their laws; `coarse` are features whose values repeat.

    A likelihood without bound draws components to a few rows: such a maximum says nothing about
    the rows to come, and a certificate must not pass it.
    """
    d, rows = moments.n_features, moments.n_effective * p.weights
    floored = at_floor(p, floor)
    repeating = np.isin(np.arange(d), list(coarse))
    shrunk = (floored & ~repeating).sum(axis=1) > 1
    light = rows < LEAST_ROWS_PER_COMPONENT
    spurious = (rows < d + 1) | (light & shrunk)
    if p.n_components == 1:
        spurious[:] = False
    light &= ~spurious
    kinds = ((FATAL, "spurious-components", spurious), (WARNING, "light-components", light))
    for severity, kind, which in kinds:
        if which.any():
            few = np.flatnonzero(which).tolist()
            asides = [f"{rows[i]:.0f} rows" for i in few]
            yield found(severity, kind, components=few, asides=asides, n_features=d)
    equal = np.flatnonzero((floored & repeating).any(axis=0)).tolist()
    if equal:
        yield found(WARNING, "variance-floor", moments.columns_of(equal), floor=floor)
    others = np.flatnonzero((floored & ~repeating).any(axis=0)).tolist()
    if others:
        count = int((floored & ~repeating).sum())
        columns = moments.columns_of(others)
        yield found(NOTE, "variance-floor", columns, count=count, floor=floor)
    yield from _about_dispersion(moments, p)
    if p.n_components > 1:
        yield from _about_missing(moments, p)
        yield from _about_never_seen(moments, p)
        yield from _about_information(moments, p)


def _about_dispersion(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Values that vary more or less within components than their means say."""
    nouns = ((law.features[0], law.value_law.noun) for law in p.blocks.laws)
    counts = {feature: noun for feature, noun in nouns if noun}
    if not counts or not len(moments.squared):
        return
    powers = feature_powers(p, 4)
    second, fourth = p.weights @ powers[2], p.weights @ powers[4]
    noise = np.sqrt(np.maximum(fourth - second**2, 1e-300) / moments.n_effective)
    excess = moments.squared[0][:, 0] - second
    within = p.weights @ p.variances  # of the counts themselves where none is missing
    for j, words in counts.items():
        ratio = 1.0 + excess[j] / within[j]
        is_clear = abs(excess[j]) > SIGNIFICANT_DEVIATES * noise[j]
        if is_clear and abs(ratio - 1.0) > DISPERSION_THAT_MATTERS:
            columns = moments.columns_of([j])
            yield found(WARNING, "dispersion", columns, ratio=float(ratio), law=words)


def _about_missing(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns whose cells are missing more often in some components than in others."""
    gaps = []
    for law in p.blocks.laws:
        own = list(law.features)
        q = law.probability_seen(p.means[:, own], p.variances[:, own])
        if q is not None:
            mean = float(p.weights @ q)
            statistic = moments.n_effective * float(p.weights @ (q - mean) ** 2)
            statistic /= max(mean * (1 - mean), 1e-12)
            is_clear = chdtrc(p.n_components - 1, statistic) < _CHANCE
            if is_clear and np.ptp(q) > _DIFFERENCE_THAT_MATTERS:
                place = law.features[0]
                gaps.append((float(np.ptp(q)), place, float(q.min()), float(q.max())))
    if gaps:
        gaps.sort(reverse=True)
        _, worst, low, high = gaps[0]
        columns = moments.columns_of(j for _, j, _, _ in gaps)
        name = moments.column_name(worst)
        yield found(NOTE, "missing-by-component", columns, worst=name, low=low, high=high)


def _about_never_seen(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns of which a component has no cell."""
    for law, which in zip(p.blocks.laws, p.never_seen(moments.n_effective), strict=True):
        if which.any():
            columns = moments.columns_of(law.features[:1])
            yield found(WARNING, "never-seen", columns, count=int(which.sum()))


def _about_information(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns whose features are nearly the same in all components."""
    between = p.weights @ (p.means - p.weights @ p.means) ** 2  # of features of variance 1
    silent = [
        law.features[0]
        for law in p.blocks.laws
        if between[list(law.features)].max() < _NO_INFORMATION
    ]
    if silent:
        yield found(NOTE, "no-information", moments.columns_of(silent))
