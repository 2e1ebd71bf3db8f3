"""All findings about a fit: of its moments, components and pairs of columns; of rows beside."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from momentmix._typing import Float, Int
from momentmix.families.counts import DISPERSION_THAT_MATTERS
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.findings.fit_sentences import UNTESTED
from momentmix.fitting.conditions.conditions import feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.column_shapes import offer_from_moments, shape_finding, shape_words
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, OverIdentification
from momentmix.fitting.inference.row_findings import RowFindings, at_floor
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.inference.whitening import (
    CORRELATION_THAT_MATTERS,
    SIGNIFICANT_DEVIATES,
    pairs_together,
)
from momentmix.index_sets import index_sets
from momentmix.mixture.blocks import Blocks, one_a_block
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import Spread

Pair = tuple[int, int]

LEAST_ROWS_PER_PARAMETER = 2  # with fewer, neither parameters nor their errors are known
# One row's share of a column's fourth moment or, where that is unknown, of its variance: from
# here on the fit is about this row.
_SHARE_OF_FOURTH_MOMENT, _SHARE_OF_VARIANCE = 0.5, 0.25
_EXCESS_THAT_MATTERS = 1.0  # of a fourth standardized moment; Student's t with 10 degrees has it
LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
_MANY_FEATURES = 9  # of independent columns: more of them need no more rows in a component
_CHANCE = 1e-4  # that a probability of being seen is said to differ where it does not
# Of rows that were left out, in deviations: a small effect, which moves a weight by several points
# where groups are two or three deviations apart. Fewer rows cannot change the answer.
_SHIFT_THAT_MATTERS, _FEWEST_DROPPED = 0.2, 10
COPY_CORRELATION = 0.999  # two different measurements are rarely so close
_TAKEN_UP = 0.3  # of a correlation, by components that describe a part of it
_AT_BOUND = 0.995  # of a correlation: 1 to two digits, which is a bound and no measurement
_EXPLAINED = 1e-6  # share of a variance that is left where gaps explain it
_FEWEST_TOGETHER = 10.0  # missing cells in the same rows, beyond those that the model expects
_MOST_JOINED = 24  # columns in the code of a remedy
_AT_RANDOM = {"missing": "mar"}


def collect_findings(
    moments: StandardMoments,
    parameters: Parameters,
    test: OverIdentification,
    capacity: int,
    from_rows: bool = False,
    shown: RowFindings | None = None,
) -> list[Finding]:
    """All findings about a fit of standardized features."""
    were_rows_checked, part = shown is not None, moments.testable(parameters)
    shown = RowFindings([], set(), set(), False) if shown is None else shown
    coarse = np.isin(moments.columns, [] if part is None else part[0].columns[[*shown.coarse]])
    findings = [
        *_about_size(moments, parameters, capacity, from_rows),
        *component_findings(moments, parameters, np.flatnonzero(coarse).tolist()),
    ]
    is_whole = part is not None and part[0] is moments
    if not (is_whole or test.testable):
        findings.append(found(NOTE, UNTESTED))
    if part is None:
        return findings
    moments, p = part
    influenced = _influenced_feature(moments)
    outliers = list(_about_outliers(moments, influenced, were_rows_checked))
    compared = from_rows and shown.of_everywhere
    heavy = [] if compared else _heavy_tailed(moments, p, influenced)
    findings += [
        *_about_copies(moments),
        *shown.findings,
        *([] if compared else _about_shapes(moments, p, test)),
        *([found(WARNING, "heavy-tails", moments.columns_of(heavy))] if heavy else []),
        *outliers,
        *_about_test(test),
    ]
    # Components that serve one row, or one of the values that repeat, leave the other columns
    # correlated within them: that is a consequence, not a cause.
    floored = at_floor(p)[:, sorted(shown.coarse)]
    if not floored.any() and all(f.severity is not FATAL for f in outliers):
        explained = {*influenced, *heavy, *shown.explained}
        findings += _about_correlations(moments, p, test, explained, from_rows)
    if not from_rows:
        findings += _about_gaps_together(moments, p)
    return findings


def _about_size(
    moments: StandardMoments, p: Parameters, capacity: int, from_rows: bool
) -> Iterator[Finding]:
    r, d = p.means.shape
    if r > capacity and not from_rows:
        size = {"order": moments.order, "n_features": d, "capacity": capacity, "asked": r}
        yield found(FATAL, "over-capacity", **size)
    least = LEAST_ROWS_PER_PARAMETER * p.n_free
    if moments.n_effective < least:
        n = moments.n_effective
        yield found(FATAL, "too-few-rows", n_rows=n, n_parameters=p.n_free, least=least)


def weight_findings(uncertainty: Uncertainty, order: Int) -> Iterator[Finding]:
    """Yield a finding about weights that the rows do not determine; `order` numbers components."""
    unknown = np.flatnonzero(uncertainty.unknown_weights[order]).tolist()
    if unknown:
        yield found(FATAL, "unknown-weights", components=unknown)


def find_constants(moments: StandardMoments) -> list[Finding]:
    """Return findings about columns that hold one value only, which the fit leaves out."""
    numbers = np.flatnonzero(moments.constant & moments.is_number).tolist()
    return [found(WARNING, "constant-column", moments.columns_of(numbers))] if numbers else []


def find_dropped(moments: StandardMoments, dropped: Spread | None) -> list[Finding]:
    """Return a finding where rows with gaps, which were left out, differ from those kept."""
    if dropped is None or moments.n_rows < 2:
        return []
    n, kept = dropped.counts, moments.scale**2
    with np.errstate(over="ignore", invalid="ignore"):
        apart = (dropped.means - moments.shift) / moments.scale
        own = dropped.squares / np.maximum(n - 1.0, 1.0) / kept
        noise = np.sqrt(own / np.maximum(n, 1.0) + 1.0 / moments.n_rows)
        is_clear = np.abs(apart) > noise * ndtri(1.0 - _CHANCE / (2 * moments.n_features))
    is_clear &= (np.abs(apart) > _SHIFT_THAT_MATTERS) & ~moments.constant & (n >= _FEWEST_DROPPED)
    places = np.flatnonzero(is_clear)
    if not places.size:
        return []
    order = places[np.argsort(-np.abs(apart[places]))]
    worst = {moments.part(j).column: j for j in order[::-1].tolist()}  # of a category, one level
    columns = moments.columns_of(order.tolist())
    asides = [f"{apart[worst[c]]:+.2f} deviations" for c in columns]
    return [found(FATAL, "dropped-differ", columns, remedy=_AT_RANDOM, asides=asides)]


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


def _influenced_feature(moments: StandardMoments) -> dict[int, float]:
    """The feature whose farthest row moves third moments too much, and how far that row is."""
    low, high = moments.standard_range
    farthest = np.where(moments.is_number, np.maximum(-low, high), 0.0)
    # One row's share in a third moment against that moment's noise 1/√N.
    influence = farthest**3 / np.sqrt(moments.n_effective)
    j = int(influence.argmax())
    # Normal rows reach 6 deviations, and then by chance: neither alone is an outlier.
    return {j: float(farthest[j])} if influence[j] > 10 and farthest[j] > 8 else {}


def _about_outliers(
    moments: StandardMoments, influenced: dict[int, float], were_rows_checked: bool
) -> Iterator[Finding]:
    for j, far in influenced.items():
        n = moments.n_effective
        fourth = np.nan if moments.powers is None else float(moments.powers[1, j])
        dominates = far**2 > _SHARE_OF_VARIANCE * n
        if np.isfinite(fourth):
            dominates = far**4 > _SHARE_OF_FOURTH_MOMENT * n * fourth
        if dominates or not were_rows_checked:  # else it is the tail of the column
            severity, columns = FATAL if dominates else WARNING, moments.columns_of([j])
            share = float(far**3 / np.sqrt(n))
            yield found(severity, "outlier-influence", columns, deviations=far, influence=share)


def _heavy_tailed(moments: StandardMoments, p: Parameters, others: Collection[int]) -> list[int]:
    """Features with a larger fourth moment than the mixture's, but for `others`."""
    if moments.powers is None:
        return []
    powers = feature_powers(p, 8)
    fourth, eighth = p.weights @ powers[4], p.weights @ powers[8]
    excess = np.nan_to_num(moments.powers[1] - fourth)
    spread = np.maximum(eighth - fourth**2, 0.0)  # rounding may leave less for answers
    noise = np.sqrt(spread / moments.n_effective)
    heavy = (excess > _EXCESS_THAT_MATTERS) & (excess > SIGNIFICANT_DEVIATES * noise)
    return [j for j in np.flatnonzero(heavy).tolist() if j not in others]


def _about_test(test: OverIdentification) -> Iterator[Finding]:
    if test.overdispersed_model:
        dof = test.degrees_of_freedom
        yield found(FATAL, "no-power", statistic=test.statistic, degrees_of_freedom=dof)


# -- components -----------------------------------------------------------------------------------


def component_findings(
    moments: StandardMoments, p: Parameters, coarse: Collection[int] = ()
) -> Iterator[Finding]:
    """Yield findings about the components; `coarse` are features whose values repeat."""
    d, rows = moments.n_features, moments.n_effective * p.weights
    floored = at_floor(p)
    repeating = np.isin(np.arange(d), list(coarse))
    shrunk = (floored & ~repeating).sum(axis=1) > 1
    light = rows < LEAST_ROWS_PER_COMPONENT
    needed = max(p.blocks.widest, min(d, _MANY_FEATURES)) + 1
    spurious = (rows < needed) | (light & shrunk)
    if p.n_components > 1 and spurious.any():
        few = np.flatnonzero(spurious).tolist()
        asides = [f"{rows[i]:.0f} rows" for i in few]
        yield found(FATAL, "spurious-components", components=few, asides=asides, n_features=d)
    gaps = [law.features[0] for law in moments.laws if law.at_random]
    if gaps:
        yield found(NOTE, "missing-at-random", moments.columns_of(gaps))
    yield from _about_dispersion(moments, p)
    if p.n_components > 1:
        for law, which in zip(p.blocks.laws, p.never_seen(moments.n_effective), strict=True):
            if which.any():
                columns = moments.columns_of(law.features[:1])
                yield found(WARNING, "never-seen", columns, count=int(which.sum()))


def _about_dispersion(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Yield findings about values whose variance within components does not suit their means."""
    values = ((law.features[0], law.family) for law in p.blocks.laws if not law.at_random)
    counts = {feature: value for feature, value in values if value.singular}
    if not counts or not len(moments.squared):
        return
    powers = feature_powers(p, 4)
    second, fourth = p.weights @ powers[2], p.weights @ powers[4]
    noise = np.sqrt(np.maximum(fourth - second**2, 1e-300) / moments.n_effective)
    excess = moments.squared[0][:, 0] - second
    within = p.weights @ p.variances  # of the counts themselves where none is missing
    for j, value in counts.items():
        ratio = 1.0 + excess[j] / within[j]
        is_clear = abs(excess[j]) > SIGNIFICANT_DEVIATES * noise[j]
        if is_clear and abs(ratio - 1.0) > DISPERSION_THAT_MATTERS:
            columns, words = moments.columns_of([j]), value.singular
            remedy = {"families": {columns[0]: value.wider}} if value.wider and ratio > 1 else {}
            # A variance of its own cannot be less than the mean: another family is needed.
            severity = FATAL if value.free and ratio < 1 else WARNING
            yield found(severity, "dispersion", columns, (), remedy, ratio=float(ratio), law=words)


# -- pairs of columns -----------------------------------------------------------------------------


def copies_of(moments: StandardMoments) -> list[Pair]:
    """Pairs of features that are copies of each other."""
    if moments.order < 2:
        return []
    pairs = index_sets(moments.n_features, 2)
    alike = np.abs(moments.orders[2]) > COPY_CORRELATION
    copies = [(int(j), int(k)) for j, k in pairs[one_a_block(pairs, moments.alone) & alike]]
    covariance = moments.total_covariance if copies else np.empty(0)
    return [
        pair
        for pair in copies
        if all(_is_whole_column(moments, j) for j in pair)
        and abs(_correlation_where_seen(moments, covariance, pair)) > COPY_CORRELATION
    ]


def _is_whole_column(moments: StandardMoments, feature: int) -> bool:
    """Whether a feature is all of a column but its gaps, and not one of several levels."""
    own = moments.part(feature)
    levels = [p for p in moments.parts if p.column == own.column and p.level is not None]
    return not own.is_seen and len(levels) < 2


def _correlation_where_seen(moments: StandardMoments, covariance: Float, pair: Pair) -> float:
    """Correlation of two features given whether their cells are seen; NaN where it is unknown."""
    columns = {moments.part(j).column for j in pair}
    parts = ((s, moments.part(s)) for s in range(moments.n_features) if moments.parts)
    seen = [s for s, p in parts if p.is_seen and p.column in columns and s not in pair]
    both, given = covariance[np.ix_(pair, pair)], covariance[np.ix_(seen, pair)]
    left = both - given.T @ np.linalg.pinv(covariance[np.ix_(seen, seen)]) @ given
    if not (np.diagonal(left) > _EXPLAINED * np.diagonal(both)).all():
        return np.nan
    return float(left[0, 1] / np.sqrt(left[0, 0] * left[1, 1]))


def _about_copies(moments: StandardMoments) -> Iterator[Finding]:
    """Columns that hold the same values."""
    if values := copies_of(moments):
        columns = moments.columns_of(j for pair in values for j in pair)
        pairs = [[*(moments.column_name(j) for j in pair), None] for pair in values]
        yield found(WARNING, "duplicate-columns", columns, pairs=pairs)


def _about_gaps_together(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns with missing cells in the same rows, which the test of the moments leaves out."""
    pairs: dict[Pair, float | None] = {}
    for numbers in pairs_together(moments, p):
        j, k = (p.blocks.laws[number].features[-1] for number in numbers)
        within = moments.total_covariance[j, k] - float(p.weights @ (p.means[:, j] * p.means[:, k]))
        if moments.n_effective * within * moments.scale[j] * moments.scale[k] > _FEWEST_TOGETHER:
            pairs[j, k] = None
    if pairs:
        found_pairs = _about_pairs("shared-gaps", moments, pairs, _AT_RANDOM)
        yield replace(found_pairs, severity=FATAL)


def _about_correlations(
    moments: StandardMoments,
    p: Parameters,
    test: OverIdentification,
    explained: Collection[int],
    from_rows: bool,
) -> Iterator[Finding]:
    """Pairs of columns that the test finds correlated, and the blocks that join them."""
    if not test.testable or test.p_value >= LEAST_P_VALUE:
        return
    strong = _correlated(moments, p, test, explained)
    others = set(p.blocks.with_law.tolist())
    joinable = {pair: value for pair, value in strong.items() if not set(pair) & others}
    if joinable:
        blocks = p.blocks.joined_by(joinable)
        remedy = {"blocks": _joined(moments, blocks)}
        yield _about_pairs("correlated-columns", moments, joinable, remedy)
    rest = {pair: value for pair, value in strong.items() if pair not in joinable}
    gaps = {pair: x for pair, x in rest.items() if any(moments.part(j).is_seen for j in pair)}
    rest = {pair: value for pair, value in rest.items() if pair not in gaps}
    if rest:
        yield _about_pairs("correlated-columns", moments, rest, {})
    # The rows themselves are tested in `missing_dependence`.
    if gaps and not from_rows:
        yield _about_pairs("shared-gaps", moments, gaps, _AT_RANDOM)


def _correlated(
    moments: StandardMoments, p: Parameters, test: OverIdentification, explained: Collection[int]
) -> dict[Pair, float | None]:
    """Yield pairs that are correlated within components, and the correlation where it is known.

    The estimate of the test is printed where it has the sign of the residual second moment and is
    somewhat larger, since the fit explains a part. Else the residual is printed. The estimate alone
    counts where correlations of different signs cancel.
    """
    within = moments.total_covariance - (p.weights * (p.means - p.weights @ p.means).T) @ p.means
    np.fill_diagonal(within, p.weights @ p.variances)
    places = {column: j for j, column in enumerate(moments.columns.tolist())}
    block, correlated = p.blocks.block_of, {}
    for c in test.correlations:
        pair = places[c.first], places[c.second]
        if block[pair[0]] == block[pair[1]] or set(pair) & set(explained):
            continue
        pooled = _correlation_where_seen(moments, within, pair)
        is_known = CORRELATION_THAT_MATTERS < abs(pooled) < _AT_BOUND
        is_estimated = CORRELATION_THAT_MATTERS < abs(c.value) < _AT_BOUND
        is_estimated &= not any(moments.part(j).is_seen for j in pair)  # gaps depend on gaps
        if abs(c.deviates) > SIGNIFICANT_DEVIATES and (is_known or is_estimated):
            is_near = 0.0 <= (c.value - pooled) * np.sign(pooled) < _TAKEN_UP
            value = c.value if is_estimated and is_near else pooled
            correlated[pair] = float(value) if is_known else None
    return correlated


def _about_pairs(
    kind: str,
    moments: StandardMoments,
    pairs: dict[Pair, float | None],
    remedy: dict[str, Any],
) -> Finding:
    columns = moments.columns_of(j for pair in pairs for j in pair)
    listed = [
        [moments.part(j).words, moments.part(k).words, value] for (j, k), value in pairs.items()
    ]
    return found(WARNING, kind, columns, remedy=remedy, pairs=listed)


def _joined(moments: StandardMoments, blocks: Blocks) -> str | list[list[str | int]]:
    """Return the keywords of `fit` that join columns in these blocks."""
    sizes = [len(block) for block in blocks.joined]
    # Pairs that link most of the columns are those of a fit that is wrong as a whole.
    if sum(sizes) > _MOST_JOINED or max(sizes) > max(3, blocks.n_features // 2):
        return "auto"
    return [moments.columns_of(block) for block in blocks.joined]
