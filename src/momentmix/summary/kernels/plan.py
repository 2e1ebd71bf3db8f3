"""How all moments become products of two lists of monomials, strip by strip.

| symbol | name here | shape |
|---|---|---|
| A, half of I = A ∪ B: the highest indices | rows of ``lefts`` | (n_left, w) |
| B, the others, at most as many | among ``rights`` | (n_right, w) |
| Σ w y_A y_B = Σ w y_I | a cell of a strip | (columns, height) |

Index 0 is the constant 1, feature j has index j + 1; monomials have zeros in front. Right monomials
are ordered by size, repetitions and highest index, left ones by size, repetitions and lowest index.
So the right monomials whose products with neighboring left ones are moments stand in a few runs. A
*strip* is the product of `height` left monomials with such a run.

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

    lefts: Int  # indices of left monomials, filled up to whole strips by 1
    rights: Int  # indices of right monomials: first the constant and all features
    left_factors: Int  # a right monomial and a feature for each left one, (n_left, 2)
    right_factors: Int  # the same for right ones
    strips: Int  # number of the left ones, first right one, end, first cell, (n_strips, 4)
    positions: Int  # cell of each moment


@lru_cache(maxsize=8)
def plan(layout: Layout, height: int) -> Plan:
    """Return the plan: strips of `height` left monomials."""
    base = layout.n_features + 1
    left, right = _halves(layout)
    powers = base ** np.arange(left.shape[1])
    left_codes, right_codes = left @ powers, right @ powers  # in colex order

    def rest(codes: Int) -> Int:
        """Without the highest index."""
        return np.asarray(codes % powers[-1] * base)

    def ordered(codes: Int, by_lowest: bool) -> tuple[Int, Int]:
        monomials = codes[:, None] // powers % base
        is_repeated = (monomials[:, 1:] == monomials[:, :-1]) & (monomials[:, 1:] > 0)
        lowest = np.where(monomials > 0, monomials, base).min(axis=1) * by_lowest
        size = (monomials > 0).sum(axis=1)
        order = np.lexsort((codes, lowest, is_repeated.sum(axis=1), size))
        return codes[order], monomials[order]

    all_left = np.unique(left_codes)
    all_right = np.concatenate([right_codes, rest(all_left), powers[-1] * np.arange(base)])
    for _ in powers:
        all_right = np.unique(np.concatenate([all_right, rest(all_right)]))
    (all_left, lefts), (all_right, rights) = ordered(all_left, True), ordered(all_right, False)
    left_factors, right_factors = (
        np.stack([_ranks(rest(codes), all_right), monomials[:, -1]], axis=1)
        for codes, monomials in ((all_left, lefts), (all_right, rights))
    )
    padding = ((0, -len(lefts) % height), (0, 0))

    row, column, n = _ranks(left_codes, all_left), _ranks(right_codes, all_right), len(rights)
    keys = row // height * n + column
    needed = np.unique(keys)
    is_first = np.append(True, (np.diff(needed) > 1) | (np.diff(needed // n) > 0))
    first, last = needed[is_first], needed[np.append(is_first[1:], True)]
    starts = np.cumsum(np.append(0, (last - first + 1) * height))[:-1]
    strip = np.searchsorted(first, keys, side="right") - 1
    positions = starts[strip] + (keys - first[strip]) * height + row % height
    strips = np.stack([first // n, first % n, last % n + 1, starts], axis=1)
    lefts, left_factors = np.pad(lefts, padding), np.pad(left_factors, padding)
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
