"""Exact sums as words of 64 bits, which become Python integers where somebody looks at them.

| symbol | name here | shape |
|---|---|---|
| S_I·2^Q, T_{j,I}·2^Q, …, in the order of the file | ``words`` | (n_entries, n_words) |

A number is in two's complement, its lowest word first. All sums of a summary have the same number
of words. Most summaries of small groups are only added, written and read: that takes no Python
integer for each sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import byteorder
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.native import code
from momentmix.summary.layout import Layout

Integers = NDArray[np.object_]
Sums = Sequence[Integers]

WORD_BITS = 64


class PackedSums(Sequence[Integers]):
    """The sums of all sections; as a sequence, arrays of Python integers. Never written to.

    Parameters
    ----------
    layout : Layout
    words : array of shape (layout.n_entries, n_words)

    Examples
    --------
    >>> layout = Layout(2, 1, 0)
    >>> sums = PackedSums(layout, np.arange(-1, layout.n_entries - 1)[:, None])
    >>> sums[0].tolist(), sums[1].tolist(), sums[-1].tolist()
    ([-1], [0, 1], [10, 11])
    """

    def __init__(self, layout: Layout, words: Int) -> None:
        self.layout, self.words = layout, words
        self._made: dict[int, Integers] = {}

    def __len__(self) -> int:
        return len(self.layout.sections)

    @overload
    def __getitem__(self, number: int) -> Integers: ...

    @overload
    def __getitem__(self, number: slice) -> Sums: ...

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        made = self._made.get(number)
        if made is None:
            section = self.layout.sections[number]
            made = python_integers(self.words[section.place]).reshape(section.shape)
            self._made[number] = made
        return made

    def first_sections(self, layout: Layout) -> PackedSums:
        """The sums of a layout that lacks some of the last sections."""
        return PackedSums(layout, self.words[: layout.n_entries])

    def some_sections(self, layout: Layout) -> PackedSums:
        """The sums of a layout that lacks some sections."""
        parts = [self.words[self.layout.section(s.kind, s.size).place] for s in layout.sections]
        return PackedSums(layout, trimmed(np.concatenate(parts)))

    def floats(self) -> Float:
        """All sums as float64 numbers, to a rounding or two; infinite where they overflow."""
        negative = self.words[:, -1] < 0
        words = np.where(negative[:, None], ~self.words, self.words).view(np.uint64)
        with np.errstate(over="ignore"):
            found = words[:, -1].astype(np.float64)
            for k in range(words.shape[1] - 2, -1, -1):
                found = found * 2.0**WORD_BITS + words[:, k]
        return np.where(negative, -1.0 - found, found)


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


def packed(layout: Layout, sums: Sums) -> PackedSums:
    """Sums as words; arrays of Python integers are converted."""
    if isinstance(sums, PackedSums):
        return sums
    values = [value for array in sums for value in array.ravel().tolist()]
    highest, lowest = max(values), min(values)
    n_words = max(highest.bit_length(), (~lowest).bit_length()) // WORD_BITS + 1
    data = b"".join([value.to_bytes(8 * n_words, "little", signed=True) for value in values])
    words = np.frombuffer(data, dtype="<i8").astype(np.int64, copy=False)
    return PackedSums(layout, words.reshape(-1, n_words))


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


def no_sums(layout: Layout) -> PackedSums:
    """Sums of no rows."""
    return PackedSums(layout, np.zeros((layout.n_entries, 1), dtype=np.int64))


def bit_length(words: Int) -> int:
    """Bits, without the sign, that hold every number; the words are as few as they can be."""
    top = words[:, -1]
    lowest, highest = int(top.min()), int(top.max())
    bits = max(abs(highest).bit_length(), abs(lowest).bit_length())
    return WORD_BITS * int(words.shape[1] - 1) + bits


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
