"""Which order of moments a number of components needs, and its cost, before any data is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from momentmix.arguments import check_count
from momentmix.capacity.monomials import BlockSizes, Groups, check_blocks
from momentmix.capacity.ranks import (
    best_split,
    check_order,
    choose_order,
    largest_rank,
    over_capacity,
    smallest_order,
)
from momentmix.errors import CapacityError
from momentmix.index_sets import countable
from momentmix.summary.layout import Layout
from momentmix.summary.view import estimate


@dataclass(frozen=True)
class OrderPlan:
    """One order: how many components it identifies, and what its summary costs.

    Attributes
    ----------
    order : int
    largest_rank : int or None
        Components that the paper's method identifies; None with blocks, which it does not know.
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
    largest_rank: int | None
    largest_rank_robust: int
    n_lower: int | None
    degree: int | None
    n_moments: int
    memory: int
    file_size: int


@dataclass(frozen=True)
class Plan:
    """The order to use for a number of components, and the orders next to it.

    `blocks` are the numbers of columns of the blocks, empty where no columns are joined.
    """

    n_features: int
    n_components: int
    chosen: OrderPlan
    neighbors: tuple[OrderPlan, ...]
    blocks: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        return asdict(self)


def _capacity(d: int, order: int, method: Literal["robust", "paper"], blocks: Groups) -> int:
    """Return the largest rank; 1 for an order below 3, used where there are fewer features."""
    return largest_rank(d, order, method, blocks) if order >= 3 else 1


def _order_plan(d: int, order: int, blocks: BlockSizes | None) -> OrderPlan:
    printed = None if blocks is not None else _capacity(d, order, "paper", None)
    split = best_split(d, order) if d > order >= 3 and blocks is None else None
    lower, degree = (None, None) if split is None else (split.n_lower, split.degree)
    cost = estimate(Layout(d, order, min(2, order - 1)))
    robust, sizes = _capacity(d, order, "robust", blocks), (cost.memory_bytes, cost.file_bytes)
    return OrderPlan(order, printed, robust, lower, degree, cost.n_entries, *sizes)


def plan(
    n_features: int,
    n_components: int,
    order: int | None = None,
    method: Literal["robust", "paper"] = "robust",
    blocks: Groups = None,
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
    blocks : list of lists of int, optional
        Columns that may be correlated within components; those not named are blocks of their own.

    Raises
    ------
    CapacityError
        If moments of this order do not identify `n_components`.

    Examples
    --------
    >>> plan(15, 8).chosen.order
    4
    >>> plan(15, 8, blocks=[[0, 1, 2], [3, 4, 5], [6, 7, 8]]).chosen.largest_rank_robust
    11
    """
    d = check_count("n_features", n_features, 1)
    r = check_count("n_components", n_components, 1)
    known = check_blocks(d, blocks)
    if order is not None:
        order = check_order(order, d)
    else:
        smallest_order(d, r, method, known)  # raises where no order identifies r
        order = choose_order(d, r, method=method, blocks=known)
    most = _capacity(d, order, method, known)
    if most < r:
        raise CapacityError(over_capacity(d, order, r, most, method, known))
    nearby = range(max(3, order - 2), min(d, order + 2) + 1)
    others = [m for m in nearby if m != order and countable(d, m)]
    pairs = () if known is None else zip(*known, strict=True)
    sizes = [size for size, count in pairs for _ in range(count)]
    plans = [_order_plan(d, m, known) for m in (order, *others)]
    return Plan(d, r, plans[0], tuple(plans[1:]), tuple(sorted(sizes, reverse=True)))
