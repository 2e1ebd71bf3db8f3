"""Which moments a summary holds, and where each one stands.

| paper symbol | name here | shape |
|---|---|---|
| Σ w y_I, I ∈ Ω_t, t = 0 … m | section ``("distinct", t)`` | (G, C(d, t)) |
| Σ w y_j² y_I, j ∉ I, I of s ≤ q indices (L_j: s = m−2) | ``("squared", s)`` | (G, d, C(d−1, s)) |
| Σ w y_j^p, p = 3 … 6 | ``("power", p)`` | (1, d) |
| Σ w y_j³ y_k, k ≠ j | ``("cubed", 1)`` | (1, d, d−1) |
| Σ w y_j² y_k² | ``("two squares", 2)`` | (1, C(d, 2)) |

Index sets are in colex order; in a squared section row j runs over the sets without j, as
``DiagonalMixture.squared_moments(j, s)`` does. G is the number of replicate groups in the low
sections (orders up to 3, squares with at most one more index), and 1 in the others: the groups
*replace* the totals there, so that they cost no further products.

The last three kinds are *high* sections. Powers are always kept. The other two, which make all
moments of degree 4 complete, are kept where order ≥ 4, or with fewer than four features: wide data
of a low order would pay d² for them. Summaries of the first file format have none of them.

Inside a pass all sections stand one after the other in a flat vector, low sections first, high
ones last, with Σ w² as its last entry. Any squared order q ≤ m−1 is closed under moving the origin;
y_j³ y_k and y_j² y_k² need q ≥ 1 for it.

Differs from the paper: the paper keeps order m and q = m−2 only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import comb, prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Int
from momentmix.arguments import check_count
from momentmix.errors import InputError
from momentmix.index_sets import check_countable, colex_rank, sets_without

Kind = Literal["distinct", "squared", "power", "cubed", "two squares"]

DEFAULT_REPLICATES = 0  # see `MomentSummary`: groups cost more than they tell
_GROUPED_ORDER, _GROUPED_SQUARED = 3, 1  # of higher orders groups would multiply the size by G
NO_HIGH, POWERS, COMPLETE = 0, 1, 2  # which high sections: none, powers, all of degree 4 as well
POWER_DEGREES = range(3, 7)  # twice the third: the variance of what is seen at degree 3
_CACHED_SETS = 200_000  # larger index tables are made anew: they would fill the memory


class Section(NamedTuple):
    """All moments of one kind and size."""

    kind: Kind
    size: int
    shape: tuple[int, ...]
    n_groups: int
    start: int

    @property
    def is_high(self) -> bool:
        """Whether it holds powers above 2, or two squares."""
        return self.kind not in ("distinct", "squared")

    @property
    def n_entries(self) -> int:
        """Number of moments, groups not counted."""
        return prod(self.shape)

    @property
    def place(self) -> slice:
        """Where the section stands in the flat vector of a pass."""
        return slice(self.start, self.start + self.n_entries)


@dataclass(frozen=True)
class Layout:
    """The moments of a summary.

    Parameters
    ----------
    n_features, order, squared_order : int
        d, m and q: orders 0 … m with distinct indices, and y_j²·y_I with |I| ≤ q.
    replicates : int
        Number of replicate groups G, or 0.
    high : int
        `NO_HIGH`, `POWERS` or `COMPLETE`; by default the most that the other numbers allow.

    Examples
    --------
    >>> [(s.kind, s.size, s.shape) for s in Layout(4, 2, 1, 0).sections]  # doctest: +ELLIPSIS
    [('distinct', 0, (1,)), ('distinct', 1, (4,)), ('distinct', 2, (6,)), ...
    """

    n_features: int
    order: int
    squared_order: int
    replicates: int
    high: int = COMPLETE

    def __post_init__(self) -> None:
        d = check_count("n_features", self.n_features, 1)
        m = check_count("order", self.order, 1)
        q = check_count("squared_order", self.squared_order, 0)
        groups = check_count("replicates", self.replicates, 0)
        numbers = {"n_features": d, "order": m, "squared_order": q, "replicates": groups}
        for name, number in numbers.items():
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
        if self.replicates == 1 or self.replicates > 4096:
            raise InputError(
                f"replicates must be 0 (none) or between 2 and 4096; got {self.replicates}."
            )
        complete = d > 1 and q >= 1 and (m >= 4 or d < 4)
        object.__setattr__(self, "high", min(self.high, COMPLETE if complete else POWERS))

    @property
    def n_groups(self) -> int:
        """Number of groups of the low sections: 1 without replicates."""
        return max(1, self.replicates)

    @cached_property
    def without_high(self) -> Layout:
        """The same without high sections."""
        return replace(self, high=NO_HIGH)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections, low ones first: the order of the flat vector and of the file."""
        d = self.n_features
        kinds: list[tuple[Kind, int, tuple[int, ...], bool]] = [
            ("distinct", t, (comb(d, t),), t <= _GROUPED_ORDER) for t in range(self.order + 1)
        ]
        kinds += [
            ("squared", s, (d, comb(d - 1, s)), s <= _GROUPED_SQUARED)
            for s in range(self.squared_order + 1)
        ]
        sections, start = [], 0
        kinds.sort(key=lambda entry: not entry[3])
        if self.high >= POWERS:
            kinds += [("power", p, (d,), False) for p in POWER_DEGREES]
        if self.high == COMPLETE:
            kinds += [("cubed", 1, (d, d - 1), False), ("two squares", 2, (comb(d, 2),), False)]
        for kind, size, shape, low in kinds:
            section = Section(kind, size, shape, self.n_groups if low else 1, start)
            sections.append(section)
            start += section.n_entries
        return tuple(sections)

    @cached_property
    def index(self) -> dict[tuple[Kind, int], int]:
        """Position of a section in `sections` by kind and size."""
        return {(s.kind, s.size): position for position, s in enumerate(self.sections)}

    @cached_property
    def stored_places(self) -> tuple[slice, ...]:
        """Where each section stands in the file, groups included."""
        ends = [0, *np.cumsum(self.stored_counts).tolist()]
        return tuple(slice(*pair) for pair in pairwise(ends))

    @cached_property
    def stored_counts(self) -> Int:
        """Number of sums of each section, groups included."""
        return np.array([s.n_groups * s.n_entries for s in self.sections], dtype=np.int64)

    @cached_property
    def n_stored(self) -> int:
        """Number of sums in the file, groups included."""
        return int(self.stored_places[-1].stop)

    def section(self, kind: Kind, size: int) -> Section:
        """The section of a kind and size."""
        return self.sections[self.index[kind, size]]

    @cached_property
    def n_entries(self) -> int:
        """Number of moments, groups not counted."""
        return sum(section.n_entries for section in self.sections)

    @cached_property
    def n_low(self) -> int:
        """How many entries at the head of the flat vector are kept by group."""
        low = [
            s
            for s in self.sections
            if not s.is_high
            and s.size <= (_GROUPED_ORDER if s.kind == "distinct" else _GROUPED_SQUARED)
        ]
        return sum(section.n_entries for section in low)


@lru_cache(maxsize=64)
def known(layout: Layout) -> Layout:
    """The first layout that was equal to this one: it knows its sections already."""
    return layout


def grouped_like(values: Any, section: Section) -> NDArray[Any]:
    """Values of a low section for use in another one: summed over groups where that has none."""
    if values.shape[0] == section.n_groups:
        return np.asarray(values)
    return np.asarray(values.sum(axis=0, keepdims=True))


def _member_ranks(n_features: int, size: int, feature: int) -> tuple[Int, Int]:
    rest = sets_without(n_features, size - 1, feature)
    below = (rest < feature).sum(axis=1)
    union = np.empty((rest.shape[0], size), dtype=np.int64)
    columns = np.arange(size - 1)
    places = columns + (columns >= below[:, None])
    np.put_along_axis(union, places, rest, axis=1)
    union[np.arange(rest.shape[0]), below] = feature
    return colex_rank(union), colex_rank(rest)


_cached_member_ranks = lru_cache(maxsize=4096)(_member_ranks)


def member_ranks(n_features: int, size: int, feature: int) -> tuple[Int, Int]:
    """Ranks of all sets of `size` that hold `feature`, and of the same sets without it.

    Both of shape (C(n_features−1, size−1),), in the colex order of the sets without the feature.

    Examples
    --------
    >>> [ranks.tolist() for ranks in member_ranks(3, 2, 1)]  # {0,1}, {1,2} and {0}, {2}
    [[0, 2], [0, 2]]
    """
    if comb(n_features - 1, size - 1) > _CACHED_SETS // n_features:
        return _member_ranks(n_features, size, feature)
    return _cached_member_ranks(n_features, size, feature)


def _square_member_ranks(n_features: int, size: int, feature: int) -> tuple[Int, Int, Int]:
    rows = np.delete(np.arange(n_features), feature)
    pairs = [member_ranks(n_features - 1, size, feature - (feature > i)) for i in rows.tolist()]
    union = np.array([pair[0] for pair in pairs], dtype=np.int64)
    rest = np.array([pair[1] for pair in pairs], dtype=np.int64)
    shape = (n_features - 1, -1 if len(pairs) else 0)
    return rows[:, None], union.reshape(shape), rest.reshape(shape)


_cached_square_member_ranks = lru_cache(maxsize=1024)(_square_member_ranks)


def square_member_ranks(n_features: int, size: int, feature: int) -> tuple[Int, Int, Int]:
    """Where a squared section holds `feature` among the plain factors.

    Returns
    -------
    rows : array of shape (n_features − 1, 1)
        The squared features i ≠ feature.
    union, rest : arrays of shape (n_features − 1, C(n_features−2, size−1))
        Columns, in row i, of the sets that hold `feature`, and of the same sets without it in the
        section one size below.
    """
    if n_features * comb(n_features - 2, size - 1) > _CACHED_SETS // n_features:
        return _square_member_ranks(n_features, size, feature)
    return _cached_square_member_ranks(n_features, size, feature)
