"""Which tiles of two lists of monomials hold all moments.

| symbol | name here | shape |
|---|---|---|
| I = A ∪ B, A the smaller half of the indices | rows of ``lefts`` and ``rights`` | (f, …) |
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
from momentmix.summary.kernels.plan import ProductPlanner, operand
from momentmix.summary.kernels.whole_tables import pair_sets, suits_pairs
from momentmix.summary.layout import Layout
from momentmix.summary.products import products_of


class TilePlan(NamedTuple):
    """Factors of the monomials, tiles, and where the moments stand.

    Attributes
    ----------
    lefts, rights : arrays of shape (f, a multiple of the side of a tile)
        The features whose product is each monomial; n_features stands for the constant 1, and
        n_features + 1 for 0 (padding).
    tiles : array of shape (n_tiles, 2)
        Left and right block of each tile.
    n_same : int
        So many tiles at the head have the same monomials on both sides.
    positions : array of shape (n_entries,)
        Place of each entry of the flat vector among the tiles, one flattened after the other.
    """

    lefts: Int
    rights: Int
    tiles: Int
    n_same: int
    positions: Int


def n_factors(layout: Layout) -> int:
    """Highest degree of a monomial in the lists, at least 2."""
    return max(2, -(-max(layout.order, layout.squared_order + 2) // 2))


@lru_cache(maxsize=16)
def tile_plan(layout: Layout, block: int) -> TilePlan:
    """The plan with the fewer tiles, for a layout without high sections.

    Examples
    --------
    >>> [len(tile_plan(Layout(d, 4, 2).without_high, 64).tiles) for d in (15, 30)]
    [3, 21]
    """
    plans = [_staircase(layout, block)]
    if suits_pairs(layout):
        plans.insert(0, _triangle(layout, block))
    return min(plans, key=lambda plan: len(plan.tiles))


def _padded(monomials: Int, layout: Layout, block: int) -> Int:
    """Factors (k, f) as columns, filled up with zeros to whole blocks."""
    k, f = monomials.shape
    factors = np.full((f, -(-k // block) * block), layout.n_features + 1)
    factors[:, :k] = monomials.T
    return factors


def _triangle(layout: Layout, block: int) -> TilePlan:
    sets = pair_sets(layout)
    monomials = np.full((sum(len(members) for members in sets), 2), layout.n_features)
    first = 0
    for members in sets:
        monomials[first : first + len(members), : members.shape[1]] = members
        first += len(members)
    factors = _padded(monomials, layout, block)
    n = factors.shape[1] // block
    diagonal = np.stack([np.arange(n)] * 2, axis=1)
    tiles = np.concatenate([diagonal, np.stack(np.tril_indices(n, -1), axis=1)])
    products = ProductPlanner(layout)
    blocks = [operand(sets, slice(i * block, (i + 1) * block)) for i in range(n)]
    for left, right in tiles.tolist():
        products.multiply(blocks[left], blocks[right])
    products.check_complete()
    return TilePlan(factors, factors, tiles, n, products.positions)


def _halves(layout: Layout) -> tuple[Int, Int]:
    """Smaller and larger half of the indices of every entry, (n_entries, f), d for none."""
    d, f = layout.n_features, n_factors(layout)
    products = products_of(layout)
    squared = np.where(products.degrees == 2, products.features, d)
    factors = np.sort(np.hstack([products.features, squared]), axis=1)[:, : 2 * f]
    left, right = (np.full((layout.n_entries, f), d) for _ in range(2))
    degrees = (factors < d).sum(axis=1)
    for degree in range(factors.shape[1] + 1):
        own, cut = degrees == degree, degree // 2
        left[own, :cut] = factors[own, :cut]
        right[own, : degree - cut] = factors[own, cut:degree]
    return left, right


def _staircase(layout: Layout, block: int) -> TilePlan:
    d = layout.n_features
    lists, ranks = [], []
    for half, is_left in zip(_halves(layout), (True, False), strict=True):
        codes = half @ (d + 1) ** np.arange(half.shape[1])
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        monomials = half[first]
        inner = np.where(monomials < d, monomials, -1).max(axis=1)
        if not is_left:
            inner = -monomials.min(axis=1)
        order = np.lexsort([(monomials < d).sum(axis=1), inner])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        lists.append(_padded(monomials[order], layout, block))
        ranks.append(place[which])
    blocks = np.stack(ranks, axis=1) // block
    width = lists[1].shape[1] // block
    tiles, which = np.unique(blocks[:, 0] * width + blocks[:, 1], return_inverse=True)
    row, column = (rank % block for rank in ranks)
    return TilePlan(
        lists[0], lists[1], np.stack(np.divmod(tiles, width), axis=1), 0,
        which * block**2 + row * block + column,
    )  # fmt: skip
