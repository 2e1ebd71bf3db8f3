"""The same rows with fewer moments: a lower order, no groups, or some of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from momentmix.capacity import check_count
from momentmix.errors import InputError
from momentmix.index_sets import colex_rank, index_sets, sets_without
from momentmix.rows.names import feature_number
from momentmix.summary.layout import Layout
from momentmix.summary.totals import Totals, with_high


def truncate(
    totals: Totals, order: int, squared_order: int | None, replicates: int | None
) -> Totals:
    """The sums up to a lower order, without groups if `replicates` is 0."""
    old = totals.layout
    if squared_order is None:
        squared_order = min(old.squared_order, order - 1)
    if replicates is None:
        replicates = old.replicates
    layout = Layout(old.n_features, order, squared_order, replicates, old.high)
    if order > old.order or squared_order > old.squared_order:
        raise InputError(
            f"truncate can only lower order={old.order} and squared_order={old.squared_order}; "
            f"got {order} and {squared_order}. Higher moments need another pass."
        )
    if replicates not in (0, old.replicates):
        raise InputError(
            f"replicates can only be kept ({old.replicates}) or given up (0); got {replicates}."
        )
    return rearranged(totals, layout)


def chosen_columns(
    features: Sequence[int | str], names: tuple[str, ...] | None, layout: Layout
) -> list[int]:
    """Numbers of the features that are given by number or name."""
    columns = [check_count("feature", feature_number(f, names), 0) for f in features]
    if len(set(columns)) != len(columns) or not columns or max(columns) >= layout.n_features:
        raise InputError(
            f"features must be different numbers in 0…{layout.n_features - 1} or names; "
            f"got {features!r}."
        )
    if len(columns) < layout.order:
        raise InputError(
            f"{len(columns)} features have moments of order {len(columns)} at most, the "
            f"summary has order {layout.order}. Use truncate({len(columns)}) first."
        )
    return columns


def rearranged(totals: Totals, layout: Layout) -> Totals:
    """Only the sections of a smaller layout; groups are added up if it has none."""
    totals = with_high(totals, layout.high)
    sums = []
    for section in layout.sections:
        array = totals.sums[totals.layout.index[section.kind, section.size]]
        if array.shape[0] != section.n_groups:
            array = np.asarray(array.sum(axis=0, keepdims=True), dtype=object)
        sums.append(array)
    n_rows = totals.n_rows
    if len(n_rows) != layout.n_groups:
        n_rows = (sum(n_rows),)
    return replace(totals, layout=layout, sums=sums, n_rows=n_rows)


def select(totals: Totals, features: Sequence[int]) -> Totals:
    """The sums of some features, in the given order."""
    old, columns = totals.layout, np.asarray(features, dtype=np.int64)
    layout = Layout(len(columns), old.order, old.squared_order, old.replicates, old.high)
    sums = []
    for section in layout.sections:
        array = totals.sums[old.index[section.kind, section.size]]
        if section.kind == "power":
            sums.append(array[:, columns])
            continue
        if section.kind in ("distinct", "two squares"):
            sets = columns[index_sets(len(columns), section.size)]
            sums.append(array[:, colex_rank(np.sort(sets, axis=1))])
            continue
        rows = []
        for j, feature in enumerate(columns.tolist()):
            sets = np.sort(columns[sets_without(len(columns), section.size, j)], axis=1)
            rows.append(array[:, feature, colex_rank(sets - (sets > feature))])
        sums.append(np.stack(rows, axis=1))
    return replace(
        totals,
        layout=layout,
        exponents=tuple(totals.exponents[i] for i in columns.tolist()),
        shifts=tuple(totals.shifts[i] for i in columns.tolist()),
        sums=sums,
        reach=tuple(totals.reach[i] for i in columns.tolist()),
        minimum=totals.minimum[columns],
        maximum=totals.maximum[columns],
        marks={k: mark._replace(mean=mark.mean[columns]) for k, mark in totals.marks.items()},
    )
