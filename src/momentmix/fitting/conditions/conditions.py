"""Moment conditions: which products of features are matched, and their model side.

| paper symbol | name here | shape |
|---|---|---|
| E Π_{i∈I} z_i = Σ_c ω_c Π μ_ci | ``Conditions.plain`` | (n_plain, width) |
| E z_j² z_I = Σ_c ω_c (μ_cj² + v_cj) Π μ_ci | ``Conditions.squared`` | (n_squared, 1 + width) |
| observed means, model means | ``values``, ``model`` | (n,) |
| Var of one row's product | ``row_variances`` | (n,) |

Index sets shorter than the width are padded with index d: a feature that is the constant 1. So
conditions of all orders share one array and one code path.

Differs from the paper: (prob:nls-w mu) uses orders m and t only and no squares. Here all orders up
to 4 take part, and the squares carry information about the means as well as the variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.incidence import Incidence, find_incidence
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.parameters import Parameters


@dataclass(frozen=True)
class Conditions:
    """A set of moment conditions; plain products first, then those with one square."""

    n_features: int
    plain: Int
    squared: Int
    values: Float

    @property
    def size(self) -> int:
        """Number of conditions."""
        return int(self.values.size)

    def subset(self, keep: Int) -> Conditions:
        """Some of the conditions; `keep` increases."""
        n = self.plain.shape[0]
        plain, squared = self.plain[keep[keep < n]], self.squared[keep[keep >= n] - n]
        return Conditions(self.n_features, plain, squared, self.values[keep])

    @cached_property
    def slots(self) -> Int:
        """Features of each condition, the squared one first, padded with d; (n, width)."""
        width = max(self.plain.shape[1], self.squared.shape[1])
        table = np.full((self.size, width), self.n_features)
        n = self.plain.shape[0]
        table[:n, : self.plain.shape[1]] = self.plain
        table[n:, : self.squared.shape[1]] = self.squared
        return table

    @cached_property
    def incidence(self) -> Incidence:
        """Which conditions hold which features."""
        return find_incidence(self.slots, self.squared[:, 0], self.n_features)

    def products(self, first: Float, second: Float) -> Float:
        """Π first_j over each condition's features, second_j for the squared one; (n, r).

        Parameters
        ----------
        first, second : arrays of shape (r, d)
            Values and squares of points, or first and second moments of components.
        """
        result = np.empty((self.size, first.shape[0]))
        n, columns = self.plain.shape[0], np.ascontiguousarray(extended(first, 1.0).T)
        _multiply(columns, self.plain, result[:n])
        _multiply(columns, self.squared[:, 1:], result[n:])
        result[n:] *= np.ascontiguousarray(second.T).take(self.squared[:, 0], axis=0)
        return result

    def model(self, parameters: Parameters) -> Float:
        """Model side of each condition, of shape (n,)."""
        p = parameters
        return np.asarray(self.products(p.means, p.means**2 + p.variances) @ p.weights)

    def features_of_means(self, means: Float) -> Float:
        """Π μ_ci of the plain conditions, of shape (n_plain, r)."""
        result = np.empty((self.plain.shape[0], means.shape[0]))
        _multiply(np.ascontiguousarray(extended(means, 1.0).T), self.plain, result)
        return result

    def row_variances(self, parameters: Parameters) -> Float:
        """Variance of one row's product under the product mixture, in closed form; (n,)."""
        mean2, v = parameters.means**2, parameters.variances
        fourth = mean2**2 + 6.0 * mean2 * v + 3.0 * v**2
        raw = self.products(mean2 + v, fourth) @ parameters.weights
        # Rounding errors of the difference are about 1e-16·raw: it must stay clear of zero.
        return np.asarray(np.maximum(raw - self.model(parameters) ** 2, 1e-12 * (1.0 + raw)))


def extended(table: Float, value: float) -> Float:
    """A table (r, d) with one more column that holds `value`."""
    return np.concatenate([table, np.full((table.shape[0], 1), value)], axis=1)


def _multiply(columns: Float, sets: Int, out: Float) -> None:
    """Π over each index set of the rows of `columns` (d + 1, r), into `out` (n, r)."""
    width, size = sets.shape[1], columns.shape[0]
    if width < 3:
        np.take(columns, sets[:, 0], axis=0, out=out)
        if width == 2:
            out *= columns.take(sets[:, 1], axis=0)
        return
    # Products of two first: half the reads and writes of the long table.
    pairs = (columns[:, None, :] * columns).reshape(size * size, columns.shape[1])
    np.take(pairs, sets[:, 0] * size + sets[:, 1], axis=0, out=out)
    for t in range(2, width - 1, 2):
        out *= pairs.take(sets[:, t] * size + sets[:, t + 1], axis=0)
    if width % 2:
        out *= columns.take(sets[:, -1], axis=0)


class _Group(NamedTuple):
    """Index sets of one order and their observed means; with a square, its feature comes first."""

    order: int
    is_squared: bool
    sets: Int
    values: Float

    def kept(self, rows: NDArray[Any]) -> _Group:
        """Some of the conditions, by number or mask."""
        return self._replace(sets=self.sets[rows], values=self.values[rows])


def _groups(moments: StandardMoments, highest: int, squared_order: int) -> list[_Group]:
    """All conditions without constant columns, the lowest orders first."""
    d = moments.n_features
    groups = [
        _Group(s, False, index_sets(d, s), moments.orders[s])
        for s in range(min(highest, moments.order) + 1)
    ]
    for q in range(min(squared_order, len(moments.squared) - 1) + 1):
        for j in range(d):
            others = sets_without(d, q, j)
            sets = np.concatenate([np.full((others.shape[0], 1), j), others], axis=1)
            groups.append(_Group(q + 2, True, sets, moments.squared[q][j]))
    varying = ~moments.constant
    usable = [group.kept(varying[group.sets].all(axis=1)) for group in groups]
    return sorted(usable, key=lambda group: group.order)


def build_conditions(
    moments: StandardMoments,
    highest: int,
    squared_order: int = -1,
    limit: int | None = None,
    rng: np.random.Generator | None = None,
) -> Conditions:
    """Conditions of all orders up to `highest`, and squares with up to `squared_order` others.

    Where there are more than `limit`, the lowest orders are complete and a random share of the
    order that exceeds the limit is taken. Constant columns take no part.
    """
    chosen: list[_Group] = []
    left = limit
    for _, same_order in groupby(_groups(moments, highest, squared_order), lambda g: g.order):
        groups = list(same_order)
        count = sum(group.values.size for group in groups)
        if left is not None and left < count:
            assert rng is not None
            for i, group in enumerate(groups):
                size = group.values.size
                groups[i] = group.kept(np.sort(rng.permutation(size)[: int(left / count * size)]))
        left = None if left is None else max(0, left - count)
        chosen += groups
    plain = [group for group in chosen if not group.is_squared]
    squared = [group for group in chosen if group.is_squared]
    d, width = moments.n_features, max(1, min(highest, moments.order))
    squared_width = 1 + max(1, min(squared_order, len(moments.squared) - 1))
    return Conditions(
        d,
        _padded(plain, width, d),
        _padded(squared, squared_width, d),
        np.concatenate([group.values for group in plain + squared]),
    )


def _padded(groups: list[_Group], width: int, filler: int) -> Int:
    tables = [
        np.pad(g.sets, ((0, 0), (0, width - g.sets.shape[1])), constant_values=filler)
        for g in groups
    ]
    return np.concatenate(tables) if tables else np.zeros((0, width), dtype=np.int64)
