"""Progress of long steps: one bar of tqdm, in a terminal or a notebook.

`step` begins a step. Code below it names its stages with `tell` and `detail`, and counts with
`row_counter` and `counting`. A step inside of another one has no bar of its own. The step is a
context variable: steps of several threads do not mix, and the first one has the bar. tqdm is
imported for a bar and not before; the bar is erased at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Lock
from typing import Any

from momentmix.errors import InputTypeError

DELAY = 1.0  # seconds from which a step is long
INTERVAL = 0.1  # seconds between two pictures of the bar
# The bar is empty; with it tqdm cuts the text to the width of the terminal. A notebook keeps what
# stood behind the bar unless there is something new.
_TEXT = "{desc} [{elapsed}]{bar} "
_FREE = Lock()  # held by the step that has the bar


@dataclass
class _Step:
    """A step, and its bar where it has one."""

    label: str
    bar: Any = None
    stage: str = ""

    def tell(self, *words: str) -> None:
        if self.bar is not None:
            told = ", ".join(filter(None, words))
            self.bar.set_description_str(f"{self.label}: {told}" if told else self.label, False)
            self._turn_to(_TEXT)

    def counter(self, total: int | None, unit: str, goes_on: bool = False) -> Callable[[int], Any]:
        if self.bar is None:
            return count_nothing
        if not goes_on or self.bar.bar_format is not None:
            self.bar.unit, self.bar.unit_scale = f" {unit}", unit == "rows"
            self._turn_to(None, total or None)
        count: Callable[[int], Any] = self.bar.update
        return count

    def _turn_to(self, bar_format: str | None, total: int | None = None) -> None:
        # The bar's reset() would draw it, also before the delay has passed.
        bar = self.bar
        bar.bar_format, bar.total, bar.n, bar.last_print_n = bar_format, total, 0, 0
        if hasattr(bar, "container"):  # the widgets of a notebook
            bar.container.children[1].max = total or 1
        bar.update(0)


_CURRENT: ContextVar[_Step] = ContextVar("momentmix_step")
_NO_STEP = _Step("")


@contextmanager
def step(label: str, asked: bool | None = None) -> Iterator[None]:
    """Show a bar inside a ``with`` block.

    Parameters
    ----------
    label : str
        What is done, as "Fitting".
    asked : bool, optional
        True: a bar at once, wherever standard error goes. False: none. By default one in a
        terminal or a notebook, if the step takes longer than `DELAY`.
    """
    wanted = is_watched() if asked is None else asked
    if _CURRENT.get(None) is not None:
        yield
    elif not wanted or os.environ.get("TQDM_DISABLE") or not _FREE.acquire(blocking=False):
        with _within(_Step(label)):
            yield
    else:
        bar = None
        try:
            bar = _new_bar(label, DELAY if asked is None else 0.0)
            with _within(_Step(label, bar)):
                yield
        finally:
            _FREE.release()
            if bar is not None:
                bar.total = None  # a notebook keeps a bar that is not full, in red
                bar.close()


@contextmanager
def counting(
    label: str, total: int | None, unit: str, asked: bool | None = None
) -> Iterator[Callable[[int], Any]]:
    """Count `total` parts with the function that the ``with`` block gets.

    Steps inside of the block show nothing; the function is `count_nothing` without a bar.
    """
    with step(label, asked):
        own = _CURRENT.get()
        with _within(_Step(label)):
            yield own.counter(total, unit)


def count_nothing(n: int) -> None:
    """Count where there is no bar."""


def check_asked(asked: object, others: str = "") -> bool | None:
    """Return `asked` if it is True, False or None."""
    if asked is None or isinstance(asked, bool):
        return asked
    raise InputTypeError(f"progress must be True, False{others} or None; got {asked!r}.")


def tell(stage: str) -> None:
    """Name the stage that begins."""
    own = _CURRENT.get(_NO_STEP)
    own.stage = stage
    if own.bar is not None:
        own.bar.last_print_t = 0.0  # a stage may be long: its name is drawn at once
    own.tell(stage)


def detail(text: str) -> None:
    """Name a part of the stage, as "pass 3"."""
    own = _CURRENT.get(_NO_STEP)
    own.tell(own.stage, text)


def row_counter(total: int | None, goes_on: bool = False) -> Callable[[int], Any]:
    """Count rows of a pass that begins, or of one that `goes_on` with another table."""
    return _CURRENT.get(_NO_STEP).counter(total, "rows", goes_on)


def erase() -> None:
    """Erase the bar until it is drawn again, before another line is printed."""
    bar = _CURRENT.get(_NO_STEP).bar
    if bar is not None:
        bar.clear()


@contextmanager
def _within(own: _Step) -> Iterator[None]:
    token = _CURRENT.set(own)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _new_bar(label: str, delay: float) -> Any:
    # tqdm.auto warns in notebooks without widgets, which have a bar of text.
    if in_notebook() and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm
    return tqdm(
        desc=label, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=_TEXT,
        delay=delay, mininterval=INTERVAL, miniters=0,
    )  # fmt: skip


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and this no worker process of either."""
    processes = sys.modules.get("multiprocessing")
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    try:
        return in_notebook() or sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or one that is closed
        return False
