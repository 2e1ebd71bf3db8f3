"""One block of NumPy rows → the sums of all its moments: units, chunks, monomials, products.

Rows go through in chunks whose monomials fit the cache of a core; the sums of a block are always
formed in the same order, by one thread, so that they are a function of the block. The work on a
chunk is a list of array operations on fixed views of reused memory, so that a call costs little
more than its arithmetic.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.parallel import few_threads, map_in_order
from momentmix.summary.kernels.executor import Units
from momentmix.summary.kernels.half_split import TILE, half_split_plan
from momentmix.summary.kernels.memory import aligned
from momentmix.summary.kernels.plan import Fill, Plan
from momentmix.summary.layout import Layout

Call = tuple[Any, Any, Any, Any]  # a function, two operands and the result

CHUNK = 512  # rows; a tile of that length is what OpenBLAS multiplies best
_PART = 1 << 15  # entries of products before they are added to the sums: both fit the cache
_MANY_MOMENTS = 1 << 15  # then calls are long enough for threads to share the interpreter


class NumpyExecutor:
    """Sums blocks by calls of NumPy: the reference, and what there is without compiled code.

    Parameters
    ----------
    layout : Layout
    chunk : int
        Rows whose monomials are formed at once.

    Examples
    --------
    >>> import numpy as np
    >>> executor = NumpyExecutor(Layout(2, 2, 0).without_high)
    >>> rows, ones = np.array([[[1.0, 2.0], [3.0, 5.0]]]), np.ones(2)
    >>> executor.sums(rows, None, (ones, np.zeros(2))).tolist()
    [[2.0, 4.0, 7.0, 17.0, 10.0, 29.0]]
    """

    def __init__(self, layout: Layout, chunk: int = CHUNK) -> None:
        self.layout, self.plan, self.chunk = layout, half_split_plan(layout), chunk
        self.workspaces: SimpleQueue[Workspace] = SimpleQueue()  # of threads that are done

    def sums(self, rows: Float, weights: Float | None, units: Units) -> Float:
        """Sums of all moments of each slab; see `Executor`."""
        result = np.empty((len(rows), self.layout.n_entries))
        try:
            space = self.workspaces.get_nowait()
        except Empty:
            space = Workspace(self.plan, self.chunk)
        try:
            # Powers of wild rows: see `Executor`. One BLAS thread: the products are small.
            with few_threads(True), np.errstate(over="ignore", invalid="ignore"):
                for i, slab in enumerate(rows):
                    w = None if weights is None or (weights[i] == 1.0).all() else weights[i]
                    space.sums.fill(0.0)
                    self._add_rows(slab, w, self._columns(units), space)
                    np.take(space.sums, self.plan.positions, out=result[i], mode="clip")
        finally:
            self.workspaces.put(space)
        return result

    def add_blocks(
        self,
        blocks: Float,
        weights: Float | None,
        units: Units,
        digits: Any,
        n_digits: int,
        n_threads: int,
    ) -> None:
        """Add the sums of every block to exact sums; see `HostExecutor`."""
        if self.layout.n_entries < _MANY_MOMENTS:
            n_threads = 1

        def sums(i: int) -> Float:
            return self.sums(blocks[i : i + 1], None if weights is None else weights[[i]], units)

        squares = weight_squares(blocks, weights)
        with few_threads(True):  # many small products: one BLAS thread for each block
            for i, values in enumerate(map_in_order(sums, range(len(blocks)), n_threads)):
                digits.add(values, squares[i : i + 1])

    def _columns(self, units: Units) -> Float:
        """The units of the points in the order of the table, 1 and 0 for the constant."""
        n, columns = self.plan.n_first, np.empty((2, self.layout.n_features + 1))
        for column, values in zip(columns, units, strict=True):
            column[:n], column[n + 1 :] = values[:n], values[n:]
        columns[:, n] = 1.0, 0.0
        return columns

    def _add_rows(
        self, rows: Float, weights: Float | None, columns: Float, space: Workspace
    ) -> None:
        """Add all products of rows, of shape (n, n_features), to the sums of a workspace."""
        for start in range(0, len(rows), self.chunk):
            part = rows[start : start + self.chunk]
            w = None if weights is None else weights[start : start + self.chunk]
            space.chunk_calls(len(part), w is not None).run(part, w, columns[:, :, None])


def weight_squares(blocks: Float, weights: Float | None) -> Float:
    """Σ w² of each block."""
    if weights is None:
        return np.full(len(blocks), float(blocks.shape[1]))
    return np.asarray(np.vecdot(weights, weights))


class ChunkCalls:
    """The operations on a chunk of n rows, bound to the memory of a workspace.

    Attributes
    ----------
    fills, calls : lists of (function, operand, operand, result)
        What makes the monomials; then what multiplies them and adds the products to the sums.
    """

    def __init__(self, plan: Plan, n: int, weighted: bool, space: Workspace) -> None:
        self._table = space.rows("table", n)
        self._lower, self._upper = self._table[plan.first_points], self._table[plan.last_points]
        self._constant = self._table[plan.constant]  # between the two
        self._points = self._table[plan.first_points.start : plan.last_points.stop]
        self.fills = [self._fill(step) for step in plan.fills]
        self._right = space.rows("weighted", n) if weighted else self._table
        self._head = self._table[: plan.n_weighted]
        self.calls = self._bind(plan, space)

    def _fill(self, step: Fill) -> Call:
        left, right, out = (self._table[rows] for rows in (step.left, step.right, step.out))
        if step.outer:
            shape = (len(left), len(right), out.shape[1])
            return np.multiply, left[:, None, :], right[None], out.reshape(shape)
        return np.multiply, left, right, out

    def _bind(self, plan: Plan, space: Workspace) -> list[Call]:
        """Slabs and products in the order of the plan, added to the sums now and then."""
        calls, first, used = list[Call](), 0, 0

        def add() -> None:
            total, part = space.sums[first:used], space.part[: used - first]
            calls.append((np.add, total, part, total))

        for step in plan.steps:
            if isinstance(step, Fill):
                calls.append(self._fill(step))
                continue
            left, right = self._table[step.rows], self._right[step.columns]
            if used - first + len(left) * len(right) > len(space.part):
                add()
                first = used
            used = step.start + len(left) * len(right)
            out = space.part[step.start - first : used - first].reshape(len(left), len(right))
            calls.append((np.matmul, left, right.T, out))
        add()
        return calls

    def run(self, rows: Float, weights: Float | None, columns: Float) -> None:
        """Add up n rows; the units as two columns, 1 and 0 for the constant."""
        n = len(self._lower)
        self._lower[:], self._upper[:] = rows[:, :n].T, rows[:, n:].T
        self._constant.fill(1.0)
        np.multiply(self._points, columns[0], self._points)
        np.subtract(self._points, columns[1], self._points)
        for function, left, right, out in self.fills:
            function(left, right, out)
        if weights is not None:
            np.multiply(self._head, weights, out=self._right)
        for function, left, right, out in self.calls:
            function(left, right, out)


class Workspace:
    """The memory that one thread reuses from block to block."""

    def __init__(self, plan: Plan, chunk: int) -> None:
        self._plan, self._chunk = plan, chunk
        self._memory = {"table": aligned(plan.n_monomials * chunk)}
        self._calls: dict[tuple[int, bool], ChunkCalls] = {}
        self.sums, self.part = aligned(plan.n_sums), aligned(min(plan.n_sums, _PART + TILE))

    def rows(self, name: str, n: int) -> Float:
        """A table with n columns, contiguous: "table", or "weighted" for its weighted head."""
        if name not in self._memory:
            self._memory[name] = aligned(self._plan.n_weighted * self._chunk)
        memory = self._memory[name]
        n_rows = len(memory) // self._chunk
        return memory[: n_rows * n].reshape(n_rows, n)

    def chunk_calls(self, n: int, weighted: bool) -> ChunkCalls:
        """The operations on a chunk of n rows; kept for full chunks only."""
        if (n, weighted) in self._calls:
            return self._calls[n, weighted]
        calls = ChunkCalls(self._plan, n, weighted, self)
        if n == self._chunk:
            self._calls[n, weighted] = calls
        return calls
