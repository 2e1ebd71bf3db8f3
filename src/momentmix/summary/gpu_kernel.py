"""Moments on an NVIDIA device: monomials and their products in one kernel, tile by tile.

| symbol | name here | shape |
|---|---|---|
| y in the units of the shard, then a row of ones and one of zeros | ``points`` | (S, d + 2, n) |
| [y]_B of some rows, B a block of monomials | ``left``, ``right`` | (BLOCK, DEPTH) |
| Σ y_A·y_B of a slab of rows | a tile of ``out`` | (BLOCK, BLOCK) |

The tables of monomials are never written to memory: each program makes two blocks of them from the
points and multiplies these on the tensor cores in float64. It loads the points of the next rows
while it multiplies. ``tile_plan`` says which blocks are multiplied. The high sections have a kernel
of their own, which reads the points once. Triton comes with torch on Linux; without it, and for
orders beyond 6, rows come to the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets
from momentmix.summary.kernel import Units
from momentmix.summary.tile_plan import TilePlan, n_factors, tile_plan
from momentmix.summary.layout import COMPLETE, Layout

try:
    import triton
    import triton.language as tl
except ImportError:  # then nothing here is called
    triton = None


_MOST_POWERS = 64  # features whose powers fit the registers of one program
_PARTS = 8  # programs that share the powers of a slab: enough to keep the device busy
_CHUNK = 1 << 22  # rows whose points are in memory at once: half a gigabyte for 15 features
_TURNED = 2048  # values of rows that a program turns into points


class Settings(NamedTuple):
    """Sizes of the work: side of a tile, rows at a time, warps of a program."""

    block: int
    depth: int
    n_warps: int


DEFAULT = Settings(64, 16, 4)  # the fastest on an H200 of those that fit its registers


def _jit(function: Any) -> Any:
    return function if triton is None else triton.jit(function)


# fmt: off
@_jit
def _turn(  # type: ignore[no-untyped-def]
    rows, units, points, n_features, n_rows, length, slab_step, row_step, column_step,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
# fmt: on
    """Some rows of a slab in units, features first."""
    slab = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (n < n_rows)[:, None] & (j < n_features)[None, :]
    at = n.to(tl.int64)[:, None] * row_step + j.to(tl.int64)[None, :] * column_step
    y = tl.load(rows + slab * slab_step + at, mask=inside, other=0.0)
    scale = tl.load(units + j, mask=j < n_features, other=0.0)
    shift = tl.load(units + n_features + j, mask=j < n_features, other=0.0)
    y = y * scale[None, :] - shift[None, :]
    place = slab * (n_features + 2) * length + j[:, None] * length + n[None, :]
    inside = (j < n_features)[:, None] & (n < n_rows)[None, :]
    tl.store(points + place, tl.trans(y), mask=inside)


# fmt: off
@_jit
def _tile_sums(  # type: ignore[no-untyped-def]
    points, weights, out, lefts, rights, n_lefts, n_rights, tiles, n_points, n_rows, first_tile,
    n_tiles, SAME: tl.constexpr, THREE: tl.constexpr, WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr, DEPTH: tl.constexpr,
):
# fmt: on
    """One tile for one slab: monomials of a block times monomials of another, summed over rows."""
    tile, slab = first_tile + tl.program_id(0), tl.program_id(1).to(tl.int64)
    m, k = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    at, to = tl.load(tiles + 2 * tile) * BLOCK + m, tl.load(tiles + 2 * tile + 1) * BLOCK + m
    # Where the two (or three) factors of each monomial stand among the points.
    left1 = tl.load(lefts + at)[:, None] * n_rows + k[None, :]
    left2 = tl.load(lefts + n_lefts + at)[:, None] * n_rows + k[None, :]
    right1 = tl.load(rights + to)[:, None] * n_rows + k[None, :]
    right2 = tl.load(rights + n_rights + to)[:, None] * n_rows + k[None, :]
    points += slab * n_points * n_rows
    weights += slab * n_rows
    left = tl.load(points + left1) * tl.load(points + left2)
    right = tl.load(points + right1) * tl.load(points + right2)
    if THREE:
        left3 = tl.load(lefts + 2 * n_lefts + at)[:, None] * n_rows + k[None, :]
        right3 = tl.load(rights + 2 * n_rights + to)[:, None] * n_rows + k[None, :]
        left = left * tl.load(points + left3)
        right = right * tl.load(points + right3)
    if WEIGHTED:
        left = left * tl.load(weights + k)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float64)
    for _ in tl.range(0, n_rows, DEPTH, num_stages=1):
        points += DEPTH  # beyond the last rows there are some more to read
        weights += DEPTH
        y1 = tl.load(points + right1)
        y2 = tl.load(points + right2)
        if THREE:
            y3 = tl.load(points + right3)
        if SAME and not WEIGHTED:
            total = tl.dot(right, tl.trans(right), total, out_dtype=tl.float64)
        else:
            x1 = tl.load(points + left1)
            x2 = tl.load(points + left2)
            if THREE:
                x3 = tl.load(points + left3)
            if WEIGHTED:
                w = tl.load(weights + k)[None, :]
            total = tl.dot(left, tl.trans(right), total, out_dtype=tl.float64)
            left = x1 * x2
            if THREE:
                left = left * x3
            if WEIGHTED:
                left = left * w
        right = y1 * y2
        if THREE:
            right = right * y3
    out += (slab * n_tiles + tile) * BLOCK * BLOCK
    tl.store(out + m[:, None] * BLOCK + m[None, :], total)


# fmt: off
@_jit
def _power_sums(  # type: ignore[no-untyped-def]
    points, weights, out, n_features, n_rows, n_steps, WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr, DEPTH: tl.constexpr,
):
# fmt: on
    """Some rows of a slab: y³·yᵀ, y²·(y²)ᵀ, and Σ w y³, Σ w y⁵, Σ w y⁶ for all features."""
    part, slab = tl.program_id(0), tl.program_id(1).to(tl.int64)
    m, k = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    feature = tl.where(m < n_features, m, n_features + 1)  # the row of zeros
    first = part * n_steps * DEPTH
    at = feature[:, None] * n_rows + k[None, :]
    points += slab * (n_features + 2) * n_rows + first
    weights += slab * n_rows + first
    cubed = tl.zeros((BLOCK, BLOCK), tl.float64)
    squares = tl.zeros((BLOCK, BLOCK), tl.float64)
    third = tl.zeros((BLOCK, DEPTH), tl.float64)
    fifth = tl.zeros((BLOCK, DEPTH), tl.float64)
    sixth = tl.zeros((BLOCK, DEPTH), tl.float64)
    for _ in tl.range(0, tl.minimum(n_steps * DEPTH, n_rows - first), DEPTH, num_stages=3):
        y = tl.load(points + at)
        y2 = y * y
        y3 = y2 * y
        left2, left3 = y2, y3
        if WEIGHTED:
            w = tl.load(weights + k)[None, :]
            left2, left3 = y2 * w, y3 * w
        cubed = tl.dot(left3, tl.trans(y), cubed, out_dtype=tl.float64)
        squares = tl.dot(left2, tl.trans(y2), squares, out_dtype=tl.float64)
        third += left3
        fifth += left3 * y2
        sixth += left3 * y3
        points += DEPTH
        weights += DEPTH
    out += (slab * tl.num_programs(0) + part) * (2 * BLOCK + 3) * BLOCK
    place = m[:, None] * BLOCK + m[None, :]
    tl.store(out + place, cubed)
    tl.store(out + BLOCK * BLOCK + place, squares)
    out += 2 * BLOCK * BLOCK
    tl.store(out + m, tl.sum(third, axis=1))
    tl.store(out + BLOCK + m, tl.sum(fifth, axis=1))
    tl.store(out + 2 * BLOCK + m, tl.sum(sixth, axis=1))


def _high_places(layout: Layout, block: int) -> Int:
    """Where the sums of the high sections stand in what `_power_sums` gives for a slab."""
    d, pair = layout.n_features, index_sets(layout.n_features, 2).T
    each, last = np.arange(d), 2 * block**2
    places = [last + each, each * (block + 1), last + block + each, last + 2 * block + each]
    if layout.high == COMPLETE:
        j, k = np.nonzero(~np.eye(d, dtype=bool))
        places += [j * block + k, block**2 + pair[0] * block + pair[1]]
    return np.concatenate(places)


class TritonExecutor:
    """Sums rows that are a torch tensor on an NVIDIA device, where the layout suits the kernel."""

    def __init__(self, layout: Layout, settings: Settings = DEFAULT) -> None:
        self._layout, self._settings = layout, settings
        self._plan = tile_plan(layout.without_high, settings.block)
        self._constants: _Constants | None = None

    @staticmethod
    def suits(layout: Layout) -> bool:
        """Whether the kernel can be used."""
        return triton is not None and n_factors(layout) <= 3

    def sums(self, rows: Any, weights: Any, units: Units) -> Any:
        """Sums of all moments of each slab; see `block_sums`."""
        import torch

        plan, depth = self._plan, self._settings.depth
        n_slabs, n, d = rows.shape
        device = rows.device
        if self._constants is None or self._constants.positions.device != device:
            self._constants = _Constants.on(device, self._layout, plan)
        constants, scales = self._constants, _sent(np.stack(units), device)
        n_chunks = -(-n_slabs * n // _CHUNK)
        step = depth * -(-n // (n_chunks * depth))
        size = n_slabs * (d + 2) * step
        memory = torch.empty(size + depth, dtype=torch.float64, device=device)
        points = memory[:size].view(n_slabs, d + 2, step)
        points[:, d], points[:, d + 1], memory[size:] = 1.0, 0.0, 0.0
        total = None
        for start in range(0, n, step):
            used = min(step, n - start)
            _launch_turn(rows[:, start : start + used], scales, points)
            w = None
            if weights is not None:
                w = torch.zeros(n_slabs * step + depth, dtype=torch.float64, device=device)
                w[: n_slabs * step].view(n_slabs, step)[:, :used] = weights[:, start : start + used]
            if used < step:  # rows beyond the last count for nothing
                points[:, :, used:] = 0.0
            sums = [_launch(plan, points, w, constants, self._settings)]
            if self._layout.high:
                sums.append(_launch_powers(self._layout, points, w, constants, depth))
            if total is None:
                total = sums
            else:
                for a, b in zip(total, sums, strict=True):
                    a.add_(b)
        assert total is not None
        total[0] = total[0][:, constants.positions]
        return torch.cat(total, dim=1)


def _sent(values: Any, device: Any) -> Any:
    """NumPy values on a device, without waiting for what that is doing."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class _Constants(NamedTuple):
    """Tables that the kernels read beside the points, on the device; see `TilePlan`."""

    lefts: Any
    rights: Any
    tiles: Any
    positions: Any
    high_places: Any

    @classmethod
    def on(cls, device: Any, layout: Layout, plan: TilePlan) -> _Constants:
        small = (values.astype(np.int32) for values in (plan.lefts, plan.rights, plan.tiles))
        small_enough = layout.high and layout.n_features <= _MOST_POWERS
        block = _powers_block(layout.n_features)
        places = _high_places(layout, block) if small_enough else np.empty(0, np.int64)
        return cls(*(_sent(values, device) for values in (*small, plan.positions, places)))


def _launch_turn(rows: Any, scales: Any, points: Any) -> None:
    """Rows (S, n, d) in units to the first points of each feature."""
    n_slabs, n, d = rows.shape
    columns = min(64, max(16, 1 << (d - 1).bit_length()))
    height = _TURNED // columns
    _turn[(-(-n // height), n_slabs, -(-d // columns))](
        rows, scales, points, d, n, points.shape[2], *rows.stride(), ROWS=height, COLUMNS=columns,
        num_warps=4,
    )  # fmt: skip


def _powers_block(n_features: int) -> int:
    """Features of a program of `_power_sums`, filled up."""
    return max(16, 1 << (n_features - 1).bit_length())


def _launch_powers(
    layout: Layout, points: Any, weights: Any, constants: _Constants, depth: int
) -> Any:
    """Sums of the high sections of some points, of shape (S, number of their entries)."""
    import torch

    n_slabs, n_points, n = points.shape
    if n_points - 2 > _MOST_POWERS:
        if weights is not None:
            weights = weights[: n_slabs * n].view(n_slabs, n)
        return _high_sums(layout, points[:, :-2], weights)
    block = _powers_block(n_points - 2)
    n_steps = -(-n // (_PARTS * depth))
    n_parts = -(-n // (n_steps * depth))
    shape = (n_slabs, n_parts, (2 * block + 3) * block)
    out = torch.empty(shape, dtype=torch.float64, device=points.device)
    _power_sums[(n_parts, n_slabs)](
        points, points if weights is None else weights, out, n_points - 2, n, n_steps,
        WEIGHTED=weights is not None, BLOCK=block, DEPTH=depth, num_warps=block // 16,
    )  # fmt: skip
    return out.sum(dim=1)[:, constants.high_places]


def _high_sums(layout: Layout, points: Any, weights: Any) -> Any:
    """The same by operations of torch, for more features than fit the kernel."""
    import torch

    squares = points * points
    w2 = squares if weights is None else squares * weights[:, None, :]
    w3 = w2 * points
    parts = [(w3 * factor).sum(dim=2) for factor in (1.0, points, squares, squares * points)]
    if layout.high == COMPLETE:
        j, k = np.nonzero(~np.eye(layout.n_features, dtype=bool))
        low, high = index_sets(layout.n_features, 2).T.copy()
        parts += [(w3 @ points.mT)[:, j, k], (w2 @ squares.mT)[:, low, high]]
    return torch.cat(parts, dim=1)


def _launch(
    plan: TilePlan, points: Any, weights: Any, constants: _Constants, settings: Settings
) -> Any:
    """All tiles of some points, of shape (S, n_tiles · BLOCK²)."""
    import torch

    lefts, rights, tiles = constants[:3]
    n_slabs, n_points, n = points.shape
    shape = (n_slabs, len(tiles) * settings.block**2)
    out = torch.empty(shape, dtype=torch.float64, device=points.device)
    for same, first, last in ((True, 0, plan.n_same), (False, plan.n_same, len(tiles))):
        if first < last:
            _tile_sums[(last - first, n_slabs)](
                points, points if weights is None else weights, out, lefts, rights,
                lefts.shape[1], rights.shape[1], tiles, n_points, n, first, len(tiles), SAME=same,
                THREE=len(lefts) == 3, WEIGHTED=weights is not None, BLOCK=settings.block,
                DEPTH=settings.depth, num_warps=settings.n_warps,
            )  # fmt: skip
    return out
