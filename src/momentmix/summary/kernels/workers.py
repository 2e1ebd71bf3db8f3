"""Threads that sum blocks of rows, one BLAS thread each.

Many small products run faster on one BLAS thread per block than on many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import TypeVar

from momentmix.parallel import few_threads

S = TypeVar("S")
T = TypeVar("T")


class Workers:
    """Threads that sum blocks; with one thread, the caller's own.

    Parameters
    ----------
    n_threads : int
    uses_blas : bool
        Whether the work calls BLAS, whose own threads are to be limited then.
    """

    def __init__(self, n_threads: int, uses_blas: bool = True) -> None:
        self.n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None
        self._limit, self._limited = ExitStack(), not uses_blas

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

    def map(self, work: Callable[[S], T], items: Sequence[S], alone: bool = False) -> list[T]:
        """`work` of each item, on all threads; `alone`: on the caller's, as for a single item."""
        if not self._limited:  # only now: an update that completes no block costs nothing here
            self._limit.enter_context(few_threads(True))
            self._limited = True
        if alone or self.n_threads == 1 or len(items) == 1:
            return [work(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return list(self._pool.map(work, items))
