"""Tests of all means, and of variances and correlations, of two sides.

What one row adds to a mean, variance or correlation is a polynomial of degree 2 in the features:

| symbol | name here | shape |
|---|---|---|
| ψ of each parameter as Σ coefficients · x_a x_b | `Polynomials` | (n, n_pairs) |
| Cov ψ from the moments of degree 4 | `Polynomials.covariance` | (n, n) |

With p, m, u of `compared.side`, q = E s_i s_j and σ the spreads that correlations are made with:
the mean adds u/p; the variance (u² − V s)/p; the covariance c = E u_i u_j / q adds
ψ_c = (u_i u_j − c s_i s_j)/q − E[s_i u_j]/q · u_i/p_i − E[s_j u_i]/q · u_j/p_j, and the correlation
ψ_c/(σ_i σ_j) − ρ/2 · (ψ_i/σ_i² + ψ_j/σ_j²) with the variances' ψ_i.

Tests of several parameters together take p, m, V, c and q of both summaries (`_common_points`):
terms of second order are all that is left along directions that hardly vary. At the numbers of each
summary 6 in 10 pairs of one law were called different, with 15 columns of rare 0 and 1.
"""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from momentmix._typing import Float, Int
from momentmix.findings.finding import NOTE, Finding, found
from momentmix.monitoring.compared.changes import Change, ChangeEstimate, ColumnTests
from momentmix.monitoring.compared.side import Side
from momentmix.monitoring.compared.significance import FEW, JointTest, joint_test, two_sided

_ROWS_PER_DIRECTION = 4  # of the smaller summary, for Hotelling's test
_MOST_PAIRS = 5000  # whose covariance is built
_SURE = 6.0  # standard errors of a difference of means
_STIFF = 1e-12  # variance of what one row adds to a correlation; below, columns are copies
_MOVED = 1e-3  # change of such a correlation that is no rounding


def means_together(tests: ColumnTests) -> JointTest | None:
    """Hotelling's test of means, shares of levels and of cells that are seen."""
    a, b = tests.a, tests.b
    if not np.isfinite(a.table.second).all() or not np.isfinite(b.table.second).all():
        return None  # a summary of order 1
    share, smaller = tests.common(a.mean, b.mean), min(a.n, b.n)
    frequent = np.minimum(share, 1 - share) * np.minimum(a.n_seen, b.n_seen) >= FEW
    own = np.flatnonzero(tests.varies & (a.number | frequent))
    gone = 1 - (a.n_seen + b.n_seen) / (a.n + b.n)
    first = np.diff(a.column, prepend=-1) > 0  # value of its column
    seen = np.flatnonzero(first & (np.minimum(gone, 1 - gone) * smaller >= FEW))
    if not 0 < len(own) + len(seen) <= smaller / _ROWS_PER_DIRECTION:
        return None
    changes = np.concatenate([_shifts(tests)[own], (b.share - a.share)[seen]])
    left, right = (_covariance_of_means(side, own, seen) for side in (a, b))
    kurtosis = float(np.nanmean(np.append(tests.common_kurtosis[own], 3.0)))
    return joint_test(changes, left, right, a.n, b.n, kurtosis)


def _shifts(tests: ColumnTests) -> Float:
    """Differences of means, of numbers in common deviations, of shape (k,)."""
    a, b = tests.a, tests.b
    return np.where(a.number, tests.means.effect, b.mean - a.mean)


def _covariance_of_means(side: Side, own: Int, seen: Int) -> Float:
    """Covariance of what one row adds to means of `own`, and to shares of cells of `seen`."""
    n, one = len(own) + len(seen), side.table.one
    matrix = np.zeros((n, one + 1))
    rows = np.arange(len(own))
    matrix[rows, side.value[own]] = 1 / side.share[own]
    matrix[rows, side.seen[own]] -= side.mean[own] / side.share[own]
    matrix[len(own) + np.arange(len(seen)), side.seen[seen]] = 1.0
    mean = matrix @ side.table.second[:, one]
    return np.asarray(matrix @ side.table.second @ matrix.T - np.outer(mean, mean))


def second_together(
    tests: ColumnTests, names: list[str], remarks: list[Finding]
) -> tuple[tuple[Change, ...], JointTest | None]:
    """Changes of correlations, and Hotelling's test of variances and correlations together."""
    a, b, k = tests.a, tests.b, len(tests.spread)
    n_pairs = k * (k - 1) // 2
    if n_pairs > _MOST_PAIRS:
        remarks.append(found(NOTE, "too-many-pairs", n_pairs=n_pairs))
        return (), None
    if not all(np.isfinite(side.table.pair_covariance).all() for side in (a, b)):
        remarks.append(found(NOTE, "order-below-4"))
        return (), None
    own = np.flatnonzero(a.number & tests.varies & np.isfinite(tests.spreads.p_value))
    i, j = _tested_pairs(tests)
    if not len(own) + len(i):
        return (), None
    parts = _scores(tests, own, i, j)
    left, right = (part.covariance() for part in parts)
    difference = parts[1].means() - parts[0].means()
    scores = [np.maximum(np.diag(x)[len(own) :], 0.0) for x in (left, right)]
    changes = _changes(tests, i, j, names, difference[len(own) :], scores)
    most = min(a.n, b.n) / _ROWS_PER_DIRECTION
    if len(difference) > most:
        remarks.append(found(NOTE, "pairs-one-by-one"))
        difference = difference[: len(own)]
    n = len(difference)
    if not 0 < n <= most:
        return changes, None
    return changes, joint_test(difference, left[:n, :n], right[:n, :n], a.n, b.n)


def _tested_pairs(tests: ColumnTests) -> tuple[Int, Int]:
    """Pairs of values of different columns whose rows are enough, on both sides."""
    a, b = tests.a, tests.b
    i, j = np.triu_indices(len(a.value), 1)
    column = a.column
    kept = tests.varies[i] & tests.varies[j] & (column[i] != column[j])
    share = tests.common(a.mean, b.mean)
    rare = np.where(a.number, 1.0, np.minimum(share, 1 - share))
    rows = np.minimum(a.n * a.both_seen[i, j], b.n * b.both_seen[i, j]) * rare[i] * rare[j]
    kept &= rows >= FEW
    for side in (a, b):
        kept &= (side.variance[i] > 0) & (side.variance[j] > 0)
    return i[kept], j[kept]


def _scores(tests: ColumnTests, own: Int, i: Int, j: Int) -> list[Polynomials]:
    """Return ψ of the variances of `own`, and of the correlations at common spreads."""
    sides = tests.sides
    # A number has the common unit; the indicator of a level has none.
    unit = np.sqrt(tests.common(sides[0].variance, sides[1].variance))
    rows = [side.n * side.both_seen[i, j] for side in sides]
    parts = [n * side.covariance[i, j] for n, side in zip(rows, sides, strict=True)]
    common = (parts[0] + parts[1]) / (rows[0] + rows[1]) / (unit[i] * unit[j])
    scores = []
    for side, at in zip(sides, _common_points(*sides, _shifts(tests)), strict=True):
        polynomials = Polynomials(side, len(own) + len(i), at)
        polynomials.add_variances(np.arange(len(own)), own)
        polynomials.add_correlations(len(own) + np.arange(len(i)), i, j, unit, common)
        scores.append(polynomials)
    return scores


def _changes(
    tests: ColumnTests, i: Int, j: Int, names: list[str], score: Float, scores: list[Float]
) -> tuple[Change, ...]:
    """Changes of correlations, from differences of scores and their variances in a row."""
    sides, rho, own = tests.sides, [], []
    for side in sides:
        spread = np.sqrt(side.variance)
        rho.append(np.asarray(side.covariance[i, j] / (spread[i] * spread[j])))
        polynomials = Polynomials(side, len(i), side)
        polynomials.add_correlations(np.arange(len(i)), i, j, spread, rho[-1])
        own.append(np.maximum(polynomials.variances(), 0.0))
    n = [np.full(len(i), side.n) for side in sides]
    effect = rho[1] - rho[0]
    p = np.maximum(two_sided(effect, *own, *n), two_sided(score, *scores, *n))
    stiff = np.maximum(own[0], own[1]) <= _STIFF  # copies of a column
    p = np.where(stiff, np.where(np.abs(effect) > _MOVED, 0.0, nan), p)
    estimate = ChangeEstimate(effect, np.sqrt(own[0] / n[0] + own[1] / n[1]), p)
    pairs = zip(i.tolist(), j.tolist(), rho[0].tolist(), rho[1].tolist(), strict=True)
    return tuple(
        estimate.of(t, Change("correlation", names[x], names[y], None, first, second, nan))
        for t, (x, y, first, second) in enumerate(pairs)
    )


class _Point(NamedTuple):
    """Parameters of two sides together at which ψ is taken, named as in `Side`."""

    share: Float
    mean: Float
    variance: Float
    both_seen: Float
    covariance: Float
    seen_with: Float


def _common_points(a: Side, b: Side, shift: Float) -> tuple[_Point, _Point]:
    """Return the parameters of two sides together, whose means differ by `shift`, in each's units.

    The center is halfway between the means: with another one, the variances would differ where the
    means do. Means that surely differ are each a center, since the shift would add to the noise.
    """
    weight = a.n / (a.n + b.n)
    noise = np.sqrt(a.variance / a.n_seen + b.variance / b.n_seen)
    half = np.where(np.abs(shift) <= _SURE * noise, shift, 0.0) / 2
    rows = a.n_seen / (a.n_seen + b.n_seen)
    pairs = weight * a.both_seen, (1 - weight) * b.both_seen
    both_seen = pairs[0] + pairs[1]
    share = weight * a.share + (1 - weight) * b.share
    variance = rows * a.variance + (1 - rows) * b.variance
    covariance = (pairs[0] * a.covariance + pairs[1] * b.covariance) / both_seen
    rest = variance, both_seen, covariance, weight * a.seen_with + (1 - weight) * b.seen_with
    return _Point(share, a.mean + half, *rest), _Point(share, b.mean - half, *rest)


class Polynomials:
    """`n` polynomials of degree 2 in the features of one side, with parameters `at` a point."""

    def __init__(self, side: Side, n: int, at: Side | _Point) -> None:
        self._side, self._n, self._at = side, n, at
        self._terms: list[tuple[Int, Int, Float]] = []

    def add(self, rows: Int, left: Any, right: Any, factors: Any) -> None:
        """Add factors · x_left x_right to some polynomials."""
        rows, left, right, factors = np.broadcast_arrays(rows, left, right, factors)
        kept = factors != 0
        pairs = self._side.table.pair_numbers(left, right)
        self._terms.append((rows[kept], pairs[kept], factors[kept].astype(np.float64)))

    def add_means(self, rows: Int, own: Int, factors: Any = 1.0) -> None:
        """Add ψ of the means of values `own`."""
        side, at = self._side, self._at
        factors = factors / at.share[own]
        self.add(rows, side.value[own], side.table.one, factors)
        self.add(rows, side.seen[own], side.table.one, -at.mean[own] * factors)

    def add_variances(self, rows: Int, own: Int, factors: Any = 1.0) -> None:
        """Add ψ of the variances of values `own`."""
        side, at = self._side, self._at
        factors = factors / at.share[own]
        self._add_products(rows, own, own, factors)
        self.add(rows, side.seen[own], side.table.one, -at.variance[own] * factors)

    def add_correlations(self, rows: Int, i: Int, j: Int, spread: Float, rho: Float) -> None:
        """Add ψ of the correlations of values i and j, made with these spreads and ρ."""
        side, at = self._side, self._at
        factors = 1 / (spread[i] * spread[j]) / at.both_seen[i, j]
        self._add_products(rows, i, j, factors)
        self.add(rows, side.seen[i], side.seen[j], -at.covariance[i, j] * factors)
        self.add_means(rows, i, -at.seen_with[i, j] * factors)
        self.add_means(rows, j, -at.seen_with[j, i] * factors)
        self.add_variances(rows, i, -rho / 2 / spread[i] ** 2)
        self.add_variances(rows, j, -rho / 2 / spread[j] ** 2)

    def _add_products(self, rows: Int, i: Int, j: Int, factors: Any) -> None:
        v, s, m = self._side.value, self._side.seen, self._at.mean
        self.add(rows, v[i], v[j], factors)
        self.add(rows, v[i], s[j], -m[j] * factors)
        self.add(rows, s[i], v[j], -m[i] * factors)
        self.add(rows, s[i], s[j], m[i] * m[j] * factors)

    def _matrix(self) -> Any:
        """Factors as a sparse matrix; its columns are the pairs of the table."""
        rows, pairs, factors = map(np.concatenate, zip(*self._terms, strict=True))
        shape = self._n, len(self._side.table.pairs)
        return sparse.csr_array(sparse.coo_array((factors, (rows, pairs)), shape=shape))

    def means(self) -> Float:
        """Means of the polynomials, of shape (n,)."""
        table = self._side.table
        return np.asarray(self._matrix() @ table.second[table.pairs[:, 0], table.pairs[:, 1]])

    def covariance(self) -> Float:
        """Covariance of the polynomials of one row, of shape (n, n)."""
        matrix = self._matrix()
        return np.asarray(matrix @ (matrix @ self._side.table.pair_covariance).T)

    def variances(self) -> Float:
        """Variances of the polynomials of one row, of shape (n,)."""
        matrix = self._matrix()
        return np.asarray(matrix.multiply(matrix @ self._side.table.pair_covariance).sum(axis=1))
