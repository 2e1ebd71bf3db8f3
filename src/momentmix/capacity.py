"""Number of components that the moments of the robust method identify.

| symbol | name here |
|---|---|
| F(a, p) = Σ_{s ≤ p} C(a, s) | ``count_monomials`` |
| F_A(p) = Σ_{s ≤ p} e_s(sizes of the blocks in A) | ``count_block_monomials`` |
| max min{F(a, p), F(b, q)}, a + b = d − 1, p + q = order − 1 | ``robust_rank`` |
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import comb, prod
from typing import Any, NamedTuple, Protocol

from momentmix.errors import InputError, InputTypeError, check_count

FEWEST_BLOCKS = 3  # that moments alone need to identify components: A, B and C
_MOST_PARTITIONS = 100_000  # of blocks by their sizes; of more, even shares are tried


class BlockSizes(NamedTuple):
    """The different sizes of blocks, ascending, and how many blocks have each.

    Features of whether a cell is seen need not differ between components, and do not count.
    """

    sizes: tuple[int, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, widths: Iterable[int]) -> BlockSizes:
        """Return the sizes of blocks of these numbers of features."""
        counted = sorted(Counter(widths).items())
        return cls(tuple(size for size, _ in counted), tuple(count for _, count in counted))


class Partition(Protocol):
    """The part of `momentmix.mixture.blocks.Blocks` that counts."""

    @property
    def is_diagonal(self) -> bool:
        """Whether all features are Gaussian, and no two joined."""

    @property
    def widths(self) -> Any:
        """Features of each block that distinguish components."""


Groups = Partition | BlockSizes | Iterable[Sequence[int]] | None


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


def count_monomials(n_features: int, degree: int) -> int:
    """Number of products of at most `degree` distinct features, the constant 1 included."""
    return sum(comb(n_features, s) for s in range(min(degree, n_features) + 1))


@lru_cache(maxsize=100_000)
def count_block_monomials(sizes: tuple[int, ...], counts: tuple[int, ...], degree: int) -> int:
    """Return Σ_{s ≤ degree} e_s(sizes): products of features of different blocks, and the constant.

    There are `counts` blocks of each of the `sizes`.

    >>> count_block_monomials((2, 3), (1, 2), 2)  # 1 + (2 + 3 + 3) + (2·3 + 2·3 + 3·3)
    30
    """
    terms = [1]  # by degree
    for size, count in zip(sizes, counts, strict=True):
        own = [comb(count, s) * size**s for s in range(min(count, degree) + 1)]
        length = min(degree + 1, len(terms) + len(own) - 1)
        terms = [
            sum(terms[s] * own[t - s] for s in range(len(terms)) if 0 <= t - s < len(own))
            for t in range(length)
        ]
    return sum(terms)


def block_partitions(
    counts: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Numbers of blocks of each size in A and in B, one left to C; of too many ways, even ones."""
    n = sum(counts)
    if prod(comb(count + 2, 2) for count in counts) <= _MOST_PARTITIONS:
        for left in product(*(range(count + 1) for count in counts)):
            for right in product(*(range(c - a + 1) for c, a in zip(counts, left, strict=True))):
                if left != (0,) * len(counts) and any(right) and sum(left) + sum(right) < n:
                    yield left, right
        return
    for a in range(1, n - 1):
        left = tuple(round(a * count / n) for count in counts)
        rest = [c - x for c, x in zip(counts, left, strict=True)]
        first = next((t for t, c in enumerate(rest) if c), None)
        if first is not None:
            rest[first] -= 1
            if any(left) and any(rest):
                yield left, tuple(rest)


def check_blocks(n_features: int, blocks: Groups) -> BlockSizes | None:
    """Sizes of blocks, given by numbers of columns or as they are; None where none are joined."""
    if blocks is None or isinstance(blocks, BlockSizes):
        return blocks
    if not isinstance(blocks, Iterable):
        return None if blocks.is_diagonal else BlockSizes.of(blocks.widths.tolist())
    given = list(blocks)
    if not all(isinstance(group, Iterable) and not isinstance(group, str) for group in given):
        raise InputTypeError(
            f"blocks must be lists of numbers of columns, as [[0, 1], [2, 3]]; got {given!r}."
        )
    groups = [[check_count("a column of blocks", j, 0) for j in group] for group in given]
    columns = [j for group in groups for j in group]
    if columns and max(columns) >= n_features:
        raise InputError(
            f"blocks must hold numbers of columns from 0 to {n_features - 1}; got {max(columns)}."
        )
    if len(set(columns)) < len(columns):
        twice = next(j for j, count in Counter(columns).items() if count > 1)
        raise InputError(
            f"blocks must not overlap; column {twice} is named more than once. Join the blocks "
            "that hold it, or leave it in one of them."
        )
    wide = [len(group) for group in groups if len(group) > 1]
    return BlockSizes.of([*wide, *[1] * (n_features - sum(wide))]) if wide else None


def robust_rank(n_features: int, order: int, blocks: Groups = None) -> int:
    """Largest rank of the robust method: constant coordinate, all orders up to `order`.

    The features are split into A | B | C with C not empty. The method works with the products of
    at most p features of A and at most q of B, p + q + 1 ≤ order, and needs at least r of each:
    max over sizes and degrees of min{F(a, p), F(b, q)}, F(a, p) = Σ_{s ≤ p} C(a, s). Since F grows
    with each argument, only a + b = d − 1 and p + q = order − 1 need be tried.

    Features of one block may be correlated within components. Then blocks are split, and products
    have at most one feature of each: F_A(p) = Σ_{s ≤ p} e_s(sizes of the blocks in A). It grows
    with each size, so that one block of the smallest size is left to C.

    >>> [robust_rank(15, order) for order in (3, 4, 5, 6)]
    [8, 11, 29, 37]
    >>> [robust_rank(15, order, [range(k, k + 3) for k in range(0, 15, 3)]) for order in (3, 4, 5)]
    [7, 7, 16]
    """
    known = check_blocks(n_features, blocks)
    if known is not None:
        return _block_rank(*known, order)
    if n_features < 3:
        return 1
    return max((_robust_rank(n_features - 1, order, p) for p in range(1, order - 1)), default=1)


def _robust_rank(n: int, order: int, p: int) -> int:
    return largest_minimum(
        range(1, n),
        lambda a: count_monomials(a, p),
        lambda a: count_monomials(n - a, order - 1 - p),
    )[1]


@lru_cache(maxsize=1000)
def _block_rank(sizes: tuple[int, ...], counts: tuple[int, ...], order: int) -> int:
    best = 1
    others = (counts[0] - 1, *counts[1:])  # a block of the smallest size is C
    for left, right in block_partitions(counts):
        if sum(left) + sum(right) < sum(others):
            continue
        for p in range(1, order - 1):
            ranks = (
                count_block_monomials(sizes, left, p),
                count_block_monomials(sizes, right, order - 1 - p),
            )
            best = max(best, min(ranks))
    return best
