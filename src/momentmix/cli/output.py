"""Where results go: checked before any work, replaced as a whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from momentmix.core.atomic_file import replacing
from momentmix.core.strict_json import format_strict
from momentmix.errors import OutputError, printable

__all__ = ["check_output", "output_stream", "say", "say_json"]


def say(*lines: str, err: bool = False) -> None:
    """Print lines: the only way in which text of a command reaches a terminal."""
    for line in lines:
        click.echo(printable(line), err=err)


def say_json(document: dict[str, Any]) -> None:
    """Print a document as strict JSON; escapes keep its texts exact."""
    click.echo(format_strict(document))


def check_output(path: str, inputs: Iterable[Any] = (), force: bool = False) -> None:
    """Raise unless a file can be written at `path`: before hours of reading, not after."""
    if path == "-":
        return
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"{path} is a directory; give the path of a file in it.")
    for one in inputs:
        same = os.path.realpath(target) == os.path.realpath(one)
        if same or (target.exists() and os.path.exists(one) and os.path.samefile(target, one)):
            raise OutputError(
                f"{path} is an input as well, or another output; writing there would destroy it. "
                "Give another name."
            )
    if target.exists():
        if not target.is_file():
            raise OutputError(f"{path} is not a regular file; give another output.")
        if not force:
            raise OutputError(f"{path} exists; pass --force to replace it, or give another name.")
    folder = Path(os.path.realpath(target)).parent
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a directory; create it first (mkdir -p).")
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".momentmix-"):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write in {folder}: {error.strerror}. Give another place for {path}."
        ) from None


@contextmanager
def output_stream(path: str) -> Iterator[BinaryIO]:
    """A stream of bytes that becomes the file at `path` at the end, or standard output for -."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(path) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        yield file
