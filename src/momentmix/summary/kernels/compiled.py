"""The work of ``kernel`` on a block as one compiled call, where Numba is installed (extra `fast`).

The plan of ``half_split`` becomes a table of numbers that one loop runs through. It computes what
the calls of ``kernel`` do, which are the reference; but the interpreter is left once for each block
instead of some forty times for each chunk, so that threads do not wait for it.

Loading the compiled code takes most of a second (compiling it, once on a machine, three), so a
shard begins with NumPy and changes over at a block that its layout alone determines: the sums stay
a function of the rows.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.locks import ForkSafeLock
from momentmix.summary.kernels.half_split import Fill, HalfSplit
from momentmix.summary.layout import Layout

__all__ = ["first_compiled_block", "load_blas", "program", "sum_rows"]

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_EACH, _OUTER, _PRODUCT = 0, 1, 2
_WORTHWHILE = 1 << 21  # moments times blocks whose sums take about a second by NumPy
_LOADING = ForkSafeLock()


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def first_compiled_block(layout: Layout) -> int | None:
    """Number of the block of a shard from which on the compiled code sums; None for never.

    Examples
    --------
    >>> first_compiled_block(Layout(15, 4, 2, 16)) in (594, None)
    True
    """
    return -(-_WORTHWHILE // layout.n_entries) if _installed() else None


def load_blas() -> None:
    """Load the BLAS that compiled code multiplies by, so that limits of threads hold for it."""
    if _installed():
        import_module("scipy.linalg.cython_blas")


def sum_rows(*arguments: Any) -> None:
    """Run the compiled `_sum_rows`; loads or compiles it at the first call."""
    with _LOADING.held():
        function = _load()
    function(*arguments)


@cache
def _load() -> Any:
    from numba import njit, types

    given = [types.Array(types.float64, n, "C", readonly=True) for n in (1, 2)]
    used = [types.float64[::1], types.float64[:, ::1]]
    signature = types.void(
        given[1], given[0], types.boolean, given[1],
        types.Array(types.int64, 2, "C", readonly=True), types.int64,
        used[1], used[1], types.int64, used[0], used[0],
    )  # fmt: skip
    return njit(signature, nogil=True, cache=True)(_sum_rows)


def program(plan: HalfSplit) -> tuple[Int, int]:
    """The steps of a plan, (n_steps, 6): kind, left rows, right rows, place of the result.

    Also how many of them come before the weights are put in.
    """
    steps = [*plan.fills, *plan.steps]
    lines = []
    for step in steps:
        if isinstance(step, Fill):
            kind, left, right = (_OUTER if step.outer else _EACH), step.left, step.right
            place = step.out.start
        else:
            kind, left, right, place = _PRODUCT, step.rows, step.columns, step.start
        lines.append([kind, left.start, left.stop, right.start, right.stop, place])
    return np.array(lines, dtype=np.int64), len(plan.fills)


def _sum_rows(
    rows: Float,
    weights: Float,
    weighted: bool,
    frame: Float,
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
    frame : array of shape (2, n_features + 1)
        Inverse scale and shift of the points, 1 and 0 for the constant between the halves.
    steps, n_fills : see `program`
    table, right : arrays of shape (n_monomials, chunk) and (n_weighted, chunk)
        Monomials, and the first of them times the weights; overwritten.
    first : int
        Row of the table where the points begin.
    product : array of as many entries as a tile; overwritten
    sums : array of shape (n_sums,)
        Added to.
    """
    chunk = table.shape[1]
    n_points, half = frame.shape[1], (frame.shape[1] - 1) // 2
    tables, heads = table.reshape(table.size), right.reshape(right.size)
    for start in range(0, rows.shape[0], chunk):
        n = min(chunk, rows.shape[0] - start)
        y = tables[: table.shape[0] * n].reshape(table.shape[0], n)
        head = heads[: right.shape[0] * n].reshape(right.shape[0], n)
        for i in range(n_points):
            scale, shift = frame[0, i], frame[1, i]
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
