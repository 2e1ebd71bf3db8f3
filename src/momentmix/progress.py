"""Progress of long steps: a bar of tqdm in a terminal or a notebook, erased at the end.

`step` begins a step. Code below it names its stages with `tell` and `detail`, and counts with
`row_counter`. Steps inside of another one have no bar of their own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from momentmix.errors import InputTypeError, setting

DELAY = 1.0  # seconds from which a step is long
INTERVAL = 0.1  # seconds between two pictures of the bar
_STAGE = "{desc} [{elapsed}]{bar} "  # an empty bar: with it tqdm cuts the text to the terminal
_BAR: ContextVar[Any] = ContextVar("momentmix_bar", default=None)  # nullcontext: no bar


@contextmanager
def step(label: str, asked: object = None) -> Iterator[None]:
    """Show a bar inside a ``with`` block, with a label as "Fitting".

    `asked` is True for a bar at once, wherever standard error goes, and False for none; by default
    there is one in a terminal or a notebook, if the step takes longer than `DELAY`.
    """
    if not (asked is None or isinstance(asked, bool)):
        text = f"progress must be True, False or None (of a fit, a callable too); got {asked!r}."
        raise InputTypeError(text)
    if _BAR.get() is not None:
        yield
        return
    bar: Any = nullcontext()
    if is_watched() if asked is None else asked:
        from tqdm.auto import tqdm  # not before: it takes a while

        bar = tqdm(
            desc=label, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=_STAGE,
            delay=0.0 if asked else DELAY, mininterval=INTERVAL, miniters=0,
            disable=bool(os.environ.get("TQDM_DISABLE")),
        )  # fmt: skip
        bar.label = bar.stage = label
    with setting(_BAR, bar), bar:
        yield


def tell(stage: str) -> None:
    """Name the stage that begins."""
    if (bar := _bar()) is not None:
        bar.stage = f"{bar.label}: {stage}"
        _begin(bar, bar.stage, _STAGE)


def detail(text: str) -> None:
    """Name a part of the stage, as "pass 3"."""
    if (bar := _bar()) is not None:
        _begin(bar, f"{bar.stage}, {text}", _STAGE)


def row_counter(
    total: int | None, goes_on: bool = False, unit: str = "rows"
) -> Callable[[int], Any]:
    """Count rows of a pass that begins, or of one that `goes_on` with another table."""
    if (bar := _bar()) is None:
        return lambda n: None
    if not goes_on or bar.bar_format is not None:
        bar.unit, bar.unit_scale = f" {unit}", True
        _begin(bar, bar.stage, None, total)
    count: Callable[[int], Any] = bar.update
    return count


def erase() -> None:
    """Erase the bar until it is drawn again, before another line is printed."""
    if (bar := _bar()) is not None:
        bar.clear()


def _bar() -> Any:
    """Return the bar of the current step, or None."""
    bar = _BAR.get()
    return None if isinstance(bar, nullcontext) else bar


def _begin(bar: Any, text: str, bar_format: str | None, total: int | None = None) -> None:
    """Begin a text or a count; the bar's own reset() would draw it before the delay has passed."""
    bar.set_description_str(text, False)
    bar.bar_format, bar.total, bar.n, bar.last_print_n, bar.last_print_t = (
        bar_format,
        total,
        0,
        0,
        0,
    )
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
