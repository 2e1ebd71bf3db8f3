"""Rows that can be read more than once, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]

__all__ = ["ArrayRows", "RowBlocks"]


class RowBlocks(Protocol):
    """What a pass over the rows needs; every call of `blocks` starts from the first row again."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, each of shape (some, n_features)."""


class ArrayRows:
    """Rows of an array in memory, in blocks that fit a processor's cache a few times over."""

    def __init__(self, rows: Float, block_size: int = 16384) -> None:
        self.rows = rows
        self.block_size = block_size

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, views where that is possible."""
        for start in range(0, self.n_rows, self.block_size):
            yield self.rows[start : start + self.block_size]
