"""A reentrant lock that is free in a forked child process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast
from weakref import WeakSet

Method = TypeVar("Method", bound=Callable[..., Any])


class ForkSafeLock:
    """A reentrant lock. In a forked child it is free, even if a thread of the parent held it.

    Examples
    --------
    >>> lock = ForkSafeLock()
    >>> with lock.held(), lock.held():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = RLock()
        _LOCKS.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context in which the current thread holds the lock."""
        lock = self._lock  # release the same object, even if the thread forks in between
        with lock:
            yield

    def _renew(self) -> None:
        self._lock = RLock()


_LOCKS: WeakSet[ForkSafeLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def one_at_a_time(method: Method) -> Method:
    """Decorator for a method of an object with a `_lock`: other threads wait until it returns."""

    @wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        with self._lock.held():
            return method(self, *arguments, **options)

    return cast(Method, locked)
