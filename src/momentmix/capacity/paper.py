"""The largest rank of the paper's method (Lemma 3.6, Theorem 3.7, Table 1).

| paper symbol | name here |
|---|---|
| d = n + 1, m, r | ``n_features``, ``order``, ``n_components`` |
| k, p | ``Split.n_lower``, ``Split.degree`` |
| min{C(k,p), C(n−k−1, m−p−1)} | ``Split.rank`` |
| r_max (max-r) | ``largest_rank`` in `ranks.py` |

The coordinates 1…n are split into k lower and n−k upper ones; the decomposition works with products
of p lower and m−p−1 upper coordinates and needs at least r of each.

Differs from the paper: (max-r) is evaluated directly, as a maximum over every admissible (k, p).
The closed form (rmax) and Table 1 hold only for n ≥ max(2m−1, m²/4−1); below that they are too
small (d=11, m=7: 4 printed, 5 true), and the largest rank is not monotone in m. The range of k is
p ≤ k ≤ n−m+p; the paper prints n−m−p in one place. One component needs no decomposition. The paper
leaves the choice of the order to the user; here `choose_order` is the rule of every interface.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import comb
from typing import NamedTuple


class Split(NamedTuple):
    """One way to split the coordinates, and the rank that it reaches."""

    n_lower: int
    degree: int
    rank: int


def largest_minimum(
    sizes: range, left: Callable[[int], int], right: Callable[[int], int]
) -> tuple[int, int]:
    """The smallest k of `sizes` at which min{left, right} is largest, and that minimum.

    `left` increases and `right` decreases, so that the maximum is next to where they cross
    (paper: lemma:max r proof).
    """
    crossing = bisect_left(sizes, True, key=lambda k: left(k) >= right(k))  #  eq:solve k
    neighbors = sizes[max(crossing - 1, 0) : crossing + 1]
    minima = ((k, min(left(k), right(k))) for k in neighbors)
    return max(minima, key=lambda k_and_minimum: k_and_minimum[1])


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
