"""The number of BLAS threads while work is done, and threads over blocks instead.

Products of small matrices are slower on several threads than on one, many times so on busy cores.
The number belongs to the process, so that there is one limit for the whole package.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import get_ident
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

from momentmix.locks import ForkSafeLock

__all__ = ["all_threads", "few_threads", "map_in_order", "one_thread_below", "usable_cores"]

_LARGE = 2000

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> list[Any]:
    """BLAS libraries of the process; a search takes milliseconds, so only after new imports."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads, whichever thread set it before.

    From threadpoolctl 3.8 on, only the thread that set it first can do so until it lets go.
    """
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    library.set_num_threads(n_threads)
    let_go(force=True)


def _is_per_thread(library: Any) -> bool:
    """Whether each thread has its own number (OpenBLAS by OpenMP from threadpoolctl 3.8 on)."""
    layer = library.internal_api, getattr(library, "threading_layer", None)
    return layer == ("openblas", "openmp") and hasattr(library, "clear_controlling_thread")


class _BlasLimit:
    """The number of BLAS threads that its holders ask for, in whatever threads they run.

    The number in force is the one asked for last among those still held. Who releases the last one
    restores what the first one found.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._held: dict[object, tuple[int, int]] = {}  # holder → its thread, number of threads
        self._before: dict[tuple[str, int | None], int] = {}  # number by library (and thread)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._drop_other_threads)

    @contextmanager
    def at(self, n_threads: int) -> Iterator[None]:
        """Hold a limit."""
        holder = object()
        try:
            with self._lock.held():
                self._held[holder] = get_ident(), n_threads
                self._apply()
            yield
        finally:
            with self._lock.held():
                self._held.pop(holder, None)
                self._apply()

    def _apply(self) -> None:
        here = get_ident()
        for library in _libraries(len(sys.modules)):
            per_thread = _is_per_thread(library)
            key = library.filepath, here if per_thread else None
            asked = [n for thread, n in self._held.values() if thread == here or not per_thread]
            if asked:
                self._before.setdefault(key, library.num_threads)
            wanted = asked[-1] if asked else self._before.pop(key, library.num_threads)
            if library.num_threads != wanted:  # setting it takes longer than asking
                _set_threads(library, wanted)

    def _drop_other_threads(self) -> None:
        """In a forked child: only the thread that forked is there to release what it holds."""
        if self._held:
            self._held = {k: v for k, v in self._held.items() if v[0] == get_ident()}
            self._apply()


_BLAS = _BlasLimit()


@contextmanager
def few_threads(small: bool) -> Iterator[None]:
    """Limit BLAS to one thread while `small` work is done; leave it alone otherwise."""
    if not small:
        yield
        return
    with _BLAS.at(1):
        yield


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Let BLAS use every core for a factorization of so many unknowns, if they are many."""
    if size < _LARGE:
        yield
        return
    with _BLAS.at(usable_cores()):
        yield


def one_thread_below(rank: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function of (tensor, rank, …): one BLAS thread where the rank is below `rank`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            size = kwargs.get("rank", args[1] if len(args) > 1 else None)
            with few_threads(isinstance(size, int) and size < rank):
                return function(*args, **kwargs)

        return limited

    return decorate


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(work: Callable[[S], T], items: Iterable[S], n_threads: int) -> Iterator[T]:
    """Results in the order of the items, with at most 2·n_threads items held at once."""
    if n_threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
