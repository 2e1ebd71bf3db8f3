"""Sums of all moments of blocks of NumPy rows, by compiled code where there is some.

The order of all additions is fixed, and the same for every instruction set, so that the sums are a
function of the block on all processors.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import readable
from momentmix.native import code
from momentmix.summary.kernels.array_sums import ArrayExecutor, Units
from momentmix.summary.kernels.plan import plan
from momentmix.summary.layout import Layout


class NativeExecutor(ArrayExecutor):
    """Sums blocks by compiled code (``native/sums.h``)."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self._plan = layout, plan(layout, code.STRIP)

    def sums(self, rows: Float, weights: Float | None, units: Units, n_threads: int = 1) -> Float:
        """Sums of all moments of each slab; see `ArrayExecutor`."""
        result = np.empty((len(rows), self.layout.n_entries))
        rows = readable(np.ascontiguousarray(rows))
        weights = None if weights is None else readable(np.ascontiguousarray(weights))
        _, _, *numbers = self._plan
        arguments = *numbers, rows, weights, np.array(units), rows.shape[1]
        code.sum_blocks(*arguments, result, n_threads)
        return result


@lru_cache(maxsize=4)
def host_executor(layout: Layout) -> ArrayExecutor:
    """Return the executor for NumPy rows: the same from the first row on, whatever their number."""
    return ArrayExecutor(layout) if code is None else NativeExecutor(layout)
