"""Uncentred moments of an array of rows.

| paper symbol | name here | shape |
|---|---|---|
| (M̂_m)_{Ω_m} | ``RowMoments.moment_tensor(m)`` | (C(d, m),) |
| (M̂_m)_{L_j} | ``RowMoments.squared_moments(j, m−2)`` | (C(d−1, m−2),) |

A sum of powers of the rows *is* N times the moment tensor, so the tensor code does the work.

Differs from the paper: nothing.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix.core.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.errors import InputError, InputTypeError

Array = NDArray[Any]

__all__ = ["RowMoments"]

_BLOCK = 4096


class RowMoments:
    """Sample moments of an array of shape (n_rows, n_features)."""

    def __init__(self, rows: ArrayLike) -> None:
        array = np.asarray(rows)
        if array.dtype.kind not in "fiu":
            raise InputTypeError(f"rows must be real numbers; got dtype {array.dtype}.")
        if array.ndim != 2 or 0 in array.shape:
            raise InputError(
                f"rows must have shape (n_rows, n_features), neither zero; got {array.shape}."
            )
        self.rows = array.astype(np.float64, copy=False)
        if not np.isfinite(self.rows).all():
            row, column = np.argwhere(~np.isfinite(self.rows))[0]
            raise InputError(
                f"rows must be finite; row {row}, column {column} is {self.rows[row, column]}. "
                "Drop or impute rows with missing values first."
            )

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.rows.shape[1])

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""
        total = np.zeros(comb(self.n_features, order))
        for start in range(0, len(self.rows), _BLOCK):
            total += power_sum(self.rows[start : start + _BLOCK], order)
        return IncompleteSymmetricTensor(total / len(self.rows), self.n_features, order)

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        squares = self.rows[:, feature] ** 2
        if order == 0:
            return np.array([squares.mean()])
        others = np.delete(self.rows, feature, axis=1)
        total = np.zeros(comb(self.n_features - 1, order))
        for start in range(0, len(others), _BLOCK):
            part = slice(start, start + _BLOCK)
            total += power_sum(others[part], order, squares[part])
        return total / len(others)
