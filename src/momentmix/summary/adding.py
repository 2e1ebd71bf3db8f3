"""Adding, subtracting and forgetting: exact sums of sets of shards, and what goes together.

What taking rows away must not leave, and what `load` refuses, are sums that no rows have: a mean m
outside of [a, b], a variance v outside of 0 ≤ v ≤ (b − m)(m − a). Sums come from float64 numbers,
rounded to the quantum, so that each inequality holds up to a small part of the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, ShardError
from momentmix.summary.blocks import total
from momentmix.summary.digits import QUANTUM_BITS, Frame, integers, join, reframed, summed
from momentmix.summary.layout import Layout
from momentmix.summary.totals import (
    Mark,
    Totals,
    alike_all,
    empty,
    low_sums,
    mark_of,
    masks_of,
    schema_of,
    with_high,
)
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.tables.validation import LARGEST_VALUE, LARGEST_WEIGHT
from momentmix.wording import option

_ROUNDING = 2.0**-40  # by layout, processor or device the sums of a shard differ in their last bits
_LOST_BITS = 32  # of 53: moments of what is left keep a relative accuracy of about 1e-6
_TOLERANCE = Fraction(1, 1 << 16)  # far above rounding errors, far below what impossible sums show


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


Pairs = dict[bytes, tuple[Mark, Mark]]  # marks of a shard in two summaries


def _unlike(whole: Totals, pairs: Pairs) -> tuple[tuple[str, ...], Mark, Mark] | None:
    """The shards whose marks differ, and the marks of the first; None where all agree."""
    size = _mark_size(whole)
    shards = _sorted(x for x, (a, b) in pairs.items() if not a.is_alike(b, size))
    return (shards, *pairs[bytes.fromhex(shards[0])]) if shards else None


def _check_versions(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard that took other rows than the one of the same id that is there."""
    pairs = {x: (whole.shards[x], mark) for x, mark in part.shards.items()}
    if unlike := _unlike(whole, pairs):
        shards, there, here = unlike
        raise ShardError(
            f"{_listed(shards)} not the same in both summaries: {there.n_rows:,} rows in the one "
            f"to subtract from, {here.n_rows:,} in the other. It took other rows after one of them "
            "was copied or saved, or its id was given twice. Subtract the same version; for the "
            "rows alone use MomentSummary.forget.",
            shard_ids=shards,
        )


def _check_forgotten(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard whose rows may be among the rows forgotten in one sum."""
    left, right, nothing = whole.forgotten, part.forgotten, Mark(0, 0.0, 0.0)
    pairs = {x: (left.get(x, nothing), right.get(x, nothing)) for x in part.shards}
    if unlike := _unlike(whole, pairs):
        shards, there, here = unlike
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
    first, _ = low_sums(layout, rest.digits)
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
    schema = schema_of(totals)
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
