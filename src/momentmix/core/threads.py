"""One BLAS thread for small problems, and threads over blocks instead.

Products of small matrices are slower on several threads than on one, many times so on busy cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["all_threads", "few_threads", "map_in_order", "one_thread_below", "usable_cores"]

_LARGE = 2000

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looking for libraries takes milliseconds: once is enough


@contextmanager
def few_threads(small: bool) -> Iterator[None]:
    """Limit BLAS to one thread while `small` work is done; leave it alone otherwise."""
    if not small:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Let BLAS use every core for a factorisation of so many unknowns, if they are many."""
    if size < _LARGE:
        yield
        return
    with _controller().limit(limits=usable_cores(), user_api="blas"):
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
