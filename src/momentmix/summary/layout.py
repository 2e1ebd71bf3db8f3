"""The moments that a summary holds, and the place of each.

| paper symbol | name here | shape |
|---|---|---|
| Σ w y_I, I ∈ Ω_t, t = 0 … m | section ``("distinct", t)`` | (C(d, t),) |
| Σ w y_j² y_I, j ∉ I, I of s ≤ q indices (L_j: s = m−2) | ``("squared", s)`` | (d, C(d−1, s)) |
| Σ w y_j^p, p = 3 … 6 | ``("power", p)`` | (d,) |
| Σ w y_j³ y_k, k ≠ j, where q ≥ 1 | ``("cubed", 1)`` | (d, d−1) |
| Σ w y_j² y_k², where q ≥ 1 | ``("two squares", 2)`` | (C(d, 2),) |

Index sets are in colex order; in a squared section row j runs over the sets without j. With the
last two kinds all moments of degree 4 of two features are complete; they need y_j² y_k to be moved.

Differs from the paper: the paper keeps order m and q = m−2 only.

Every moment has its *factors*, features and degrees (n_entries, w), and the layout is closed under
divisors: all maps of sums (a moved origin, other units, fewer features) are written with one table,
``lines``, whatever the kinds of sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import comb, prod
from typing import Literal, NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.errors import InputError, check_count
from momentmix.index_sets import check_countable, colex_rank, index_sets, sets_without
from momentmix.lazy import lazy_property

Kind = Literal["distinct", "squared", "power", "cubed", "two squares"]

POWER_DEGREES = range(3, 7)  # twice the third: the variance of what is seen at degree 3


class Section(NamedTuple):
    """All moments of one kind and size."""

    kind: Kind
    size: int
    shape: tuple[int, ...]
    start: int = 0

    @property
    def place(self) -> slice:
        """Where the section stands in the flat vector."""
        return slice(self.start, self.start + prod(self.shape))


@dataclass(frozen=True)
class Layout:
    """The moments of a summary."""

    n_features: int
    order: int
    squared_order: int

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

    @lazy_property
    def sections(self) -> tuple[Section, ...]:
        """All sections: the order of the flat vector and of the file."""
        d = self.n_features
        kinds = [Section("distinct", t, (comb(d, t),)) for t in range(self.order + 1)]
        kinds += [Section("squared", s, (d, comb(d - 1, s))) for s in range(self.squared_order + 1)]
        kinds += [Section("power", p, (d,)) for p in POWER_DEGREES]
        if self.squared_order or d == 1:
            kinds += [Section("cubed", 1, (d, d - 1)), Section("two squares", 2, (comb(d, 2),))]
        starts = accumulate((prod(section.shape) for section in kinds), initial=0)
        return tuple(s._replace(start=start) for s, start in zip(kinds, starts, strict=False))

    @lazy_property
    def _by_kind(self) -> dict[tuple[Kind, int], Section]:
        return {(s.kind, s.size): s for s in self.sections}

    def section(self, kind: Kind, size: int) -> Section:
        """The section of a kind and size."""
        return self._by_kind[kind, size]

    @property
    def n_low(self) -> int:
        """Number of moments before the high ones: powers and what completes degree 4."""
        return self.section("power", POWER_DEGREES[0]).start

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


# -- factors of the moments --------------------------------------------------------------------

_LEADING = {"squared": 2, "cubed": 3}  # degree of the last factor of each product


class Line(NamedTuple):
    """The moments z_j^p·R of a feature and a degree, and those of z_j^(p−1)·R."""

    moments: Int
    below: Int


def passes(lines: list[Line]) -> Iterator[Line]:
    """The lines of a feature, by degree, in the order in which its origin is moved."""
    for first in range(len(lines)):
        yield from lines[:first:-1]
        yield lines[first]


class Factors:
    """Factors of the moments of a layout, (n_entries, w); of none the feature d and degree 0."""

    def __init__(self, layout: Layout) -> None:
        d = layout.n_features
        shape = layout.n_entries, max(layout.order, layout.squared_order + 1, 2)
        kind = np.uint16 if d < 1 << 16 else np.uint32  # the first is sorted in linear time
        self.layout = layout
        self.features: Int = np.full(shape, d, dtype=kind)
        self.degrees: Int = np.zeros(shape, dtype=np.uint8)
        for section in layout.sections:
            features, degrees = _factors(section, d)
            self.features[section.place, : features.shape[1]] = features
            self.degrees[section.place, : features.shape[1]] = degrees

    @lazy_property
    def lines(self) -> list[list[Line]]:
        """The lines of each feature, by degree from 1 on."""
        d, w = self.layout.n_features, self.features.shape[1]
        below = np.empty(self.features.shape, dtype=np.int64)
        for column in range(w):
            held = np.flatnonzero(self.degrees[:, column])
            degrees = self.degrees[held]
            degrees[:, column] -= 1
            below[held, column] = places(self.layout, self.features[held], degrees)
        features = self.features.ravel()
        order = np.argsort(features, kind="stable")
        ends = np.cumsum(np.bincount(features, minlength=d + 1))[:d]
        degrees, flat, found = self.degrees.ravel(), below.ravel(), []
        for own in np.split(order[: ends[-1]], ends[:-1]):
            powers = degrees[own]
            some = (own[powers == p] for p in range(1, int(powers.max(initial=0)) + 1))
            found.append([Line(x // w, flat[x]) for x in some])
        return found

    @lazy_property
    def degree(self) -> int:
        """The highest degree of a moment."""
        return int(self.degrees.sum(axis=1).max())

    def exponents(self, of_features: Int) -> Int:
        """Σ_j p_j·a_j of each moment, for a number a_j of each feature."""
        table = np.append(of_features, 0)
        return np.asarray((table[self.features] * self.degrees).sum(axis=1))


def places(layout: Layout, features: Int, degrees: Int) -> Int:
    """Where products of these factors, (n, w), stand in a layout that holds them."""
    d = layout.n_features
    room = ((0, 0), (0, max(0, 2 - features.shape[1])))  # for at least two factors
    features = np.pad(features.astype(np.int64), room, constant_values=d)
    degrees = np.pad(degrees.astype(np.int64), room)
    order = np.argsort(features - (d + 1) * degrees, axis=1)  # highest degree first, none last
    features = np.take_along_axis(features, order, axis=1)
    degrees = np.take_along_axis(degrees, order, axis=1)
    n_factors, (top, second) = (degrees > 0).sum(axis=1), degrees[:, :2].T
    found = np.empty(len(features), dtype=np.int64)
    for t, p, q in set(zip(n_factors.tolist(), top.tolist(), second.tolist(), strict=True)):
        kind: Kind
        own = (n_factors == t) & (top == p) & (second == q)
        sets = features[own, :t]
        others = sets[:, 1:] - (sets[:, 1:] > sets[:, :1])  # numbered without the first feature
        if p <= 1:
            kind, size, ranks = "distinct", t, colex_rank(sets)
        elif t == 1 and p > 2:
            kind, size, ranks = "power", p, sets[:, 0]
        elif p == q == 2:
            kind, size, ranks = "two squares", t, colex_rank(sets)
        else:
            kind, size = "squared" if p == 2 else "cubed", t - 1
            ranks = sets[:, 0] * comb(d - 1, size) + colex_rank(others)
        found[own] = layout.section(kind, size).start + ranks
    return found


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


@lru_cache(maxsize=4)
def factors_of(layout: Layout) -> Factors:
    """The factors of a layout: about 100 bytes for each moment."""
    return Factors(layout)
