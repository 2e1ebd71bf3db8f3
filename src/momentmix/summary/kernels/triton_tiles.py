"""Moments on an NVIDIA device: monomials and their products in one kernel, tile by tile.

| paper symbol | name here | shape |
|---|---|---|
| y in the units of the frame, then a row of ones and one of zeros | ``points`` | (S, d + 2, n) |
| [y]_B of some rows, B a block of monomials | ``left``, ``right`` | (BLOCK, DEPTH) |
| Σ y_A·y_B of a slab of rows | a tile of ``out`` | (BLOCK, BLOCK) |

The tables of monomials are never written to memory: each program makes two blocks of them from the
points and multiplies these on the tensor cores in float64. It loads the points of the next rows
while it multiplies. Which blocks belong together is the matter of ``tile_plan``. Triton comes with
torch on Linux; without it, ``device_sums`` does the same by array operations.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.summary.kernels.tile_plan import TilePlan, n_factors, tile_plan
from momentmix.summary.layout import Layout

try:
    import triton
    import triton.language as tl
except ImportError:  # then nothing here is called
    triton = None

__all__ = ["DEFAULT", "Settings", "suits_triton", "tiled_slab_sums"]

Float = NDArray[np.float64]

_CHUNK = 1 << 22  # rows whose points are held at once


class Settings(NamedTuple):
    """How the work is cut: side of a tile, rows at a time, warps of a program."""

    block: int
    depth: int
    n_warps: int


DEFAULT = Settings(64, 16, 4)


def _jit(function: Any) -> Any:
    return function if triton is None else triton.jit(function)


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


def suits_triton(layout: Layout) -> bool:
    """Whether the kernel can be used, for rows that are a torch tensor on an NVIDIA device."""
    return triton is not None and n_factors(layout) <= 3


def tiled_slab_sums(
    layout: Layout,
    slabs: Any,
    weights: Any,
    frame: tuple[Float, Float],
    settings: Settings = DEFAULT,
) -> Any:
    """Sums of all moments of each slab, as `device_sums.slab_sums`.

    Parameters
    ----------
    layout : Layout
        One that suits the kernel.
    slabs : float64 torch tensor of shape (S, n, n_features)
    weights : float64 torch tensor of shape (S, n), or None
    frame : (inverse scale, shift), NumPy arrays of shape (n_features,)
    settings : Settings

    Returns
    -------
    torch tensor of shape (S, n_entries)
    """
    import torch

    n_slabs, n, d = slabs.shape
    device, depth = slabs.device, settings.depth
    plan = tile_plan(layout, settings.block)
    indices = [
        torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32)).to(device)
        for values in (plan.lefts, plan.rights, plan.tiles)
    ]
    scale, shift = (torch.from_numpy(values).to(device)[:, None] for values in frame)
    n_chunks = -(-n_slabs * n // _CHUNK)
    step = depth * -(-n // (n_chunks * depth))
    size = n_slabs * (d + 2) * step
    memory = torch.zeros(size + depth, dtype=torch.float64, device=device)
    points = memory[:size].view(n_slabs, d + 2, step)
    points[:, d] = 1.0
    total = None
    for start in range(0, n, step):
        used = min(step, n - start)
        part = slabs[:, start : start + used].transpose(1, 2)
        torch.addcmul(-shift, part, scale, out=points[:, :d, :used])
        w = None
        if weights is not None:
            w = torch.zeros(n_slabs * step + depth, dtype=torch.float64, device=device)
            w[: n_slabs * step].view(n_slabs, step)[:, :used] = weights[:, start : start + used]
        if used < step:  # rows beyond the last count for nothing
            points[:, :, used:] = 0.0
        found = _launch(plan, points, w, indices, settings)
        total = found if total is None else total.add_(found)
    assert total is not None
    return total[:, torch.from_numpy(plan.positions).to(device)]


def _launch(
    plan: TilePlan, points: Any, weights: Any, indices: list[Any], settings: Settings
) -> Any:
    """All tiles of some points, of shape (S, n_tiles · BLOCK²)."""
    import torch

    lefts, rights, tiles = indices
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
