"""Threads that sum blocks of rows, each with its own reused memory and one BLAS thread.

Many small products run faster on one BLAS thread per block than on many; the limit holds for the
whole process while blocks are summed.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController

from momentmix.moments.accumulate import Kernel, Workspace

__all__ = ["Workers", "usable_cores"]


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Threads that sum blocks, one BLAS thread each; with one thread, the caller's own."""

    _blas: ThreadpoolController | None = None

    def __init__(self, kernel: Kernel, n_threads: int) -> None:
        self._spaces: SimpleQueue[Workspace] = SimpleQueue()
        self._kernel, self._n_threads = kernel, n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._pending: list[Future[None]] = []

    def __enter__(self) -> Workers:
        if Workers._blas is None:
            Workers._blas = ThreadpoolController()
        self._limit = Workers._blas.limit(limits=1, user_api="blas")
        self._limit.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        self._limit.__exit__(kind, error, trace)

    def submit(self, task: Any, *arguments: Any) -> None:
        """Run ``task(*arguments, workspace)`` on a thread."""
        if self._pool is None:
            self._run(task, *arguments)
            return
        if len(self._pending) >= 4 * self._n_threads:
            self._pending.pop(0).result()
        self._pending.append(self._pool.submit(self._run, task, *arguments))

    def _run(self, task: Any, *arguments: Any) -> None:
        try:
            space = self._spaces.get_nowait()
        except Empty:
            space = Workspace(self._kernel)
        try:
            task(*arguments, space)
        finally:
            self._spaces.put(space)

    def wait(self) -> None:
        """Return when all tasks are done; raise what a task raised."""
        while self._pending:
            self._pending.pop(0).result()
