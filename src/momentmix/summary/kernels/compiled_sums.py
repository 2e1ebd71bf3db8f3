"""The work of ``numpy_sums`` on a block as one compiled call, where Numba is installed.

The plan becomes a table of numbers that one loop runs through. It computes what the calls of
``numpy_sums`` do, which are the reference; but the interpreter is left once for each block instead
of some forty times for each chunk, so that threads do not wait for it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.locks import ForkSafeLock
from momentmix.parallel import few_threads
from momentmix.summary.kernels.half_split import half_split_plan
from momentmix.summary.kernels.numpy_sums import CHUNK, HostExecutor, NumpyExecutor, Workspace
from momentmix.summary.kernels.plan import Fill, Plan
from momentmix.summary.layout import Layout

_EACH, _OUTER, _PRODUCT = 0, 1, 2  # kinds of steps
_LOADING = ForkSafeLock()


@cache
def is_installed() -> bool:
    """Whether Numba is there."""
    return find_spec("numba") is not None


def is_loaded() -> bool:
    """Whether the compiled code is loaded in this process."""
    return _load.cache_info().currsize > 0


class CompiledExecutor(HostExecutor):
    """Sums blocks by compiled code."""

    def __init__(self, layout: Layout, chunk: int = CHUNK) -> None:
        super().__init__(layout, chunk)
        # Compiled code multiplies by SciPy's BLAS: loaded now, limits of threads hold for it.
        import_module("scipy.linalg.cython_blas")
        with _LOADING.held():
            self._function = _load()
        self._program = _program(layout)

    def _add_rows(
        self, rows: Float, weights: Float | None, columns: Float, space: Workspace
    ) -> None:
        steps, n_fills = self._program
        weighted = weights is not None
        table = space.rows("table", self.chunk)
        right = space.rows("weighted", self.chunk) if weighted else table[:0]
        self._function(
            np.ascontiguousarray(rows),
            np.empty(0) if weights is None else np.ascontiguousarray(weights),
            weighted, columns, steps, n_fills, table, right, self.plan.first_points.start,
            space.part, space.sums,
        )  # fmt: skip


@lru_cache(maxsize=64)
def agrees_with_numpy(layout: Layout) -> bool:
    """Whether compiled code has the bits of NumPy, by a block of random rows with weights.

    It does where both multiply by the same kind of BLAS. Where it does not, the last bits of a
    summary would tell which executor was used.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1, CHUNK + 37, layout.n_features))  # a full chunk and a short one
    weights = rng.random(rows.shape[:2])
    units = np.ones(layout.n_features), np.zeros(layout.n_features)
    reference, compiled = NumpyExecutor(layout), CompiledExecutor(layout)
    with few_threads(True):
        return all(
            np.array_equal(reference.sums(rows, w, units), compiled.sums(rows, w, units))
            for w in (None, weights)
        )


@cache
def _load() -> Any:
    """The compiled `_sum_rows`: loading takes most of a second, compiling, once, three."""
    from numba import njit, types

    inputs = [types.Array(types.float64, n, "C", readonly=True) for n in (1, 2)]
    used = [types.float64[::1], types.float64[:, ::1]]
    signature = types.void(
        inputs[1], inputs[0], types.boolean, inputs[1],
        types.Array(types.int64, 2, "C", readonly=True), types.int64,
        used[1], used[1], types.int64, used[0], used[0],
    )  # fmt: skip
    return njit(signature, nogil=True, cache=True)(_sum_rows)


@lru_cache(maxsize=4)
def _program(layout: Layout) -> tuple[Int, int]:
    """The steps of a plan, (n_steps, 6): kind, left rows, right rows, place of the result.

    Also how many of them come before the weights are put in.
    """
    plan: Plan = half_split_plan(layout)
    lines = []
    for step in [*plan.fills, *plan.steps]:
        if isinstance(step, Fill):
            kind = _OUTER if step.outer else _EACH
            left, right, place = step.left, step.right, step.out.start
        else:
            assert isinstance(step.rows, slice)
            assert isinstance(step.columns, slice)
            kind, left, right, place = _PRODUCT, step.rows, step.columns, step.start
        lines.append([kind, left.start, left.stop, right.start, right.stop, place])
    return np.array(lines, dtype=np.int64), len(plan.fills)


def _sum_rows(
    rows: Float,
    weights: Float,
    weighted: bool,
    columns: Float,
    steps: Int,
    n_fills: int,
    table: Float,
    right: Float,
    first: int,
    product: Float,
    sums: Float,
) -> None:
    """Add up all rows: chunks → monomials → products → sums.

    Parameters
    ----------
    rows : array of shape (n, n_features)
    weights : array of shape (n,)
    weighted : bool
        Whether a weight differs from 1.
    columns : array of shape (2, n_features + 1)
        Inverse scale and shift of the points, 1 and 0 for the constant between the halves.
    steps, n_fills : see `_program`
    table, right : arrays of shape (n_monomials, chunk) and (n_weighted, chunk)
        Monomials, and the first of them times the weights; overwritten.
    first : int
        Row of the table where the points begin.
    product : array of as many entries as a tile; overwritten
    sums : array of shape (n_sums,)
        Added to.
    """
    chunk = table.shape[1]
    n_points, half = columns.shape[1], (columns.shape[1] - 1) // 2
    tables, heads = table.reshape(table.size), right.reshape(right.size)
    for start in range(0, rows.shape[0], chunk):
        n = min(chunk, rows.shape[0] - start)
        y = tables[: table.shape[0] * n].reshape(table.shape[0], n)
        head = heads[: right.shape[0] * n].reshape(right.shape[0], n)
        for i in range(n_points):
            scale, shift = columns[0, i], columns[1, i]
            if i == half:
                y[first + i] = 1.0
                continue
            column = i if i < half else i - 1
            for k in range(n):
                y[first + i, k] = rows[start + k, column] * scale - shift
        for at in range(steps.shape[0]):
            if at == n_fills and weighted:
                for i in range(head.shape[0]):
                    for k in range(n):
                        head[i, k] = y[i, k] * weights[start + k]
            kind, l0, l1, r0, r1, place = steps[at]
            if kind == _PRODUCT:
                size = (l1 - l0) * (r1 - r0)
                tile = product[:size].reshape(l1 - l0, r1 - r0)
                np.dot(y[l0:l1], (head if weighted else y)[r0:r1].T, tile)
                for k in range(size):
                    sums[place + k] += product[k]
            elif kind == _OUTER:
                out = place
                for i in range(l0, l1):
                    for j in range(r0, r1):
                        for k in range(n):
                            y[out, k] = y[i, k] * y[j, k]
                        out += 1
            else:
                for i in range(l1 - l0):
                    j = r0 if r1 - r0 == 1 else r0 + i
                    for k in range(n):
                        y[place + i, k] = y[l0 + i, k] * y[j, k]
