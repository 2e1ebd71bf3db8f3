"""Taking away rows that were added before, in whatever shard: what can be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.summary.exact.combining import remove
from momentmix.summary.exact.digit_sums import QUANTUM_BITS
from momentmix.summary.exact.plausibility import impossible
from momentmix.summary.exact.totals import Mark, Totals, centered, recentered, rescaled, with_high
from momentmix.tables.names import column_label

_LOST_BITS = 32  # of 53: second moments of what is left keep a relative accuracy of about 1e-6


def check_inside(rows: NDArray[Any], totals: Totals, feature_names: Sequence[str] | None) -> None:
    """Refuse rows outside the bounds of the summary: they cannot be in it."""
    low, high = totals.bounds
    slack = np.zeros(len(low))
    for value, _, center in centered(totals.schema):  # its bounds are rounded
        slack[value] = 2.0**-50 * (abs(center) + max(-low[value], high[value]))
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
            f"{totals.weight / 2**QUANTUM_BITS:.6g}; {rows.n_rows} rows of weight "
            f"{rows.weight / 2**QUANTUM_BITS:.6g} cannot be forgotten and leave something. Make a "
            "new summary instead."
        )
    nameless = replace(rows, shards=frozenset(), n_forgotten=-rows.n_rows)
    rest = replace(remove(totals, nameless), forgotten=_forgotten(totals, rows))
    exponents = tuple(0 if e is None else e for e in rest.exponents)
    lost = recentered(rescaled(with_high(nameless, rest.layout.high), exponents), rest.shifts)
    _check_digits(rest, lost)
    result = recentered(replace(rest, reach=_trusted_reach(rest, lost)))
    problem = impossible(result)
    if problem:
        raise InputError(
            f"forgetting these rows would leave {problem}, so they cannot all have been added. "
            "Check the rows and the number of times each is given."
        )
    return result


def _forgotten(totals: Totals, rows: Totals) -> Mapping[bytes, Mark]:
    """Marks of forgotten rows with each shard of the sums, since their own shard is unknown."""
    before = totals.forgotten
    if not rows.weight:
        return before
    lost = reduce(Mark.plus, rows.known_marks.values())
    return {x: before[x].plus(lost) if x in before else lost for x in totals.shards}


def _trusted_reach(rest: Totals, lost: Totals) -> tuple[int, ...]:
    """The reach of what is left, without the powers that hold few true digits (`_check_digits`)."""
    reach, weight = list(rest.reach), rest.weight
    for p in (6, 4):  # an odd power is as bad as the even one above it
        place = rest.layout.section("power", p).place
        for j, (t, left) in enumerate(zip(lost.sums[place], rest.sums[place], strict=True)):
            if t > max(weight, abs(left)) << _LOST_BITS:
                reach[j] = min(reach[j], p - 2)
    return tuple(reach)


def _check_digits(rest: Totals, lost: Totals) -> None:
    """Refuse where the rows outweigh what is left so far that few of its digits would be true."""
    # Their rounding must be small beside a typical deviation, about a unit, or beside the rest.
    weight = rest.weight
    if lost.weight > weight << _LOST_BITS:
        raise _too_few_digits("the weights", lost.weight, weight)
    for j, (t, s, left) in enumerate(zip(lost.second, rest.first, rest.second, strict=True)):
        typical = max(weight, abs(left - s * s // weight))
        if t > typical << _LOST_BITS:
            raise _too_few_digits(f"the squares of column {j}", t, typical)


def _too_few_digits(what: str, lost: int, left: int) -> InputError:
    factor = (lost.bit_length() - left.bit_length()) * log10(2)
    return InputError(
        f"In {what} these rows are about 10^{factor:.0f} times what would be left, so that its "
        "digits would be lost in rounding errors. Summarize the rest again; or keep outliers in a "
        "shard of their own and subtract that."
    )
