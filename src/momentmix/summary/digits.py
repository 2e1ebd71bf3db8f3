"""Exact sums: whole numbers in units of the quantum 2^−96, in digits of 32 bits.

| symbol | name here | shape |
|---|---|---|
| Σ_k d_k·2^(32k) quanta, −2^31 ≤ d_k < 2^31 | ``digits`` | (K, n_entries) |
| z_j = y_j·2^(−e_j) − k_j | ``exponents`` (None: the feature is 0), ``origins`` | (d,) |

Digits are unique: sums are equal where their digits are. A unit finer by 2^a for feature j
multiplies z_j^p·R by 2^(a·p). Moving the origin by an integer δ takes p passes over
z_j^p·R ← z_j^p·R − δ·z_j^(p−1)·R, highest degree first. The *join* of frames has the least exponent
and the least origin of each feature: a function of the set of frames, and so are the bytes of sums
in it, whatever the order of adding.

A *masked* feature u = y·s, of a cell that may be missing (s = 0), moves by u − δ·s: since s² = s
and u·s = u, all products that arise are in the layout, and s stands in the place of u^0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ldexp
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.native import code
from momentmix.summary.layout import Layout, Line, passes, products_of

QUANTUM_BITS = 96  # far below the rounding errors of a block; see ``blocks``
DIGIT_BITS = 32
_HALF, _MASK = 1 << (DIGIT_BITS - 1), (1 << DIGIT_BITS) - 1

Masks = tuple[tuple[int, int], ...]  # numbers of the masked features and of their ``observed``


class Frame(NamedTuple):
    """Units 2^e and origins, in units, of all features."""

    exponents: tuple[int | None, ...]
    origins: tuple[int, ...]

    @classmethod
    def of_zeros(cls, n_features: int) -> Frame:
        """The frame of no rows."""
        return cls((None,) * n_features, (0,) * n_features)

    def taken(self, numbers: Sequence[int]) -> Frame:
        """The frame of some features; n_features stands for one that is 1."""
        exponents, origins = (*self.exponents, 0), (*self.origins, 0)
        return Frame(tuple([exponents[j] for j in numbers]), tuple([origins[j] for j in numbers]))


def in_whole_units(number: float) -> tuple[int | None, int]:
    """The largest unit of which a number is a multiple, and which; none for 0."""
    if not number:
        return None, 0
    numerator, denominator = number.as_integer_ratio()
    bits = (numerator & -numerator).bit_length()
    return bits - denominator.bit_length(), numerator >> (bits - 1)


def join(frames: Iterable[Frame]) -> Frame:
    """The least units and the least origins."""
    exponents, origins = list[int | None](), list[int]()
    for feature in zip(*(zip(*frame, strict=True) for frame in set(frames)), strict=True):
        units = [(e, k) for e, k in feature if e is not None]
        exponents.append(min((e for e, _ in units), default=None))
        origins.append(min((k << (e - (exponents[-1] or 0)) for e, k in units), default=0))
    return Frame(tuple(exponents), tuple(origins))


# -- digits ------------------------------------------------------------------------------------


def carried(digits: Int) -> Int:
    """The same numbers in digits of their range, as few as hold all."""
    rows, carry = [], np.zeros(digits.shape[1], dtype=np.int64)
    for row in digits:
        total = row + carry
        carry = (total + _HALF) >> DIGIT_BITS
        rows.append(total - (carry << DIGIT_BITS))
    while carry.any():
        total, carry = carry, (carry + _HALF) >> DIGIT_BITS
        rows.append(total - (carry << DIGIT_BITS))
    return trimmed(np.array(rows))


def trimmed(digits: Int) -> Int:
    """The same numbers without places that all lack, but at least one."""
    n = len(digits)
    while n > 1 and not digits[n - 1].any():
        n -= 1
    return np.ascontiguousarray(digits[:n])


def summed(numbers: Sequence[Int]) -> Int:
    """The sum of fewer than 2^31 numbers."""
    if len(numbers) == 1:
        return numbers[0]
    total = np.zeros((max(map(len, numbers)), numbers[0].shape[1]), dtype=np.int64)
    for digits in numbers:
        total[: len(digits)] += digits
    return carried(total)


def integers(digits: Int) -> list[int]:
    """Numbers as Python integers, in quanta."""
    return [
        sum(digit << DIGIT_BITS * k for k, digit in enumerate(column))
        for column in digits.T.tolist()
    ]


def floats(digits: Int, bits: Int | int = 0) -> Float:
    """Numbers times 2^bits, to a rounding or two."""
    total = np.zeros(digits.shape[1])
    with np.errstate(over="ignore"):
        for k, row in enumerate(digits):
            total += np.ldexp(row.astype(np.float64), DIGIT_BITS * k - QUANTUM_BITS + bits)
    return total


# -- units and origins -------------------------------------------------------------------------


def finer(layout: Layout, digits: Int, bits: Sequence[int]) -> Int:
    """Sums in units finer by 2^bits[j]."""
    if not any(bits):
        return digits
    whole, rest = np.divmod(products_of(layout).sums(np.array(bits)), DIGIT_BITS)
    shifted = carried(digits << rest)
    result = np.zeros((len(shifted) + int(whole.max()), layout.n_entries), dtype=np.int64)
    for k in np.unique(whole).tolist():
        chosen = whole == k
        result[k : k + len(shifted), chosen] = shifted[:, chosen]
    return trimmed(result)


def moved(layout: Layout, digits: Int, deltas: Sequence[int], masks: Masks = ()) -> Int:
    """Sums about origins that are moved by integers."""
    if not any(deltas):
        return digits
    products, observed_of = products_of(layout), dict(masks)
    bits = max(map(abs, deltas)).bit_length() + 1
    room = np.zeros((products.width * bits // DIGIT_BITS + 2, layout.n_entries), dtype=np.int64)
    values = np.ascontiguousarray(np.concatenate([digits, room]).T)
    for j, delta in enumerate(deltas):
        lines, parts = products.lines[j] if delta else [], _digits_of(delta)
        if lines and j in observed_of:
            lines = [_masked_line(layout, j, observed_of[j]), *lines[1:]]
        for line in passes(lines):
            for k, part in enumerate(parts):
                if part:
                    _subtract_multiples(values, line, part, k)
    return carried(values.T)


def _digits_of(number: int) -> list[int]:
    """Digits of an integer: products with them fit 63 bits."""
    parts = list[int]()
    while number:
        parts.append(((number + _HALF) & _MASK) - _HALF)
        number = (number - parts[-1]) >> DIGIT_BITS
    return parts


def _subtract_multiples(values: Int, line: Line, factor: int, shift: int) -> None:
    """Subtract factor·2^(32·shift)·z_j^(p−1)·R from z_j^p·R; values are (n_entries, K)."""
    if code is not None:
        code.subtract_multiples(values, values.shape[1], *line, factor, shift)
        return
    moments, below = line
    rows = values[moments]
    rows[:, shift:] -= factor * values[below, : values.shape[1] - shift]
    for k in range(shift, rows.shape[1] - 1):
        carry = (rows[:, k] + _HALF) >> DIGIT_BITS
        rows[:, k] -= carry << DIGIT_BITS
        rows[:, k + 1] += carry
    values[moments] = rows


@lru_cache(maxsize=256)
def _masked_line(layout: Layout, value: int, observed: int) -> Line:
    """The moments u·R of a masked feature, and those with s in the place of u, once in all."""
    products = products_of(layout)
    moments, _ = products.lines[value][0]
    indices = products.indices[moments]
    holds = (indices == observed + 1).any(axis=1)[:, None]
    return Line(
        moments,
        products.positions(np.where(indices == value + 1, (observed + 1) * ~holds, indices)),
    )


def reframed(layout: Layout, digits: Int, old: Frame, new: Frame, masks: Masks = ()) -> Int:
    """Sums in a frame with units that are as fine or finer: exact."""
    if old == new:
        return digits
    pairs = zip(old.exponents, new.exponents, strict=True)
    bits = [0 if e is None or f is None else e - f for e, f in pairs]
    origins = zip(new.origins, old.origins, bits, strict=True)
    deltas = [k - (m << a) for k, m, a in origins]
    return moved(layout, finer(layout, digits, bits), deltas, masks)


def of_features(layout: Layout, digits: Int, new: Layout, numbers: Sequence[int]) -> Int:
    """The sums of a layout of some features, by their numbers; n_features for one that is 1."""
    names = np.append(0, np.array(numbers) + 1)
    names[names > layout.n_features] = 0
    old, indices = products_of(layout), names[products_of(new).indices]
    surplus = indices.shape[1] - old.width
    indices = np.sort(indices, axis=1)[:, max(0, surplus) :]
    return carried(digits[:, old.positions(np.pad(indices, ((0, 0), (max(0, -surplus), 0))))])


class FramedSums(NamedTuple):
    """Exact sums in a frame, and Σ w² in quanta."""

    frame: Frame
    digits: Int
    weight_squares: int


def total(layout: Layout, parts: Iterable[FramedSums], masks: Masks = ()) -> FramedSums:
    """The sum of sums in the join of their frames: exact, whatever their order."""
    parts, by_frame = list(parts), dict[Frame, list[Int]]()
    for part in parts:  # parts of one frame move once
        by_frame.setdefault(part.frame, []).append(part.digits)
    frame = join(by_frame)
    moved = [reframed(layout, summed(alike), old, frame, masks) for old, alike in by_frame.items()]
    return FramedSums(frame, summed(moved), sum(part.weight_squares for part in parts))


# -- float64 sums → digits ---------------------------------------------------------------------


def rounder(k: int) -> float:
    """The constant that rounds to a multiple of place k, half to even, if added and subtracted."""
    return 1.5 * ldexp(1.0, 52 + DIGIT_BITS * k - QUANTUM_BITS)


def from_places(places_: Float) -> Int:
    """Sums of float64 digits at the places 2^(32k − 96), (K, n), as digits."""
    factors = 2.0 ** (QUANTUM_BITS - DIGIT_BITS * np.arange(len(places_)))[:, None]
    return carried((places_ * factors).astype(np.int64))
