"""Correlations of features within components: score tests on the residual of the moments.

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
from scipy.linalg import solve_triangular
from scipy.special import gammaincc, gammaln, ndtri_exp

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.inference.whitening import Whitening
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture.parameters import Parameters

CORRELATION_THAT_MATTERS = 0.1  # with many rows, smaller ones are significant and change little
SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns or pairs are tested
_MOST_DIRECTIONS = 2000  # whitened; of more, those of the pairs that look most correlated
_CLEAR = 4.0  # deviates from which a pair is given to the tests of the others
_MOST_GIVEN = 12  # such pairs; each costs a small part of the whitening
_EXPLAINED = 1e-6  # share of a direction's squared length that is left where parameters explain it


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
    if not directions.pairs.size:
        return []
    r, most = parameters.n_components, max(1, _MOST_DIRECTIONS // parameters.n_components)
    kept = np.arange(len(directions.pairs))
    if kept.size > most:
        kept = np.sort(np.argsort(-directions.promise(whitening, remainder))[:most])
    white = whitening.whiten(directions.table(kept).reshape(conditions.size, -1))
    least = _EXPLAINED * (white**2).sum(axis=0).reshape(kept.size, r).max(axis=1)
    tables = whitening.projection.project(white).reshape(-1, kept.size, r).transpose(1, 2, 0)
    pairs, found = directions.pairs[kept], []
    for number in range(_MOST_GIVEN + 1):
        values, deviates = _test(tables, remainder, parameters.weights, np.maximum(least, 1e-9), n)
        best = int(np.argmax(np.abs(deviates)))
        is_last = number == _MOST_GIVEN or abs(deviates[best]) < _CLEAR
        own = np.flatnonzero(deviates != 0) if is_last else np.array([best])
        for (first, second), value, deviate in zip(
            pairs[own].tolist(), values[own].tolist(), deviates[own].tolist(), strict=True
        ):
            found.append(Correlation(first, second, value, deviate))
        if is_last or len(tables) == 1:
            break
        basis, sizes, _ = np.linalg.svd(tables[best].T, full_matrices=False)
        basis = basis[:, sizes**2 > max(least[best], 1e-9)]
        rest = np.arange(len(tables)) != best
        tables, least, pairs = tables[rest], least[rest], pairs[rest]
        tables = tables - (tables @ basis) @ basis.T
    return sorted(found, key=lambda c: -abs(c.deviates))


def _test(
    tables: Float, remainder: Float, weights: Float, least: Float, n: float
) -> tuple[Float, Float]:
    """Values and deviates of pairs with directions (n_pairs, r, n); 0 where none are left."""
    values, vectors = np.linalg.eigh(tables @ tables.transpose(0, 2, 1))
    along = np.einsum("pij,pi->pj", vectors, tables @ remainder)
    own = values > least[:, None]
    statistics = n * np.where(own, along**2 / np.where(own, values, 1.0), 0.0).sum(axis=1)
    shrunk = np.where(own, along / (np.maximum(values, 0.0) + 1.0 / n), 0.0)
    estimates = np.einsum("pij,pj->pi", vectors, shrunk)
    sizes = np.minimum(1.0, np.abs(estimates) @ weights)
    signs = np.where(estimates @ weights >= 0, 1.0, -1.0)
    return signs * sizes, signs * _normal_deviates(statistics, own.sum(axis=1))


def _normal_deviates(statistics: Float, degrees_of_freedom: Int) -> Float:
    """Return the z ≥ 0 for which |z| is as improbable as χ² above a statistic.

    Examples
    --------
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
