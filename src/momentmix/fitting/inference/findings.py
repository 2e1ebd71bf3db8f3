"""All findings about a fit: of its size, components, columns and pairs of columns, and its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from momentmix._typing import Float, Int
from momentmix.families.counts import DISPERSION_THAT_MATTERS
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, Severity, found
from momentmix.fitting.inference.checked_rows import CheckedRows, ColumnKind, joint_of
from momentmix.fitting.inference.correlations import CORRELATION_THAT_MATTERS, SIGNIFICANT_DEVIATES
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, OverIdentification
from momentmix.fitting.inference.tested_conditions import pairs_together
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.conditions import feature_powers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import index_sets
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VARIANCE_FLOOR
from momentmix.wording import percent

Pair = tuple[int, int]

LEAST_ROWS_PER_PARAMETER = 2  # with fewer, neither parameters nor their errors are known
# One row's share of a column's fourth moment or, where that is unknown, of its variance: from
# here on the fit is about this row.
_SHARE_OF_FOURTH_MOMENT, _SHARE_OF_VARIANCE = 0.5, 0.25
LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
_MANY_FEATURES = 9  # of independent columns: more of them need no more rows in a component
_CHANCE = 1e-4  # that a probability of being seen is said to differ where it does not
# Of rows that were left out, in deviations: a small effect, which moves a weight by several points
# where groups are two or three deviations apart. Fewer rows cannot change the answer.
_SHIFT_THAT_MATTERS, _FEWEST_DROPPED = 0.2, 10
_COPY_CORRELATION = 0.999  # two different measurements are rarely so close
_TAKEN_UP = 0.3  # of a correlation, by components that describe a part of it
_AT_BOUND = 0.995  # of a correlation: 1 to two digits, which is a bound and no measurement
_FEWEST_TOGETHER = 10.0  # missing cells in the same rows, beyond those that the model expects
_TWO_PEAKS = -1.4  # excess kurtosis: −1.2 for a uniform law, −1.6 for two peaks 6 deviations apart
_LEAST_SKEWNESS = 0.2  # below, a fourth moment describes the shape better
_FEWEST_ROWS = 30  # of an excerpt: with fewer, nothing can be said about columns
_SERIAL_CORRELATION = 0.1  # less hardly changes the number of independent rows
# Median serial correlation within components, from where rows count as dependent: walks have 0.87
# and more, prices and temperatures by month 0.7 and more, tables without order below 0.6. Columns
# that turn more seldom than once in twenty rows are those that rows are sorted by.
_DEPENDENT, _TURNS_OF_SORTED = 0.7, 0.05
_VARIES = 1e-6  # deviations; less is rounding


def collect_findings(
    moments: StandardMoments,
    p: Parameters,
    test: OverIdentification,
    capacity: int,
    from_rows: bool = False,
    checked: CheckedRows | None = None,
    tested: tuple[StandardMoments, Parameters] | None = None,
) -> list[Finding]:
    """All findings about a fit of standardized features; `tested` are those of completed rows."""
    (r, d), n, findings = p.means.shape, moments.n_effective, list[Finding]()
    if r > capacity and not from_rows:
        order = moments.order
        findings.append(
            found(FATAL, "over-capacity", order=order, n_features=d, capacity=capacity, asked=r)
        )
    if n < (least := LEAST_ROWS_PER_PARAMETER * p.n_free):
        findings.append(found(FATAL, "too-few-rows", n_rows=n, n_parameters=p.n_free, least=least))
    findings += component_findings(moments, p)
    of_rows, (moments, p) = (moments, p), tested or (moments, p)
    has_rows = checked is not None and bool(len(checked.values))  # no remote rows
    findings += _about_copies(moments)
    findings += _about_influence(moments, has_rows)
    findings += _about_correlations(moments, p, test, from_rows)
    if not from_rows:
        findings += [*_about_shapes(moments, p, test), *_about_gaps_together(moments, p)]
    if checked is not None and len(checked.values) >= _FEWEST_ROWS:
        findings += [*_about_order(checked, *of_rows), *_about_kinds(checked, *of_rows)]
        if copies := checked.n_duplicates:
            compared = len(checked.values)
            findings.append(found(WARNING, "duplicate-rows", copies=copies, compared=compared))
    return findings


def find_constants(moments: StandardMoments) -> list[Finding]:
    """Return findings about columns that hold one value only, which the fit leaves out."""
    numbers = np.flatnonzero(moments.constant & moments.is_number).tolist()
    return [found(WARNING, "constant-column", moments.columns_of(numbers))] if numbers else []


def find_dropped(moments: StandardMoments, dropped: Float | None) -> list[Finding]:
    """Return a finding where rows with gaps, which were left out, differ from those kept."""
    if dropped is None or moments.n_rows < 2:
        return []
    n = np.isfinite(dropped).sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        values = (dropped - moments.shift) / moments.scale
        apart = np.nansum(values, axis=0) / np.maximum(n, 1)
        variances = np.nansum((values - apart) ** 2, axis=0) / np.maximum(n - 1, 1)
        noise = np.sqrt(variances / np.maximum(n, 1) + 1.0 / moments.n_rows)
        is_clear = np.abs(apart) > noise * ndtri(1.0 - _CHANCE / (2 * moments.n_features))
    is_clear &= (np.abs(apart) > _SHIFT_THAT_MATTERS) & ~moments.constant & (n >= _FEWEST_DROPPED)
    places = np.flatnonzero(is_clear)
    if not places.size:
        return []
    order = places[np.argsort(-np.abs(apart[places]))]
    worst = {moments.part(j).column: j for j in order[::-1].tolist()}  # of a category, one level
    columns = moments.columns_of(order.tolist())
    asides = [f"{apart[worst[c]]:+.2f} deviations" for c in columns]
    return [found(FATAL, "dropped-differ", columns, asides=asides)]


# -- components -----------------------------------------------------------------------------------


def component_findings(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Yield findings about the components."""
    d, rows = moments.n_features, moments.n_effective * p.weights
    light = rows < LEAST_ROWS_PER_COMPONENT
    needed = max(p.blocks.widest, min(d, _MANY_FEATURES)) + 1
    at_floor = p.variances <= 1.01 * VARIANCE_FLOOR
    at_floor[:, p.blocks.with_law] = False
    few = np.flatnonzero((rows < needed) | (light & (at_floor.sum(axis=1) > 1))).tolist()
    if p.n_components > 1 and few:
        asides = [f"{rows[i]:.0f} rows" for i in few]
        yield found(FATAL, "spurious-components", components=few, asides=asides, n_features=d)
    at_random = [law.features[0] for law in moments.laws if law.at_random]
    if at_random:
        yield found(NOTE, "missing-at-random", moments.columns_of(at_random))
    yield from _about_dispersion(moments, p)
    never = zip(p.blocks.laws, p.never_seen(moments.n_effective), strict=True)
    unseen = [law.features[0] for law, which in never if which.any()]
    if p.n_components > 1 and unseen:
        yield found(WARNING, "never-seen", moments.columns_of(unseen))


def weight_findings(uncertainty: Uncertainty, order: Int) -> Iterator[Finding]:
    """Yield a finding about weights that the rows do not determine; `order` numbers components."""
    unknown = np.flatnonzero(uncertainty.unknown_weights[order]).tolist()
    if unknown:
        yield found(FATAL, "unknown-weights", components=unknown)


def _about_dispersion(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Yield findings about values whose variance within components does not suit their means."""
    values = ((law.features[0], law.family) for law in p.blocks.laws if not law.at_random)
    counts = {feature: family for feature, family in values if family.singular}
    if not counts or not len(moments.squared):
        return
    powers = feature_powers(p, 4)
    second, fourth = p.weights @ powers[2], p.weights @ powers[4]
    noise = np.sqrt(np.maximum(fourth - second**2, 1e-300) / moments.n_effective)
    excess = moments.squared[0][:, 0] - second
    # Within components: of the counts themselves where none is missing.
    change = excess / (p.weights @ p.variances)
    is_clear = np.abs(excess) > SIGNIFICANT_DEVIATES * noise
    is_clear &= np.abs(change) > DISPERSION_THAT_MATTERS
    # A variance of its own cannot be less than the mean: another family is needed.
    impossible = {j for j, family in counts.items() if family.free and change[j] < 0}
    for severity, own in ((FATAL, impossible), (WARNING, counts.keys() - impossible)):
        clear = [j for j in counts if j in own and is_clear[j]]
        asides = [f"{1 + change[j]:.2g} times that of {counts[j].singular}" for j in clear]
        if clear:
            columns = [moments.part(j).column for j in clear]
            yield found(severity, "dispersion", columns, asides=asides)


# -- columns --------------------------------------------------------------------------------------


def _about_shapes(
    moments: StandardMoments, p: Parameters, test: OverIdentification
) -> Iterator[Finding]:
    """Columns whose powers the test rejects, the worst first."""
    rejected = [g.feature for g in test.rejected_groups if g.feature is not None]
    if not rejected or moments.powers is None:
        return
    powers = feature_powers(p, 4)
    third, fourth = (moments.powers[k] - p.weights @ powers[3 + k] for k in range(2))
    words = {moments.part(j).column: shape_words(third[j], fourth[j]) for j in rejected}
    yield found(WARNING, "column-shape", list(words), asides=list(words.values()))


def shape_words(skewness_gap: float, kurtosis_gap: float) -> str:
    """Return the shape of a column in words, by third and fourth moments less the model's.

    >>> shape_words(2.0, 6.0), shape_words(0.0, -1.2), shape_words(0.1, 6.0)
    ('skewed to the right', 'flat', 'heavy-tailed')
    """
    # s² against k: 4 and 6 for an exponential column, 0 and 6 for Student's t with 5 degrees.
    if abs(skewness_gap) > _LEAST_SKEWNESS and skewness_gap**2 > abs(kurtosis_gap) / 6:
        return "skewed to the right" if skewness_gap > 0 else "skewed to the left"
    if kurtosis_gap > 0:
        return "heavy-tailed"
    return "two peaks" if kurtosis_gap < _TWO_PEAKS else "flat"


def _about_influence(moments: StandardMoments, has_rows: bool) -> Iterator[Finding]:
    """The feature whose farthest row moves third moments too much."""
    low, high = moments.standard_range
    farthest, n = np.where(moments.is_number, np.maximum(-low, high), 0.0), moments.n_effective
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(n)
    j = int(influence.argmax())
    far, share = float(farthest[j]), float(influence[j])
    # Normal rows reach 6 deviations, and then by chance: neither alone is an outlier.
    if not (share > 10 and far > 8):
        return
    fourth = np.nan if moments.powers is None else float(moments.powers[1, j])
    dominates = far**2 > _SHARE_OF_VARIANCE * n
    if np.isfinite(fourth):
        dominates = far**4 > _SHARE_OF_FOURTH_MOMENT * n * fourth
    if dominates or not has_rows:  # else it is the tail of the column
        severity, columns = FATAL if dominates else WARNING, moments.columns_of([j])
        yield found(severity, "outlier-influence", columns, deviations=far, influence=share)


# -- pairs of columns -----------------------------------------------------------------------------


def _about_copies(moments: StandardMoments) -> Iterator[Finding]:
    """Columns that hold the same values; not levels, nor columns with missing cells."""
    if moments.order < 2:
        return
    others = [law for law in moments.laws if law.has_missing or len(law.features) > 1]
    pairs = index_sets(moments.n_features, 2)
    alike = np.abs(moments.orders[2]) > _COPY_CORRELATION
    alike &= ~np.isin(pairs, [j for law in others for j in law.features]).any(axis=1)
    if alike.any():
        copies = [(int(j), int(k)) for j, k in pairs[alike]]
        yield _about_pairs(WARNING, "duplicate-columns", moments, dict.fromkeys(copies))


def _about_gaps_together(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns with missing cells in the same rows, which the test of the moments leaves out."""
    pairs: dict[Pair, float | None] = {}
    for numbers in pairs_together(moments, p):
        j, k = (p.blocks.laws[number].features[-1] for number in numbers)
        within = moments.total_covariance[j, k] - float(p.weights @ (p.means[:, j] * p.means[:, k]))
        if moments.n_effective * within * moments.scale[j] * moments.scale[k] > _FEWEST_TOGETHER:
            pairs[j, k] = None
    if pairs:
        yield _about_pairs(FATAL, "shared-gaps", moments, pairs)


def _about_correlations(
    moments: StandardMoments, p: Parameters, test: OverIdentification, from_rows: bool
) -> Iterator[Finding]:
    """Pairs of columns that the test finds correlated within components."""
    if not test.testable or test.p_value >= LEAST_P_VALUE:
        return
    within = moments.total_covariance - (p.weights * (p.means - p.weights @ p.means).T) @ p.means
    deviations = np.sqrt(np.maximum(p.weights @ p.variances, 1e-300))
    places = {column: j for j, column in enumerate(moments.columns.tolist())}
    columns, gaps = dict[Pair, float | None](), dict[Pair, float | None]()
    for c in test.correlations:
        j, k = pair = places[c.first], places[c.second]
        # What components leave of the correlation; they describe a part of it.
        left = float(within[j, k] / (deviations[j] * deviations[k]))
        if not abs(c.deviates) > SIGNIFICANT_DEVIATES:
            continue
        if any(moments.part(i).is_seen for i in pair):
            gaps[pair] = None
        elif CORRELATION_THAT_MATTERS < abs(left) < _AT_BOUND:
            is_near = abs(c.value) < _AT_BOUND and 0 <= (c.value - left) * np.sign(left) < _TAKEN_UP
            columns[pair] = c.value if is_near else left
        elif CORRELATION_THAT_MATTERS < abs(c.value) < _AT_BOUND:
            columns[pair] = None  # of different signs
    if columns:
        yield _about_pairs(WARNING, "correlated-columns", moments, columns)
    if gaps and not from_rows:  # the rows themselves are tested in `missing_cells`
        yield _about_pairs(WARNING, "shared-gaps", moments, gaps)


def _about_pairs(
    severity: Severity, kind: str, moments: StandardMoments, pairs: dict[Pair, float | None]
) -> Finding:
    columns = moments.columns_of(j for pair in pairs for j in pair)
    named = moments.column_name if kind == "duplicate-columns" else lambda j: moments.part(j).words
    words = [[*map(named, pair), value] for pair, value in pairs.items()]
    return found(severity, kind, columns, pairs=words)


# -- rows -----------------------------------------------------------------------------------------


def _about_order(
    checked: CheckedRows, moments: StandardMoments, p: Parameters
) -> Iterator[Finding]:
    """Columns whose neighboring rows are alike, or differ, within components.

    Where most columns move slowly from row to row, rows depend on their neighbors, and neither
    halves of the rows nor errors say what other rows would give. Rows may also be sorted: what
    follows from columns that rise or fall over long pieces does not count.
    """
    z, worst = checked.standardized(moments), dict[str | int, float]()
    neighbors = np.diff(checked.places) == 1
    neighbors &= ~checked.is_copy[1:] & ~checked.is_copy[:-1]
    if neighbors.sum() < _FEWEST_ROWS:
        return
    labels, r = joint_of(z, p).argmax(axis=0), p.n_components
    n_rows = np.maximum(np.bincount(labels, minlength=r), 1)
    # A few far rows say nothing about the order.
    residuals = np.clip((z - p.means[labels]) / np.sqrt(p.variances[labels]), -3.0, 3.0)
    complete = np.setdiff1d(np.arange(moments.n_features), _incomplete(p))
    z, residuals = z[:, complete], residuals[:, complete]
    if not complete.size:
        return
    for column in residuals.T:
        # Means of the rows, which differ from the fitted ones: of a level that all rows of a
        # component have, the probability is below 1.
        column -= (np.bincount(labels, column, minlength=r) / n_rows)[labels]
    first, second = _neighboring(residuals, neighbors)
    serial = _serial_correlations(first, second)
    parts = zip(complete.tolist(), first.T, second.T, serial.tolist(), strict=True)
    for j, one, other, value in parts:
        is_sorted, products = checked.columns[int(moments.columns[j])].is_sorted, one * other
        if is_sorted or min(one.std(), other.std()) < _VARIES:
            continue
        deviates = float(products.sum() / max(np.linalg.norm(products), 1e-300))
        if abs(value) > _SERIAL_CORRELATION and abs(deviates) > SIGNIFICANT_DEVIATES:
            name = moments.part(j).column
            worst[name] = max(value, worst.get(name, 0.0), key=abs)
    if _depends_on_neighbors(z, residuals, neighbors):
        columns = sorted((x for x in worst if worst[x] > 0), key=lambda x: -worst[x])
        asides = [f"{worst[x]:.2f}" for x in columns]
        yield found(FATAL, "ordered-rows", columns, words="depend on each other", asides=asides)
        return
    for sign, words in ((1, "are alike"), (-1, "differ more than by chance")):
        columns = sorted((x for x in worst if sign * worst[x] > 0), key=lambda x: -abs(worst[x]))
        if columns:
            asides = [f"{worst[x]:.2f}" for x in columns]
            yield found(WARNING, "ordered-rows", columns, words=words, asides=asides)


def _incomplete(p: Parameters) -> list[int]:
    """Features of columns with cells that are missing at random, or that are joined."""
    at_random = [j for law in p.blocks.laws if law.at_random for j in law.features]
    return [*at_random, *(j for value, seen, _ in p.blocks.missing for j in (value, seen))]


def _depends_on_neighbors(z: Float, residuals: Float, neighbors: NDArray[np.bool_]) -> bool:
    """Whether most columns move slowly from row to row, beyond columns that rows are sorted by."""
    steps = np.sign(np.diff(z, axis=0))
    turns = (steps[1:] * steps[:-1] < 0) & neighbors[1:, None] & neighbors[:-1, None]
    is_sorted = turns.sum(axis=0) < _TURNS_OF_SORTED * len(z)
    if is_sorted.all():
        return False
    by = residuals[:, is_sorted]
    design = np.column_stack([np.ones(len(z)), by, by**2])
    rest = residuals[:, ~is_sorted]
    rest = rest - design @ np.linalg.lstsq(design, rest, rcond=None)[0]
    serial = _serial_correlations(*_neighboring(rest, neighbors))
    return bool(np.median(serial) >= _DEPENDENT)


def _neighboring(values: Float, neighbors: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Rows and the rows after them about their means, (m, d) each."""
    first, second = values[:-1][neighbors], values[1:][neighbors]
    return first - first.mean(axis=0), second - second.mean(axis=0)


def _serial_correlations(first: Float, second: Float) -> Float:
    """Correlations of the columns of rows with the rows after them, (d,)."""
    norms = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
    return np.asarray((first * second).sum(axis=0) / np.maximum(norms, 1e-300))


def _about_kinds(
    checked: CheckedRows, moments: StandardMoments, p: Parameters
) -> Iterator[Finding]:
    """Columns taken as numbers that number the rows, or repeat their values."""
    repeated = dict[str | int, str]()
    others = [*p.blocks.with_law.tolist(), *_incomplete(p)]
    for j in np.setdiff1d(np.arange(moments.n_features), others).tolist():
        column, facts = moments.part(j).column, checked.columns[int(moments.columns[j])]
        if facts.kind is ColumnKind.ROW_NUMBER:
            yield found(FATAL, "row-number", [column])
        elif facts.kind is ColumnKind.FEW_VALUES:
            repeated[column] = f"{facts.n_values} values"
        elif facts.kind is ColumnKind.REPEATED_VALUE:
            repeated[column] = f"{facts.top_value:.6g} in {percent(facts.top_share)} of the rows"
    if repeated:
        yield found(WARNING, "discrete-column", list(repeated), asides=list(repeated.values()))
