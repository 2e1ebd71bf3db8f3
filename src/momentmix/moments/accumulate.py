"""One block of rows → the sums of all its moments, by matrix products.

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
more than multiplying by it. Rows go through the tables in chunks; the sums of a block are always
formed in the same order, by one thread.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.core.labels import Int, colex_rank, index_sets
from momentmix.core.monomials import fill_monomials
from momentmix.moments.layout import Layout

__all__ = ["Kernel", "Workspace", "block_rows", "table_rows"]

Float = NDArray[np.float64]

_TABLE_BYTES = 1 << 26  # of one thread; longer chunks cost fewer calls, larger tables more cache


def block_rows(layout: Layout) -> int:
    """Rows of a block: few, so that small data fill the replicate groups; more for many moments."""
    return 1024 if layout.n_entries < 100_000 else 4096


def table_rows(layout: Layout) -> int:
    """Number of monomials that a workspace holds for each row of a chunk."""
    d, m, q = layout.n_features, layout.order, layout.squared_order
    half = d // 2
    tables = sum(comb(half, a) + comb(d - half, a) for a in range(m))
    return tables + sum(comb(half, a) * comb(d - half, b) for a, b in _crossed(q)) + 4 * d


def _crossed(squared_order: int) -> list[tuple[int, int]]:
    """Degrees (a, b) of the monomials that mix both halves: a, b ≥ 1, a + b ≤ q."""
    return [(a, b) for a in range(1, squared_order) for b in range(1, squared_order - a + 1)]


class Workspace:
    """The memory that one thread reuses from block to block."""

    def __init__(self, kernel: Kernel) -> None:
        layout, chunk = kernel.layout, kernel.chunk
        d = layout.n_features
        half = d // 2
        sizes = [sum(comb(h, a) for a in range(layout.order)) for h in (half, d - half)]
        self.lower, self.upper = (np.empty(size * chunk) for size in sizes)
        self.crossed = np.empty(
            sum(comb(half, a) * comb(d - half, b) for a, b in _crossed(layout.squared_order))
            * chunk
        )
        self.points, self.squares, self.weighted, self.weighted_squares = (
            np.empty(d * chunk) for _ in range(4)
        )
        self.sums = [np.empty(shape) for shape in kernel.shapes]
        self.part = [np.empty(shape) for shape in kernel.shapes]
        self.flat = np.empty(layout.n_entries + 1)


class Kernel:
    """The plan of the products for one layout: shapes, and where each result belongs.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = Kernel(Layout(2, 2, 0, 0))
    >>> rows, one = np.array([[1.0, 2.0], [3.0, 5.0]]), np.ones(2)
    >>> kernel.block_sums(rows, one, one, np.zeros(2), Workspace(kernel)).tolist()
    [2.0, 4.0, 7.0, 17.0, 10.0, 29.0, 2.0]
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.chunk = int(min(1024, max(16, _TABLE_BYTES // (8 * table_rows(layout)))))
        self.targets = [self._distinct_targets(b) for b in range(layout.order)]
        self.shapes: list[tuple[int, ...]] = [target.shape for target in self.targets]
        self.picks: list[tuple[Int, Int]] = []
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

    def block_sums(
        self, rows: Float, weights: Float, inverse_scale: Float, shift: Float, space: Workspace
    ) -> Float:
        """Σ over the rows of w·z_I and w·z_j²·z_I with z = rows·inverse_scale − shift.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
        weights : array of shape (n_rows,)
        inverse_scale, shift : arrays of shape (n_features,)
            The frame: powers of two and integers.
        space : Workspace
            Overwritten.

        Returns
        -------
        array of shape (n_entries + 1,), a view into `space`
            The flat vector of the layout; its last entry is Σ w².
        """
        for start in range(0, len(rows), self.chunk):
            stop = min(start + self.chunk, len(rows))
            points = space.points[: rows.shape[1] * (stop - start)].reshape(rows.shape[1], -1)
            np.multiply(rows[start:stop].T, inverse_scale[:, None], out=points)
            points -= shift[:, None]
            self._products(points, weights[start:stop], space.part if start else space.sums, space)
            if start:
                for total, part in zip(space.sums, space.part, strict=True):
                    total += part
        for target, total in zip(self.targets, space.sums, strict=False):
            space.flat[target] = total
        for (source, place), total in zip(self.picks, space.sums[len(self.targets) :], strict=True):
            space.flat[place] = total.ravel()[source]
        space.flat[-1] = weights @ weights
        return space.flat

    def _products(self, points: Float, weights: Float, out: list[Any], space: Workspace) -> None:
        """All products of one chunk."""
        d, n = points.shape
        m, half = self.layout.order, d // 2
        lower = fill_monomials(points[:half], m - 1, space.lower)
        upper = fill_monomials(points[half:], m - 1, space.upper, first=weights)
        lengths = np.cumsum([len(block) for block in lower])
        table = space.lower[: lengths[-1] * n].reshape(-1, n)
        for b in range(m):
            np.matmul(upper[b], table[: lengths[min(m - b, m - 1)]].T, out=out[b])
        weighted = np.multiply(points, weights, out=space.weighted[: d * n].reshape(d, n))
        np.matmul(lower[m - 1], weighted[:half].T, out=out[m])
        np.matmul(upper[m - 1], points[half:].T, out=out[m + 1])
        self._square_products((points, weighted), (lower, upper), out[m + 2 :], space)

    def _square_products(
        self,
        points: tuple[Float, Float],
        tables: tuple[list[Any], list[Any]],
        out: list[Any],
        space: Workspace,
    ) -> None:
        """Squares times the monomials of the lower half, of the upper half, and of both."""
        (plain, weighted), (lower, upper) = points, tables
        d, n = plain.shape
        q = self.layout.squared_order
        squares = np.multiply(plain, plain, out=space.squares[: d * n].reshape(d, n))
        weighted_squares = np.multiply(
            plain, weighted, out=space.weighted_squares[: d * n].reshape(d, n)
        )
        below, above = (sum(len(block) for block in part[: q + 1]) for part in tables)
        np.matmul(weighted_squares, space.lower[: below * n].reshape(below, n).T, out=out[0])
        np.matmul(squares, space.upper[n : above * n].reshape(above - 1, n).T, out=out[1])
        used = 0
        for a, b in _crossed(q):
            shape = (len(upper[b]), len(lower[a]), n)
            block = space.crossed[used : used + shape[0] * shape[1] * n].reshape(shape)
            np.multiply(upper[b][:, None, :], lower[a], out=block)
            used += block.size
        np.matmul(squares, space.crossed[:used].reshape(-1, n).T, out=out[2])
