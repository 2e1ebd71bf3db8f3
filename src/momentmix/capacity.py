"""Number of components that moments of all orders up to one identify, and the order to take.

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
from itertools import product, takewhile
from math import comb, prod
from typing import Any, Literal, NamedTuple, Protocol

from momentmix.errors import InputError, InputTypeError, check_count
from momentmix.index_sets import countable

_USUAL_ORDER = 4  # orders up to 4 cost about one EM pass, and the polish uses them all
_HIGHEST_ORDER = 7  # moments of higher orders are noisy, and their number grows like d^m / m!
_FEW_FEATURES = 16  # all orders together have at most 2^16 moments, so every order is cheap
_MARGIN = 13, 10  # capacity to components: at capacity the answer is unique, but sensitive to noise
_MOST_SUMS = 110_000  # of a row: 40 features to order 4
_SUMS_PER_PARAMETER = 200  # an EM pass takes 4 products a parameter, and a fit about 50 passes
_CHEAP_SUMS = 10_000  # of a row: fewer than the products of one search for starts
_AUTO_COMPONENTS = 8  # components that the order allows for where their number is not known yet
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


def usable_orders(n_features: int, highest: int) -> Iterator[int]:
    """The orders from 3 to `highest` whose moments can be counted."""
    return takewhile(lambda order: countable(n_features, order), range(3, highest + 1))


def usual_order(n_features: int) -> int:
    """The order used by default: 4, or the number of features if that is smaller."""
    return min(_USUAL_ORDER, n_features)


def choose_order(
    n_features: int,
    n_components: int | Literal["auto", "bic"],
    available: int | None = None,
    blocks: Groups = None,
) -> int:
    """The order for a number of components, where the user gave none.

    The smallest order from 4 to 7 whose capacity exceeds `n_components` by 30 %, else the one of
    the largest capacity. Orders above 7 are chosen where no lower one identifies `n_components` and
    there are at most 16 features. "auto" and "bic" allow for 8 components, and no order is above
    `available`, the highest that a summary holds.

    >>> choose_order(15, 8), choose_order(15, 9), choose_order(15, 9, available=4)
    (4, 5, 4)
    """
    r = _AUTO_COMPONENTS
    if not isinstance(n_components, str):
        r = check_count("n_components", n_components, 1)
    limit = n_features if available is None else min(n_features, available)
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
