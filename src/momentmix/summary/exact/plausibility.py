"""Sums that no rows can have: what `load` refuses, and what taking rows away must not leave.

| symbol | name here |
|---|---|
| Σw, Σw², Σwz_j, Σwz_j² in quanta | ``weight``, ``weight_squares``, ``first``, ``second`` |
| mean m and variance v of a feature in [a, b] | a ≤ m ≤ b and 0 ≤ v ≤ (b − m)(m − a) |
| E z^p of a feature that reaches r from its shift | abs(E z^p) ≤ r^p, (E z^p)² ≤ E z^a·E z^b |

Sums come from float64 numbers, rounded to the quantum, so that each inequality holds up to a small
part of the range: b − a, a little of the largest value for features that hardly vary, and of the
unit for values near the smallest numbers.
"""

from __future__ import annotations

from math import isfinite, ldexp

import numpy as np

from momentmix.summary.exact.digit_sums import QUANTUM_BITS
from momentmix.summary.exact.exact_sums import LARGEST_REACH, absent_places
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import POWER_DEGREES
from momentmix.tables.validation import LARGEST_VALUE, LARGEST_WEIGHT

_TOLERANCE_BITS = 16
_TOLERANCE = 2.0**-_TOLERANCE_BITS  # far above rounding errors, far below what corrupt sums show
_ROUNDING = 2.0**-48  # some ulps of what is compared
_TRIPLES = ((0, 2, 4), (0, 3, 6), (2, 3, 4), (2, 4, 6), (4, 5, 6))  # (E z^p)² ≤ E z^a·E z^b
_LARGEST_WEIGHT = int(LARGEST_WEIGHT)
_SHIFT_BITS = 1024  # of the largest float64 number


def impossible(totals: Totals) -> str | None:
    """Return the reason why no rows have these sums, in a few words; None if rows can."""
    if bool(totals.shards) != bool(totals.n_rows):
        return "rows without shards, or shards without rows"
    if not totals.n_rows:
        return _impossible_without_rows(totals)
    wrong = (
        _impossible_weights(totals)
        or _impossible_bounds(totals)
        or _impossible_families(totals)
        or _impossible_marks(totals)
        or _impossible_features(totals)
    )
    places = absent_places(totals.layout, totals.reach)
    return wrong or ("an absent sum that is not zero" if totals.sums[places].any() else None)


def _impossible_without_rows(totals: Totals) -> str | None:
    if totals.sums.words.any() or totals.weight_squares:
        return "sums without rows"
    if not ((totals.minimum == np.inf).all() and (totals.maximum == -np.inf).all()):
        return "bounds without rows"
    units = any(e is not None for e in totals.exponents) or any(totals.shifts)
    if units or totals.n_forgotten or not totals.exact_bounds:
        return "units, shifts or forgotten rows without rows"
    if min(totals.reach) < LARGEST_REACH:
        return "absent sums without rows"
    return None


def _impossible_weights(totals: Totals) -> str | None:
    weight, squares = totals.weight, totals.weight_squares << QUANTUM_BITS
    if weight <= 0 or squares <= 0:
        return "rows with no weight"
    # Forgetting part of a row's weight takes away too few squares and too many rows.
    n_ever, whole = totals.n_rows + totals.n_forgotten, weight * weight
    if weight > (n_ever << QUANTUM_BITS) * _LARGEST_WEIGHT:
        return "weights beyond the range of weights"
    squares, n_steps = squares << _TOLERANCE_BITS, 1 << _TOLERANCE_BITS
    too_large = squares > whole * (n_steps + 1) and not totals.n_forgotten
    if too_large or squares * n_ever < whole * (n_steps - 1):
        return "a sum of squared weights that does not fit the sum of weights"
    return None


def _impossible_bounds(totals: Totals) -> str | None:
    bounds = np.array([totals.minimum, totals.maximum])
    largest = float(np.abs(bounds).max())  # NaN if one is
    if not isfinite(largest) or (totals.minimum > totals.maximum).any():
        return "minimum above maximum, or not finite"
    return "a value beyond the range of rows" if largest > LARGEST_VALUE else None


def _impossible_families(totals: Totals) -> str | None:
    """Indicators lie between 0 and 1, counts are not negative."""
    schema, low, high = totals.schema, totals.minimum, totals.maximum
    for i, column in enumerate(() if schema is None else schema.columns):
        assert schema is not None
        values, every = list(schema.values_of(i)), list(schema.features_of(i))
        unit = every if column.levels else every[len(values) :]
        is_negative = column.model.least >= 0 and (low[values] < 0).any()
        if is_negative or (low[unit] < 0).any() or (high[unit] > 1).any():
            return "a value outside the range of its family"
    return None


def _impossible_marks(totals: Totals) -> str | None:
    n_ever, n_marked = totals.n_rows + totals.n_forgotten, 0
    for n_rows, weight, _ in totals.marks.values():
        n_marked += n_rows
        if not n_rows or not (isfinite(weight) and weight > 0):
            return "a shard with no rows or no weight"
    for n_rows, weight, _ in totals.forgotten.values():
        if not n_rows or not (isfinite(weight) and weight >= 0):
            return "forgotten rows of no number or weight"
    marks = [*totals.marks.values(), *totals.forgotten.values()]
    means = np.array([mark.mean for mark in marks])
    if not (np.abs(means) <= LARGEST_VALUE).all():
        return "a mean of a shard beyond the range of rows"
    return "shards of more rows than there are" if n_marked > n_ever else None


def _impossible_features(totals: Totals) -> str | None:
    """Compare means, variances and powers of each feature with its bounds."""
    # Distances from the shift are exact, and then float64, as parts of the largest power of two.
    # Powers of less than 2^−6 units are mostly rounding to the quantum, and not compared.
    weight, d = totals.weight, totals.layout.n_features
    # Σ w z_j^p, p = 3 … 6, one section after the other
    first = totals.layout.section("power", POWER_DEGREES[0]).start
    powers = totals.sums[first : first + len(POWER_DEGREES) * d].tolist()
    columns = zip(totals.exponents, totals.shifts, totals.first, totals.second, strict=True)
    ends = zip(*(side.tolist() for side in totals.bounds), strict=True)
    for j, ((e, k, s, t), (a, b)) in enumerate(zip(columns, ends, strict=True)):
        if e is None:
            if (k, s, t) != (0, 0, 0) or a or b or any(powers[j::d]):
                return "sums or bounds of a feature that is all zero"
            continue
        if k.bit_length() + e > _SHIFT_BITS:
            return "a shift out of range"
        (left, below), (right, beneath) = _distance(a, e, k), _distance(b, e, k)
        bits = max(0, left.bit_length() - below, right.bit_length() - beneath)
        low, high = left / (1 << below + bits), right / (1 << beneath + bits)
        try:
            size = ldexp(max(-a, b), -e - bits)
            reach = high - low + size * 2.0**-40 + ldexp(_TOLERANCE, -bits)
            farthest = reach + max(-low, high)
            n_powers = totals.reach[j] - 2 if farthest >= ldexp(1, -bits - 6) else 0
            kept = s, t, *powers[j::d][:n_powers]
            means = [x / (weight << bits * p) for p, x in enumerate(kept, start=1)]
        except OverflowError:
            return "a power too large for the bounds"
        wrong = _impossible_moments([1.0, *means], low, high, reach, farthest)
        if wrong:
            return wrong
    return None


def _distance(value: float, exponent: int, shift: int) -> tuple[int, int]:
    """The distance of a value from the shift in units: a numerator, and bits of the denominator."""
    numerator, denominator = value.as_integer_ratio()
    bits = denominator.bit_length() - 1 + exponent
    return (numerator << max(0, -bits)) - (shift << max(0, bits)), max(0, bits)


def _impossible_moments(
    means: list[float], low: float, high: float, reach: float, farthest: float
) -> str | None:
    """E z^p, p = 0, 1, …, of a feature between these bounds; all z are at most `farthest`."""
    mean, rounding = means[1], _ROUNDING * farthest
    slack, variance = _TOLERANCE * reach + rounding, means[2] - mean * mean
    square = _TOLERANCE * reach * reach + rounding * farthest
    if not low - slack <= mean <= high + slack:
        return "a mean outside the bounds"
    if not variance >= -square:
        return "a negative variance"
    if not variance <= (high - mean) * (mean - low) + square:
        return "a variance too large for the bounds"
    if any(abs(means[p]) > (1 + _TOLERANCE) * farthest**p for p in range(3, len(means))):
        return "a power too large for the bounds"
    for even, p, other in _TRIPLES:
        if other < len(means):
            room = _TOLERANCE * farthest ** (2 * p)
            if not means[p] * means[p] <= means[even] * means[other] + room:
                return f"powers {even}, {p} and {other} that no feature has"
    return None
