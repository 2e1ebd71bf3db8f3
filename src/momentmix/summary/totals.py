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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import log10
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError, ShardError, check_count
from momentmix.families.column import CENTER_BITS, SMALLEST_CENTER
from momentmix.summary.blocks import FramedSums, OpenShard, total
from momentmix.summary.digits import (
    QUANTUM_BITS,
    Frame,
    Masks,
    floats,
    integers,
    join,
    of_features,
    reframed,
    summed,
)
from momentmix.summary.layout import Layout, known
from momentmix.tables.names import column_label, feature_number
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.tables.validation import LARGEST_VALUE, LARGEST_WEIGHT
from momentmix.wording import option

T = TypeVar("T")

_ROUNDING = 2.0**-40  # by layout, processor or device the sums of a shard differ in their last bits
_LOST_BITS = 32  # of 53: moments of what is left keep a relative accuracy of about 1e-6
_TOLERANCE = Fraction(1, 1 << 16)  # far above rounding errors, far below what impossible sums show


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

    @cached_property
    def weight(self) -> int:
        """Σ w in quanta."""
        return integers(self.digits[:, :1])[0]

    @property
    def sum_weights(self) -> float:
        """Σ w."""
        return self.weight / (1 << QUANTUM_BITS)

    @cached_property
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
        first, second = _low_sums(totals.layout, totals.digits)
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

    @cached_property
    def low_sums(self) -> tuple[list[int], list[int]]:
        """Σ w z_j and Σ w z_j² in quanta."""
        return _low_sums(self.layout, self.digits)

    @property
    def mean(self) -> Float:
        """Mean of each feature, correctly rounded."""
        means = []
        for e, k, s in zip(*self.frame, self.low_sums[0], strict=True):
            sums, bits = k * self.weight + s, e or 0  # a quotient of integers is rounded once
            of, by = (sums << bits, self.weight) if bits > 0 else (sums, self.weight << -bits)
            means.append(of / by)
        return np.array(means)


def _low_sums(layout: Layout, digits: Int) -> tuple[list[int], list[int]]:
    first, second = layout.section("distinct", 1).place, layout.section("squared", 0).place
    return integers(digits[:, first]), integers(digits[:, second])


# -- schemas -----------------------------------------------------------------------------------


def masks_of(schema: Schema | None) -> Masks:
    """Value feature and seen feature of each column of numbers that may be missing."""
    columns = () if schema is None else schema.columns
    masked = [i for i, c in enumerate(columns) if c.has_missing and c.model.joins]
    return tuple([tuple(schema.features_of(i)) for i in masked])  # type: ignore


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
    schema = reduce(joined, [_schema_of(part) for part in parts])
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


def _schema_of(totals: Totals) -> Schema:
    return totals.schema or plain_schema(totals.layout.n_features)


def with_seen(totals: Totals, schema: Schema) -> Totals:
    """The sums with a feature ``seen``, 1 in every row, where only `schema` has one: exact."""
    old, ones = _schema_of(totals), []
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


def _mark_size(totals: Totals) -> float:
    """By how much marks of the same rows may differ."""
    low, high = totals.minimum, totals.maximum
    largest = np.maximum(-low, high)
    allowed = _ROUNDING * (high - low) + 2.0**-50 * largest
    return float(2.0 * allowed.sum())


def combine(*parts: Totals) -> Totals:
    """Return the sums of the union of disjoint sets of shards.

    It has the high sections that all have; a part without rows takes nothing away.
    """
    filled = [part for part in parts if part.shards]
    if len(filled) < 2:
        return max(parts, key=lambda t: (bool(t.shards), t.layout.high))
    alike = _common(filled)
    sums = total(alike[0].layout, [part.framed for part in alike], masks_of(alike[0].schema))
    return Totals(
        layout=alike[0].layout,
        frame=sums.frame,
        digits=sums.digits,
        weight_squares=sums.weight_squares,
        n_rows=sum(part.n_rows for part in alike),
        minimum=np.min([part.minimum for part in alike], axis=0),
        maximum=np.max([part.maximum for part in alike], axis=0),
        exact_bounds=all(part.exact_bounds for part in alike),
        shards={shard: mark for part in alike for shard, mark in part.shards.items()},
        n_forgotten=sum(part.n_forgotten for part in alike),
        forgotten={shard: mark for part in alike for shard, mark in part.forgotten.items()},
        schema=alike[0].schema,
    )


def _common(parts: Sequence[Totals]) -> list[Totals]:
    """Return all parts in their common schema, with the high sections that all have."""
    alike = alike_all(parts)
    high = min(part.layout.high for part in alike)
    return [with_high(part, high) for part in alike]


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


def _difference(whole: Totals, part: Totals, shards: Mapping[bytes, Mark]) -> Totals:
    """The sums of the shards of `whole` that are left: exact; the bounds stay bounds."""
    whole, part = _common([whole, part])
    layout, masks = whole.layout, masks_of(whole.schema)
    frame = join([whole.frame, part.frame])
    left, right = (reframed(layout, x.digits, x.frame, frame, masks) for x in (whole, part))
    rest = replace(
        whole,
        frame=frame,
        digits=summed([left, -right]),
        weight_squares=whole.weight_squares - part.weight_squares,
        n_rows=whole.n_rows - part.n_rows,
        exact_bounds=False,
        shards=shards,
        n_forgotten=whole.n_forgotten - part.n_forgotten,
        centers=None,
    )
    kept = whole.forgotten if rest.n_forgotten else {}  # else it went with the other one
    return replace(rest, forgotten={x: mark for x, mark in kept.items() if x in shards})


def subtract(whole: Totals, part: Totals) -> Totals:
    """The sums of the shards of `whole` that are not in `part`, which must be part of it."""
    foreign = _sorted(part.shards.keys() - whole.shards.keys())
    if foreign:
        raise ShardError(
            f"{_listed(foreign)} not in the summary to subtract from. Subtract only what was "
            "added; for rows without a shard of their own use MomentSummary.forget.",
            shard_ids=foreign,
        )
    if not part.shards:
        return whole
    whole, part = alike_all([whole, part])
    _check_versions(whole, part)
    shards = {shard: mark for shard, mark in whole.shards.items() if shard not in part.shards}
    rest = _difference(whole, part, shards)
    problem = impossible(rest) if shards else None
    if not shards and (rest.digits.any() or rest.n_rows or rest.n_forgotten):
        problem = "sums without rows"
    if problem or rest.n_forgotten < 0:
        raise InputError(
            f"subtracting would leave {problem or 'fewer rows than none'}: although the shard ids "
            "agree, the summaries are not parts of one another. Were rows forgotten in one of them?"
        )
    _check_forgotten(whole, part)
    return rest if shards else empty(whole.layout, whole.schema)


def _check_versions(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard that took other rows than the one of the same id that is there."""
    size, pairs = _mark_size(whole), {x: (whole.shards[x], mark) for x, mark in part.shards.items()}
    shards = _sorted(x for x, (a, b) in pairs.items() if not a.is_alike(b, size))
    if shards:
        there, here = pairs[bytes.fromhex(shards[0])]
        raise ShardError(
            f"{_listed(shards)} not the same in both summaries: {there.n_rows:,} rows in the one "
            f"to subtract from, {here.n_rows:,} in the other. It took other rows after one of them "
            "was copied or saved, or its id was given twice. Subtract the same version; for the "
            "rows alone use MomentSummary.forget.",
            shard_ids=shards,
        )


def _check_forgotten(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard whose rows may be among the rows forgotten in one sum."""
    size, nothing = _mark_size(whole), Mark(0, 0.0, 0.0)
    marks = (whole.forgotten, part.forgotten)
    pairs = {x: tuple(own.get(x, nothing) for own in marks) for x in part.shards}
    shards = _sorted(x for x, (a, b) in pairs.items() if not a.is_alike(b, size))
    if shards:
        there, here = pairs[bytes.fromhex(shards[0])]
        raise ShardError(
            f"{_listed(shards)} in summaries from which different rows were forgotten: "
            f"{there.n_rows:,} rows in the one to subtract from, {here.n_rows:,} in the other. If "
            "they are rows of this shard, they would be taken away twice, or be left. Forget the "
            "same rows in both; or subtract first, and forget them in what is left; or add up the "
            "other shards again.",
            shard_ids=shards,
        )


def same(left: Totals, right: Totals) -> bool:
    """Whether counts and sums agree exactly, whatever the frames; bounds are not compared."""
    try:
        left, right = alike_all([left, right])
    except InputError:  # other columns
        return False
    plain = ("layout", "weight_squares", "n_rows", "n_forgotten")
    if any(getattr(left, name) != getattr(right, name) for name in plain):
        return False
    frame, masks = join([left.frame, right.frame]), masks_of(left.schema)
    a, b = (reframed(x.layout, x.digits, x.frame, frame, masks) for x in (left, right))
    return left.shards.keys() == right.shards.keys() and np.array_equal(a, b)


# -- forgetting --------------------------------------------------------------------------------


def check_inside(rows: NDArray[Any], totals: Totals, feature_names: Sequence[str] | None) -> None:
    """Refuse rows outside the bounds of the summary: they cannot be in it."""
    low, high = totals.bounds
    slack = np.zeros(len(low))
    for (value, _), center in zip(masks_of(totals.schema), totals.reading.centers, strict=True):
        slack[value] = 2.0**-50 * (abs(center) + max(-low[value], high[value]))  # they are rounded
    outside = (rows < low - slack) | (rows > high + slack)
    if not outside.any():
        return
    row, column = (int(x) for x in np.argwhere(outside)[0])
    raise InputError(
        f"rows to forget must lie within the minimum and maximum of the summary; row {row}, "
        f"{column_label(column, feature_names)}, is {rows[row, column]:.6g}, outside "
        f"[{low[column]:.6g}, {high[column]:.6g}]. It was never added."
    )


def forget(totals: Totals, rows: Totals) -> Totals:
    """Subtract the sums of some rows: to float64 accuracy, as their blocks are other ones."""
    if totals.n_rows <= rows.n_rows or totals.weight <= rows.weight:
        raise InputError(
            f"the summary holds {totals.n_rows} rows of total weight "
            f"{totals.sum_weights:.6g}; {rows.n_rows} rows of weight "
            f"{rows.sum_weights:.6g} cannot be forgotten and leave something. Make a "
            "new summary instead."
        )
    gone = replace(rows, n_forgotten=-rows.n_rows)
    rest = _difference(totals, gone, totals.shards)
    lost = mark_of(rows)
    before = totals.forgotten
    marks = {x: before[x].plus(lost) if x in before else lost for x in totals.shards}
    _check_digits(rest, gone)
    problem = impossible(rest)
    if problem:
        raise InputError(
            f"forgetting these rows would leave {problem}, so they cannot all have been added. "
            "Check the rows and the number of times each is given."
        )
    return replace(rest, forgotten=marks)


def _check_digits(rest: Totals, lost: Totals) -> None:
    """Refuse where the rows outweigh what is left so far that few of its digits would be true."""
    if lost.weight > rest.weight << _LOST_BITS:
        raise _too_few_digits("the weights", lost.weight, rest.weight)
    lost = with_high(lost, rest.layout.high)
    layout, masks, weight = rest.layout, masks_of(rest.schema), rest.weight
    first, _ = _low_sums(layout, rest.digits)
    centers = [k + s // weight for k, s in zip(rest.frame.origins, first, strict=True)]
    frame = Frame(rest.frame.exponents, tuple(centers))
    for degree, name in ((2, "squares"), (4, "fourth powers")):
        section = layout.find(*(("squared", 0) if degree == 2 else ("power", degree)))
        if section is None:
            continue
        left, gone = (
            integers(reframed(layout, x.digits, x.frame, frame, masks)[:, section.place])
            for x in (rest, lost)
        )
        for j, (a, b) in enumerate(zip(left, gone, strict=True)):
            if b > max(weight, abs(a)) << _LOST_BITS:
                raise _too_few_digits(f"the {name} of column {j}", b, max(weight, abs(a)))


def _too_few_digits(what: str, lost: int, left: int) -> InputError:
    factor = (lost.bit_length() - left.bit_length()) * log10(2)
    return InputError(
        f"In {what} these rows are about 10^{factor:.0f} times what would be left, so that its "
        "digits would be lost in rounding errors. Summarize the rest again; or keep outliers in a "
        "shard of their own and subtract that."
    )


def impossible(totals: Totals) -> str | None:
    """Return the reason why no rows have these sums, in a few words; None if rows can."""
    if bool(totals.shards) != (totals.n_rows > 0):
        return "rows without shards, or shards without rows"
    if not totals.n_rows:
        has_bounds = not ((totals.minimum == np.inf) & (totals.maximum == -np.inf)).all()
        has_sums = totals.digits.any() or totals.weight_squares or totals.n_forgotten
        return "sums or bounds without rows" if has_sums or has_bounds else None
    n_ever, marks = totals.n_rows + totals.n_forgotten, [*totals.shards.values()]
    square_sum, whole = totals.weight_squares << QUANTUM_BITS, totals.weight**2
    if totals.weight <= 0 or square_sum <= 0:
        return "rows with no weight"
    if totals.weight > (n_ever << QUANTUM_BITS) * int(LARGEST_WEIGHT):
        return "weights beyond the range of weights"
    # Forgetting part of a row's weight takes away too few squares and too many rows.
    too_large = square_sum > whole * (1 + _TOLERANCE) and not totals.n_forgotten
    if too_large or square_sum * n_ever < whole * (1 - _TOLERANCE):
        return "a sum of squared weights that does not fit the sum of weights"
    numbers = np.array([*marks, *totals.forgotten.values()], dtype=np.float64)
    if not np.isfinite(numbers).all() or not (numbers[:, :2] > 0).all():
        return "shards of no rows or no weight"
    if sum(mark.n_rows for mark in marks) > n_ever:
        return "shards of more rows than there are"
    low, high = totals.minimum, totals.maximum
    if not np.abs([low, high]).max() <= LARGEST_VALUE or (low > high).any():
        return "minimum above maximum, or not finite"
    schema = _schema_of(totals)
    for i, column in enumerate(() if schema.is_plain else schema.columns):
        values, every = list(schema.values_of(i)), list(schema.features_of(i))
        shares = every if column.levels else every[len(values) :]
        is_negative = column.model.least >= 0 and (low[values] < 0).any()
        if is_negative or (low[shares] < 0).any() or (high[shares] > 1).any():
            return "a value outside the range of its family"
    low, high = totals.bounds
    reading, weight = totals.reading, totals.weight
    columns = zip(*reading.frame, *reading.low_sums, low.tolist(), high.tolist(), strict=True)
    for e, k, s, t, a, b in columns:
        if e is None and any((k, s, t, a, b)):
            return "sums or bounds of a feature that is all zero"
        unit = Fraction(2) ** (e or 0)
        mean, square = Fraction(s, weight), Fraction(t, weight)
        bottom, top = Fraction(a) / unit - k, Fraction(b) / unit - k
        farthest = max(abs(top), abs(bottom))
        reach = top - bottom + farthest / 2**40 + _TOLERANCE
        slack, variance = reach * _TOLERANCE, square - mean * mean
        rounding = slack * reach + farthest**2 / 2**44
        if not bottom - slack <= mean <= top + slack:
            return "a mean outside the bounds"
        if not variance >= -rounding:
            return "a negative variance"
        if not variance <= (top - mean) * (mean - bottom) + rounding:
            return "a variance too large for the bounds"
    return None


# -- what goes together ------------------------------------------------------------------------


def check_alike(
    a: Layout,
    b: Layout,
    left: tuple[str, ...] | None,
    right: tuple[str, ...] | None,
    schemas: tuple[Schema | None, Schema | None] = (None, None),
) -> tuple[str, ...] | None:
    """Refuse layouts, names and schemas that cannot be combined; returns the common names."""
    if schemas == (None, None) and a.n_features != b.n_features:
        raise InputError(
            f"summaries must have the same features; got {a.n_features} and {b.n_features}. "
            "Take the common ones: summarize them, columns= (--columns), or use select()."
        )
    check_orders(a, b)
    if left and right and left != right:
        raise InputError(names_differ(left, right))
    if schemas != (None, None):
        plain = [
            plain_schema(layout.n_features, names) for layout, names in ((a, left), (b, right))
        ]
        joined(schemas[0] or plain[0], schemas[1] or plain[1])
    return left or right


def check_orders(a: Layout, b: Layout) -> None:
    """Refuse two orders."""
    if (a.order, a.squared_order) != (b.order, b.squared_order):
        order, squared = min(a.order, b.order), min(a.squared_order, b.squared_order)
        raise InputError(
            f"summaries must have the same orders; got order={a.order}, "
            f"squared_order={a.squared_order} and order={b.order}, "
            f"squared_order={b.squared_order}. Cut both with truncate({order}, {squared}) "
            f"(momentmix merge --truncate), or summarize both with {option(order=order)}."
        )


def names_differ(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """Describe the first difference of two lists of feature names, and the cure."""
    if sorted(expected) == sorted(given):
        cure = "They are the same names in another order: reorder the columns, or use select()."
    else:
        cure = "Rename or select the columns."
    first = next(
        (i for i, (a, b) in enumerate(zip(expected, given, strict=False)) if a != b),
        min(len(expected), len(given)),
    )
    a, b = (ascii(names[first]) if first < len(names) else "none" for names in (expected, given))
    return f"feature names must agree; column {first} is {a} in one and {b} in the other. {cure}"


def check_disjoint(left: Iterable[bytes], right: Iterable[bytes]) -> None:
    """Refuse to add summaries that share a shard."""
    _refuse({*left} & {*right}, "both summaries", "Leave one of them out, or subtract it first.")


def check_once(shards: Sequence[bytes]) -> None:
    """Refuse two shards of one id in a summary."""
    _refuse(
        [shard for shard, n in Counter(shards).items() if n > 1],
        "the summary already",
        "Leave one of them out.",
    )


def _refuse(shards: Iterable[bytes], place: str, cure: str) -> None:
    ids = _sorted(shards)
    if ids:
        text = f"{_listed(ids)} in {place}: the rows would count twice. {cure}"
        raise ShardError(text, shard_ids=ids)


def renamed(totals: Totals, ids: Mapping[bytes, bytes]) -> Totals:
    """Return the sums under other shard ids."""
    names = [ids.get(shard, shard) for shard in totals.shards]
    check_once(names)
    marks = {ids.get(x, x): mark for x, mark in totals.shards.items()}
    forgotten = {ids.get(x, x): mark for x, mark in totals.forgotten.items()}
    return replace(totals, shards=marks, forgotten=forgotten)


def _sorted(shards: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(shard.hex() for shard in shards))


def _listed(shards: tuple[str, ...]) -> str:
    """The first few shard ids, as the subject of a sentence."""
    listed = ", ".join(shards[:5]) + (f" and {len(shards) - 5} more" if len(shards) > 5 else "")
    return f"shard {listed} is" if len(shards) == 1 else f"shards {listed} are"


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
