"""One block of rows → the sums of all its moments, by matrix products: which products to use."""

from __future__ import annotations

from functools import lru_cache

from momentmix.moments.gram import Gram, gram_tables, suits_gram
from momentmix.moments.half_split import HalfSplit, half_split_tables
from momentmix.moments.kernel import Kernel
from momentmix.moments.layout import Layout

__all__ = ["block_rows", "make_kernel", "table_rows"]


def block_rows(layout: Layout) -> int:
    """Rows of a block: few, so that small data fill the replicate groups; more for many moments."""
    return 1024 if layout.n_entries < 100_000 else 4096


def table_rows(layout: Layout) -> int:
    """Number of monomials that a workspace holds for each row of a chunk."""
    tables = gram_tables(layout) if suits_gram(layout) else half_split_tables(layout)
    return sum(tables.values())


@lru_cache(maxsize=4)
def make_kernel(layout: Layout) -> Kernel:
    """The plan of the products for a layout."""
    return Gram(layout) if suits_gram(layout) else HalfSplit(layout)
