"""Sums of all moments of a batch of rows where they lie, through the array API.

| paper symbol | name here | shape |
|---|---|---|
| y (in the units of the frame), in S slabs of n rows | ``points`` | (S, d, n) |
| [y]_B | ``tables`` | (S, k, n) |
| Σ w y_I of each slab | ``slab_sums`` | (S, n_entries) |

A batch is cut into slabs of consecutive rows; each is one matrix of a batched product, so that the
whole device has work, and the sums of a slab are those of a replicate group. This is the reference
for every library; torch on an NVIDIA device takes ``triton_tiles`` where that applies.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import free_bytes, on_device_of
from momentmix.summary.kernels.device_plan import Plan, device_plan
from momentmix.summary.layout import Layout

__all__ = ["chunk_rows", "slab_sums"]

Float = NDArray[np.float64]

_COPIES = 4  # of the tables at once: gathered factors, their product, and the table itself


def chunk_rows(layout: Layout, rows: Any) -> int:
    """How many rows' tables fit into the memory for temporaries."""
    return max(1, free_bytes(rows) // (8 * _COPIES * device_plan(layout).n_monomials))


def slab_sums(layout: Layout, slabs: Any, weights: Any, frame: tuple[Float, Float], xp: Any) -> Any:
    """Sums of all moments of each slab.

    Parameters
    ----------
    layout : Layout
    slabs : float64 array of shape (S, n, n_features), of any library
    weights : array of shape (S, n) of that library, or None
    frame : (inverse scale, shift), NumPy arrays of shape (n_features,)
    xp : namespace of the library

    Returns
    -------
    array of shape (S, n_entries) of that library
    """
    plan = device_plan(layout)
    scale, shift = (on_device_of(values, slabs, xp) for values in frame)
    n_slabs, n, _ = slabs.shape
    step = max(1, chunk_rows(layout, slabs) // n_slabs)
    total = None
    for start in range(0, n, step):
        stop = min(start + step, n)
        part = slabs[:, start:stop, :]
        w = None if weights is None else weights[:, start:stop]
        points = xp.permute_dims(part * scale - shift, (0, 2, 1))
        found = _products(plan, points, w, xp)
        total = found if total is None else [a + b for a, b in zip(total, found, strict=True)]
    assert total is not None
    flat = xp.concat([xp.reshape(product, (n_slabs, -1)) for product in total], axis=1)
    return xp.take(flat, on_device_of(plan.positions, slabs, xp), axis=1)


def _products(plan: Plan, points: Any, weights: Any, xp: Any) -> list[Any]:
    """All products of one chunk, each of shape (S, rows of the left, rows of the right)."""
    parts = {"points": points, "one": xp.ones_like(points[:, :1, :])}
    for name, part in plan.parts.items():
        made = _rows(parts[part.left], part.left_rows, xp)
        if part.right is not None and part.right_rows is not None:
            made = made * _rows(parts[part.right], part.right_rows, xp)
        parts[name] = made
    tables = {
        name: parts[members[0]]
        if len(members) == 1
        else xp.concat([parts[member] for member in members], axis=1)
        for name, members in plan.tables.items()
    }
    found = []
    for product in plan.products:
        left = tables[product.left][:, product.left_rows, :]
        if weights is not None:
            left = left * weights[:, None, :]
        right = tables[product.right][:, product.right_rows, :]
        found.append(xp.matmul(left, xp.permute_dims(right, (0, 2, 1))))
    return found


def _rows(table: Any, rows: NDArray[np.int64], xp: Any) -> Any:
    return xp.take(table, on_device_of(rows, table, xp), axis=1)
