"""Sums that do not depend on the order of adding: fixed-point numbers in digits.

| symbol | name here | shape |
|---|---|---|
| quantum 2^−Q, Q = 96 | ``QUANTUM_BITS`` | |
| x = Σ_k d_k·2^(32k−Q) + rest, rest at most 2^−(Q+1) | ``DigitSums`` | (K, n) |

Each block's float64 sums are split, exactly, into signed digits of 32 bits at fixed binary places;
only what lies below 2^−Q is rounded, once, half to even. Sums of digits are exact in float64 for
2^20 blocks, then they carry. In the end they become whole numbers: see ``exact_sums``. A monomial
of one row is below 2^800 units, of whatever degree, so that digits reach it as they reach others.
"""

from __future__ import annotations

from functools import lru_cache
from math import frexp

import numpy as np

from momentmix._typing import Float, Int
from momentmix.native import code
from momentmix.summary.exact.exact_sums import ExactSums, python_integers
from momentmix.summary.layout import Layout

QUANTUM_BITS = 96  # far below the rounding errors of a block; see ``open_shard``
_DIGIT_BITS = 32  # leaves 21 of the 53 bits of float64 for sums of digits
_MOST_ADDED = 1 << 20  # digits below 2^32 of their place; more would not fit 53 bits
_SEGMENT = 8192  # numbers at a time: they and their digits stay in the cache


class DigitSums:
    """Running sums of flat vectors, and of Σ w² as their last entry, in 32-bit digits.

    Threads add to *lanes* of their own, which are exact sums as well, and are gathered later.
    """

    def __init__(self, layout: Layout, n_digits: int = 4) -> None:
        self.layout, self._since_carry = layout, 0
        self._all = np.zeros((n_digits, layout.n_entries + 1))
        self._lanes = np.zeros((0, n_digits, 0))

    def copy(self) -> DigitSums:
        """Independent copy."""
        self.gather()
        twin = DigitSums.__new__(DigitSums)
        twin.__dict__.update(self.__dict__)
        twin._all = self._all.copy()
        return twin

    def add(self, values: Float, weight_squares: Float) -> None:
        """Add flat vectors (n_vectors, n_entries), with Σ w² of each."""
        both = np.concatenate([values, weight_squares[:, None]], axis=1)
        self._make_room(digits_needed(max(-float(both.min()), float(both.max()))), len(values))
        add_digits(both, self._all)

    def lanes(self, n_vectors: int, n_digits: int, n_lanes: int) -> tuple[Float, Float]:
        """Return lanes (n_lanes, K, n_entries + 1), K ≥ n_digits, to add to, and `rounders(K)`."""
        self._make_room(n_digits, n_vectors)
        if len(self._lanes) < n_lanes or self._lanes.shape[1] < n_digits:
            self.gather()
            self._lanes = np.zeros((n_lanes, len(self._all), self.layout.n_entries + 1))
        return self._lanes, rounders(self._lanes.shape[1])

    def gather(self) -> None:
        """Add what the lanes hold, and drop them."""
        for lane in self._lanes:
            self._all[: len(lane)] += lane
        self._lanes = self._lanes[:0]

    def _make_room(self, n_digits: int, n_vectors: int) -> None:
        """Be ready to add so many vectors of numbers of so many digits."""
        self._grow(n_digits)
        if self._since_carry + n_vectors > _MOST_ADDED:
            self._carry()
        self._since_carry += n_vectors

    def _grow(self, n_digits: int) -> None:
        more = n_digits - len(self._all)
        if more > 0:
            self._all = np.concatenate([self._all, np.zeros((more, self._all.shape[1]))])

    def _carry(self) -> None:
        """Bring every digit back to 32 bits."""
        self.gather()
        self._grow(len(self._all) + 1)
        digits = self._all
        for k in range(len(digits) - 1):
            excess = (digits[k] + _rounder(k + 1)) - _rounder(k + 1)
            digits[k] -= excess
            digits[k + 1] += excess
        self._since_carry = 1

    def means(self) -> tuple[Float, Float]:
        """Means of z_j and z_j² so far."""
        self.gather()
        d, square = self.layout.n_features, self.layout.section("squared", 0).start
        weight = self._all[:, 0].sum()
        parts = self._all[:, 1 : d + 1], self._all[:, square : square + d]
        first, second = (part.sum(axis=0) / weight for part in parts)
        return first, second

    def fold(self) -> tuple[ExactSums, int]:
        """The sums, and Σw², as integers in units of 2^−Q."""
        self.gather()
        words = join(self._all)
        return ExactSums(self.layout, words[:-1]), int(python_integers(words[-1:])[0])


def digits_needed(largest: float) -> int:
    """Digits of a vector whose entries reach `largest` in size."""
    top = 0 if largest < 1 else frexp(largest)[1]
    return (top + QUANTUM_BITS) // _DIGIT_BITS + 1


@lru_cache(maxsize=64)
def rounders(n_digits: int) -> Float:
    """Constants that round to multiples of the places 0 … n_digits − 1; read only."""
    return np.array([_rounder(k) for k in range(n_digits)])


def _rounder(k: int) -> float:
    """The constant that rounds to a multiple of place k, half to even, if added and subtracted."""
    return 1.5 * 2.0 ** (52 + _DIGIT_BITS * k - QUANTUM_BITS)


def add_digits(values: Float, digits: Float) -> None:
    """Split vectors (overwritten) into digits and add these; shapes (n_vectors, n) and (K, n)."""
    if code is not None:
        code.add_digits(np.ascontiguousarray(values), len(values), rounders(len(digits)), digits)
        return
    for start in range(0, values.shape[1], _SEGMENT):
        for rest in values[:, start : start + _SEGMENT]:
            for k in range(len(digits) - 1, -1, -1):
                digit = (rest + _rounder(k)) - _rounder(k)
                rest -= digit  # exact: the digit holds the leading bits of the rest
                digits[k, start : start + len(rest)] += digit


def join(digits: Float) -> Int:
    """Sums of digits as whole numbers of several words: (K, n) → (n, K // 2 + 1)."""
    n_digits, n = digits.shape
    factors = 2.0 ** (QUANTUM_BITS - _DIGIT_BITS * np.arange(n_digits))  # digits → integers
    n_words = n_digits // 2 + 1
    if code is not None:
        words = np.empty((n, n_words), dtype=np.int64)
        code.join_digits(np.ascontiguousarray(digits), factors, words)
        return words
    whole, carry = (digits * factors[:, None]).astype(np.int64), np.zeros(n, dtype=np.int64)
    halves = np.empty((n, 2 * n_words), dtype=np.int64)
    for k in range(2 * n_words):
        total = carry + whole[k] if k < n_digits else carry
        halves[:, k] = total & (2**_DIGIT_BITS - 1)
        carry = total >> _DIGIT_BITS
    return np.asarray(halves[:, 0::2] | halves[:, 1::2] << _DIGIT_BITS)
