"""High sections of rows of an array library: few operations on tables of powers.

| symbol | name here | shape |
|---|---|---|
| y (in the units of the shard), in S slabs of n rows | ``points`` | (S, d, n) |
| y², y³ | ``squares``, ``cubes`` | (S, d, n) |
| Σ w y_j³ y_k, Σ w y_j² y_k² | products of these with their transposes | (S, d, d) |

The plans for devices multiply monomials of degree ≤ 3 that are chosen for the other sections; these
sums would add tiles to them where two products of d × d entries do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Int
from momentmix.arrays import on_device_of
from momentmix.index_sets import index_sets
from momentmix.summary.layout import COMPLETE, Layout

TABLES = 6  # as large as the points, in memory at once


def high_sums(layout: Layout, points: Any, weights: Any, xp: Any) -> Any:
    """Sums of all high sections of each slab, of shape (S, number of their entries)."""
    squares = points * points
    cubes = squares * points
    weighted = (squares, cubes)
    if weights is not None:
        weighted = (squares * weights[:, None, :], cubes * weights[:, None, :])
    pairs = [(weighted[1], None), (weighted[0], squares), (weighted[1], squares)]
    pairs.append((weighted[1], cubes))
    parts = [xp.sum(a if b is None else a * b, axis=2) for a, b in pairs]
    if layout.high == COMPLETE:
        for (left, right), places in zip(
            ((weighted[1], points), (weighted[0], squares)), _places(layout), strict=True
        ):
            product = xp.matmul(left, xp.permute_dims(right, (0, 2, 1)))
            flat = xp.reshape(product, (points.shape[0], -1))
            parts.append(xp.take(flat, on_device_of(places, points, xp), axis=1))
    return xp.concat(parts, axis=1)


def _places(layout: Layout) -> tuple[Int, Int]:
    """Where y_j³ y_k, and y_j² y_k² of each pair, stand in a flat product of d × d entries."""
    d = layout.n_features
    low, high = index_sets(d, 2).T
    return np.flatnonzero(~np.eye(d, dtype=bool)), low * d + high
