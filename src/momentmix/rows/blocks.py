"""Blocks of rows → sums over all of them, or a few of the rows; columns → a block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float

_TILE = 2048  # rows copied together: their part of the block stays in the processor's cache
_SPARE = 4  # blocks: those that are read ahead, summed and hashed at a time


class BlockMemory:
    """Memory of blocks of one shape, used again when no array shows it any more.

    The system clears the pages of new memory, which takes as long as reading a file from its cache.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._free: deque[Float] = deque(maxlen=_SPARE)

    def block(self) -> Float:
        """A block whose values are arbitrary."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(self._shape)
        return np.asarray(_Lent(memory, self._free))


class _Lent:
    """What arrays that show the memory keep alive; the last of them gives it back."""

    def __init__(self, memory: Float, free: deque[Float]) -> None:
        self._memory, self._free = memory, free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._memory)


def add_sums(sums: Iterable[tuple[Any, ...] | None]) -> Any:
    """Tuples added entry by entry, from left to right; None stands for no rows.

    Examples
    --------
    >>> add_sums([(1, 2.5), None, (2, 0.5)])
    (3, 3.0)
    """
    total: tuple[Any, ...] | None = None
    for entries in sums:
        if total is None:
            total = entries
        elif entries is not None:
            total = tuple(a + b for a, b in zip(total, entries, strict=True))
    return total


def rows_at(blocks: Iterable[Float], places: NDArray[np.int64]) -> list[Float]:
    """The rows with these numbers, which ascend, block by block."""
    taken, start = [], 0
    for block in blocks:
        first, last = np.searchsorted(places, [start, start + len(block)])
        taken.append(block[places[first:last] - start])
        start += len(block)
    return taken


def side_by_side(columns: Sequence[NDArray[Any]], block: Float) -> None:
    """Put columns of real numbers in a block of shape (n_rows, n_columns), row after row.

    Examples
    --------
    >>> block = np.empty((2, 2))
    >>> side_by_side([np.array([1, 2]), np.array([0.5, 1.5])], block)
    >>> block.tolist()
    [[1.0, 0.5], [2.0, 1.5]]
    """
    for start in range(0, len(block), _TILE):
        for j, column in enumerate(columns):
            block[start : start + _TILE, j] = column[start : start + _TILE]
