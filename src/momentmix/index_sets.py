"""Index sets with distinct entries, in colexicographic order, and their monomials.

| paper symbol | name here | shape |
|---|---|---|
| Ω_m (one representative of each orbit under permutations) | ``index_sets(d, m)`` | (C(d, m), m) |
| position of {i_1 < … < i_m} in colex order | ``colex_rank`` | (…,) |
| [v]_B, B the products of a distinct coordinates | ``monomials(points, m)[a]`` | (C(h, a), B) |

The rank of {i_1 < … < i_m}, indices from 0, is Σ_t C(i_t, t). The library uses
two consequences. The sets that use only indices below i form a prefix: the monomials whose last
index is i are x_i times a prefix of those one degree lower, so that every degree is filled by
contiguous slice products, without gathers. The rank of a union α ∪ γ with max α < min γ is the sum
of a term in α and a term in γ, so that sub-tensors are gathered by an outer sum of two short
vectors.

Differs from the paper: the paper labels Ω_m (index-set) by ordered tuples; here one increasing
tuple stands for all its permutations.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Array, Int
from momentmix.errors import InputError

_MOST = 10**60  # above it the integers themselves become too long to compute with


def countable(n_features: int, order: int, most: int = _MOST) -> bool:
    """Whether there are at most `most` index sets of up to `order` entries, in few steps.

    >>> countable(4, 2, 11), countable(4, 2, 10), countable(10**9, 10**9)
    (True, False, False)
    """
    n_sets = total = 1
    for t in range(min(order, n_features)):
        n_sets = n_sets * (n_features - t) // (t + 1)  # C(d, t + 1)
        total += n_sets
        if total > most:
            return False
    return total <= most


def check_countable(n_features: int, order: int, most: int = _MOST) -> None:
    """Refuse sizes that no computer can store, before anything of that size is computed."""
    if not countable(n_features, order, most):
        raise InputError(
            f"order={order} with {n_features} features has more than {most:.0e} moments, which no "
            "computer can store. Use a lower order or fewer features."
        )


@lru_cache(maxsize=64)
def binomials(n_features: int, order: int) -> Int:
    """C(i, t) for i ≤ n_features, t ≤ order, of shape (n_features + 1, order + 1)."""
    table = np.zeros((n_features + 1, order + 1), dtype=np.int64)
    for i in range(n_features + 1):
        for t in range(min(i, order) + 1):
            table[i, t] = comb(i, t)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=32)
def index_sets(n_features: int, order: int) -> Int:
    """Return the sets of `order` entries below `n_features` (paper: index-set), one in a row.

    Each row increases; the C(n_features, order) rows are in colex order. Read-only.

    >>> index_sets(4, 2).tolist()
    [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]]
    """
    if order == 0:
        return np.zeros((1, 0), dtype=np.int64)
    check_countable(n_features, order, sys.maxsize // (8 * order))  # bytes of the array
    sets = np.empty((comb(n_features, order), order), dtype=np.int64)
    below = index_sets(n_features - 1, order - 1) if n_features >= order else sets[:0, 1:]
    for last in range(order - 1, n_features):
        start, stop = comb(last, order), comb(last + 1, order)
        sets[start:stop, :-1] = below[: stop - start]
        sets[start:stop, -1] = last
    sets.setflags(write=False)
    return sets


def colex_rank(sets: ArrayLike, position: int = 0) -> Int:
    """Return the positions of increasing index sets, of shape (..., t), in colex order.

    With `position` smaller indices before these in a longer set, the result is this part's term of
    the longer set's rank.

    >>> colex_rank([[0, 3], [2, 3]]).tolist()
    [3, 5]
    >>> int(colex_rank([1]) + colex_rank([3], position=1))  # rank of {1, 3}
    4
    """
    sets = np.asarray(sets, dtype=np.int64)
    size = sets.shape[-1]
    rank = np.zeros(sets.shape[:-1], dtype=np.int64)
    if sets.size:
        table = binomials(int(sets.max()) + 1, position + size)
        for t in range(size):
            rank += table[sets[..., t], position + t + 1]
    return rank


def sets_without(n_features: int, order: int, left_out: int) -> Int:
    """Index sets that avoid one index, in colex order, of shape (C(n_features−1, order), order)."""
    sets = index_sets(n_features - 1, order)
    return sets + (sets >= left_out)


# -- monomials -------------------------------------------------------------------------------------


def monomials(points: Array, degree: int) -> list[Array]:
    """Return all products of distinct coordinates, (C(n_coordinates, a), n_points) for a ≤ degree.

    `points` are of shape (n_coordinates, n_points); products of a degree are in colex order.

    >>> [block.ravel().tolist() for block in monomials(np.array([[2.0], [3.0], [5.0]]), 2)]
    [[1.0], [2.0, 3.0, 5.0], [6.0, 10.0, 15.0]]
    """
    n_coordinates, n_points = points.shape
    blocks = [np.ones((1, n_points), dtype=points.dtype)]
    for a in range(1, degree + 1):
        block = np.empty((comb(n_coordinates, a), n_points), dtype=points.dtype)
        for i in range(a - 1, n_coordinates):
            start, stop = comb(i, a), comb(i + 1, a)
            np.multiply(blocks[-1][: stop - start], points[i], out=block[start:stop])
        blocks.append(block)
    return blocks


def monomials_pullback(points: Array, blocks: list[Array], by_top: Array) -> Array:
    """Chain rule in reverse: derivative of a scalar by the points, (n_coordinates, n_points).

    `by_top` is its derivative by the top degree of ``blocks = monomials(points, degree)``.
    """
    result = np.zeros(points.shape, dtype=by_top.dtype)
    for a in range(len(blocks) - 1, 0, -1):
        by_next = np.zeros(blocks[a - 1].shape, dtype=by_top.dtype)
        for i in range(a - 1, points.shape[0]):
            start, stop = comb(i, a), comb(i + 1, a)
            outer = by_top[start:stop]
            result[i] += np.einsum("kb,kb->b", outer, blocks[a - 1][: stop - start])
            by_next[: stop - start] += outer * points[i]
        by_top = by_next
    return result
