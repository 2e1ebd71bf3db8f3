"""Adding, subtracting and forgetting: exact sums of sets of shards, and what goes together.

What is read from a shard that still takes rows carries its id. Two summaries with a common id are
never added; a shard is subtracted only where it has as many rows in both, and where the same rows
were forgotten while it was there.

What taking rows away must not leave, and what `load` refuses, are sums that no rows have: a mean m
outside of [a, b], a variance v outside of 0 ≤ v ≤ (b − m)(m − a). Sums come from float64 numbers,
rounded to the quantum, so that each inequality holds up to a small part of the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from math import log10

import numpy as np

from momentmix._typing import Int
from momentmix.errors import InputError, ShardError
from momentmix.summary.blocks import OpenShard, names_of
from momentmix.summary.digits import QUANTUM_BITS, Frame, integers, join, reframed, summed, total
from momentmix.summary.layout import Kind
from momentmix.summary.totals import (
    Totals,
    Version,
    centers_of,
    closed,
    empty,
    masks_of,
    with_schema,
)
from momentmix.tables.names import column_label
from momentmix.tables.schema import joined
from momentmix.tables.validation import LARGEST_VALUE, LARGEST_WEIGHT
from momentmix.wording import option

_LOST_BITS = 32  # of 53: moments of what is left keep a relative accuracy of about 1e-6
_TOLERANCE_BITS = 16  # far above rounding errors, far below what impossible sums show
_FIXED = 64  # bits: far below a tolerance of a tolerance


def add(*parts: Totals) -> Totals:
    """Return the sums of parts that have no shard in common."""
    counts = Counter(shard for part in parts for shard in part.shards)
    _refuse(
        [shard for shard, n in counts.items() if n > 1],
        "in both summaries: the rows would count twice. Leave one of them out, or subtract it "
        "first.",
    )
    every = _in_common_schema(*parts)
    alike = [part for part in every if part.shards] or every[:1]
    if len(alike) == 1:
        return alike[0]
    sums = total(alike[0].layout, [x.framed for x in alike], masks_of(alike[0].schema))
    return replace(
        alike[0],
        **sums._asdict(),
        n_rows=sum(part.n_rows for part in alike),
        minimum=np.min([part.minimum for part in alike], axis=0),
        maximum=np.max([part.maximum for part in alike], axis=0),
        shards={shard: version for part in alike for shard, version in part.shards.items()},
        centers=None,
    )


def _in_common_schema(*parts: Totals) -> list[Totals]:
    distinct = {id(part.schema): part for part in parts}
    if len(distinct) == 1:
        return list(parts)
    schema = reduce(joined, [part.schema for part in distinct.values()])
    return [with_schema(part, schema) for part in parts]


def _in_frame(frame: Frame, *parts: Totals) -> list[Int]:
    """The digits of parts of one layout in a frame as fine or finer."""
    return [reframed(x.layout, x.digits, x.frame, frame, masks_of(x.schema)) for x in parts]


def _difference(whole: Totals, part: Totals, shards: Mapping[bytes, Version]) -> Totals:
    """The sums of the shards of `whole` that are left: exact; its bounds stay bounds."""
    frame = join([whole.frame, part.frame])
    left, right = _in_frame(frame, whole, part)
    rest = replace(
        whole,
        frame=frame,
        digits=summed([left, -right]),
        weight_squares=whole.weight_squares - part.weight_squares,
        n_rows=whole.n_rows - part.n_rows,
        shards=shards,
        centers=None,
    )
    if rest.n_forgotten:
        return rest
    # What was forgotten went with the other one.
    return replace(
        rest, shards={shard: Version(version.n_rows) for shard, version in shards.items()}
    )


_OTHER_ROWS = (
    "not the same in both summaries: {:,} rows in the one to subtract from, {:,} in the other. It "
    "took other rows after one of them was copied or saved, or its id was given twice. Subtract "
    "the same version; for the rows alone use MomentSummary.forget."
)
_OTHERS_FORGOTTEN = (
    "in summaries from which different rows were forgotten. If they are rows of this shard, they "
    "would be taken away twice, or be left. Forget the same rows in both; or subtract first, and "
    "forget them in what is left; or add up the other shards again."
)


def subtract(whole: Totals, part: Totals) -> Totals:
    """The sums of the shards of `whole` that are not in `part`, which must be part of it."""
    _refuse(
        part.shards.keys() - whole.shards.keys(),
        "not in the summary to subtract from. Subtract only what was added; for rows without a "
        "shard of their own use MomentSummary.forget.",
    )
    if not part.shards:
        return whole
    whole, part = _in_common_schema(whole, part)
    for kind, problem in enumerate((_OTHER_ROWS, _OTHERS_FORGOTTEN)):
        pairs = {x: (whole.shards[x][kind], version[kind]) for x, version in part.shards.items()}
        unlike = sorted(x for x, (a, b) in pairs.items() if a != b)
        if unlike:
            _refuse(unlike, problem.format(*pairs[unlike[0]]))
    shards = {x: version for x, version in whole.shards.items() if x not in part.shards}
    rest = _difference(whole, part, shards)
    left = impossible(rest) if shards else None
    if not shards and (rest.digits.any() or rest.n_rows):
        left = "sums without rows"
    if left:
        raise InputError(
            f"subtracting would leave {left}: although the shard ids agree, the summaries are not "
            "parts of one another. Were rows forgotten in one of them?"
        )
    return rest if shards else empty(whole.layout, whole.schema)


def same(left: Totals, right: Totals) -> bool:
    """Whether names, counts and sums agree exactly, whatever the frames."""
    if left.schema.column_names != right.schema.column_names:
        return False
    try:
        left, right = _in_common_schema(left, right)
    except InputError:  # other columns
        return False
    plain = ("layout", "weight_squares", "n_rows")
    if any(getattr(left, name) != getattr(right, name) for name in plain):
        return False
    a, b = _in_frame(join([left.frame, right.frame]), left, right)
    return left.shards.keys() == right.shards.keys() and np.array_equal(a, b)


# -- forgetting --------------------------------------------------------------------------------


def forget(totals: Totals, shard: OpenShard) -> Totals:
    """Subtract the sums of some rows: to float64 accuracy, as their blocks are other ones."""
    shard = shard.complete()
    rows = closed(shard)
    if totals.n_rows:
        _check_inside(totals.reading, shard)
    if totals.n_rows <= rows.n_rows or totals.weight <= rows.weight:
        raise InputError(
            f"the summary holds {totals.n_rows} rows of total weight "
            f"{totals.sum_weights:.6g}; {rows.n_rows} rows of weight "
            f"{rows.sum_weights:.6g} cannot be forgotten and leave something. Make a "
            "new summary instead."
        )
    (token,) = rows.shards
    lost = int.from_bytes(token)
    shards = {x: Version(n, (old + lost) % 2**128) for x, (n, old) in totals.shards.items()}
    rest = _difference(totals, rows, shards)
    _check_digits(rest, rows)
    problem = impossible(rest)
    if problem:
        raise InputError(
            f"forgetting these rows would leave {problem}, so they cannot all have been added. "
            "Check the rows and the number of times each is given."
        )
    return rest


def _check_inside(reading: Totals, shard: OpenShard) -> None:
    """Refuse rows outside the bounds of the summary: they cannot be in it."""
    low, high, slack = reading.minimum, reading.maximum, np.zeros(len(reading.minimum))
    schema = reading.schema
    for (value, _), center in zip(masks_of(schema), centers_of(schema), strict=True):
        slack[value] = 2.0**-50 * (abs(center) + max(-low[value], high[value]))  # of rounding
    outside = (shard.minimum < low - slack) | (shard.maximum > high + slack)
    if outside.any():
        column = int(np.argmax(outside))
        raise InputError(
            "rows to forget must lie within the minimum and maximum of the summary; "
            f"{column_label(column, names_of(schema))} goes from {shard.minimum[column]:.6g} to "
            f"{shard.maximum[column]:.6g}, outside [{low[column]:.6g}, {high[column]:.6g}]. It was "
            "never added."
        )


def _check_digits(rest: Totals, lost: Totals) -> None:
    """Refuse where the rows outweigh what is left so far that few of its digits would be true."""
    layout, weight = rest.layout, rest.weight
    centers = [k + s // weight for k, s in zip(rest.frame.origins, rest.low_sums[0], strict=True)]
    left, gone = _in_frame(Frame(rest.frame.exponents, tuple(centers)), rest, lost)
    sums = [("the weights", weight, lost.weight)]
    sections: tuple[tuple[Kind, int, str], ...]
    sections = ("squared", 0, "squares"), ("power", 4, "fourth powers")
    for kind, size, name in sections:
        places = layout.section(kind, size).place
        pairs = zip(integers(left[:, places]), integers(gone[:, places]), strict=True)
        sums += [(f"the {name} of column {j}", *pair) for j, pair in enumerate(pairs)]
    for name, kept, n_lost in sums:
        kept = max(weight, abs(kept))
        if n_lost > kept << _LOST_BITS:
            factor = (n_lost.bit_length() - kept.bit_length()) * log10(2)
            raise InputError(
                f"In {name} these rows are about 10^{factor:.0f} times what would be left, so that "
                "its digits would be lost in rounding errors. Summarize the rest again; or keep "
                "outliers in a shard of their own and subtract that."
            )


def impossible(totals: Totals) -> str | None:
    """Return the reason why no rows have these sums, in a few words; None if rows can."""
    low, high = totals.minimum, totals.maximum
    if not totals.shards or not totals.n_rows:
        holds = totals.digits.any() or totals.weight_squares or totals.shards or totals.n_rows
        is_empty = not holds and (low == np.inf).all() and (high == -np.inf).all()
        return None if is_empty else "rows without shards, or sums without rows"
    n_ever = totals.n_rows + totals.n_forgotten
    versions, n_forgotten = totals.shards.values(), totals.n_forgotten
    is_forgotten = any(version.forgotten for version in versions)
    if (n_forgotten > 0) != is_forgotten or n_forgotten < 0 or min(versions).n_rows < 1:
        return "counts of rows that do not fit those of the shards"
    square_sum, whole = totals.weight_squares << QUANTUM_BITS, totals.weight**2
    if not 0 < totals.weight <= (n_ever << QUANTUM_BITS) * int(LARGEST_WEIGHT):
        return "rows with no weight, or weights beyond the range of weights"
    # Forgetting part of a row's weight takes away too few squares and too many rows.
    slack = whole >> _TOLERANCE_BITS
    too_large = square_sum > whole + slack and not totals.n_forgotten
    if too_large or square_sum * n_ever < whole - slack:
        return "a sum of squared weights that does not fit the sum of weights"
    if not np.abs([low, high]).max() <= LARGEST_VALUE or (low > high).any():
        return "minimum above maximum, or not finite"
    # In fixed point, units of 2^−_FIXED: fractions take a hundred times as long.
    reading, weight = totals.reading, totals.weight
    ends = [
        [_fixed(x, e) for x, e in zip(end.tolist(), reading.frame.exponents, strict=True)]
        for end in (reading.minimum, reading.maximum)
    ]
    for k, s, t, bottom, top in zip(reading.frame.origins, *reading.low_sums, *ends, strict=True):
        mean, origin = (s << _FIXED) // weight, k << _FIXED
        variance = ((t * weight - s * s) << _FIXED) // weight**2
        bottom, top = bottom - origin, top - origin
        farthest = max(abs(top), abs(bottom))
        reach = top - bottom + (farthest >> 40) + (1 << _FIXED - _TOLERANCE_BITS)
        slack = reach >> _TOLERANCE_BITS
        rounding = (slack * reach >> _FIXED) + (farthest**2 >> _FIXED + 44)
        if not bottom - slack <= mean <= top + slack:
            return "a mean outside the bounds"
        if not -rounding <= variance:
            return "a negative variance"
        if not variance <= ((top - mean) * (mean - bottom) >> _FIXED) + rounding:
            return "a variance too large for the bounds"
    return None


def _fixed(value: float, exponent: int | None) -> int:
    """A number in units of 2^(exponent − _FIXED), rounded down."""
    numerator, denominator = value.as_integer_ratio()
    shift = _FIXED - (exponent or 0) - denominator.bit_length() + 1
    return numerator << shift if shift >= 0 else numerator >> -shift


# -- what goes together ------------------------------------------------------------------------


def check_alike(a: Totals, b: Totals) -> None:
    """Refuse layouts, names and schemas that cannot be combined."""
    is_plain = a.schema.is_plain and b.schema.is_plain
    if is_plain and a.layout.n_features != b.layout.n_features:
        raise InputError(
            f"summaries must have the same features; got {a.layout.n_features} and "
            f"{b.layout.n_features}. Take the common ones: summarize them, columns= (--columns), "
            "or use select()."
        )
    orders = [(x.layout.order, x.layout.squared_order) for x in (a, b)]
    if orders[0] != orders[1]:
        order, squared = map(min, *orders)
        raise InputError(
            f"summaries must have the same orders; got order={orders[0][0]}, "
            f"squared_order={orders[0][1]} and order={orders[1][0]}, "
            f"squared_order={orders[1][1]}. Cut both with truncate({order}, {squared}) "
            f"(momentmix merge --truncate), or summarize both with {option(order=order)}."
        )
    if a.schema is not b.schema:
        joined(a.schema, b.schema)


def _refuse(shards: Collection[bytes], problem: str) -> None:
    """Raise where there are shards with a problem, of which they are the subject."""
    if not shards:
        return
    ids = tuple(sorted(shard.hex() for shard in shards))
    listed = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    subject = f"shard {listed} is" if len(ids) == 1 else f"shards {listed} are"
    raise ShardError(f"{subject} {problem}", shard_ids=ids)
