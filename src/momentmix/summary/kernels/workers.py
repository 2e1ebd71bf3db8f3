"""Threads that sum blocks of rows, each with its own reused memory and one BLAS thread.

Many small products run faster on one BLAS thread per block than on many.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from momentmix.parallel import few_threads
from momentmix.summary.kernels.compiled import load_blas
from momentmix.summary.kernels.kernel import Kernel, Workspace

__all__ = ["Workers"]


class Workers:
    """Threads that sum blocks, one BLAS thread each; with one thread, the caller's own.

    Parameters
    ----------
    kernel : Kernel
    n_threads : int
    spaces : queue of Workspace
        Memory for later; empty at first.
    """

    def __init__(self, kernel: Kernel, n_threads: int, spaces: SimpleQueue[Workspace]) -> None:
        self._kernel, self._n_threads, self._spaces = kernel, n_threads, spaces
        self._pool: ThreadPoolExecutor | None = None
        self._pending: list[Future[None]] = []
        self._limit, self._limited = ExitStack(), False

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._limit:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=kind is not None)

    def submit(self, task: Any, *arguments: Any, alone: bool = False) -> None:
        """Run ``task(*arguments, workspace)`` on a thread; `alone`: on the caller's, at once."""
        if not self._limited:  # only now: an update that completes no block costs nothing here
            load_blas()
            self._limit.enter_context(few_threads(True))
            self._limited = True
        if alone or self._n_threads == 1:
            self._run(task, *arguments)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads)
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
