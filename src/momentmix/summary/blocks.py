"""Rows → blocks → exact sums: the shard that is being filled.

Rows are gathered across calls into blocks whose sizes follow from their numbers. The first block
sets the frame of the shard. A block whose bounds or means lie far from it is summed in a frame of
its own, as far as its features need one. At a *look*, after 1, 2, 4, … 256, 512, 768, … blocks, the
frame of the last block becomes that of the following, so that drifting rows are rarely far. So the
sums are a function of the rows in their order, not of how these were cut into calls, nor of the
number of threads; and as everything after the float64 sum of a block is exact, blocks may be added
in any order.

*Accuracy.* A block's float64 sum of monomials of order t is wrong by a few 2^−53·Σ|z_I|, and the
standard error of that sum is about sqrt(Σ z_I²) about the mean; since the origin stays within a few
deviations of the mean of the block, the ratio is of the order of 2^−53·8^t. The quantum of 2^−96
units adds nothing visible: of a sixth power of 2^−6 units it is 2^−60.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from math import frexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import readable, weight_squares
from momentmix.errors import InputError
from momentmix.native import code
from momentmix.parallel import map_in_order
from momentmix.summary.digits import (
    DIGIT_BITS,
    QUANTUM_BITS,
    Frame,
    Masks,
    from_places,
    integers,
    join,
    reframed,
    rounder,
    summed,
    trimmed,
)
from momentmix.summary.frames import FAR, RowFrame, frame_of
from momentmix.summary.kernels.native_sums import host_executor
from momentmix.summary.layout import Layout
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema

_LARGEST_BLOCK = 4096  # rows: longer sums lose digits, and the price of a block is small by then
_SMALLEST_BLOCK = 1024
_DOUBLING = 64  # blocks of one size before they double
_LOOK = 256  # blocks between looks at the frame, once there are many
_MANY_MOMENTS = 100_000  # then splitting the sums of a block into digits costs as much as rows
_MOST_WORK = 1 << 32  # moments times rows, for each thread and call: an interrupt comes after it
_COPIED_BYTES = 1 << 20  # by each thread, of rows of another type or order, before they are summed
_MANY_VALUES = 1 << 19  # whose bounds are worth several threads
_MOST_BITS = 800  # of a monomial of one row; 2^223 rows or weights fit above it in float64
_MOST_FRAMES = 4  # of blocks far away whose sums are kept apart for a while
_MOST_ADDED = 1 << 20  # digits below 2^32 of their place; more would not fit 53 bits
_SEGMENT = 8192  # numbers at a time: they and their digits stay in the cache


class FramedSums(NamedTuple):
    """Exact sums in a frame, and Σ w² in quanta."""

    frame: Frame
    digits: Int
    weight_squares: int


def total(layout: Layout, parts: Iterable[FramedSums], masks: Masks = ()) -> FramedSums:
    """The sum of sums in the join of their frames: exact, whatever their order."""
    parts, by_frame = list(parts), dict[Frame, list[Int]]()
    for part in parts:  # parts of one frame move once
        by_frame.setdefault(part.frame, []).append(part.digits)
    frame = join(by_frame)
    moved = [reframed(layout, summed(alike), old, frame, masks) for old, alike in by_frame.items()]
    return FramedSums(frame, summed(moved), sum(part.weight_squares for part in parts))


def block_rows(layout: Layout, number: int) -> int:
    """Return the rows of a block of a shard, by its number: twice as many after each 64 blocks."""
    if layout.n_entries >= _MANY_MOMENTS:
        return _LARGEST_BLOCK
    return min(_LARGEST_BLOCK, _SMALLEST_BLOCK << min(number // _DOUBLING, 8))


def _next_look(n_blocks: int) -> int:
    """After how many blocks the frame is looked at next."""
    return 1 << n_blocks.bit_length() if n_blocks < _LOOK else (n_blocks // _LOOK + 1) * _LOOK


def block_extremes(blocks: Float, n_threads: int = 1) -> Float:
    """Minima and maxima, (n_blocks, 2, d), of contiguous blocks (n_blocks, n, d) without NaN."""
    n_blocks, n_rows, d = blocks.shape
    ends = np.empty((n_blocks, 2, d))
    if code is not None:
        n_threads = n_threads if blocks.size >= _MANY_VALUES else 1
        blocks = readable(np.ascontiguousarray(blocks))
        code.extremes(blocks, n_blocks, n_rows, d, ends, n_threads)
    else:
        ends[:, 0], ends[:, 1] = blocks.min(axis=1), blocks.max(axis=1)
    return ends


class BlockSums:
    """Running sums of blocks in one frame, and of Σ w² as their last entry, in 32-bit digits.

    Digits are float64 numbers at fixed binary places, whose sums are exact; only what lies below
    the quantum is rounded, once a block, half to even. Threads add to *lanes* of their own.
    """

    def __init__(self, layout: Layout, n_digits: int = 4) -> None:
        self._since_carry, self._all = 0, np.zeros((n_digits, layout.n_entries + 1))
        self._lanes = np.zeros((0, n_digits, 0))

    def copy(self) -> BlockSums:
        """Independent copy."""
        twin = BlockSums.__new__(BlockSums)
        twin.__dict__.update(self.__dict__)
        twin._all, twin._lanes = self._all.copy(), self._lanes.copy()
        return twin

    def add(self, values: Float, squares: Float) -> None:
        """Add flat vectors (n_vectors, n_entries), with Σ w² of each."""
        both = np.concatenate([values, squares[:, None]], axis=1)
        self._make_room(digits_needed(max(-float(both.min()), float(both.max()))), len(values))
        add_digits(both, self._all)

    def lanes(self, n_vectors: int, n_digits: int, n_lanes: int) -> tuple[Float, Float]:
        """Return lanes (n_lanes, K, n_entries + 1), K ≥ n_digits, to add to, and their rounders."""
        self._make_room(n_digits, n_vectors)
        if len(self._lanes) < n_lanes or self._lanes.shape[1] < n_digits:
            self._gather()
            self._lanes = np.zeros((n_lanes, *self._all.shape))
        return self._lanes, rounders(self._lanes.shape[1])

    def _gather(self) -> None:
        for lane in self._lanes:
            self._all[: len(lane)] += lane
        self._lanes = self._lanes[:0]

    def _make_room(self, n_digits: int, n_vectors: int) -> None:
        """Be ready to add so many vectors of numbers of so many digits."""
        if self._since_carry + n_vectors > _MOST_ADDED:
            self._gather()
            digits = from_places(self._all)
            places = DIGIT_BITS * np.arange(len(digits)) - QUANTUM_BITS
            self._all, self._since_carry = np.ldexp(digits.astype(float), places[:, None]), 1
        self._since_carry += n_vectors
        more = n_digits - len(self._all)
        if more > 0:
            self._all = np.concatenate([self._all, np.zeros((more, self._all.shape[1]))])

    def framed(self, frame: Frame) -> FramedSums:
        """The sums as whole numbers."""
        self._gather()
        digits = from_places(self._all)
        sums = np.ascontiguousarray(trimmed(digits[:, :-1]))
        return FramedSums(frame, sums, integers(digits[:, -1:])[0])


def digits_needed(largest: float) -> int:
    """Digits of a vector whose entries reach `largest` in size."""
    top = 0 if largest < 1 else frexp(largest)[1]
    return (top + QUANTUM_BITS) // DIGIT_BITS + 1


def rounders(n_digits: int) -> Float:
    """Constants that round to multiples of the places 0 … n_digits − 1."""
    return np.array([rounder(k) for k in range(n_digits)])


def add_digits(values: Float, digits: Float) -> None:
    """Split vectors (overwritten) into digits and add these; shapes (n_vectors, n) and (K, n)."""
    if code is not None:
        code.add_digits(np.ascontiguousarray(values), len(values), rounders(len(digits)), digits)
        return
    for start in range(0, values.shape[1], _SEGMENT):
        for rest in values[:, start : start + _SEGMENT]:
            for k in range(len(digits) - 1, -1, -1):
                digit = (rest + rounder(k)) - rounder(k)
                rest -= digit  # exact: the digit holds the leading bits of the rest
                digits[k, start : start + len(rest)] += digit


class OpenShard:
    """Sums of one shard while rows arrive.

    An error leaves it unusable: callers update a clone and keep it on success. Only rows that
    complete no block go into the shard itself; they count from the moment that `n_waiting` says so,
    and a clone made before that, by any thread, does not have them.
    """

    def __init__(self, layout: Layout, shard_id: bytes, schema: Schema | None = None) -> None:
        d = layout.n_features
        self.layout, self.shard_id, self.schema = layout, shard_id, schema
        self.executor = host_executor(layout)
        self.n_rows = self.n_blocks = 0
        self.frame: RowFrame | None = None  # before the first block
        self.last: RowFrame | None = None  # that of the last block, where it is another one
        self.sums = BlockSums(layout)
        self.far = dict[Frame, BlockSums]()  # sums of blocks in frames of their own
        self.folded: FramedSums | None = None
        self.minimum, self.maximum = np.full(d, np.inf), np.full(d, -np.inf)
        self.waiting = np.empty((_LARGEST_BLOCK, d))
        self.waiting_weights = np.empty(_LARGEST_BLOCK)
        self.n_waiting = 0

    def clone(self) -> OpenShard:
        """Independent copy: an update works on one, so that an error leaves the original alone."""
        twin, n = self._twin(), self.n_waiting
        for name in ("waiting", "waiting_weights"):
            own = getattr(self, name)
            setattr(twin, name, np.empty_like(own))
            getattr(twin, name)[:n] = own[:n]
        twin.n_waiting = n
        return twin

    def _twin(self) -> OpenShard:
        """Return a copy that shares the pending rows, but not rows that are added later."""
        twin = OpenShard.__new__(OpenShard)
        twin.__dict__.update(self.__dict__)
        twin.sums = self.sums.copy()
        twin.far = {frame: sums.copy() for frame, sums in self.far.items()}
        return twin

    @property
    def n_all(self) -> int:
        """Number of rows so far."""
        return self.n_rows + self.n_waiting

    @property
    def block_size(self) -> int:
        """Rows of the block that is being filled."""
        return block_rows(self.layout, self.n_blocks)

    # -- rows → blocks ------------------------------------------------------------------------

    def update(self, rows: NDArray[Any], weights: Float | None, n_threads: int) -> None:
        """Add checked rows of any real dtype."""
        start, n_rows = 0, len(rows)
        if self.n_waiting and self.n_waiting + n_rows >= self.block_size:
            start = self.block_size - self.n_waiting
            n = self._put(rows[:start], None if weights is None else weights[:start])
            self.n_waiting = 0
            self._add_block(self.waiting[:n], self.waiting_weights[:n])
        while start + self.block_size <= n_rows:
            stop = min(n_rows, start + self._rows_at_once(rows, n_threads))
            part = _as_blocks(rows[start:stop], n_threads)
            w = None if weights is None else weights[start:stop]
            start += self._add_full_blocks(part, w, n_threads)
        self.n_waiting = self._put(rows[start:], None if weights is None else weights[start:])

    def _rows_at_once(self, rows: NDArray[Any], n_threads: int) -> int:
        """Rows to look at together: all, unless they are to be copied."""
        if rows.dtype == np.float64 and rows.flags.c_contiguous:
            return len(rows)
        return max(self.block_size, n_threads * _COPIED_BYTES // (8 * self.layout.n_features))

    def _put(self, rows: NDArray[Any], weights: Float | None) -> int:
        """Append rows to the pending ones of a block; return the number that would be pending."""
        part = slice(self.n_waiting, self.n_waiting + len(rows))
        self.waiting[part] = rows
        self.waiting_weights[part] = 1.0 if weights is None else weights
        return part.stop

    def _add_full_blocks(self, rows: Float, weights: Float | None, n_threads: int) -> int:
        """Add the full blocks among rows, and return their number of rows."""
        d, start = self.layout.n_features, 0
        while start + self.block_size <= len(rows):
            size = self.block_size
            at_once = max(1, n_threads * _MOST_WORK // (self.layout.n_entries * size))
            of_this_size = _DOUBLING - self.n_blocks % _DOUBLING
            to_a_look = _next_look(self.n_blocks) - self.n_blocks
            n = min((len(rows) - start) // size, at_once, to_a_look)
            n = 1 if self.frame is None else n if size == _LARGEST_BLOCK else min(n, of_this_size)
            run = slice(start, start + n * size)
            w = None if weights is None else weights[run].reshape(n, size)
            if self.frame is None:
                self._add_block(rows[run], None if w is None else w[0])
            else:
                self._add_run(self.frame, rows[run].reshape(n, size, d), w, n_threads)
            start += n * size
        return start

    # -- blocks → sums ------------------------------------------------------------------------

    def _add_run(self, frame: RowFrame, run: Float, weights: Float | None, n_threads: int) -> None:
        """Add blocks: those near the frame on all threads, and each of the others alone."""
        ends = block_extremes(run, n_threads)
        is_wide = np.asarray(~frame.fits(ends).all(axis=1) | (self._bits(frame, ends) > _MOST_BITS))
        is_far: Int = np.asarray(is_wide | frame.excludes(ends), dtype=np.int64)
        if not is_far.all():
            needed = self._digits_for(frame, ends[is_far == 0], run.shape[1], weights)
            self.executor.add_blocks(
                run, weights, frame.units, self.sums, needed, n_threads, FAR, is_far
            )
        far = np.flatnonzero(is_far).tolist()

        def sums_of(i: int) -> tuple[RowFrame, Float]:
            w = None if weights is None else weights[i]
            return self._nearest(frame, run[i], w, ends[i], far=not is_wide[i])

        for i, (own, values) in zip(far, map_in_order(sums_of, far, n_threads), strict=True):
            w = None if weights is None else weights[i : i + 1]
            self._put_sums(frame, own, values, weight_squares(run[i : i + 1], w))
        if not is_far[-1]:
            self.last = None
        self.count(ends, run.shape[0] * run.shape[1], len(run))

    def _bits(self, frame: RowFrame, ends: Float) -> float:
        """Bits of the largest monomial of rows with these bounds."""
        bits = np.sort(np.log2(np.maximum(frame.distance(ends).max(axis=0), 1.0)))[::-1]
        order, squared_order = self.layout.order, self.layout.squared_order
        by_order = bits[:order].sum(), bits[0] + bits[: squared_order + 1].sum(), 6 * bits[0]
        return float(max(by_order))

    def _digits_for(self, frame: RowFrame, ends: Float, n_rows: int, weights: Float | None) -> int:
        """Digits that hold all sums of blocks of so many rows with these bounds."""
        heaviest = 1.0 if weights is None else max(1.0, float(weights.max()))
        bits = self._bits(frame, ends) + 2 * np.log2(heaviest) + np.log2(n_rows) + 1
        return digits_needed(2.0**bits)

    def _add_block(self, block: Float, weights: Float | None) -> None:
        """Add one block, which may be the first."""
        ends = block_extremes(block[None])
        if self.frame is None:
            self.frame = frame_of(block, ends[0])
        w = None if weights is None else weights[None]
        own, values = self._nearest(self.frame, block, weights, ends[0])
        self._put_sums(self.frame, own, values, weight_squares(block[None], w))
        self.count(ends, len(block), 1)

    def _nearest(
        self, first: RowFrame, block: Float, weights: Float | None, ends: Float, far: bool = False
    ) -> tuple[RowFrame, Float]:
        """The frame that a block needs, a function of its rows and the first frame; sums in it.

        `far` says that a mean in the first frame is known to be beyond the limit.
        """
        w, wrong, d = None if weights is None else weights[None], ~first.fits(ends), len(ends[0])
        frame, values = first, np.empty((1, 0))
        if wrong.any() or not far:
            frame = first.replaced(frame_of(block, ends), wrong) if wrong.any() else first
            values = self.executor.sums(block[None], w, frame.units)
            far = bool((np.abs(values[0, 1 : d + 1]) > FAR * values[0, 0]).any())
        if far:
            factors, origins = frame.units
            means = np.average(block, axis=0, weights=weights) * factors - origins
            frame = first.replaced(frame_of(block, ends), wrong | (np.abs(means) > FAR))
            values = self.executor.sums(block[None], w, frame.units)
        if not np.isfinite(values).all():
            raise _out_of_range(self.layout, self.schema, block, frame.distance(ends))
        return frame, values

    def _put_sums(self, first: RowFrame, frame: RowFrame, values: Float, squares: Float) -> None:
        """Add the sums of a block in some frame."""
        key, sums = frame.frame, self.sums
        self.last = None if key == first.frame else frame
        if self.last is not None:
            if key not in self.far and len(self.far) >= _MOST_FRAMES:
                self._fold()
            sums = self.far.setdefault(key, BlockSums(self.layout))
        sums.add(values, squares)

    def _fold(self) -> None:
        """Put the sums in frames of their own together."""
        parts = [sums.framed(frame) for frame, sums in self.far.items()]
        parts += [] if self.folded is None else [self.folded]
        self.folded, self.far = total(self.layout, parts), {}

    def count(self, ends: Float, n_rows: int, n_blocks: int) -> None:
        """Count rows of blocks with these bounds."""
        look = _next_look(self.n_blocks)
        self.n_rows, self.n_blocks = self.n_rows + n_rows, self.n_blocks + n_blocks
        if self.n_blocks >= look and self.last is not None and self.frame is not None:
            self.far[self.frame.frame] = self.sums
            self.frame, self.last = self.last, None
            self.sums = self.far.pop(self.frame.frame)
        self.minimum = np.minimum(self.minimum, ends[:, 0].min(axis=0))
        self.maximum = np.maximum(self.maximum, ends[:, 1].max(axis=0))

    def complete(self) -> OpenShard:
        """The shard with all pending rows in its sums; this one stays as it is."""
        twin = self._twin()
        if n := self.n_waiting:
            twin.n_waiting = 0
            twin._add_block(self.waiting[:n], self.waiting_weights[:n])
        return twin

    def framed(self) -> FramedSums:
        """The sums of all rows but the pending ones."""
        assert self.frame is not None
        parts = [self.sums.framed(self.frame.frame)]
        parts += [sums.framed(frame) for frame, sums in self.far.items()]
        return total(self.layout, [*parts, *([] if self.folded is None else [self.folded])])


def _out_of_range(
    layout: Layout, schema: Schema | None, block: Float, distance: Float
) -> InputError:
    column = int(np.argmax(distance))
    label = column_label(column, None if schema is None else schema.feature_names)
    value = block[np.argmax(np.abs(block[:, column])), column]
    return InputError(
        f"{label} reaches {value:.6g}, about 10^{np.log10(distance[column]):.0f} typical "
        f"deviations away from the other rows; its moments of order {layout.order} exceed the "
        "range of the sums. Remove or clip the outlier, or lower the order."
    )


def _as_blocks(rows: NDArray[Any], n_threads: int) -> Float:
    """Rows as contiguous float64, copied by all threads where they are not."""
    if rows.dtype == np.float64 and rows.flags.c_contiguous:
        return rows
    copy, cuts = np.empty(rows.shape), np.linspace(0, len(rows), n_threads + 1).astype(int)

    def fill(ends: tuple[int, int]) -> None:
        copy[slice(*ends)] = rows[slice(*ends)]

    deque(map_in_order(fill, pairwise(cuts.tolist()), n_threads), maxlen=0)
    return copy
