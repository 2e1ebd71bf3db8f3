"""Moments of summaries as flat vectors, in the units of a model, and which of them are used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.families.law import Law
from momentmix.fitting.conditions.conditions import Conditions, build_conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.exact.schemas import in_schema
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import Kind, Layout
from momentmix.summary.readings import Moments, readings_of_many
from momentmix.summary.readings import moments as read_moments
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema

MOST_CONDITIONS = 170  # a root of their covariance, taken for each group, costs a millisecond
_MOST_TOGETHER = 1 << 13  # moments of hundreds of groups: more would fill the memory
_MOST_LISTED = 300_000  # index sets of order 3, of which some are drawn


@dataclass(frozen=True)
class Shape:
    """Which moments summaries hold.

    `has_powers` stands for powers above 2, `has_pairs` for cubes times features and products of two
    squares.
    """

    n_features: int
    order: int
    squared_order: int
    has_powers: bool
    has_pairs: bool

    @classmethod
    def of(cls, moments: Moments) -> Shape:
        """Return the shape of the moments of one summary."""
        has_powers, has_pairs = moments.powers is not None, moments.cubed is not None
        return cls(moments.n_features, moments.order, moments.squared_order, has_powers, has_pairs)

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the arrays of moments, in the order of the flat vector."""
        d = self.n_features
        sizes: list[tuple[int, ...]] = [(len(index_sets(d, s)),) for s in range(self.order + 1)]
        sizes += [(d, len(sets_without(d, q, 0))) for q in range(self.squared_order + 1)]
        sizes += [(4, d)] if self.has_powers else []
        sizes += [(d, d - 1), (d * (d - 1) // 2,)] if self.has_pairs else []
        return sizes

    def places(self, layout: Layout) -> Int:
        """Where the moments stand in the sections of a layout."""
        kinds: list[tuple[Kind, int]] = [("distinct", t) for t in range(self.order + 1)]
        kinds += [("squared", s) for s in range(self.squared_order + 1)]
        kinds += [("power", p) for p in range(3, 7)] if self.has_powers else []
        has_pairs = self.has_pairs and layout.n_features > 1
        kinds += [("cubed", 1), ("two squares", 2)] if has_pairs else []
        places = [layout.section(*kind).place for kind in kinds]
        return np.concatenate([np.arange(place.start, place.stop) for place in places])

    def flat(self, moments: Moments) -> Float:
        """The moments in one vector."""
        arrays = [*moments.distinct, *moments.squared[: self.squared_order + 1]]
        high = [moments.powers] if self.has_powers else []
        high += [moments.cubed, moments.two_squares] if self.has_pairs else []
        return np.concatenate([x.ravel() for x in (*arrays, *high) if x is not None])

    def numbered(self, laws: tuple[Law, ...]) -> StandardMoments:
        """Moments whose values are their own places in the flat vector."""
        sizes = [int(np.prod(size)) for size in self.sizes]
        parts = np.split(np.arange(sum(sizes), dtype=float), np.cumsum(sizes)[:-1])
        arrays = [part.reshape(size) for part, size in zip(parts, self.sizes, strict=True)]
        n_low, d = self.order + 1, self.n_features
        n_both = n_low + self.squared_order + 1
        rest = arrays[n_both:]
        powers = rest.pop(0) if self.has_powers else None
        cubed, two_squares = rest if self.has_pairs else (None, None)
        return StandardMoments(
            d, self.order, tuple(arrays[:n_low]), tuple(arrays[n_low:n_both]),
            1, 1.0, np.zeros(d), np.ones(d), np.zeros(d), np.ones(d),
            powers=powers, cubed=cubed, two_squares=two_squares, laws=laws,
        )  # fmt: skip


def list_conditions(
    shape: Shape, degree: int, laws: tuple[Law, ...], left_out: tuple[int, ...] = ()
) -> Conditions:
    """Monomials up to a degree, without features `left_out`; values are places in the flat vector.

    Where there are more than `MOST_CONDITIONS`, single features and their powers come first, then
    products of two, and of the rest some that are drawn, the same ones in every call.
    """
    highest = min(degree, shape.order)
    if highest > 2 and len(index_sets(shape.n_features, 2)) * shape.n_features > _MOST_LISTED:
        highest = 2
    squared_order = min(shape.squared_order, highest - 1, max(0, degree - 2))
    power = 2 if degree < 3 or not shape.has_powers else degree
    conditions = build_conditions(shape.numbered(laws), highest, squared_order, highest_power=power)
    degrees = conditions.slot_exponents.sum(axis=1)
    features = (conditions.slot_exponents > 0).sum(axis=1)
    usable = degrees <= degree
    if left_out:
        usable &= ~np.isin(conditions.slots, left_out).any(axis=1)
    # The constant, then single features, pairs, the others; low degrees first in each.
    chance = np.random.default_rng(0).random(conditions.size)
    rank = np.lexsort((chance, degrees, np.minimum(features, 3)))
    rank = rank[usable[rank]][: MOST_CONDITIONS + 1]
    # The constant comes first; its moment is known, and says only that weights sum to 1.
    return conditions.subset(np.sort(rank)[1:])


def read(
    summary: MomentSummary, order: int, schema: Schema | None, shift: Float, scale: Float
) -> Moments:
    """Moments of a group up to an order, in the units of the model."""
    return read_moments(_totals(summary, order, schema), shift, scale)


def _totals(summary: MomentSummary, order: int, schema: Schema | None) -> Totals:
    """The sums of a group up to an order, of all rows together."""
    order = min(order, summary.order)
    summary = summary.truncate(order, min(summary.squared_order, order - 1))
    totals = summary._totals()
    if schema is not None and summary.schema is not None and summary.schema != schema:
        totals = in_schema(totals, schema)
    return totals


def read_flat(
    summaries: Sequence[MomentSummary],
    shape: Shape,
    schema: Schema | None,
    shift: Float,
    scale: Float,
) -> Float:
    """The same of many groups, one flat vector each, of shape (n, size).

    NaN where the values of a group are so far away that even their means overflow.
    """
    totals = [_totals(summary, shape.order, schema) for summary in summaries]
    found = np.full((len(totals), sum(int(np.prod(size)) for size in shape.sizes)), np.nan)
    by_layout = dict[Layout, list[int]]()
    for number, own in enumerate(totals):
        by_layout.setdefault(own.layout, []).append(number)
    for layout, numbers in by_layout.items():
        if layout.n_entries <= _MOST_TOGETHER:
            values = readings_of_many([totals[number] for number in numbers], shift, scale)
            found[numbers] = values[:, shape.places(layout)]
    for number in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
        with suppress(InputError):
            found[number] = shape.flat(read_moments(totals[number], shift, scale))
    return found
