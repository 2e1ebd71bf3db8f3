"""Findings about pairs of columns: copies, gaps in the same rows, correlations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.capacity.monomials import FEWEST_BLOCKS
from momentmix.findings.finding import NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE, OverIdentification
from momentmix.index_sets import index_sets
from momentmix.mixture.blocks import Blocks, one_a_block
from momentmix.mixture.parameters import Parameters

Pair = tuple[int, int]

CORRELATION_THAT_MATTERS = 0.1  # with many rows, smaller ones are significant and change little
SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns or pairs are tested
COPY_CORRELATION = 0.999  # two different measurements are rarely so close
_TAKEN_UP = 0.3  # of a correlation, by components that describe a part of it
_AT_BOUND = 0.995  # of a correlation: 1 to two digits, which is a bound and no measurement
_EXPLAINED = 1e-6  # share of a variance that is left where gaps explain it
_MOST_JOINED = 24  # columns in the code of a remedy
_DROP_GAPS = {"missing": "drop"}


def copies_of(moments: StandardMoments) -> tuple[list[Pair], list[Pair]]:
    """Pairs of features that are copies of each other: values, and whether cells are seen.

    Values are compared where they are seen: equal gaps alone make the features alike. Two levels
    can be in the same rows where their columns have others as well.
    """
    if moments.order < 2:
        return [], []
    pairs = index_sets(moments.n_features, 2)
    alike = np.abs(moments.orders[2]) > COPY_CORRELATION
    copies = [(int(j), int(k)) for j, k in pairs[one_a_block(pairs, moments.alone) & alike]]
    covariance = moments.total_covariance if copies else np.empty(0)
    values = [
        pair
        for pair in copies
        if all(_is_whole_column(moments, j) for j in pair)
        and abs(_correlation_where_seen(moments, covariance, pair)) > COPY_CORRELATION
    ]
    return values, [pair for pair in copies if all(moments.part(j).is_seen for j in pair)]


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


def about_copies(moments: StandardMoments) -> Iterator[Finding]:
    """Columns that hold the same values, or have gaps in the same rows."""
    values, gaps = copies_of(moments)
    if values:
        yield found(WARNING, "duplicate-columns", moments.columns_of(values[0]))
    if gaps:
        columns = moments.columns_of(sorted({j for pair in gaps for j in pair}))
        yield found(NOTE, "shared-gaps", columns, remedy=_DROP_GAPS)


def about_correlations(
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
        needs_rows = not from_rows and len(blocks.partition) < FEWEST_BLOCKS
        yield _about_pairs("correlated-columns", moments, joinable, remedy, needs_rows=needs_rows)
    rest = {pair: value for pair, value in strong.items() if pair not in joinable}
    gaps = {pair: x for pair, x in rest.items() if any(moments.part(j).is_seen for j in pair)}
    rest = {pair: value for pair, value in rest.items() if pair not in gaps}
    if rest:
        yield _about_pairs("dependent-columns", moments, rest, {})
    known = set(copies_of(moments)[1])
    gaps = {pair: value for pair, value in gaps.items() if pair not in known}
    if gaps:
        yield _about_pairs("shared-gaps", moments, gaps, _DROP_GAPS)


def _correlated(
    moments: StandardMoments, p: Parameters, test: OverIdentification, explained: Collection[int]
) -> dict[Pair, float | None]:
    """Pairs that are correlated within components, and the correlation where it is known.

    The test estimates correlations from the misfit, component by component; where the model is
    wrong otherwise too, an estimate can reach its bound of 1. What the components leave of the
    second moments, pooled over them, is what the rows show; the fit has taken up a part of it. So
    the estimate is printed where it is of that sign and somewhat larger, else what the rows show.
    The estimate alone counts where correlations of different signs cancel.
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
    needs_rows: bool = False,
) -> Finding:
    columns = moments.columns_of(j for pair in pairs for j in pair)
    listed = [
        [moments.part(j).words, moments.part(k).words, value] for (j, k), value in pairs.items()
    ]
    return found(WARNING, kind, columns, remedy=remedy, pairs=listed, needs_rows=needs_rows)


def _joined(moments: StandardMoments, blocks: Blocks) -> str | list[list[str | int]]:
    """Return what joins columns in these blocks, for `fit`."""
    sizes = [len(block) for block in blocks.joined]
    # Pairs that link most of the columns are those of a fit that is wrong as a whole.
    if sum(sizes) > _MOST_JOINED or max(sizes) > max(3, blocks.n_features // 2):
        return "auto"
    return [moments.columns_of(block) for block in blocks.joined]
