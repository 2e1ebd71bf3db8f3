"""How many components the moments of an order identify, and the smallest order for a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Literal

from momentmix.arguments import check_count
from momentmix.capacity.paper import Split, splits
from momentmix.capacity.robust import check_blocks, robust_rank
from momentmix.errors import CapacityError, InputError
from momentmix.index_sets import check_countable, countable
from momentmix.mixture.blocks import Blocks


def largest_rank(
    n_features: int,
    order: int,
    method: Literal["paper", "robust"] = "paper",
    blocks: Blocks | Iterable[Sequence[int]] | None = None,
) -> int:
    """Largest number of components that moments identify.

    For method="paper" this is Theorem 3.7 (paper: largest-r), for method="robust" `robust_rank`.

    Parameters
    ----------
    n_features : int
        Dimension d of the data.
    order : int
        Order m ≥ 3 of the moments.
    method : {"paper", "robust"}
        The algorithm whose bound is asked for. The paper's uses the moments of this order only; the
        robust one uses all orders up to it, and its bound is larger.
    blocks : list of lists of int, optional
        Columns that may be correlated within components, for method="robust"; those not named are
        blocks of their own. Fewer than three blocks identify one component.

    Returns
    -------
    int
        At least 1: a single component follows from the mean and the variances.

    Examples
    --------
    >>> [largest_rank(15, order) for order in (3, 4, 5, 6, 7)]
    [6, 8, 15, 20, 20]
    >>> largest_rank(11, 7)
    5
    >>> largest_rank(15, 3, method="robust")
    8
    >>> largest_rank(15, 4, method="robust", blocks=[[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    11
    """
    n_features = check_count("n_features", n_features, 1)
    order = check_count("order", order, 3)
    if method not in ("paper", "robust"):
        raise InputError(f'method must be "paper" or "robust"; got {method!r}.')
    known = check_blocks(n_features, blocks)
    if known is not None and method == "paper":
        raise InputError(
            'blocks need method="robust": the paper\'s components are diagonal Gaussians.'
        )
    check_countable(n_features, min(order, n_features))
    if method == "robust":
        return robust_rank(n_features, min(order, n_features), known)
    return max((split.rank for split in splits(n_features, order)), default=1)


def best_split(n_features: int, order: int, n_components: int = 1) -> Split:
    """The split (k, p) of the largest rank; raise where that is below `n_components`.

    Examples
    --------
    >>> best_split(15, 4)
    Split(n_lower=8, degree=1, rank=8)
    """
    n_features = check_count("n_features", n_features, 1)
    order = check_count("order", order, 3)
    n_components = check_count("n_components", n_components, 1)
    check_countable(n_features, min(order, n_features))
    candidates = splits(n_features, order)
    if not candidates:
        raise CapacityError(
            f"order={order} with {n_features} features admits no split; it needs at least "
            f"{order + 1} features. Lower the order or add features."
        )
    if candidates[0].rank < n_components:
        raise CapacityError(over_capacity(n_features, order, n_components, candidates[0].rank))
    return candidates[0]


def usable_orders(n_features: int, highest: int) -> Iterator[int]:
    """The orders from 3 to `highest` whose moments can be counted."""
    return takewhile(lambda order: countable(n_features, order), range(3, highest + 1))


def smallest_order(
    n_features: int,
    n_components: int,
    method: Literal["paper", "robust"] = "paper",
    blocks: Blocks | Iterable[Sequence[int]] | None = None,
) -> int:
    """Smallest order m ≥ 3 whose moments identify `n_components` components, as `largest_rank`.

    Orders are scanned one by one, since the paper's largest rank is not monotone in the order.

    Raises
    ------
    CapacityError
        If no order identifies that many.

    Examples
    --------
    >>> smallest_order(15, 8), smallest_order(15, 8, method="robust")
    (4, 3)
    >>> smallest_order(15, 16, method="robust", blocks=[[0, 1], [2, 3]])
    5
    """
    n_features = check_count("n_features", n_features, 1)
    n_components = check_count("n_components", n_components, 1)
    known = check_blocks(n_features, blocks)
    if n_components == 1:
        return 3
    check_countable(n_features, 3)
    most = 1
    for order in usable_orders(n_features, n_features - (method == "paper")):
        rank = largest_rank(n_features, order, method, known)
        if rank >= n_components:
            return order
        most = max(most, rank)
    kind, cure = "", f"Ask for at most {most}, or add features."
    if known is not None:
        kind = f" in {len(known.partition)} block{'s' if len(known.partition) > 1 else ''}"
        cure = f"Ask for at most {most}, use smaller blocks, or fit to the rows."
    raise CapacityError(
        f"no order identifies n_components={n_components} with {n_features} features{kind}; the "
        f"most that any order reaches is {most}. {cure}"
    )


def over_capacity(
    n_features: int,
    order: int,
    n_components: int,
    most: int,
    method: Literal["paper", "robust"] = "paper",
    blocks: Blocks | None = None,
) -> str:
    """Message for an order that identifies fewer components than were asked for, with a remedy."""
    message = (
        f"order={order} with {n_features} features identifies at most {most} component"
        f"{'s' if most > 1 else ''}; n_components={n_components} was asked. "
    )
    try:
        enough = smallest_order(n_features, n_components, method, blocks)
    except CapacityError:
        return message + f"No other order reaches {n_components}: ask for fewer, or add features."
    rank = largest_rank(n_features, enough, method, blocks)
    return message + f"Use order={enough} (up to {rank}), or at most {most}."
