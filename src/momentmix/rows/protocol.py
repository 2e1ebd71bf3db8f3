"""Rows that can be read more than once, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputTypeError

Float = NDArray[np.float64]

__all__ = ["ArrayRows", "HeldRows", "RemoteRows", "RowBlocks"]


class RowBlocks(Protocol):
    """What a pass over the rows needs; every call of `blocks` starts from the first row again.

    ``feature_names``, a tuple of strings, may come with it.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, each of shape (some, n_features)."""


class HeldRows:
    """Rows of an array of any library, held as it is.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
    new_summary : callable (order, squared_order) → empty MomentSummary, or None
        For callers that want to keep the summary of the one pass over the rows.
    """

    rows: Any
    feature_names: tuple[str, ...] | None = None
    new_summary: Callable[[int, int], Any] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])


class ArrayRows(HeldRows):
    """Rows of an array in memory, in blocks that fit a processor's cache a few times over."""

    def __init__(
        self,
        rows: Float,
        block_size: int = 16384,
        feature_names: tuple[str, ...] | None = None,
    ) -> None:
        self.rows = rows
        self.block_size = block_size
        self.feature_names = feature_names

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, views where that is possible."""
        for start in range(0, self.n_rows, self.block_size):
            yield self.rows[start : start + self.block_size]


class RemoteRows(ABC):
    """Rows that lie elsewhere: functions go to them, and only what these give comes back."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns."""

    @abstractmethod
    def summary(self, order: int, squared_order: int | None, replicates: int = 0) -> Any:
        """A MomentSummary of all rows."""

    @abstractmethod
    def sum_blocks(self, work: Callable[[Float], tuple[Any, ...]]) -> tuple[Any, ...]:
        """``work`` of every block, a tuple, added up entry by entry in an order that is fixed."""

    @abstractmethod
    def take(self, places: NDArray[np.int64]) -> Float:
        """The rows with these numbers, which ascend."""

    def blocks(self) -> NoReturn:
        """Refused: the rows are not brought here."""
        raise InputTypeError(
            "these rows lie on a cluster and are not brought here block by block; use sum_blocks() "
            "to work on them there, or take() for a few of them."
        )
