"""The exact sums of a set of shards, as a value: its schema, its readings, fewer of its moments.

The frame of a sum is the join of the frames of its shards, and no step rounds: the bytes depend on
the set of shards alone. So it is with schemas. A column whose cells are all observed is one with a
feature that is 1 in every row. A number y that may be missing is the masked feature y·s, and the
center c of (y − c)·s, which rows are encoded with and moments are read with, is the origin of a
frame. The *center to read with* is a short number near the mean of the observed cells: a function
of the sums. Bounds of such a number are kept about 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, check_count
from momentmix.families.column import CENTER_BITS, SMALLEST_CENTER
from momentmix.lazy import lazy_property
from momentmix.summary.blocks import OpenShard
from momentmix.summary.digits import (
    QUANTUM_BITS,
    Frame,
    FramedSums,
    Masks,
    in_whole_units,
    integers,
    of_features,
    reframed,
    total,
)
from momentmix.summary.layout import Layout
from momentmix.tables.names import feature_number
from momentmix.tables.schema import Schema


class Version(NamedTuple):
    """What distinguishes two versions of a shard, which may be read before its last row arrives.

    The rows that were forgotten while it was there may be its own: `forgotten` is the sum of the
    digests of what was forgotten, by call, modulo 2^128.
    """

    n_rows: int
    forgotten: int = 0


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
    schema: Schema  # all centers are 0 where there are rows
    shards: Mapping[bytes, Version] = field(default_factory=dict)
    centers: tuple[float, ...] | None = None  # to read with; None: near the means

    @property
    def framed(self) -> FramedSums:
        """The sums alone."""
        return FramedSums(self.frame, self.digits, self.weight_squares)

    @property
    def n_forgotten(self) -> int:
        """Number of rows that were taken away without a shard of their own."""
        return sum(version.n_rows for version in self.shards.values()) - self.n_rows

    @lazy_property
    def weight(self) -> int:
        """Σ w in quanta."""
        return integers(self.digits[:, :1])[0]

    @property
    def sum_weights(self) -> float:
        """Σ w."""
        return self.weight / (1 << QUANTUM_BITS)

    @lazy_property
    def low_sums(self) -> tuple[list[int], list[int]]:
        """Σ w z_j and Σ w z_j² in quanta."""
        sections = self.layout.section("distinct", 1), self.layout.section("squared", 0)
        first, second = (integers(self.digits[:, section.place]) for section in sections)
        return first, second

    @lazy_property
    def reading(self) -> Totals:
        """The sums as they are read: features (y − c)·s in the place of y·s, as the schema says."""
        masks = masks_of(self.schema)
        if not masks or not self.n_rows:
            return self
        centers = self.centers or tuple([_short_mean(self, *mask) for mask in masks])
        low, high = self.minimum.copy(), self.maximum.copy()
        for (value, observed), center in zip(masks, centers, strict=True):
            ends = [0.0] if low[observed] == 0.0 else []  # of cells that are missing
            low[value] = min(low[value] - center, *ends, np.inf)
            high[value] = max(high[value] - center, *ends, -np.inf)
        about, origin = _frames(self.frame, masks, centers)
        digits = reframed(self.layout, self.digits, self.frame, about, masks)
        schema = with_centers(self.schema, centers)
        return replace(self, frame=origin, digits=digits, minimum=low, maximum=high, schema=schema)


def empty(layout: Layout, schema: Schema) -> Totals:
    """Return the sums of no shards."""
    d = layout.n_features
    digits = np.zeros((1, layout.n_entries), dtype=np.int64)
    ends = np.full(d, np.inf), np.full(d, -np.inf)
    return Totals(layout, Frame.of_zeros(d), digits, 0, 0, *ends, schema)


def closed(shard: OpenShard) -> Totals:
    """The sums of all rows of a shard so far; it stays as it is."""
    whole = shard.complete()
    sums = total(whole.layout, whole.framed)
    bounds = whole.minimum, whole.maximum
    totals = Totals(whole.layout, *sums, whole.n_rows, *bounds, whole.schema)
    return as_shard(totals, shard.shard_id, shard.mark)


def as_shard(totals: Totals, shard_id: bytes | None, mark: str = "") -> Totals:
    """Sums of features, in the schema that encoded their rows, as those of a shard.

    Without an id of its own it is named by its contents and a mark.
    """
    if masks_of(totals.schema):
        totals = _about_zero(totals)
    if shard_id is None:
        shard_id = named(contents_of(totals) + mark)
    return replace(totals, shards={shard_id: Version(totals.n_rows)})


def named(name: str | bytes) -> bytes:
    """The 16 bytes of a shard id that stand for a name."""
    name = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else name
    return hashlib.sha256(b"momentmix shard\0" + name).digest()[:16]


def contents_of(totals: Totals) -> str:
    """A digest of the exact sums, their columns and their count: the same rows have the same."""
    facts = (totals.layout, totals.frame, totals.n_rows, totals.weight_squares)
    text = json.dumps([totals.schema.to_dict(), repr(facts)], sort_keys=True)
    digits = totals.digits.astype("<i4").tobytes()  # see `digits`: they fit
    return hashlib.blake2b(text.encode() + b"\0" + digits, digest_size=32).hexdigest()


# -- schemas -----------------------------------------------------------------------------------


def masks_of(schema: Schema) -> Masks:
    """Value feature and observed feature of each column of numbers that may be missing."""
    masked = (i for i, c in enumerate(schema.columns) if c.has_missing and c.model.joins)
    return tuple([(value, observed) for value, observed in map(schema.features_of, masked)])


def centers_of(schema: Schema) -> tuple[float, ...]:
    """Centers of these columns."""
    return tuple([c.center for c in schema.columns if c.has_missing and c.model.joins])


def with_centers(schema: Schema, centers: Sequence[float] | None = None) -> Schema:
    """The schema with these centers, or 0."""
    rest = iter(centers or (0.0,) * len(schema.columns))
    pairs = [(c, next(rest) if c.has_missing and c.model.joins else 0.0) for c in schema.columns]
    return Schema(tuple([c if c.center == x else replace(c, center=x) for c, x in pairs]))


def _frames(frame: Frame, masks: Masks, centers: Sequence[float]) -> tuple[Frame, Frame]:
    """Frames about the centers of y·s, and about 0 of (y − c)·s, in the same units: equal sums."""
    exponents, about, origins = list(frame.exponents), list(frame.origins), list(frame.origins)
    for (value, observed), center in zip(masks, centers, strict=True):
        unit, multiple = in_whole_units(center)
        units = [e for e in (exponents[value], unit) if e is not None]
        exponents[value] = min(units, default=None)
        about[value] = multiple << (unit - min(units)) if unit is not None else 0
        origins[value] = origins[observed] = about[observed] = 0
    return Frame(tuple(exponents), tuple(about)), Frame(tuple(exponents), tuple(origins))


def _about_zero(totals: Totals) -> Totals:
    """The same sums of features y·s in the place of (y − c)·s."""
    masks, centers = masks_of(totals.schema), centers_of(totals.schema)
    low, high = totals.minimum.copy(), totals.maximum.copy()
    for (value, _), center in zip(masks, centers, strict=True):
        low[value] += center
        high[value] += center
    about, origin = _frames(totals.frame, masks, centers)
    digits = reframed(totals.layout, totals.digits, totals.frame, origin)
    schema = with_centers(totals.schema)
    return replace(totals, frame=about, digits=digits, minimum=low, maximum=high, schema=schema)


def read_about(totals: Totals, schema: Schema) -> Totals:
    """The same sums, read about the centers of a schema that is the common one of theirs."""
    return replace(with_schema(totals, with_centers(schema)), centers=centers_of(schema))


def with_schema(totals: Totals, schema: Schema) -> Totals:
    """The sums with a feature ``observed``, 1 in every row, where only `schema` has one: exact."""
    old, ones = totals.schema, list[int]()
    for i, (a, b) in enumerate(zip(old.columns, schema.columns, strict=True)):
        ones += [schema.features_of(i)[-1]] if b.has_missing and not a.has_missing else []
    if not ones:
        return replace(totals, schema=schema)
    layout = replace(totals.layout, n_features=schema.n_features)
    if not totals.n_rows:
        return empty(layout, schema)
    features = iter(range(totals.layout.n_features))
    numbers = [old.n_features if j in ones else next(features) for j in range(schema.n_features)]
    return _of_features(totals, layout, numbers, schema)


def _short_mean(totals: Totals, value: int, observed: int) -> float:
    """The mean of the observed cells, rounded to a power of two of about their deviation."""
    exponent, (first, second) = totals.frame.exponents[value], totals.low_sums
    if exponent is None or first[observed] <= 0:
        return 0.0
    unit, mean = Fraction(2) ** exponent, Fraction(first[value], first[observed])
    variance = Fraction(second[value], first[observed]) - mean * mean
    mean, variance = (mean + totals.frame.origins[value]) * unit, variance * unit * unit
    bits = [_exponent(mean) - CENTER_BITS] + ([_exponent(variance) // 2] if variance > 0 else [])
    step = Fraction(2) ** max(bits)
    short = float(round(mean / step) * step)
    return short if abs(short) >= SMALLEST_CENTER else 0.0


def _exponent(number: Fraction) -> int:
    """About the binary logarithm of the size of a number."""
    return abs(number.numerator).bit_length() - number.denominator.bit_length()


# -- fewer moments -----------------------------------------------------------------------------


def truncate(totals: Totals, order: int, squared_order: int | None = None) -> Totals:
    """The sums up to a lower order."""
    old = totals.layout
    if squared_order is None:
        squared_order = min(old.squared_order, order - 1)
    layout = Layout(old.n_features, order, squared_order)
    if order > old.order or squared_order > old.squared_order:
        raise InputError(
            f"truncate can only lower order={old.order} and squared_order={old.squared_order}; "
            f"got {order} and {squared_order}. Higher moments need another pass."
        )
    return replace(totals, layout=layout, digits=totals.digits[:, layout.places_in(old)])


def select(totals: Totals, features: Sequence[int | str]) -> Totals:
    """The sums of some columns, by number or name, in the given order."""
    old, schema = totals.layout, totals.schema
    chosen = [check_count("feature", feature_number(f, schema.column_names), 0) for f in features]
    if len(set(chosen)) != len(chosen) or not chosen or max(chosen) >= schema.n_columns:
        last = schema.n_columns - 1
        raise InputError(
            f"features must be different numbers in 0…{last} or names; got {features!r}."
        )
    numbers = [feature for column in chosen for feature in schema.features_of(column)]
    order = min(old.order, len(numbers))
    layout = Layout(len(numbers), order, min(old.squared_order, order - 1))
    schema = Schema(tuple([schema.columns[i] for i in chosen]))
    return _of_features(totals, layout, numbers, schema)


def _of_features(totals: Totals, layout: Layout, numbers: Sequence[int], schema: Schema) -> Totals:
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
