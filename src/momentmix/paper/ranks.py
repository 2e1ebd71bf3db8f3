"""Number of components that the moments of an order identify, and the order to take.

| paper symbol | name here |
|---|---|
| d = n + 1, m, r | ``n_features``, ``order``, ``n_components`` |
| k, p | ``Split.n_lower``, ``Split.degree`` |
| min{C(k,p), C(n−k−1, m−p−1)} | ``Split.rank`` |
| r_max (max-r) | ``largest_rank`` |

The paper (Lemma 3.6, Theorem 3.7, Table 1) splits the coordinates 1…n into k lower and n−k upper
ones; the decomposition works with products of p lower and m−p−1 upper coordinates and needs at
least r of each. The robust method has a constant coordinate too, and all orders up to one.

Differs from the paper: (max-r) is evaluated directly, as a maximum over every admissible (k, p).
The closed form (rmax) and Table 1 hold only for n ≥ max(2m−1, m²/4−1); below that they are too
small (d=11, m=7: 4 printed, 5 true), and the largest rank is not monotone in m. The range of k is
p ≤ k ≤ n−m+p; the paper prints n−m−p in one place. One component needs no decomposition. The paper
leaves the choice of the order to the user; here `choose_order` is the rule of every interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import comb
from typing import Literal, NamedTuple

from momentmix.capacity import (
    Groups,
    check_blocks,
    count_monomials,
    largest_minimum,
    robust_rank,
)
from momentmix.errors import CapacityError, InputError, check_count
from momentmix.index_sets import check_countable, countable

_USUAL_ORDER = 4  # orders up to 4 cost about one EM pass, and the polish uses them all
_HIGHEST_ORDER = 7  # moments of higher orders are noisy, and their number grows like d^m / m!
_FEW_FEATURES = 16  # all orders together have at most 2^16 moments, so every order is cheap
_MARGIN = 13, 10  # capacity to components: at capacity the answer is unique, but sensitive to noise
_MOST_SUMS = 110_000  # of a row: 40 features to order 4
_SUMS_PER_PARAMETER = 200  # an EM pass takes 4 products a parameter, and a fit about 50 passes
_CHEAP_SUMS = 10_000  # of a row: fewer than the products of one search for starts
_AUTO_COMPONENTS = 8  # components that the order allows for where their number is not known yet


class Split(NamedTuple):
    """One way to split the coordinates, and the rank that it reaches."""

    n_lower: int
    degree: int
    rank: int


def splits(n_features: int, order: int) -> list[Split]:
    """The best admissible k for each degree p, largest rank first (paper: eq:max r, max-r)."""
    n = n_features - 1
    best = [_split(n, order, p) for p in range(1, order - 1)] if order <= n else []
    # At equal rank prefer the split whose linear systems (solve-G) have the most rows.
    return sorted(best, key=lambda s: (-s.rank, -comb(n - s.n_lower - 1, order - s.degree - 1)))


def _split(n: int, order: int, p: int) -> Split:
    k, rank = largest_minimum(
        range(p, n - order + p + 1), lambda k: comb(k, p), lambda k: comb(n - k - 1, order - p - 1)
    )
    return Split(k, p, rank)


def largest_rank(
    n_features: int,
    order: int,
    method: Literal["paper", "robust"] = "paper",
    blocks: Groups = None,
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
        The algorithm of the bound. The paper's uses the moments of this order only; the
        robust one uses all orders up to it, and its bound is larger.
    blocks : list of lists of int, optional
        Columns that may be correlated within components, for method="robust"; columns not named are
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
    blocks: Groups = None,
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
        n_blocks = sum(known.counts)
        kind = f" in {n_blocks} block{'s' if n_blocks > 1 else ''}"
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
    blocks: Groups = None,
) -> str:
    """Message for an order that identifies fewer components than given, with a remedy."""
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


def usual_order(n_features: int) -> int:
    """The order used by default: 4, or the number of features if that is smaller."""
    return min(_USUAL_ORDER, n_features)


def check_order(order: object, n_features: int) -> int:
    """An order that the user gave, as an int; raise where there are fewer features."""
    number = check_count("order", order, min(3, n_features))
    if number > n_features:
        raise InputError(
            f"order must be at most the number of features: order={number} needs that many "
            f'features; there are {n_features}. Use order="auto" or at most {n_features}.'
        )
    return number


def choose_order(
    n_features: int,
    n_components: int | Literal["auto", "bic"],
    available: int | None = None,
    method: Literal["paper", "robust"] = "robust",
    blocks: Groups = None,
) -> int:
    """The order for a number of components, where the user gave none.

    method="robust": the smallest order from 4 to 7 whose capacity exceeds `n_components` by 30 %,
    else the one of the largest capacity. Orders above 7 are chosen where no lower one identifies
    `n_components` and there are at most 16 features. method="paper": the smallest order that
    identifies `n_components`; 3 for one component. "auto" and "bic" allow for 8 components, and no
    order is above `available`, the highest that a summary holds.

    >>> choose_order(15, 8), choose_order(15, 9), choose_order(15, 9, available=4)
    (4, 5, 4)
    """
    r = _AUTO_COMPONENTS
    if not isinstance(n_components, str):
        r = check_count("n_components", n_components, 1)
    limit = n_features if available is None else min(n_features, available)
    if method == "paper":
        return min(3, limit) if r == 1 else smallest_order(n_features, r)
    known = check_blocks(n_features, blocks)
    highest = min(_HIGHEST_ORDER, limit)
    for order in range(usual_order(highest), highest + 1):
        if _MARGIN[1] * robust_rank(n_features, order, known) >= _MARGIN[0] * r:
            return order
    ranks = [robust_rank(n_features, order, known) for order in range(1, highest + 1)]
    if max(ranks) < r and n_features <= _FEW_FEATURES:
        for order in range(highest + 1, limit + 1):
            if robust_rank(n_features, order, known) >= r:
                return order
    return max(usual_order(highest), 1 + ranks.index(max(ranks)))


def affordable_order(
    n_features: int,
    n_components: int | Literal["auto", "bic"],
    n_rows: int | None,
    rows_per_parameter: int,
) -> int:
    """The order of `choose_order`, or a lower one where rows are at hand and moments cost too much.

    With EM passes over the rows, moments give one candidate of many, and the test. Wide tables
    then take the highest order, at least 2, whose sums cost less than the passes; with too few
    rows for a moment answer, the highest whose sums cost next to nothing.

    >>> affordable_order(30, 5, 10**5, 5), affordable_order(30, 5, 500, 5)
    (4, 3)
    >>> affordable_order(300, 5, 10**5, 5)
    2
    """
    order = choose_order(n_features, n_components)
    if n_features <= _FEW_FEATURES:
        return order
    r = 2 if isinstance(n_components, str) else n_components
    most = max(_MOST_SUMS, _SUMS_PER_PARAMETER * r * n_features)
    if n_rows is not None and n_rows < rows_per_parameter * r * (2 * n_features + 1):
        most = _CHEAP_SUMS
    while order > 2 and count_monomials(n_features, order) > most:
        order -= 1
    return order
