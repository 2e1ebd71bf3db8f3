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
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Event, Lock, Thread
from time import time
from typing import Any

from momentmix.errors import InputTypeError

DELAY = 1.0  # seconds from which a step is long
INTERVAL = 0.2  # seconds between two pictures of the bar

_FREE = Lock()  # held by the step that has the bar


@dataclass
class Count:
    """How many of `total` parts are done; the total is None where it is not known."""

    total: int | None
    unit: str
    done: int = 0
    began: float = field(default_factory=time)

    def add(self, n: int) -> None:
        """Count so many more."""
        self.done += n


@dataclass
class Step:
    """Where a step is. The thread that draws reads what the others write."""

    label: str
    stage: str = ""
    detail: str = ""
    count: Count | None = None
    bar: _Bar | None = None
    began: float = field(default_factory=time)

    @property
    def text(self) -> str:
        """What the bar says."""
        words = ", ".join(word for word in (self.stage, self.detail) if word)
        return f"{self.label}: {words}" if words else self.label


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
        own.bar = _Bar(own, DELAY if asked is None else 0.0)
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


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


# -- drawing ----------------------------------------------------------------------------------


class _Bar:
    """The bar of a step, drawn by a thread while the step works."""

    def __init__(self, own: Step, delay: float) -> None:
        self.step, self.stream = own, sys.stderr
        self.drawn: _Drawn | None = None
        self.ended, self.lock = Event(), Lock()
        if not delay:
            self.drawn = _class_of_bar()(own, self.stream)
        work = Thread(target=copy_context().run, args=(self._run, delay), daemon=True)
        with suppress(RuntimeError):  # of systems without threads
            work.start()

    def erase(self) -> None:
        with self.lock:
            if self.drawn is not None:
                self.drawn.bar.clear()

    def close(self) -> None:
        # No step fails because of its bar, as where the terminal is gone.
        with self.lock, suppress(Exception):
            self.ended.set()
            if self.drawn is not None:
                self.drawn.draw(self.step)
                self.drawn.close()

    def _run(self, delay: float) -> None:
        with suppress(Exception):
            if delay and not self.ended.wait(delay):
                kind = _class_of_bar()  # without the lock: the end of a step waits for no import
                with self.lock:
                    if not self.ended.is_set():
                        self.drawn = kind(self.step, self.stream)
            while not self.ended.wait(INTERVAL):
                with self.lock:
                    if not self.ended.is_set() and self.drawn is not None:
                        self.drawn.draw(self.step)


def _class_of_bar() -> type[_Drawn]:
    """What tqdm.auto would choose; that one changes the filters of warnings, unfit for a thread."""
    if in_notebook() and find_spec("ipywidgets") is not None:
        import tqdm.notebook

        return _DrawnInNotebook
    import tqdm  # noqa: F401

    return _Drawn


class _Drawn:
    """A bar of tqdm in a terminal."""

    # With a bar, which is empty, tqdm cuts the text to the width of the terminal.
    text_format = "{desc} [{elapsed}]{bar}"

    def __init__(self, own: Step, stream: Any) -> None:
        self.counted: Count | None = None
        self.bar = self.new_bar(own.text, stream)
        self.bar.start_t = own.began
        self.draw(own)

    def new_bar(self, text: str, stream: Any) -> Any:
        from tqdm import tqdm

        return tqdm(
            desc=text, file=stream, leave=False, dynamic_ncols=True, bar_format=self.text_format
        )

    def draw(self, own: Step) -> None:
        bar, count = self.bar, own.count
        bar.set_description_str(own.text, refresh=False)
        if count is not self.counted:
            self.counted = count
            self._turn_to(count, own.began)
        bar.n = 0 if count is None else count.done
        bar.refresh()

    def _turn_to(self, count: Count | None, began: float) -> None:
        """Count something else, from its own beginning; without a count show the time of all."""
        bar = self.bar
        bar.total = None
        if count is None:
            bar.bar_format = self.text_format
            bar.reset()
            bar.start_t = began
        else:
            bar.bar_format = None
            bar.unit, bar.unit_scale = f" {count.unit}", count.unit == "rows"
            bar.reset(count.total or None)
            bar.start_t = count.began

    def close(self) -> None:
        self.bar.close()


class _DrawnInNotebook(_Drawn):
    """A bar of tqdm as a widget; nothing of it stays in the notebook."""

    text_format = "{desc}{bar}[{elapsed}]"  # something to the right: tqdm leaves the old text else

    def new_bar(self, text: str, stream: Any) -> Any:
        from IPython.display import display
        from tqdm.notebook import tqdm

        bar = tqdm(desc=text, leave=False, bar_format=self.text_format, display=False)
        self.output = display(bar.container, display_id=True)
        return bar

    def close(self) -> None:
        self.bar.total = None  # tqdm would leave a bar that is not full, in red
        self.bar.close()
        self.output.update({"text/plain": ""}, raw=True)
