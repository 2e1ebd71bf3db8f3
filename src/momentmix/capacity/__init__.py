"""How many components the moments of a given order identify, and which order to take."""

from momentmix.capacity.paper import (
    FEWEST_BLOCKS,
    Split,
    block_partitions,
    block_sizes,
    check_blocks,
    count_block_monomials,
    count_monomials,
    robust_rank,
    splits,
)
from momentmix.capacity.ranks import (
    affordable_order,
    best_split,
    check_order,
    choose_order,
    largest_rank,
    over_capacity,
    smallest_order,
    usable_orders,
    usual_order,
)

__all__ = [
    "FEWEST_BLOCKS",
    "Split",
    "affordable_order",
    "best_split",
    "block_partitions",
    "block_sizes",
    "check_blocks",
    "check_order",
    "choose_order",
    "count_block_monomials",
    "count_monomials",
    "largest_rank",
    "over_capacity",
    "robust_rank",
    "smallest_order",
    "splits",
    "usable_orders",
    "usual_order",
]
