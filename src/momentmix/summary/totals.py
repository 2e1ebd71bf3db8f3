"""The exact sums of a set of shards, as a value: add, subtract, forget, take some features.

| symbol | name here | shape |
|---|---|---|
| Σ w z_I, Σ w z_j² z_I, … in quanta | ``digits``, see `digits` | (K, n_entries) |
| Σ w² in quanta | ``weight_squares`` | |
| columns of the features | ``schema`` (None: numbers) | |

The frame of a sum is the join of the frames of its shards, and no step rounds: the bytes depend on
the set of shards alone.

So it is with schemas. A column whose cells are all seen is one with a feature that is 1 in every
row. A number y that may be missing is the masked feature y·s, and the center c of (y − c)·s, which
rows are encoded with and moments are read with, is the origin of a frame. The *center to read with*
is a short number near the mean of the cells that are seen: a function of the sums. Bounds of such a
number are kept about 0.

A shard that still takes rows can be read at any time, and what was read carries its id. So a
summary taken early and one taken late hold different rows under one id. They are never added; the
*mark* of a shard distinguishes them, so that none is subtracted in the place of the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, check_count
from momentmix.families.column import CENTER_BITS, SMALLEST_CENTER
from momentmix.lazy import lazy_property
from momentmix.summary.blocks import FramedSums, OpenShard
from momentmix.summary.digits import (
    QUANTUM_BITS,
    Frame,
    Masks,
    floats,
    integers,
    of_features,
    reframed,
)
from momentmix.summary.layout import Layout, known
from momentmix.tables.names import feature_number
from momentmix.tables.schema import Schema, joined, plain_schema

T = TypeVar("T")

_ROUNDING = 2.0**-40  # by layout, processor or device the sums of a shard differ in their last bits


class Mark(NamedTuple):
    """Row count, weight and a mixture of means, which differ between two versions of a shard."""

    n_rows: int
    weight: float
    mean: float

    def plus(self, other: Mark) -> Mark:
        """The mark of both rows together."""
        n_rows, weight = self.n_rows + other.n_rows, self.weight + other.weight
        mean = self.weight * self.mean + other.weight * other.mean
        return Mark(n_rows, weight, mean / weight)

    def is_alike(self, other: Mark, size: float) -> bool:
        """Whether both are of the same rows, whose values have this size."""
        weights = abs(self.weight - other.weight) <= _ROUNDING * self.weight
        return self.n_rows == other.n_rows and weights and abs(self.mean - other.mean) <= size


@dataclass(frozen=True, eq=False)
class Totals:
    """Exact sums with their frame, counts, bounds and shards. Arrays are never written to."""

    layout: Layout
    frame: Frame
    digits: Int
    weight_squares: int
    n_rows: int
    minimum: Float
    maximum: Float
    exact_bounds: bool
    shards: Mapping[bytes, Mark]
    n_forgotten: int = 0
    forgotten: Mapping[bytes, Mark] = field(default_factory=dict)
    schema: Schema | None = None  # all centers 0, where there are rows
    centers: tuple[float, ...] | None = None  # to read with; None: near the means

    @property
    def framed(self) -> FramedSums:
        """The sums."""
        return FramedSums(self.frame, self.digits, self.weight_squares)

    @lazy_property
    def weight(self) -> int:
        """Σ w in quanta."""
        return integers(self.digits[:, :1])[0]

    @property
    def sum_weights(self) -> float:
        """Σ w."""
        return self.weight / (1 << QUANTUM_BITS)

    @lazy_property
    def reading(self) -> FeatureSums:
        """The sums as they are read: about centers near the means of the cells that are seen."""
        return FeatureSums(self)

    @property
    def bounds(self) -> tuple[Float, Float]:
        """Minimum and maximum of the features, 0 included where cells are missing."""
        low, high = self.minimum.copy(), self.maximum.copy()
        for (value, seen), center in zip(masks_of(self.schema), self.reading.centers, strict=True):
            some = low[seen] == 0.0
            low[value] = min(low[value] - center, 0.0 if some else np.inf)
            high[value] = max(high[value] - center, 0.0 if some else -np.inf)
        return low, high


class FeatureSums:
    """Sums of features (y − c)·s in the place of y·s, and the schema that says so."""

    def __init__(self, totals: Totals) -> None:
        self.layout, self.weight = totals.layout, totals.weight
        self.frame, self.digits, self.schema = totals.frame, totals.digits, totals.schema
        self.centers = totals.centers or ()
        masks = masks_of(self.schema)
        if not masks or not totals.n_rows:
            self.centers = self.centers or (0.0,) * len(masks)
            return
        assert self.schema is not None
        first, second = low_sums(totals.layout, totals.digits)
        if not self.centers:
            found = (_short_mean(totals.frame, first, second, *mask) for mask in masks)
            self.centers = tuple(found)
        exponents, origins = list(totals.frame.exponents), list(totals.frame.origins)
        for (value, _), center in zip(masks, self.centers, strict=True):
            exponents[value], origins[value] = _center_units(exponents[value], center)
        self.schema = with_centers(self.schema, self.centers)
        frame = Frame(tuple(exponents), tuple(origins))
        self.digits = reframed(totals.layout, totals.digits, totals.frame, frame, masks)
        values = dict(masks)
        around = tuple([0 if j in values else k for j, k in enumerate(origins)])
        self.frame = Frame(frame.exponents, around)

    @lazy_property
    def low_sums(self) -> tuple[list[int], list[int]]:
        """Σ w z_j and Σ w z_j² in quanta."""
        return low_sums(self.layout, self.digits)

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        means = []
        for e, k, s in zip(*self.frame, self.low_sums[0], strict=True):
            sums, bits = k * self.weight + s, e or 0  # a quotient of integers is rounded once
            of, by = (sums << bits, self.weight) if bits > 0 else (sums, self.weight << -bits)
            means.append(of / by)
        return np.array(means)


def low_sums(layout: Layout, digits: Int) -> tuple[list[int], list[int]]:
    """Σ w z_j and Σ w z_j² in quanta."""
    first, second = layout.section("distinct", 1).place, layout.section("squared", 0).place
    return integers(digits[:, first]), integers(digits[:, second])


# -- schemas -----------------------------------------------------------------------------------


def masks_of(schema: Schema | None) -> Masks:
    """Value feature and seen feature of each column of numbers that may be missing."""
    if schema is None:
        return ()
    masked = (i for i, c in enumerate(schema.columns) if c.has_missing and c.model.joins)
    pairs = map(schema.features_of, masked)
    return tuple([(value, seen) for value, seen in pairs])


def centers_of(schema: Schema) -> tuple[float, ...]:
    """Centers of these columns."""
    return tuple([c.center for c in schema.columns if c.has_missing and c.model.joins])


def with_centers(schema: Schema, centers: Sequence[float] | None = None) -> Schema:
    """The schema with these centers, or 0."""
    rest = iter(centers or (0.0,) * len(schema.columns))
    pairs = [(c, next(rest) if c.has_missing and c.model.joins else 0.0) for c in schema.columns]
    return Schema(tuple([c if c.center == x else replace(c, center=x) for c, x in pairs]))


def _center_units(exponent: int | None, center: float) -> tuple[int | None, int]:
    """A unit in which a center is a whole number, and that number."""
    if not center:
        return exponent, 0
    numerator, denominator = center.as_integer_ratio()
    last = (numerator & -numerator).bit_length() - denominator.bit_length()
    unit = last if exponent is None else min(last, exponent)
    return unit, int(Fraction(center) / Fraction(2) ** unit)


def _short_mean(
    frame: Frame, first: Sequence[int], second: Sequence[int], value: int, seen: int
) -> float:
    """The mean of the cells that are seen, rounded to a power of two of about their deviation."""
    exponent, n_seen = frame.exponents[value], first[seen]
    if exponent is None or n_seen <= 0:
        return 0.0
    unit, mean = Fraction(2) ** exponent, Fraction(first[value], n_seen)
    variance = Fraction(second[value], n_seen) - mean * mean
    mean, variance = (mean + frame.origins[value]) * unit, variance * unit * unit
    if not mean:
        return 0.0
    bits = [_exponent(mean) - CENTER_BITS]
    bits += [_exponent(variance) // 2] if variance > 0 else []
    step = Fraction(2) ** max(bits)
    short = float(round(mean / step) * step)
    return short if abs(short) >= SMALLEST_CENTER else 0.0


def _exponent(number: Fraction) -> int:
    """About the binary logarithm of the size of a number other than 0."""
    return abs(number.numerator).bit_length() - number.denominator.bit_length()


def alike_all(parts: Sequence[Totals]) -> list[Totals]:
    """All in their common schema; an error where there is none."""
    first = parts[0].schema
    if all(part.schema is first or _are_same(part.schema, first) for part in parts):
        return list(parts)
    schema = reduce(joined, [schema_of(part) for part in parts])
    return [with_seen(part, schema) for part in parts]


def _are_same(left: Schema | None, right: Schema | None) -> bool:
    """Whether schemas are equal, with levels of the same types (True and 1 are equal)."""
    if left is None or right is None or left != right:
        return False
    pairs = zip(left.columns, right.columns, strict=True)
    return all([*map(type, a.levels)] == [*map(type, b.levels)] for a, b in pairs)


def in_schema(totals: Totals, schema: Schema) -> Totals:
    """The same sums, to be read in a schema that is the common one of theirs and others."""
    totals = with_seen(totals, with_centers(schema))
    return replace(totals, centers=centers_of(schema))


def schema_of(totals: Totals) -> Schema:
    """The schema, of numbers where there is none."""
    return totals.schema or plain_schema(totals.layout.n_features)


def with_seen(totals: Totals, schema: Schema) -> Totals:
    """The sums with a feature ``seen``, 1 in every row, where only `schema` has one: exact."""
    old, ones = schema_of(totals), []
    for i, (a, b) in enumerate(zip(old.columns, schema.columns, strict=True)):
        if b.has_missing and not a.has_missing:
            ones.append(schema.features_of(i)[-1])
    if not ones:
        return replace(totals, schema=schema)
    layout = known(replace(totals.layout, n_features=schema.n_features))
    if not totals.n_rows:
        return empty(layout, schema)
    kept = iter(range(totals.layout.n_features))
    numbers = [old.n_features if j in ones else next(kept) for j in range(schema.n_features)]
    return with_features(with_high(totals, layout.high), layout, numbers, schema)


def with_features(
    totals: Totals, layout: Layout, numbers: Sequence[int], schema: Schema | None
) -> Totals:
    """Return the sums of some features by their numbers; n_features for one that is 1: exact."""
    return replace(
        totals,
        layout=layout,
        frame=totals.frame.taken(numbers),
        digits=of_features(totals.layout, totals.digits, layout, numbers),
        minimum=np.append(totals.minimum, 1.0)[numbers],
        maximum=np.append(totals.maximum, 1.0)[numbers],
        schema=schema,
        centers=None,
    )


# -- shards ------------------------------------------------------------------------------------


def empty(layout: Layout, schema: Schema | None = None) -> Totals:
    """Return the sums of no shards."""
    d = layout.n_features
    return Totals(
        layout=known(layout),
        frame=Frame((None,) * d, (0,) * d),
        digits=np.zeros((1, layout.n_entries), dtype=np.int64),
        weight_squares=0,
        n_rows=0,
        minimum=np.full(d, np.inf),
        maximum=np.full(d, -np.inf),
        exact_bounds=True,
        shards={},
        schema=schema,
    )


def closed(shard: OpenShard) -> Totals:
    """The sums of all rows of a shard so far; it stays as it is."""
    shard = shard.complete()
    bounds = shard.minimum, shard.maximum
    totals = Totals(shard.layout, *shard.framed(), shard.n_rows, *bounds, True, {})
    return as_shard(totals, shard.schema, shard.shard_id)


def as_shard(totals: Totals, schema: Schema | None, shard_id: bytes) -> Totals:
    """Sums of features as those of a shard, in the schema that encoded its rows."""
    if schema is not None:
        totals = encoded(totals, schema)
    return replace(totals, shards={shard_id: mark_of(totals)})


def encoded(totals: Totals, schema: Schema) -> Totals:
    """Return sums of features as sums of a schema: about 0 in the place of its centers."""
    low, high, masks = totals.minimum.copy(), totals.maximum.copy(), masks_of(schema)
    exponents, origins = list(totals.frame.exponents), list(totals.frame.origins)
    centers = dict[int, int]()
    for (value, seen), center in zip(masks, centers_of(schema), strict=True):
        exponents[value], centers[value] = _center_units(exponents[value], center)
        origins[value] = origins[seen] = 0
        low[value] += center
        high[value] += center
    frame = Frame(tuple(exponents), tuple(origins))
    digits = reframed(totals.layout, totals.digits, totals.frame, frame)
    units = tuple([centers.get(j, k) for j, k in enumerate(origins)])
    return replace(
        totals,
        frame=Frame(frame.exponents, units),
        digits=digits,
        minimum=low,
        maximum=high,
        schema=with_centers(schema),
    )


def contents_of(totals: Totals, names: Sequence[str] | None) -> str:
    """A digest of the exact sums, their columns and their count: the same rows have the same."""
    schema = None if totals.schema is None else totals.schema.to_dict()
    facts = (totals.layout, totals.frame, totals.n_rows, totals.weight_squares)
    text = json.dumps([schema, names, repr(facts)], sort_keys=True)
    digits = totals.digits.astype("<i8", copy=False).tobytes()
    return hashlib.sha256(text.encode() + b"\0" + digits).hexdigest()


def mark_of(totals: Totals) -> Mark:
    """The mark of all rows."""
    exponents, origins = totals.frame
    points = floats(totals.digits[:, : totals.layout.n_features + 1])
    shares = np.ones(len(exponents))  # of rows whose value is not 0 for being missing
    for value, seen in masks_of(totals.schema):
        shares[value] = points[1 + seen] / points[0]
    units = np.ldexp(1.0, [e or 0 for e in exponents])
    means = (points[1:] / points[0] + shares * [float(k) for k in origins]) * units
    return Mark(totals.n_rows, float(points[0]), float(_shares(len(means)) @ means))


def _shares(n: int) -> Float:
    """Numbers that mix means, so that other means have another mixture."""
    return np.asarray(1.0 + (np.arange(n) * 0.6180339887498949) % 1.0)


def with_high(totals: Totals, high: int) -> Totals:
    """The sums with fewer high sections."""
    layout = totals.layout
    return totals if high >= layout.high else of_layout(totals, replace(layout, high=high))


def of_layout(totals: Totals, layout: Layout) -> Totals:
    """Only the sections of a smaller layout."""
    if totals.layout == layout:
        return totals
    layout = known(layout)
    return replace(totals, layout=layout, digits=totals.digits[:, layout.places_in(totals.layout)])


# -- fewer moments -----------------------------------------------------------------------------


def truncate(totals: Totals, order: int, squared_order: int | None) -> Totals:
    """The sums up to a lower order."""
    old = totals.layout
    if squared_order is None:
        squared_order = min(old.squared_order, order - 1)
    layout = Layout(old.n_features, order, squared_order, old.high)
    if order > old.order or squared_order > old.squared_order:
        raise InputError(
            f"truncate can only lower order={old.order} and squared_order={old.squared_order}; "
            f"got {order} and {squared_order}. Higher moments need another pass."
        )
    return of_layout(with_high(totals, layout.high), layout)


def chosen_columns(
    columns: Sequence[int | str], names: tuple[str, ...] | None, totals: Totals
) -> list[int]:
    """Numbers of the columns that are given by number or name."""
    schema, layout = totals.schema, totals.layout
    n_columns = layout.n_features if schema is None else schema.n_columns
    chosen = [check_count("feature", feature_number(f, names), 0) for f in columns]
    if len(set(chosen)) != len(chosen) or not chosen or max(chosen) >= n_columns:
        raise InputError(
            f"features must be different numbers in 0…{n_columns - 1} or names; got {columns!r}."
        )
    n_features = len(_features_of(chosen, schema))
    if n_features < layout.order:
        raise InputError(
            f"{n_features} features have moments of order {n_features} at most, the "
            f"summary has order {layout.order}. Use truncate({n_features}) first."
        )
    return chosen


def _features_of(columns: Sequence[int], schema: Schema | None) -> list[int]:
    if schema is None:
        return list(columns)
    return [feature for column in columns for feature in schema.features_of(column)]


def select(totals: Totals, chosen: Sequence[int]) -> Totals:
    """The sums of the features of some columns, in the given order."""
    old, schema = totals.layout, totals.schema
    columns = _features_of(chosen, schema)
    if schema is not None:
        schema = Schema(tuple(schema.columns[i] for i in chosen))
    layout = known(Layout(len(columns), old.order, old.squared_order, old.high))
    return with_features(totals, layout, columns, None if schema and schema.is_plain else schema)
