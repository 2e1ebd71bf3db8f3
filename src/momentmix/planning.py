"""Which order of moments a number of components needs, and its cost, before any data is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from momentmix.capacity import (
    best_split,
    check_count,
    check_order,
    choose_order,
    largest_rank,
    over_capacity,
    smallest_order,
)
from momentmix.deprecation import RenamedAttribute
from momentmix.errors import CapacityError
from momentmix.index_sets import countable
from momentmix.summary.cost import estimate
from momentmix.summary.layout import DEFAULT_REPLICATES, Layout


@dataclass(frozen=True)
class OrderPlan:
    """One order: how many components it identifies, and what its summary costs.

    Attributes
    ----------
    order : int
    largest_rank : int
        Components that the paper's method identifies.
    largest_rank_robust : int
        Components that the robust method identifies, from all orders up to this one.
    n_lower, degree : int or None
        The split (k, p) of the paper's method; None where the order admits none.
    n_moments : int
        All distinct-index moments of orders 0…m, the squares y_j²·y_I with |I| ≤ min(2, m−1), and
        the powers, cubes and two squares that `MomentSummary` keeps beside them.
    memory : int
        Bytes that a summary of these moments takes while rows are added.
    file_size : int
        Approximate bytes of its file.
    """

    order: int
    largest_rank: int
    largest_rank_robust: int
    n_lower: int | None
    degree: int | None
    n_moments: int
    memory: int
    file_size: int


@dataclass(frozen=True)
class Plan:
    """The order to use for a number of components, and the orders next to it."""

    n_features: int
    n_components: int
    chosen: OrderPlan
    neighbors: tuple[OrderPlan, ...]
    neighbours = RenamedAttribute("neighbors")

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON; the key ``neighbours`` is the old name of ``neighbors``."""
        document = asdict(self)
        return {**document, "neighbours": document["neighbors"]}


def _capacity(d: int, order: int, method: Literal["robust", "paper"]) -> int:
    """Largest rank; 1 for an order below 3, which is used where there are fewer features."""
    return largest_rank(d, order, method) if order >= 3 else 1


def _order_plan(d: int, order: int) -> OrderPlan:
    lower, degree = None, None
    if d > order >= 3:
        split = best_split(d, order)
        lower, degree = split.n_lower, split.degree
    cost = estimate(Layout(d, order, min(2, order - 1), DEFAULT_REPLICATES))
    return OrderPlan(
        order,
        _capacity(d, order, "paper"),
        _capacity(d, order, "robust"),
        lower,
        degree,
        cost.n_entries,
        cost.memory_bytes,
        cost.file_bytes,
    )


def plan(
    n_features: int,
    n_components: int,
    order: int | None = None,
    method: Literal["robust", "paper"] = "robust",
) -> Plan:
    """Choose the order for a number of components, and compare it with the orders next to it.

    Parameters
    ----------
    n_features : int
    n_components : int
    order : int, optional
        Use this order; by default the one that `fit` chooses with ``order="auto"``.
    method : {"robust", "paper"}
        The algorithm that the order is meant for.

    Raises
    ------
    CapacityError
        If moments of this order do not identify `n_components`.

    Examples
    --------
    >>> plan(15, 8).chosen.order
    4
    """
    d = check_count("n_features", n_features, 1)
    r = check_count("n_components", n_components, 1)
    if order is not None:
        order = check_order(order, d)
    else:
        smallest_order(d, r, method)  # raises where no order identifies r
        order = choose_order(d, r, method=method)
    most = _capacity(d, order, method)
    if most < r:
        raise CapacityError(over_capacity(d, order, r, most, method))
    nearby = range(max(3, order - 2), min(d, order + 2) + 1)
    others = [m for m in nearby if m != order and countable(d, m)]
    return Plan(d, r, _order_plan(d, order), tuple(_order_plan(d, m) for m in others))
