"""Two summaries → what differs between them, without rows.

| step | where |
|---|---|
| columns are matched by name, families and levels must agree | `_matched` |
| moments in common units, means and spreads apart | `compared.side` |
| each change alone: mean, spread, shape, shares, correlations | `compared.changes` |
| columns that one row dominates, without that row | `compared.dominating_rows` |
| all means, and all second moments, by Hotelling's F | `compared.second_moments` |
| one p-value of all; corrected ones of each change | `together`, `holm` |

Variances and correlations are compared by second moments in the common unit, not by their
logarithms or transforms: for skewed columns these have wrong levels at a thousand rows (10 to 50 %
at 5 %), since the noise that is estimated is small where the estimate is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError, SummaryFileError
from momentmix.findings.finding import NOTE, Finding, found
from momentmix.findings.messages import Message, either
from momentmix.monitoring.compared.changes import LEAST_ROWS, ColumnTests, column_changes
from momentmix.monitoring.compared.dominating_rows import (
    dominated,
    few_rows_remark,
    range_change,
    without_row,
)
from momentmix.monitoring.compared.second_moments import means_together, second_together
from momentmix.monitoring.compared.significance import holm, together
from momentmix.monitoring.comparison import ColumnComparison, Comparison
from momentmix.summary.column_facts import schema_of
from momentmix.summary.exact.combining import check_orders
from momentmix.summary.file import is_summary_file
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema, joined
from momentmix.wording import listed

# The test of means has most of the level: with heavy tails and few rows it alone keeps it, while
# the others reject less often than they say.
_WEIGHTS = {"means": 6.0, "second moments": 1.0, "one by one": 1.0}
_MOST_LISTED = 5
_MODEL = "To test whether rows still fit a model, use track(model, cube)."
_CURES = {
    "SummaryCube": "Take all its groups, cube.total(), or some: cube.where(region='EU').total().",
    "FitResult": _MODEL,
    "Mixture": _MODEL,
    "DiagonalMixture": _MODEL,
}


def compare(
    a: MomentSummary | str | os.PathLike[str], b: MomentSummary | str | os.PathLike[str]
) -> Comparison:
    """Compare two summaries: whether their rows have one distribution, and what changed.

    Parameters
    ----------
    a, b : MomentSummary, or path of one
        Columns are matched by name. Both must have the same families, levels and orders. Changes
        are from `a` to `b`.

    Returns
    -------
    Comparison
        Effects with intervals and corrected p-values of each column and pair; ``p_value`` of all
        together; `Comparison.differs`.

    Notes
    -----
    Rows count as independent. Order 4 gives all tests; with lower orders correlations are not
    tested, and spreads one by one only.

    A column of which one row has three quarters of the variance is compared without that row, where
    the sums have the digits for it; else it is in ``unjudged``. A note says which.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import summarize
    >>> rng = np.random.default_rng(0)
    >>> old, new = rng.normal(size=(5000, 4)), rng.normal(size=(4000, 4))
    >>> new[:, 2] += 0.2
    >>> found = compare(summarize(old), summarize(new))
    >>> found.differs(), [(c.what, c.column) for c in found.named()]
    (True, [('mean', '2')])
    """
    with np.errstate(all="ignore"):  # constants and cells never seen give NaN: not tested
        return _compared(*_matched(_loaded(a, "a"), _loaded(b, "b")))


def _loaded(given: Any, name: str) -> MomentSummary:
    if isinstance(given, str | os.PathLike):
        try:
            given = MomentSummary.load(given)
        except SummaryFileError as error:
            if not os.path.isfile(given) or is_summary_file(given):
                raise
            cure = " Of a data file: summarize(path); of a cube: SummaryCube.load(path).total()."
            raise SummaryFileError(Message(error.args[0], cure)) from None
    if not isinstance(given, MomentSummary):
        kind = type(given).__name__
        cure = _CURES.get(kind, "Make one of rows with summarize().")
        raise InputTypeError(
            f"{name} must be a MomentSummary or the path of one; got {kind}. {cure}"
        )
    if not given.n_rows:
        raise InputError(f"{name} is a summary without rows; there is nothing to compare.")
    return given


def _matched(a: MomentSummary, b: MomentSummary) -> tuple[MomentSummary, MomentSummary, Schema]:
    """Both summaries with the columns of the first in its order, and their common schema."""
    names, others = schema_of(a).column_names, schema_of(b).column_names
    if names is not None and others is not None and names != others:
        only = {
            "only in the first": [ascii(name) for name in names if name not in others],
            "only in the second": [ascii(name) for name in others if name not in names],
        }
        if any(only.values()):
            texts = [f"{where}: {listed(x, _MOST_LISTED)}" for where, x in only.items() if x]
            text = f"summaries must have the same columns; {'; '.join(texts)}. Rename columns, or "
            select = "take the common ones of both with select()"
            shell = "summarize the common ones (--columns)"
            raise InputError(Message(text, either(select, shell), "."))
        b = b.select(names)
    schema = joined(schema_of(a), schema_of(b))
    check_orders(a._layout, b._layout)
    return a, b, schema


def _compared(a: MomentSummary, b: MomentSummary, schema: Schema) -> Comparison:
    tests, remarks = ColumnTests(a, b), _shared(a, b)
    labels = schema.column_names or tuple(str(i) for i in range(schema.n_columns))
    columns, left_out = [], dominated(tests)
    for i, (name, column) in enumerate(zip(labels, schema.columns, strict=True)):
        first = int(np.flatnonzero(tests.a.column == i)[0])
        if left_out[tests.a.column == i].any():
            changes, remark = without_row(tests, i, name)
            remarks.append(remark)
        else:
            changes = column_changes(tests, i, name)
            if tests.a.number[first]:
                changes += range_change(tests, first, name)
                remarks += few_rows_remark(tests, first, name)
        if column.transform:  # missing cells have no logarithms
            changes = [
                c if c.what == "missing" else replace(c, transform=column.transform)
                for c in changes
            ]
        columns.append(ColumnComparison(name, column.family, tuple(changes)))
    unjudged = [str(r.columns[0]) for r in remarks if r.numbers.get("is_judged") is False]
    tests.varies &= ~left_out
    pairs, second = second_together(tests, _value_names(schema, labels), remarks)
    tested = {"means": means_together(tests), "second moments": second}
    joint = {name: test for name, test in tested.items() if test is not None}
    if min(tests.a.n, tests.b.n) < LEAST_ROWS:
        remarks.append(found(NOTE, "rows-too-few-to-test", least=LEAST_ROWS))
    rows = a.n_rows, b.n_rows
    parts = tuple(columns), pairs, joint, nan, tuple(remarks), tuple(unjudged)
    return _corrected(Comparison(rows, *parts))


def _shared(a: MomentSummary, b: MomentSummary) -> list[Finding]:
    """A remark where some rows are in both summaries."""
    shared = set(a.shard_ids) & set(b.shard_ids)
    if shared:
        return [found(NOTE, "shared-rows", shards=len(shared))]
    names = ("mean", "deviation", "minimum", "maximum")
    same = a.n_rows == b.n_rows and (a.deviation > 0).any()
    if same and all(np.array_equal(getattr(a, x), getattr(b, x)) for x in names):
        return [found(NOTE, "same-moments")]
    return []


def _value_names(schema: Schema, labels: tuple[str, ...]) -> list[str]:
    """Names of the values: columns, their logarithms, or levels of columns."""
    names = []
    for label, column in zip(labels, schema.columns, strict=True):
        levels = [f"{label}={level}" for level in column.levels[1:]]
        names += levels or [column.value_name(label)]
    return names


def _corrected(comparison: Comparison) -> Comparison:
    """Return the comparison with a p-value of all tests, and corrected ones of the changes."""
    corrected = holm(np.array([change.p_value for change in comparison.changes]))
    parts = {name: test.p_value for name, test in comparison.tests.items()}
    if np.isfinite(corrected).any():
        parts["one by one"] = float(np.nanmin(corrected))
    total = together(list(parts.values()), [_WEIGHTS[x] for x in parts]) if parts else nan
    values = iter(np.maximum(corrected, total).tolist())
    columns = tuple(
        replace(column, changes=tuple(replace(c, corrected=next(values)) for c in column.changes))
        for column in comparison.columns
    )
    pairs = tuple(replace(c, corrected=next(values)) for c in comparison.pairs)
    return replace(comparison, columns=columns, pairs=pairs, p_value=total)
