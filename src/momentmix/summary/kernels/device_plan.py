"""Which tables of monomials and which products of them hold all moments: the plan for a device.

| paper symbol | name here | shape |
|---|---|---|
| index sets B of the monomials [y]_B; y_j² is {j, j} | ``Part.sets`` | (k, degree) |
| [y]_B, B = A ∪ C | ``left`` and ``right`` parts and their rows | |
| Σ w y_I = Σ w y_A·y_B, I = A ∪ B | an entry of a ``Product`` | |
| where each moment stands among all products | ``Plan.positions`` | (n_entries,) |

Up to order 4 one table of all monomials of degree ≤ 2 is multiplied by itself, in panels, so that
only the lower triangle is formed. For higher orders the features are split in two halves and every
moment is a product of a monomial of each. A device prefers few large operations, so degrees
are made by gathering two tables and multiplying them, and entries are picked at the end.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np

from momentmix.index_sets import Int, colex_rank, index_sets
from momentmix.summary.layout import Layout

__all__ = ["Part", "Plan", "Product", "device_plan", "positions", "suits_gram", "table_sets"]

_PANEL = 128


class Part(NamedTuple):
    """Monomials of one degree: rows of an earlier part times rows of another (None: times 1)."""

    sets: Int
    left: str
    left_rows: Int
    right: str | None = None
    right_rows: Int | None = None


class Product(NamedTuple):
    """Rows start:stop of a table times rows of another one, transposed."""

    left: str
    left_rows: slice
    right: str
    right_rows: slice


@dataclass(frozen=True, eq=False)
class Plan:
    """Tables, products, and where the moments are in them.

    Attributes
    ----------
    parts : dict of Part
        In the order in which they are made; "one" and "points" are there from the start.
    tables : dict of list of str
        The parts that stand below each other in each table.
    products : list of Product
    positions : array of shape (n_entries,)
        Place of each entry of the flat vector among the products, one flattened after the other.
    n_monomials : int
        Rows of all tables together.
    """

    parts: dict[str, Part]
    tables: dict[str, list[str]]
    products: list[Product]
    positions: Int
    n_monomials: int


def suits_gram(layout: Layout) -> bool:
    """Whether products of monomials of degree ≤ 2 hold all moments, and enough of them count."""
    return layout.order <= 4 and layout.squared_order <= 2 and layout.n_features <= 60


def _targets(layout: Layout, left: Int, right: Int) -> Int:
    """Flat positions of the products of two lists of monomials, −1 where none is kept."""
    (k, a), (m, b) = left.shape, right.shape
    shape, size, d = (k, m), a + b, layout.n_features
    joined = np.empty((k, m, size), dtype=np.int64)
    joined[..., :a], joined[..., a:] = left[:, None, :], right[None, :, :]
    joined.sort(axis=-1)
    twice = joined[..., 1:] == joined[..., :-1]
    n_twice = twice.sum(axis=-1)
    result = np.full(shape, -1, dtype=np.int64)
    if size <= layout.order:
        plain = n_twice == 0
        result[plain] = layout.section("distinct", size).start + colex_rank(joined[plain])
    if 2 <= size <= layout.squared_order + 2:
        square = n_twice == 1
        members, place = joined[square], twice[square].argmax(axis=1)
        j = members[np.arange(len(members)), place]
        rest = members[np.arange(size) != place[:, None]].reshape(len(members), size - 1)
        rest = rest[rest != j[:, None]].reshape(len(members), size - 2)
        section = layout.section("squared", size - 2)
        ranks = colex_rank(rest - (rest > j[:, None]))
        result[square] = section.start + j * comb(d - 1, size - 2) + ranks
    return result


def _rows_of(sets: list[Int], rows: slice) -> Iterable[tuple[Int, int]]:
    """The index sets of some rows of a table, degree by degree, and where they begin there."""
    first = 0
    for part in sets:
        start, stop = max(rows.start, first), min(rows.stop, first + len(part))
        if start < stop:
            yield part[start - first : stop - first], start - rows.start
        first += len(part)


def positions(layout: Layout, products: Iterable[tuple[list[Int], slice, list[Int], slice]]) -> Int:
    """Where each moment stands among products, each flattened after the other.

    Parameters
    ----------
    layout : Layout
    products : iterable of (sets of the left table, its rows, sets of the right table, its rows)
        A product may be larger than its tables have rows: the rest is padding.

    Returns
    -------
    array of shape (n_entries,)
    """
    found = np.full(layout.n_entries, -1, dtype=np.int64)
    offset = 0
    for left_sets, left_rows, right_sets, right_rows in products:
        width = right_rows.stop - right_rows.start
        for left, row in _rows_of(left_sets, left_rows):
            for right, column in _rows_of(right_sets, right_rows):
                targets = _targets(layout, left, right)
                rows, columns = np.nonzero(targets >= 0)
                found[targets[rows, columns]] = offset + (row + rows) * width + column + columns
        offset += (left_rows.stop - left_rows.start) * width
    assert (found >= 0).all()
    return found


def table_sets(layout: Layout) -> list[Int]:
    """Index sets of all monomials of degree ≤ 2, degree by degree."""
    d = layout.n_features
    return [index_sets(d, a) for a in range(min(2, d) + 1)]


def _next_degree(parts: dict[str, Part], name: str, below: str, sets: Int, first: int) -> None:
    """Monomials of `sets` (features from `first` on) as those one degree lower times a feature."""
    ranks = colex_rank(sets[:, :-1] - first)
    parts[name] = Part(sets, below, ranks, "points", sets[:, -1])


def _gram(layout: Layout) -> tuple[dict[str, Part], dict[str, list[str]], list[Product]]:
    d = layout.n_features
    parts: dict[str, Part] = {}
    names = ["one", "points"]
    if d > 1:
        pairs = index_sets(d, 2)
        parts["pairs"] = Part(pairs, "points", pairs[:, 0], "points", pairs[:, 1])
        names.append("pairs")
    size = 1 + d + comb(d, 2)
    products = []
    for start in range(0, size, _PANEL):
        stop = min(start + _PANEL, size)
        products.append(Product("all", slice(start, stop), "all", slice(0, stop)))
    return parts, {"all": names}, products


def _half_split(layout: Layout) -> tuple[dict[str, Part], dict[str, list[str]], list[Product]]:
    d, m, q = layout.n_features, layout.order, layout.squared_order
    half = d // 2
    parts: dict[str, Part] = {}
    tables: dict[str, list[str]] = {"points": ["points"]}
    ends: dict[str, list[int]] = {}  # rows of a table up to each degree
    for name, first, size in (("lower", 0, half), ("upper", half, d - half)):
        tables[name] = ["one"]
        ends[name] = [1]
        for a in range(1, m):
            sets = index_sets(size, a) + first
            if a == 1:
                parts[f"{name}1"] = Part(sets, "points", sets[:, 0])
            else:
                _next_degree(parts, f"{name}{a}", f"{name}{a - 1}", sets, first)
            tables[name].append(f"{name}{a}")
            ends[name].append(ends[name][-1] + len(sets))
    everything = np.arange(d)
    parts["squares"] = Part(
        np.stack([everything] * 2, axis=1), "points", everything, "points", everything
    )
    tables["squares"] = ["squares"]
    low, up = ends["lower"], ends["upper"]
    products = []
    for b in range(m):
        above = slice(up[b - 1] if b else 0, up[b])
        products.append(Product("upper", above, "lower", slice(0, low[min(m - b, m - 1)])))
    if m > 1:  # order m within one half: degree m − 1 times the features of that half
        products.append(Product("lower", slice(low[-2], low[-1]), "points", slice(0, half)))
        products.append(Product("upper", slice(up[-2], up[-1]), "points", slice(half, d)))
    else:
        products.append(Product("points", slice(0, d), "lower", slice(0, 1)))
    whole = slice(0, d)
    products.append(Product("squares", whole, "lower", slice(0, low[min(q, m - 1)])))
    products.append(Product("squares", whole, "upper", slice(0, up[min(q, m - 1)])))
    for a in range(1, q):
        for b in range(1, q - a + 1):
            name = f"lower{a} upper{b}"
            left, right = parts[f"lower{a}"].sets, parts[f"upper{b}"].sets
            rows, columns = np.divmod(np.arange(len(left) * len(right)), max(1, len(right)))
            sets = np.hstack([left[rows], right[columns]])
            parts[name] = Part(sets, f"lower{a}", rows, f"upper{b}", columns)
            tables[name] = [name]
            products.append(Product("squares", whole, name, slice(0, len(sets))))
    return parts, tables, products


@lru_cache(maxsize=8)
def device_plan(layout: Layout) -> Plan:
    """The plan for a layout.

    Examples
    --------
    >>> plan = device_plan(Layout(15, 4, 2, 0))
    >>> plan.n_monomials, [product.left_rows for product in plan.products]
    (121, [slice(0, 121, None)])
    """
    make = _gram if suits_gram(layout) else _half_split
    parts, tables, products = make(layout)
    d = layout.n_features
    sets = {name: part.sets for name, part in parts.items()}
    sets |= {"one": index_sets(d, 0), "points": index_sets(d, 1)}
    members = {name: [sets[part] for part in names] for name, names in tables.items()}
    found = positions(
        layout,
        ((members[p.left], p.left_rows, members[p.right], p.right_rows) for p in products),
    )
    n_monomials = sum(len(part) for table in members.values() for part in table)
    return Plan(parts, tables, products, found, n_monomials)
