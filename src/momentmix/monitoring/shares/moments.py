"""Moments of summaries as flat vectors, in the units of a model, and which of them are used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.law import Law
from momentmix.fitting.conditions.conditions import Conditions, build_conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import index_sets
from momentmix.summary.exact.schemas import in_schema
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import POWER_DEGREES, Layout
from momentmix.summary.readings import flat_moments, readings_of_many
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema

MOST_CONDITIONS = 170  # a root of their covariance, taken for each group, costs a millisecond
_MOST_TOGETHER = 1 << 13  # moments of hundreds of groups: more would fill the memory
_MOST_LISTED = 300_000  # index sets of order 3, of which some are drawn


def list_conditions(
    layout: Layout, degree: int, laws: tuple[Law, ...], left_out: tuple[int, ...] = ()
) -> Conditions:
    """Return at most `MOST_CONDITIONS` monomials; their values are places in the layout."""
    d, highest = layout.n_features, min(degree, layout.order)
    if highest > 2 and len(index_sets(d, 2)) * d > _MOST_LISTED:
        highest = 2
    squared_order = min(layout.squared_order, highest - 1, max(0, degree - 2))
    power = 2 if degree < 3 or not layout.high else degree
    moments = _numbered(layout, laws)
    conditions = build_conditions(moments, highest, squared_order, highest_power=power)
    degrees = conditions.slot_exponents.sum(axis=1)
    features = (conditions.slot_exponents > 0).sum(axis=1)
    usable = (degrees <= degree) & ~np.isin(conditions.slots, left_out).any(axis=1)
    # The constant, then single features, pairs, the others; low degrees first in each.
    chance = np.random.default_rng(0).random(conditions.size)
    rank = np.lexsort((chance, degrees, np.minimum(features, 3)))
    rank = rank[usable[rank]][: MOST_CONDITIONS + 1]
    # The constant comes first; its moment is known, and says only that weights sum to 1.
    return conditions.subset(np.sort(rank)[1:])


def _numbered(layout: Layout, laws: tuple[Law, ...]) -> StandardMoments:
    """Moments whose values are their own places in the layout."""
    d, every = layout.n_features, np.arange(layout.n_entries, dtype=float)
    found = {(s.kind, s.size): every[s.place].reshape(s.shape) for s in layout.sections}
    orders = tuple(found["distinct", t] for t in range(layout.order + 1))
    squared = tuple(found["squared", s] for s in range(layout.squared_order + 1))
    return StandardMoments(
        d, layout.order, orders, squared, 1, 1.0, np.zeros(d), np.ones(d), np.zeros(d), np.ones(d),
        powers=np.array([found["power", p] for p in POWER_DEGREES]) if layout.high else None,
        cubed=found.get(("cubed", 1)), two_squares=found.get(("two squares", 2)), laws=laws,
    )  # fmt: skip


def totals_of(summary: MomentSummary, order: int, schema: Schema | None) -> Totals:
    """The sums of a group up to an order, in the common schema."""
    order = min(order, summary.order)
    totals = summary.truncate(order, min(summary.squared_order, order - 1))._totals()
    if schema is not None and summary.schema is not None and summary.schema != schema:
        totals = in_schema(totals, schema)
    return totals


def read_many(
    summaries: Sequence[MomentSummary],
    layout: Layout,
    schema: Schema | None,
    shift: Float,
    scale: Float,
) -> Float:
    """Moments of groups in units of the model, (n, n_entries); NaN where even means overflow."""
    totals = [totals_of(summary, layout.order, schema) for summary in summaries]
    found = np.full((len(totals), layout.n_entries), np.nan)
    by_layout = dict[Layout, list[int]]()
    for number, each in enumerate(totals):
        by_layout.setdefault(each.layout, []).append(number)
    for own, numbers in by_layout.items():
        if own.n_entries <= _MOST_TOGETHER:
            values = readings_of_many([totals[number] for number in numbers], shift, scale)
            found[numbers] = values[:, layout.places_in(own)]
    for number in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
        with suppress(InputError):
            each = totals[number]
            found[number] = flat_moments(each, shift, scale)[layout.places_in(each.layout)]
    return found
