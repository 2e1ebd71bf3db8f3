"""Rows of a tensor → the open shard: large batches on an NVIDIA device, frames and exact sums here.

| symbol | name here | shape |
|---|---|---|
| y in the units of the shard, then a row of ones and one of zeros | ``points`` | (S, d + 2, n) |
| I = A ∪ B, half of the factors each | rows of ``lefts`` and ``rights`` | (f, …) |
| [y]_B of some rows, B a block of monomials | ``left``, ``right`` | (BLOCK, DEPTH) |
| Σ y_A·y_B of a slab of rows | a tile of ``out`` | (BLOCK, BLOCK) |

The first block, on the host, gives the frame. Slabs whose bounds fit it are summed where they lie;
others are taken apart, and at the size of a block go the way of NumPy rows. So do all rows on other
devices, of orders beyond 6, of more than 64 features, and without Triton. The device gets the work
of all slabs before the host waits for any sums. The float64 sum of a batch of n rows is wrong by
about 2^−53·3^t·sqrt(n) standard errors at order t: 1e-10 in the largest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import as_float64, free_bytes, is_cuda_tensor, namespace, to_numpy
from momentmix.index_sets import index_sets
from momentmix.summary.blocks import BLOCK as BLOCK_ROWS
from momentmix.summary.blocks import OpenShard, digits_needed, fits, units_of
from momentmix.summary.kernel import add_digits
from momentmix.summary.layout import Layout, products_of

try:
    import triton
    import triton.language as tl
except ImportError:  # then nothing that needs it is called
    triton = None

BLOCK, DEPTH, N_WARPS = 64, 16, 4  # side of a tile, rows at a time, warps: the fastest on an H200
_MOST_FACTORS, _MOST_FEATURES = 3, 64  # of a monomial in a list; whose powers fit the registers
_MOST_IN_TRIANGLE = 60  # features: of more, most products of pairs are no moments of order 3 or 4
_PARTS = 8  # programs that share the powers of a slab: enough to keep the device busy
_CHUNK = 1 << 22  # rows whose points are in memory at once: half a gigabyte for 15 features
_TURNED = 2048  # values of rows that a program turns into points
_GROWTH = 16  # of the rows whose bounds are taken at once, after some that fitted
_LARGEST = {True: 1 << 27, False: 1 << 23}  # rows of a batch, up to order 4 and beyond
_MOST_SLABS, _SLAB_ENTRIES = 1024, 1 << 24  # so many fill a device; their sums have to fit too
_SLAB_ROWS = 1024  # fewer are not worth a product
_WIDE = 64  # rows side by side whose bounds are taken: the full rate of the memory


def add_device_rows(
    shard: OpenShard, rows: Any, weights: Float | None, n_threads: int | None, names: Any
) -> None:
    """Add rows of a tensor where they lie; their weights, if any, are NumPy's."""
    n_rows, start, look = len(rows), 0, len(rows)  # `look`: rows whose bounds are taken at once

    def add_on_host(stop: int) -> None:
        nonlocal start
        part = to_numpy(as_float64(rows[start:stop]))
        w = None if weights is None else weights[start:stop]
        shard.update(part, w, n_threads, names, start)
        start = stop

    while suits(shard.layout, rows) and n_rows - start >= BLOCK_ROWS:
        if shard.n_waiting or not shard.n_rows:  # a block has to be filled, or gives the units
            add_on_host(start + BLOCK_ROWS - shard.n_waiting)
            continue
        n = min(look, n_rows - start)
        length = _slab_length(shard.layout, rows, n)
        stop = start + n // length * length
        slabs = rows[start:stop].reshape(-1, length, rows.shape[1])
        ends = _ends(slabs)
        # NaN and numbers that are too large fit no frame: the host names them.
        n_near = int(np.argmin(np.append(fits(shard.frame, ends).all(axis=1), False)))
        if n_near:
            stop, look = start + n_near * length, min(n_rows, look * _GROWTH)
            w = None if weights is None else weights[start:stop].reshape(-1, length)
            _add_slabs(shard, slabs[:n_near], w, ends[:n_near])
            start = stop
        elif length <= 2 * BLOCK_ROWS:
            add_on_host(start + BLOCK_ROWS)
        else:
            look = length
    step = max(BLOCK_ROWS, free_bytes(rows) // (16 * rows.shape[1]))
    while start < n_rows:
        add_on_host(min(n_rows, start + step))


def suits(layout: Layout, rows: Any) -> bool:
    """Whether the kernel can sum the rows of a tensor where they lie."""
    is_here = is_cuda_tensor(rows) and triton is not None
    return is_here and _n_factors(layout) <= _MOST_FACTORS and layout.n_features <= _MOST_FEATURES


def _slab_length(layout: Layout, rows: Any, n_rows: int) -> int:
    """Rows of each slab, whose bounds have to fit the frame."""
    n_slabs = min(_MOST_SLABS, max(1, _SLAB_ENTRIES // layout.n_entries))
    batch = min(n_rows, _batch_rows(layout, rows))
    return max(_SLAB_ROWS, batch // n_slabs // _WIDE * _WIDE)


def _batch_rows(layout: Layout, rows: Any) -> int:
    """Rows that are summed at once."""
    return min(_LARGEST[layout.order <= 4], free_bytes(rows) // (16 * layout.n_features))


def _add_slabs(shard: OpenShard, slabs: Any, weights: Float | None, ends: Float) -> None:
    """Add slabs (S, n, d) with these bounds: all are started before the first sums are awaited."""
    import torch

    layout, sums, squares = shard.layout, [], []
    n_slabs, n, _ = slabs.shape
    scales = torch.from_numpy(np.stack(units_of(shard.frame))).to(slabs.device)
    step = max(1, _batch_rows(layout, slabs) // n)
    for start in range(0, n_slabs, step):
        part, w = as_float64(slabs[start : start + step]), None
        squares.append(float(part.shape[0] * n))
        if weights is not None:
            of_part = weights[start : start + step]
            squares[-1] = float(np.vdot(of_part, of_part))
            w = torch.from_numpy(of_part).to(slabs.device)
        sums.append(moment_sums(layout, part, w, scales).sum(dim=0))
    values = to_numpy(torch.stack(sums))
    digits = np.zeros((digits_needed(len(sums) * float(np.abs(values).max())), values.shape[1]))
    for batch in values:
        add_digits(batch, digits)
    shard.add(digits, np.array(squares), ends, n_slabs * n)


def _ends(slabs: Any) -> Float:
    """Minimum and maximum of each feature of slabs, (S, 2, d), NaN where there is one."""
    torch, (n_slabs, n, d) = namespace(slabs), slabs.shape
    slabs = slabs if slabs.is_floating_point() else as_float64(slabs)
    wide = slabs.reshape(n_slabs, n // _WIDE, _WIDE * d).aminmax(dim=1)
    low, high = (x.view(n_slabs, _WIDE, d) for x in wide)
    return to_numpy(torch.stack([low.amin(dim=1), high.amax(dim=1)], dim=1).double())


def _n_factors(layout: Layout) -> int:
    """Highest degree of a monomial in the lists, at least 2."""
    return max(2, -(-max(layout.order, layout.squared_order + 2) // 2))


# -- kernels --------------------------------------------------------------------------------------


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


class _Tables(NamedTuple):
    """What the kernels read beside the points, on the device; see `TilePlan`."""

    lefts: Any
    rights: Any
    tiles: Any
    positions: Any
    high_places: Any
    n_same: int


@lru_cache(maxsize=4)
def _tables(layout: Layout, device: Any) -> _Tables:
    import torch

    plan = tile_plan(layout)
    high = _high_places(layout, _powers_block(layout.n_features))
    small = (values.astype(np.int32) for values in (plan.lefts, plan.rights, plan.tiles))
    sent = [torch.from_numpy(np.ascontiguousarray(x)) for x in (*small, plan.positions, high)]
    lefts, rights, tiles, positions, high = (values.to(device) for values in sent)
    return _Tables(lefts, rights, tiles, positions, high, plan.n_same)


def moment_sums(layout: Layout, rows: Any, weights: Any, scales: Any) -> Any:
    """Sums of all moments of each slab of rows (S, n, d), as `kernel.block_sums`, on the device.

    `scales` are the units, (2, d), there.
    """
    import torch

    n_slabs, n, d = rows.shape
    device, tables = rows.device, _tables(layout, rows.device)
    n_chunks = -(-n_slabs * n // _CHUNK)
    step = DEPTH * -(-n // (n_chunks * DEPTH))
    size = n_slabs * (d + 2) * step
    memory = torch.empty(size + DEPTH, dtype=torch.float64, device=device)
    points = memory[:size].view(n_slabs, d + 2, step)
    points[:, d], points[:, d + 1], memory[size:] = 1.0, 0.0, 0.0
    total = None
    for start in range(0, n, step):
        used = min(step, n - start)
        _launch_turn(rows[:, start : start + used], scales, points)
        w = None
        if weights is not None:
            w = torch.zeros(n_slabs * step + DEPTH, dtype=torch.float64, device=device)
            w[: n_slabs * step].view(n_slabs, step)[:, :used] = weights[:, start : start + used]
        if used < step:  # rows beyond the last count for nothing
            points[:, :, used:] = 0.0
        sums = [_launch_tiles(points, w, tables), _launch_powers(points, w, tables)]
        total = sums if total is None else [a.add_(b) for a, b in zip(total, sums, strict=True)]
    assert total is not None
    return torch.cat([total[0][:, tables.positions], total[1]], dim=1)


def _launch_turn(rows: Any, scales: Any, points: Any) -> None:
    """Rows (S, n, d) in units to the first points of each feature."""
    n_slabs, n, d = rows.shape
    columns = min(64, max(16, 1 << (d - 1).bit_length()))
    height = _TURNED // columns
    _turn[(-(-n // height), n_slabs, -(-d // columns))](
        rows, scales, points, d, n, points.shape[2], *rows.stride(), ROWS=height, COLUMNS=columns,
        num_warps=4,
    )  # fmt: skip


def _launch_tiles(points: Any, weights: Any, tables: _Tables) -> Any:
    """All tiles of some points, of shape (S, n_tiles · BLOCK²)."""
    import torch

    lefts, rights, tiles, *_, n_same = tables
    n_slabs, n_points, n = points.shape
    shape = (n_slabs, len(tiles) * BLOCK**2)
    out = torch.empty(shape, dtype=torch.float64, device=points.device)
    for same, first, last in ((True, 0, n_same), (False, n_same, len(tiles))):
        if first < last:
            _tile_sums[(last - first, n_slabs)](
                points, points if weights is None else weights, out, lefts, rights,
                lefts.shape[1], rights.shape[1], tiles, n_points, n, first, len(tiles), SAME=same,
                THREE=len(lefts) == 3, WEIGHTED=weights is not None, BLOCK=BLOCK,
                DEPTH=DEPTH, num_warps=N_WARPS,
            )  # fmt: skip
    return out


def _powers_block(n_features: int) -> int:
    """Features of a program of `_power_sums`, filled up."""
    return max(16, 1 << (n_features - 1).bit_length())


def _launch_powers(points: Any, weights: Any, tables: _Tables) -> Any:
    """Sums of the high sections of some points, of shape (S, number of their entries)."""
    import torch

    n_slabs, n_points, n = points.shape
    block = _powers_block(n_points - 2)
    n_steps = -(-n // (_PARTS * DEPTH))
    n_parts = -(-n // (n_steps * DEPTH))
    shape = (n_slabs, n_parts, (2 * block + 3) * block)
    out = torch.empty(shape, dtype=torch.float64, device=points.device)
    _power_sums[(n_parts, n_slabs)](
        points, points if weights is None else weights, out, n_points - 2, n, n_steps,
        WEIGHTED=weights is not None, BLOCK=block, DEPTH=DEPTH, num_warps=block // 16,
    )  # fmt: skip
    return out.sum(dim=1)[:, tables.high_places]


def _high_places(layout: Layout, block: int) -> Int:
    """Where the sums of the high sections stand in what `_power_sums` gives for a slab."""
    d, pair = layout.n_features, index_sets(layout.n_features, 2).T
    each, last = np.arange(d), 2 * block**2
    positions = [last + each, each * (block + 1), last + block + each, last + 2 * block + each]
    if layout.squared_order:
        j, k = np.nonzero(~np.eye(d, dtype=bool))
        positions += [j * block + k, block**2 + pair[0] * block + pair[1]]
    return np.concatenate(positions)


# -- tiles of two lists of monomials that hold all moments ----------------------------------------


class TilePlan(NamedTuple):
    """Factors of the monomials, tiles, and where the moments stand.

    Monomials are products of features `lefts` and `rights`, padded to a multiple of the side of a
    tile; n_features is the constant 1, and n_features + 1 is 0 (padding).
    """

    lefts: Int
    rights: Int
    tiles: Int  # left and right block of each
    n_same: int  # so many tiles at the head have the same monomials on both sides
    positions: Int  # of each entry of the flat vector among the flattened tiles


def tile_plan(layout: Layout) -> TilePlan:
    """Return the plan with the fewer tiles, for all sections but the high ones."""
    d, f = layout.n_features, _n_factors(layout)
    indices = products_of(layout).indices[: layout.n_low].astype(np.int64)
    factors = np.sort(np.where(indices > 0, indices - 1, d), axis=1)[:, : 2 * f]
    plans = [_staircase(factors, d)]
    if f == 2 and d <= _MOST_IN_TRIANGLE:
        plans.insert(0, _triangle(factors, d))
    return min(plans, key=lambda plan: len(plan.tiles))


def _distinct(monomials: Int, d: int) -> tuple[Int, Int]:
    """Different monomials among rows of factors, and the number of each row among them."""
    codes = monomials @ (d + 1) ** np.arange(monomials.shape[1])
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return monomials[first], which


def _padded(monomials: Int, d: int) -> Int:
    """Factors (k, f) as columns, filled up with zeros to whole blocks."""
    n_more = -len(monomials) % BLOCK
    return np.pad(monomials, ((0, n_more), (0, 0)), constant_values=d + 1).T.copy()


def _plan(lefts: Int, rights: Int, left: Int, right: Int) -> TilePlan:
    """The plan, by the numbers of both monomials of each entry in the lists."""
    pairs = np.stack([left // BLOCK, right // BLOCK], axis=1)
    is_same = (pairs[:, 0] == pairs[:, 1]) & (lefts is rights)
    rows, which = np.unique(np.column_stack([~is_same, pairs]), axis=0, return_inverse=True)
    positions = which.reshape(-1) * BLOCK**2 + left % BLOCK * BLOCK + right % BLOCK
    return TilePlan(lefts, rights, rows[:, 1:], int((rows[:, 0] == 0).sum()), positions)


def _triangle(factors: Int, d: int) -> TilePlan:
    """Neighbors among the sorted factors go to different sides, so that no side has a square."""
    monomials, which = _distinct(np.concatenate([factors[:, 0::2], factors[:, 1::2]]), d)
    one, other = which.reshape(2, -1)
    swapped = one // BLOCK < other // BLOCK
    lists = _padded(monomials, d)
    left, right = np.where(swapped, other, one), np.where(swapped, one, other)
    return _plan(lists, lists, left, right)


def _staircase(factors: Int, d: int) -> TilePlan:
    """Small halves by their largest index, large ones by their smallest: few entries are wasted."""
    degrees, columns = (factors < d).sum(axis=1), np.arange(factors.shape[1])
    smaller = np.where(columns < degrees[:, None] // 2, factors, d)[:, : factors.shape[1] // 2]
    larger = np.sort(np.where(columns < degrees[:, None] // 2, d, factors), axis=1)
    lists, ranks = [], []
    for half, is_left in ((smaller, True), (larger[:, : smaller.shape[1]], False)):
        monomials, which = _distinct(half, d)
        inner = np.where(monomials < d, monomials, -1).max(axis=1)
        if not is_left:
            inner = -monomials.min(axis=1)
        order = np.lexsort([(monomials < d).sum(axis=1), inner])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        lists.append(_padded(monomials[order], d))
        ranks.append(place[which])
    (lefts, rights), (left, right) = lists, ranks
    return _plan(lefts, rights, left, right)
