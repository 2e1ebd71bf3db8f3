"""The moments that a summary holds, and the place of each.

| paper symbol | name here | shape |
|---|---|---|
| Σ w y_I, I ∈ Ω_t, t = 0 … m | section ``("distinct", t)`` | (C(d, t),) |
| Σ w y_j² y_I, j ∉ I, I of s ≤ q indices (L_j: s = m−2) | ``("squared", s)`` | (d, C(d−1, s)) |
| Σ w y_j^p, p = 3 … 6 | ``("power", p)`` | (d,) |
| Σ w y_j³ y_k, k ≠ j | ``("cubed", 1)`` | (d, d−1) |
| Σ w y_j² y_k² | ``("two squares", 2)`` | (C(d, 2),) |

Index sets are in colex order; in a squared section row j runs over the sets without j, as
``DiagonalMixture.squared_moments(j, s)`` does.

The last three kinds are *high* sections. Powers are always kept. The other two, which make all
moments of degree 4 complete, are kept where order ≥ 4, or with fewer than four features: wide data
of a low order would pay d² for them.

All sections stand one after the other in a flat vector, high ones last; inside a pass Σ w² is its
last entry. Any squared order q ≤ m−1 is closed under moving the origin; y_j³ y_k and y_j² y_k² need
q ≥ 1 for it.

Differs from the paper: the paper keeps order m and q = m−2 only.

*Products* find the moments of a layout by their factors:

| symbol | name here | shape |
|---|---|---|
| z_j^p, factors of each product; d and 0 for none | ``features``, ``degrees`` | (n_entries, w) |
| z_j^0·R … z_j^p·R, for each product z_j^p·R | ``lines_of[j]`` | (p + 1, n) |

A product is named by the sum of random numbers of its factors, modulo 2^64, so that z_j^i·R is
found from z_j^p·R by a difference. All maps of sums (a moved origin, other units, fewer features)
are written with these tables, whatever the kinds of sections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import comb, prod
from typing import Literal, NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.errors import InputError, check_count
from momentmix.index_sets import check_countable, index_sets, sets_without
from momentmix.lazy import lazy_property

Kind = Literal["distinct", "squared", "power", "cubed", "two squares"]

NO_HIGH, POWERS, COMPLETE = 0, 1, 2  # which high sections: none, powers, all of degree 4 as well
POWER_DEGREES = range(3, 7)  # twice the third: the variance of what is seen at degree 3


class Section(NamedTuple):
    """All moments of one kind and size."""

    kind: Kind
    size: int
    shape: tuple[int, ...]
    start: int = 0

    @property
    def n_entries(self) -> int:
        """Number of moments."""
        return prod(self.shape)

    @property
    def place(self) -> slice:
        """Where the section stands in the flat vector."""
        return slice(self.start, self.start + self.n_entries)


@dataclass(frozen=True)
class Layout:
    """The moments of a summary; `high` is by default the most that the other numbers allow."""

    n_features: int
    order: int
    squared_order: int
    high: int = COMPLETE

    def __post_init__(self) -> None:
        d = check_count("n_features", self.n_features, 1)
        m = check_count("order", self.order, 1)
        q = check_count("squared_order", self.squared_order, 0)
        for name, number in {"n_features": d, "order": m, "squared_order": q}.items():
            object.__setattr__(self, name, number)  # NumPy integers become Python's
        if m > d:
            raise InputError(
                f"order must be at most n_features={d}, since a moment needs that many distinct "
                f"features; got order={m}. Use order={d} or less, or more features."
            )
        check_countable(d, m)
        if q > m - 1:
            raise InputError(
                f"squared_order must be at most order − 1 = {m - 1}, or the moments are not closed "
                f"under a change of origin; got {q}. Lower it or raise the order."
            )
        complete = d > 1 and q >= 1 and (m >= 4 or d < 4)
        object.__setattr__(self, "high", min(self.high, COMPLETE if complete else POWERS))

    @lazy_property
    def without_high(self) -> Layout:
        """The same without high sections."""
        return replace(self, high=NO_HIGH)

    @lazy_property
    def sections(self) -> tuple[Section, ...]:
        """All sections: the order of the flat vector and of the file."""
        d = self.n_features
        kinds = [Section("distinct", t, (comb(d, t),)) for t in range(self.order + 1)]
        kinds += [Section("squared", s, (d, comb(d - 1, s))) for s in range(self.squared_order + 1)]
        if self.high >= POWERS:
            kinds += [Section("power", p, (d,)) for p in POWER_DEGREES]
        if self.high == COMPLETE:
            kinds += [Section("cubed", 1, (d, d - 1)), Section("two squares", 2, (comb(d, 2),))]
        starts = accumulate((section.n_entries for section in kinds), initial=0)
        return tuple(s._replace(start=start) for s, start in zip(kinds, starts, strict=False))

    @lazy_property
    def slices(self) -> list[slice]:
        """Places of all sections."""
        return [section.place for section in self.sections]

    @lazy_property
    def counts(self) -> Int:
        """Number of moments of each section."""
        return np.array([section.n_entries for section in self.sections], dtype=np.int64)

    @lazy_property
    def _by_kind(self) -> dict[tuple[Kind, int], Section]:
        return {(s.kind, s.size): s for s in self.sections}

    def section(self, kind: Kind, size: int) -> Section:
        """The section of a kind and size."""
        return self._by_kind[kind, size]

    @lazy_property
    def n_entries(self) -> int:
        """Number of moments."""
        return int(self.sections[-1].place.stop)

    def places_in(self, other: Layout) -> Int:
        """Return where these moments stand in a layout that has more."""
        every = np.arange(other.n_entries)
        return np.concatenate([every[other.section(s.kind, s.size).place] for s in self.sections])


@lru_cache(maxsize=64)
def known(layout: Layout) -> Layout:
    """The first layout that was equal to this one: its sections are computed already."""
    return layout


# -- products of features, by section --------------------------------------------------

_MOST_KEPT = 1 << 18  # entries of tables of which several are kept: about 100 bytes each
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads hashes
_LEADING = {"squared": 2, "cubed": 3}  # degree of the last factor of each product


class Products:
    """Products of a layout: different features and powers of each; of no factor d and 0."""

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
        self.names = np.zeros(len(self.features), dtype=np.int64)
        for features, degrees in zip(self.features.T, self.degrees.T, strict=True):
            self.names += self.of_feature[features] * degrees
        # A table of places by hash, and a search among names whose slot is taken.
        self._bits = 2 + layout.n_entries.bit_length()
        numbers, slots = np.arange(layout.n_entries, dtype=np.int32), self._slots(self.names)
        self._table = np.full(1 << self._bits, -1, dtype=np.int32)
        self._table[slots] = numbers
        others = np.flatnonzero(self._table[slots] != numbers)
        self._others = others[np.argsort(self.names[others])]
        self._other_names = self.names[self._others]

    def _slots(self, names: Int) -> Int:
        """Multiplicative hash of names: their highest bits, after a product with an odd number."""
        mixed = names.view(np.uint64) * _GOLDEN >> np.uint64(64 - self._bits)
        return mixed.view(np.int64)

    def places(self, names: Int) -> Int:
        """Return the places of products of these names, −1 where the layout lacks them."""
        found = self._table[self._slots(names)].astype(np.int64)
        missing = np.nonzero(self.names[found] != names)  # of −1 it is the last one
        if len(missing[0]):
            wanted, others = names[missing], self._other_names
            where = np.minimum(np.searchsorted(others, wanted), max(len(others) - 1, 0))
            places = np.full(len(wanted), -1)
            if len(others):
                places = np.where(others[where] == wanted, self._others[where], -1)
            found[missing] = places
        return found

    def find(self, names: Int) -> Int:
        """Where products of these names stand; all are in the layout."""
        found = self.places(names)
        assert (found >= 0).all()
        return found

    @lazy_property
    def _holders(self) -> tuple[Int, Int, Int]:
        """Each feature with a product that holds it and its degree, by feature and then place."""
        features, degrees = self.features.ravel(), self.degrees.ravel()
        places = np.argsort(features, kind="stable")[: np.count_nonzero(degrees)]
        holders = places // self.features.shape[1]
        return features[places].astype(np.int64), holders, degrees[places].astype(np.int64)

    def holders(self, feature: int) -> tuple[Int, Int]:
        """The products that hold a feature, and its degree in each of them."""
        features, places, degrees = self._holders
        own = slice(*np.searchsorted(features, [feature, feature + 1]).tolist())
        return places[own], degrees[own]

    @lazy_property
    def lines(self) -> tuple[Int, Int]:
        """Rows (p, z_j^0·R, …, z_j^p·R) of all features j and falling degrees p, and their ends."""
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
            for k in range(1, p + 1):
                flat[row_ends - 1 - k] = self.find(self.names[held] - k * self.of_feature[own])
        return flat, ends

    @lazy_property
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
