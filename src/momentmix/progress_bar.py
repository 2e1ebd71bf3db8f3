"""How a step is shown: a bar of tqdm that a thread draws while the step works."""

from __future__ import annotations

import sys
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Event, Lock, Thread
from time import time
from typing import Any

INTERVAL = 0.2  # seconds between two pictures of the bar


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
    bar: Bar | None = None
    began: float = field(default_factory=time)

    @property
    def text(self) -> str:
        """What the bar says."""
        words = ", ".join(word for word in (self.stage, self.detail) if word)
        return f"{self.label}: {words}" if words else self.label


class Bar:
    """The bar of a step.

    Parameters
    ----------
    own : Step
    stream : text file
        Where to draw, in a terminal.
    delay : float
        Seconds before the bar shows.
    """

    def __init__(self, own: Step, stream: Any, delay: float) -> None:
        self.step, self.stream = own, stream
        self.drawn: _Drawn | None = None
        self.ended, self.lock = Event(), Lock()
        if not delay:
            self.drawn = _class_of_bar()(own, self.stream)
        work = Thread(target=copy_context().run, args=(self._run, delay), daemon=True)
        with suppress(RuntimeError):  # of systems without threads
            work.start()

    def erase(self) -> None:
        """Take it away until it is drawn again."""
        with self.lock, suppress(Exception):
            if self.drawn is not None:
                self.drawn.bar.clear()

    def close(self) -> None:
        """Take it away for good."""
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


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


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
