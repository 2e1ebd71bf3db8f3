"""Progress on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import click


def progress_bar(
    steps: Iterable[Any], length: int, label: str
) -> AbstractContextManager[Iterable[Any]]:
    """A bar over a number of steps."""
    if not sys.stderr.isatty():
        return nullcontext(steps)
    return click.progressbar(steps, length=length, label=label, file=sys.stderr)


@contextmanager
def row_progress(
    total: int | None, label: str, quiet: bool = False
) -> Iterator[Callable[[int], None]]:
    """A function to call with each number of rows done: a bar, or a count without a total."""
    if quiet or not sys.stderr.isatty():
        yield lambda n: None
        return
    if total:
        with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
            yield bar.update
        return
    done = 0

    def count(n: int) -> None:
        nonlocal done
        done += n
        click.echo(f"\r{label}  {done:,} rows", nl=False, err=True)

    yield count
    click.echo(err=True)
