"""What an estimator has learned: forgotten, made when a method needs it, kept where a fit fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakKeyDictionary

from sklearn.exceptions import NotFittedError

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
    """An estimator whose rows may wait for a fit until a method needs it.

    `_fit_to` sets the attributes named in `_fitted`; `_pending` says that `summary_` is waiting for
    it. Looking at an attribute never makes a fit: `hasattr`, `repr`, copies and debuggers look at
    many.
    """

    _fitted: ClassVar[frozenset[str]] = frozenset()
    summary_: MomentSummary

    def _fit_to(self, data: Any) -> Any:
        raise NotImplementedError

    def _forget(self) -> None:
        for name in (*self._fitted, "summary_", "_pending"):
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there.
        if name in type(self)._fitted and self.__dict__.get("_pending"):
            raise NotFittedError(  # an AttributeError too
                f"{name} is not known yet: partial_fit added rows, and no fit was made since. Call "
                "fit_summary(), or a method that needs the fit, as predict."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        """Whether methods have what they need: a fit, or rows that they can make one of."""
        return "mixture_" in self.__dict__ or bool(self.__dict__.get("_pending"))

    def _fit_pending(self) -> None:
        """Make the fit that is waiting, if there is one; other threads wait for it."""
        if self.__dict__.get("_pending"):
            with self._lock.held():
                if self.__dict__.get("_pending"):  # no other thread has made it meanwhile
                    self._fit_summary()

    @keeps_state
    def _fit_summary(self) -> None:
        self._fit_to(self.summary_)
        self._pending = False

    @property
    def _lock(self) -> ForkSafeLock:
        return _LOCKS.setdefault(self, ForkSafeLock())
