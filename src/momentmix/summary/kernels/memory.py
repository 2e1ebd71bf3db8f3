"""Memory for the tables of the host executors."""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float

_ALIGNMENT = 64  # bytes of a cache line; products of vectors off it take twice the time


def aligned(n: int) -> Float:
    """Memory for n numbers that begins with a cache line."""
    raw = np.empty(8 * n + _ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + 8 * n].view(np.float64)
