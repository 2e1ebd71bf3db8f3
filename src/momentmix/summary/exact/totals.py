"""The exact sums of a set of closed shards, as a value: add, subtract, change units.

| symbol | name here | shape |
|---|---|---|
| Σ w z_I·2^Q, Σ w z_j² z_I·2^Q, z = y·2^(−e) − k | ``sums`` | (n_entries,) |
| e, k | ``exponents`` (None: neutral), ``shifts`` | (d,) |
| Σ w²·2^Q | ``weight_squares`` | |
| highest degree of sums of high sections, see ``exact_sums`` | ``reach`` | (d,) |
| columns of the features, see ``schemas`` | ``schema`` (None: numbers) | |

*Why the bytes depend on the set of shards alone.* A shard's sums are integers in its own units. The
units of a union are a function of the shards: e is the element-wise finest e of the shards, k the
exact mean of the union in that unit, rounded half to even. Sums in the finest unit about 0 are
integers that add; the sums about k are an integer polynomial of these and of k. No step rounds, so
any tree of additions ends in the same integers. A neutral feature (0 in every row) has zero sums in
every unit.

So it is with schemas: the union's is a function of the shards'. A column whose cells
are all seen is one with a feature that is 1 in every row; a change of a center is an integer map,
since the unit of a feature is never coarser than its center. Bounds, and means in marks, of a
number that has a center are kept about 0, so that a change of it leaves them alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.lazy import lazy_property
from momentmix.summary.exact.digit_sums import QUANTUM_BITS
from momentmix.summary.exact.exact_sums import (
    LARGEST_REACH,
    ExactSums,
    absent_places,
    of_features,
    reframed,
)
from momentmix.summary.layout import Layout, known
from momentmix.tables.schema import Schema

Exponents = tuple[int | None, ...]


class Mark(NamedTuple):
    """Row count, weight and means of a shard, which differ between two versions of it."""

    n_rows: int
    weight: float
    mean: Float

    def plus(self, other: Mark) -> Mark:
        """The mark of both rows together; not known where one is not (weight 0)."""
        n_rows, weight = self.n_rows + other.n_rows, self.weight + other.weight
        if not (self.weight and other.weight):
            return Mark(n_rows, 0.0, np.zeros_like(self.mean))
        share = other.weight / weight
        return Mark(n_rows, weight, (1.0 - share) * self.mean + share * other.mean)


@dataclass(frozen=True, eq=False)
class Totals:
    """Exact sums with their units, counts, bounds and shards. Arrays are never written to."""

    layout: Layout
    exponents: Exponents
    shifts: tuple[int, ...]
    sums: ExactSums
    weight_squares: int
    n_rows: int
    minimum: Float
    maximum: Float
    exact_bounds: bool
    shards: frozenset[bytes]
    n_forgotten: int
    reach: tuple[int, ...]
    marks: Mapping[bytes, Mark] = field(default_factory=dict)
    origins: Mapping[bytes, bytes] = field(default_factory=dict)  # see `parts.Origin`
    forgotten: Mapping[bytes, Mark] = field(default_factory=dict)
    schema: Schema | None = None

    @property
    def known_marks(self) -> Mapping[bytes, Mark]:
        """The marks by shard id, as far as they are known."""
        # That of a single shard is in its sums.
        if self.marks or len(self.shards) != 1 or self.n_forgotten:
            return self.marks
        (shard,) = self.shards
        return {shard: Mark(self.n_rows, self.sum_weights, self._mark_mean)}

    @lazy_property
    def weight(self) -> int:
        """Σ w in units of the quantum."""
        return int(self.sums[:1][0])

    @property
    def sum_weights(self) -> float:
        """Σ w as float64."""
        return self.weight / (1 << QUANTUM_BITS)

    @lazy_property
    def first(self) -> list[int]:
        """Σ w z_j in units of the quantum, for each feature."""
        return list(self.sums[self.layout.section("distinct", 1).place])

    @lazy_property
    def second(self) -> list[int]:
        """Σ w z_j² in units of the quantum, for each feature."""
        return list(self.sums[self.layout.section("squared", 0).place])

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        weight, means = self.weight, []
        for e, k, s in zip(self.exponents, self.shifts, self.first, strict=True):
            total, bits = k * weight + s, e or 0  # a quotient of integers is rounded once
            means.append((total << bits) / weight if bits > 0 else total / (weight << -bits))
        return np.array(means)

    @property
    def _mark_mean(self) -> Float:
        """The means, as if all centers were 0."""
        if self.schema is None:
            return self.mean
        columns = zip(self.exponents, self.shifts, self.first, strict=True)
        means = [(k + Fraction(s, self.weight)) * Fraction(2) ** (e or 0) for e, k, s in columns]
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
        if column.has_missing and column.model.joins
    ]


def empty(layout: Layout, schema: Schema | None = None) -> Totals:
    """Return the sums of no shards."""
    nothing = _empty(layout)
    return nothing if schema is None else replace(nothing, schema=schema)


@lru_cache(maxsize=16)
def _empty(layout: Layout) -> Totals:
    d = layout.n_features
    return Totals(
        layout=layout,
        exponents=(None,) * d,
        shifts=(0,) * d,
        sums=ExactSums(layout, np.zeros((layout.n_entries, 1), dtype=np.int64)),
        weight_squares=0,
        n_rows=0,
        minimum=np.full(d, np.inf),
        maximum=np.full(d, -np.inf),
        exact_bounds=True,
        shards=frozenset(),
        n_forgotten=0,
        reach=(LARGEST_REACH,) * d,
    )


def finest(*exponents: Exponents) -> Exponents:
    """Return the finest unit of each feature; a neutral one gives way."""
    features = zip(*set(exponents), strict=True)
    return tuple(min((e for e in units if e is not None), default=None) for units in features)


def bits_between(old: Exponents, new: Exponents) -> list[int]:
    """By how many bits the new units are finer; 0 for a neutral feature."""
    pairs = zip(old, new, strict=True)
    return [0 if a is None or b is None else a - b for a, b in pairs]


def rescaled(totals: Totals, exponents: Exponents) -> Totals:
    """The same sums in units that are as fine or finer: exact."""
    if exponents == totals.exponents:
        return totals
    bits = bits_between(totals.exponents, exponents)
    return replace(
        totals,
        exponents=exponents,
        shifts=tuple(k << a for k, a in zip(totals.shifts, bits, strict=True)),
        sums=reframed(totals.sums, bits, [0] * len(bits)),
    )


def mean_shifts(totals: Iterable[int], weight: int, exponents: Exponents) -> tuple[int, ...]:
    """Means, of sums about 0 over their weight, rounded half to even; 0 for neutral features."""
    pairs = zip(totals, exponents, strict=True)
    return tuple([0 if e is None else round_ratio(total, weight) for total, e in pairs])


def round_ratio(numerator: int, denominator: int) -> int:
    """The integer next to numerator / denominator, half to even, in exact arithmetic.

    >>> [round_ratio(n, 2) for n in (-3, -1, 1, 3, 5)]
    [-2, 0, 0, 2, 2]
    """
    quotient, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and quotient % 2):
        quotient += 1
    return quotient


def recentered(totals: Totals, shifts: Sequence[int] | None = None) -> Totals:
    """The same sums about other integer shifts, by default the rounded mean: exact."""
    weight, wanted = totals.weight, totals.shifts if shifts is None else tuple(shifts)
    if shifts is None and weight:
        sums = [k * weight + s for k, s in zip(totals.shifts, totals.first, strict=True)]
        wanted = mean_shifts(sums, weight, totals.exponents)
    deltas = [new - old for new, old in zip(wanted, totals.shifts, strict=True)]
    moved = reframed(totals.sums, [0] * len(deltas), deltas)
    moved = moved.without(absent_places(totals.layout, totals.reach))
    return totals if moved is totals.sums else replace(totals, shifts=wanted, sums=moved)


def with_high(totals: Totals, high: int) -> Totals:
    """The sums with fewer high sections."""
    if high >= totals.layout.high:
        return totals
    layout = known(replace(totals.layout, high=high))
    reach = totals.reach if layout.high else (LARGEST_REACH,) * layout.n_features
    return replace(totals, layout=layout, sums=totals.sums.of_layout(layout), reach=reach)


def with_features(
    totals: Totals, layout: Layout, numbers: Sequence[int], schema: Schema | None
) -> Totals:
    """Return the sums of some features by their numbers; n_features for one that is 1: exact."""

    def take(values: Iterable[Any], one: Any) -> list[Any]:
        every = [*values, one]
        return [every[i] for i in numbers]

    def take_means(marks: Mapping[bytes, Mark]) -> dict[bytes, Mark]:
        return {x: mark._replace(mean=np.array(take(mark.mean, 1.0))) for x, mark in marks.items()}

    return replace(
        totals,
        layout=layout,
        exponents=tuple(take(totals.exponents, 0)),
        shifts=tuple(take(totals.shifts, 0)),
        sums=of_features(totals.sums, layout, numbers),
        minimum=np.array(take(totals.minimum, 1.0)),
        maximum=np.array(take(totals.maximum, 1.0)),
        reach=tuple(take(totals.reach, LARGEST_REACH)),
        marks=take_means(totals.marks),
        forgotten=take_means(totals.forgotten),
        schema=schema,
    )


def shard_number(first: bytes, number: int) -> bytes:
    """Return the id of a shard that follows from the first of its rows: as integers, their sum."""
    return ((int.from_bytes(first) + number) % (1 << 8 * len(first))).to_bytes(len(first))
