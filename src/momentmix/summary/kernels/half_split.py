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
constant, upper ones rising; so every operand is a range of rows. Lower monomials are in colex
order, upper ones in colex order of the reversed features: then those made last need a contiguous
range of features still to be multiplied by. Degree m−1, and monomials that mix both halves, are
needed once only and never stored: a few rows at a time, which stay in the first cache. Compiled
code writes the points into a table, multiplies rows of it to have the other monomials (``Fill``),
multiplies the table by itself (``Product``), and picks the moments (``Plan.positions``). Devices,
which prefer few large products, have ``tile_plan``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets
from momentmix.summary.layout import COMPLETE, POWER_DEGREES, Layout, places_of_sets

_SLAB = 16  # rows of monomials made at a time: 32 KB
_POWER_FEATURES = 32  # whose powers are stored at a time: enough for a call, little memory

Place = tuple[str, int]


class Fill(NamedTuple):
    """Rows of the table as products of rows, or of all with one; with all where it is `outer`."""

    left: slice
    right: slice
    out: slice
    outer: bool = False


class Product(NamedTuple):
    """Rows of the table times rows that carry the weights, transposed; entries from `start` on."""

    rows: slice
    columns: slice
    start: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Monomials to form and multiply, and places of the moments among the products."""

    n_monomials: int  # rows of the table
    first_points: slice  # rows of the features; the constant 1 is between both runs
    last_points: slice
    fills: list[Fill]  # what makes the monomials that are stored
    steps: list[Fill | Product]  # products, and monomials that only the next ones need
    n_weighted: int  # rows at the head of the table among which columns of all products lie
    n_sums: int  # entries of all products together
    positions: Int  # of each moment of the flat vector of the layout among them


class Operand(NamedTuple):
    """Rows of a table, and the index sets of their monomials, degree by degree."""

    rows: slice
    sets: list[Int]


def table_places(layout: Layout) -> dict[Place, slice]:
    """Rows of the table by half and degree; squares; rows that are needed once; powers."""
    m, q, d = layout.order, layout.squared_order, layout.n_features
    half, deep = d // 2, max(1, m - 2, q)
    sizes: dict[Place, int] = {("squares", 0): d}
    sizes |= {("lower", a): comb(half, a) for a in range(deep, -1, -1)}
    sizes |= {("upper", b): comb(d - half, b) for b in range(1, deep + 1)}
    sizes["top", 0] = _SLAB
    sizes["powers", 0] = len(POWER_DEGREES) * min(d, _POWER_FEATURES) if layout.high else 0
    places, start = {}, 0
    for place, n in sizes.items():
        places[place] = slice(start, start + n)
        start += n
    places["upper", 0] = places["lower", 0]
    return places


def table_rows(layout: Layout) -> int:
    """Number of monomials that are stored for each row of data."""
    return max(int(place.stop) for place in table_places(layout).values())


@lru_cache(maxsize=4)  # a plan of many moments takes megabytes
def half_split_plan(layout: Layout) -> Plan:
    """Return the plan for a layout."""
    return _HalfSplit(layout).plan()


class _HalfSplit:
    """One planning: the places of the table, and the products so far."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.half = layout, layout.n_features // 2
        self.places = table_places(layout)
        self.steps: list[Fill | Product] = []
        self.n_sums, self.positions = 0, np.full(layout.n_entries, -1, dtype=np.int64)

    def plan(self) -> Plan:
        """The whole plan."""
        fills = self._plan_fills()
        m = self.layout.order
        if m == 1:
            self._plan_core(range(2), 0)
            self._plan_core(range(1), 1)
        else:  # degrees b of the upper half and a of the lower one: a, b ≤ m−2, a + b ≤ m
            self._plan_core(range(min(2, m - 2) + 1), m - 2)
            for b in range(3, m - 1):
                self._plan_core(range(b, b + 1), m - b)
            self._plan_top("lower")
            self._plan_top("upper")
        self._plan_squares()
        if self.layout.high:
            self._plan_powers()
        assert (self.positions >= 0).all()
        places = self.places
        return Plan(
            n_monomials=table_rows(self.layout),
            first_points=places["lower", 1],
            last_points=places["upper", 1],
            fills=fills,
            steps=self.steps,
            n_weighted=places["upper", 1].stop,
            n_sums=self.n_sums,
            positions=self.positions,
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
        used = places["squares", 0].start
        for side in ("lower", "upper"):
            points, stop = places[side, 1], used + self._size(side)
            fills.append(Fill(points, points, slice(used, stop)))
            used = stop
        return fills

    # -- products -----------------------------------------------------------------------------

    def _multiply(self, left: Operand, right: Operand) -> None:
        """Plan a product, and find the moments in it; the last product with a moment counts."""
        d = self.layout.n_features
        rows, columns = (_padded(side.sets, d) for side in (left, right))
        if not len(rows) * len(columns):
            return
        self.steps.append(Product(left.rows, right.rows, self.n_sums))
        pairs = [np.repeat(rows, len(columns), axis=0), np.tile(columns, (len(rows), 1))]
        places = places_of_sets(self.layout, np.hstack(pairs))
        found = np.flatnonzero(places >= 0)
        self.positions[places[found]] = self.n_sums + found
        self.n_sums += len(rows) * len(columns)

    def _plan_core(self, degrees: range, highest: int) -> None:
        """Upper monomials of some degrees times lower ones up to the highest degree."""
        places = self.places
        rows = slice(places["upper", degrees[0]].start, places["upper", degrees[-1]].stop)
        columns = slice(places["lower", highest].start, places["lower", 0].stop)
        upper = Operand(rows, [self._sets("upper", b) for b in degrees])
        lower = Operand(columns, [self._sets("lower", a) for a in range(highest, -1, -1)])
        self._multiply(upper, lower)

    def _plan_top(self, side: str) -> None:
        """Degree m−1 of one half times the features beyond its last ones, and the constant."""
        degree, done = self.layout.order - 1, 0
        sets, size = self._sets(side, degree), self._size(side)
        if side == "upper" and degree == 1:
            sets = sets[::-1]  # as they are made
        for i in range(degree - 1, size):
            columns = self._features_beyond(side, i)
            below, feature = self._growth(side, degree, i)
            for start in range(below.start, below.stop, _SLAB):
                n = min(_SLAB, below.stop - start)
                fill = Fill(slice(start, start + n), feature, self._once(n))
                self._multiply_once(fill, sets[done : done + n], columns)
                done += n

    def _once(self, n: int) -> slice:
        """So many rows of the table that are overwritten soon."""
        start = self.places["top", 0].start
        return slice(start, start + n)

    def _multiply_once(self, fill: Fill, sets: Int, columns: Operand) -> None:
        self.steps.append(fill)
        self._multiply(Operand(fill.out, [sets]), columns)

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

    def _plan_squares(self) -> None:
        """Monomials up to degree q times the squares; entries (I, j) with j ∉ I are moments."""
        q, d, places = self.layout.squared_order, self.layout.n_features, self.places
        lower, upper = ([self._sets(side, a) for a in range(q + 1)] for side in ("lower", "upper"))
        rows = slice(places["lower", q].start, places["upper", q].stop)
        squares = Operand(places["squares", 0], [np.stack([np.arange(d)] * 2, axis=1)])
        self._multiply(Operand(rows, [*lower[::-1], *upper[1:]]), squares)
        for a in range(1, q):  # monomials that mix both halves
            for b in range(1, q - a + 1):
                self._plan_mixed(a, b, squares)
        if self.layout.high == COMPLETE:
            self._multiply(squares, squares)

    def _plan_mixed(self, a: int, b: int, squares: Operand) -> None:
        """Monomials of a features of the first half and b of the second, times the squares."""
        lower, upper = self.places["lower", a].start, self.places["upper", b].start
        lows, highs = self._sets("lower", a), self._sets("upper", b)
        width = max(1, min(_SLAB, len(lows)))  # there may be none
        height = _SLAB // width
        for i in range(0, len(highs), height):
            some = highs[i : i + height]
            for j in range(0, len(lows), width):
                others = lows[j : j + width]
                sets = np.hstack(
                    [np.tile(others, (len(some), 1)), np.repeat(some, len(others), axis=0)]
                )
                left = slice(upper + i, upper + i + len(some))
                right = slice(lower + j, lower + j + len(others))
                self._multiply_once(Fill(left, right, self._once(len(sets)), True), sets, squares)

    def _plan_powers(self) -> None:
        """The powers that no other product holds, some features at a time."""
        layout = self.layout
        sections = {p: layout.section("power", p) for p in POWER_DEGREES}
        missing = [p for p in POWER_DEGREES if (self.positions[sections[p].place] < 0).any()]
        for first in range(0, layout.n_features, _POWER_FEATURES):
            last = min(first + _POWER_FEATURES, layout.n_features)
            features, n = np.arange(first, last), last - first
            stored = sorted({3, *missing})
            start = self.places["powers", 0].start
            rows = {p: slice(start + i * n, start + (i + 1) * n) for i, p in enumerate(stored)}
            self._fill_powers(first, last, rows)
            if layout.high == COMPLETE and layout.squared_order < 2:
                cubes = Operand(rows[3], [np.stack([features] * 3, axis=1)])
                self._multiply(cubes, self._features_beyond("lower", -1))
            sets = [np.stack([features] * p, axis=1) for p in missing]
            rising = Operand(slice(rows[missing[0]].start, rows[missing[-1]].stop), sets)
            self._multiply(
                rising, Operand(self.places["lower", 0], [index_sets(layout.n_features, 0)])
            )

    def _fill_powers(self, first: int, last: int, rows: dict[int, slice]) -> None:
        """Powers of the features first … last − 1: each the product of two lower ones."""
        square = self.places["squares", 0].start
        squares, steps = slice(square + first, square + last), self.steps
        for side, side_first in (("lower", 0), ("upper", self.half)):
            low, high = max(first, side_first), min(last, side_first + self._size(side))
            if low < high:
                points, out = self.places[side, 1].start - side_first, rows[3].start - first
                left, right = slice(square + low, square + high), slice(points + low, points + high)
                steps.append(Fill(left, right, slice(out + low, out + high)))
        factors = {4: (squares, squares), 5: (rows[3], squares), 6: (rows[3], rows[3])}
        steps += [Fill(*factors[p], rows[p]) for p in rows if p > 3]


def _padded(sets: list[Int], n_features: int) -> Int:
    """Index sets of several sizes as rows of one array, with n_features for none."""
    width = max(part.shape[1] for part in sets)
    pads = [((0, 0), (0, width - part.shape[1])) for part in sets]
    pairs = zip(sets, pads, strict=True)
    return np.concatenate([np.pad(x, pad, constant_values=n_features) for x, pad in pairs])
