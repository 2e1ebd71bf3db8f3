"""What an order of moments would give and cost, before any data is read.

| paper symbol | name here |
|---|---|
| C(d, m) | entries of one order |
| k, p, r_max | ``Split`` |

Differs from the paper: nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import comb

from momentmix.capacity import best_split, check_count, largest_rank, smallest_order
from momentmix.errors import CapacityError

__all__ = ["OrderPlan", "Plan", "plan"]


@dataclass(frozen=True)
class OrderPlan:
    """One order: what it identifies, how its coordinates are split, how many moments it needs.

    ``n_moments`` counts all distinct-index moments of orders 0…m and the squares y_j²·y_I with
    |I| ≤ min(2, m−1); ``memory`` is their size in bytes as float64.
    """

    order: int
    largest_rank: int
    n_lower: int | None
    degree: int | None
    n_moments: int
    memory: int


@dataclass(frozen=True)
class Plan:
    """The order to use for a number of components, and its neighbours."""

    n_features: int
    n_components: int
    chosen: OrderPlan
    neighbours: tuple[OrderPlan, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self)


def _count_moments(d: int, order: int) -> int:
    distinct = sum(comb(d, s) for s in range(order + 1))
    squares = sum(d * comb(d - 1, q) for q in range(min(2, order - 1) + 1))
    return distinct + squares


def _order_plan(d: int, order: int) -> OrderPlan:
    try:
        split = best_split(d, order)
        lower, degree = split.n_lower, split.degree
    except CapacityError:
        lower, degree = None, None
    count = _count_moments(d, order)
    return OrderPlan(order, largest_rank(d, order), lower, degree, count, 8 * count)


def plan(n_features: int, n_components: int, order: int | None = None) -> Plan:
    """Choose the order for a number of components, and say what neighbouring orders would allow.

    Parameters
    ----------
    n_features : int
    n_components : int
    order : int, optional
        Use this order, and raise where it does not identify `n_components`.

    Examples
    --------
    >>> plan(15, 8).chosen.order
    4
    """
    d = check_count("n_features", n_features, 1)
    r = check_count("n_components", n_components, 1)
    if order is None:
        order = smallest_order(d, r)
    elif r > 1:
        best_split(d, check_count("order", order, 3), r)
    near = [m for m in range(3, max(d, 4)) if m != order and abs(m - order) <= 2]
    return Plan(d, r, _order_plan(d, order), tuple(_order_plan(d, m) for m in near))
