"""Exact sums in finer units and about other shifts: by compiled code, or by Python integers.

| symbol | name here | shape |
|---|---|---|
| degree of feature j in each sum | ``degrees`` | (n_entries, d) |
| z_j^p·R ← Σ_i C(p,i)·(−δ)^(p−i)·z_j^i·R | ``lines`` of (p, rows of z_j^0·R … z_j^p·R) | |

``fixed_point.move`` and ``finer`` say the same in Python integers. Compiled code works on words,
modulo a power of two that is above all results, so that what overflows on the way does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.native import code
from momentmix.summary.exact.fixed_point import add, finer, move, subtract
from momentmix.summary.exact.integers.packed import (
    WORD_BITS,
    PackedSums,
    Sums,
    bit_length,
    packed,
    trimmed,
)
from momentmix.summary.layout import Layout

_MOST_ENTRIES = 1 << 13  # of the tables: they take a tenth of a second to make
_MOST_WORDS = 64  # as in native/integers.h


class Reframed(NamedTuple):
    """Sums to be added in units finer by 2^bits, about an origin moved by deltas; or subtracted."""

    sums: Sums
    bits: Sequence[int]
    deltas: Sequence[int]
    negative: bool = False

    @property
    def is_still(self) -> bool:
        """Whether units and origin stay."""
        return not any(self.bits) and not any(self.deltas)


def reframed(layout: Layout, sums: Sums, bits: Sequence[int], deltas: Sequence[int]) -> Sums:
    """Sums in units finer by 2^bits[j], then about an origin moved by deltas[j]: exact."""
    part = Reframed(sums, bits, deltas)
    return sums if part.is_still else total(layout, [part])


def total(layout: Layout, parts: Sequence[Reframed]) -> Sums:
    """The sum of parts that are brought to one frame: exact, whatever their order."""
    n_words = _words_needed(layout, parts)
    if n_words > _MOST_WORDS:
        return _by_python(layout, parts)
    tables, n = _tables(layout), layout.n_entries
    out = np.zeros((n, n_words), dtype=np.int64)
    space = np.empty((n, n_words), dtype=np.int64)
    for sums, bits, deltas, negative in parts:
        words = packed(layout, sums).words
        frame = np.array(bits, dtype=np.int64), np.array(deltas, dtype=np.int64)
        code.add_moved(np.ascontiguousarray(words), n, *tables, *frame, negative, space, out)
    return PackedSums(layout, trimmed(out))


def _words_needed(layout: Layout, parts: Sequence[Reframed]) -> int:
    """Words that hold the total and all parts; more than there can be where code does not suit."""
    if code is None or layout.n_entries > _MOST_ENTRIES:
        return _MOST_WORDS + 1
    degree, most = max(layout.order, layout.squared_order + 2, 6), 0
    for sums, bits, deltas, _ in parts:
        farthest = max(max(deltas), -min(deltas))
        if farthest >> (WORD_BITS - 1):
            return _MOST_WORDS + 1
        growth = max(bits) + (farthest + 1).bit_length() if farthest else max(bits)
        most = max(most, bit_length(packed(layout, sums).words) + degree * growth)
    return (most + len(parts).bit_length()) // WORD_BITS + 1


def _by_python(layout: Layout, parts: Sequence[Reframed]) -> Sums:
    """`total` in Python integers: the specification."""
    moved = [move(layout, finer(layout, part.sums, part.bits), part.deltas) for part in parts]
    first = subtract(moved[0], add(moved[0], moved[0])) if parts[0].negative else moved[0]
    rest = zip(moved[1:], parts[1:], strict=True)
    return reduce(lambda x, y: (subtract if y[1].negative else add)(x, y[0]), rest, first)


@lru_cache(maxsize=16)
def _tables(layout: Layout) -> tuple[Int, Int, Int]:
    """Degrees, lines of all features, and where the lines of each feature end."""
    lines, ends, length = list[Int](), list[int](), 0
    for steps in lines_of(layout):
        for rows in steps:
            lines.append(np.insert(rows, 0, rows.shape[1] - 1, axis=1).ravel())
            length += len(lines[-1])
        ends.append(length)
    return degrees_of(layout), np.concatenate(lines), np.array(ends, dtype=np.int64)


@lru_cache(maxsize=16)
def lines_of(layout: Layout) -> list[list[Int]]:
    """Of each feature j, and each p from the highest: rows of z_j^0·R … z_j^p·R, (n, p + 1)."""
    degrees, d = degrees_of(layout), layout.n_features
    factors = np.random.default_rng(0).integers(0, 1 << 63, d)  # names of products, modulo 2^64
    keys = degrees @ factors
    order = np.argsort(keys)
    assert (np.diff(keys[order]) != 0).all()  # all products have different names
    found = list[list[Int]]()
    for j in range(d):
        found.append([])
        for p in range(int(degrees[:, j].max()), 0, -1):  # each reads the old lower ones
            held = np.flatnonzero(degrees[:, j] == p)
            steps = np.arange(-p, 1) * factors[j]
            found[-1].append(order[np.searchsorted(keys, keys[held, None] + steps, sorter=order)])
    return found


def degrees_of(layout: Layout) -> Int:
    """Degree of each feature in each sum of a layout, (n_entries, n_features).

    Examples
    --------
    >>> degrees_of(Layout(2, 1, 0).without_high).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [0, 2]]
    """
    d, parts = layout.n_features, []
    own = np.eye(d, dtype=np.int64)
    for section in layout.sections:
        if section.kind == "power":
            parts.append(section.size * own)
            continue
        if section.kind in ("distinct", "two squares"):
            sets, factor = index_sets(d, section.size), 1 if section.kind == "distinct" else 2
            parts.append(factor * own[sets].sum(axis=1))
            continue
        factor = 2 if section.kind == "squared" else 3
        others = [sets_without(d, section.size, j) for j in range(d)]
        parts += [factor * own[j] + own[sets].sum(axis=1) for j, sets in enumerate(others)]
    return np.concatenate(parts)
