"""Tests of all means, and of all second moments, of two sides together."""

from __future__ import annotations

import numpy as np

from momentmix._typing import Int
from momentmix.monitoring.compared.changes import Change, ColumnTests
from momentmix.monitoring.compared.influences import (
    Point,
    Polynomials,
    common_points,
    covariance_of_means,
)
from momentmix.monitoring.compared.pairs import PairTests
from momentmix.monitoring.compared.side import Side
from momentmix.monitoring.compared.significance import FEW, JointTest, joint_test

_ROWS_PER_DIRECTION = 4  # of the smaller summary, for Hotelling's test
_MOST_PAIRS = 5000  # whose covariance is built
_NOT_COMPLETE = (
    "correlations are not tested and spreads only one by one: that needs all moments of degree 4. "
    "Summarize with order 4 or more."
)


def means_together(tests: ColumnTests) -> JointTest | None:
    """Hotelling's test of means, shares of levels and of cells that are seen."""
    a, b = tests.a, tests.b
    if not np.isfinite(a.table.second).all() or not np.isfinite(b.table.second).all():
        return None  # a summary of order 1
    share, smaller = tests.common(a.mean, b.mean), min(a.n, b.n)
    frequent = np.minimum(share, 1 - share) * np.minimum(a.n_seen, b.n_seen) >= FEW
    own = np.flatnonzero(tests.varies & (a.number | frequent))
    gone = 1 - (a.n_seen + b.n_seen) / (a.n + b.n)
    first = np.diff(a.plain.column, prepend=-1) > 0  # value of its column
    seen = np.flatnonzero(first & (np.minimum(gone, 1 - gone) * smaller >= FEW))
    if not 0 < len(own) + len(seen) <= smaller / _ROWS_PER_DIRECTION:
        return None
    change = np.where(a.number, tests.means.effect, b.mean - a.mean)
    changes = np.concatenate([change[own], (b.share - a.share)[seen]])
    left, right = (covariance_of_means(side, own, seen) for side in (a, b))
    kurtosis = float(np.nanmean(np.append(tests.common_kurtosis[own], 3.0)))
    return joint_test(changes, left, right, a.n, b.n, kurtosis)


def second_together(
    tests: ColumnTests, names: list[str], notes: list[str]
) -> tuple[tuple[Change, ...], JointTest | None]:
    """Changes of correlations, and Hotelling's test of variances and correlations together."""
    a, b, k = tests.a, tests.b, len(tests.spread)
    n_pairs = k * (k - 1) // 2
    if n_pairs > _MOST_PAIRS:
        notes.append(f"correlations of {n_pairs:,} pairs are too many to test; select columns.")
        return (), None
    if not all(np.isfinite(side.table.pair_covariance).all() for side in (a, b)):
        notes.append(_NOT_COMPLETE)
        return (), None
    own = np.flatnonzero(a.number & tests.varies & np.isfinite(tests.spreads.p_value))
    pairs = PairTests(tests)
    if not len(own) + len(pairs):
        return (), None
    shift = np.where(a.number, tests.means.effect, b.mean - a.mean)
    points = common_points(a, b, shift)
    parts = [_scores(s, own, pairs, at) for s, at in zip((a, b), points, strict=True)]
    left, right = (part.covariance() for part in parts)
    difference = parts[1].means() - parts[0].means()
    scores = [np.maximum(np.diag(x)[len(own) :], 0.0) for x in (left, right)]
    changes = tuple(pairs.changes(difference[len(own) :], scores[0], scores[1], names))
    most = min(a.n, b.n) / _ROWS_PER_DIRECTION
    if len(difference) > most:
        notes.append("rows are too few to test all correlations together; each is tested alone.")
        difference = difference[: len(own)]
    n = len(difference)
    if not 0 < n <= most:
        return changes, None
    return changes, joint_test(difference, left[:n, :n], right[:n, :n], a.n, b.n)


def _scores(side: Side, own: Int, pairs: PairTests, at: Point) -> Polynomials:
    """What one row adds to variances and to scores of correlations."""
    polynomials = Polynomials(side, len(own) + len(pairs), at)
    polynomials.add_variances(np.arange(len(own)), own)
    pairs.add_scores(polynomials, len(own))
    return polynomials
