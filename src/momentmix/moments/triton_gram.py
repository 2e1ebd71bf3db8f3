"""Moments up to order 4 on an NVIDIA device: monomials and their products in one kernel.

| paper symbol | name here | shape |
|---|---|---|
| y in the units of the frame, then a row of ones and one of zeros | ``points`` | (S, d + 2, n) |
| [y]_B of some rows, B a block of monomials | ``left``, ``right`` | (BLOCK, DEPTH) |
| Σ y_A·y_B of a slab of rows | a tile of ``out`` | (BLOCK, BLOCK) |

The table of monomials is never written to memory: each program makes two blocks of it from the
points and multiplies them on the tensor cores in float64, for the tiles of the lower triangle only.
Triton comes with torch on Linux; without it, ``device_sums`` does the same by array operations.

Differs from the paper: the paper does not say how it forms the moments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.core.labels import Int
from momentmix.moments.device_plan import positions, suits_gram, table_sets
from momentmix.moments.layout import Layout

try:
    import triton
    import triton.language as tl
except ImportError:  # then nothing here is called
    triton = None

__all__ = ["DEFAULT", "Settings", "gram_slab_sums", "suits_triton"]

Float = NDArray[np.float64]

_CHUNK = 1 << 22  # rows whose points are held at once


class Settings(NamedTuple):
    """How the work is cut: side of a tile, rows at a time, warps of a program, pipeline stages."""

    block: int
    depth: int
    n_warps: int
    n_stages: int


DEFAULT = Settings(64, 16, 4, 3)


def _jit(function: Any) -> Any:
    return function if triton is None else triton.jit(function)


# fmt: off
@_jit
def _tile_sums(  # type: ignore[no-untyped-def]
    points, weights, out, first, second, lefts, rights, n_points, n_rows, n_tiles, first_tile,
    SAME: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr,
):
# fmt: on
    """One tile for one slab: monomials of a block times monomials of another, summed over rows."""
    tile, slab = tl.program_id(0), tl.program_id(1).to(tl.int64)  # tiles of a slab share the cache
    m, k = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    at, to = tl.load(lefts + tile) * BLOCK + m, tl.load(rights + tile) * BLOCK + m
    left1 = tl.load(first + at)[:, None] * n_rows + k[None, :]
    left2 = tl.load(second + at)[:, None] * n_rows + k[None, :]
    right1 = tl.load(first + to)[:, None] * n_rows + k[None, :]
    right2 = tl.load(second + to)[:, None] * n_rows + k[None, :]
    points += slab * n_points * n_rows
    weights += slab * n_rows
    total = tl.zeros((BLOCK, BLOCK), tl.float64)
    for _ in range(0, n_rows, DEPTH):
        right = tl.load(points + right1) * tl.load(points + right2)
        if SAME:  # noqa: SIM108, the kernel's language wants a statement
            left = right
        else:
            left = tl.load(points + left1) * tl.load(points + left2)
        if WEIGHTED:
            left = left * tl.load(weights + k)[None, :]
        total = tl.dot(left, tl.trans(right), total, out_dtype=tl.float64)
        points += DEPTH
        weights += DEPTH
    out += (slab * n_tiles + first_tile + tile) * BLOCK * BLOCK
    tl.store(out + m[:, None] * BLOCK + m[None, :], total)


class _Tiles(NamedTuple):
    """The two factors of each monomial, the tiles, and where the moments stand in them."""

    factors: Int  # (2, size): row of the points; d stands for 1, d + 1 (padding) for 0
    diagonal: Int  # (2, n): left and right block
    beside: Int
    positions: Int


@lru_cache(maxsize=16)
def _tiles(layout: Layout, block: int) -> _Tiles:
    d, sets = layout.n_features, table_sets(layout)
    used = sum(len(part) for part in sets)
    n_blocks = -(-used // block)
    factors = np.full((2, block * n_blocks), d + 1)
    factors[:, :used] = d
    first = 0
    for part in sets:
        factors[: part.shape[1], first : first + len(part)] = part.T
        first += len(part)
    diagonal, beside = np.stack([np.arange(n_blocks)] * 2), np.stack(np.tril_indices(n_blocks, -1))
    products = [
        (sets, slice(a * block, (a + 1) * block), sets, slice(b * block, (b + 1) * block))
        for a, b in np.concatenate([diagonal, beside], axis=1).T.tolist()
    ]
    return _Tiles(factors, diagonal, beside, positions(layout, products))


def suits_triton(layout: Layout) -> bool:
    """Whether the kernel can be used, for rows that are a torch tensor on an NVIDIA device."""
    return triton is not None and suits_gram(layout)


def gram_slab_sums(
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
    tiles = _tiles(layout, settings.block)
    indices = [
        torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32)).to(device)
        for values in (*tiles.factors, *tiles.diagonal, *tiles.beside)
    ]
    scale, shift = (torch.from_numpy(values).to(device)[:, None] for values in frame)
    n_chunks = -(-n_slabs * n // _CHUNK)
    step = depth * -(-n // (n_chunks * depth))
    points = torch.zeros((n_slabs, d + 2, step), dtype=torch.float64, device=device)
    points[:, d] = 1.0
    total = None
    for start in range(0, n, step):
        used = min(step, n - start)
        part = slabs[:, start : start + used].transpose(1, 2)
        torch.addcmul(-shift, part, scale, out=points[:, :d, :used])
        w = None if weights is None else weights[:, start : start + used].contiguous()
        if used < step:  # rows beyond the last count for nothing
            points[:, :, used:] = 0.0
            w = None if w is None else torch.nn.functional.pad(w, (0, step - used))
        found = _launch(points, w, indices, settings)
        total = found if total is None else total.add_(found)
    assert total is not None
    return total[:, torch.from_numpy(tiles.positions).to(device)]


def _launch(points: Any, weights: Any, indices: list[Any], settings: Settings) -> Any:
    """All tiles of some points, of shape (S, n_tiles · BLOCK²)."""
    import torch

    first, second, *blocks = indices
    n_slabs, n_points, n = points.shape
    n_tiles = len(blocks[0]) + len(blocks[2])
    shape = (n_slabs, n_tiles * settings.block**2)
    out = torch.empty(shape, dtype=torch.float64, device=points.device)
    for same, lefts, rights in ((True, *blocks[:2]), (False, *blocks[2:])):
        if len(lefts):
            _tile_sums[(len(lefts), n_slabs)](
                points, points if weights is None else weights, out, first, second, lefts, rights,
                n_points, n, n_tiles, 0 if same else len(blocks[0]), SAME=same,
                WEIGHTED=weights is not None, BLOCK=settings.block, DEPTH=settings.depth,
                num_warps=settings.n_warps, num_stages=settings.n_stages,
            )  # fmt: skip
    return out
