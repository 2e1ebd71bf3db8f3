"""Numbers of which one row has most of the variance: found, and compared without that row.

Mean and spread of such a column depend on that row, and hide changes of the others. The least and
largest values are in the summary, so that the row can be subtracted from the sums of its column;
from sums of pairs it cannot, since its other values are not known. The same end is cut from both
summaries: cut from one alone, it would look like a change.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from math import log, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.findings.finding import NOTE, WARNING, Finding, found
from momentmix.monitoring.compared.changes import Change, ColumnTests, column_changes
from momentmix.monitoring.compared.side import Side
from momentmix.summary.summary import MomentSummary

_MOST = 0.75  # of the variance of a column, in one row: the deviation is twice that of the others
_ROUNDING = 1e-14  # of powers about 0, which missing cells are
_FEW = 10.0  # rows that have most of the variance
_WIDER = 10.0  # ratio of the ranges of two summaries that is reported


def share_of_one(side: Side) -> Float:
    """Largest share of one row in the variance of each value; 0 where it is not known."""
    from_bounds = (side.reach / side.deviation) ** 2 / side.n_seen
    known = side.counts_rows & side.attained[side.farther, np.arange(len(side.n_seen))]
    usual = np.where(known, from_bounds, _share_from_powers(side))
    return np.where(side.number & np.isfinite(usual), usual, 0.0)


def _share_from_powers(side: Side) -> Float:
    """The same from fourth moments: the root of Σ u⁴ / (Σ u²)², at least the largest share."""
    fourth = np.maximum(side.central[4] - _ROUNDING * side.mean**4, 0.0)
    return np.asarray(np.sqrt(fourth / side.central[2] ** 2 / side.n_seen))


def dominated(tests: ColumnTests) -> NDArray[np.bool_]:
    """Whether one row has most of the variance of a value, in one of two summaries."""
    shares = np.maximum(share_of_one(tests.a), share_of_one(tests.b))
    return tests.varies & (shares > _MOST)


def without_row(tests: ColumnTests, column: int, name: str) -> tuple[list[Change], Finding]:
    """Compare a column without the row that dominates it; no p-values where that cannot be."""
    usual = column_changes(tests, column, name)
    missing = [c for c in usual if c.what == "missing"]
    value = int(np.flatnonzero(tests.a.column == column)[0])
    are_dominated = [float(share_of_one(side)[value]) > _MOST for side in tests.sides]
    apart = _apart(tests, column, value, are_dominated)
    if apart is None:
        changes = [replace(c, low=nan, high=nan, p_value=nan) for c in usual if c.what != "missing"]
    else:
        changes = [c for c in column_changes(apart, 0, name) if c.what != "missing"]
    own = tests.a.schema.columns[column]
    ranges = _ranges(tests, value)
    has_log = not own.transform and all(low >= 0 for low, _ in ranges)
    remark = found(
        WARNING, "dominating-row", [name], is_judged=apart is not None, transform=own.transform,
        sides=list(compress(("first", "second"), are_dominated)),
        ranges=ranges, remedy={"families": {name: "log"}} if has_log else None,
    )  # fmt: skip
    return [*changes, *range_change(tests, value, name, least=1.0), *missing], remark


def range_change(tests: ColumnTests, value: int, name: str, least: float = _WIDER) -> list[Change]:
    """The change of the range of a number, if one is at least so many times the other."""
    if not all(p.attained[:, value].all() for p in tests.sides):
        return []
    first, second = (float(p.bounds[1][value] - p.bounds[0][value]) for p in tests.sides)
    if not (first > 0 and second > 0) or not abs(log(second / first)) >= log(least):
        return []
    return [Change("range", name, None, None, first, second, log(second / first))]


def _apart(
    tests: ColumnTests, column: int, value: int, are_dominated: list[bool]
) -> ColumnTests | None:
    """Tests of one column without its extreme rows; None if they cannot be taken away."""
    ends = sorted({int(p.farther[value]) for p in compress(tests.sides, are_dominated)})
    cut = [_cut(p, column, value, ends) for p in tests.sides]
    if cut[0] is None or cut[1] is None:
        return None
    rest = ColumnTests(cut[0], cut[1])
    return None if dominated(rest).any() else rest


def _cut(side: Side, column: int, value: int, ends: list[int]) -> MomentSummary | None:
    """A column of a summary without its least (0) or largest (1) value."""
    known = side.counts_rows and side.attained[ends, value].all()
    if not known or side.schema.columns[column].transform:
        return None
    center = side.schema.columns[column].center
    values = np.array([side.bounds[t][value] for t in ends]) + center
    one = side.summary.truncate(1, 0).select([column])
    names = one.schema.column_names if one.schema is not None else None
    try:
        return one.forget({names[0]: values} if names else values[:, None])
    except InputError:  # too few digits would be left
        return None


def few_rows_remark(tests: ColumnTests, value: int, name: str) -> list[Finding]:
    """A remark where few rows have most of the variance of a number, or another range by far."""
    if not tests.varies[value]:
        return []
    rows = [side.n_seen[value] for side in tests.sides]
    shares = [float(_share_from_powers(side)[value]) for side in tests.sides]
    few = [1 / x**2 for n, x in zip(rows, shares, strict=True) if x * x * _FEW > 1 > _FEW**2 / n]
    if not few and not range_change(tests, value, name):
        return []
    transform = tests.a.schema.columns[int(tests.a.column[value])].transform
    n_rows, ranges = max(1.0, min(few)) if few else 0.0, _ranges(tests, value)
    numbers: Any = {"n_rows": n_rows, "ranges": ranges, "transform": transform}
    return [found(NOTE, "few-rows-dominate", [name], **numbers)]


def _ranges(tests: ColumnTests, value: int) -> list[tuple[float, float]]:
    """Least and largest values of both; with a transform, of the logarithms."""
    ranges = []
    for side in tests.sides:
        center = side.schema.columns[int(side.column[value])].center
        low, high = (float(x[value]) + center for x in side.bounds)
        ranges.append((low, high))
    return ranges
