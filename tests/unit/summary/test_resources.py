"""Memory and threads: estimates, constant memory, BLAS limits given back."""

import tracemalloc

import numpy as np
import pytest

from momentmix import MomentSummary
from momentmix.arrays import physical_memory
from momentmix.errors import InputError
from momentmix.summary.layout import Layout
from momentmix.summary.view import check_budget, estimate


def test_streaming_takes_constant_memory():
    rng, peaks = np.random.default_rng(0), []
    block = rng.standard_normal((8192, 15))
    for n_blocks in (4, 24):
        summary = MomentSummary(15, 4, n_threads=2)
        tracemalloc.start()
        for _ in range(n_blocks):
            summary.update(block)
        _ = summary.mean
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 2**20
    assert peaks[1] < 2 * summary.cost.memory_bytes + 32 * 2**20


def test_float32_input_is_cast_block_by_block():
    rows = np.random.default_rng(0).standard_normal((200_000, 6)).astype(np.float32)
    summary = MomentSummary(6, 2, n_threads=1)
    tracemalloc.start()
    summary.update(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes


def test_estimates():
    cost = estimate(Layout(40, 5, 2))
    assert cost.n_entries == 760_099 + 40 * (1 + 39 + 741) + 40 * 4 + 780 * 3
    assert cost.memory_bytes > 8 * cost.n_entries
    assert physical_memory() > 2**28
    with pytest.raises(InputError, match=r"order 5 with 40 features.*µs a row.*Use order=3 \("):
        check_budget(Layout(40, 5, 2), 24 * 10**6)
    with pytest.raises(InputError, match=r"Use memory_budget=… in bytes"):
        check_budget(Layout(40, 5, 2), 10)
