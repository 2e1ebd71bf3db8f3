"""What `fit` accepts, checked once: rows, moments, or an object that has moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.core.standard_moments import StandardMoments
from momentmix.errors import InputError, InputTypeError

Float = NDArray[np.float64]

__all__ = ["check_rows", "moments_of"]

_LARGEST = 1e150  # squares of standardised values and their scales stay finite below this


def moments_of(data: object) -> StandardMoments | None:
    """The moments that `data` is or has; None if it is rows."""
    if isinstance(data, StandardMoments):
        return data
    method = getattr(data, "moments", None)
    if callable(method):
        moments = method()
        if not isinstance(moments, StandardMoments):
            raise InputTypeError(
                f"{type(data).__name__}.moments() must give StandardMoments; got "
                f"{type(moments).__name__}."
            )
        return moments
    return None


def check_rows(data: Any) -> Float:
    """Rows as a float64 array of shape (n_rows, n_features), or an error that says what to do."""
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InputTypeError(
            "rows must be a dense array; got a sparse one. Moments of centred features are dense "
            "in any case: pass rows.toarray()."
        )
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        i, j = np.argwhere(np.ma.getmaskarray(data))[0][:2]
        raise InputError(
            f"rows must have no missing values; row {i}, column {j} is masked. Fill or drop it."
        )
    rows = np.asarray(data)
    if rows.dtype.kind in "OUSMmV":
        rows = _as_numbers(rows)
    if rows.dtype.kind == "c":
        raise InputTypeError("rows must be real numbers; got complex ones. Pass real features.")
    if rows.ndim != 2:
        raise InputError(
            f"rows must have 2 dimensions (n_rows, n_features); got {rows.ndim}. Use "
            "rows.reshape(-1, 1) for one feature, or rows.reshape(n_rows, -1)."
        )
    if rows.shape[1] == 0:
        raise InputError("rows must have at least one column; got 0.")
    if rows.shape[0] == 0:
        raise InputError("rows must hold at least one row; got 0.")
    rows = rows.astype(np.float64, copy=False)
    _check_finite(rows)
    return rows


def _as_numbers(rows: NDArray[Any]) -> Float:
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError):
        column = 0
        for j in range(rows.shape[1] if rows.ndim == 2 else 0):
            try:
                rows[:, j].astype(np.float64)
            except (TypeError, ValueError):
                column = j
                break
        raise InputTypeError(
            f"rows must be numbers; column {column} holds {rows.dtype} values that are not. "
            "Encode or drop that column."
        ) from None


def _check_finite(rows: Float) -> None:
    for start in range(0, rows.shape[0], 65536):
        block = rows[start : start + 65536]
        if np.isfinite(block).all() and np.abs(block).max() < _LARGEST:
            continue
        bad = ~np.isfinite(block)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            kind = "NaN" if np.isnan(block[i, j]) else "infinite"
            raise InputError(
                f"rows must be finite; row {start + i}, column {j} is {kind}. Drop such rows or "
                "fill the missing values first."
            )
        i, j = np.argwhere(np.abs(block) >= _LARGEST)[0]
        raise InputError(
            f"row {start + i}, column {j} is {block[i, j]:.3g}; values must stay below "
            f"{_LARGEST:.0e} so that products of them are finite. Rescale column {j}."
        )
