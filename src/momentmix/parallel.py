"""Threads: limits for BLAS, threads over blocks of rows, and reading ahead.

Products of small matrices are slower on several threads than on one, many times slower on busy
cores. The number of BLAS threads is global to the process, so the package has one limit for it.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import lru_cache, partial
from threading import RLock, get_ident
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from momentmix.errors import HELD, HeldWarnings, setting, warn_caller

_LARGE = 2000  # unknowns of a factorization from which several threads are worth their cost

S = TypeVar("S")
T = TypeVar("T")


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> list[Any]:
    """BLAS libraries of the process; searched for again only after new imports (milliseconds)."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads, although threadpoolctl lets only the first thread change it."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(n_threads)
    release(force=True)


class _BlasLimit:
    """A limit on the number of BLAS threads: the latest that is held; without any, as it was."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._limits: dict[object, tuple[int, int]] = {}  # holder → its thread, number of threads
        self._initial: dict[str, int] = {}  # number of threads by library

    def in_child(self) -> None:
        """Forget, after a fork, the threads that the child does not have: one may hold the lock."""
        self._lock, here = RLock(), get_ident()
        self._limits = {key: limit for key, limit in self._limits.items() if limit[0] == here}

    @contextmanager
    def at(self, n_threads: int) -> Iterator[None]:
        """Limit the number of BLAS threads inside a ``with`` block."""
        holder = object()
        try:
            with self._lock:
                self._limits[holder] = get_ident(), n_threads
                self._apply()
            yield
        finally:
            with self._lock:
                self._limits.pop(holder, None)
                self._apply()

    def _apply(self) -> None:
        for library in _libraries(len(sys.modules)):
            key, n_threads = library.filepath, library.num_threads
            if self._limits:
                self._initial.setdefault(key, n_threads)
                wanted = [*self._limits.values()][-1][1]
            else:
                wanted = self._initial.pop(key, n_threads)
            if n_threads != wanted:  # setting it takes longer than reading it
                _set_threads(library, wanted)


_BLAS = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BLAS.in_child)


@contextmanager
def few_threads(small: bool) -> Iterator[None]:
    """Limit BLAS to one thread if the work is small; change nothing otherwise."""
    with _BLAS.at(1) if small else nullcontext():
        yield


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Let BLAS use every core for a factorization of `size` unknowns, if they are many."""
    with _BLAS.at(usable_cores()) if size >= _LARGE else nullcontext():
        yield


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(work: Callable[[S], T], items: Iterable[S], n_threads: int) -> Iterator[T]:
    """Results in the order of the items, with at most 2·n_threads items in memory."""
    pending: deque[Callable[[], T]] = deque()
    with nullcontext() if n_threads == 1 else ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            pending.append(pool.submit(work, item).result if pool else partial(work, item))
            if pool is None or len(pending) >= 2 * n_threads:
                yield pending.popleft()()
        while pending:
            yield pending.popleft()()


def begin(work: Callable[[], T], n_threads: int) -> Callable[[], T]:
    """Return a function that gives the result of `work`, which has begun if there are threads."""
    if n_threads == 1:
        return work
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future.result


_END: Any = object()


def read_ahead(items: Generator[T, None, None], n_ahead: int = 2) -> Iterator[T]:
    """The same items, which another thread makes while the caller works on those before.

    The order stays; an error, and a warning of this package, comes in the place of the item at
    which it happened. The thread ends with the last item, at an error, and when the caller stops
    early. At most `n_ahead` items are made or being made, beside the one that the caller has.
    """
    context = copy_context()  # rows that the other thread reads count for the step of this one

    def make() -> tuple[T, BaseException | None, HeldWarnings]:
        held: HeldWarnings = []
        try:
            with setting(HELD, held):
                return next(items, _END), None, held
        except BaseException as error:
            return _END, error, held

    def first(pending: deque[Future[tuple[T, BaseException | None, HeldWarnings]]]) -> T:
        item, error, held = pending.popleft().result()
        for warning in held:
            warn_caller(*warning)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return item

    with ThreadPoolExecutor(1) as pool:
        try:
            pending = deque(pool.submit(context.run, make) for _ in range(n_ahead))
            while (item := first(pending)) is not _END:
                pending.append(pool.submit(context.run, make))
                yield item
        finally:
            pool.shutdown(cancel_futures=True)
            items.close()
