"""The interface of all executors: the same call, the same vector.

An executor sums rows of one layout. ``choice`` says which one a shard takes.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Units = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Inverse scale (powers of two) and shift (integers), each of shape (n_features,)."""


class Executor(Protocol):
    """Sums rows of one layout."""

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Σ over the rows of w·(all monomials of the layout), z = rows·inverse scale − shift.

        Parameters
        ----------
        rows : float64 array of shape (S, n, n_features)
            S slabs of n rows.
        weights : float64 array of shape (S, n), or None
        units : (inverse scale, shift)

        Returns
        -------
        array of shape (S, n_entries), of the library of the rows
            For each slab the flat vector of the layout, without Σ w². Powers of wild rows may be
            infinite or NaN; the caller knows which (`ShardSums.limit`).
        """
        ...


class HostExecutor(Executor, Protocol):
    """Sums NumPy rows, and adds up blocks on several threads."""

    def add_blocks(
        self,
        blocks: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        units: Units,
        digits: Any,
        n_digits: int,
        n_threads: int,
    ) -> None:
        """Add the sums of every block to exact sums.

        Parameters
        ----------
        blocks : array of shape (S, n, n_features)
        weights : array of shape (S, n), or None
        units : (inverse scale, shift)
        digits : DigitSums
            The caller gathers its lanes.
        n_digits : int
            Digits that hold every sum of a block.
        n_threads : int
        """
        ...
