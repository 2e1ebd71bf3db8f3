"""Progress of long steps: one bar of tqdm, in a terminal or a notebook.

`step` begins a step, and code below it says where it is: `tell` and `detail` in words,
`row_counter` and `counting` in numbers. That costs the setting of an attribute. A thread draws the
bar a few times a second, from a second after the step began. It imports tqdm then, and not before;
the bar is erased at the end.

A step inside of another one shows nothing of its own: there is one bar at a time. The step of a
thread is a context variable, so that steps of several threads do not mix; the first has the bar.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from momentmix.errors import InputTypeError
from momentmix.progress_bar import Bar, Count, Step, in_notebook

DELAY = 1.0  # seconds from which a step is long

_FREE = Lock()  # held by the step that has the bar


_CURRENT: ContextVar[Step | None] = ContextVar("momentmix_step", default=None)


# -- what code says ---------------------------------------------------------------------------


@contextmanager
def step(label: str, asked: bool | None = None) -> Iterator[None]:
    """A step that may be long.

    Parameters
    ----------
    label : str
        What is done, as "Fitting".
    asked : bool, optional
        True: a bar at once, wherever standard error goes. False: none. By default one where
        somebody looks, if the step takes longer than `DELAY`.
    """
    if _CURRENT.get() is not None:
        yield
        return
    own = Step(label)
    with within(own), _shown(own, asked):
        yield


@contextmanager
def counting(
    label: str, total: int | None, unit: str, asked: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """A step of `total` parts, or a part of the step around it; a function to count them with.

    What is done for one of the parts shows nothing of its own.
    """
    around = _CURRENT.get()
    with step(label, asked):
        own = _CURRENT.get()
        assert own is not None
        count = own.count = Count(total, unit)
        with within(Step(label, bar=own.bar)):
            yield count.add
        if around is not None:
            around.count = None


def check_asked(asked: object, others: str = "") -> bool | None:
    """What was asked for, if it is True, False or None."""
    if asked is None or isinstance(asked, bool):
        return asked
    raise InputTypeError(f"progress must be True, False{others} or None; got {asked!r}.")


def tell(stage: str) -> None:
    """Name the stage that begins."""
    own = _CURRENT.get()
    if own is not None:
        own.stage, own.detail, own.count = stage, "", None


def detail(text: str) -> None:
    """Say where the stage is, as "pass 3"."""
    own = _CURRENT.get()
    if own is not None:
        own.detail, own.count = text, None


def row_counter(total: int | None, goes_on: bool = False) -> Callable[[int], None]:
    """What counts rows of a pass that begins, or of one that `goes_on` with another table."""
    own = _CURRENT.get()
    if own is None:
        return _count_nothing
    count = own.count
    if count is None or not goes_on:
        count = own.count = Count(total, "rows")
    return count.add


def _count_nothing(n: int) -> None:
    pass


def erase() -> None:
    """Take the bar away until it is drawn again, for a line that somebody else prints."""
    own = _CURRENT.get()
    if own is not None and own.bar is not None:
        own.bar.erase()


def may_show() -> bool:
    """Whether the step shows, now or when it has taken longer."""
    own = _CURRENT.get()
    return own is not None and own.bar is not None


def current() -> Step | None:
    """The step of this thread, for `within` on another one."""
    return _CURRENT.get()


@contextmanager
def within(own: Step | None) -> Iterator[None]:
    """Be inside of a step: its own, or that of the thread that began this one."""
    token = _CURRENT.set(own)
    try:
        yield
    finally:
        _CURRENT.reset(token)


# -- whether there is a bar -------------------------------------------------------------------


@contextmanager
def _shown(own: Step, asked: bool | None) -> Iterator[None]:
    wanted = is_watched() if asked is None else asked
    if not wanted or is_disabled() or not _FREE.acquire(blocking=False):
        yield
        return
    try:
        own.bar = Bar(own, sys.stderr, DELAY if asked is None else 0.0)
        try:
            yield
        finally:
            own.bar.close()
    finally:
        _FREE.release()


def is_watched() -> bool:
    """Whether somebody looks: a terminal or a notebook, and no worker process of either."""
    processes = sys.modules.get("multiprocessing")
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    try:
        return in_notebook() or sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or one that is closed
        return False


def is_disabled() -> bool:
    """Whether the environment turns all bars off; in notebooks tqdm itself does not ask."""
    return bool(os.environ.get("TQDM_DISABLE"))
