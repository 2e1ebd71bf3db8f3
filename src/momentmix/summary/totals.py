"""The exact sums of a set of closed shards, as a value: add, subtract, change units.

| symbol | name here | shape |
|---|---|---|
| Σ w z_I·2^Q, Σ w z_j² z_I·2^Q, z = y·2^(−e) − k | ``sums`` | one array for each section |
| e, k | ``exponents`` (None: neutral), ``shifts`` | (d,) |
| Σ w²·2^Q | ``weight_squares`` | |
| highest degree of sums of high sections, see ``high_sections`` | ``reach`` | (d,) |
| columns that the features stand for, see ``encoded_sums`` | ``schema`` (None: numbers) | |

*Why the bytes depend on the set of shards alone.* A shard's sums are integers in its own units. The
units of a union are a function of the shards: e is the element-wise finest e of the shards, k the
exact mean of the union in that unit, rounded half to even. Sums in the finest unit about 0 are
integers that add; the sums about k are an integer polynomial of these and of k. No step rounds, so
any tree of additions ends in the same integers. A neutral feature (0 in every row) has zero sums in
every unit.

So it is with schemas. That of a union is a function of those of the shards; a column whose cells
are all seen is one with a feature that is 1 in every row; a change of a center is an integer map,
since the unit of a feature is never coarser than its center. Bounds, and means in marks, of a
number that has a center are kept about 0, so that a change of it leaves them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.schema.column import GAUSSIAN
from momentmix.schema.schema import Schema
from momentmix.summary.fixed_point import QUANTUM_BITS, Sums, finer, move, zeros
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
    schema: Schema | None = None

    @property
    def known_marks(self) -> Mapping[bytes, Mark]:
        """The marks by shard id, as far as they are known.

        Files of version 1 do not store them: one of several shards has none, one of one shard has
        it in its sums.
        """
        if self.marks or len(self.shards) != 1 or self.n_forgotten:
            return self.marks
        (shard,) = self.shards
        return {shard: Mark(sum(self.n_rows), self.weight / (1 << QUANTUM_BITS), self._mark_mean)}

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
        return np.array([float(mean) for mean in self._exact_means()])

    def _exact_means(self) -> list[Fraction]:
        weight = self.weight
        columns = zip(self.exponents, self.shifts, self.first, strict=True)
        return [(k + Fraction(s, weight)) * Fraction(2) ** (e or 0) for e, k, s in columns]

    @property
    def _mark_mean(self) -> Float:
        """The means, as if all centers were 0."""
        means = self._exact_means()
        for value, seen, center in centered(self.schema):
            means[value] += Fraction(center) * means[seen]
        return np.array([float(mean) for mean in means])

    @property
    def bounds(self) -> tuple[Float, Float]:
        """Minimum and maximum of the features, 0 included where cells are missing."""
        low, high = self.minimum.copy(), self.maximum.copy()
        for value, seen, center in centered(self.schema):
            some = low[seen] == 0.0
            low[value] = min(low[value] - center, 0.0 if some else np.inf)
            high[value] = max(high[value] - center, 0.0 if some else -np.inf)
        return low, high


def centered(schema: Schema | None) -> list[tuple[int, int, float]]:
    """Value feature, seen feature and center of each gaussian column with missing cells."""
    if schema is None:
        return []
    return [
        (schema.features_of(i)[0], schema.features_of(i)[1], column.center)
        for i, column in enumerate(schema.columns)
        if column.has_missing and column.family == GAUSSIAN
    ]


def empty(layout: Layout, schema: Schema | None = None) -> Totals:
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
        schema=schema,
    )


def finest(left: Exponents, right: Exponents) -> Exponents:
    """The finer unit of each feature; a neutral one gives way."""
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


def mean_shifts(parts: Sequence[Totals]) -> tuple[int, ...]:
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
    wanted = mean_shifts([totals]) if shifts is None else tuple(shifts)
    deltas = [new - old for new, old in zip(wanted, totals.shifts, strict=True)]
    sums = move(totals.layout, totals.sums, deltas)
    return replace(totals, shifts=wanted, sums=without_absent(totals.layout, sums, totals.reach))


def with_high(totals: Totals, high: int) -> Totals:
    """The sums with fewer high sections."""
    layout = replace(totals.layout, high=min(high, totals.layout.high))
    reach = totals.reach if layout.high else (LARGEST_REACH,) * layout.n_features
    return replace(totals, layout=layout, sums=totals.sums[: len(layout.sections)], reach=reach)
