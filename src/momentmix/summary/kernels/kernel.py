"""One block of rows → the sums of all its moments: frame, chunks, monomials, products.

Rows go through in chunks whose monomials fit the cache of a core; the sums of a block are always
formed in the same order, by one thread, so that they are a function of the block. The work on a
chunk is a list of array operations on fixed views of reused memory, so that a call costs little
more than its arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.summary.kernels.compiled import first_compiled_block, program, sum_rows
from momentmix.summary.kernels.half_split import TILE, Fill, HalfSplit, table_places
from momentmix.summary.layout import Layout

__all__ = ["CHUNK", "Float", "Kernel", "Workspace", "table_rows"]

Float = NDArray[np.float64]
Call = tuple[Any, Any, Any, Any]  # of a function: two operands and the result

CHUNK = 512  # rows; a tile of that length is what OpenBLAS multiplies best
_PART = 1 << 15  # entries of products before they are added to the sums
_MANY_MOMENTS = 1 << 15  # calls long enough for threads to share the interpreter
_ALIGNMENT = 64  # bytes of a cache line; elementwise products off it take twice the time


def table_rows(layout: Layout) -> int:
    """Number of monomials that a workspace holds for each row of a chunk."""
    return int(max(place.stop for place in table_places(layout).values()))


class Kernel:
    """Sums blocks for one layout.

    Attributes
    ----------
    compiled_from : int or None
        Number of the block of a shard from which on compiled code is used; None for NumPy alone.

    Examples
    --------
    >>> import numpy as np
    >>> kernel = Kernel(Layout(2, 2, 0, 0))
    >>> rows, one = np.array([[1.0, 2.0], [3.0, 5.0]]), np.ones(2)
    >>> kernel.block_sums(rows, one, one, np.zeros(2), Workspace(kernel)).tolist()
    [2.0, 4.0, 7.0, 17.0, 10.0, 29.0, 2.0]
    """

    def __init__(self, layout: Layout, chunk: int = CHUNK) -> None:
        self.layout, self.plan, self.chunk = layout, HalfSplit(layout), chunk
        self.compiled_from = first_compiled_block(layout)
        self._program = program(self.plan)

    def is_compiled(self, number: int) -> bool:
        """Whether compiled code sums the block of this number."""
        return self.compiled_from is not None and number >= self.compiled_from

    def gains_by_threads(self, number: int) -> bool:
        """Whether several threads sum blocks faster than one: not by many short NumPy calls."""
        return self.is_compiled(number) or self.layout.n_entries >= _MANY_MOMENTS

    def block_sums(
        self,
        rows: Float,
        weights: Float,
        inverse_scale: Float,
        shift: Float,
        space: Workspace,
        number: int = 0,
    ) -> Float:
        """Σ over the rows of w·z_I and w·z_j²·z_I with z = rows·inverse_scale − shift.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
        weights : array of shape (n_rows,)
        inverse_scale, shift : arrays of shape (n_features,)
            The frame: powers of two and integers.
        space : Workspace
            Overwritten.
        number : int
            Of the block in its shard.

        Returns
        -------
        array of shape (n_entries + 1,), a view into `space`
            The flat vector of the layout; its last entry is Σ w².
        """
        half, weighted = self.plan.half, bool((weights != 1.0).any())
        scales = np.concatenate((inverse_scale[:half], [1.0], inverse_scale[half:]))
        shifts = np.concatenate((shift[:half], [0.0], shift[half:]))
        frame = np.stack([scales, shifts])
        space.sums.fill(0.0)
        if self.is_compiled(number):
            self._sum_compiled(rows, weights, weighted, frame, space)
        else:
            for start in range(0, len(rows), self.chunk):
                part = slice(start, start + self.chunk)
                work = space.work(len(rows[part]), weighted)
                work.run(rows[part], weights[part], frame[:, :, None])
        np.take(space.sums, self.plan.pick, out=space.flat[:-1], mode="clip")
        space.flat[-1] = weights @ weights
        return space.flat

    def _sum_compiled(
        self, rows: Float, weights: Float, weighted: bool, frame: Float, space: Workspace
    ) -> None:
        steps, n_fills = self._program
        table = space.rows("table", self.chunk)
        right = space.rows("weighted", self.chunk) if weighted else table[:0]
        first = self.plan.places["lower", 1].start
        sum_rows(
            np.ascontiguousarray(rows), np.ascontiguousarray(weights), weighted, frame,
            steps, n_fills, table, right, first, space.part, space.sums,
        )  # fmt: skip


class Work:
    """The operations on a chunk of n rows, bound to the memory of a workspace.

    Attributes
    ----------
    fills, calls : lists of (function, operand, operand, result)
        What makes the monomials; then what multiplies them and adds the products to the sums.
    """

    def __init__(self, plan: HalfSplit, n: int, weighted: bool, space: Workspace) -> None:
        self._table = space.rows("table", n)
        places = [plan.places[place] for place in (("lower", 1), ("lower", 0), ("upper", 1))]
        self._lower, self._constant, self._upper = (self._table[place] for place in places)
        self._points = self._table[places[0].start : places[2].stop]
        self.fills = [self._fill(step) for step in plan.fills]
        self._right = space.rows("weighted", n) if weighted else self._table
        self._head = self._table[: plan.n_weighted] if weighted else None
        self.calls = self._bind(plan, space)

    def _fill(self, step: Fill) -> Call:
        left, right, out = (self._table[rows] for rows in step[:3])
        if step.outer:
            shape = (len(left), len(right), out.shape[1])
            return np.multiply, left[:, None, :], right[None], out.reshape(shape)
        return np.multiply, left, right, out

    def _bind(self, plan: HalfSplit, space: Workspace) -> list[Call]:
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

    def run(self, rows: Float, weights: Float, frame: Float) -> None:
        """Add up n rows; the frame as two columns, 1 and 0 for the constant."""
        half = len(self._lower)
        self._lower[:], self._upper[:] = rows[:, :half].T, rows[:, half:].T
        self._constant.fill(1.0)
        np.multiply(self._points, frame[0], self._points)
        np.subtract(self._points, frame[1], self._points)
        for function, left, right, out in self.fills:
            function(left, right, out)
        if self._head is not None:
            np.multiply(self._head, weights, out=self._right)
        for function, left, right, out in self.calls:
            function(left, right, out)


class Workspace:
    """The memory that one thread reuses from block to block."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._memory = {"table": _aligned(table_rows(kernel.layout) * kernel.chunk)}
        self._works: dict[tuple[int, bool], Work] = {}
        plan = kernel.plan
        self.sums, self.part = _aligned(plan.n_sums), _aligned(min(plan.n_sums, _PART + TILE))
        self.flat = np.empty(kernel.layout.n_entries + 1)

    def rows(self, name: str, n: int) -> Float:
        """A table with n columns, contiguous."""
        if name not in self._memory:
            self._memory[name] = _aligned(self._kernel.plan.n_weighted * self._kernel.chunk)
        memory = self._memory[name]
        n_rows = len(memory) // self._kernel.chunk
        return memory[: n_rows * n].reshape(n_rows, n)

    def work(self, n: int, weighted: bool) -> Work:
        """The operations on a chunk of n rows; kept for full chunks only."""
        if (n, weighted) in self._works:
            return self._works[n, weighted]
        work = Work(self._kernel.plan, n, weighted, self)
        if n == self._kernel.chunk:
            self._works[n, weighted] = work
        return work


def _aligned(n: int) -> Float:
    """Memory for n numbers that begins with a cache line."""
    raw = np.empty(8 * n + _ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + 8 * n].view(np.float64)
