"""How rows are cut into blocks, and the products that sum one."""

from __future__ import annotations

from functools import lru_cache

from momentmix.summary.kernels.kernel import Kernel
from momentmix.summary.layout import Layout

__all__ = ["LARGEST_BLOCK", "block_rows", "make_kernel"]

LARGEST_BLOCK = 4096
_SMALLEST_BLOCK, _ROUNDS = 1024, 4
_MANY_MOMENTS = 100_000
_USUAL_GROUPS = 16  # fewer change nothing, so that the sums are those of a summary without groups


def block_rows(layout: Layout, number: int) -> int:
    """Rows of a block of a shard, by its number.

    Few at first, so that small data fill the replicate groups; after every four rounds of dealing
    blocks to the groups twice as many, since each block has a price of its own. A shard of many
    moments has large blocks throughout.

    Examples
    --------
    >>> [block_rows(Layout(15, 4, 2, 16), number) for number in (0, 63, 64, 128, 10**6)]
    [1024, 1024, 2048, 4096, 4096]
    """
    if layout.n_entries >= _MANY_MOMENTS:
        return LARGEST_BLOCK
    doublings = number // (_ROUNDS * max(layout.n_groups, _USUAL_GROUPS))
    return min(LARGEST_BLOCK, _SMALLEST_BLOCK << min(doublings, 8))


@lru_cache(maxsize=4)
def make_kernel(layout: Layout) -> Kernel:
    """The kernel of a layout."""
    return Kernel(layout)
