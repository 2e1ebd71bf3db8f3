"""Threads that sum blocks of rows, one BLAS thread each.

Many small products run faster on one BLAS thread per block than on many.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from momentmix.parallel import few_threads

_QUEUED = 4  # blocks that wait for each thread: enough to keep it busy, little memory


class Workers:
    """Threads that sum blocks; with one thread, the caller's own."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
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
        """Run ``task(*arguments)`` on a thread; `alone`: on the caller's, at once."""
        if not self._limited:  # only now: an update that completes no block costs nothing here
            self._limit.enter_context(few_threads(True))
            self._limited = True
        if alone or self._n_threads == 1:
            task(*arguments)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads)
        if len(self._pending) >= _QUEUED * self._n_threads:
            self._pending.pop(0).result()
        self._pending.append(self._pool.submit(task, *arguments))

    def wait(self) -> None:
        """Return when all tasks are done; raise what a task raised."""
        while self._pending:
            self._pending.pop(0).result()
