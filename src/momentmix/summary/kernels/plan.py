"""How all moments become products of two lists of monomials, strip by strip.

| symbol | name here | shape |
|---|---|---|
| A, half of I = A ∪ B: the highest indices | rows of ``lefts`` | (n_left, w) |
| B, the others, at most as many | among ``rights`` | (n_right, w) |
| Σ w y_A y_B = Σ w y_I | a cell of a strip | (columns, height) |

Index 0 is the constant 1, feature j has index j + 1; monomials have zeros in front. Right monomials
are ordered by size, repetitions and highest index, left ones by size, repetitions and lowest index.
So the right monomials whose products with neighboring left ones are moments stand in a few runs. A
*strip* is the product of at most `height` left monomials, of equal size and repetitions, with such
a run.

Right monomials are closed under divisors: each monomial, a left one too, is the product of a right
one and a feature. Compiled code (``native/sums.h``) and NumPy follow the same plan. Triton, which
prefers square tiles, has ``tile_plan``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.summary.layout import Layout, factors_of


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
    base, factors = layout.n_features + 1, factors_of(layout)
    is_small = factors.degrees.sum(axis=1) < 4
    columns = []  # indices, plus or minus the base where they are repeated; 0 for none
    for feature, own in zip(factors.features.T.astype(np.int64), factors.degrees.T, strict=True):
        shift = np.where(own > 1, np.where(is_small, base, -base), 0)
        columns += [
            np.where(own >= p, 2 * base + feature + 1 + shift, 0)
            for p in range(1, int(own.max()) + 1)
        ]
    indices = -np.sort(-np.stack(columns, axis=1), axis=1)
    sizes = ((indices > 0).sum(axis=1, keepdims=True) + 1) // 2
    indices %= base
    is_left, width = np.arange(indices.shape[1]) < sizes, int(sizes.max())
    left, right = (np.sort(np.where(own, indices, 0), axis=1) for own in (is_left, ~is_left))
    return left[:, -width:], right[:, -width:]


def _ranks(codes: Int, among: Int) -> Int:
    """Where codes stand in a list."""
    order = np.argsort(among)
    return np.asarray(order[np.searchsorted(among, codes, sorter=order)])
