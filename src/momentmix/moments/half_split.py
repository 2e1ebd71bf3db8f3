"""Moments as products of the monomials of two halves of the features.

| paper symbol | name here | shape |
|---|---|---|
| y (in the units of the frame) | ``points`` | (d, n) |
| [y]_B, B ⊂ first half of the features | ``lower[a]`` | (C(h, a), n) |
| w·[y]_B, B ⊂ second half | ``upper[b]`` | (C(d−h, b), n) |
| Σ w y_I, a + b indices in I | ``upper[b] @ lower[a].T`` | (C(d−h, b), C(h, a)) |
| Σ w y_j² y_I | squares of the points times the monomials y_I | (d, C(d, s)) |

The features are split into two halves, so that every distinct moment is one entry of a product of
two short tables of monomials, and none is computed twice. Fixing its upper indices, the lower ones
run over a contiguous stretch of colex order. The tables stop at degree m−1: order m within one half
is read off the product of degree m−1 with the features themselves, because filling a table costs
more than multiplying by it.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from math import comb

import numpy as np

from momentmix.core.labels import Int, colex_rank, index_sets
from momentmix.core.monomials import fill_monomials
from momentmix.moments.kernel import Float, Kernel, Workspace
from momentmix.moments.layout import Layout

__all__ = ["HalfSplit", "half_split_tables"]


def _crossed(squared_order: int) -> list[tuple[int, int]]:
    """Degrees (a, b) of the monomials that mix both halves: a, b ≥ 1, a + b ≤ q."""
    return [(a, b) for a in range(1, squared_order) for b in range(1, squared_order - a + 1)]


def half_split_tables(layout: Layout) -> dict[str, int]:
    """Names and numbers of rows of the tables."""
    d, half = layout.n_features, layout.n_features // 2
    lower, upper = (sum(comb(h, a) for a in range(layout.order)) for h in (half, d - half))
    crossed = sum(comb(half, a) * comb(d - half, b) for a, b in _crossed(layout.squared_order))
    whole = dict.fromkeys(("points", "weighted", "squares", "weighted_squares"), d)
    return {"lower": lower, "upper": upper, "crossed": crossed, **whole}


class HalfSplit(Kernel):
    """Products of two halves, for any order.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = HalfSplit(Layout(2, 2, 0, 0))
    >>> rows, one = np.array([[1.0, 2.0], [3.0, 5.0]]), np.ones(2)
    >>> kernel.block_sums(rows, one, one, np.zeros(2), Workspace(kernel)).tolist()
    [2.0, 4.0, 7.0, 17.0, 10.0, 29.0, 2.0]
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.tables = layout, half_split_tables(layout)
        self._plan_chunks()
        targets = [self._distinct_targets(b) for b in range(layout.order)]
        self.shapes = [target.shape for target in targets]
        self.picks = [(None, target) for target in targets]
        half = layout.n_features // 2
        for first, size in ((0, half), (half, layout.n_features - half)):
            self.shapes.append((comb(size, layout.order - 1), size))
            self.picks.append(self._top_targets(first, size))
        for columns in self._square_columns():
            width = sum(len(members) for members in columns)
            self.shapes.append((layout.n_features, width))
            self.picks.append(self._square_targets(columns))

    def _distinct_targets(self, b: int) -> Int:
        """Flat positions of the product of `upper[b]` with all `lower[a]`, a ≤ m − b, a < m."""
        layout = self.layout
        half = layout.n_features // 2
        upper = index_sets(layout.n_features - half, b) + half
        parts = []
        for a in range(min(layout.order - b, layout.order - 1) + 1):
            start = layout.section("distinct", a + b).start
            starts = start + colex_rank(upper, position=a)
            parts.append(starts[:, None] + np.arange(comb(half, a)))
        return np.concatenate(parts, axis=1)

    def _top_targets(self, first: int, size: int) -> tuple[Int, Int]:
        """Order m within one half: which entries (I, i) have i > max I, and their positions."""
        order = self.layout.order
        sets = index_sets(size, order - 1)
        last = sets[:, -1] if order > 1 else np.full(len(sets), -1)
        rows, columns = np.nonzero(np.arange(size) > last[:, None])
        members = np.hstack([sets[rows], columns[:, None]]) + first
        start = self.layout.section("distinct", order).start
        return rows * size + columns, start + colex_rank(members)

    def _square_columns(self) -> list[list[Int]]:
        """The index sets I of the three square products: all lower, all upper, mixed."""
        d, q = self.layout.n_features, self.layout.squared_order
        half = d // 2
        lower = [index_sets(half, a) for a in range(q + 1)]
        upper = [index_sets(d - half, b) + half for b in range(q + 1)]
        mixed = [
            np.hstack(
                [np.tile(lower[a], (len(upper[b]), 1)), np.repeat(upper[b], len(lower[a]), axis=0)]
            )
            for a, b in _crossed(q)
        ]
        return [lower, upper[1:], mixed]

    def _square_targets(self, columns: list[Int]) -> tuple[Int, Int]:
        """Which entries (j, I) of a square product count (j ∉ I), and their flat positions."""
        none = np.empty(0, dtype=np.int64)
        sources, targets = [none], [none]
        width, first = sum(len(members) for members in columns), 0
        for members in columns:
            section = self.layout.section("squared", members.shape[1])
            for j in range(self.layout.n_features):
                keep = np.flatnonzero(~(members == j).any(axis=1))
                ranks = colex_rank(members[keep] - (members[keep] > j))
                sources.append(j * width + first + keep)
                targets.append(section.start + j * section.shape[1] + ranks)
            first += len(members)
        return np.concatenate(sources), np.concatenate(targets)

    def products(self, points: Float, weights: Float, out: list[Float], space: Workspace) -> None:
        """Write all products of one chunk to `out`."""
        d, n = points.shape
        m, half = self.layout.order, d // 2
        table, other = space.table("lower", n), space.table("upper", n)
        lower = fill_monomials(points[:half], m - 1, table.ravel())
        upper = fill_monomials(points[half:], m - 1, other.ravel(), first=weights)
        lengths = np.cumsum([len(block) for block in lower])
        for b in range(m):
            np.matmul(upper[b], table[: lengths[min(m - b, m - 1)]].T, out=out[b])
        weighted = np.multiply(points, weights, out=space.table("weighted", n))
        np.matmul(lower[m - 1], weighted[:half].T, out=out[m])
        np.matmul(upper[m - 1], points[half:].T, out=out[m + 1])
        squares = np.multiply(points, points, out=space.table("squares", n))
        weighted_squares = np.multiply(points, weighted, out=space.table("weighted_squares", n))
        q = self.layout.squared_order
        above = sum(len(block) for block in upper[: q + 1])
        np.matmul(weighted_squares, table[: lengths[q]].T, out=out[m + 2])
        np.matmul(squares, other[1:above].T, out=out[m + 3])
        crossed, used = space.table("crossed", n), 0
        for a, b in _crossed(q):
            shape = (len(upper[b]), len(lower[a]), n)
            block = crossed[used : used + shape[0] * shape[1]].reshape(shape)
            np.multiply(upper[b][:, None, :], lower[a], out=block)
            used += shape[0] * shape[1]
        np.matmul(squares, crossed.T, out=out[m + 4])
