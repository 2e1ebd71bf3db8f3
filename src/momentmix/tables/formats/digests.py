"""A digest of rows, by which equal inputs are recognized."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.native import code

_PIECE, _FOLDS = 512, 4  # words, and sums of them; the same in native/module.c
_PIECE_BYTES = 8 * _PIECE
_AT_ONCE = 32  # pieces whose products fit the cache


class RowDigest:
    """A digest of rows, made while they are read; it does not depend on how they are cut.

    Bytes are folded before they are hashed, which is many times faster than hashing all of them.
    A piece of 512 words x_i = (h_i, l_i) of 2 × 32 bits becomes four sums

        Σ_i ((l_i + k_{i+t}) mod 2^32)·((h_i + k'_{i+t}) mod 2^32)  mod 2^64,  t = 0 … 3,

    the universal hash NH: for random keys k, k' two different pieces have the same sums with
    probability 2^−128. The keys are fixed, so that this holds for damage and chance, not for an
    opponent. What does not fill a piece is hashed as it is.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._rest, self._n_bytes = b"", 0

    def update(self, rows: Float) -> None:
        """Add rows; other threads may run meanwhile."""
        self._add(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

    def _add(self, data: memoryview) -> None:
        self._n_bytes += len(data)
        if self._rest:  # pieces begin anywhere in a block
            missing = min(len(data), _PIECE_BYTES - len(self._rest))
            self._rest, data = self._rest + bytes(data[:missing]), data[missing:]
            if len(self._rest) < _PIECE_BYTES:
                return
            self._fold(memoryview(self._rest))
        n_whole = len(data) // _PIECE_BYTES * _PIECE_BYTES
        self._fold(data[:n_whole])
        self._rest = bytes(data[n_whole:])

    def _fold(self, data: memoryview) -> None:
        if len(data):
            self._hash.update(fold(_words(data)).tobytes())

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        whole = self._hash.copy()
        whole.update(self._rest + self._n_bytes.to_bytes(8, "little"))
        return whole.hexdigest()


def _words(data: memoryview) -> NDArray[np.uint64]:
    words = np.frombuffer(data, dtype="<u8").reshape(-1, _PIECE)
    return words if words.flags.aligned else words.copy()


@lru_cache(maxsize=1)
def _keys() -> NDArray[np.uint64]:
    """Keys of the low and the high halves of the words, (2, _PIECE + _FOLDS − 1)."""
    n = _PIECE + _FOLDS - 1
    stream = hashlib.shake_256(b"momentmix: digest of rows").digest(2 * 4 * n)
    return np.frombuffer(stream, dtype="<u4").reshape(2, n).astype(np.uint64)


def fold(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The sums of pieces of shape (n, _PIECE), (n, _FOLDS); see `RowDigest`."""
    sums = np.empty((len(words), _FOLDS), dtype="<u8")
    if code is not None:
        code.fold(np.require(words, requirements="A"), len(words), _keys(), sums)
        return sums
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    for first in range(0, len(words), _AT_ONCE):
        part = words[first : first + _AT_ONCE].astype(np.uint64, copy=False)
        for t in range(_FOLDS):
            low, high = _keys()[:, t : t + _PIECE]
            products = ((part + low) & mask) * (((part >> half) + high) & mask)
            sums[first : first + _AT_ONCE, t] = products.sum(axis=1, dtype=np.uint64)
    return sums


def counted_twice(name: str) -> str:
    """The message for an input that holds the same rows as another one."""
    return f"{name} holds the same rows as an input before it; leave it out, or they count twice."
