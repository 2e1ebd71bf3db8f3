"""How many components moments of a given order identify (Lemma 3.6, Theorem 3.7, Table 1).

| paper symbol | name here |
|---|---|
| d = n + 1, m, r | ``n_features``, ``order``, ``n_components`` |
| k, p | ``Split.n_lower``, ``Split.degree`` |
| min{C(k,p), C(n−k−1, m−p−1)} | ``Split.rank`` |
| r_max (max-r) | ``largest_rank`` |

The coordinates 1…n are split into k lower and n−k upper ones; the decomposition works with products
of p lower and m−p−1 upper coordinates and needs at least r of each.

Differs from the paper: (max-r) is evaluated as the maximum it is, over every admissible (k, p). The
closed form (rmax) and Table 1 hold only for n ≥ max(2m−1, m²/4−1); below that they are too small
(d=11, m=7: 4 printed, 5 true), and the largest rank is not monotone in m. The range of k is
p ≤ k ≤ n−m+p; the paper prints n−m−p in one place. One component never needs a decomposition.
"""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple

import numpy as np

from momentmix.errors import CapacityError, InputError, InputTypeError

__all__ = [
    "Split",
    "best_split",
    "check_count",
    "count_monomials",
    "largest_rank",
    "over_capacity",
    "robust_rank",
    "smallest_order",
    "splits",
]


class Split(NamedTuple):
    """One way to split the coordinates, and the rank that it reaches."""

    n_lower: int
    degree: int
    rank: int


def check_count(name: str, value: object, smallest: int) -> int:
    """Return `value` as an int, or raise an error that names it, its bound and what was given."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name} must be an integer ≥ {smallest}; got {value!r}.")
    if value < smallest:
        raise InputError(f"{name} must be at least {smallest}; got {value}.")
    return int(value)


def splits(n_features: int, order: int) -> list[Split]:
    """Every admissible (k, p) with the rank it reaches, largest rank first (eq. max-r)."""
    n = n_features - 1
    if order > n:
        return []
    found = [
        Split(k, p, min(comb(k, p), comb(n - k - 1, order - p - 1)))
        for p in range(1, order - 1)
        for k in range(p, n - order + p + 1)
    ]
    # At equal rank prefer the split whose linear systems (solve-G) have the most rows.
    return sorted(found, key=lambda s: (-s.rank, -comb(n - s.n_lower - 1, order - s.degree - 1)))


def count_monomials(n_features: int, degree: int) -> int:
    """Number of products of at most `degree` distinct features, the constant 1 included."""
    return sum(comb(n_features, s) for s in range(min(degree, n_features) + 1))


def robust_rank(n_features: int, order: int) -> int:
    """Largest rank of the robust method: constant coordinate, all orders up to `order`.

    The features are split into A | B | C with C not empty. The method works with the products of
    at most p features of A and at most q of B, p + q + 1 ≤ order, and needs at least r of each:
    max over sizes and degrees of min{F(a, p), F(b, q)}, F(a, p) = Σ_{s ≤ p} C(a, s). Since F grows
    with each argument, only a + b = d − 1 and p + q = order − 1 need be tried.

    Examples
    --------
    >>> [robust_rank(15, order) for order in (3, 4, 5, 6)]
    [8, 11, 29, 37]
    """
    return max(
        (
            min(count_monomials(a, p), count_monomials(n_features - 1 - a, order - 1 - p))
            for a in range(1, n_features - 1)
            for p in range(1, order - 1)
        ),
        default=1,
    )


def largest_rank(n_features: int, order: int, method: Literal["paper", "robust"] = "paper") -> int:
    """Largest number of components that moments identify (Theorem 3.7, or `robust_rank`).

    Parameters
    ----------
    n_features : int
        Dimension d of the data.
    order : int
        Order m ≥ 3 of the moments.
    method : {"paper", "robust"}
        The algorithm whose bound is meant. The paper's uses one order; the robust one all orders
        up to this one, and reaches further.

    Returns
    -------
    int
        At least 1: a single component is read off the mean and the variances.

    Examples
    --------
    >>> [largest_rank(15, order) for order in (3, 4, 5, 6, 7)]
    [6, 8, 15, 20, 20]
    >>> largest_rank(11, 7)
    5
    >>> largest_rank(15, 3, method="robust")
    8
    """
    n_features = check_count("n_features", n_features, 1)
    order = check_count("order", order, 3)
    if method not in ("paper", "robust"):
        raise InputError(f'method must be "paper" or "robust"; got {method!r}.')
    if method == "robust":
        return robust_rank(n_features, min(order, n_features))
    return max((split.rank for split in splits(n_features, order)), default=1)


def best_split(n_features: int, order: int, n_components: int = 1) -> Split:
    """The split (k, p) of the largest rank, checked to admit `n_components`.

    Examples
    --------
    >>> best_split(15, 4)
    Split(n_lower=8, degree=1, rank=8)
    """
    n_features = check_count("n_features", n_features, 1)
    order = check_count("order", order, 3)
    n_components = check_count("n_components", n_components, 1)
    candidates = splits(n_features, order)
    if not candidates:
        raise CapacityError(
            f"order={order} with {n_features} features admits no split; it needs at least "
            f"{order + 1} features. Lower the order or add features."
        )
    if candidates[0].rank < n_components:
        raise CapacityError(over_capacity(n_features, order, n_components, candidates[0].rank))
    return candidates[0]


def smallest_order(
    n_features: int, n_components: int, method: Literal["paper", "robust"] = "paper"
) -> int:
    """Smallest order m ≥ 3 whose moments identify `n_components` components, as `largest_rank`.

    Orders are scanned one by one, since the paper's largest rank is not monotone in the order.

    Raises
    ------
    CapacityError
        Where no order will do.

    Examples
    --------
    >>> smallest_order(15, 8), smallest_order(15, 8, method="robust")
    (4, 3)
    """
    n_features = check_count("n_features", n_features, 1)
    n_components = check_count("n_components", n_components, 1)
    if n_components == 1:
        return 3
    orders = range(3, n_features + (method == "robust"))
    for order in orders:
        if largest_rank(n_features, order, method) >= n_components:
            return order
    most = max((largest_rank(n_features, m, method) for m in orders), default=1)
    raise CapacityError(
        f"no order identifies n_components={n_components} with {n_features} features; the most "
        f"that any order reaches is {most}. Ask for at most {most}, or add features."
    )


def over_capacity(
    n_features: int,
    order: int,
    n_components: int,
    most: int,
    method: Literal["paper", "robust"] = "paper",
) -> str:
    """The message where an order identifies fewer components than were asked, and what helps."""
    message = (
        f"order={order} with {n_features} features identifies at most {most} component"
        f"{'s' if most > 1 else ''}; n_components={n_components} was asked. "
    )
    try:
        enough = smallest_order(n_features, n_components, method)
    except CapacityError:
        return message + f"No other order reaches {n_components}: ask for fewer, or add features."
    reach = largest_rank(n_features, enough, method)
    return message + f"Use order={enough} (up to {reach}), or at most {most}."
