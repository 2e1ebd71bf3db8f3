"""Blocks of NumPy rows → the sums of all their moments, by compiled code.

The plan of ``half_split`` becomes a table of numbers that one loop in C runs through
(``native/sums.h``): units, chunks, monomials, products. The interpreter is left once for many
blocks, so threads run beside it. The order of all additions is fixed, and the same for every
instruction set, so that the sums are a function of the block on all processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import readable, weight_squares
from momentmix.native import code
from momentmix.summary.kernels.array_sums import ArrayExecutor, HostExecutor, Units
from momentmix.summary.kernels.half_split import Fill, half_split_plan
from momentmix.summary.layout import Layout

_EACH, _OUTER, _PRODUCT = 0, 1, 2  # kinds of steps, as in native/module.c
_ALIGNMENT = 64  # bytes of a cache line; products of vectors off it take twice the time
_FEW = 5000  # moments: their memory is a megabyte or two for each thread
_LANE_NUMBERS = 1 << 23  # in all lanes of digits, 64 MB; threads share them beyond


class NativeExecutor:
    """Sums blocks by compiled code."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self._program = layout, _program(layout, code.tile_shape())
        self._spaces: SimpleQueue[Float] = SimpleQueue()  # of calls that are done

    def sums(self, rows: Float, weights: Float | None, units: Units) -> Float:
        """Sums of all moments of each slab; see `Executor`."""
        result = np.empty((len(rows), self.layout.n_entries))
        with self._space(1) as space:
            code.sum_blocks(*self._arguments(rows, weights, units, space), result)
        return result

    def add_blocks(
        self, blocks: Float, weights: Float | None, units: Units, digits: Any, n_digits: int,
        n_threads: int, limit: float, is_far: Int,
    ) -> None:  # fmt: skip
        """Add the sums of every block to exact sums; see `HostExecutor`."""
        n_threads = max(1, min(n_threads, len(blocks)))
        size = n_digits * (self.layout.n_entries + 1)
        n_lanes = max(1, min(n_threads, _LANE_NUMBERS // size))
        lanes, rounders = digits.lanes(len(blocks), n_digits, n_lanes)
        squares = weight_squares(blocks, weights)
        with self._space(n_threads) as space:
            arguments = self._arguments(blocks, weights, units, space)
            result = squares, rounders, lanes, n_lanes, n_threads
            code.add_blocks(*arguments, *result, limit, is_far)

    def _arguments(
        self, blocks: Float, weights: Float | None, units: Units, space: Float
    ) -> tuple[Any, ...]:
        n_blocks, n, _ = blocks.shape
        weights = None if weights is None else readable(np.ascontiguousarray(weights))
        rows, (shape, steps, positions, _) = readable(np.ascontiguousarray(blocks)), self._program
        return shape, steps, positions, rows, weights, np.array(units), n_blocks, n, space

    @contextmanager
    def _space(self, n_threads: int) -> Iterator[Float]:
        """Memory for so many threads, reused from call to call."""
        try:
            space = self._spaces.get_nowait()
        except Empty:
            space = _aligned(0)
        if len(space) < n_threads * self._program.space:
            space = _aligned(n_threads * self._program.space)
        try:
            yield space
        finally:
            self._spaces.put(space)


def _aligned(n: int) -> Float:
    """Memory for n numbers that begins with a cache line."""
    raw = np.empty(8 * n + _ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + 8 * n].view(np.float64)


class _Program(NamedTuple):
    """A plan as compiled code reads it."""

    shape: tuple[int, ...]  # features, those of the first half, row of the first point, sizes
    steps: Int  # kind, left rows, right rows, place of the result, (n_steps, 6)
    positions: Int  # of each moment among the sums
    space: int  # numbers that one thread works on


@lru_cache(maxsize=4)
def _program(layout: Layout, tile: tuple[int, int]) -> _Program:
    plan, lines = half_split_plan(layout), []
    order = np.empty(plan.n_sums, dtype=np.int64)
    for step in [*plan.fills, *plan.steps]:
        if isinstance(step, Fill):
            kind = _OUTER if step.outer else _EACH
            left, right, place = step.left, step.right, step.out.start
        else:
            kind, left, right, place = _PRODUCT, step.rows, step.columns, step.start
            n_rows, n_columns = left.stop - left.start, right.stop - right.start
            part = order[place : place + n_rows * n_columns].reshape(n_rows, n_columns)
            part[:] = place + tile_order(n_rows, n_columns, tile)
        lines.append([kind, left.start, left.stop, right.start, right.stop, place])
    points = plan.first_points
    sizes = (plan.n_monomials, plan.n_weighted, plan.n_sums, layout.n_entries, len(plan.fills))
    return _Program(
        shape=(layout.n_features, points.stop - points.start, points.start, *sizes),
        steps=np.array(lines, dtype=np.int64),
        positions=order[plan.positions],
        space=code.space_size(*sizes[:4]),
    )


def tile_order(n_rows: int, n_columns: int, tile: tuple[int, int]) -> Int:
    """Return where the entries of a product stand: tile by tile, of nearly equal sizes."""
    (rows, top, height), (columns, left, width) = map(_cuts, (n_rows, n_columns), tile)
    rows, top, height = rows[:, None], top[:, None], height[:, None]
    return np.asarray(top * n_columns + height * left + (rows - top) * width + columns - left)


def _cuts(n: int, most: int) -> tuple[Int, Int, Int]:
    """Return 0 … n − 1 in as few parts as will do: numbers, and starts and sizes of their parts."""
    n_parts = -(-n // most)
    ends = n * np.arange(n_parts + 1) // n_parts
    sizes = np.diff(ends)
    return np.arange(n), np.repeat(ends[:-1], sizes), np.repeat(sizes, sizes)


def host_executor(layout: Layout) -> HostExecutor:
    """Return the executor for NumPy rows: the same from the first row on, whatever their number."""
    if code is None:
        return ArrayExecutor(layout, np)
    is_shared = layout.n_entries <= _FEW
    return _native(layout, code.tile_shape()) if is_shared else NativeExecutor(layout)


@lru_cache(maxsize=4)
def _native(layout: Layout, tile: tuple[int, int]) -> NativeExecutor:
    """One for all shards of few moments, whose time its memory would take to make."""
    return NativeExecutor(layout)
