"""Blocks of rows → sums over all of them, or a few of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

__all__ = ["add_entries", "pick_rows"]


def add_entries(sums: Iterable[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """Tuples added entry by entry, from left to right; None stands for no rows.

    Examples
    --------
    >>> add_entries([(1, 2.5), None, (2, 0.5)])
    (3, 3.0)
    """
    total: tuple[Any, ...] | None = None
    for entries in sums:
        if total is None:
            total = entries
        elif entries is not None:
            total = tuple(a + b for a, b in zip(total, entries, strict=True))
    return total


def pick_rows(blocks: Iterable[Float], places: NDArray[np.int64]) -> tuple[list[Float], int]:
    """The rows with these numbers, which ascend, block by block; and the number of all rows."""
    picked, start = [], 0
    for block in blocks:
        first, last = np.searchsorted(places, [start, start + len(block)])
        picked.append(block[places[first:last] - start])
        start += len(block)
    return picked, start
