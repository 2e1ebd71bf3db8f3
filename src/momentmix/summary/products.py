"""The products of features that a layout holds, found by their factors.

| symbol | name here | shape |
|---|---|---|
| the factors of each product, d for none | ``factors`` | (n_entries, width) |
| degree of feature j in each product | ``degree(j)`` | (n_entries,) |
| z_j^0·R … z_j^p·R, for each product z_j^p·R | ``lines(j)`` | (n, p + 1) |

A product is named by the sum of random numbers of its factors, modulo 2^64, so that z_j^i·R is
found from z_j^p·R by a difference. All maps of sums (a moved origin, other units, fewer features)
are written with these tables, whatever the kinds of sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.layout import Layout, Section

_MOST_KEPT = 1 << 20  # entries of tables that stay in memory: some 100 MB with all lines


class Products:
    """Products of a layout.

    Attributes
    ----------
    factors : array of shape (n_entries, width)
        Features, repeated as they are in the product; then `n_features`, for no factor.
    names : array of shape (n_entries,)
    """

    def __init__(self, layout: Layout) -> None:
        d, sections = layout.n_features, layout.sections
        width = max(layout.order, layout.squared_order + 2, 6 if layout.high else 0)
        self.factors = np.full((layout.n_entries, width), d, dtype=np.int32)
        self.of_feature = np.append(np.random.default_rng(0).integers(0, 1 << 58, d), 0)
        self.names = np.empty(layout.n_entries, dtype=np.int64)
        for section in sections:
            factors = _factors(section, d)
            self.factors[section.place, : factors.shape[1]] = factors
            self.names[section.place] = self.name(factors)
        self._order = np.argsort(self.names)
        self._sorted = self.names[self._order]
        assert (np.diff(self._sorted) != 0).all()
        self._lines: dict[int, list[Int]] = {}

    def name(self, factors: Int) -> Int:
        """Names of products of these factors, (n, width)."""
        return np.asarray(self.of_feature[factors].sum(axis=1))

    def places(self, names: Int) -> Int:
        """Where products of these names stand, −1 for those that the layout lacks."""
        found = np.minimum(np.searchsorted(self._sorted, names), len(self._sorted) - 1)
        return np.where(self._sorted[found] == names, self._order[found], -1)

    def find(self, names: Int) -> Int:
        """Where products of these names stand; all are in the layout."""
        found = self.places(names)
        assert (found >= 0).all()
        return found

    def degree(self, feature: int) -> Int:
        """Degree of a feature in each product."""
        return np.asarray((self.factors == feature).sum(axis=1))

    @cached_property
    def degrees(self) -> Int:
        """Degree of each feature in each product, (n_entries, n_features)."""
        return np.array([self.degree(j) for j in range(len(self.of_feature) - 1)]).T

    def lines(self, feature: int) -> Iterator[Int]:
        """Of each degree p of a feature from the highest: rows of z_j^0·R … z_j^p·R, (n, p + 1)."""
        if feature in self._lines:
            yield from self._lines[feature]
            return
        degree, found = self.degree(feature)[self._order], []
        for p in range(int(degree.max()), 0, -1):
            held = self._order[degree == p]  # by name: the names to find rise as well
            below = np.arange(-p, 0)[:, None] * self.of_feature[feature]
            found.append(np.column_stack([*map(self.find, self.names[held] + below), held]))
            yield found[-1]
        if len(self.names) <= _MOST_KEPT:
            self._lines[feature] = found


def _factors(section: Section, d: int) -> Int:
    """Features of each product of a section, (n, degree)."""
    own = np.arange(d)[:, None]
    if section.kind == "power":
        return np.repeat(own, section.size, axis=1)
    if section.kind in ("distinct", "two squares"):
        sets = index_sets(d, section.size)
        return sets if section.kind == "distinct" else np.repeat(sets, 2, axis=1)
    degree = 2 if section.kind == "squared" else 3
    others = [sets_without(d, section.size, j) for j in range(d)]
    first = np.repeat(np.repeat(own, degree, axis=1), len(others[0]), axis=0)
    return np.concatenate([first, np.concatenate(others)], axis=1)


@lru_cache(maxsize=8)
def _kept(layout: Layout) -> Products:
    return Products(layout)


def products_of(layout: Layout) -> Products:
    """The products of a layout; large tables are made anew each time."""
    return _kept(layout) if layout.n_entries <= _MOST_KEPT else Products(layout)
