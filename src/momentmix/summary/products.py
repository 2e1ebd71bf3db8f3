"""The products of features that a layout holds, found by their factors.

| symbol | name here | shape |
|---|---|---|
| z_j^p, factors of each product; d and 0 for none | ``features``, ``degrees`` | (n_entries, w) |
| z_j^0·R … z_j^p·R, for each product z_j^p·R | ``lines_of[j]`` | (p + 1, n) |

A product is named by the sum of random numbers of its factors, modulo 2^64, so that z_j^i·R is
found from z_j^p·R by a difference. All maps of sums (a moved origin, other units, fewer features)
are written with these tables, whatever the kinds of sections.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.layout import Layout, Section

_MOST_KEPT = 1 << 18  # entries of tables of which several are kept: about 100 bytes each
_LEADING = {"squared": 2, "cubed": 3}  # degree of the last factor of each product


class Products:
    """Products of a layout.

    Attributes
    ----------
    features, degrees : arrays of shape (n_entries, width)
        Different features and their powers; of no factor `n_features` and 0.
    names : array of shape (n_entries,)
    """

    def __init__(self, layout: Layout) -> None:
        d = self.n_features = layout.n_features
        shape = layout.n_entries, max(layout.order, layout.squared_order + 1, 2)
        kind = np.uint16 if d < 1 << 16 else np.uint32  # the first is sorted in linear time
        self.features: Int = np.full(shape, d, dtype=kind)
        self.degrees: Int = np.zeros(shape, dtype=np.uint8)
        self.of_feature = np.append(np.random.default_rng(0).integers(0, 1 << 58, d), 0)
        for section in layout.sections:
            features, degrees = _factors(section, d)
            self.features[section.place, : features.shape[1]] = features
            self.degrees[section.place, : features.shape[1]] = degrees
        self.names = (self.of_feature[self.features] * self.degrees).sum(axis=1)
        self._order = np.argsort(self.names)
        self._sorted = self.names[self._order]
        assert (np.diff(self._sorted) != 0).all()

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
    def _holders(self) -> tuple[Int, Int, Int]:
        """Each feature with a product that holds it and its degree, by feature and then by name."""
        features, degrees = (x[self._order].ravel() for x in (self.features, self.degrees))
        places = np.argsort(features, kind="stable")[: np.count_nonzero(degrees)]
        holders = self._order[places // self.features.shape[1]]
        return features[places].astype(np.int64), holders, degrees[places].astype(np.int64)

    def holders(self, feature: int) -> tuple[Int, Int]:
        """The products that hold a feature, by name, and its degree in each of them."""
        features, places, degrees = self._holders
        own = slice(*np.searchsorted(features, [feature, feature + 1]).tolist())
        return places[own], degrees[own]

    @cached_property
    def lines(self) -> tuple[Int, Int]:
        """Rows (p, z_j^0·R, …, z_j^p·R) of all features j and degrees p, one after the other.

        And where those of each feature and degree end, (n_features, highest degree), in which
        order they stand: degrees fall.
        """
        features, places, degrees = self._holders
        top, d = int(degrees.max()), self.n_features
        counts = np.bincount(features * top + top - degrees, minlength=d * top).reshape(d, top)
        ends = np.cumsum(counts * np.arange(top + 2, 2, -1)).reshape(d, top)
        flat = np.empty(ends[-1, -1], dtype=np.int64)
        for column, p in enumerate(range(top, 0, -1)):
            own, held = features[degrees == p], places[degrees == p]
            lasts = np.cumsum(counts[:, column])
            row_ends = ends[own, column] - (lasts[own] - 1 - np.arange(len(own))) * (p + 2)
            flat[row_ends - p - 2], flat[row_ends - 1] = p, held
            for k in range(1, p + 1):  # by name: the names to find rise as well
                flat[row_ends - 1 - k] = self.find(self.names[held] - k * self.of_feature[own])
        return flat, ends

    @cached_property
    def lines_of(self) -> list[list[Int]]:
        """Of each feature: z_j^0·R … z_j^p·R of each degree p from the highest, (p + 1, n)."""
        (flat, ends), start, views = self.lines, 0, []
        for own in ends.tolist():
            views.append(list[Int]())
            for p, end in zip(range(len(own), 0, -1), own, strict=True):
                if end > start:
                    views[-1].append(flat[start:end].reshape(-1, p + 2)[:, 1:].T)
                start = end
        return views


def _factors(section: Section, d: int) -> tuple[Int, Int | int]:
    """Features of each product of a section, (n, number of factors), and their degrees."""
    own = np.arange(d)[:, None]
    if section.kind == "power":
        return own, section.size
    if section.kind in ("distinct", "two squares"):
        return index_sets(d, section.size), 1 if section.kind == "distinct" else 2
    others = np.concatenate([sets_without(d, section.size, j) for j in range(d)])
    last = np.repeat(own, len(others) // d, axis=0)
    return np.hstack([others, last]), np.array([1] * section.size + [_LEADING[section.kind]])


def products_of(layout: Layout) -> Products:
    """The products of a layout; of large tables only the last one is kept."""
    return (_small if layout.n_entries <= _MOST_KEPT else _large)(layout)


_small, _large = lru_cache(maxsize=8)(Products), lru_cache(maxsize=1)(Products)
