"""The plan for a processor: monomials of two halves of the features, multiplied in small tiles.

| symbol | name here | shape |
|---|---|---|
| [y]_A, A ⊂ first half, a indices | rows ``places["lower", a]`` of the table | (C(h, a), n) |
| [y]_B, B ⊂ second half, b indices | rows ``places["upper", b]`` | (C(d−h, b), n) |
| Σ w y_{A∪B}, a, b ≤ m−2 | *core*: upper rows times lower rows | |
| Σ w y_k y_I, I of m−1 indices in one half, k outside | *top*: such rows times the features | |
| Σ w y_j² y_I, I of at most q indices | *squares*: all monomials up to degree q times y_j² | |
| Σ w y_j² y_k²; Σ w y_j³ y_k | squares times squares; in *squares*, where j ∈ I | |
| Σ w y_j^p, where no other product has it | *powers*: such rows times the constant | |

The features are split into two halves, so that nearly every entry of a product of two tables of
monomials is a distinct moment. Degrees stand side by side in one table: lower ones falling, the
constant, upper ones rising, and after upper degree q the mixed monomials; so every operand is a
range of rows. Lower monomials are in colex order, upper ones in colex order of the reversed
features: then those made last need a contiguous range of features still to be multiplied by.
Degree m−1 is needed once only and never stored: a few rows of it at a time.

Products are cut into tiles of at most 1,200 entries: OpenBLAS multiplies these without copying the
operands first, as fast as large matrices and twice as fast as thin ones.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets
from momentmix.summary.kernels.plan import Fill, Operand, Plan, ProductPlanner, n_rows_of
from momentmix.summary.layout import COMPLETE, POWER_DEGREES, Layout

TILE = 1200  # entries of a product: up to here OpenBLAS takes its path for small matrices
_POWER_FEATURES = 32  # whose powers are stored at a time: enough for a call, little memory
_CALL = 60  # entries whose products take as long as one more call of NumPy

Place = tuple[str, int]


def mixed_degrees(squared_order: int) -> list[tuple[int, int]]:
    """Degrees (a, b) of the monomials that mix both halves: a, b ≥ 1, a + b ≤ q."""
    return [(a, b) for a in range(1, squared_order) for b in range(1, squared_order - a + 1)]


def table_places(layout: Layout, slab: int | None = None) -> dict[Place, slice]:
    """Rows of the table by half and degree; squares and mixed monomials; a tile of degree m−1.

    With a `slab` there is no place for mixed monomials, and one for so many rows that are needed
    once.
    """
    m, q, d = layout.order, layout.squared_order, layout.n_features
    half, deep = d // 2, max(1, m - 2, q)
    sizes: dict[Place, int] = {("squares", 0): d}
    sizes |= {("lower", a): comb(half, a) for a in range(deep, -1, -1)}
    sizes |= {("upper", b): comb(d - half, b) for b in range(1, max(1, q) + 1)}
    n_mixed = sum(comb(half, a) * comb(d - half, b) for a, b in mixed_degrees(q))
    sizes["mixed", 0] = n_mixed if slab is None else 0
    sizes |= {("upper", b): comb(d - half, b) for b in range(max(1, q) + 1, deep + 1)}
    sizes["top", 0] = TILE // (half + 1) if slab is None else slab
    sizes["powers", 0] = len(POWER_DEGREES) * min(d, _POWER_FEATURES) if layout.high else 0
    places, start = {}, 0
    for place, n in sizes.items():
        places[place] = slice(start, start + n)
        start += n
    places["upper", 0] = places["lower", 0]
    return places


def table_rows(layout: Layout, slab: int | None = None) -> int:
    """Number of monomials that are stored for each row of data."""
    return max(int(place.stop) for place in table_places(layout, slab).values())


@lru_cache(maxsize=4)  # a plan of many moments takes megabytes
def half_split_plan(layout: Layout, slab: int | None = None) -> Plan:
    """The plan for a layout.

    Parameters
    ----------
    layout : Layout
    slab : int, optional
        Most rows of monomials that are made at a time where they are needed once, for code whose
        calls cost nothing: the table is smaller, and they stay in the first cache. By default as
        many as fill a tile.

    Examples
    --------
    >>> plan = half_split_plan(Layout(15, 4, 2))
    >>> plan.n_monomials, plan.n_sums, len(plan.positions)
    (346, 4266, 3906)
    """
    return _HalfSplit(layout, slab).plan()


class _HalfSplit:
    """One planning: the places of the table, and the products so far."""

    def __init__(self, layout: Layout, slab: int | None) -> None:
        self.layout, self.half, self.slab = layout, layout.n_features // 2, slab
        self.places, self.products = table_places(layout, slab), ProductPlanner(layout)

    def plan(self) -> Plan:
        """The whole plan."""
        fills = self._plan_fills()
        for degrees, highest in self._core_degrees():
            self._plan_core(degrees, highest)
        if self.layout.order > 1:
            self._plan_top("lower")
            self._plan_top("upper")
        self._plan_squares()
        if self.layout.high:
            self._plan_powers()
        self.products.check_complete()
        places, products = self.places, self.products
        return Plan(
            n_monomials=table_rows(self.layout, self.slab),
            constant=places["lower", 0].start,
            first_points=places["lower", 1],
            last_points=places["upper", 1],
            fills=fills,
            steps=products.steps,
            n_weighted=places["upper", 1].stop,
            n_sums=products.n_sums,
            positions=products.positions,
        )

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
        for a, b in mixed_degrees(self.layout.squared_order) if self.slab is None else ():
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

    def _core_degrees(self) -> list[tuple[range, int]]:
        """Degrees b and the highest degree a of each core product: a, b ≤ m−2, a + b ≤ m."""
        m = self.layout.order
        if m == 1:
            return [(range(2), 0), (range(1), 1)]
        low = (range(min(2, m - 2) + 1), m - 2)
        return [low] + [(range(b, b + 1), m - b) for b in range(3, m - 1)]

    def _plan_core(self, degrees: range, highest: int) -> None:
        places = self.places
        rows = slice(places["upper", degrees[0]].start, places["upper", degrees[-1]].stop)
        columns = slice(places["lower", highest].start, places["lower", 0].stop)
        upper = Operand(rows, [self._sets("upper", b) for b in degrees])
        lower = Operand(columns, [self._sets("lower", a) for a in range(highest, -1, -1)])
        self.products.multiply(upper, lower, tile=TILE)

    def _plan_top(self, side: str) -> None:
        """Degree m−1 of one half times the features beyond its last ones, and the constant."""
        degree, done = self.layout.order - 1, 0
        sets, size = self._sets(side, degree), self._size(side)
        if side == "upper" and degree == 1:
            sets = sets[::-1]  # as they are made
        i = degree - 1
        while i < size:
            columns = self._features_beyond(side, i)
            width = n_rows_of(columns.rows)
            members, used = [i], comb(i, degree - 1)
            while i + 1 < size:  # the next ones too, where the waste is less than a call
                more = comb(i + 1, degree - 1)
                waste = more * (i + 1 - members[0])
                if self.slab or waste > _CALL or (used + more) * width > TILE:
                    break
                i, used = i + 1, used + more
                members.append(i)
            self._plan_slab(side, members, columns, sets[done : done + used])
            done += used
            i += 1

    def _features_beyond(self, side: str, i: int) -> Operand:
        """The constant and all features beyond the i-th of a half."""
        lower, upper = self.places["lower", 1], self.places["upper", 1]
        below, above = self._sets("lower", 1), self._sets("upper", 1)
        constant = index_sets(self.layout.n_features, 0)
        if side == "lower":
            return Operand(
                slice(lower.start + i + 1, upper.stop), [below[i + 1 :], constant, above]
            )
        n = len(above) - 1 - i
        return Operand(slice(lower.start, upper.start + n), [below, constant, above[:n]])

    def _plan_slab(self, side: str, members: list[int], columns: Operand, sets: Int) -> None:
        """Some rows of degree m−1, and their products with the features beyond them."""
        degree, top = self.layout.order - 1, self.places["top", 0].start
        height = self.slab or max(1, TILE // n_rows_of(columns.rows))
        if len(members) == 1:  # perhaps many rows: some at a time
            below, feature = self._growth(side, degree, members[0])
            for start in range(below.start, below.stop, height):
                stop = min(start + height, below.stop)
                out = slice(top, top + stop - start)
                self.products.steps.append(Fill(slice(start, stop), feature, out))
                part = sets[start - below.start : stop - below.start]
                self.products.multiply(Operand(out, [part]), columns, tile=TILE)
            return
        used = top
        for i in members:
            below, feature = self._growth(side, degree, i)
            stop = used + below.stop - below.start
            self.products.steps.append(Fill(below, feature, slice(used, stop)))
            used = stop
        self.products.multiply(Operand(slice(top, used), [sets]), columns, tile=TILE)

    def _plan_squares(self) -> None:
        """Monomials up to degree q times the squares; entries (I, j) with j ∉ I are moments."""
        q, d, places = self.layout.squared_order, self.layout.n_features, self.places
        lower, upper = ([self._sets(side, a) for a in range(q + 1)] for side in ("lower", "upper"))
        sets = [*lower[::-1], *upper[1:]]
        if self.slab is None:
            sets += [_joint_sets(lower[a], upper[b]) for a, b in mixed_degrees(q)]
        is_mixed = q > 1 and self.slab is None
        stop = places["mixed", 0].stop if is_mixed else places["upper", q].stop
        rows = Operand(slice(places["lower", q].start, stop), sets)
        place = places["squares", 0]
        squares = Operand(place, [np.stack([np.arange(d)] * 2, axis=1)])
        self.products.multiply(rows, squares, tile=TILE)
        if self.slab:
            for a, b in mixed_degrees(q):
                self._plan_mixed(a, b, squares, self.slab)
        if self.layout.high == COMPLETE:  # one more column: BLAS takes another path for A·Aᵀ
            more = Operand(slice(place.start, place.stop + 1), squares.sets)
            self.products.multiply(squares, more, tile=TILE)

    def _plan_mixed(self, a: int, b: int, squares: Operand, slab: int) -> None:
        """Monomials of a features of the first half and b of the second, times the squares."""
        lower, upper, top = self.places["lower", a], self.places["upper", b], self.places["top", 0]
        width = max(1, min(slab, n_rows_of(lower)))  # there may be none
        height = slab // width
        for i in range(upper.start, upper.stop, height):
            left = slice(i, min(i + height, upper.stop))
            for j in range(lower.start, lower.stop, width):
                right = slice(j, min(j + width, lower.stop))
                n = n_rows_of(left) * n_rows_of(right)
                out = slice(top.start, top.start + n)
                self.products.steps.append(Fill(left, right, out, True))
                sets = _joint_sets(
                    self._sets("lower", a)[right.start - lower.start : right.stop - lower.start],
                    self._sets("upper", b)[left.start - upper.start : left.stop - upper.start],
                )
                self.products.multiply(Operand(out, [sets]), squares, tile=TILE)

    def _plan_powers(self) -> None:
        """The powers that no other product holds, some features at a time."""
        layout, products = self.layout, self.products
        sections = {p: layout.section("power", p) for p in POWER_DEGREES}
        missing = [p for p in POWER_DEGREES if (products.positions[sections[p].place] < 0).any()]
        for first in range(0, layout.n_features, _POWER_FEATURES):
            last = min(first + _POWER_FEATURES, layout.n_features)
            features, n = np.arange(first, last), last - first
            stored = sorted({3, *missing})
            start = self.places["powers", 0].start
            rows = {p: slice(start + i * n, start + (i + 1) * n) for i, p in enumerate(stored)}
            self._fill_powers(first, last, rows)
            if layout.high == COMPLETE and layout.squared_order < 2:
                cubes = Operand(rows[3], [np.stack([features] * 3, axis=1)])
                products.multiply(cubes, self._features_beyond("lower", -1), tile=TILE)
            sets = [np.stack([features] * p, axis=1) for p in missing]
            rising = Operand(slice(rows[missing[0]].start, rows[missing[-1]].stop), sets)
            products.multiply(rising, self._constant_and_feature())

    def _fill_powers(self, first: int, last: int, rows: dict[int, slice]) -> None:
        """Powers of the features first … last − 1: each the product of two lower ones."""
        square = self.places["squares", 0].start
        squares, steps = slice(square + first, square + last), self.products.steps
        for side, side_first in (("lower", 0), ("upper", self.half)):
            low, high = max(first, side_first), min(last, side_first + self._size(side))
            if low < high:
                points, out = self.places[side, 1].start - side_first, rows[3].start - first
                steps.append(
                    Fill(
                        slice(square + low, square + high),
                        slice(points + low, points + high),
                        slice(out + low, out + high),
                    )
                )
        factors = {4: (squares, squares), 5: (rows[3], squares), 6: (rows[3], rows[3])}
        steps += [Fill(*factors[p], rows[p]) for p in rows if p > 3]

    def _constant_and_feature(self) -> Operand:
        """The constant, and a feature beside it: BLAS takes another path for one column alone."""
        constant = self.places["lower", 0]
        sets = [index_sets(self.layout.n_features, 0), self._sets("upper", 1)[:1]]
        return Operand(slice(constant.start, constant.stop + 1), sets)


def _joint_sets(lower: Int, upper: Int) -> Int:
    """Unions of each upper set with each lower one."""
    return np.hstack([np.tile(lower, (len(upper), 1)), np.repeat(upper, len(lower), axis=0)])
