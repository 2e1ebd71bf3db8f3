"""Moments up to order 4 as the Gram matrix of all monomials of degree up to 2.

| paper symbol | name here | shape |
|---|---|---|
| [y]_B, B all products of at most two features | ``monomials`` | (g, n), g = 1 + d + C(d, 2) |
| Σ w y_I = Σ w y_A·y_B, I = A ∪ B, A below B | an entry of ``monomials @ monomials.T`` | (g, g) |
| Σ w y_j² y_i y_k = Σ w (y_j y_i)·(y_j y_k) | another one of it | |

A moment of order 4 is computed three times over, but one symmetric product of a short table beats
several thin ones, and the squares come free: 10–25 % faster than the half split for d = 10 … 60,
where order 3 alone would not be worth it.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from math import comb

import numpy as np

from momentmix.core.labels import Int, colex_rank, index_sets, sets_without
from momentmix.core.monomials import fill_monomials
from momentmix.moments.kernel import Float, Kernel, Workspace
from momentmix.moments.layout import Layout

__all__ = ["Gram", "gram_tables", "suits_gram"]


def suits_gram(layout: Layout) -> bool:
    """Whether the moments are entries of the Gram matrix, and enough of it is used."""
    return layout.order == 4 and layout.squared_order <= 2 and layout.n_features <= 60


def gram_tables(layout: Layout) -> dict[str, int]:
    """Names and numbers of rows of the tables."""
    d = layout.n_features
    size = 1 + d + comb(d, 2)
    return {"points": d, "monomials": size, "weighted": size}


class Gram(Kernel):
    """One symmetric product.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = Gram(Layout(3, 3, 0, 0))
    >>> rows, one = np.array([[1.0, 2.0, 3.0], [3.0, 5.0, 1.0]]), np.ones(3)
    >>> sums = kernel.block_sums(rows, one[:2], one, np.zeros(3), Workspace(kernel))
    >>> sums[kernel.layout.section("distinct", 3).place].tolist()
    [21.0]
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.tables = layout, gram_tables(layout)
        self._plan_chunks()
        size = self.tables["monomials"]
        self.shapes = [(size, size)]
        pairs = [self._pairs(section.kind, section.size) for section in layout.sections]
        rows, columns = (np.concatenate(part) for part in zip(*pairs, strict=True))
        self.picks = [(rows * size + columns, np.arange(layout.n_entries))]

    def _position(self, sets: Int) -> Int:
        """Row of the table that holds the monomials of some sets of at most two features."""
        d = self.layout.n_features
        return (0, 1, 1 + d)[sets.shape[1]] + colex_rank(sets)

    def _pairs(self, kind: str, size: int) -> tuple[Int, Int]:
        """The two monomials whose product is each moment of a section."""
        d = self.layout.n_features
        if kind == "distinct":
            sets = index_sets(d, size)
            split = size // 2
            return self._position(sets[:, :split]), self._position(sets[:, split:])
        rows, columns = [], []
        for j in range(d):
            sets = sets_without(d, size, j)
            left = np.sort(np.insert(sets[:, : size // 2], 0, j, axis=1), axis=1)
            right = np.sort(np.insert(sets[:, size // 2 :], 0, j, axis=1), axis=1)
            rows.append(self._position(left))
            columns.append(self._position(right))
        return np.concatenate(rows), np.concatenate(columns)

    def products(self, points: Float, weights: Float, out: list[Float], space: Workspace) -> None:
        """Write the Gram matrix of one chunk to `out`."""
        n = points.shape[1]
        table = space.table("monomials", n)
        fill_monomials(points, 2, table.ravel())
        left = table
        if (weights != 1.0).any():
            left = np.multiply(table, weights, out=space.table("weighted", n))
        np.matmul(left, table.T, out=out[0])
