"""Which executor a shard takes.

| executor | rows | plan |
|---|---|---|
| ``numpy_sums.NumpyExecutor`` | NumPy | ``half_split`` |
| ``compiled_sums.CompiledExecutor`` | NumPy, with Numba (extra `fast`) | ``half_split`` |
| ``array_sums.ArrayExecutor`` | any library of the array API | ``whole_tables`` |
| ``triton_sums.TritonExecutor`` | torch on an NVIDIA device | ``tile_plan`` |

A shard keeps the executor of its NumPy rows from its first row to its last. For rows on a device
the array library and the layout alone decide.

Compiled code is 1.1 to 1.8 times as fast as NumPy on one thread, and below 30 features several
threads pay only with it; but loading it takes 0.7 s. So it is loaded when a shard opens, if the
rows that are expected in it and what NumPy has summed in this process before are worth about a
second. One small table never pays for it; a long file has it, and so has a program that fits many
tables. A shard whose first update is small keeps NumPy, however many follow: by updates of 1,000
rows of 15 features it takes 1.3 times as long as by compiled code, by updates of 100 rows as long.

Compiled code is used only where it has the bits of NumPy, so the choice does not show in the sums.
"""

from __future__ import annotations

from typing import Any

from momentmix.rows.arrays import is_cuda_tensor, namespace
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.kernels.compiled_sums import (
    CompiledExecutor,
    agrees_with_numpy,
    is_installed,
    is_loaded,
)
from momentmix.summary.kernels.executor import Executor
from momentmix.summary.kernels.numpy_sums import NumpyExecutor
from momentmix.summary.layout import Layout

_WORTH_LOADING = 1 << 33  # moments times rows that NumPy sums in about a second
_WORTH_CHECKING = 1 << 15  # rows; the check of the bits of a layout sums 2,200


def host_executor(layout: Layout, expected_rows: int) -> Executor:
    """The executor for NumPy rows of a shard of about so many rows."""
    if is_loaded():
        worthwhile = expected_rows >= _WORTH_CHECKING
    else:
        work = NumpyExecutor.work_done + layout.n_entries * expected_rows
        worthwhile = is_installed() and work >= _WORTH_LOADING
    compiled = worthwhile and agrees_with_numpy(layout)
    return CompiledExecutor(layout) if compiled else NumpyExecutor(layout)


def device_executor(layout: Layout, rows: Any) -> Executor:
    """The executor for rows of another array library, where they lie."""
    if is_cuda_tensor(rows):
        from momentmix.summary.kernels.triton_sums import TritonExecutor  # slow to import

        if TritonExecutor.suits(layout):
            return TritonExecutor(layout)
    return ArrayExecutor(layout, namespace(rows))
