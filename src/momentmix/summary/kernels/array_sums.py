"""Sums of all moments of rows where they lie, through the array API: the executor for devices.

| symbol | name here | shape |
|---|---|---|
| y (in the units of the shard), in S slabs of n rows | ``points`` | (S, d, n) |
| [y]_B | ``table`` | (S, k, n) |
| Σ w y_I of each slab | result | (S, n_entries) |

A batch is cut into slabs of consecutive rows; each is one matrix of a batched product, so that all
of the device has work. This is the reference for every library; torch on an NVIDIA device takes
``triton_sums`` where that applies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix.arrays import free_bytes, is_cuda_tensor, namespace, on_device_of
from momentmix.summary.kernels.executor import Executor, Units
from momentmix.summary.kernels.high_sums import TABLES, high_sums
from momentmix.summary.kernels.plan import Plan, Product, TableRows
from momentmix.summary.kernels.whole_tables import whole_table_plan
from momentmix.summary.layout import Layout

_COPIES = 4  # of the table at once: gathered factors, their product, and the table itself


class ArrayExecutor:
    """Sums rows of an array library by its own operations.

    Parameters
    ----------
    layout : Layout
    xp : namespace of the library
    """

    def __init__(self, layout: Layout, xp: Any) -> None:
        self._layout, self._plan, self._xp = layout, whole_table_plan(layout.without_high), xp

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Sums of all moments of each slab; see `Executor`."""
        plan, xp = self._plan, self._xp
        scale, shift = (on_device_of(values, rows, xp) for values in units)
        n_slabs, n, _ = rows.shape
        n_columns = _COPIES * plan.n_monomials + (
            TABLES * rows.shape[2] if self._layout.high else 0
        )
        fitting = free_bytes(rows) // (8 * n_columns)
        step = max(1, fitting // n_slabs)
        total = None
        for start in range(0, n, step):
            stop = min(start + step, n)
            w = None if weights is None else weights[:, start:stop]
            points = xp.permute_dims(rows[:, start:stop, :] * scale - shift, (0, 2, 1))
            products = _products(plan, points, w, xp)
            if self._layout.high:
                products.append(high_sums(self._layout, points, w, xp))
            if total is None:
                total = products
            else:
                total = [a + b for a, b in zip(total, products, strict=True)]
        assert total is not None
        flat = xp.concat([xp.reshape(product, (n_slabs, -1)) for product in total], axis=1)
        n_high = self._layout.n_entries - len(plan.positions)
        positions = np.concatenate([plan.positions, plan.n_sums + np.arange(n_high)])
        return xp.take(flat, on_device_of(positions, rows, xp), axis=1)


def _table(plan: Plan, points: Any, xp: Any) -> Any:
    """All monomials of some points, (S, n_monomials, n)."""
    n_slabs, _, n = points.shape
    parts = [
        (slice(plan.constant, plan.constant + 1), xp.ones_like(points[:, :1, :])),
        (plan.first_points, points[:, : plan.n_first, :]),
        (plan.last_points, points[:, plan.n_first :, :]),
    ]

    def rows_of(rows: slice) -> Any:
        place, part = next(p for p in parts if p[0].start <= rows.start and rows.stop <= p[0].stop)
        return part[:, rows.start - place.start : rows.stop - place.start, :]

    for fill in plan.fills:
        left, right = rows_of(fill.left), rows_of(fill.right)
        if fill.outer:
            product = xp.reshape(left[:, :, None, :] * right[:, None, :, :], (n_slabs, -1, n))
        elif fill.pairs is None:
            product = left * right
        else:
            first, second = (on_device_of(rows, points, xp) for rows in fill.pairs)
            product = xp.take(left, first, axis=1) * xp.take(right, second, axis=1)
        parts.append((fill.out, product))
    parts.sort(key=lambda part: (part[0].start, part[0].stop))
    return xp.concat([part for _, part in parts], axis=1)


def _products(plan: Plan, points: Any, weights: Any, xp: Any) -> list[Any]:
    """All products of one chunk, each of shape (S, rows of the left, rows of the right)."""
    table = _table(plan, points, xp)

    def left_operand(rows: TableRows) -> Any:
        if isinstance(rows, slice):
            return table[:, rows, :]
        return xp.take(table, on_device_of(rows, table, xp), axis=1)

    def right_operand(rows: TableRows) -> Any:
        # Features alone are taken as they lie in memory, not from the table: BLAS multiplies them
        # on another path, and the last bits of a summary of order 5 or more depend on it.
        if isinstance(rows, slice) and rows == plan.first_points:
            return points[:, : plan.n_first, :]
        if isinstance(rows, slice) and rows == plan.last_points:
            return points[:, plan.n_first :, :]
        return left_operand(rows)

    products = []
    for step in plan.steps:
        assert isinstance(step, Product)
        left, right = left_operand(step.rows), right_operand(step.columns)
        if weights is not None:
            left = left * weights[:, None, :]
        products.append(xp.matmul(left, xp.permute_dims(right, (0, 2, 1))))
    return products


def device_executor(layout: Layout, rows: Any) -> Executor:
    """Return the executor for rows of a device, by their array library and the layout alone."""
    if is_cuda_tensor(rows):
        from momentmix.summary.kernels.triton_sums import TritonExecutor  # slow to import

        if TritonExecutor.suits(layout):
            return TritonExecutor(layout)
    return ArrayExecutor(layout, namespace(rows))
