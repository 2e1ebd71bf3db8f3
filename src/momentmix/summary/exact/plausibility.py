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

from fractions import Fraction
from math import isfinite, ldexp

import numpy as np

from momentmix.summary.exact.digit_sums import QUANTUM_BITS
from momentmix.summary.exact.exact_sums import LARGEST_REACH, absent_places
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import POWER_DEGREES
from momentmix.tables.validation import LARGEST_VALUE, LARGEST_WEIGHT

_TOLERANCE_BITS = 16
_TOLERANCE = Fraction(
    1, 1 << _TOLERANCE_BITS
)  # far above rounding errors, far below what corrupt sums show
_EXACT = 1 << 53  # integers below it are float64 numbers
_ROUNDING = 2.0**-40  # far above the rounding errors of a few operations
_LEAST_REACH = Fraction(1, 64)  # in units; powers of less are mostly rounding to the quantum
_FAR = 1e24  # its twelfth power is a float64 number
_LARGEST_WEIGHT = int(LARGEST_WEIGHT)
_LARGEST_SHIFT = Fraction(np.finfo(np.float64).max)


def impossible(totals: Totals) -> str | None:
    """What is wrong with these sums, in a few words; None if rows can have them."""
    if bool(totals.shards) != bool(totals.n_rows):
        return "rows without shards, or shards without rows"
    if not totals.n_rows:
        return _impossible_without_rows(totals)
    return (
        _impossible_weights(totals)
        or _impossible_bounds(totals)
        or _impossible_marks(totals)
        or (None if _surely_possible(totals) else _features(totals))
        or _impossible_absent(totals)
    )


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
    if largest > LARGEST_VALUE:
        return "a value beyond the range of rows"
    return _impossible_families(totals)


def _impossible_families(totals: Totals) -> str | None:
    """Indicators lie between 0 and 1, counts are not negative."""
    schema = totals.schema
    for i, column in enumerate(() if schema is None else schema.columns):
        assert schema is not None
        values, every = schema.values_of(i), schema.features_of(i)
        unit = list(every) if column.levels else list(every)[len(values) :]
        least = totals.minimum[list(values) if column.model.least >= 0 else []]
        if (
            (least < 0).any()
            or (totals.minimum[unit] < 0).any()
            or (totals.maximum[unit] > 1).any()
        ):
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


def _impossible_absent(totals: Totals) -> str | None:
    places = absent_places(totals.layout, totals.reach)
    return "an absent sum that is not zero" if totals.sums[places].any() else None


def _powers(totals: Totals) -> list[list[int]]:
    """Σ w z_j^p, p = 3 … 6, in quanta, for each feature; none where they are not kept."""
    if not totals.layout.high:
        return [[] for _ in totals.shifts]
    kept = [totals.sums[totals.layout.section("power", p).place] for p in POWER_DEGREES]
    return [list(column) for column in zip(*kept, strict=True)]


def _surely_possible(totals: Totals) -> bool:
    """Whether float64 shows that `_features` finds nothing; it does for all but odd sums."""
    weight, powers = totals.weight, _powers(totals)
    columns = zip(totals.exponents, totals.shifts, totals.first, totals.second, strict=True)
    low, high = totals.bounds
    rest = zip(low.tolist(), high.tolist(), powers, totals.reach, strict=True)
    try:
        for (e, k, s, t), (a, b, higher, reach) in zip(columns, rest, strict=True):
            if e is None:
                if k or s or t or a or b or any(higher):
                    return False
                continue
            ldexp(k, e)  # raises where the shift is out of range
            means = [1.0, s / weight, t / weight, *(x / weight for x in higher[: reach - 2])]
            if abs(k) >= _EXACT or not _surely_fit(means, ldexp(a, -e), ldexp(b, -e), float(k)):
                return False
    except OverflowError:
        return False
    return True


def _surely_fit(means: list[float], low: float, high: float, shift: float) -> bool:
    """`_features` of one feature in units, by half of its tolerance: rounding takes far less.

    The bounds about the shift are rounded once. What is compared are parts of their distance, so
    that features that hardly vary beside their shift are left to exact numbers.
    """
    slack, (mean, square) = 2.0 ** -(_TOLERANCE_BITS + 1), means[1:3]
    a, b = low - shift, high - shift
    reach = b - a + max(abs(low), abs(high)) * 2.0**-40 + 2 * slack
    farthest = reach + max(abs(a), abs(b))
    if (farthest + abs(mean)) * _ROUNDING > slack * reach or farthest > _FAR:
        return False
    if square * _ROUNDING > slack * reach * reach:
        return False
    variance = square - mean * mean
    if not a - slack * reach <= mean <= b + slack * reach:
        return False
    if not -slack * reach**2 <= variance <= (b - mean) * (mean - a) + slack * reach**2:
        return False
    for p in range(2, len(means)):
        if p > 2 and not abs(means[p]) <= (1 + slack) * farthest**p:
            return False
        for even in range(0, p, 2):
            other, room = 2 * p - even, slack * farthest ** (2 * p)
            if 2 < other < len(means) and not means[p] ** 2 <= means[even] * means[other] + room:
                return False
    return True


def _features(totals: Totals) -> str | None:
    weight, powers = totals.weight, _powers(totals)
    columns = zip(totals.exponents, totals.shifts, totals.first, totals.second, strict=True)
    low, high = totals.bounds
    ends = zip(low.tolist(), high.tolist(), strict=True)
    for j, ((e, k, s, t), (a, b)) in enumerate(zip(columns, ends, strict=True)):
        if e is None:
            if (k, s, t) != (0, 0, 0) or a or b or any(powers[j]):
                return "sums or bounds of a feature that is all zero"
            continue
        unit, least, most = Fraction(2) ** e, Fraction(a), Fraction(b)
        if abs(k) * unit > _LARGEST_SHIFT:
            return "a shift out of range"
        mean = (k + Fraction(s, weight)) * unit
        variance = Fraction(t * weight - s * s, weight * weight) * unit * unit
        reach = most - least + max(abs(least), abs(most)) / (1 << 40) + unit * _TOLERANCE
        wrong = _impossible_moments(mean, variance, (least, most), reach)
        if wrong is None and powers[j]:
            farthest = reach / unit + max(abs(least / unit - k), abs(most / unit - k))
            means = [Fraction(x, weight) for x in (weight, s, t, *powers[j])]
            if farthest >= _LEAST_REACH:
                wrong = _impossible_powers(means[: totals.reach[j] + 1], farthest)
        if wrong:
            return wrong
    return None


def _impossible_powers(means: list[Fraction], farthest: Fraction) -> str | None:
    """E z^p, p = 0 … reach, where all z are at most `farthest` in size."""
    slack = [_TOLERANCE * farthest ** (2 * p) for p in range(len(means))]
    for p in range(2, len(means)):
        if p > 2 and abs(means[p]) > (1 + _TOLERANCE) * farthest**p:
            return "a power too large for the bounds"
        for even in range(0, p, 2):  # the other degree is even too, at most the last
            other = 2 * p - even
            if 2 < other < len(means) and means[p] ** 2 > means[even] * means[other] + slack[p]:
                return f"powers {even}, {p} and {other} that no feature has"
    return None


def _impossible_moments(
    mean: Fraction, variance: Fraction, bounds: tuple[Fraction, Fraction], reach: Fraction
) -> str | None:
    (low, high), slack = bounds, _TOLERANCE * reach
    if not low - slack <= mean <= high + slack:
        return "a mean outside the bounds"
    if variance < -slack * reach:
        return "a negative variance"
    if variance > (high - mean) * (mean - low) + slack * reach:
        return "a variance too large for the bounds"
    return None
