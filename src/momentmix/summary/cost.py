"""What a summary will cost, before any work starts."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache

from momentmix.errors import InputError
from momentmix.summary.kernels.half_split import table_rows
from momentmix.summary.kernels.numpy_sums import CHUNK
from momentmix.summary.layout import Layout

_DIGIT_BYTES = 3 * 5 * 8  # five digits of eight bytes, their copy in an update, a lane of them
_INTEGER_BYTES = 4 * (8 + 56)  # a pointer and a Python integer of about 200 bits; parts and union
_FILE_BYTES = 20
_ROW_MICROSECONDS = 0.05  # checking a row and filling tables
_FLOPS = 4e10  # useful operations a second of one core in the products, by compiled code


@dataclass(frozen=True)
class SummaryCost:
    """Size and time of a summary.

    Parameters
    ----------
    n_entries : int
        Number of moments.
    memory_bytes : int
        Memory while rows are added, with one thread.
    file_bytes : int
        Size of the file, about.
    microseconds_per_row : float
        Time to add one row on one core, about.
    """

    n_entries: int
    memory_bytes: int
    file_bytes: int
    microseconds_per_row: float

    def __str__(self) -> str:
        return (
            f"{self.n_entries:,} moments, {size_text(self.memory_bytes)} of memory, about "
            f"{size_text(self.file_bytes)} on disk and {self.microseconds_per_row:.2g} µs a row"
        )


def size_text(n_bytes: float) -> str:
    """Bytes in words."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if n_bytes < 1024 or unit == "TiB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    raise AssertionError


@lru_cache(maxsize=64)
def estimate(layout: Layout) -> SummaryCost:
    """Size and time of a summary with this layout.

    Examples
    --------
    >>> estimate(Layout(15, 4, 2)).n_entries
    3906
    """
    entries = layout.n_entries
    workspace = 8 * (table_rows(layout) * CHUNK + 3 * entries)
    memory = entries * (_DIGIT_BYTES + _INTEGER_BYTES) + workspace
    time = _ROW_MICROSECONDS + 2 * entries / _FLOPS * 1e6
    return SummaryCost(entries, memory, entries * _FILE_BYTES, time)


def physical_memory() -> int:
    """Bytes of physical memory; 8 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def check_budget(layout: Layout, memory_budget: int | None) -> SummaryCost:
    """Refuse a summary over budget (bytes; by default a quarter of the memory)."""
    cost = estimate(layout)
    budget = physical_memory() // 4 if memory_budget is None else min(memory_budget, sys.maxsize)
    if cost.memory_bytes > budget:
        cures = ["memory_budget=… in bytes, if that much memory is there"]
        lower = layout.order - 1
        while lower >= 1:
            q = min(layout.squared_order, lower - 1)
            smaller = estimate(Layout(layout.n_features, lower, q))
            if smaller.memory_bytes <= budget:
                cures.insert(0, f"order={lower} ({size_text(smaller.memory_bytes)})")
                break
            lower -= 1
        raise InputError(
            f"a summary of order {layout.order} with {layout.n_features} features takes {cost}; "
            f"the budget is {size_text(budget)}. Use {', or '.join(cures)}, or fewer features."
        )
    return cost
