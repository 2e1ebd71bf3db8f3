"""How many components the moments of a given order identify, and which order to take."""

from momentmix.capacity.orders import affordable_order, check_order, choose_order, usual_order
from momentmix.capacity.paper import Split, splits
from momentmix.capacity.ranks import (
    best_split,
    largest_rank,
    over_capacity,
    smallest_order,
    usable_orders,
)
from momentmix.capacity.robust import (
    FEWEST_BLOCKS,
    block_partitions,
    block_sizes,
    check_blocks,
    count_block_monomials,
    count_monomials,
    robust_rank,
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
