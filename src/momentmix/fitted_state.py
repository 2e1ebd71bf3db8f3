"""What an estimator has learned: forgotten, made when it is first used, kept where a fit fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakKeyDictionary

from momentmix.locks import ForkSafeLock, one_at_a_time
from momentmix.summary.summary import MomentSummary

Method = TypeVar("Method", bound=Callable[..., Any])

_LOCKS: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()  # by estimator; never pickled


def keeps_state(method: Method) -> Method:
    """The method, one thread at a time; if it fails, the estimator is as it was before."""

    @one_at_a_time
    @wraps(method)
    def guarded(self: Any, *arguments: Any, **options: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return method(self, *arguments, **options)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Method, guarded)


class FittedState:
    """An estimator whose fitted attributes are made when one of them is first used.

    `_fit_to` sets those named in `_fitted`; `_pending` says that `summary_` is waiting for it.
    """

    _fitted: ClassVar[frozenset[str]] = frozenset()
    summary_: MomentSummary

    def _fit_to(self, data: Any) -> Any:
        raise NotImplementedError

    def _forget(self) -> None:
        for name in (*self._fitted, "summary_", "_pending"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there: fitted attributes while rows are waiting for a fit.
        if name in type(self)._fitted:
            with self._lock.held():  # another thread may be at it
                if name not in self.__dict__ and self.__dict__.get("_pending"):
                    self._fit_pending()
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _fit_pending(self) -> None:
        self._pending = False
        try:
            self._fit_to(self.summary_)
        except BaseException:
            self._pending = True
            raise

    @property
    def _lock(self) -> ForkSafeLock:
        return _LOCKS.setdefault(self, ForkSafeLock())
