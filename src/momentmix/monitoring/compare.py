"""Two summaries → what differs between them, without rows.

| step | where |
|---|---|
| columns are matched by name, families and levels must agree | `_matched` |
| moments in common units, means and spreads apart | `compared.side` |
| each change: mean, spread, shares | `compared.changes` |
| p-values corrected for their number | `holm` |

Variances are compared by second moments in the common unit, not by their logarithms: for skewed
columns these have wrong levels at a thousand rows (10 to 50 % at 5 %), since the noise that is
estimated is small where the estimate is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.findings.finding import NOTE, Finding, found
from momentmix.monitoring.compared.changes import LEAST_ROWS, ColumnTests, column_changes
from momentmix.monitoring.compared.significance import holm
from momentmix.monitoring.comparison import ColumnComparison, Comparison
from momentmix.summary.column_facts import schema_of
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema, joined
from momentmix.wording import listed

_MOST_LISTED = 5
_MODEL = "To test whether rows still fit a model, use track(model, cube)."
_CURES = {
    "SummaryCube": "Take all its groups, cube.total(), or some: cube.where(region='EU').total().",
    "FitResult": _MODEL,
    "Mixture": _MODEL,
}


def compare(
    a: MomentSummary | str | os.PathLike[str], b: MomentSummary | str | os.PathLike[str]
) -> Comparison:
    """Compare two summaries: whether their rows have one distribution, and what changed.

    Parameters
    ----------
    a, b : MomentSummary, or path of one
        Columns are matched by name. Both must have the same families and levels. Changes are from
        `a` to `b`.

    Returns
    -------
    Comparison
        Effects with intervals and corrected p-values of each column; `Comparison.differs`.

    Notes
    -----
    Rows count as independent. Means are tested as Welch does, shares by the test of two
    proportions, spreads by their squares; p-values are corrected by Holm's rule.

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
        given = MomentSummary.load(given)
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
            raise InputError(
                f"summaries must have the same columns; {'; '.join(texts)}. Rename columns, or "
                "take the common ones: summarize them, columns= (--columns), or use select()."
            )
        b = b.select(names)
    return a, b, joined(schema_of(a), schema_of(b))


def _compared(a: MomentSummary, b: MomentSummary, schema: Schema) -> Comparison:
    tests, remarks = ColumnTests(a, b), _shared(a, b)
    labels = schema.column_names or tuple(str(i) for i in range(schema.n_columns))
    columns = []
    for i, (name, column) in enumerate(zip(labels, schema.columns, strict=True)):
        changes = column_changes(tests, i, name)
        if column.transform:  # missing cells have no logarithms
            changes = [
                c if c.what == "missing" else replace(c, transform=column.transform)
                for c in changes
            ]
        columns.append(ColumnComparison(name, column.family, tuple(changes)))
    if min(tests.a.n, tests.b.n) < LEAST_ROWS:
        remarks.append(found(NOTE, "rows-too-few-to-test", least=LEAST_ROWS))
    corrected = holm(np.array([c.p_value for column in columns for c in column.changes]))
    values = iter(corrected.tolist())
    columns = [
        replace(column, changes=tuple(replace(c, corrected=next(values)) for c in column.changes))
        for column in columns
    ]
    return Comparison((a.n_rows, b.n_rows), tuple(columns), tuple(remarks))


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
