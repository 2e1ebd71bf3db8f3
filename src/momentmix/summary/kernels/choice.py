"""Which executor a shard takes.

| executor | rows | plan |
|---|---|---|
| ``native_sums.NativeExecutor`` | NumPy, by compiled code | ``half_split`` |
| ``numpy_sums.NumpyExecutor`` | NumPy, where there is no compiled code | ``half_split`` |
| ``array_sums.ArrayExecutor`` | any library of the array API | ``whole_tables`` |
| ``triton_sums.TritonExecutor`` | torch on an NVIDIA device | ``tile_plan`` |

Compiled code sums all NumPy rows where it is there, from the first row on, so that neither the
number of rows nor that of threads shows in the bits of a summary. For rows on a device the array
library and the layout alone decide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from momentmix.arrays import is_cuda_tensor, namespace
from momentmix.native import code
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.kernels.executor import Executor, HostExecutor
from momentmix.summary.kernels.native_sums import NativeExecutor
from momentmix.summary.kernels.numpy_sums import NumpyExecutor
from momentmix.summary.layout import Layout

_FEW = 5000  # moments: their memory is a megabyte or two for each thread


def host_executor(layout: Layout) -> HostExecutor:
    """The executor for NumPy rows."""
    if code is None:
        return NumpyExecutor(layout)
    return (
        _native(layout, code.tile_shape()) if layout.n_entries <= _FEW else NativeExecutor(layout)
    )


@lru_cache(maxsize=4)
def _native(layout: Layout, tile: tuple[int, int]) -> NativeExecutor:
    """One for all shards of few moments, whose time its memory would take to make."""
    return NativeExecutor(layout)


def device_executor(layout: Layout, rows: Any) -> Executor:
    """The executor for rows of another array library, where they lie."""
    if is_cuda_tensor(rows):
        from momentmix.summary.kernels.triton_sums import TritonExecutor  # slow to import

        if TritonExecutor.suits(layout):
            return TritonExecutor(layout)
    return ArrayExecutor(layout, namespace(rows))
