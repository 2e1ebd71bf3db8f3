"""Sums of all moments of blocks of NumPy rows, without compiled code.

This is the specification of the compiled code, and its fall-back, which takes five to eight
times as long.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from momentmix._typing import Float
from momentmix.parallel import few_threads
from momentmix.summary.kernels.plan import plan
from momentmix.summary.layout import Layout

Units = tuple[Float, Float]
"""Inverse scale (powers of two) and shift (integers), each of shape (n_features,)."""

_HEIGHT = 64  # of a strip: fewer waste less, but the products become small
_NUMBERS = 1 << 17  # of a table: 1 MB


class ArrayExecutor:
    """Sums blocks by NumPy."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self._plan = layout, plan(layout, _HEIGHT)
        sizes = np.count_nonzero(self._plan.rights, axis=1)
        starts = np.searchsorted(sizes, np.arange(2, sizes[-1] + 2)).tolist()
        self._levels = [slice(a, b) for a, b in pairwise(starts)]

    def sums(self, rows: Float, weights: Float | None, units: Units, n_threads: int = 1) -> Float:
        """Σ w·(all monomials of the layout), z = rows·inverse scale − shift, of slabs of rows.

        Rows (S, n, n_features) and weights (S, n), or None, are float64; the result is
        (S, n_entries). Sums of rows far away may be infinite or NaN.
        """
        n_slabs, n, _ = rows.shape
        result = np.zeros((n_slabs, self.layout.n_entries))
        step = max(256, _NUMBERS // len(self._plan.rights))
        # The products are small: one BLAS thread. Powers of rows far away may overflow.
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
        for top, bottom, first, last, _ in plan.strips.tolist():
            one, other = plan.left_factors[top:bottom].T
            left = table[one] * table[other]
            left = left if weights is None else left * weights
            cells.append((table[first:last] @ left.T).ravel())
        return np.concatenate(cells)[plan.positions]
