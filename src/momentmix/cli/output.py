"""Outputs: checked before any work, and replaced atomically."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click

from momentmix.atomic_file import check_writable, replacing
from momentmix.errors import NoInputError, OutputError, printable, without_secrets
from momentmix.progress import erase


def say(*lines: str, err: bool = False) -> None:
    """Print lines; all text of the commands passes through here, to be escaped."""
    for line in lines:
        click.echo(without_secrets(printable(line)), err=err)


def say_json(document: dict[str, Any]) -> None:
    """Print a document as strict JSON in ASCII."""
    from momentmix.json_fields import format_strict

    click.echo(format_strict(document))


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on columns, without a bar on their lines."""
    erase()
    say(*(f"note: {note}" for note in notes), err=True)


BINARY = "a summary is a binary file; give a path to --output."


@dataclass(frozen=True)
class Target:
    """Where a command writes, and what it prints: --output, --force, --json and --quiet."""

    path: str | None
    force: bool
    as_json: bool
    quiet: bool

    @property
    def progress(self) -> bool | None:
        """Whether there is a bar: none with --quiet, nor beside rows on standard output."""
        return False if self.quiet or self.path == "-" else None

    def check(self, inputs: Iterable[str], no_stream: str | None = None) -> str:
        """Return the path if it can be written; `no_stream` is the error where it is "-"."""
        path = "-" if self.path is None else self.path
        if path == "-" and (no_stream or self.as_json):
            json = "--json reports on the work; give a file to --output for the rows."
            raise click.UsageError(no_stream or json)
        check_output(path, inputs, self.force)
        return path

    @property
    def ending(self) -> str:
        """Ending of the path, without the dot."""
        return str(self.path).rpartition(".")[2].lower()

    def check_ending(self, *endings: str) -> None:
        """Raise unless the path has one of these endings."""
        if self.ending not in endings:
            *first, last = (f".{known}" for known in endings)
            raise click.UsageError(
                f"--output must end in {', '.join(first)} or {last}; got {self.path!r}."
            )

    def save_picture(self, display: Any) -> None:
        """Write the figure of a display in the format of the ending."""
        with output_stream(str(self.path)) as stream:
            display.figure_.savefig(stream, format=self.ending, dpi=150, bbox_inches="tight")

    def report(self, facts: dict[str, Any], *lines: str) -> None:
        """Print facts as JSON, or lines."""
        if self.as_json:
            say_json({"output": self.path, **facts})
        else:
            say(*lines)


def check_output(path: str, inputs: Iterable[str] = (), force: bool = False) -> None:
    """Raise unless a file can be written at `path` ("-": standard output), before work begins.

    What the command reads (paths, folders, patterns, "-") is never replaced, and an existing file
    only with `force`.
    """
    _check_not_among(path, inputs)
    if path == "-":
        return
    try:
        _check_place(path, force)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}. Give another name or place."
        ) from None


def _check_place(path: str, force: bool) -> None:
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"{path} is a directory; give the path of a file in it.")
    if target.exists():
        if not target.is_file():
            raise OutputError(f"{path} is not a regular file; give another output.")
        if not force:
            raise OutputError(f"{path} exists; pass --force to replace it, or give another name.")
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a directory; create it first (mkdir -p).")
    try:
        check_writable(target)
    except OSError as error:
        raise OutputError(
            f"cannot write in {folder}: {error.strerror}. Give another place for {path}."
        ) from None


def _check_not_among(path: str, inputs: Iterable[str]) -> None:
    target = _regular(path, sys.stdout)
    files = (file for argument in inputs for file in _files(argument))
    statuses = (_regular(file, sys.stdin) for file in files)
    if target is not None and any(x is not None and os.path.samestat(target, x) for x in statuses):
        raise OutputError(
            f"{'standard output' if path == '-' else path} is an input as well; writing there "
            "would destroy it. Give another name."
        )


def _files(text: str) -> list[str]:
    """The files that an argument matches; the argument itself where there are none."""
    from momentmix.tables.opening import expand

    with suppress(NoInputError, OSError):
        return ["-"] if text == "-" else [str(file) for file in expand(text)]
    return [text]


def _regular(path: str, stream: Any) -> os.stat_result | None:
    """Status of a regular file, or of the one behind a stream; None if it is no such file."""
    try:
        status = os.fstat(stream.fileno()) if path == "-" else os.stat(path)
    except (AttributeError, OSError, ValueError):  # no such file, or a stream without a file
        return None
    return status if stat.S_ISREG(status.st_mode) else None


@contextmanager
def output_stream(path: str) -> Iterator[BinaryIO]:
    """A binary stream that replaces the file at `path` when it is closed; stdout for "-"."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(path) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        yield file
