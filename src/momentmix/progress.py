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
_TEXT = "{desc} [{elapsed}]{bar} "  # an empty bar: with it tqdm cuts the text to the terminal
_CURRENT: ContextVar[Any] = ContextVar("momentmix_bar", default=None)  # False: nothing is shown


@contextmanager
def step(label: str, asked: bool | None = None) -> Iterator[None]:
    """Show a bar inside a ``with`` block, with a label as "Fitting".

    `asked` is True for a bar at once, wherever standard error goes, and False for none; by default
    there is one in a terminal or a notebook, if the step takes longer than `DELAY`.
    """
    if _CURRENT.get() is not None:
        yield
        return
    bar: Any = False
    if is_watched() if asked is None else asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of notebooks without widgets: a bar of text
            from tqdm.auto import tqdm
        bar = tqdm(
            desc=label, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=_TEXT,
            delay=DELAY if asked is None else 0.0, mininterval=INTERVAL, miniters=0,
            disable=bool(os.environ.get("TQDM_DISABLE")),
        )  # fmt: skip
        bar.label = bar.stage = label
    try:
        with setting(_CURRENT, bar):
            yield
    finally:
        if bar is not False:
            bar.total = None  # a notebook keeps a bar that is not full, in red
            bar.close()


@contextmanager
def counting(
    label: str, total: int | None, unit: str, asked: bool | None = None
) -> Iterator[Callable[[int], Any]]:
    """Count `total` parts with the function of the ``with`` block; steps inside show nothing."""
    with step(label, asked):
        count = row_counter(total, unit=unit)
        with setting(_CURRENT, False):
            yield count


def check_asked(asked: object, others: str = "") -> bool | None:
    """Return `asked` if it is True, False or None."""
    if asked is None or isinstance(asked, bool):
        return asked
    raise InputTypeError(f"progress must be True, False{others} or None; got {asked!r}.")


def tell(stage: str) -> None:
    """Name the stage that begins."""
    if (bar := _bar()) is not None:
        bar.stage = f"{bar.label}: {stage}"
        bar.last_print_t = 0.0  # a stage may be long: its name is drawn at once
        _turn(bar, bar.stage, _TEXT)


def detail(text: str) -> None:
    """Name a part of the stage, as "pass 3"."""
    if (bar := _bar()) is not None:
        _turn(bar, f"{bar.stage}{', ' if ': ' in bar.stage else ': '}{text}", _TEXT)


def row_counter(
    total: int | None, goes_on: bool = False, unit: str = "rows"
) -> Callable[[int], Any]:
    """Count rows of a pass that begins, or of one that `goes_on` with another table."""
    if (bar := _bar()) is None:
        return lambda n: None
    if not goes_on or bar.bar_format is not None:
        bar.unit, bar.unit_scale = f" {unit}"[unit == "B" :], unit in ("rows", "B")
        _turn(bar, bar.desc.removesuffix(": "), None, total or None)
    count: Callable[[int], Any] = bar.update
    return count


def tick() -> None:
    """Draw the bar again, if it is time."""
    if (bar := _bar()) is not None:
        bar.update(0)


def erase() -> None:
    """Erase the bar until it is drawn again, before another line is printed."""
    if (bar := _bar()) is not None:
        bar.clear()


def _bar() -> Any:
    """Return the bar of the current step, or None."""
    bar = _CURRENT.get()
    return None if bar is False else bar


def _turn(bar: Any, text: str, bar_format: str | None, total: int | None = None) -> None:
    """Begin a text or a count; the bar's own reset() would draw it before the delay has passed."""
    bar.set_description_str(text, False)
    bar.bar_format, bar.total, bar.n, bar.last_print_n = bar_format, total, 0, 0
    bar.update(0)


def is_watched() -> bool:
    """Whether standard error is a terminal or a notebook, and this no worker process of either."""
    processes = sys.modules.get("multiprocessing")
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    try:
        return "ipykernel" in sys.modules or sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or one that is closed
        return False
