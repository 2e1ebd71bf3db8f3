"""Progress of long steps: one bar of tqdm, in a terminal or a notebook.

`step` begins a step. Code below it names its stages with `tell` and `detail`, and counts with
`row_counter` and `counting`. A step inside of another one has no bar of its own. tqdm is imported
for a bar and not before; the bar is erased at the end.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from momentmix.errors import InputTypeError, setting

DELAY = 1.0  # seconds from which a step is long
INTERVAL = 0.1  # seconds between two pictures of the bar
# The bar is empty; with it tqdm cuts the text to the width of the terminal.
_TEXT = "{desc} [{elapsed}]{bar} "
_NO_BAR = object()  # of a step that shows nothing
_CURRENT: ContextVar[Any] = ContextVar("momentmix_bar", default=None)


@contextmanager
def step(label: str, asked: bool | None = None) -> Iterator[None]:
    """Show a bar inside a ``with`` block, with a label as "Fitting".

    `asked` is True for a bar at once, wherever standard error goes, and False for none; by default
    there is one in a terminal or a notebook, if the step takes longer than `DELAY`.
    """
    if _CURRENT.get() is not None:
        yield
    elif not (is_watched() if asked is None else asked):
        with setting(_CURRENT, _NO_BAR):
            yield
    else:
        bar = _new_bar(label, DELAY if asked is None else 0.0)
        try:
            with setting(_CURRENT, bar):
                yield
        finally:
            bar.total = None  # a notebook keeps a bar that is not full, in red
            bar.close()


@contextmanager
def counting(
    label: str, total: int | None, unit: str, asked: bool | None = None
) -> Iterator[Callable[[int], Any]]:
    """Count `total` parts with the function of the ``with`` block; steps inside show nothing."""
    with step(label, asked):
        count = row_counter(total, unit=unit)
        with setting(_CURRENT, _NO_BAR):
            yield count


def count_nothing(n: int) -> None:
    """Count where there is no bar."""


def check_asked(asked: object, others: str = "") -> bool | None:
    """Return `asked` if it is True, False or None."""
    if asked is None or isinstance(asked, bool):
        return asked
    raise InputTypeError(f"progress must be True, False{others} or None; got {asked!r}.")


def tell(stage: str, part: str = "") -> None:
    """Name the stage that begins, or a part of it."""
    bar = _bar()
    if bar is None:
        return
    if not part:
        bar.stage = stage
        bar.last_print_t = 0.0  # a stage may be long: its name is drawn at once
    told = ", ".join(filter(None, (bar.stage, part)))
    bar.set_description_str(f"{bar.label}: {told}" if told else bar.label, False)
    _turn(bar, _TEXT)


def detail(text: str) -> None:
    """Name a part of the stage, as "pass 3"."""
    tell(getattr(_bar(), "stage", ""), text)


def tick() -> None:
    """Draw the bar again, if it is time."""
    bar = _bar()
    if bar is not None:
        bar.update(0)


def row_counter(
    total: int | None, goes_on: bool = False, unit: str = "rows"
) -> Callable[[int], Any]:
    """Count rows of a pass that begins, or of one that `goes_on` with another table."""
    bar = _bar()
    if bar is None:
        return count_nothing
    if not goes_on or bar.bar_format is not None:
        bar.unit, bar.unit_scale = f" {unit}"[unit == "B" :], unit in ("rows", "B")
        _turn(bar, None, total or None)
    count: Callable[[int], Any] = bar.update
    return count


def erase() -> None:
    """Erase the bar until it is drawn again, before another line is printed."""
    bar = _bar()
    if bar is not None:
        bar.clear()


def _bar() -> Any:
    """Return the bar of the current step, or None."""
    bar = _CURRENT.get()
    return None if bar is _NO_BAR else bar


def _turn(bar: Any, bar_format: str | None, total: int | None = None) -> None:
    """Begin a text or a count; the bar's own reset() would draw it before the delay has passed."""
    bar.bar_format, bar.total, bar.n, bar.last_print_n = bar_format, total, 0, 0
    if hasattr(bar, "container"):  # the widgets of a notebook
        bar.container.children[1].max = total or 1
    bar.update(0)


def _new_bar(label: str, delay: float) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of notebooks without widgets, which have a bar of text
        from tqdm.auto import tqdm
    bar = tqdm(
        desc=label, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=_TEXT,
        delay=delay, mininterval=INTERVAL, miniters=0, disable=bool(os.environ.get("TQDM_DISABLE")),
    )  # fmt: skip
    bar.label, bar.stage = label, ""
    return bar


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and this no worker process of either."""
    processes = sys.modules.get("multiprocessing")
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    try:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        in_notebook = shell is not None and "IPKernelApp" in shell.config
        return in_notebook or sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or one that is closed
        return False
