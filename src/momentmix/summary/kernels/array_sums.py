"""Sums of all moments of rows where they lie, by operations of NumPy or torch.

| symbol | name here | shape |
|---|---|---|
| y (in the units of the shard), in S slabs of n rows | ``points`` | (S, d, n) |
| [y]_A, [y]_B of all monomials of both lists | ``left``, ``right`` | (S, k, n) |
| Σ w y_I of each slab | result | (S, n_entries) |

A batch is cut into slabs of consecutive rows; each is one matrix of a batched product, so that all
of the device has work. This is the reference, and what sums NumPy rows without compiled code;
tensors on an NVIDIA device take ``triton_sums`` where that applies.
"""

from __future__ import annotations

from math import comb
from typing import Any, Protocol

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import (
    free_bytes,
    is_cuda_tensor,
    namespace,
    on_device_of,
    take,
    weight_squares,
)
from momentmix.index_sets import index_sets
from momentmix.parallel import few_threads
from momentmix.summary.kernels.tile_plan import tile_plan
from momentmix.summary.layout import COMPLETE, Layout

Units = tuple[Float, Float]
"""Inverse scale (powers of two) and shift (integers), each of shape (n_features,)."""

_COPIES = 2  # of both lists of monomials at once: gathered factors, and their product
_PANEL = 64  # monomials of a product: fewer waste less of the triangle, but leave cores idle
_TABLES = 6  # as large as the points, for the high sections


class Executor(Protocol):
    """Sums rows of one layout: the same call, the same vector, whatever does the work."""

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Σ w·(all monomials of the layout), z = rows·inverse scale − shift, of slabs of rows.

        Rows (S, n, n_features) and weights (S, n), or None, are float64; the result (S, n_entries)
        is of their library. Sums of rows far away may be infinite or NaN.
        """
        ...


class HostExecutor(Executor, Protocol):
    """Sums NumPy rows, and adds up blocks on several threads."""

    def add_blocks(
        self, blocks: Float, weights: Float | None, units: Units, digits: Any, n_digits: int,
        n_threads: int, limit: float, is_far: Int,
    ) -> None:  # fmt: skip
        """Add the sums of blocks, (S, n, n_features), of at most so many digits, to `BlockSums`.

        Not of those that are far already; a block with a mean beyond `limit` becomes one.
        """
        ...


class ArrayExecutor:
    """Sums rows by operations of NumPy or torch."""

    def __init__(self, layout: Layout, xp: Any) -> None:
        d, self._layout, self._xp = layout.n_features, layout, xp
        self._block = block = min(_PANEL, 1 + d + comb(d, 2))
        self._plan = plan = tile_plan(layout.without_high, block)
        # First block of the right list that is multiplied by each left one, and the one beyond.
        rights = [plan.tiles[plan.tiles[:, 0] == i, 1] for i in range(plan.lefts.shape[1] // block)]
        self._ends = [(int(x.min()), int(x.max()) + 1) if len(x) else (0, 0) for x in rights]
        ends = np.array(self._ends) * block
        starts = np.cumsum([0, *(np.diff(ends)[:, 0] * block)])
        tile, entry = np.divmod(plan.positions, block**2)
        (i, j), (row, column) = plan.tiles[tile].T, np.divmod(entry, block)
        first, last = ends[i].T
        positions = starts[i] + row * (last - first) + j * block - first + column
        n_high = layout.n_entries - len(positions)
        self._positions = np.concatenate([positions, starts[-1] + np.arange(n_high)])

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Sums of all moments of each slab; see `Executor`."""
        plan, xp = self._plan, self._xp
        if isinstance(weights, np.ndarray) and (weights == 1.0).all():
            weights = None  # BLAS multiplies a matrix by itself on a path of its own
        scale, shift = (on_device_of(values, rows, xp) for values in units)
        n_slabs, n, d = rows.shape
        n_columns = _COPIES * (plan.lefts.shape[1] + plan.rights.shape[1]) + _TABLES * d
        step = max(1, free_bytes(rows) // (8 * n_columns) // n_slabs)
        total = None
        # The products are small: one BLAS thread. Powers of rows far away: see `Executor`.
        with few_threads(xp is np), np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, n, step):
                stop = min(start + step, n)
                w = None if weights is None else weights[:, start:stop]
                points = (rows[:, start:stop, :] * scale - shift).mT
                flat = self._products(points, w)
                total = flat if total is None else total + flat
        return take(total, on_device_of(self._positions, rows, xp), axis=1)

    def add_blocks(
        self, blocks: Any, weights: Any, units: Units, digits: Any, n_digits: int, n_threads: int,
        limit: float, is_far: Int,
    ) -> None:  # fmt: skip
        """Add the sums of every block of NumPy rows to exact sums; see `HostExecutor`."""
        squares = weight_squares(blocks, weights)
        for i in np.flatnonzero(is_far == 0).tolist():
            values = self.sums(blocks[[i]], None if weights is None else weights[[i]], units)
            means = values[0, 1 : self._layout.n_features + 1]
            is_far[i] = (np.abs(means) > limit * values[0, 0]).any()
            if not is_far[i]:
                digits.add(values, squares[[i]])

    def _products(self, points: Any, weights: Any) -> Any:
        """All products of one chunk, and its high sections, (S, number of entries)."""
        plan, xp, block = self._plan, self._xp, self._block
        one = xp.ones_like(points[:, :1, :])
        table, parts = xp.concat([points, one, xp.zeros_like(one)], axis=1), []

        def monomials(factors: Any) -> Any:
            columns = [take(table, on_device_of(f, points, xp), axis=1) for f in factors]
            product = columns[0]
            for column in columns[1:]:
                product = product * column
            return product

        left = right = monomials(plan.lefts)
        if plan.rights is not plan.lefts:
            right = monomials(plan.rights)
        if weights is not None:
            left = left * weights[:, None, :]
        for i, (first, last) in enumerate(self._ends):
            columns = right[:, first * block : last * block, :].mT
            product = xp.matmul(left[:, i * block : (i + 1) * block, :], columns)
            parts.append(xp.reshape(product, (points.shape[0], -1)))
        if self._layout.high:
            parts.append(high_sums(self._layout, points, weights, xp))
        return xp.concat(parts, axis=1)


def high_sums(layout: Layout, points: Any, weights: Any, xp: Any) -> Any:
    """Return the sums of all high sections of each slab, (S, number of their entries)."""
    squares = points * points
    cubes = squares * points
    w2, w3 = squares, cubes
    if weights is not None:
        w2, w3 = squares * weights[:, None, :], cubes * weights[:, None, :]
    parts = [xp.sum(x, axis=2) for x in (w3, w2 * squares, w3 * squares, w3 * cubes)]
    if layout.high == COMPLETE:
        d = layout.n_features
        low, high = index_sets(d, 2).T
        # Where y_j³ y_k, and y_j² y_k² of each pair, stand in a flat product of d × d entries.
        places = np.flatnonzero(~np.eye(d, dtype=bool)), low * d + high
        for left, right, own in zip((w3, w2), (points, squares), places, strict=True):
            product = xp.matmul(left, right.mT)
            flat = xp.reshape(product, (points.shape[0], -1))
            parts.append(take(flat, on_device_of(own, points, xp), axis=1))
    return xp.concat(parts, axis=1)


def device_executor(layout: Layout, rows: Any) -> Executor:
    """Return the executor for the rows of a tensor, by its device and the layout alone."""
    if is_cuda_tensor(rows):
        from momentmix.summary.kernels.triton_sums import TritonExecutor  # slow to import

        if TritonExecutor.suits(layout):
            return TritonExecutor(layout)
    return ArrayExecutor(layout, namespace(rows))
