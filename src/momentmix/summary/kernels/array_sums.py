"""Sums of all moments of blocks of NumPy rows, without compiled code.

This is the specification of the compiled code, and its fall-back, which takes five to eight
times as long.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import weight_squares
from momentmix.parallel import few_threads
from momentmix.summary.kernels.plan import plan
from momentmix.summary.layout import Layout

Units = tuple[Float, Float]
"""Inverse scale (powers of two) and shift (integers), each of shape (n_features,)."""

_HEIGHT = 64  # of a strip: fewer waste less, but the products become small
_NUMBERS = 1 << 17  # of a table: 1 MB
_SUMS_AT_ONCE = 1 << 20  # numbers of the sums of some blocks


class Executor(Protocol):
    """Sums rows of one layout: the same call, the same vector, whatever does the work."""

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Σ w·(all monomials of the layout), z = rows·inverse scale − shift, of slabs of rows.

        Rows (S, n, n_features) and weights (S, n), or None, are float64; the result (S, n_entries)
        is of their library. Sums of rows far away may be infinite or NaN.
        """
        ...


class ArrayExecutor:
    """Sums blocks by NumPy."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self._plan = layout, plan(layout, _HEIGHT, _HEIGHT)
        sizes = np.count_nonzero(self._plan.rights, axis=1)
        starts = np.searchsorted(sizes, np.arange(2, sizes[-1] + 2)).tolist()
        self._levels = [slice(a, b) for a, b in pairwise(starts)]

    def sums(self, rows: Float, weights: Float | None, units: Units, n_threads: int = 1) -> Float:
        """Sums of all moments of each slab; see `Executor`."""
        n_slabs, n, _ = rows.shape
        result = np.zeros((n_slabs, self.layout.n_entries))
        step = max(256, _NUMBERS // len(self._plan.rights))
        # The products are small: one BLAS thread. Powers of rows far away: see `Executor`.
        with few_threads(True), np.errstate(over="ignore", invalid="ignore"):
            for i in range(n_slabs):
                for start in range(0, n, step):
                    part = slice(start, start + step)
                    points = (rows[i, part] * units[0] - units[1]).T
                    result[i] += self._moments(
                        points, None if weights is None else weights[i, part]
                    )
        return result

    def _moments(self, points: Float, weights: Float | None) -> Float:
        plan, n_points = self._plan, len(points) + 1
        table = np.empty((len(plan.rights), points.shape[1]))
        table[0], table[1:n_points] = 1.0, points
        for level in self._levels:  # monomials of one size, of those that are smaller
            one, other = plan.right_factors[level].T
            np.multiply(table[one], table[other], out=table[level])
        cells = []
        for strip, first, last, _ in plan.strips.tolist():
            one, other = plan.left_factors[strip * _HEIGHT : (strip + 1) * _HEIGHT].T
            left = table[one] * table[other]
            left = left if weights is None else left * weights
            cells.append((table[first:last] @ left.T).ravel())
        return np.concatenate(cells)[plan.positions]

    def add_blocks(
        self, blocks: Float, weights: Float | None, units: Units, digits: Any, n_digits: int,
        n_threads: int, limit: float, is_far: Int,
    ) -> None:  # fmt: skip
        """Add the sums of blocks, (S, n, n_features), to `BlockSums`, some at a time.

        Not of those that are far already; a block with a mean beyond `limit` becomes one.
        """
        at_once = max(n_threads, _SUMS_AT_ONCE // self.layout.n_entries)
        near = np.flatnonzero(is_far == 0)
        for start in range(0, len(near), at_once):
            some: Any = near[start : start + at_once]
            if some[-1] - some[0] < len(some):
                some = slice(some[0], some[-1] + 1)  # without a copy
            part, w = blocks[some], None if weights is None else weights[some]
            values = self.sums(part, w, units, n_threads)
            means = np.abs(values[:, 1 : self.layout.n_features + 1])
            is_far[some] = far = (means > limit * values[:, :1]).any(axis=1)
            if not far.all():
                digits.add(values[~far], weight_squares(part, w)[~far])
