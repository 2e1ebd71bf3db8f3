"""Standardised moments of rows in memory, by matrix products over blocks of rows.

| paper symbol | name here | shape |
|---|---|---|
| (M_s)_{Ω_s} of z | ``StandardMoments.orders[s]`` | (C(d, s),) |

Split the features into two halves S, T. The products of s distinct features are the blocks
Φ_a(z_S)ᵀ Φ_b(z_T), a + b = s, with Φ_a the multilinear monomials of degree a: one matrix product
per block of rows and per (a, b).

Differs from the paper: rows are centred and scaled before any product is formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import comb

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from momentmix.core.labels import colex_rank, index_sets, sets_without
from momentmix.core.monomials import monomials
from momentmix.core.standard_moments import StandardMoments

Float = NDArray[np.float64]

__all__ = ["standard_moments_from_rows"]

_BLOCK = 1024  # rows whose monomials are held at once; they should stay in cache


def standard_moments_from_rows(
    rows: Float, order: int, squared_order: int = 2, n_threads: int = 1
) -> StandardMoments:
    """Moments of standardised features up to `order`.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
    order : int
        At most n_features.
    squared_order : int
        Number of further features in E[z_j² z_I]; clamped to n_features − 1.
    n_threads : int
        Blocks of rows worked on at once. The result does not depend on it.
    """
    n_rows, d = rows.shape
    minimum, maximum = rows.min(axis=0), rows.max(axis=0)
    # Dividing by the largest magnitude first keeps squares of 1e200 finite.
    unit = np.maximum(np.abs(minimum), np.abs(maximum))
    unit[unit == 0] = 1.0
    shift = unit * _mean(rows, unit)
    spread = unit * np.sqrt(_mean_square(rows, shift, unit))
    constant = (minimum == maximum) | (spread <= 1e-13 * unit)
    scale = np.where(constant, 1.0, spread)
    live = np.where(constant, 0.0, 1.0)
    squared_order = min(squared_order, d - 1)
    starts = list(range(0, n_rows, 32 * _BLOCK))

    def chunk(start: int) -> tuple[list[Float], list[Float]]:
        sums = _Sums(d, order, squared_order)
        for first in range(start, min(start + 32 * _BLOCK, n_rows), _BLOCK):
            block = rows[first : min(first + _BLOCK, start + 32 * _BLOCK)]
            sums.add(np.ascontiguousarray(((block - shift) / scale * live).T))
        return sums.orders, sums.squares

    total = _Sums(d, order, squared_order)
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        for orders, squares in pool.map(chunk, starts):  # in order: the same bits for any n_threads
            for s, part in enumerate(orders):
                total.orders[s] += part
            for q, part in enumerate(squares):
                total.squares[q] += part
    means = tuple(x / n_rows for x in total.orders)
    squared = []
    for q in range(squared_order + 1):
        ranks = np.array([colex_rank(sets_without(d, q, j)) for j in range(d)])
        squared.append(np.take_along_axis(total.squares[q] / n_rows, ranks, axis=1))
    return StandardMoments(
        d, order, means, tuple(squared), n_rows, float(n_rows), shift, scale, minimum, maximum,
        constant,
    )  # fmt: skip


def _blocks(rows: Float) -> Iterator[Float]:
    for start in range(0, rows.shape[0], 2 * _BLOCK):
        yield rows[start : start + 2 * _BLOCK]


def _mean(rows: Float, unit: Float) -> Float:
    total = np.zeros(rows.shape[1])
    for block in _blocks(rows):
        total += (block / unit).sum(axis=0)
    return np.asarray(total / rows.shape[0])


def _mean_square(rows: Float, shift: Float, unit: Float) -> Float:
    total = np.zeros(rows.shape[1])
    for block in _blocks(rows):
        total += (((block - shift) / unit) ** 2).sum(axis=0)
    return np.asarray(total / rows.shape[0])


class _Sums:
    """Sums of monomials over blocks of standardised rows."""

    def __init__(self, n_features: int, order: int, squared_order: int) -> None:
        self.half = n_features // 2
        self.orders = [np.zeros(comb(n_features, s)) for s in range(order + 1)]
        self.squares = [
            np.zeros((n_features, comb(n_features, q))) for q in range(squared_order + 1)
        ]
        self.places = {}
        for s in range(order + 1):
            for a in range(max(0, s - (n_features - self.half)), min(self.half, s) + 1):
                upper = index_sets(n_features - self.half, s - a) + self.half
                starts = colex_rank(upper, position=a)
                self.places[a, s - a] = starts[:, None] + np.arange(comb(self.half, a))

    def add(self, points: Float) -> None:
        order = len(self.orders) - 1
        lower, upper = monomials(points[: self.half], order), monomials(points[self.half :], order)
        for (a, b), place in self.places.items():
            self.orders[a + b][place] += upper[b] @ lower[a].T
        whole = monomials(points, len(self.squares) - 1)
        squares = points**2
        for q, block in enumerate(whole):
            self.squares[q] += squares @ block.T
