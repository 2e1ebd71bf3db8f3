"""One BLAS thread for small problems.

Products of small matrices are slower on several threads than on one, many times so on busy cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["few_threads", "one_thread_below"]

P = ParamSpec("P")
R = TypeVar("R")


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
