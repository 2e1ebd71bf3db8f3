"""Whitening of the moment conditions that rows can test, and projection away from the parameters.

| symbol | name here | shape |
|---|---|---|
| C: covariance of one row's monomials | by ``scale``, ``triangle`` | (n,), (n, n) |
| W = C^{-1/2} ∂ model / ∂ θ within Σ ω = 1, unit columns | ``slopes`` | (n, n_parameters − 1) |
| I − W (WᵀW)⁻¹ Wᵀ | ``project`` | |
| n (E m²)² / E m⁴ of a product m with an indicator: rows that carry it | `carrying_rows` | (n,) |
| correlation within components of being seen | `pairs_together` | |

A product of indicators of probability π is 1 in nπ rows. With fewer than about five expected, χ²
laws do not hold, as in any sparse table of counts. Cells of two columns that are missing in the
same rows contradict the model, but not its values: products with such a gap are left out.

*Correlations.* Score tests on the residual find features that are correlated within components.

| symbol | name here | shape |
|---|---|---|
| Δ_jk,i: ∂ model / ∂ correlation of z_j, z_k in component i | ``_Directions`` | (n, n_pairs, r) |
| G = Δᵀ Δ of one pair, g = Δᵀ e, Δ whitened and projected | in `_test` | (r, r), (r,) |
| N gᵀ G⁻¹ g ~ χ²(rank G) | ``statistics`` | (n_pairs,) |
| (G + I/N)⁻¹ g: correlations, given that they are about 1 at most | ``estimates`` | (n_pairs, r) |

Each component has its own correlation, since opposite signs would cancel in a common one.
Only pairs of features of different blocks are tested. There E[u v] of monomials of the two blocks
changes with Σ_jk by E[∂u/∂z_j] E[∂v/∂z_k].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, helmert, solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtri, dtrtrs
from scipy.special import gammaincc, gammaln, ndtri_exp

from momentmix._typing import Float, Int
from momentmix.families.distribution import Distribution
from momentmix.fitting.moments.conditions import Conditions, feature_powers
from momentmix.fitting.moments.covariance import monomial_correlation
from momentmix.fitting.moments.derivative import by_feature, derivative, gram
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import colex_rank, index_sets
from momentmix.lazy import lazy_property
from momentmix.mixture.parameters import Parameters, dependent_places
from momentmix.parallel import all_threads

_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a condition's variance; far above the ridge and rounding
_DEPENDENT = 1e-11  # squared length of what a slope adds to those before it; its own length is 1
_CLEARLY_INDEPENDENT = 1e-4  # length of what a slope adds to those before it, in any order
_FEWEST_ROWS = 5.0  # that carry a condition: the usual rule for cells of tables of counts
_HIGHEST_BESIDE = 3  # power of a number in a product with an indicator
_TOGETHER = 0.5  # correlation within components of two columns' being seen
CORRELATION_THAT_MATTERS = 0.1  # with many rows, smaller ones are significant and change little
SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns or pairs are tested
_MOST_DIRECTIONS = 2000  # whitened; of more, those of the pairs that look most correlated
_CLEAR = 4.0  # deviates from which a pair is given to the tests of the others
_MOST_GIVEN = 12  # such pairs; each costs a small part of the whitening
_LEFT_OVER = 1e-6  # share of a direction's squared length that is left where parameters explain it


class Whitening:
    """Whitening and projection for one set of conditions and parameters.

    `often`: products with the inverse of the triangle take a third of the time of a solution.
    `independent` are the conditions that are no function of those before them.
    """

    def __init__(self, conditions: Conditions, parameters: Parameters, often: bool = False) -> None:
        self._conditions, self._parameters = conditions, parameters
        with all_threads(2 * parameters.means.size):
            correlation, self.scale = monomial_correlation(conditions, parameters)
            self.model = conditions.model(parameters)
            self.triangle = _factored(correlation)
        self._inverse = dtrtri(self.triangle, lower=1)[0] if often else None
        self._normals = dict[int, Float]()  # of the slopes of the first n conditions
        # What is new in a condition beside those before it has this variance.
        self.independent = np.diagonal(self.triangle) ** 2 > _REDUNDANT

    @property
    def log_determinant(self) -> float:
        """Log-determinant of C, with a bound for conditions that are functions of others."""
        new = np.maximum(np.diagonal(self.triangle) ** 2, _REDUNDANT)
        return float(2.0 * np.log(self.scale).sum() + np.log(new).sum())

    @lazy_property
    def table(self) -> Float:
        """Whitened derivatives at the parameters, by feature, of shape (n, n_places)."""
        return self.whiten(derivative(self._conditions, self._parameters).table)

    @lazy_property
    def _slopes(self) -> Float:
        return _tangent(self.table, self._parameters)

    @lazy_property
    def projection(self) -> Projection:
        """Projection away from the slopes of all conditions."""
        with all_threads(self._slopes.shape[1]):
            return self.leading(self.scale.size)

    def whiten(self, columns: Float) -> Float:
        """Return C^{-1/2}·columns; 0 for conditions that are functions of earlier ones."""
        scaled = np.empty(columns.shape, order="F")  # as LAPACK wants it
        np.divide(columns.T, self.scale, out=scaled.T)
        if self._inverse is not None and scaled.ndim == 2:
            white = dtrmm(1.0, self._inverse, scaled, lower=1, overwrite_b=1)
        else:
            white, _ = dtrtrs(self.triangle, scaled, lower=1, overwrite_b=1)
        white[~self.independent] = 0.0
        return np.asarray(white)

    def whiten_last(self, n: int) -> Float:
        """Whiten the last n conditions, in units of their deviations; (size, n)."""
        size = self.scale.size
        white = np.zeros((size, n))
        own = self.triangle[size - n :, size - n :]
        white[size - n :] = solve_triangular(own, np.eye(n), lower=True, check_finite=False)
        white[~self.independent] = 0.0
        return white

    def residual(self, values: Float) -> Float:
        """Whitened difference of observed means (n,) or (n, k) and the model's."""
        return self.whiten((values.T - self.model).T)

    def leading(self, n: int) -> Projection:
        """Projection for the first n conditions alone; whitened, they are the first n rows."""
        before = max((size for size in self._normals if size <= n), default=0)
        normal = gram(self._slopes[before:n])
        if before:
            normal += self._normals[before]
        self._normals[n] = normal
        return Projection(self._slopes[:n], normal)

    def degrees_of_freedom(self, projection: Projection) -> int:
        """Rank of the covariance of a projection's conditions minus the rank of their slopes."""
        n = projection.slopes.shape[0]
        return int(self.independent[:n].sum()) - projection.rank


class Projection:
    """I − W (WᵀW)⁻¹ Wᵀ for whitened slopes W, dependent ones left out; `normal` is WᵀW."""

    def __init__(self, slopes: Float, normal: Float | None = None) -> None:
        normal = gram(slopes) if normal is None else normal
        scale = np.maximum(np.sqrt(np.diagonal(normal)), 1e-300)
        unit = normal / scale[:, None]
        unit /= scale
        self._root, failed = dpotrf(unit, lower=1)
        kept: slice | Int = slice(None)
        if failed or np.diagonal(self._root).min() <= _CLEARLY_INDEPENDENT:
            factor, pivots, rank, _ = dpstrf(unit, tol=_DEPENDENT, lower=1)
            self._root, kept = factor[:rank, :rank], pivots[:rank] - 1  # the most independent first
        self.slopes, self._scale = slopes[:, kept], scale[kept]
        self.rank = len(self._scale)

    def project(self, whitened: Float) -> Float:
        """Return the residual of whitened columns beside the span of the slopes."""
        along = (self.slopes.T @ whitened).T / self._scale
        along = (dpotrs(self._root, along.T, lower=1)[0].T / self._scale).T
        return np.asarray(whitened - self.slopes @ along)


def _factored(correlation: Float) -> Float:
    """Cholesky factor of a correlation with the least ridge that makes it positive definite."""
    diagonal, ridge = np.diagonal(correlation).copy(), _RIDGE
    while ridge < 1.0:
        np.fill_diagonal(correlation, diagonal + ridge)
        # Symmetric, so its transpose serves, which LAPACK can overwrite.
        triangle, failed = dpotrf(correlation.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(triangle)
        lower = np.tril(correlation, -1)  # LAPACK has overwritten the other half
        correlation, ridge = lower + lower.T, 10.0 * ridge
    raise LinAlgError("the covariance of the conditions is not positive definite")


def _tangent(table: Float, parameters: Parameters) -> Float:
    """Return derivatives within Σ ω = 1, one column less, without variances given by means."""
    r = parameters.n_components
    if parameters.blocks.laws:
        is_own = np.isin(by_feature(parameters), dependent_places(parameters), invert=True)
        table = table[:, is_own]
    if r == 1:
        return table[:, 1:]
    return np.concatenate([table[:, :r] @ helmert(r).T, table[:, r:]], axis=1)


# -- conditions that a test can use ----------------------------------------------------------------


def tested_conditions(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Conditions:
    """The conditions that the rows can test."""
    if moments.is_number.all():
        return conditions
    is_used = carrying_rows(conditions, moments, parameters) >= _FEWEST_ROWS
    is_used |= (conditions.slot_exponents.sum(axis=1)) == 1  # means: what they say is fitted
    laws = parameters.blocks.laws
    for a, b in pairs_together(moments, parameters):
        for one, other in ((laws[a], laws[b]), (laws[b], laws[a])):
            has_gap = (conditions.slots == one.features[-1]).any(axis=1)
            is_used &= ~(has_gap & np.isin(conditions.slots, other.features).any(axis=1))
    return conditions if is_used.all() else conditions.subset(np.flatnonzero(is_used))


def carrying_rows(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Float:
    """Return the number of rows that carry each condition; infinite for numbers alone."""
    highest = conditions.highest_exponent
    powers = feature_powers(parameters, 4 * _HIGHEST_BESIDE)
    means = []
    for power in (2, 4):
        exponents = power * np.minimum(np.arange(highest + 1), _HIGHEST_BESIDE)
        means.append(conditions.products(powers[exponents]) @ parameters.weights)
    rows = moments.n_effective * means[0] ** 2 / np.maximum(means[1], 1e-300)
    has_indicator = np.append(~moments.is_number, False)[conditions.slots].any(axis=1)
    return np.where(has_indicator, rows, np.inf)


def gaps_together(moments: StandardMoments, parameters: Parameters) -> list[Distribution]:
    """Return laws whose cells are mostly missing in the same rows as another's."""
    numbers = sorted({k for pair in pairs_together(moments, parameters) for k in pair})
    return [parameters.blocks.laws[k] for k in numbers]


def pairs_together(moments: StandardMoments, parameters: Parameters) -> list[tuple[int, int]]:
    """Pairs of laws, by number, whose cells are mostly missing in the same rows."""
    gaps = [
        (number, law.features[-1])
        for number, law in enumerate(parameters.blocks.laws)
        if law.has_missing and not law.at_random
    ]
    if len(gaps) < 2:
        return []
    p, features = parameters, [feature for _, feature in gaps]
    means, spread = p.means[:, features], np.sqrt(p.variances[:, features])
    between = (means.T * p.weights) @ means
    within = moments.total_covariance[np.ix_(features, features)] - between
    together: NDArray[np.bool_] = within > _TOGETHER * ((spread.T * p.weights) @ spread)
    numbers = [number for number, _ in gaps]
    return [(numbers[i], numbers[k]) for i, k in np.argwhere(np.triu(together, 1))]


# -- correlations within components ----------------------------------------------------------------


@dataclass(frozen=True)
class Correlation:
    """Correlation of two features within components, estimated from the residual.

    `value` is the mean of the components' correlations without their signs, with the sign of their
    mean; `deviates` the normal deviate that is as improbable as the statistic, with the same sign.
    """

    first: int
    second: int
    value: float
    deviates: float


def find_correlations(
    whitening: Whitening, conditions: Conditions, parameters: Parameters, remainder: Float, n: float
) -> list[Correlation]:
    """Return score tests of the correlation of each pair of features, most significant first."""
    directions = _Directions(conditions, parameters)
    used = directions.used
    if not used.size:
        return []
    r, most = parameters.n_components, max(1, _MOST_DIRECTIONS // parameters.n_components)
    kept = used
    if kept.size > most:
        kept = np.sort(np.argsort(-directions.promise(whitening, remainder))[:most])
    white = whitening.whiten(directions.table(kept).reshape(conditions.size, -1))
    least = _LEFT_OVER * (white**2).sum(axis=0).reshape(kept.size, r).max(axis=1)
    least = np.maximum(least, 1e-9)
    rows = whitening.projection.project(white).T
    tables, pairs, found = rows.reshape(kept.size, r, -1), directions.pairs[kept], []
    normal, along = tables @ tables.transpose(0, 2, 1), tables @ remainder
    known, is_left = np.zeros((rows.shape[1], 0)), np.ones(kept.size, np.bool_)
    for number in range(_MOST_GIVEN + 1):
        values, deviates = _test(normal, along, parameters.weights, least, n)
        deviates[~is_left] = 0.0
        best = int(np.argmax(np.abs(deviates)))
        is_last = number == _MOST_GIVEN or abs(deviates[best]) < _CLEAR
        own = np.flatnonzero(deviates != 0) if is_last else np.array([best])
        for (first, second), value, deviate in zip(
            pairs[own].tolist(), values[own].tolist(), deviates[own].tolist(), strict=True
        ):
            found.append(Correlation(first, second, value, deviate))
        is_left[best] = False
        if is_last or not is_left.any():
            break
        # What the best pair explains is taken from the others: from their products alone.
        mine = tables[best] - (tables[best] @ known) @ known.T
        basis, sizes, _ = np.linalg.svd(mine.T, full_matrices=False)
        basis = basis[:, sizes**2 > least[best]]
        known = np.hstack([known, basis])
        shared = (rows @ basis).reshape(kept.size, r, -1)
        normal -= shared @ shared.transpose(0, 2, 1)
        along -= shared @ (basis.T @ remainder)
    return sorted(found, key=lambda c: -abs(c.deviates))


def _test(
    normal: Float, along: Float, weights: Float, least: Float, n: float
) -> tuple[Float, Float]:
    """Values and deviates of pairs, from their G and g; 0 where no directions are left."""
    values, vectors = np.linalg.eigh(normal)
    along = np.einsum("pij,pi->pj", vectors, along)
    own = values > least[:, None]
    statistics = n * np.where(own, along**2 / np.where(own, values, 1.0), 0.0).sum(axis=1)
    shrunk = np.where(own, along / (np.maximum(values, 0.0) + 1.0 / n), 0.0)
    estimates = np.einsum("pij,pj->pi", vectors, shrunk)
    sizes = np.minimum(1.0, np.abs(estimates) @ weights)
    signs = np.where(estimates @ weights >= 0, 1.0, -1.0)
    return signs * sizes, signs * _normal_deviates(statistics, own.sum(axis=1))


def _normal_deviates(statistics: Float, degrees_of_freedom: Int) -> Float:
    """Return the z ≥ 0 for which |z| is as improbable as χ² above a statistic.

    >>> _normal_deviates(np.array([9.0, 9.0, 1e4]), np.array([1, 3, 1])).round(2).tolist()
    [3.0, 2.18, 100.0]
    """
    half, x = np.maximum(0.5 * degrees_of_freedom, 0.5), np.maximum(0.5 * statistics, 1e-300)
    p_values = gammaincc(half, x)
    # The leading term far out, where the probability is no float64 number.
    far = (half - 1) * np.log(x) - x - gammaln(half)
    log_p = np.where(p_values > 1e-290, np.log(np.maximum(p_values, 1e-300)), far)
    return np.asarray(np.maximum(0.0, -ndtri_exp(log_p - np.log(2.0))))


class _Directions:
    """Derivatives of the conditions by the correlations of each pair, one for each component."""

    def __init__(self, conditions: Conditions, parameters: Parameters) -> None:
        blocks, self._n = parameters.blocks, conditions.size
        pairs = index_sets(conditions.n_features, 2)
        apart = blocks.block_of[pairs[:, 0]] != blocks.block_of[pairs[:, 1]]
        self.pairs = pairs[apart]
        number = np.cumsum(apart) - 1
        monomials = conditions.by_block(blocks)
        moments, slopes = monomials.moments_and_slopes(parameters), monomials.mean_slopes
        deviations = np.sqrt(parameters.variances).T  # (d, r)
        values = moments[slopes.monomials] * deviations[slopes.columns] * slopes.factors[:, None]
        factors = moments[monomials.slots]  # (n, width, r)
        order = np.argsort(slopes.rows, kind="stable")
        counts = np.bincount(slopes.rows, minlength=self._n)
        starts = np.cumsum(counts) - counts
        rows, places, changes = list[Int](), list[Int](), list[Float]()
        for t, u in combinations(range(int(counts.max(initial=0))), 2):
            row = np.flatnonzero(counts > u)
            first, second = order[starts[row] + t], order[starts[row] + u]
            different = slopes.slots[first] != slopes.slots[second]
            row, first, second = row[different], first[different], second[different]
            change = parameters.weights * values[first] * values[second]
            for slot in range(factors.shape[1]):
                other = (slopes.slots[first] != slot) & (slopes.slots[second] != slot)
                change[other] *= factors[row[other], slot]
            pair = np.sort(np.stack([slopes.columns[first], slopes.columns[second]], axis=1))
            rows.append(row)
            places.append(number[colex_rank(pair)])
            changes.append(change)
        none = np.zeros(0, dtype=np.int64)
        self._rows, self._places = np.concatenate([none, *rows]), np.concatenate([none, *places])
        self._changes = np.concatenate([np.zeros((0, parameters.n_components)), *changes])

    @property
    def used(self) -> Int:
        """Numbers of the pairs that some condition depends on."""
        return np.flatnonzero(np.bincount(self._places, minlength=len(self.pairs)))

    def table(self, kept: Int) -> Float:
        """The derivatives by some pairs, of shape (n, n_kept, r)."""
        number = np.full(len(self.pairs), -1)
        number[kept] = np.arange(kept.size)
        own = number[self._places] >= 0
        table = np.zeros((self._n, kept.size, self._changes.shape[1]))
        table[self._rows[own], number[self._places[own]]] = self._changes[own]
        return table

    def promise(self, whitening: Whitening, remainder: Float) -> Float:
        """About how significant each pair is: noises of the conditions taken as independent."""
        mask = np.where(whitening.independent, remainder, 0.0)
        back = solve_triangular(whitening.triangle, mask, lower=True, trans=1, check_finite=False)
        scaled = self._changes / whitening.scale[self._rows, None]
        size, promise = len(self.pairs), np.zeros(len(self.pairs))
        for change in scaled.T:
            along = np.bincount(self._places, change * back[self._rows], minlength=size)
            squares = np.bincount(self._places, change**2, minlength=size)
            np.maximum(promise, along**2 / np.maximum(squares, 1e-300), out=promise)
        return promise
