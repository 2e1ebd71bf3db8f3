"""Sums of all moments of blocks of NumPy rows, exactly added up in digits.

| symbol | name here | shape |
|---|---|---|
| A, half of I = A ∪ B: the highest indices | rows of ``lefts`` | (n_left, w) |
| B, the others, at most as many | among ``rights`` | (n_right, w) |
| Σ w y_A y_B = Σ w y_I | a cell of a strip | (columns, height) |

Index 0 is the constant 1, feature j has index j + 1; monomials have zeros in front. Both lists are
ordered so that right monomials whose products with neighboring left ones are moments stand in a few
runs. A *strip* is the product of at most `height` left monomials, of equal size and repetitions,
with such a run. Each monomial is the product of a right one and a feature.

NumPy is the specification of the compiled code (``native/sums.h``), and its fall-back, which takes
five to eight times as long. Compiled sums have the same bits on every processor.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import readable
from momentmix.native import code
from momentmix.parallel import few_threads
from momentmix.summary.digits import rounder
from momentmix.summary.layout import Layout, products_of

Units = tuple[Float, Float]
"""Inverse scale (powers of two) and shift (integers), each of shape (n_features,)."""

_HEIGHT = 64  # of a strip for NumPy: fewer waste less, but the products become small
_NUMBERS = 1 << 17  # of a table: 1 MB


def block_digits(
    layout: Layout,
    rows: Float,
    weights: Float | None,
    units: Units,
    n_digits: int,
    n_threads: int = 1,
    *,
    each: bool = False,
) -> Float:
    """Σ w·(all monomials of the layout), z = rows·inverse scale − shift, of blocks of rows.

    Rows (n_blocks, n, n_features) and weights (n_blocks, n), or None, are float64. The result are
    digits of the sum at the places of `rounder`, (n_digits, n_entries); with `each` those of every
    block, (n_blocks, n_digits, n_entries).
    """
    n_parts = len(rows) if each else min(n_threads, len(rows)) if code is not None else 1
    digits = np.zeros((n_parts, n_digits, layout.n_entries))
    if code is None:
        for number, sums in enumerate(block_sums(layout, rows, weights, units)):
            add_digits(sums, digits[number if each else 0])
        return digits if each else digits[0]
    _, _, *tables = plan(layout, code.STRIP)
    rows = readable(np.ascontiguousarray(rows))
    weights = None if weights is None else readable(np.ascontiguousarray(weights))
    rounders = np.array([rounder(k) for k in range(n_digits)])
    code.add_blocks(
        *tables, rows, weights, np.array(units), rows.shape[1], rounders, digits, n_threads
    )
    return digits if each else digits.sum(axis=0)  # exact, as all digits are


def add_digits(values: Float, digits: Float) -> None:
    """Split values (n,), overwritten, into digits and add these to `digits` (n_digits, n)."""
    for k in range(len(digits) - 1, -1, -1):
        digit = (values + rounder(k)) - rounder(k)
        values -= digit  # exact: the digit holds the leading bits of the rest
        digits[k] += digit


def block_sums(layout: Layout, rows: Float, weights: Float | None, units: Units) -> Float:
    """The sums of each block by NumPy, (n_blocks, n_entries); infinite or NaN of rows far away."""
    strips, (n_blocks, n, _) = plan(layout, _HEIGHT), rows.shape
    result = np.zeros((n_blocks, layout.n_entries))
    step = max(256, _NUMBERS // len(strips.rights))
    # The products are small: one BLAS thread. Powers of rows far away may overflow.
    with few_threads(True), np.errstate(over="ignore", invalid="ignore"):
        for i in range(n_blocks):
            for start in range(0, n, step):
                part = slice(start, start + step)
                points = (rows[i, part] * units[0] - units[1]).T
                result[i] += _moments(strips, points, None if weights is None else weights[i, part])
    return result


def _moments(strips: Plan, points: Float, weights: Float | None) -> Float:
    table = np.empty((len(strips.rights), points.shape[1]))
    table[0], table[1 : len(points) + 1] = 1.0, points
    sizes = np.count_nonzero(strips.rights, axis=1)
    starts = np.searchsorted(sizes, np.arange(2, sizes[-1] + 2)).tolist()
    for first, last in pairwise(starts):  # monomials of one size, of those that are smaller
        one, other = strips.right_factors[first:last].T
        np.multiply(table[one], table[other], out=table[first:last])
    cells = []
    for top, bottom, first, last, _ in strips.strips.tolist():
        one, other = strips.left_factors[top:bottom].T
        left = table[one] * table[other]
        left = left if weights is None else left * weights
        cells.append((table[first:last] @ left.T).ravel())
    return np.concatenate(cells)[strips.positions]


# -- the plan -------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """Monomials, their products, and the place of each moment among these."""

    lefts: Int  # indices of left monomials
    rights: Int  # indices of right monomials: first the constant and all features
    left_factors: Int  # a right monomial and a feature for each left one, (n_left, 2)
    right_factors: Int  # the same for right ones
    strips: Int  # left ones from … to, right ones from … to, first cell, (n_strips, 5)
    positions: Int  # cell of each moment


@lru_cache(maxsize=8)
def plan(layout: Layout, height: int) -> Plan:
    """Return the plan: strips of at most `height` left monomials."""
    base = layout.n_features + 1
    left, right = _halves(layout)
    powers = base ** np.arange(left.shape[1])
    left_codes, right_codes = left @ powers, right @ powers  # in colex order

    def rest(codes: Int) -> Int:
        """Without the highest index."""
        return np.asarray(codes % powers[-1] * base)

    def ordered(codes: Int, by_lowest: bool) -> tuple[Int, Int, Int]:
        """Codes, indices and groups of equal size and repetitions."""
        monomials = codes[:, None] // powers % base
        is_repeated = (monomials[:, 1:] == monomials[:, :-1]) & (monomials[:, 1:] > 0)
        lowest = np.where(monomials > 0, monomials, base).min(axis=1) * by_lowest
        group = (monomials > 0).sum(axis=1) * base + is_repeated.sum(axis=1)
        order = np.lexsort((codes, lowest, group))
        return codes[order], monomials[order], group[order]

    all_left = np.unique(left_codes)
    all_right = np.concatenate([right_codes, rest(all_left), powers[-1] * np.arange(base)])
    for _ in powers:
        all_right = np.unique(np.concatenate([all_right, rest(all_right)]))
    all_left, lefts, groups = ordered(all_left, True)
    all_right, rights, _ = ordered(all_right, False)
    left_factors, right_factors = (
        np.stack([_ranks(rest(codes), all_right), monomials[:, -1]], axis=1)
        for codes, monomials in ((all_left, lefts), (all_right, rights))
    )

    _, group_starts, group = np.unique(groups, return_index=True, return_inverse=True)
    in_group = np.arange(len(lefts)) - group_starts[group]
    tops = np.flatnonzero(in_group % height == 0)
    heights = np.diff(np.append(tops, len(lefts)))
    band = np.repeat(np.arange(len(tops)), heights)  # of each left monomial

    row, column, n = _ranks(left_codes, all_left), _ranks(right_codes, all_right), len(rights)
    keys = band[row] * n + column
    needed = np.unique(keys)
    is_first = np.append(True, (np.diff(needed) > 1) | (np.diff(needed // n) > 0))
    first, last = needed[is_first], needed[np.append(is_first[1:], True)]
    top, size = tops[first // n], heights[first // n]
    starts = np.cumsum(np.append(0, (last - first + 1) * size))[:-1]
    strip = np.searchsorted(first, keys, side="right") - 1
    positions = starts[strip] + (keys - first[strip]) * size[strip] + row - top[strip]
    strips = np.stack([top, top + size, first % n, last % n + 1, starts], axis=1)
    return Plan(lefts, rights, left_factors, right_factors, strips, positions)


def _halves(layout: Layout) -> tuple[Int, Int]:
    """The indices of both halves of each moment.

    The left half has the highest indices. Repeated ones come last, where the right half has room
    for two: then few right monomials have repetitions.
    """
    base, indices = layout.n_features + 1, products_of(layout).indices.astype(np.int64)
    n_factors = (indices > 0).sum(axis=1, keepdims=True)
    is_same = np.pad(indices[:, 1:] == indices[:, :-1], ((0, 0), (1, 1)))
    is_repeated = is_same[:, 1:] | is_same[:, :-1]
    shift = np.where(is_repeated, np.where(n_factors < 4, base, -base), 0)
    indices = -np.sort(np.where(indices > 0, -2 * base - indices - shift, 0), axis=1) % base
    sizes = (n_factors + 1) // 2
    is_left, width = np.arange(indices.shape[1]) < sizes, int(sizes.max())
    left, right = (np.sort(np.where(chosen, indices, 0), axis=1) for chosen in (is_left, ~is_left))
    return left[:, -width:], right[:, -width:]


def _ranks(codes: Int, among: Int) -> Int:
    """Where codes stand in a list."""
    order = np.argsort(among)
    return np.asarray(order[np.searchsorted(among, codes, sorter=order)])
