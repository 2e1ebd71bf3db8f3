"""Two summaries → what differs between them, without rows.

| step | where |
|---|---|
| columns are matched by name, families and levels must agree | `matched` |
| moments in common units, means and spreads apart | `compared_side` |
| each change alone: mean, spread, shape, shares, correlations | `changes` |
| all means, and all second moments, by Hotelling's F | `significance.joint_test` |
| one p-value of all; corrected ones of each change | `together`, `holm` |

Variances and correlations are compared by second moments in the common unit, not by their
logarithms or transforms: for skewed columns these have wrong levels at a thousand rows (10 to 50 %
at 5 %), since the noise that is estimated is small where the estimate is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError
from momentmix.monitoring.changes import ColumnTests, PairTests, column_changes
from momentmix.monitoring.compared_side import Plain, Side, common_spread, schema_of
from momentmix.monitoring.comparison import ColumnComparison, Comparison
from momentmix.monitoring.group_noise import noise_ratio
from momentmix.monitoring.influences import Polynomials, covariance_of_means
from momentmix.monitoring.significance import FEW, JointTest, holm, joint_test, together
from momentmix.schema.joining import joined
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary
from momentmix.wording import listed

_ROWS_PER_DIRECTION = 4  # of the smaller summary, for Hotelling's test
_MOST_PAIRS = 5000  # whose covariance is built
# The test of means has half the level: of few rows with heavy tails it is the one that keeps it.
_WEIGHTS = {"means": 2.0, "second moments": 1.0, "one by one": 1.0}
_MOST_LISTED = 5


def compare(
    a: MomentSummary | str | os.PathLike[str], b: MomentSummary | str | os.PathLike[str]
) -> Comparison:
    """Compare two summaries: are their rows of one distribution, and what changed?

    Parameters
    ----------
    a, b : MomentSummary, or path of one
        Columns are matched by name. Both must have the same families, levels and orders. Changes
        are those from `a` to `b`.

    Returns
    -------
    Comparison
        Effects with intervals and corrected p-values of each column and pair; ``p_value`` of all
        together; `Comparison.differs`.

    Notes
    -----
    Rows count as independent. Summaries with replicate groups are checked for it: where the groups
    scatter more than independent rows would, the rows count as fewer. Order 4 gives all tests; with
    lower orders correlations are not tested, and spreads one by one only.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> old, new = rng.normal(size=(5000, 4)), rng.normal(size=(4000, 4))
    >>> new[:, 2] += 0.2
    >>> found = compare(summarize(old), summarize(new))
    >>> found.differs(), [(c.what, c.column) for c in found.named()]
    (True, [('mean', '2')])
    """
    first, second = _loaded(a, "a"), _loaded(b, "b")
    first, second, schema = matched(first, second)
    return _compared(first, second, schema)


def _loaded(given: Any, name: str) -> MomentSummary:
    if isinstance(given, str | os.PathLike):
        given = MomentSummary.load(given)
    if not isinstance(given, MomentSummary):
        raise InputTypeError(
            f"{name} must be a MomentSummary or the path of one; got {type(given).__name__}. Make "
            "one of rows with summarize()."
        )
    if not given.n_rows:
        raise InputError(f"{name} is a summary without rows; there is nothing to compare.")
    return given


def matched(a: MomentSummary, b: MomentSummary) -> tuple[MomentSummary, MomentSummary, Schema]:
    """Both summaries with the columns of the first in its order, and their common schema."""
    names, others = schema_of(a).column_names, schema_of(b).column_names
    if names is not None and others is not None and names != others:
        _check_names(names, others)
        b = b.select(names)
    schema = joined(schema_of(a), schema_of(b))
    orders = [(s.order, s.squared_order) for s in (a, b)]
    if orders[0] != orders[1]:
        order, squared = (min(x) for x in zip(*orders, strict=True))
        raise InputError(
            f"summaries must have the same orders; got order={a.order}, "
            f"squared_order={a.squared_order} and order={b.order}, "
            f"squared_order={b.squared_order}. Cut both with truncate({order}, {squared})."
        )
    return a, b, schema


def _check_names(names: tuple[str, ...], others: tuple[str, ...]) -> None:
    lacking = [name for name in names if name not in others]
    further = [name for name in others if name not in names]
    if lacking or further:
        only = [
            f"only in the {which}: {listed([ascii(x) for x in some], _MOST_LISTED)}"
            for which, some in (("first", lacking), ("second", further))
            if some
        ]
        raise InputError(
            f"summaries must have the same columns; {'; '.join(only)}. Rename columns, or take the "
            "common ones of both with select()."
        )


def _compared(a: MomentSummary, b: MomentSummary, schema: Schema) -> Comparison:
    plain, notes = [Plain.of(a), Plain.of(b)], _shared(a, b)
    ratio = noise_ratio(a, b)
    if ratio > 1:
        notes.append(
            f"groups of rows scatter {ratio:.3g} times as much as independent rows would; each "
            "summary counts as so many times fewer rows."
        )
    spread = common_spread(*plain)
    sides = [Side(p, spread, p.n / ratio) for p in plain]
    tests = ColumnTests(*sides, spread)
    labels = schema.column_names or tuple(str(i) for i in range(schema.n_columns))
    changes = [column_changes(tests, i, list(labels)) for i in range(schema.n_columns)]
    joint: dict[str, JointTest] = {}
    means = _joint_of_means(tests)
    if means is not None:
        joint["means"] = means
    pairs, second = _second_moments(tests, _value_names(schema, labels), notes)
    if second is not None:
        joint["second moments"] = second
    return _combined((a.n_rows, b.n_rows), schema, labels, (changes, pairs), joint, notes)


def _shared(a: MomentSummary, b: MomentSummary) -> list[str]:
    """A note where some rows are in both summaries."""
    shared = set(a.shard_ids) & set(b.shard_ids)
    if not shared:
        return []
    return [
        f"{len(shared)} shard(s) are in both summaries, so that differences look smaller than they "
        "are; subtract the common part first: compare(part, whole - part)."
    ]


def _value_names(schema: Schema, labels: tuple[str, ...]) -> list[str]:
    """Names of the values: columns, or levels of columns."""
    return [
        f"{labels[i]}={column.levels[1 + t]}" if column.levels else labels[i]
        for i, column in enumerate(schema.columns)
        for t in range(column.n_values)
    ]


def _joint_of_means(tests: ColumnTests) -> JointTest | None:
    """Hotelling's test of means, shares of levels and of cells that are seen."""
    a, b = tests.a, tests.b
    if not np.isfinite(a.table.second).all() or not np.isfinite(b.table.second).all():
        return None  # a summary of order 1
    share = tests.common(a.mean, b.mean)
    smaller = min(a.n, b.n)
    frequent = np.minimum(share, 1 - share) * np.minimum(a.n_seen, b.n_seen) >= FEW
    own = np.flatnonzero(tests.varies & (a.number | frequent))
    gone = 1 - (a.n_seen + b.n_seen) / (a.n + b.n)
    first = np.diff(a.plain.column, prepend=-1) > 0
    some = np.minimum(gone, 1 - gone) * smaller >= FEW
    seen = np.flatnonzero(first & some)
    if not 0 < len(own) + len(seen) <= smaller / _ROWS_PER_DIRECTION:
        return None
    change = np.concatenate(
        [_mean_changes(tests)[own], (b.share - a.share)[seen]]
    )
    covariances = [covariance_of_means(side, own, seen) for side in (a, b)]
    return joint_test(change, *covariances, a.n, b.n)


def _mean_changes(tests: ColumnTests) -> Float:
    """Differences of means in the units of the sides."""
    return np.where(tests.a.number, tests.means.effect, tests.b.mean - tests.a.mean)


def _second_moments(
    tests: ColumnTests, names: list[str], notes: list[str]
) -> tuple[list[Any], JointTest | None]:
    """Changes of correlations, and Hotelling's test of variances and correlations together."""
    a, b = tests.a, tests.b
    if not np.isfinite(a.central[4, a.number]).all() or not np.isfinite(b.central[4]).all():
        notes.append("fourth powers of some columns are not kept, so that spreads of these and "
                     "correlations are not tested.")
        return [], None
    own = np.flatnonzero(tests.varies & tests.a.number & np.isfinite(tests.spreads.p_value))
    n_pairs = len(a.value) * (len(a.value) - 1) // 2
    sides = (a, b)
    if n_pairs > _MOST_PAIRS:
        notes.append(f"correlations of {n_pairs:,} pairs are too many to test; select columns.")
        return [], None
    if not all(np.isfinite(side.table.pair_covariance).all() for side in sides):
        notes.append(
            "correlations are not tested and spreads only one by one: that needs all moments of "
            "degree 4. Summarize with order 4 or more."
        )
        return [], None
    pairs = PairTests(tests)
    covariances = []
    for side in sides:
        polynomials = Polynomials(side, len(own) + len(pairs))
        polynomials.add_variances(np.arange(len(own)), own)
        pairs.add_scores(polynomials, len(own))
        covariances.append(polynomials.covariance())
    start = len(own)
    scores = tuple(np.maximum(np.diag(c)[start:], 0.0) for c in covariances)
    changes = pairs.changes(scores, names) if len(pairs) else []
    difference = np.concatenate(
        [(b.central[2] - a.central[2])[own], pairs.score(b) - pairs.score(a)]
    )
    most = min(a.n, b.n) / _ROWS_PER_DIRECTION
    kept = np.arange(len(difference))
    if len(kept) > most:
        kept = kept[: len(own)]
        notes.append("there are too few rows to test all correlations together; they are tested one by one.")
    if not 0 < len(kept) <= most:
        return changes, None
    places = np.ix_(kept, kept)
    test = joint_test(difference[kept], covariances[0][places], covariances[1][places], a.n, b.n)
    return changes, test


def _combined(n_rows, schema, labels, found, joint, notes) -> Comparison:
    """All tests together, and corrected p-values that are not below it."""
    columns, pairs = found
    flat = [c for changes in columns for c in changes] + pairs
    p = np.array([c.p_value for c in flat])
    corrected = holm(p)
    parts = {name: test.p_value for name, test in joint.items()}
    if np.isfinite(corrected).any():
        parts["one by one"] = float(np.nanmin(corrected))
    total = together(list(parts.values()), [_WEIGHTS[x] for x in parts]) if parts else np.nan
    corrected = np.where(np.isfinite(corrected), np.maximum(corrected, total), np.nan)
    flat = [replace(c, corrected=float(x)) for c, x in zip(flat, corrected, strict=True)]
    rest = iter(flat)
    by_column = tuple(
        ColumnComparison(labels[i], schema.columns[i].family, tuple(next(rest) for _ in changes))
        for i, changes in enumerate(columns)
    )
    return Comparison(n_rows, by_column, tuple(rest), joint, float(total), tuple(notes))
