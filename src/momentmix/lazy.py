"""Properties that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - used as `property` is
    """Property that is kept in the object once it is computed, without a lock.

    `functools.cached_property` has one lock for all objects before Python 3.12: a process that was
    forked while a thread held it would wait for it forever. Two threads may both compute a value;
    both get the one that is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    @overload
    def __get__(self, owner: None, cls: type) -> lazy_property[T]: ...
    @overload
    def __get__(self, owner: object, cls: type) -> T: ...
    def __get__(self, owner: object, cls: type) -> lazy_property[T] | T:
        if owner is None:
            return self
        value: T = vars(owner).setdefault(self.compute.__name__, self.compute(owner))
        return value
