"""Correlations of features within components: score tests on the residual of the conditions.

| symbol | name here | shape |
|---|---|---|
| Δ_jk,i: ∂ model / ∂ correlation of z_j, z_k in component i | `_Directions` | (n, n_pairs, r) |
| G = Δᵀ Δ of one pair, g = Δᵀ e, Δ whitened and projected | ``normal``, ``along`` | (r, r), (r,) |
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
from scipy.linalg import solve_triangular
from scipy.special import gammaincc, gammaln, ndtri_exp

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.whitening import Whitening
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture.parameters import Parameters

CORRELATION_THAT_MATTERS = 0.1  # with many rows, smaller ones are significant and change little
SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns or pairs are tested
_MOST_DIRECTIONS = 2000  # whitened; of more, those of the pairs that look most correlated
_CLEAR = 4.0  # deviates from which a pair is given to the tests of the others
_MOST_GIVEN = 12  # such pairs; each costs a small part of the whitening
_LEFT_OVER = 1e-6  # share of a direction's squared length that is left where parameters explain it


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
    directions, r = _Directions(conditions, parameters), parameters.n_components
    kept = directions.most_promising(whitening, remainder, max(1, _MOST_DIRECTIONS // r))
    if not kept.size:
        return []
    white = whitening.whiten(directions.table(kept).reshape(conditions.size, -1))
    least = _LEFT_OVER * (white**2).sum(axis=0).reshape(kept.size, r).max(axis=1)
    least = np.maximum(least, 1e-9)
    rows = whitening.projection.project(white).T
    tables, pairs = rows.reshape(kept.size, r, -1), directions.pairs[kept]
    found = list[Correlation]()
    normal, along = tables @ tables.transpose(0, 2, 1), tables @ remainder
    known, is_left = np.zeros((rows.shape[1], 0)), np.ones(kept.size, np.bool_)
    while is_left.any():
        values, deviates = _test(normal, along, parameters.weights, least, n)
        deviates[~is_left] = 0.0
        best = int(np.argmax(np.abs(deviates)))
        is_last = len(found) == _MOST_GIVEN or abs(deviates[best]) < _CLEAR
        own = np.flatnonzero(deviates != 0) if is_last else np.array([best])
        tested = zip(*(x[own].tolist() for x in (pairs, values, deviates)), strict=True)
        found += [Correlation(j, k, value, deviate) for (j, k), value, deviate in tested]
        if is_last:
            break
        is_left[best] = False
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
        self.pairs = index_sets(conditions.n_features, 2)
        monomials = conditions.by_block(blocks)
        moments, slopes = monomials.moments_and_slopes(parameters), monomials.slopes
        slopes = slopes.kept(slopes.columns < conditions.n_features)  # by means
        values = moments[slopes.monomials] * slopes.factors[:, None]
        values *= np.sqrt(parameters.variances).T[slopes.columns]
        order = np.argsort(slopes.rows, kind="stable")
        counts = np.bincount(slopes.rows, minlength=self._n)
        starts = np.cumsum(counts) - counts
        rows, places, changes = (
            [np.zeros((0, *shape))] for shape in ((), (), parameters.weights.shape)
        )
        for t, u in combinations(range(int(counts.max(initial=0))), 2):
            row = np.flatnonzero(counts > u)
            first, second = order[starts[row] + t], order[starts[row] + u]
            apart = slopes.slots[first] != slopes.slots[second]
            row, first, second = row[apart], first[apart], second[apart]
            factors = moments[monomials.slots[row]]  # (n, width, r)
            here = np.arange(row.size)
            factors[here, slopes.slots[first]] = values[first]
            factors[here, slopes.slots[second]] = values[second]
            pair = np.sort(np.stack([slopes.columns[first], slopes.columns[second]], axis=1))
            rows.append(row)
            places.append(colex_rank(pair))
            changes.append(parameters.weights * factors.prod(axis=1))
        self._rows, self._places = (np.concatenate(x).astype(np.int64) for x in (rows, places))
        self._changes = np.concatenate(changes)

    def table(self, kept: Int) -> Float:
        """The derivatives by some pairs, of shape (n, n_kept, r)."""
        number = np.full(len(self.pairs), -1)
        number[kept] = np.arange(kept.size)
        own = number[self._places] >= 0
        table = np.zeros((self._n, kept.size, self._changes.shape[1]))
        table[self._rows[own], number[self._places[own]]] = self._changes[own]
        return table

    def most_promising(self, whitening: Whitening, remainder: Float, most: int) -> Int:
        """Pairs that conditions depend on; of more than `most` the most significant ones.

        By the noises of the conditions, taken as independent.
        """
        size = len(self.pairs)
        used = np.flatnonzero(np.bincount(self._places, minlength=size))
        if used.size <= most:
            return used
        promise, mask = np.zeros(size), np.where(whitening.independent, remainder, 0.0)
        back = solve_triangular(whitening.triangle, mask, lower=True, trans=1, check_finite=False)
        for change in (self._changes / whitening.scale[self._rows, None]).T:
            along = np.bincount(self._places, change * back[self._rows], minlength=size)
            squares = np.bincount(self._places, change**2, minlength=size)
            np.maximum(promise, along**2 / np.maximum(squares, 1e-300), out=promise)
        return np.sort(used[np.argsort(-promise[used])[:most]])
