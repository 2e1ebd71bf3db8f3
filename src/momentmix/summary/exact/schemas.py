"""Exact sums of two tables in the schema that both have.

| symbol | name here |
|---|---|
| s, 1 where a cell is seen and 0 where it is missing | ``seen`` |
| u = (y − c)·s, of the number y and the center c | ``value`` |
| u − δ·s, about the center c + δ | `change_center` |
| y with s = 1 in every row | `with_seen` |

Both are linear maps of the sums, with integer coefficients, so that they commute with adding and
never round. They rest on s² = s and u·s = u, by which every product that arises is one that the
summary holds: u^a·s^b·R becomes Σ_k C(a, k)·(−δ)^k·u^(a−k)·s^b·R, where s stands in the place of
u^0·s^0. Changes of a center add up: by δ and then by ε is by δ + ε, on any integers, whether or not
rounding has broken the identities in their last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from momentmix.families.column import CENTER_BITS, SMALLEST_CENTER
from momentmix.summary.exact.exact_sums import (
    absent_places,
    change_center,
)
from momentmix.summary.exact.totals import (
    Exponents,
    Totals,
    centered,
    empty,
    finest,
    recentered,
    rescaled,
    with_features,
    with_high,
)
from momentmix.summary.exact.units import last_bit
from momentmix.tables.schema import Schema, joined, plain_schema


def encoded(totals: Totals, schema: Schema) -> Totals:
    """Return sums of features as sums of a schema, in units fine enough for its centers."""
    low, high = totals.minimum.copy(), totals.maximum.copy()
    for value, _, center in centered(schema):
        low[value] += center
        high[value] += center
    totals = rescaled(totals, finest(totals.exponents, _units_of(totals, schema)))
    return replace(totals, minimum=low, maximum=high, schema=schema)


def _units_of(totals: Totals, schema: Schema) -> Exponents:
    """The coarsest units that a schema allows; None where it allows any."""
    wanted: list[int | None] = [None] * schema.n_features
    for i, column in enumerate(schema.columns if totals.shards else ()):
        seen = schema.features_of(i)[-1]
        if column.has_missing and totals.exponents[seen] is not None:
            wanted[seen] = 0
    for value, _, center in centered(schema) if totals.shards else ():
        if center:
            wanted[value] = last_bit(center)
    return tuple(wanted)


def has_units_of(totals: Totals) -> bool:
    """Whether the units are as `encoded` gives them, or finer."""
    if totals.schema is None:
        return True
    return finest(totals.exponents, _units_of(totals, totals.schema)) == totals.exponents


def alike_all(parts: Sequence[Totals]) -> list[Totals]:
    """All in their common schema; an error where there is none."""
    first = parts[0].schema
    if all(part.schema is first or _are_same(part.schema, first) for part in parts):
        return list(parts)
    schema = reduce(joined, [_schema_of(part) for part in parts])
    seen = [with_seen(part, schema) for part in parts]
    exponents = finest(*(part.exponents for part in seen))
    return [_about_centers(part, schema, exponents) for part in seen]


def _are_same(left: Schema | None, right: Schema | None) -> bool:
    """Whether schemas are equal, with levels of the same types (True and 1 are equal)."""
    if left is None or right is None or left != right:
        return False
    pairs = zip(left.columns, right.columns, strict=True)
    return all([*map(type, a.levels)] == [*map(type, b.levels)] for a, b in pairs)


def in_schema(totals: Totals, schema: Schema) -> Totals:
    """The same sums in a schema that is the common one of theirs and others: exact."""
    totals = with_seen(totals, schema)
    return _about_centers(totals, schema, finest(totals.exponents, _units_of(totals, schema)))


def _schema_of(totals: Totals) -> Schema:
    return totals.schema or plain_schema(totals.layout.n_features)


def _about_centers(totals: Totals, schema: Schema, exponents: Exponents) -> Totals:
    """The same sums about the centers of a schema, in units that are fine enough: exact."""
    if not totals.n_rows:
        return replace(totals, schema=schema)
    pairs = list(zip(centered(totals.schema), centered(schema), strict=True))
    if any(old != new for old, new in pairs):
        totals = rescaled(totals, exponents)
    for (value, seen, old), (_, _, new) in pairs:
        if old != new:
            unit = Fraction(2) ** (exponents[value] or 0)
            delta = (Fraction(new) - Fraction(old)) / unit
            assert delta.denominator == 1
            shifts = [0 if j in (value, seen) else k for j, k in enumerate(totals.shifts)]
            totals = recentered(totals, shifts)
            sums = change_center(totals.sums, value, seen, delta.numerator)
            sums = sums.without(absent_places(totals.layout, totals.reach))
            totals = replace(totals, sums=sums)
    return replace(totals, schema=schema)


def about_means(totals: Totals) -> Totals:
    """Return the sums about the centers of the union: short numbers near the means of cells seen.

    These are a function of the exact sums, whatever the centers were, and multiples of the unit.
    """
    schema = totals.schema
    assert schema is not None
    for i, column in enumerate(schema.columns):
        if column.has_missing and column.model.joins:
            schema = schema.with_column(i, center=_short_mean(totals, schema, i))
    return _about_centers(totals, schema, totals.exponents)


def _short_mean(totals: Totals, schema: Schema, column: int) -> float:
    """The mean of the cells that are seen, rounded to a power of two of about their deviation."""
    center = schema.columns[column].center
    value, seen = schema.features_of(column)
    weight, unit = totals.weight, totals.exponents[value]
    n_seen = totals.first[seen] + totals.shifts[seen] * weight
    if unit is None or n_seen <= 0:
        return center
    shift, first = totals.shifts[value], totals.first[value]
    mean = Fraction(first + shift * weight, n_seen)
    square = Fraction(totals.second[value] + shift * (2 * first + shift * weight), n_seen)
    variance, mean = square - mean * mean, mean + Fraction(center) / Fraction(2) ** unit
    if not mean:
        return 0.0
    digits = [0, _exponent(mean) - CENTER_BITS]
    digits += [_exponent(variance) // 2] if variance > 0 else []
    step = Fraction(2) ** max(digits)
    short = round(mean / step) * step * Fraction(2) ** unit
    return float(short) if not short or abs(short) >= SMALLEST_CENTER else 0.0


def _exponent(number: Fraction) -> int:
    """About the binary logarithm of the size of a number other than 0."""
    return abs(number.numerator).bit_length() - number.denominator.bit_length()


def with_seen(totals: Totals, schema: Schema) -> Totals:
    """The sums with a feature ``seen``, 1 in every row, where only `schema` has one: exact."""
    old, ones, columns = _schema_of(totals), [], []
    for i, (a, b) in enumerate(zip(old.columns, schema.columns, strict=True)):
        columns.append(replace(a, name=b.name, levels=b.levels, has_missing=b.has_missing))
        if b.has_missing and not a.has_missing:
            ones.append(schema.features_of(i)[-1])
    if not ones:
        return replace(totals, schema=Schema(tuple(columns)))
    layout = replace(totals.layout, n_features=schema.n_features)
    if not totals.n_rows:
        return empty(layout, Schema(tuple(columns)))
    kept = iter(range(totals.layout.n_features))
    numbers = [old.n_features if j in ones else next(kept) for j in range(schema.n_features)]
    totals = with_high(totals, layout.high)
    return with_features(totals, layout, numbers, Schema(tuple(columns)))
