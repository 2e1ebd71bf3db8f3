"""Outputs: checked before any work, and replaced atomically."""

from __future__ import annotations

import os
import re
import shlex
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
from momentmix.strict_json import format_strict


def say(*lines: str, err: bool = False) -> None:
    """Print lines; all text of the commands passes through here, to be escaped."""
    for line in lines:
        click.echo(without_secrets(printable(line)), err=err)


def say_message(*lines: str, err: bool = True) -> None:
    """Print what the library says of its arguments, in words of the shell."""
    say(*map(in_shell_words, lines), err=err)


# What messages say for Python, and the same for the shell; where both stand, the option alone.
_VALUE = r"(?:\{[^}]*\}|\[[^\]]*\]|'[^']*'|\"[^\"]*\"|\w*)"
_BOTH = re.compile(rf"\b[a-z_]+=({_VALUE})(?:, [a-z_]+={_VALUE})* \((--[a-z][^()]*)\)")
_NAMED = re.compile(r"\b(missing|refine|method|prior|means)=['\"](\w+)['\"]")
_FAMILIES = re.compile(r"\bfamilies=\{([^{}\[\]]+)\}")
_LEVELS = re.compile(r"\bfamilies=\{[^{}]*\[[^{}]*\}")
_BLOCKS = re.compile(r"\bblocks=\[(\[[^{}]*?\])\](?!\])")
_TRUNCATE = re.compile(r"Cut both with truncate\((\d+), \d+\)")
WORDS = {
    "families names no column": "--families names no column",
    "families must be": "--families must be",
    "leave families out": "leave --families out",
    ", or a list of levels": "",
    " in families.": " with --families.",
    "use MomentSummary.load, or fit it first": "fit it first, with `momentmix fit`",
    "Use select() to take the common ones": "Summarize the common ones (--columns)",
    "take the common ones of both with select()": "summarize the common ones (--columns)",
    "reorder the columns, or use select()": "reorder the columns",
    "Use rollup() to bring both to common ones": "Bring both to common ones with --rollup",
    "use forget()": "use `momentmix forget`",
    "Use the summary that it was fitted to": "Give the data that it was fitted to",
    ", or use with_variance_floor()": "",
    ", or use mixture.with_feature_names([...])": "",
    "exclude=": "--exclude",
    "refine=None": "--refine none",
}


def in_shell_words(text: str) -> str:
    """A message with options of the command in place of keywords and methods of Python.

    Examples
    --------
    >>> in_shell_words("Pass missing='drop' (--missing drop), or families={'n': 'poisson'}.")
    'Pass --missing drop, or --families n=poisson.'
    """
    if "=" not in text and "(" not in text and "." not in text:
        return text
    text = _NAMED.sub(r"--\1 \2", _BOTH.sub(_option, text))
    text = _LEVELS.sub("a schema with these levels (momentmix schema, --schema)", text)
    text = _FAMILIES.sub(lambda found: _families_option(found[1]), text)
    text = _BLOCKS.sub(lambda found: _blocks_option(found[1]), text)
    text = _TRUNCATE.sub(r"Summarize both with --order \1", text)
    for python, shell in WORDS.items():
        text = text.replace(python, shell)
    return text


def _option(both: re.Match[str]) -> str:
    """The option of ``delimiter=';' (--delimiter)``, with the value where only Python has it."""
    value, option = both[1], both[2]
    if " " not in option and value[:1] in ("'", '"'):
        return f"{option} {shlex.quote(value[1:-1])}"
    if option == "--families" and value[:1] == "{" and "[" not in value:
        return _families_option(value[1:-1])
    return option


def _families_option(pairs: str) -> str:
    """The option for ``'visits': 'poisson', 'plan': 'categorical'``."""
    cells = [[part.strip("'\"") for part in pair.split(": ", 1)] for pair in pairs.split(", ")]
    return f"--families {shlex.quote(','.join('='.join(cell) for cell in cells))}"


def _blocks_option(blocks: str) -> str:
    """The option for ``['length', 'width'], [3, 4]``."""
    groups = [group.replace(", ", ",") for group in re.findall(r"\[([^\[\]]*)\]", blocks)]
    names = ";".join(re.sub(r"['\"]", "", group) for group in groups)
    return f"--blocks {shlex.quote(names)}"


def say_json(document: dict[str, Any]) -> None:
    """Print a document as strict JSON in ASCII."""
    click.echo(format_strict(document))


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on columns, without a bar on their lines."""
    erase()
    say_message(*(f"note: {note}" for note in notes))


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


def check_output(
    path: str, inputs: Iterable[str] = (), force: bool = False, outputs: Iterable[str] = ()
) -> None:
    """Raise unless a file can be written at `path`; called before the input is read.

    Parameters
    ----------
    path : str
        "-" is standard output.
    inputs : iterable of str
        What the command reads: paths, folders, patterns, "-". An input is never replaced.
    force : bool
        Whether an existing file that is no input may be replaced.
    outputs : iterable of str
        Other outputs of the command.
    """
    _check_not_among(path, inputs, outputs)
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


def _check_not_among(path: str, inputs: Iterable[str], outputs: Iterable[str]) -> None:
    target = _regular(path, sys.stdout)
    read = (file for argument in inputs for file in _files(argument))
    same = any(
        target is not None and other is not None and os.path.samestat(target, other)
        for other in (_regular(file, sys.stdin) for file in (*read, *outputs))
    )
    # Files that do not exist yet are compared by name; some file systems ignore case.
    real = os.path.realpath(path).casefold()
    if same or any(real == os.path.realpath(other).casefold() for other in outputs):
        raise OutputError(
            f"{'standard output' if path == '-' else path} is an input as well, or another output; "
            "writing there would destroy it. Give another name."
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
