"""Number of components that the moments of one order identify (paper, Theorem 3.7).

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
small (d=11, m=7: 4 printed, 5 true), and the largest rank is not monotone in m. The paper
prints three ranges of k: p ≤ k ≤ n−m−p before (B0), p ≤ k ≤ n−m+p in (eq:max r), of which (eq:ineq)
and (eq:kp case2) are steps of the proof, and p < k < n−m+p below (max-r). Here p < k ≤ n−m+p: with
k = p (coef-2) has no equations, and the ends have rank 1, so that the maximum is the same in all
but the first. One component needs no decomposition. The paper leaves the choice of the order to
the user; here `smallest_order` is the default.
"""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple

from momentmix.capacity import Groups, check_blocks, largest_minimum, robust_rank, usable_orders
from momentmix.errors import CapacityError, InputError, check_count
from momentmix.index_sets import check_countable


class Split(NamedTuple):
    """One way to split the coordinates, and the rank that it reaches."""

    n_lower: int
    degree: int
    rank: int


def splits(n_features: int, order: int) -> list[Split]:
    """The best admissible k for each degree p, largest rank first (paper: eq:max r, max-r)."""
    n = n_features - 1
    best = [_split(n, order, p) for p in range(1, order - 1)] if order < n else []
    # At equal rank prefer the split whose linear systems (solve-G) have the most rows.
    return sorted(best, key=lambda s: (-s.rank, -comb(n - s.n_lower - 1, order - s.degree - 1)))


def _split(n: int, order: int, p: int) -> Split:
    k, rank = largest_minimum(
        range(p + 1, n - order + p + 1),
        lambda k: comb(k, p),
        lambda k: comb(n - k - 1, order - p - 1),
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


def best_split(
    n_features: int, order: int, n_components: int = 1, degree: int | None = None
) -> Split:
    """The split (k, p) of the largest rank; raise where that is below `n_components`.

    With a `degree` only the splits of this p are compared.

    >>> best_split(15, 4), best_split(15, 4, degree=2)
    (Split(n_lower=8, degree=1, rank=8), Split(n_lower=5, degree=2, rank=8))
    """
    n_features = check_count("n_features", n_features, 1)
    order = check_count("order", order, 3)
    n_components = check_count("n_components", n_components, 1)
    check_countable(n_features, min(order, n_features))
    candidates = splits(n_features, order)
    if not candidates:
        raise CapacityError(
            f"order={order} with {n_features} features admits no split; it needs at least "
            f"{order + 2} features. Lower the order or add features."
        )
    with_degree = ""
    if degree is not None:
        if check_count("degree", degree, 1) > order - 2:
            raise InputError(f"degree must lie between 1 and {order - 2}; got {degree}.")
        candidates = [split for split in candidates if split.degree == degree]
        with_degree = f" and degree={degree}"
    best = candidates[0]
    if best.rank >= n_components:
        return best
    try:
        enough = smallest_order(n_features, n_components)
        change = "another degree" if enough == order else f"order={enough}"
        cure = f"Use {change} (up to {largest_rank(n_features, enough)}), or at most"
    except CapacityError:
        cure = f"No other order reaches {n_components}: add features, or ask for at most"
    raise CapacityError(
        f"order={order} with {n_features} features{with_degree} identifies at most {best.rank} "
        f"factors or components; {n_components} were asked. {cure} {best.rank}."
    )


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
