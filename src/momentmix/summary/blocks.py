"""Rows → blocks → exact sums: the shard that is being filled.

Rows are gathered across calls into blocks of equal size, and the first block sets the frame. A
block opens a new frame where all its rows lie on one side of the origin, farther than `FAR` units,
or where one lies beyond `WIDE` units. So the sums are a function of the rows in their order, not of
how these were cut into calls, nor of the number of threads.

*Units.* The unit of a feature is a power of four, at most the median of the non-zero absolute
deviations from the median of the first block, and at least 2^−44 of the largest value, since
float64 rows hold little below. A later frame keeps the unit or has a larger one. The origin is near
the median, on a coarse grid, so that parts of one table mostly have the same frame. The origin of a
feature that is constant so far is itself, an odd number of units: any other value opens a frame.

*Accuracy.* A block's float64 sum of monomials of order t is wrong by a few 2^−53·Σ|z_I| about the
origin. Where a share p of the rows of a shard lies near it, this is below 2^−53/p of Σ|z_I| about
the mean. The quantum of 2^−96 units adds nothing visible.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import readable
from momentmix.errors import InputError
from momentmix.native import code
from momentmix.parallel import usable_cores
from momentmix.summary.digits import (
    DIGIT_BITS,
    QUANTUM_BITS,
    Frame,
    FramedSums,
    from_places,
    in_whole_units,
    summed,
    total,
)
from momentmix.summary.kernel import Units, block_digits
from momentmix.summary.layout import Layout
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema
from momentmix.tables.validation import LARGEST_VALUE, check_values

FAR = 64.0  # units between the origin and the nearest row of a block
WIDE = 2.0**24  # units: rows beyond may belong to another scale
BLOCK = 2048  # rows: longer sums lose digits, shorter ones cost more
_GRID = 4  # units between origins
_FLOOR_BITS = 44  # of the 53 of float64: nine are left for deviations below the unit
_LEAST = -1000  # exponent of a unit: 2^1000 is a float64 number
_MOST_BITS = 1000  # of the sums of a block, in float64
_MOST_WORK = 1 << 32  # moments times rows, for each thread and call: an interrupt comes after it
_COPIED_BYTES = 1 << 20  # by each thread, of rows of another type or order, before they are summed
_MANY_VALUES = 1 << 19  # whose bounds are worth several threads
_MOST_FRAMES = 4  # whose sums are kept apart for a while: moving them takes as long as a block
_MORE_BITS, _MOST_BLOCKS = 6, 1 << 13  # of the last digit, and in one call: 51 bits with 32


# -- frames of rows ----------------------------------------------------------------------------


@lru_cache(maxsize=64)
def units_of(frame: Frame) -> Units:
    """Factors and origins of a frame, as kernels take them."""
    exponents = [_LEAST if e is None else e for e in frame.exponents]
    return np.ldexp(1.0, -np.array(exponents)), np.array(frame.origins, dtype=np.float64)


def in_units(frame: Frame, ends: Float) -> Float:
    """Bounds of rows, (…, 2, n_features), in the units of a frame."""
    factors, origins = units_of(frame)
    with np.errstate(over="ignore"):
        return np.asarray(ends * factors - origins)


@lru_cache(maxsize=64)
def _has_unit(frame: Frame) -> NDArray[np.bool_]:
    """Whether features vary; the origin of a constant one is itself, and odd."""
    pairs = zip(*frame, strict=True)
    return np.array([e is not None and k % _GRID == 0 for e, k in pairs])


def fits(frame: Frame, ends: Float) -> NDArray[np.bool_]:
    """Whether each feature of blocks with these bounds can be summed in a frame."""
    points = in_units(frame, ends)
    return np.asarray(_is_near(frame, points) & (np.abs(points).max(axis=-2) <= WIDE))


def _is_near(frame: Frame, points: Float) -> NDArray[np.bool_]:
    """Whether each feature has rows near the origin; constants have no other rows near them."""
    low, high = points[..., 0, :], points[..., 1, :]
    is_same = (low == 0.0) & (high == 0.0)
    return np.asarray(is_same | (_has_unit(frame) & (low <= FAR) & (high >= -FAR)))


def frame_of(block: Float, ends: Float, old: Frame) -> Frame:
    """The frame of a block with these bounds: the old one where the block fits it.

    A far feature has another origin, a wide one a larger unit.
    """
    (n, d), (low, high), points = block.shape, ends, in_units(old, ends)
    is_near = _is_near(old, points)
    stays = is_near & (np.abs(points).max(axis=0) <= WIDE)
    if stays.all():
        return old
    has_unit = _has_unit(old)
    least = np.where(has_unit, [e or 0 for e in old.exponents], _LEAST)
    columns = np.array(block.T, order="C")
    columns.partition((n - 1) // 2, axis=1)
    medians = columns[:, (n - 1) // 2].copy()
    deviations = np.abs(np.subtract(columns, medians[:, None], out=columns), out=columns)
    n_zeros = n - np.count_nonzero(deviations, axis=1)  # left out: the others stand behind them
    middles = np.minimum(n_zeros + (n - n_zeros - 1) // 2, n - 1)
    deviations.partition(np.unique(middles), axis=1)
    typical = np.where(low == high, _LEAST, np.frexp(deviations[np.arange(d), middles])[1] - 1)
    largest = np.maximum(np.maximum(-low, high), 2.0**_LEAST)
    floor = np.maximum(np.frexp(largest)[1] - _FLOOR_BITS, _LEAST)
    exponents = np.maximum(np.maximum(typical, floor) // 2 * 2, least)
    origins = _GRID * np.rint(np.ldexp(medians, -exponents) / _GRID)
    stays |= is_near & (exponents == least)
    units = list(zip(exponents.tolist(), map(int, origins.tolist()), strict=True))
    for j in np.flatnonzero((low == high) & ~has_unit).tolist():
        unit, multiple = in_whole_units(float(low[j]))
        units[j] = (unit, multiple) if unit is None or unit >= _LEAST else units[j]
    choices = zip(stays.tolist(), zip(*old, strict=True), units, strict=True)
    return Frame(*map(tuple, zip(*(a if stay else b for stay, a, b in choices), strict=True)))


def block_extremes(blocks: Float, n_threads: int = 1) -> Float:
    """Minima and maxima, (n_blocks, 2, d), of blocks (n_blocks, n, d); some are NaN with NaN."""
    n_blocks, n_rows, d = blocks.shape
    ends = np.empty((n_blocks, 2, d))
    if code is not None:
        n_threads = n_threads if blocks.size >= _MANY_VALUES else 1
        blocks = readable(np.ascontiguousarray(blocks))
        code.extremes(blocks, n_blocks, n_rows, d, ends, n_threads)
    else:
        ends[:, 0], ends[:, 1] = blocks.min(axis=1), blocks.max(axis=1)
    return ends


def digits_of_sums(layout: Layout, largest: Float, heaviest: float, n_rows: int) -> int | None:
    """Digits of sums of so many rows, whose features and weights reach these sizes.

    None where the sums are beyond float64 numbers.
    """
    bits = np.sort(np.log2(np.maximum(largest, 1.0)))[::-1]
    most = max(
        bits[: layout.order].sum(), bits[0] + bits[: layout.squared_order + 1].sum(), 6 * bits[0]
    )
    most += np.log2(max(1.0, heaviest)) + np.log2(n_rows) + 1
    return None if most > _MOST_BITS else digits_needed(2.0**most)


def digits_needed(largest: float) -> int:
    """Digits of numbers that reach `largest` in size; the last one may have some bits more."""
    return (max(frexp(largest)[1], 0) + QUANTUM_BITS - _MORE_BITS) // DIGIT_BITS + 1


def names_of(schema: Schema) -> tuple[str, ...] | None:
    """Names of features; None for numbers without any."""
    return None if schema.is_plain and not schema.column_names else schema.feature_names


# -- rows → blocks --------------------------------------------------------------------------------


class OpenShard:
    """Sums of one shard while rows arrive.

    An error leaves it unusable: callers update a copy, which is independent, and keep it on
    success.
    """

    def __init__(self, layout: Layout, shard_id: bytes | None, schema: Schema) -> None:
        d = layout.n_features
        self.layout, self.shard_id, self.schema = layout, shard_id, schema
        self.mark = ""  # of what is named by its contents, without an id
        self.n_rows = self.n_waiting = 0  # rows in the sums, and rows of an unfinished block
        self.frame = Frame.of_zeros(d)  # before the first block
        self.digits: Int = np.zeros((1, layout.n_entries), dtype=np.int64)
        self.weight_squares = 0  # in quanta
        self.others = tuple[FramedSums, ...]()  # in frames before this one
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.waiting = tuple[tuple[Float, Float], ...]()  # rows and weights

    def update(
        self,
        rows: NDArray[Any],
        weights: Float | None,
        n_threads: int | None,
        names: Any = None,
        first_row: int = 0,
    ) -> None:
        """Add rows of any real dtype, on as many threads as cores by default; check their values.

        `names` of the features and the number of the first row are for messages.
        """
        n_blocks = (self.n_waiting + len(rows)) // BLOCK
        n_threads = 1 if n_blocks < 2 else min(n_threads or usable_cores(), n_blocks)
        start = 0
        if self.n_waiting and n_blocks:
            start = BLOCK - self.n_waiting
            w = None if weights is None else weights[:start]
            self._wait_for(rows[:start], w, names, first_row)
            self._add_waiting()
        while start + BLOCK <= len(rows):
            n = self._blocks_at_once(rows, n_threads)
            part = slice(start, start + min(n, (len(rows) - start) // BLOCK) * BLOCK)
            blocks = np.ascontiguousarray(rows[part], dtype=np.float64)
            blocks = blocks.reshape(-1, BLOCK, self.layout.n_features)
            w = None if weights is None else weights[part].reshape(-1, BLOCK)
            ends = block_extremes(blocks, n_threads)
            if not (np.abs(ends) <= LARGEST_VALUE).all():
                check_values(blocks.reshape(-1, self.layout.n_features), names, first_row + start)
            self._add_blocks(blocks, w, ends, n_threads)
            start = part.stop
        if start < len(rows):
            w = None if weights is None else weights[start:]
            self._wait_for(rows[start:], w, names, first_row + start)

    def _blocks_at_once(self, rows: NDArray[Any], n_threads: int) -> int:
        """Blocks that are summed in one call, few where rows are to be copied."""
        n = min(_MOST_BLOCKS, n_threads * _MOST_WORK // (self.layout.n_entries * BLOCK))
        if rows.dtype != np.float64 or not rows.flags.c_contiguous:
            n = min(n, n_threads * _COPIED_BYTES // (8 * self.layout.n_features * BLOCK))
        return max(1, n)

    def _wait_for(self, rows: NDArray[Any], weights: Float | None, names: Any, first: int) -> None:
        """Keep rows, from row `first` of those that are added, until their block is complete."""
        rows = np.array(rows, dtype=np.float64)
        check_values(rows, names, first)
        weights = np.ones(len(rows)) if weights is None else weights.copy()
        self.waiting = (*self.waiting, (rows, weights))
        self.n_waiting += len(rows)

    def _add_waiting(self) -> None:
        """Add the rows that wait as one block."""
        rows, weights = (np.concatenate(x) for x in zip(*self.waiting, strict=True))
        self.waiting, self.n_waiting = (), 0
        self._add_blocks(rows[None], weights[None], block_extremes(rows[None]), 1)

    def complete(self) -> OpenShard:
        """The shard with all rows in its sums; this one stays as it is."""
        twin = copy(self)
        if twin.waiting:
            twin._add_waiting()
        return twin

    @property
    def framed(self) -> tuple[FramedSums, ...]:
        """The sums of all rows but the waiting ones, in each frame."""
        return (*self.others, FramedSums(self.frame, self.digits, self.weight_squares))

    # -- blocks → sums ------------------------------------------------------------------------

    def _add_blocks(
        self, blocks: Float, weights: Float | None, ends: Float, n_threads: int
    ) -> None:
        """Add blocks (n, n_rows, d) with these bounds, as many at a time as have one frame."""
        start = 0
        while start < len(blocks):
            self._open(frame_of(blocks[start], ends[start], self.frame))
            stop = start + 1
            if stop < len(blocks):
                are_near = fits(self.frame, ends[stop:]).all(axis=1)
                stop += int(np.argmin(np.append(are_near, False)))
            part = slice(start, stop)
            w = None if weights is None else weights[part]
            largest = np.abs(in_units(self.frame, ends[part])).max(axis=(0, 1))
            heaviest = 1.0 if w is None else float(w.max())
            n_digits = digits_of_sums(self.layout, largest, heaviest, blocks.shape[1])
            if n_digits is None:
                raise _out_of_range(self.layout, self.schema, ends[part], largest)
            units = units_of(self.frame)
            digits = block_digits(self.layout, blocks[part], w, units, n_digits, n_threads)
            squares = np.full(stop - start, float(blocks.shape[1]))
            squares = squares if w is None else np.vecdot(w, w)
            self.add(digits, squares, ends[part], blocks[part].shape[0] * blocks.shape[1])
            start = stop

    def _open(self, frame: Frame) -> None:
        """Go on in a frame."""
        if self.n_rows and frame != self.frame:
            parts = self.framed
            self.others = parts if len(parts) < _MOST_FRAMES else (total(self.layout, parts),)
            self.weight_squares = 0
            self.digits = np.zeros((1, self.layout.n_entries), dtype=np.int64)
        self.frame = frame

    def add(self, digits: Float, squares: Float, ends: Float, n_rows: int) -> None:
        """Add sums of rows of blocks with these bounds, and Σ w² of each, in the current frame."""
        self.digits = summed([self.digits, from_places(digits)])
        self.weight_squares += sum(int(ldexp(x, QUANTUM_BITS)) for x in squares.tolist())
        self.n_rows += n_rows
        self.minimum = np.minimum(self.minimum, ends[:, 0].min(axis=0))
        self.maximum = np.maximum(self.maximum, ends[:, 1].max(axis=0))


def _out_of_range(layout: Layout, schema: Schema, ends: Float, distance: Float) -> InputError:
    column = int(np.argmax(distance))
    label = column_label(column, names_of(schema))
    value = max(ends[..., column].ravel().tolist(), key=abs)
    return InputError(
        f"{label} reaches {value:.6g}, about 10^{np.log10(distance[column]):.0f} typical "
        f"deviations away from the other rows; its moments of order {layout.order} exceed the "
        "range of the sums. Remove or clip the outlier, or lower the order."
    )
