"""Means of all products of up to four features of a summary, found by their indices.

| symbol | name here | shape |
|---|---|---|
| E[x_a x_b x_c x_e], x = (y − shift)/scale, x_d = 1 | `MomentTable.means` | (…,) |
| E[x_a x_b] | `MomentTable.second` | (d + 1, d + 1) |
| Cov(x_a x_b, x_c x_e), a ≤ b, c ≤ e | `MomentTable.pair_covariance` | (n, n) |

A product that the summary does not keep is NaN.
"""

from __future__ import annotations

from functools import cached_property
from math import nan

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.index_sets import colex_rank
from momentmix.summary.readings import Moments

_DEGREE = 4
_AT_ONCE = 1 << 19  # products that are looked up together


class MomentTable:
    """Moments of a summary by the indices of their factors.

    Parameters
    ----------
    moments : Moments
    """

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self.one = moments.n_features  # index of the constant

    @cached_property
    def second(self) -> Float:
        """Means of products of two factors, the constant among them."""
        size = self.one + 1
        places = np.stack(np.meshgrid(*[np.arange(size)] * 2, indexing="ij"), axis=-1)
        ones = np.full((size, size, 2), self.one)
        return self.means(np.concatenate([places, ones], axis=-1))

    def means(self, indices: Int) -> Float:
        """Means of products; the last axis of `indices` holds four factors."""
        shape = indices.shape[:-1]
        ordered = np.sort(indices.reshape(-1, _DEGREE), axis=1)
        result = np.full(len(ordered), nan)
        new = np.ones(ordered.shape, dtype=bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        # Exponent of the factor that begins at a place, 0 elsewhere and for the constant.
        exponents = np.zeros(ordered.shape, dtype=np.int64)
        rows, starts = np.nonzero(new)
        ends = np.append(starts[1:], 0)
        exponents[rows, starts] = np.where(ends > starts, ends, _DEGREE) - starts
        exponents[ordered == self.one] = 0
        codes = np.sort(exponents, axis=1) @ (10 ** np.arange(_DEGREE))  # 2110: one square
        for code in np.unique(codes).tolist():
            own = codes == code
            result[own] = self._of_pattern(code, ordered[own], exponents[own])
        return result.reshape(shape)

    def _of_pattern(self, code: int, ordered: Int, exponents: Int) -> Float:
        """Means of products with the same exponents."""
        m, degrees = self._moments, [int(x) for x in str(code).rstrip("0")]
        absent = np.full(len(ordered), nan)
        if max(degrees, default=1) == 1:
            if len(degrees) > m.order:
                return absent
            return _values(m.distinct[len(degrees)], _chosen(ordered, exponents, 1, len(degrees)))
        if degrees == [2, 2]:
            return absent if m.two_squares is None else _values(
                m.two_squares, _chosen(ordered, exponents, 2, 2)
            )  # fmt: skip
        high, n_others = degrees[0], len(degrees) - 1
        base = _chosen(ordered, exponents, high, 1)[:, 0]
        others = _chosen(ordered, exponents, 1, n_others)
        others = others - (others > base[:, None])  # numbered without the base
        if high == 2:
            if n_others > m.squared_order:
                return absent
            return np.asarray(m.squared[n_others][base, colex_rank(others)])
        if n_others == 0:
            return absent if m.powers is None else np.asarray(m.powers[high - 3][base])
        return absent if m.cubed is None else np.asarray(m.cubed[base, others[:, 0]])

    @cached_property
    def pairs(self) -> Int:
        """All pairs of factors a ≤ b, of shape (n, 2)."""
        return np.stack(np.triu_indices(self.one + 1), axis=1)

    def pair_numbers(self, left: Int, right: Int) -> Int:
        """Places of pairs of factors in `pairs`."""
        a, b = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(a * (2 * self.one + 1 - a) // 2 + b)

    @cached_property
    def pair_covariance(self) -> Float:
        """Covariance of the products of all pairs of factors, of shape (n, n)."""
        pairs, n = self.pairs, len(self.pairs)
        mean, table = self.second[pairs[:, 0], pairs[:, 1]], np.empty((n, n))
        step = max(1, _AT_ONCE // n)
        for start in range(0, n, step):
            left = pairs[start : start + step]
            places = np.empty((len(left), n - start, _DEGREE), dtype=np.int64)
            places[..., :2], places[..., 2:] = left[:, None], pairs[start:]
            table[start : start + step, start:] = self.means(places)
        table = np.triu(table) + np.triu(table, 1).T
        table -= np.outer(mean, mean)
        return table


def _chosen(ordered: Int, exponents: Int, exponent: int, size: int) -> Int:
    """Indices of the factors with an exponent, `size` of them in each row, of shape (n, size)."""
    mask: NDArray[np.bool_] = exponents == exponent
    return np.asarray(ordered[mask].reshape(len(ordered), size))


def _values(array: Float, sets: Int) -> Float:
    return np.asarray(array[colex_rank(sets)])
