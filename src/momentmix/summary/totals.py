"""The exact sums of a set of closed shards, as a value: add, subtract, change units.

| symbol | name here | shape |
|---|---|---|
| Σ w z_I·2^Q, Σ w z_j² z_I·2^Q, z = y·2^(−e) − k | ``sums`` | one array for each section |
| e, k | ``exponents`` (None: neutral), ``shifts`` | (d,) |
| Σ w²·2^Q | ``weight_squares`` | |
| highest degree of sums of high sections, see ``high_sections`` | ``reach`` | (d,) |

*Why the bytes depend on the set of shards alone.* A shard's sums are integers in its own units. The
units of a union are a function of the shards: e is the element-wise finest e of the shards, k the
exact mean of the union in that unit, rounded half to even. Sums in the finest unit about 0 are
integers that add; the sums about k are an integer polynomial of these and of k. No step rounds, so
any tree of additions ends in the same integers. A neutral feature (0 in every row) has zero sums in
every unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.summary.fixed_point import QUANTUM_BITS, Sums, add, finer, move, subtract, zeros
from momentmix.summary.high_sections import LARGEST_REACH, without_absent
from momentmix.summary.layout import Layout
from momentmix.summary.shard.units import round_ratio

Exponents = tuple[int | None, ...]


class Mark(NamedTuple):
    """What tells two versions of a shard apart: its row count, weight and means."""

    n_rows: int
    weight: float
    mean: Float


@dataclass(frozen=True, eq=False)
class Totals:
    """Exact sums with their units, counts, bounds and shards. Arrays are never written to."""

    layout: Layout
    exponents: Exponents
    shifts: tuple[int, ...]
    sums: Sums
    weight_squares: int
    n_rows: tuple[int, ...]
    minimum: Float
    maximum: Float
    exact_bounds: bool
    shards: frozenset[bytes]
    n_forgotten: int
    reach: tuple[int, ...]
    marks: Mapping[bytes, Mark] = field(default_factory=dict)

    @property
    def known_marks(self) -> Mapping[bytes, Mark]:
        """The marks by shard id, as far as they are known.

        Files of version 1 do not store them: one of several shards has none, one of one shard has
        it in its sums.
        """
        if self.marks or len(self.shards) != 1 or self.n_forgotten:
            return self.marks
        (shard,) = self.shards
        return {shard: Mark(sum(self.n_rows), self.weight / (1 << QUANTUM_BITS), self.mean)}

    @property
    def weight(self) -> int:
        """Σ w in units of the quantum."""
        return int(self.sums[self.layout.index["distinct", 0]].sum())

    @property
    def first(self) -> list[int]:
        """Σ w z_j in units of the quantum, for each feature."""
        return [int(x) for x in self.sums[self.layout.index["distinct", 1]].sum(axis=0)]

    @property
    def second(self) -> list[int]:
        """Σ w z_j² in units of the quantum, for each feature."""
        return [int(x) for x in self.sums[self.layout.index["squared", 0]].sum(axis=0)[:, 0]]

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        weight = self.weight
        columns = zip(self.exponents, self.shifts, self.first, strict=True)
        means = [(k + Fraction(s, weight)) * Fraction(2) ** (e or 0) for e, k, s in columns]
        return np.array([float(mean) for mean in means])


def empty(layout: Layout) -> Totals:
    """The sums of no shards."""
    d = layout.n_features
    return Totals(
        layout=layout,
        exponents=(None,) * d,
        shifts=(0,) * d,
        sums=zeros(layout),
        weight_squares=0,
        n_rows=(0,) * layout.n_groups,
        minimum=np.full(d, np.inf),
        maximum=np.full(d, -np.inf),
        exact_bounds=True,
        shards=frozenset(),
        n_forgotten=0,
        reach=(LARGEST_REACH,) * d,
    )


def _finest(left: Exponents, right: Exponents) -> Exponents:
    return tuple(
        b if a is None else a if b is None else min(a, b) for a, b in zip(left, right, strict=True)
    )


def rescaled(totals: Totals, exponents: Exponents) -> Totals:
    """The same sums in units that are as fine or finer: exact."""
    pairs = list(zip(totals.exponents, exponents, strict=True))
    bits = [0 if old is None or new is None else old - new for old, new in pairs]
    return replace(
        totals,
        exponents=exponents,
        shifts=tuple(k << a for k, a in zip(totals.shifts, bits, strict=True)),
        sums=finer(totals.layout, totals.sums, bits),
    )


def _centers(parts: Sequence[Totals]) -> tuple[int, ...]:
    """The exact mean of a union, in the common unit of its parts, rounded half to even."""
    weight = sum(part.weight for part in parts)
    if not weight:
        return parts[0].shifts
    totals = [
        sum(k * part.weight + s for part, k, s in group)
        for group in zip(*(_column_sums(part) for part in parts), strict=True)
    ]
    return tuple(
        0 if e is None else round_ratio(total, weight)
        for total, e in zip(totals, parts[0].exponents, strict=True)
    )


def _column_sums(part: Totals) -> list[tuple[Totals, int, int]]:
    return [(part, k, s) for k, s in zip(part.shifts, part.first, strict=True)]


def recentered(totals: Totals, shifts: Sequence[int] | None = None) -> Totals:
    """The same sums about other integer shifts, by default the rounded mean: exact."""
    wanted = _centers([totals]) if shifts is None else tuple(shifts)
    deltas = [new - old for new, old in zip(wanted, totals.shifts, strict=True)]
    sums = move(totals.layout, totals.sums, deltas)
    return replace(totals, shifts=wanted, sums=without_absent(totals.layout, sums, totals.reach))


def with_high(totals: Totals, high: int) -> Totals:
    """The sums with fewer high sections."""
    layout = replace(totals.layout, high=min(high, totals.layout.high))
    reach = totals.reach if layout.high else (LARGEST_REACH,) * layout.n_features
    return replace(totals, layout=layout, sums=totals.sums[: len(layout.sections)], reach=reach)


def _common(left: Totals, right: Totals) -> tuple[Totals, Totals]:
    """Both with the high sections that both have."""
    high = min(left.layout.high, right.layout.high)
    return with_high(left, high), with_high(right, high)


def _joint_reach(left: Totals, right: Totals) -> tuple[int, ...]:
    return tuple(min(pair) for pair in zip(left.reach, right.reach, strict=True))


def combine(left: Totals, right: Totals) -> Totals:
    """The sums of the union of two disjoint sets of shards, in its canonical units.

    It has the high sections, and the sums in them, that both have; one without rows takes nothing
    away.
    """
    if not right.shards or not left.shards:
        return recentered(max(left, right, key=lambda t: (bool(t.shards), t.layout.high)))
    left, right = _common(left, right)
    exponents = _finest(left.exponents, right.exponents)
    parts = [rescaled(part, exponents) for part in (left, right)]
    centers = _centers(parts)
    a, b = (recentered(part, centers) for part in parts)
    reach = _joint_reach(a, b)
    return replace(
        a,
        sums=without_absent(a.layout, add(a.sums, b.sums), reach),
        reach=reach,
        weight_squares=a.weight_squares + b.weight_squares,
        n_rows=tuple(x + y for x, y in zip(a.n_rows, b.n_rows, strict=True)),
        minimum=np.minimum(a.minimum, b.minimum),
        maximum=np.maximum(a.maximum, b.maximum),
        exact_bounds=a.exact_bounds and b.exact_bounds,
        shards=a.shards | b.shards,
        n_forgotten=a.n_forgotten + b.n_forgotten,
        marks={**left.known_marks, **right.known_marks},
    )


def remove(whole: Totals, part: Totals) -> Totals:
    """The sums of the shards of `whole` that are not in `part`: exact; the bounds stay bounds."""
    shards = whole.shards - part.shards
    whole, part = _common(whole, part)
    exponents = _finest(whole.exponents, part.exponents)
    a = rescaled(whole, exponents)
    b = recentered(rescaled(part, exponents), a.shifts)
    n_rows = tuple(x - y for x, y in zip(a.n_rows, b.n_rows, strict=True))
    reach = _joint_reach(a, b)
    rest = replace(
        a,
        sums=without_absent(a.layout, subtract(a.sums, b.sums), reach),
        reach=reach,
        weight_squares=a.weight_squares - b.weight_squares,
        n_rows=n_rows,
        exact_bounds=False,
        shards=shards,
        n_forgotten=a.n_forgotten - b.n_forgotten,
        marks={shard: mark for shard, mark in whole.known_marks.items() if shard in shards},
    )
    if min(n_rows) < 0 or rest.n_forgotten < 0 or not _plausible(rest, bool(shards)):
        raise InputError(
            f"the summary to subtract holds {sum(b.n_rows)} rows, the other one {sum(a.n_rows)}; "
            "although the shard ids agree they are not parts of one another. Were rows forgotten "
            "in one of them?"
        )
    return recentered(rest) if shards else empty(whole.layout)


def _plausible(rest: Totals, rows_left: bool) -> bool:
    """Whether rows and weight are left exactly if they should be, and nothing else otherwise."""
    if rows_left:
        return sum(rest.n_rows) > 0 and rest.weight > 0
    return not sum(rest.n_rows) and not any(bool(array.any()) for array in rest.sums)


def same(left: Totals, right: Totals) -> bool:
    """Whether counts and sums agree exactly, whatever the units; bounds are not compared."""
    plain = ("layout", "weight_squares", "n_rows", "shards", "n_forgotten", "reach")
    if any(getattr(left, name) != getattr(right, name) for name in plain):
        return False
    exponents = _finest(left.exponents, right.exponents)
    a, b = (recentered(rescaled(part, exponents)) for part in (left, right))
    equal = [bool((x == y).all()) for x, y in zip(a.sums, b.sums, strict=True)]
    return a.shifts == b.shifts and all(equal)
