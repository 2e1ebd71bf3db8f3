"""Exact sums of all products of a layout: whole numbers in units of the quantum 2^−96.

| symbol | name here | shape |
|---|---|---|
| S_I·2^Q, T_{j,I}·2^Q, …, in the order of the file | ``integers`` | (n_entries,) |
| the same in two's complement, lowest word first | ``words`` | (n_entries, n_words) |

Most summaries of small groups are only added, written and read: that takes words alone, and no
Python integer for each sum. These laws hold exactly, as theorems and not up to a tolerance:

- adding commutes, associates, and is undone by subtracting;
- moving the origin of feature j by an integer δ is z_j^p·R ← Σ_i C(p,i)·(−δ)^(p−i)·z_j^i·R, undone
  by −δ; moves of different features commute;
- a unit finer by 2^a for feature j is a left shift of z_j^p·R by a·p.

Compiled code works on words, modulo a power of two that is above all results, so that what
overflows on the way does no harm.

*Reach.* A row that lies 1e41 units away is a valid row, but its sixth power leaves the range of the
sums. So each feature has a *reach*, the highest degree (2 … 6) of sums of high sections that it may
take part in: the least over all blocks of rows, so that it does not depend on the order of adding.
A sum of degree D is *present* where all its features have a reach of at least D; the others are 0.
A present sum depends on present ones alone, whatever moves: all its factors have lower degrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from sys import byteorder
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.lazy import lazy_property
from momentmix.native import code
from momentmix.summary.layout import POWER_DEGREES, Layout, products_of

Integers = NDArray[np.object_]

LARGEST_REACH = POWER_DEGREES[-1]
_WORD_BITS = 64
_MOST_WORDS = 64  # as in native/integers.h


class ExactSums:
    """The sums of all products of a layout, never written to: words of them, or integers."""

    def __init__(self, layout: Layout, words: Int | None, integers: Integers | None = None) -> None:
        self.layout = layout
        if words is not None:
            self.words = words
        if integers is not None:
            self.integers = integers

    @lazy_property
    def words(self) -> Int:
        """The sums as words."""
        values = self.integers.tolist()
        n_words = max(max(values).bit_length(), (~min(values)).bit_length()) // _WORD_BITS + 1
        data = b"".join([value.to_bytes(8 * n_words, "little", signed=True) for value in values])
        words = np.frombuffer(data, dtype="<i8").astype(np.int64, copy=False)
        return words.reshape(-1, n_words)

    @lazy_property
    def integers(self) -> Integers:
        """The sums as Python integers."""
        return python_integers(self.words)

    def __getitem__(self, places: slice | Int) -> Integers:
        """Some of the sums as Python integers."""
        made = self.__dict__.get("integers")
        return python_integers(self.words[places]) if made is None else made[places]

    def of_layout(self, layout: Layout) -> ExactSums:
        """The sums of a layout that lacks some sections."""
        return self.taken(layout, layout.places_in(self.layout))

    def taken(self, layout: Layout, rows: Int) -> ExactSums:
        """The sums at some places, as sums of another layout."""
        if "words" in self.__dict__:
            return ExactSums(layout, trimmed(self.words[rows]))
        return ExactSums(layout, None, self.integers[rows])

    def without(self, places: Int) -> ExactSums:
        """The sums with 0 at some places."""
        if not len(places):
            return self
        kept = self.integers.copy()
        kept[places] = 0
        return ExactSums(self.layout, None, kept)

    def floats(self) -> Float:
        """All sums as float64 numbers, to a rounding or two; infinite where they overflow."""
        negative = self.words[:, -1] < 0
        words = np.where(negative[:, None], ~self.words, self.words).view(np.uint64)
        with np.errstate(over="ignore"):
            found = words[:, -1].astype(np.float64)
            for k in range(words.shape[1] - 2, -1, -1):
                found = found * 2.0**_WORD_BITS + words[:, k]
        return np.where(negative, -1.0 - found, found)

    def over(self, weight: int) -> Float:
        """All sums over a positive number, each rounded once; NaN where that overflows."""
        bits = (weight & -weight).bit_length() - 1
        odd = weight >> bits
        if code is None or odd >> _WORD_BITS:
            return np.array([_quotient(value, weight) for value in self.integers.tolist()])
        result = np.empty(len(self.words))
        code.quotients(np.ascontiguousarray(self.words), odd, bits, result)
        result[np.isinf(result)] = np.nan
        return result


def _quotient(value: int, weight: int) -> float:
    try:
        return value / weight
    except OverflowError:
        return np.nan


def absent_places(layout: Layout, reach: Sequence[int]) -> Int:
    """Where the sums stand that are absent: see *Reach*."""
    if not layout.high or min(reach) == LARGEST_REACH:
        return np.empty(0, dtype=np.int64)
    first = layout.without_high.n_entries
    products = products_of(layout)
    least = np.append(reach, LARGEST_REACH)[products.features[first:]].min(axis=1)
    return first + np.flatnonzero(least < products.degrees[first:].sum(axis=1))


# -- words ------------------------------------------------------------------------------------


def python_integers(words: Int) -> Integers:
    """Words of shape (n, n_words) as n Python integers."""
    result = np.empty(len(words), dtype=object)
    if words.shape[1] == 1:
        result[:] = words[:, 0].tolist()
        return result
    data, width = words.astype("<i8", copy=False).tobytes(), 8 * words.shape[1]
    result[:] = [
        int.from_bytes(data[i : i + width], "little", signed=True)
        for i in range(0, len(data), width)
    ]
    return result


def spread(data: memoryview, counts: Int, widths: Sequence[int]) -> Int:
    """Words of two's complement integers of some bytes, so many of each width."""
    n_words, n = (max(widths) + 7) // 8, int(counts.sum())
    if code is not None and byteorder == "little":
        words = np.empty((n, n_words), dtype=np.int64)
        code.spread_words(data, counts, np.array(widths, dtype=np.int64), words)
        return words
    table, row, used = np.empty((n, 8 * n_words), dtype=np.uint8), 0, 0
    for count, width in zip(counts.tolist(), widths, strict=True):
        part = np.frombuffer(data, np.uint8, count * width, used).reshape(count, width)
        table[row : row + count, :width] = part
        table[row : row + count, width:] = np.where(part[:, -1:] > 127, 255, 0)
        row, used = row + count, used + count * width
    return table.view("<i8").astype(np.int64, copy=False)


def trimmed(words: Int) -> Int:
    """The same numbers in as few words as hold them all."""
    n_words = words.shape[1]
    while n_words > 1 and (words[:, n_words - 1] == words[:, n_words - 2] >> 63).all():
        n_words -= 1
    return words if n_words == words.shape[1] else np.ascontiguousarray(words[:, :n_words])


def widths(counts: Int, words: Int) -> list[int]:
    """Bytes of the narrowest two's complement that holds all numbers, so many of each section."""
    if code is not None:
        found = np.empty(len(counts), dtype=np.int64)
        code.word_widths(np.ascontiguousarray(words), counts, found)
        return [*found.tolist()]
    sizes = (words ^ (words[:, -1:] >> 63)).astype("<i8", copy=False).view(np.uint8)
    largest = np.maximum.reduceat(sizes, np.cumsum(counts) - counts, axis=0)  # byte by byte
    top = np.where(largest != 0, np.arange(sizes.shape[1]), 0).max(axis=1)
    signs = largest[np.arange(len(top)), top] > 127  # the highest bit has no place for the sign
    return [*(top + signs + 1).tolist()]


# -- units and origins ------------------------------------------------------------------------


class Reframed(NamedTuple):
    """Sums of n parts to be added in units finer by 2^bits, about origins moved by deltas."""

    words: Int  # (n, n_entries, n_words)
    bits: Int  # (n, n_features)
    deltas: Integers  # the same shape
    negative: bool = False  # to be subtracted


def reframed(sums: ExactSums, bits: Sequence[int], deltas: Sequence[int]) -> ExactSums:
    """Sums in units finer by 2^bits[j], then about an origin moved by deltas[j]: exact."""
    if not any(bits) and not any(deltas):
        return sums
    moved = np.array([deltas], dtype=object)
    return total(sums.layout, [Reframed(sums.words[None], np.array([bits]), moved)])


def total(layout: Layout, parts: Sequence[Reframed]) -> ExactSums:
    """The sum of parts that are brought to one frame: exact, whatever their order."""
    needed = [_bits_needed(layout, part) for part in parts]
    n_words = _MOST_WORDS + 1
    if code is not None:
        most = max(int(bits.max()) for bits in needed)
        n_words = (most + sum(map(len, needed)).bit_length()) // _WORD_BITS + 1
    if n_words > _MOST_WORDS:
        return _by_python(layout, parts)
    lines, ends = products_of(layout).lines
    ends, out = np.ascontiguousarray(ends[:, -1]), np.zeros((layout.n_entries, n_words), np.int64)
    space = np.empty(layout.n_entries * (n_words + 1), dtype=np.int64)
    for (words, bits, deltas, negative), own in zip(parts, needed, strict=True):
        frame = np.ascontiguousarray(bits), lines, ends, deltas.astype(np.int64)
        sums, counts = np.ascontiguousarray(words), own // _WORD_BITS + 1
        code.add_moved_sums(layout.n_entries, sums, *frame, counts, negative, space, out)
    return ExactSums(layout, trimmed(out))


def _bits_needed(layout: Layout, part: Reframed) -> Int:
    """Bits that hold each part, signs left out; very many where compiled code does not suit."""
    degree = max(layout.order, layout.squared_order + 2, LARGEST_REACH)
    distances = np.abs(part.deltas)
    farthest, finest = distances.max(), int(part.bits.max())
    if farthest >> (_WORD_BITS - 1) or finest > _WORD_BITS * _MOST_WORDS // degree:
        return np.full(len(part.words), _WORD_BITS * _MOST_WORDS)
    sizes = distances.astype(np.float64)  # |z·2^a − δ| ≤ (2^a + |δ|)·max(1, |z|)
    growth = np.where(sizes > 0, np.frexp(np.ldexp(1.0, part.bits) + sizes)[1], part.bits)
    top = part.words[:, :, -1]
    own = np.frexp(np.where(top < 0, ~top, top).max(axis=1).astype(np.float64))[1]
    own += _WORD_BITS * (part.words.shape[2] - 1)
    return np.asarray(own + degree * growth.max(axis=1), dtype=np.int64)


def _by_python(layout: Layout, parts: Sequence[Reframed]) -> ExactSums:
    """`total` in Python integers: the specification."""
    result: Any = 0
    for part in parts:
        for words, bits, deltas in zip(part.words, part.bits, part.deltas, strict=True):
            values = python_integers(words) << _shifts(layout, bits)
            move(layout, values, deltas.tolist())
            result = result - values if part.negative else result + values
    return ExactSums(layout, None, result)


def _shifts(layout: Layout, bits: Sequence[int]) -> Int:
    """By how many bits each sum changes in units that change by 2^bits[j]."""
    if not any(bits):
        return np.zeros(layout.n_entries, dtype=np.int64)
    products, table = products_of(layout), np.array([*bits, 0], dtype=np.int64)
    return np.asarray(np.vecdot(table[products.features], products.degrees))


def coarser(sums: ExactSums, bits: Sequence[int]) -> ExactSums:
    """Sums in units coarser by 2^bits[j], each rounded once to the quantum."""
    shifts, values = _shifts(sums.layout, bits), sums.integers.copy()
    some = np.flatnonzero(shifts)
    half = np.array([1 << int(a) - 1 for a in shifts[some]], dtype=object)
    values[some] = (values[some] + half) >> shifts[some]
    return ExactSums(sums.layout, None, values)


def move(layout: Layout, values: Any, deltas: Sequence[Any]) -> None:
    """Move the origins of all features of values (n_entries, …), integers or float64, in place."""
    for delta, lines in zip(deltas, products_of(layout).lines_of, strict=True):
        for rows in lines if np.any(delta) else ():
            p, old = len(rows) - 1, values[rows]
            terms = [comb(p, a) * (-delta) ** a * old[p - a] for a in range(1, p + 1)]
            new = old[p] + sum(reversed(terms))
            if p > 2:  # powers alone: term by term, so that float64 ones are as in old versions
                alone = np.flatnonzero(rows[0] == 0)
                new[alone] = sum((term[alone] for term in terms), start=old[p, alone])
            values[rows[p]] = new


def change_center(sums: ExactSums, value: int, seen: int, delta: int) -> ExactSums:
    """Return the sums with u − δ·s in the place of u, both about shift 0: see ``schemas``."""
    products, values = products_of(sums.layout), sums.integers
    of_value, of_seen = products.of_feature[[value, seen]]
    is_seen, new = np.zeros(len(values), dtype=bool), values.copy()
    is_seen[products.holders(seen)[0]] = True
    holders, degrees = products.holders(value)
    for p in range(1, int(degrees.max()) + 1):
        held = holders[degrees == p]
        for k in range(1, p + 1):
            names = products.names[held] - k * of_value
            if k == p:  # u^0 is s, and s² is s
                names = names + np.where(is_seen[held], 0, of_seen)
            new[held] += comb(p, k) * (-delta) ** k * values[products.find(names)]
    return ExactSums(sums.layout, None, new)


def of_features(sums: ExactSums, layout: Layout, numbers: Sequence[int]) -> ExactSums:
    """The sums of a layout of some features, by their numbers; n_features for one that is 1."""
    old, new = products_of(sums.layout), products_of(layout)
    names = old.of_feature[np.append(numbers, sums.layout.n_features)][new.features]
    return sums.taken(layout, old.find((names * new.degrees).sum(axis=1)))
