"""Rows that are at hand → their summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from momentmix.errors import InputError
from momentmix.rows.arrays import is_foreign
from momentmix.rows.validation import as_device_rows, as_rows
from momentmix.summary.summary import MomentSummary


def summarize(
    rows: Any,
    order: int,
    sample_weight: ArrayLike | None = None,
    *,
    device: Any = None,
    **options: Any,
) -> MomentSummary:
    """Moments of an array, a data frame, or several of them one after the other.

    Parameters
    ----------
    rows : array or data frame of shape (n_rows, n_features), or an iterator of these
        Arrays on a device (torch, CuPy, JAX) are summed there, as in `MomentSummary.update`.
    order : int
        Highest order of the products of different features. Powers y_j³ … y_j⁶ are kept as well,
        and with order ≥ 4, or two or three features, y_j³·y_k and y_j²·y_k²: see `MomentSummary`.
    sample_weight : array of shape (n_rows,), optional
        Frequencies; for a single array only.
    device : str or torch.device, optional
        Send NumPy rows to this device and sum them there.
    **options
        As for `MomentSummary`.

    Examples
    --------
    >>> import numpy as np
    >>> summarize(np.eye(4), order=2, shard_id="identity").variance.tolist()
    [0.1875, 0.1875, 0.1875, 0.1875]
    """
    blocks: Iterable[Any] = [rows]
    if hasattr(rows, "__next__"):
        if sample_weight is not None:
            raise InputError("sample_weight needs a single array; call update() for each block.")
        blocks = rows
    summary = None
    for block in blocks:
        if summary is None:
            if is_foreign(block):
                array, names = as_device_rows(block, None), None
            else:
                array, names = as_rows(block, None)
            options = {"feature_names": names, **options}
            summary = MomentSummary(array.shape[1], order, **options)
        summary.update(block, sample_weight, device=device)
    if summary is None:
        raise InputError("rows must hold at least one block; the iterator was empty.")
    return summary
