"""The products of features that a layout holds, found by their factors.

| symbol | name here | shape |
|---|---|---|
| the factors of each product, d for none | ``factors`` | (n_entries, width) |
| z_j^0·R … z_j^p·R, for each product z_j^p·R | ``lines(j)`` | (n, p + 1) |

A product is named by the sum of random numbers of its factors, modulo 2^64, so that z_j^i·R is
found from z_j^p·R by a difference. All maps of sums (a moved origin, other units, fewer features)
are written with these tables, whatever the kinds of sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.layout import Layout, Section

_MOST_KEPT = 1 << 18  # entries of tables of which several are kept: about 100 bytes each


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
        kind = np.uint16 if d < 1 << 16 else np.uint32  # the first is sorted in linear time
        self.factors: Int = np.full((layout.n_entries, width), d, dtype=kind)
        self.of_feature = np.append(np.random.default_rng(0).integers(0, 1 << 58, d), 0)
        self.names = np.empty(layout.n_entries, dtype=np.int64)
        for section in sections:
            factors = _factors(section, d)
            self.factors[section.place, : factors.shape[1]] = factors
            self.names[section.place] = self.name(factors)
        self._order = np.argsort(self.names)
        self._sorted = self.names[self._order]
        assert (np.diff(self._sorted) != 0).all()
        self._lines: dict[int, list[NDArray[np.int32]]] = {}

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

    @cached_property
    def _by_feature(self) -> tuple[Int, Int]:
        """Products that hold each feature, in the order of their names, and where they end."""
        flat = self.factors[self._order].ravel()
        places = np.argsort(flat, kind="stable") // self.factors.shape[1]
        return places.astype(np.int32), np.cumsum(np.bincount(flat))

    def holders(self, feature: int) -> tuple[Int, Int]:
        """The products that hold a feature, by name, and its degree in each of them."""
        places, ends = self._by_feature
        start = ends[feature - 1] if feature else 0
        places = places[start : ends[feature]]  # as often as the degree says
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        return self._order[places[firsts]], np.diff(firsts, append=len(places))

    def lines(self, feature: int) -> Iterator[NDArray[np.int32]]:
        """Of each degree p of a feature from the highest: rows of z_j^0·R … z_j^p·R, (n, p + 1)."""
        if feature in self._lines:
            yield from self._lines[feature]
            return
        (holders, degrees), found = self.holders(feature), []
        for p in range(int(degrees.max()), 0, -1):
            held = holders[degrees == p]  # by name: the names to find rise as well
            below = np.arange(-p, 0)[:, None] * self.of_feature[feature]
            rows = np.column_stack([*map(self.find, self.names[held] + below), held])
            found.append(rows.astype(np.int32))
            yield found[-1]
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


def products_of(layout: Layout) -> Products:
    """The products of a layout; of large tables only the last one is kept."""
    return (_small if layout.n_entries <= _MOST_KEPT else _large)(layout)


_small, _large = lru_cache(maxsize=8)(Products), lru_cache(maxsize=1)(Products)
