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

Every moment is a row of *indices*, (n_entries, w): 0 is the constant 1, feature j has index j + 1,
repeated as often as it is a factor. The layout is closed under divisors: all maps of sums (a moved
origin, other units, fewer features) are written with these, whatever the kinds of sections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import comb, prod
from typing import Literal, NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.errors import InputError, check_count
from momentmix.index_sets import check_countable, index_sets, sets_without
from momentmix.lazy import lazy_property

Kind = Literal["distinct", "squared", "power", "cubed", "two squares"]

POWER_DEGREES = range(3, 7)  # twice the third: the variance of what is estimated at degree 3


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
        return _sections(self.n_features, self.order, self.squared_order)

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
def _sections(d: int, order: int, squared_order: int) -> tuple[Section, ...]:
    kinds = [Section("distinct", t, (comb(d, t),)) for t in range(order + 1)]
    kinds += [Section("squared", s, (d, comb(d - 1, s))) for s in range(squared_order + 1)]
    kinds += [Section("power", p, (d,)) for p in POWER_DEGREES]
    if squared_order or d == 1:
        kinds += [Section("cubed", 1, (d, d - 1)), Section("two squares", 2, (comb(d, 2),))]
    starts = accumulate((prod(section.shape) for section in kinds), initial=0)
    return tuple(s._replace(start=start) for s, start in zip(kinds, starts, strict=False))


# -- products -----------------------------------------------------------------------------------

_LEADING = {"squared": 2, "cubed": 3}  # degree of the feature of each row


class Line(NamedTuple):
    """The moments z_j^p·R of a feature and a degree, and those of z_j^(p−1)·R."""

    moments: Int
    below: Int


def passes(lines: list[Line]) -> Iterator[Line]:
    """The lines of a feature, by degree, in the order in which its origin is moved."""
    for first in range(len(lines)):
        yield from lines[:first:-1]
        yield lines[first]


class MomentIndices:
    """The indices of all moments of a layout, ascending, and where each product stands."""

    def __init__(self, layout: Layout) -> None:
        d = layout.n_features
        self.n_features = d
        self.width = max(layout.order, layout.squared_order + 2, POWER_DEGREES[-1])
        parts = [_indices(section, d) for section in layout.sections]
        parts = [np.pad(x, ((0, 0), (self.width - x.shape[1], 0))) for x in parts]
        kind = np.uint16 if d < (1 << 16) - 1 else np.uint32  # the first is sorted in linear time
        self.indices: Int = np.sort(np.concatenate(parts).astype(kind), axis=1)
        self._ends = [np.unique(half) for half in self._halves(self.indices)]
        codes = self._codes(self.indices)
        self._order = np.argsort(codes)
        self._sorted = codes[self._order]

    def _halves(self, indices: Int) -> tuple[Int, Int]:
        """Two numbers that stand for the first and the last indices: one would be too large."""
        powers = (self.n_features + 1) ** np.arange((self.width + 1) // 2)
        n = len(powers)
        return indices[:, :n] @ powers, indices[:, n:] @ powers[: self.width - n]

    def _codes(self, indices: Int) -> Int:
        pairs = zip(self._ends, self._halves(indices), strict=True)
        first, last = (np.searchsorted(ends, half) for ends, half in pairs)
        return np.asarray(first * len(self._ends[1]) + last)

    def positions(self, indices: Int) -> Int:
        """Where products with these indices, (n, w), stand in the layout, which holds them."""
        codes = self._codes(np.sort(indices, axis=1))
        return np.asarray(self._order[np.searchsorted(self._sorted, codes)])

    @lazy_property
    def lines(self) -> list[list[Line]]:
        """The lines of each feature, by degree from 1 on."""
        parts, w = list[tuple[Int, ...]](), self.width
        for column in range(w):
            factor = self.indices[:, column]
            is_last = factor > 0
            if column + 1 < w:
                is_last &= factor != self.indices[:, column + 1]
            held = np.flatnonzero(is_last)
            others = self.indices[held]
            degrees = (others == factor[held, None]).sum(axis=1)
            others[:, column] = 0
            parts.append((factor[held].astype(np.int64), degrees, held, self.positions(others)))
        features, degrees, moments, below = (np.concatenate(x) for x in zip(*parts, strict=True))
        line = (features - 1) * w + degrees - 1
        order = np.argsort(line, kind="stable")
        ends = np.searchsorted(line[order], np.arange(self.n_features * w + 1))
        lines = [Line(moments[order[a:b]], below[order[a:b]]) for a, b in pairwise(ends.tolist())]
        return [lines[start : start + w] for start in range(0, len(lines), w)]

    def sums(self, of_features: Int) -> Int:
        """Σ of a number of each feature over the factors of each moment."""
        return np.asarray(np.append(0, of_features)[self.indices].sum(axis=1))


def _indices(section: Section, d: int) -> Int:
    """Indices of each product of a section, (n, degree)."""
    features, size = np.arange(1, d + 1)[:, None], section.size
    if section.kind == "power":
        return np.repeat(features, size, axis=1)
    if section.kind in ("distinct", "two squares"):
        return np.repeat(index_sets(d, size) + 1, 1 + (section.kind == "two squares"), axis=1)
    others = np.concatenate([sets_without(d, size, j) for j in range(d)]) + 1
    leading = np.repeat(features, len(others) // d, axis=0)
    return np.hstack([others, np.repeat(leading, _LEADING[section.kind], axis=1)])


@lru_cache(maxsize=4)
def products_of(layout: Layout) -> MomentIndices:
    """The products of a layout: about 100 bytes for each moment."""
    return MomentIndices(layout)
