"""Numbers of which one row has most of the variance: found, and compared without that row.

Mean and spread of such a column are those of the row, and hide what the others do. The least and
largest values are in the summary, so that the row can be taken away from the sums of its column;
from those of pairs it cannot, since its other values are not known. The same end is cut from both
summaries: cut from one alone, it would look like a change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, nan

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.monitoring.compared.changes import Change, ColumnTests, column_changes
from momentmix.monitoring.compared.side import Plain, Side, common_spread
from momentmix.summary.summary import MomentSummary
from momentmix.wording import numbers_apart

_MOST = 0.75  # of the variance of a column, in one row: the deviation is twice that of the others
_ROUNDING = 1e-14  # of powers about 0, which missing cells are
_FEW = 10.0  # rows that have most of the variance
_WIDER = 10.0  # ratio of the ranges of two summaries that is said


def share_of_one(side: Side) -> Float:
    """Largest share of one row in the variance of each value; 0 where it is not known."""
    n, plain = side.plain.n_seen, side.plain
    from_powers = _share_from_powers(side)
    with np.errstate(all="ignore"):
        from_bounds = (plain.reach / plain.deviation) ** 2 / n
    known = plain.counts_rows & plain.attained[plain.farther, np.arange(len(n))]
    usual = np.where(known, from_bounds, from_powers)
    return np.where(side.number & np.isfinite(usual), usual, 0.0)


def _share_from_powers(side: Side) -> Float:
    """The same from fourth moments: the root of Σ u⁴ / (Σ u²)², at least the largest share."""
    with np.errstate(all="ignore"):
        fourth = np.maximum(side.central[4] - _ROUNDING * side.mean**4, 0.0)
        return np.asarray(np.sqrt(fourth / side.central[2] ** 2 / side.plain.n_seen))


def wild(tests: ColumnTests) -> NDArray[np.bool_]:
    """Whether one row has most of the variance of a value, in one of two summaries."""
    shares = np.maximum(share_of_one(tests.a), share_of_one(tests.b))
    return tests.varies & (shares > _MOST)


@dataclass(frozen=True)
class WithoutRow:
    """Changes of a column that one row dominates.

    Attributes
    ----------
    changes : list of Change
        Those of the other rows; without p-values where the row cannot be taken away.
    note : str
    judged : bool
    """

    changes: list[Change]
    note: str
    judged: bool


def without_row(tests: ColumnTests, column: int, name: str) -> WithoutRow:
    """Compare a column without the row that dominates it."""
    usual = column_changes(tests, column, name)
    missing = [c for c in usual if c.what == "missing"]
    value = int(np.flatnonzero(tests.a.plain.column == column)[0])
    apart = _apart(tests, column, value)
    if apart is None:
        found = [replace(c, low=nan, high=nan, p_value=nan) for c in usual if c.what != "missing"]
    else:
        found = [c for c in column_changes(apart, 0, name) if c.what != "missing"]
    changes = [*found, *range_change(tests, value, name, least=1.0), *missing]
    return WithoutRow(changes, _note(tests, value, name, apart is not None), apart is not None)


def range_change(tests: ColumnTests, value: int, name: str, least: float = _WIDER) -> list[Change]:
    """The change of the range of a number, if one is at least so many times the other."""
    if not all(p.attained[:, value].all() for p in _plains(tests)):
        return []
    low, high = (np.array([p.bounds[t][value] for p in _plains(tests)]) for t in (0, 1))
    first, second = (high - low).tolist()
    if not (first > 0 and second > 0) or not abs(log(second / first)) >= log(least):
        return []
    return [Change("range", name, None, None, first, second, log(second / first))]


def _plains(tests: ColumnTests) -> tuple[Plain, Plain]:
    return tests.a.plain, tests.b.plain


def _apart(tests: ColumnTests, column: int, value: int) -> ColumnTests | None:
    """Tests of one column without its extreme rows; None if they cannot be taken away."""
    shares = [float(share_of_one(side)[value]) for side in (tests.a, tests.b)]
    ends = {
        int(p.farther[value])
        for p, share in zip(_plains(tests), shares, strict=True)
        if share > _MOST
    }
    cut = [_cut(p, column, value, sorted(ends)) for p in _plains(tests)]
    if cut[0] is None or cut[1] is None:
        return None
    left, right = Plain.of(cut[0]), Plain.of(cut[1])
    spread = common_spread(left, right)
    found = ColumnTests(Side(left, spread), Side(right, spread), spread)
    return None if wild(found).any() else found


def _cut(plain: Plain, column: int, value: int, ends: list[int]) -> MomentSummary | None:
    """A column of a summary without its least (0) or largest (1) value."""
    known = plain.counts_rows and plain.attained[ends, value].all()
    if not known or plain.schema.columns[column].transform:
        return None
    center = plain.schema.columns[column].center
    values = np.array([plain.bounds[t][value] for t in ends]) + center
    one = plain.summary.truncate(1, 0).select([column])
    names = one.schema.column_names if one.schema is not None else None
    try:
        return one.forget({names[0]: values} if names else values[:, None])
    except InputError:  # too few digits would be left
        return None


def _note(tests: ColumnTests, value: int, name: str, judged: bool) -> str:
    sides = [float(share_of_one(side)[value]) for side in (tests.a, tests.b)]
    which = [word for word, share in zip(("first", "second"), sides, strict=True) if share > _MOST]
    where = "both summaries" if len(which) == 2 else f"the {which[0]} summary"
    plain = tests.a.plain
    column = plain.schema.columns[int(plain.column[value])]
    cure = "Summarize the other rows"
    if column.transform:
        cure = "Forget the row, or summarize the other rows"
    elif all(p.bounds[0][value] + column.center >= 0 for p in _plains(tests)):
        cure = "Take the logarithm (family log), or summarize the other rows"
    said = (
        "the column is compared without it, and its correlations are not judged"
        if judged
        else f"changes of the column cannot be judged. {cure}"
    )
    return f"one row dominates column {name!r} in {where} ({_ranges(tests, value)}); {said}."


def few_rows_note(tests: ColumnTests, value: int, name: str) -> list[str]:
    """A note where few rows have most of the variance of a number, or another range by far."""
    if not tests.varies[value]:
        return []
    rows = [tests.a.plain.n_seen[value], tests.b.plain.n_seen[value]]
    shares = [float(_share_from_powers(side)[value]) for side in (tests.a, tests.b)]
    few = [1 / x**2 for n, x in zip(rows, shares, strict=True) if x * x * _FEW > 1 > _FEW**2 / n]
    if few:
        said = f"about {max(1.0, min(few)):.0f} rows have most of the variance of column {name!r}"
    elif range_change(tests, value, name):
        said = f"the range of column {name!r} is another"
    else:
        return []
    return [f"{said} ({_ranges(tests, value)}); small changes of the other rows may not show."]


def _ranges(tests: ColumnTests, value: int) -> str:
    """The ranges of both, in the units of the data; of a column with a transform its logarithms."""
    ends = []
    for plain in _plains(tests):
        column = plain.schema.columns[int(plain.column[value])]
        ends.append(
            " to ".join(numbers_apart(*(float(x[value]) + column.center for x in plain.bounds)))
        )
    what = "logarithms" if column.transform else "values"
    return f"{what} from {ends[0]} in the first and from {ends[1]} in the second"
