"""Tiles of two lists of monomials that hold all moments.

| symbol | name here | shape |
|---|---|---|
| I = A ∪ B, half of the factors each | rows of ``lefts`` and ``rights`` | (f, …) |
| Σ y_I = Σ y_A·y_B | an entry of a tile | (block, block) |

*Staircase.* The smaller half A of every index set goes to the left list, ordered by its largest
index; the larger half B to the right list, ordered by its smallest, falling. Then the tiles that
hold a moment lie on one side of a staircase, and few of their entries are wasted. *Triangle.* With
few monomials of degree ≤ 2, one list on both sides and its lower triangle take fewer tiles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.summary.layout import Layout, factors_of

_MOST_FEATURES = 60  # with more of them most products of pairs are no moments of order 3 or 4


class TilePlan(NamedTuple):
    """Factors of the monomials, tiles, and where the moments stand.

    Monomials are products of features `lefts` and `rights`, padded to a multiple of the side of a
    tile; n_features is the constant 1, and n_features + 1 is 0 (padding).
    """

    lefts: Int
    rights: Int
    tiles: Int  # left and right block of each
    n_same: int  # so many tiles at the head have the same monomials on both sides
    positions: Int  # of each entry of the flat vector among the flattened tiles


def n_factors(layout: Layout) -> int:
    """Highest degree of a monomial in the lists, at least 2."""
    return max(2, -(-max(layout.order, layout.squared_order + 2) // 2))


@lru_cache(maxsize=16)
def tile_plan(layout: Layout, block: int) -> TilePlan:
    """Return the plan with the fewer tiles, for a layout without high sections."""
    d, f, products = layout.n_features, n_factors(layout), factors_of(layout)
    squared = np.where(products.degrees == 2, products.features, d)
    factors = np.sort(np.hstack([products.features, squared]), axis=1)[:, : 2 * f].astype(np.int64)
    plans = [_staircase(factors, d, block)]
    if f == 2 and d <= _MOST_FEATURES:
        plans.insert(0, _triangle(factors, d, block))
    return min(plans, key=lambda plan: len(plan.tiles))


def _distinct(monomials: Int, d: int) -> tuple[Int, Int]:
    """Different monomials among rows of factors, and the number of each row among them."""
    codes = monomials @ (d + 1) ** np.arange(monomials.shape[1])
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return monomials[first], which


def _padded(monomials: Int, d: int, block: int) -> Int:
    """Factors (k, f) as columns, filled up with zeros to whole blocks."""
    n_more = -len(monomials) % block
    return np.pad(monomials, ((0, n_more), (0, 0)), constant_values=d + 1).T.copy()


def _plan(lefts: Int, rights: Int, left: Int, right: Int, block: int) -> TilePlan:
    """The plan, by the numbers of both monomials of each entry in the lists."""
    pairs = np.stack([left // block, right // block], axis=1)
    is_same = (pairs[:, 0] == pairs[:, 1]) & (lefts is rights)
    rows, which = np.unique(np.column_stack([~is_same, pairs]), axis=0, return_inverse=True)
    positions = which.reshape(-1) * block**2 + left % block * block + right % block
    return TilePlan(lefts, rights, rows[:, 1:], int((rows[:, 0] == 0).sum()), positions)


def _triangle(factors: Int, d: int, block: int) -> TilePlan:
    """Neighbors among the sorted factors go to different sides, so that no side has a square."""
    monomials, which = _distinct(np.concatenate([factors[:, 0::2], factors[:, 1::2]]), d)
    one, other = which.reshape(2, -1)
    swapped = one // block < other // block
    lists = _padded(monomials, d, block)
    left, right = np.where(swapped, other, one), np.where(swapped, one, other)
    return _plan(lists, lists, left, right, block)


def _staircase(factors: Int, d: int, block: int) -> TilePlan:
    degrees, places = (factors < d).sum(axis=1), np.arange(factors.shape[1])
    smaller = np.where(places < degrees[:, None] // 2, factors, d)[:, : factors.shape[1] // 2]
    larger = np.sort(np.where(places < degrees[:, None] // 2, d, factors), axis=1)
    lists, ranks = [], []
    for half, is_left in ((smaller, True), (larger[:, : smaller.shape[1]], False)):
        monomials, which = _distinct(half, d)
        inner = np.where(monomials < d, monomials, -1).max(axis=1)
        if not is_left:
            inner = -monomials.min(axis=1)
        order = np.lexsort([(monomials < d).sum(axis=1), inner])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        lists.append(_padded(monomials[order], d, block))
        ranks.append(place[which])
    (lefts, rights), (left, right) = lists, ranks
    return _plan(lefts, rights, left, right, block)
