"""Progress of long steps: one bar of tqdm, in a terminal or a notebook.

`step` begins a step. Code below it names its stages with `tell` and `detail`, and counts with
`row_counter` and `counting`. Where the shares of the stages in the whole work are known, `plan`
gives them; the bar then shows what is done of all, and the time that is left at the pace so far.
Loops without numbers call `tick`, so that the time goes on. A step inside of another one has no bar
of its own. The bar is a context variable: steps of several threads do not mix, and the first one
has the bar. tqdm is imported for a bar and not before; the bar is erased at the end.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any

from momentmix.errors import InputTypeError, setting

DELAY = 1.0  # seconds from which a step is long
INTERVAL = 0.1  # seconds between two pictures of the bar
# The bar is empty; with it tqdm cuts the text to the width of the terminal. A notebook keeps what
# stood behind the bar unless there is something new.
_TEXT = "{desc} [{elapsed}]{bar} "
_PLANNED = "{desc} [{elapsed}, about {remaining} left] {percentage:3.0f} %|{bar}|"
_FREE = Lock()  # held by the step that has the bar
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
    elif not (is_watched() if asked is None else asked) or not _FREE.acquire(blocking=False):
        with setting(_CURRENT, _NO_BAR):
            yield
    else:
        try:
            bar = _new_bar(label, DELAY if asked is None else 0.0)
            try:
                with setting(_CURRENT, bar):
                    yield
            finally:
                bar.total = None  # a notebook keeps a bar that is not full, in red
                bar.close()
        finally:
            _FREE.release()


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


def plan(shares: Mapping[str, float]) -> None:
    """Give the shares of the stages that follow in the work of the step, in their order."""
    bar = _bar()
    if bar is not None:
        bar.ends, end = {}, 0.0
        for stage, share in shares.items():
            bar.ends[stage] = end / sum(shares.values()), (end + share) / sum(shares.values())
            end += share


def tell(stage: str, part: str = "", done: float = 0.0) -> None:
    """Name the stage that begins, or a part of it, before which a share of it is done."""
    bar = _bar()
    if bar is None:
        return
    if not part:
        bar.stage = stage
        bar.last_print_t = 0.0  # a stage may be long: its name is drawn at once
    bar.part = part
    _describe(bar, part)
    if not bar.ends:
        _turn(bar, _TEXT)
        return
    start, end = bar.ends.get(stage, (0.0, 0.0))  # a stage that was not planned does not move it
    if bar.bar_format != _PLANNED:
        _turn(bar, _PLANNED, 1)
    bar.update(max(0.0, start + min(done, 1.0) * (end - start) - bar.n))


def detail(text: str, done: float = 0.0) -> None:
    """Name a part of the stage, as "pass 3", before which the share `done` of the stage is done."""
    tell(getattr(_bar(), "stage", ""), text, done)


def finish(stage: str) -> None:
    """Move on to the end of a planned stage."""
    bar = _bar()
    if bar is not None and stage in bar.ends:
        bar.update(max(0.0, bar.ends[stage][1] - bar.n))


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
    if bar.ends:  # the bar shows the share of all stages
        return partial(_count_within, bar, [0], total, unit)
    if not goes_on or bar.bar_format is not None:
        bar.unit, bar.unit_scale = f" {unit}"[unit == "B" :], unit in ("rows", "B")
        _turn(bar, None, total or None)
    count: Callable[[int], Any] = bar.update
    return count


def _count_within(bar: Any, done: list[int], total: int | None, unit: str, n: int) -> None:
    """Count in the text of a planned bar; a stage without parts is as far as its count."""
    done[0] += n
    of_all = f" of {total:,}" if total else ""
    told = f"{done[0]:,}{of_all} {unit}"
    if total and not bar.part:
        start, end = bar.ends.get(bar.stage, (0.0, 0.0))
        bar.update(max(0.0, start + min(done[0] / total, 1.0) * (end - start) - bar.n))
    _describe(bar, bar.part, told)
    bar.update(0)


def _describe(bar: Any, *parts: str) -> None:
    told = ", ".join(filter(None, (bar.stage, *parts)))
    bar.set_description_str(f"{bar.label}: {told}" if told else bar.label, False)


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
        smoothing=0.0,  # the pace of the whole time: stages differ
    )  # fmt: skip
    bar.label, bar.stage, bar.part, bar.ends = label, "", "", {}
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
