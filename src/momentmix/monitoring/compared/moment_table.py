"""Means of all products of two and of four features of a summary.

| symbol | name here | shape |
|---|---|---|
| E[x_a x_b], x = (y − shift)/scale, x_d = 1 | `MomentTable.second` | (d + 1, d + 1) |
| Cov(x_a x_b, x_c x_e), a ≤ b, c ≤ e | `MomentTable.pair_covariance` | (n, n) |

A product that the summary does not keep is NaN.
"""

from __future__ import annotations

from functools import cached_property
from math import comb, nan

import numpy as np

from momentmix._typing import Float, Int
from momentmix.index_sets import colex_rank, index_sets, sets_without
from momentmix.summary.readings import Moments

_AT_ONCE = 1 << 19  # products that are looked up together


class MomentTable:
    """Moments of a summary by the indices of their factors; `one` is that of the constant.

    `pairs` are all pairs of factors a ≤ b, of shape (n, 2).
    """

    def __init__(self, moments: Moments) -> None:
        self._moments, self.one = moments, moments.n_features
        self.pairs: Int = np.stack(np.triu_indices(self.one + 1), axis=1)

    def _products(self, degree: int) -> Float:
        """Means of all products of so many factors, the constant among them, by `_rank`."""
        m, d = self._moments, self.one
        found = np.full(comb(d + degree, degree), nan)

        def put(sets: Int, values: Float) -> None:
            filled = np.full((len(sets), degree), d)
            filled[:, : sets.shape[1]] = sets
            found[_rank(filled)] = values

        for t in range(min(m.order, degree) + 1):
            put(index_sets(d, t), m.distinct[t])
        for j in range(d):
            for q in range(min(m.squared_order, degree - 2) + 1):
                others = sets_without(d, q, j)
                put(np.insert(others, [0, 0], j, axis=1), m.squared[q][j])
            if degree == 4 and m.cubed is not None:
                put(np.insert(sets_without(d, 1, j), [0] * 3, j, axis=1), m.cubed[j])
        if degree == 4 and m.powers is not None:
            for t in (3, 4):
                put(np.repeat(np.arange(d)[:, None], t, axis=1), m.powers[t - 3])
        if degree == 4 and m.two_squares is not None:
            put(np.repeat(index_sets(d, 2), 2, axis=1), m.two_squares)
        return found

    @cached_property
    def second(self) -> Float:
        """Means of products of two factors, the constant among them."""
        table, (a, b) = np.empty((self.one + 1,) * 2), self.pairs.T
        table[a, b] = table[b, a] = self._products(2)[_rank(self.pairs)]
        return table

    def pair_numbers(self, left: Int, right: Int) -> Int:
        """Places of pairs of factors in `pairs`."""
        a, b = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(a * (2 * self.one + 1 - a) // 2 + b)

    @cached_property
    def pair_covariance(self) -> Float:
        """Covariance of the products of all pairs of factors, of shape (n, n)."""
        pairs, n, products = self.pairs, len(self.pairs), self._products(4)
        mean, table = self.second[pairs[:, 0], pairs[:, 1]], np.empty((n, n))
        step = max(1, _AT_ONCE // n)
        for start in range(0, n, step):
            left = pairs[start : start + step]
            places = np.empty((len(left), n - start, 4), dtype=np.int64)
            places[..., :2], places[..., 2:] = left[:, None], pairs[start:]
            table[start : start + step, start:] = products[_rank(places)]
        table = np.triu(table) + np.triu(table, 1).T
        table -= np.outer(mean, mean)
        return table


def _rank(indices: Int) -> Int:
    """Place of products of the last axis of `indices`, whatever the order of their factors."""
    ordered = np.sort(indices, axis=-1)
    return colex_rank(ordered + np.arange(ordered.shape[-1]))
