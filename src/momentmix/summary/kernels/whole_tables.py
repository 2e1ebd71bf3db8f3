"""The plan for an array library: few large products of tables that are stored as a whole.

Up to order 4 one table of all monomials of degree ≤ 2 is multiplied by itself, in panels, so that
only the lower triangle is formed. For higher orders the features are split in two halves and every
moment is a product of a monomial of each. A device prefers few large operations, so degrees are
made by gathering two tables and multiplying them, and entries are picked at the end.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import colex_rank, index_sets
from momentmix.summary.kernels.half_split import Place, mixed_degrees
from momentmix.summary.kernels.plan import Fill, Operand, Plan, ProductPlanner, operand
from momentmix.summary.layout import Layout

_PANEL = 128  # rows of a product: smaller ones waste less of the triangle, but leave cores idle
_MOST_FEATURES = 60  # with more of them most products of pairs are no moments of order 3 or 4


def suits_pairs(layout: Layout) -> bool:
    """Whether products of monomials of degree ≤ 2 hold all moments, and enough of them count."""
    return layout.order <= 4 and layout.squared_order <= 2 and layout.n_features <= _MOST_FEATURES


def pair_sets(layout: Layout) -> list[Int]:
    """Index sets of all monomials of degree ≤ 2, degree by degree."""
    d = layout.n_features
    return [index_sets(d, a) for a in range(min(2, d) + 1)]


@lru_cache(maxsize=8)
def whole_table_plan(layout: Layout) -> Plan:
    """The plan for a layout without high sections.

    Examples
    --------
    >>> plan = whole_table_plan(Layout(15, 4, 2).without_high)
    >>> plan.n_monomials, [step.rows for step in plan.steps]
    (121, [slice(0, 121, None)])
    """
    return _pairs(layout) if suits_pairs(layout) else _halves(layout)


def _pairs(layout: Layout) -> Plan:
    """All monomials of degree ≤ 2, times themselves."""
    d, sets = layout.n_features, pair_sets(layout)
    size = sum(len(members) for members in sets)
    points, fills = slice(1, d + 1), []
    if d > 1:
        left, right = sets[2].T
        fills.append(Fill(points, points, slice(d + 1, size), pairs=(left, right)))
    products = ProductPlanner(layout)
    for start in range(0, size, _PANEL):
        stop = min(start + _PANEL, size)
        products.multiply(operand(sets, slice(start, stop)), operand(sets, slice(0, stop)))
    return _plan(size, (points, slice(d + 1, d + 1)), fills, products)


def _halves(layout: Layout) -> Plan:
    """Monomials of each half up to degree m−1, squares, and mixed monomials up to degree q.

    The table begins with the constant and the lower half, degrees rising.
    """
    d, q, half = layout.n_features, layout.squared_order, layout.n_features // 2
    degrees = range(1, max(1, layout.order - 1) + 1)
    sets: dict[Place, Int] = {("constant", 0): index_sets(d, 0)}
    sets |= {("lower", a): index_sets(half, a) for a in degrees}
    sets |= {("upper", b): index_sets(d - half, b) + half for b in degrees}
    sets["squares", 0] = np.stack([np.arange(d)] * 2, axis=1)
    for a, b in mixed_degrees(q):
        left, right = sets["lower", a], sets["upper", b]
        rows, columns = np.divmod(np.arange(len(left) * len(right)), max(1, len(right)))
        sets[f"lower {a} and upper", b] = np.hstack([left[rows], right[columns]])
    places, start = dict[Place, slice](), 0
    for place, members in sets.items():
        places[place] = slice(start, start + len(members))
        start += len(members)
    for side in ("lower", "upper"):
        sets[side, 0], places[side, 0] = sets["constant", 0], places["constant", 0]
    fills = _half_fills(layout, sets, places)
    products = _half_products(layout, sets, places)
    return _plan(start, (places["lower", 1], places["upper", 1]), fills, products)


def _half_fills(layout: Layout, sets: dict[Place, Int], places: dict[Place, slice]) -> list[Fill]:
    """Each degree from the one below, squares of the features, mixed monomials."""
    fills, half = [], layout.n_features // 2
    for side, first in (("lower", 0), ("upper", half)):
        for a in range(2, layout.order):
            members = sets[side, a] - first
            pairs = colex_rank(members[:, :-1]), members[:, -1]
            fills.append(Fill(places[side, a - 1], places[side, 1], places[side, a], pairs=pairs))
    squares = places["squares", 0]
    middle = squares.start + half
    for side, out in (
        ("lower", slice(squares.start, middle)),
        ("upper", slice(middle, squares.stop)),
    ):
        fills.append(Fill(places[side, 1], places[side, 1], out))
    for a, b in mixed_degrees(layout.squared_order):
        out = places[f"lower {a} and upper", b]
        fills.append(Fill(places["lower", a], places["upper", b], out, outer=True))
    return fills


def _half_products(
    layout: Layout, sets: dict[Place, Int], places: dict[Place, slice]
) -> ProductPlanner:
    """Upper times lower monomials, order m within one half, and everything times the squares."""
    m, q, products = layout.order, layout.squared_order, ProductPlanner(layout)

    def of(*wanted: Place) -> Operand:
        ranges = [places[place] for place in wanted]
        together = all(a.stop == b.start for a, b in pairwise(ranges))
        rows = slice(ranges[0].start, ranges[-1].stop) if together else np.r_[tuple(ranges)]
        return Operand(rows, [sets[place] for place in wanted])

    def up_to(side: str, degree: int) -> Operand:
        return of(*((side, a) for a in range(degree + 1)))

    for b in range(m):
        products.multiply(of(("upper", b)), up_to("lower", min(m - b, m - 1)))
    if m > 1:  # degree m − 1 times the features of the same half
        for side in ("lower", "upper"):
            products.multiply(of((side, m - 1)), of((side, 1)))
    else:
        products.multiply(of(("lower", 1), ("upper", 1)), of(("constant", 0)))
    squares = of(("squares", 0))
    for side in ("lower", "upper"):
        products.multiply(squares, up_to(side, q))
    for a, b in mixed_degrees(q):
        products.multiply(squares, of((f"lower {a} and upper", b)))
    return products


def _plan(
    size: int, points: tuple[slice, slice], fills: list[Fill], products: ProductPlanner
) -> Plan:
    products.check_complete()
    return Plan(
        n_monomials=size,
        constant=0,
        first_points=points[0],
        last_points=points[1],
        fills=fills,
        steps=products.steps,
        n_weighted=size,
        n_sums=products.n_sums,
        positions=products.positions,
    )
