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
    """Sums rows of one layout.

    Attributes
    ----------
    gains_by_threads : bool
        Whether several threads sum blocks faster than one.
    uses_blas : bool
        Whether it multiplies by BLAS, which would start threads of its own.
    """

    gains_by_threads: bool
    uses_blas: bool

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
            infinite or NaN; the caller knows which (`MovingSums.limit_reach`).
        """
        ...
