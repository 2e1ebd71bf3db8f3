"""What commands print, outputs that they check before any work, and the summaries they read."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from os import fdopen
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from momentmix.atomic_file import check_writable, replacing
from momentmix.errors import InputError, NoInputError, OutputError, printable, without_secrets
from momentmix.groups.file import is_cube
from momentmix.progress import erase
from momentmix.summary.file import is_summary_file
from momentmix.summary.summary import MomentSummary
from momentmix.tables.opening import expand
from momentmix.wording import listed

if TYPE_CHECKING:
    from momentmix.groups.cube import SummaryCube

_MOST_VALUES = 12  # of a key, in a message


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


# -- outputs ----------------------------------------------------------------------------------


def check_output(path: str | None, inputs: Iterable[str], *endings: str) -> None:
    """Raise, before any work, unless a file of this name can be written and is not read as well.

    The ending says what the file is, so that a slip of the hand does not replace a table.
    """
    if path is None:
        return
    if not path.lower().endswith(endings):
        raise click.UsageError(f"--output must end in {' or '.join(endings)}; got {path!r}.")
    for text in inputs if Path(path).exists() else ():
        with suppress(NoInputError):
            if any(Path(path).samefile(file) for file in expand(text)):
                raise OutputError(
                    f"{path} is an input as well; writing there would destroy it. Give another "
                    "name."
                )
    try:
        check_writable(path)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}. Give another name or place."
        ) from None


@contextmanager
def output_stream(path: str) -> Iterator[BinaryIO]:
    """A binary stream that replaces the file at `path` when it is closed; stdout for "-"."""
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(path) as descriptor, fdopen(descriptor, "wb", closefd=False) as file:
        yield file


# -- inputs -----------------------------------------------------------------------------------


def rows_source(inputs: Sequence[str]) -> Any:
    """The paths of a command's arguments, or standard input for ``-``."""
    if "-" not in inputs:
        return list(inputs)
    if len(inputs) > 1:
        raise click.UsageError("standard input (-) cannot be combined with files.")
    return sys.stdin.buffer


def are_summaries(paths: Sequence[str]) -> bool:
    """Whether the files are summaries or cubes (all of them), or none is; mixing is an error."""
    kinds = [path != "-" and (is_summary_file(path) or is_cube(path)) for path in paths]
    if any(kinds) and not all(kinds):
        raise click.UsageError(
            f"{paths[kinds.index(True)]} is a summary and {paths[kinds.index(False)]} is not; "
            "give summaries or data files, not both."
        )
    return all(kinds)


def load_sum(paths: Sequence[str], where: Sequence[str] = ()) -> MomentSummary:
    """The sum of summaries, and of the groups of cubes that meet conditions."""
    total: MomentSummary = added(paths, [load_summary(path, where) for path in paths])
    return total


def load_summary(path: str, where: Sequence[str] = ()) -> MomentSummary:
    """A summary, or the sum of the groups of a cube that meet conditions."""
    if where or is_cube(path):
        total: MomentSummary = load_cube(path, where).total()
        return total
    return MomentSummary.load(path)


def load_cube(path: str, where: Sequence[str] = (), rollup: str | None = None) -> SummaryCube:
    """The groups of a cube that meet conditions ``key=value`` or ``key=first..last``."""
    from momentmix.groups.cube import SummaryCube

    if not is_cube(path):
        raise InputError(
            f"{path} is no cube; make one with `momentmix summarize DATA --by KEY -o cube.parquet`."
        )
    cube = SummaryCube.load(path)
    if not len(cube):
        raise InputError(f"{path} has no groups; check how it was filtered, or --min-rows.")
    conditions = dict[str, list[Any]]()
    for text in where:
        name, equals, value = map(str.strip, text.partition("="))
        if not equals:
            raise click.UsageError(f"a condition on groups is written as key=value; got {text!r}.")
        low, dots, high = value.partition("..")
        wanted = slice(low or None, high or None) if dots else value or None
        conditions.setdefault(name, []).append(wanted)
    chosen = cube.where(**conditions)
    if not len(chosen):
        values = "; ".join(f"{name} is {key_values(cube, name)}" for name in conditions)
        raise InputError(f"no group of {path} has {' and '.join(where)}; {values}.")
    return chosen if rollup is None else chosen.rollup(*map(str.strip, rollup.split(",")))


def key_values(cube: SummaryCube, name: str, most: int = _MOST_VALUES) -> str:
    """The different values of a key as a text."""
    place = cube.key_names.index(name)
    texts = dict.fromkeys("missing" if key[place] is None else str(key[place]) for key in cube)
    return listed([*texts], most)


def added(paths: Sequence[str], values: Sequence[Any], combine: Any = operator.add) -> Any:
    """Combine summaries or cubes one after the other; errors name the file."""

    def with_next(total: Any, named: tuple[str, Any]) -> Any:
        path, value = named
        try:
            return combine(total, value)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    return reduce(with_next, zip(paths[1:], values[1:], strict=True), values[0])
