"""The same rows with fewer moments: a lower order, or some of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from momentmix.errors import InputError, check_count
from momentmix.summary.exact.totals import Totals, with_features, with_high
from momentmix.summary.layout import Layout
from momentmix.tables.names import feature_number
from momentmix.tables.schema import Schema


def truncate(totals: Totals, order: int, squared_order: int | None) -> Totals:
    """The sums up to a lower order."""
    old = totals.layout
    if squared_order is None:
        squared_order = min(old.squared_order, order - 1)
    layout = Layout(old.n_features, order, squared_order, old.high)
    if order > old.order or squared_order > old.squared_order:
        raise InputError(
            f"truncate can only lower order={old.order} and squared_order={old.squared_order}; "
            f"got {order} and {squared_order}. Higher moments need another pass."
        )
    return rearranged(totals, layout)


def chosen_columns(
    columns: Sequence[int | str], names: tuple[str, ...] | None, totals: Totals
) -> list[int]:
    """Numbers of the columns that are given by number or name."""
    schema, layout = totals.schema, totals.layout
    n_columns = layout.n_features if schema is None else schema.n_columns
    chosen = [check_count("feature", feature_number(f, names), 0) for f in columns]
    if len(set(chosen)) != len(chosen) or not chosen or max(chosen) >= n_columns:
        raise InputError(
            f"features must be different numbers in 0…{n_columns - 1} or names; got {columns!r}."
        )
    n_features = len(features_of(chosen, schema))
    if n_features < layout.order:
        raise InputError(
            f"{n_features} features have moments of order {n_features} at most, the "
            f"summary has order {layout.order}. Use truncate({n_features}) first."
        )
    return chosen


def features_of(columns: Sequence[int], schema: Schema | None) -> list[int]:
    """Numbers of the features of columns."""
    if schema is None:
        return list(columns)
    return [feature for column in columns for feature in schema.features_of(column)]


def rearranged(totals: Totals, layout: Layout) -> Totals:
    """Only the sections of a smaller layout."""
    totals = with_high(totals, layout.high)
    if totals.layout == layout:
        return totals
    return replace(totals, layout=layout, sums=totals.sums.of_layout(layout))


def select(totals: Totals, chosen: Sequence[int]) -> Totals:
    """The sums of the features of some columns, in the given order."""
    old, schema = totals.layout, totals.schema
    columns = features_of(chosen, schema)
    if schema is not None:
        schema = Schema(tuple(schema.columns[i] for i in chosen))
    layout = Layout(len(columns), old.order, old.squared_order, old.high)
    return with_features(totals, layout, columns, None if schema and schema.is_plain else schema)
