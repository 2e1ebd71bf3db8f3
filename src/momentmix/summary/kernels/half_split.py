"""The plan of the work that sums a block: monomials of two halves of the features, multiplied.

| paper symbol | name here | shape |
|---|---|---|
| [y]_A, A ⊂ first half, a indices | rows ``places["lower", a]`` of the table | (C(h, a), n) |
| [y]_B, B ⊂ second half, b indices | rows ``places["upper", b]`` | (C(d−h, b), n) |
| Σ w y_{A∪B}, a, b ≤ m−2 | *core*: upper rows times lower rows | |
| Σ w y_k y_I, I of m−1 indices in one half, k outside | *top*: such rows times the features | |
| Σ w y_j² y_I, I of at most q indices | *squares*: all monomials up to degree q times y_j² | |

The features are split into two halves, so that nearly every entry of a product of two tables of
monomials is a distinct moment. Degrees stand side by side in one table: lower ones falling, the
constant, upper ones rising, and after upper degree q the mixed monomials; so every operand is a
range of rows. Lower monomials are in colex order, upper ones in colex order of the reversed
features: then those made last need a contiguous range of features still to be multiplied by.
Degree m−1 is needed once only and never stored: a few rows of it at a time.

Products are cut into tiles of at most 1,200 entries: OpenBLAS multiplies these without copying the
operands first, as fast as large matrices and twice as fast as thin ones.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from momentmix.index_sets import Int, binomials, colex_rank, index_sets
from momentmix.summary.layout import Layout

__all__ = ["TILE", "Fill", "HalfSplit", "Product", "table_places"]

TILE = 1200  # entries of a product
_CALL = 60  # entries that take as long as a call

Place = tuple[str, int]


class Fill(NamedTuple):
    """Rows of the table as products of others: elementwise or, where `outer`, each with each."""

    left: slice
    right: slice
    out: slice
    outer: bool = False


class Product(NamedTuple):
    """A tile: rows of the table times other rows (those that carry the weights); its place."""

    rows: slice
    columns: slice
    start: int


def _mixed(squared_order: int) -> list[tuple[int, int]]:
    """Degrees (a, b) of the monomials that mix both halves: a, b ≥ 1, a + b ≤ q."""
    return [(a, b) for a in range(1, squared_order) for b in range(1, squared_order - a + 1)]


def table_places(layout: Layout) -> dict[Place, slice]:
    """Rows of the table by half and degree; squares and mixed monomials; a tile of degree m−1."""
    m, q, d = layout.order, layout.squared_order, layout.n_features
    half, deep = d // 2, max(1, m - 2, q)
    sizes: dict[Place, int] = {("squares", 0): d}
    sizes |= {("lower", a): comb(half, a) for a in range(deep, -1, -1)}
    sizes |= {("upper", b): comb(d - half, b) for b in range(1, max(1, q) + 1)}
    sizes["mixed", 0] = sum(comb(half, a) * comb(d - half, b) for a, b in _mixed(q))
    sizes |= {("upper", b): comb(d - half, b) for b in range(max(1, q) + 1, deep + 1)}
    sizes["top", 0] = TILE // (half + 1)
    places, start = {}, 0
    for place, n in sizes.items():
        places[place] = slice(start, start + n)
        start += n
    places["upper", 0] = places["lower", 0]
    return places


def _cut(n_rows: int, n_columns: int) -> tuple[int, int]:
    """Rows and columns of the tiles of a product: as few tiles as will do."""
    best = (n_rows * n_columns + 1, 0, 0)
    for splits in range(1, n_columns + 1):
        columns = -(-n_columns // splits)
        rows = min(n_rows, TILE // columns) if columns <= TILE else 0
        if rows:
            best = min(best, (splits * -(-n_rows // rows), rows, columns))
        if splits * n_rows > 2 * best[0] * n_columns:
            break
    _, rows, columns = best
    return -(-n_rows // -(-n_rows // rows)), columns


class HalfSplit:
    """Which monomials are formed and multiplied, and which results are the moments.

    Attributes
    ----------
    places : dict
        Rows of the table by half and degree, ("squares", 0), ("mixed", 0) and ("top", 0).
    n_weighted : int
        Rows at the head of the table among which the columns of all products lie.
    fills : list of Fill
        Everything but degree m−1, in this order.
    steps : list of Fill or Product
        Degree m−1 bit by bit, and all products.
    n_sums : int
        Entries of all products together.
    pick : array of shape (n_entries,)
        Position of each moment of the flat vector of the layout among them.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.half = layout, layout.n_features // 2
        self.places = table_places(layout)
        self.n_weighted = self.places["upper", 1].stop
        self.fills = self._plan_fills()
        self.steps: list[Fill | Product] = []
        self.n_sums = 0
        self.pick = np.full(layout.n_entries, -1, dtype=np.int64)
        for degrees, highest in self._core_degrees():
            self._plan_core(degrees, highest)
        if layout.order > 1:
            self._plan_top("lower")
            self._plan_top("upper")
        self._plan_squares()

    def _size(self, side: str) -> int:
        return self.half if side == "lower" else self.layout.n_features - self.half

    def _sets(self, side: str, degree: int) -> Int:
        """Index sets of the rows of one half and degree."""
        sets = index_sets(self._size(side), degree)
        if side == "lower" or degree < 2:
            return sets + (self.half if side == "upper" else 0)
        below, parts = self._sets(side, degree - 1), [sets[:0]]
        for i in range(degree - 1, self._size(side)):
            size = comb(i, degree - 1)
            rest = below[len(below) - size :] if degree == 2 else below[:size]
            first = np.full((size, 1), self.layout.n_features - 1 - i)
            parts.append(np.hstack([first, rest]))
        return np.concatenate(parts)

    # -- monomials ----------------------------------------------------------------------------

    def _growth(self, side: str, degree: int, i: int) -> tuple[slice, slice]:
        """Rows of the monomials below and of the i-th feature that make those of a degree."""
        below, points = self.places[side, degree - 1], self.places[side, 1]
        size = comb(i, degree - 1)
        feature = points.start + i if side == "lower" else points.stop - 1 - i
        start = below.start
        if side == "upper" and degree == 2:  # degree 1 stands in rising order
            start = below.stop - size
        return slice(start, start + size), slice(feature, feature + 1)

    def _plan_fills(self) -> list[Fill]:
        fills, places = [], self.places
        for side in ("lower", "upper"):
            degree = 2
            while (side, degree) in places:
                used = places[side, degree].start
                for i in range(degree - 1, self._size(side)):
                    below, feature = self._growth(side, degree, i)
                    stop = used + below.stop - below.start
                    fills.append(Fill(below, feature, slice(used, stop)))
                    used = stop
                degree += 1
        used = places["mixed", 0].start
        for a, b in _mixed(self.layout.squared_order):
            stop = used + comb(self.half, a) * comb(self._size("upper"), b)
            fills.append(Fill(places["upper", b], places["lower", a], slice(used, stop), True))
            used = stop
        used = places["squares", 0].start
        for side in ("lower", "upper"):
            points, stop = places[side, 1], used + self._size(side)
            fills.append(Fill(points, points, slice(used, stop)))
            used = stop
        return fills

    # -- products -----------------------------------------------------------------------------

    def _multiply(self, rows: slice, columns: slice) -> Int:
        """Plan a product; returns where its entries will stand, of shape (rows, columns)."""
        n_rows, n_columns = rows.stop - rows.start, columns.stop - columns.start
        positions = np.empty((n_rows, n_columns), dtype=np.int64)
        if not positions.size:
            return positions
        height, width = _cut(n_rows, n_columns)
        for r in range(0, n_rows, height):
            for c in range(0, n_columns, width):
                tile = positions[r : r + height, c : c + width]
                tile[:] = self.n_sums + np.arange(tile.size).reshape(tile.shape)
                self.steps.append(
                    Product(
                        slice(rows.start + r, rows.start + r + tile.shape[0]),
                        slice(columns.start + c, columns.start + c + tile.shape[1]),
                        self.n_sums,
                    )
                )
                self.n_sums += tile.size
        return positions

    def _core_degrees(self) -> list[tuple[range, int]]:
        """Degrees b and the highest degree a of each core product: a, b ≤ m−2, a + b ≤ m."""
        m = self.layout.order
        if m == 1:
            return [(range(2), 0), (range(1), 1)]
        low = (range(min(2, m - 2) + 1), m - 2)
        return [low] + [(range(b, b + 1), m - b) for b in range(3, m - 1)]

    def _plan_core(self, degrees: range, highest: int) -> None:
        places, layout = self.places, self.layout
        rows = slice(places["upper", degrees[0]].start, places["upper", degrees[-1]].stop)
        columns = slice(places["lower", highest].start, places["lower", 0].stop)
        positions = self._multiply(rows, columns)
        for b in degrees:
            upper = self._sets("upper", b)
            row = places["upper", b].start - rows.start
            for a in range(min(highest, layout.order - b) + 1):
                column, size = places["lower", a].start - columns.start, comb(self.half, a)
                target = colex_rank(upper, position=a)[:, None] + np.arange(size)
                source = positions[row : row + len(upper), column : column + size]
                self.pick[layout.section("distinct", a + b).start + target] = source

    def _plan_top(self, side: str) -> None:
        """Degree m−1 of one half times the features beyond its last ones, and the constant."""
        degree, done = self.layout.order - 1, 0
        sets, size = self._sets(side, degree), self._size(side)
        if side == "upper" and degree == 1:
            sets = sets[::-1]  # as they are made
        i = degree - 1
        while i < size:
            columns = self._columns_beyond(side, i)
            width = columns.stop - columns.start
            members, used = [i], comb(i, degree - 1)
            while i + 1 < size:  # the next ones too, where the waste is less than a call
                more = comb(i + 1, degree - 1)
                waste = more * (i + 1 - members[0])
                if waste > _CALL or (used + more) * width > TILE:
                    break
                i, used = i + 1, used + more
                members.append(i)
            self._plan_slab(side, members, columns, sets[done : done + used])
            done += used
            i += 1

    def _columns_beyond(self, side: str, i: int) -> slice:
        """Rows of the constant and of all features beyond the i-th of a half."""
        lower, upper = self.places["lower", 1], self.places["upper", 1]
        if side == "lower":
            return slice(lower.start + i + 1, upper.stop)
        return slice(lower.start, upper.stop - 1 - i)

    def _plan_slab(self, side: str, members: list[int], columns: slice, sets: Int) -> None:
        degree, top = self.layout.order - 1, self.places["top", 0].start
        height = max(1, TILE // (columns.stop - columns.start))
        if len(members) == 1:  # perhaps many rows: some at a time
            below, feature = self._growth(side, degree, members[0])
            for start in range(below.start, below.stop, height):
                stop = min(start + height, below.stop)
                out = slice(top, top + stop - start)
                self.steps.append(Fill(slice(start, stop), feature, out))
                positions = self._multiply(out, columns)
                part = slice(start - below.start, stop - below.start)
                self._pick_top(side, sets[part], columns, positions)
            return
        used = top
        for i in members:
            below, feature = self._growth(side, degree, i)
            stop = used + below.stop - below.start
            self.steps.append(Fill(below, feature, slice(used, stop)))
            used = stop
        positions = self._multiply(slice(top, used), columns)
        self._pick_top(side, sets, columns, positions)

    def _pick_top(self, side: str, sets: Int, columns: slice, positions: Int) -> None:
        d, m = self.layout.n_features, self.layout.order
        below, whole = (self.layout.section("distinct", t).start for t in (m - 1, m))
        constant = self.places["lower", 0].start
        ranks = colex_rank(sets)
        self.pick[below + ranks] = positions[:, constant - columns.start]
        rows = np.delete(np.arange(columns.start, columns.stop), constant - columns.start)
        features = rows - self.places["lower", 1].start - (rows > constant)
        if side == "lower":
            row, column = np.nonzero(features > sets[:, -1:])
            targets = ranks[row] + binomials(d, m)[features[column], m]
        else:
            row, column = np.nonzero(features < sets[:, :1])
            targets = features[column] + colex_rank(sets, position=1)[row]
        self.pick[whole + targets] = positions[row, rows[column] - columns.start]

    def _square_sets(self) -> list[tuple[int, Int]]:
        """Rows of the table and index sets of all monomials up to degree q."""
        q, places = self.layout.squared_order, self.places
        lower, upper = ([self._sets(side, a) for a in range(q + 1)] for side in ("lower", "upper"))
        result = [(places["lower", a].start, lower[a]) for a in range(q + 1)]
        result += [(places["upper", b].start, upper[b]) for b in range(1, q + 1)]
        start = places["mixed", 0].start
        for a, b in _mixed(q):
            left = np.tile(lower[a], (len(upper[b]), 1))
            result.append((start, np.hstack([left, np.repeat(upper[b], len(lower[a]), axis=0)])))
            start += len(left)
        return result

    def _plan_squares(self) -> None:
        """Entries (I, j) with j ∉ I are the moments."""
        d, q, places = self.layout.n_features, self.layout.squared_order, self.places
        stop = places["mixed", 0].stop if q > 1 else places["upper", q].stop
        rows = slice(places["lower", q].start, stop)
        positions = self._multiply(rows, places["squares", 0])
        for first, members in self._square_sets():
            section = self.layout.section("squared", members.shape[1])
            for j in range(d):
                keep = np.flatnonzero(~(members == j).any(axis=1))
                ranks = colex_rank(members[keep] - (members[keep] > j))
                source = positions[first - rows.start + keep, j]
                self.pick[section.start + j * section.shape[1] + ranks] = source
