"""Messages with code in them: keywords of Python in the text, options of the command in `shell`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from momentmix.errors import printable

SCHEMA = "a schema (momentmix schema, --schema)"  # for what an option cannot say


class Message(str):
    """Text for Python; `shell` is the same text with the options of the command.

    >>> text = Message("Pass ", options(missing="drop"), ".")
    >>> text, text.shell
    ("Pass missing='drop'.", 'Pass --missing drop.')
    """

    shell: str

    def __new__(cls, *parts: str) -> Message:
        """Join the parts."""
        return either("".join(parts), "".join(map(in_shell, parts)))


def either(python: str, shell: str) -> Message:
    """Return a message with other words for the shell."""
    message = str.__new__(Message, python)
    message.shell = shell
    return message


def in_shell(text: object) -> str:
    """Return a text, or the message of an exception, as the command prints it."""
    if isinstance(text, Exception) and len(text.args) == 1 and isinstance(text.args[0], Message):
        text = text.args[0]
    return text.shell if isinstance(text, Message) else str(text)


def in_lines(lines: Iterable[str]) -> Message:
    """Join lines, each of them safe to print."""
    pairs = [(printable(line), printable(in_shell(line))) for line in lines]
    return either(*("\n".join(texts) for texts in zip(*pairs, strict=True)))


def keyword(name: str) -> Message:
    """Return the name of an argument, as an option in the shell."""
    return either(name, f"--{name.replace('_', '-')}")


def options(**keywords: Any) -> Message:
    """Return keyword arguments as code; an ellipsis stands for a value that the user has to choose.

    >>> options(families={"plan": "categorical", "late fees": "log"}).shell
    "--families 'plan=categorical,late fees=log'"
    >>> options(blocks=[["a", "b"], [3, 4]], header=False).shell
    "--blocks 'a,b;3,4' --no-header"
    >>> options(exclude=...), options(exclude=...).shell
    ('exclude=', '--exclude')
    """
    python = (f"{key}={'' if x is ... else ascii(x)}" for key, x in keywords.items())
    return either(", ".join(python), " ".join(_option(key, x) for key, x in keywords.items()))


def _option(key: str, value: Any) -> str:
    """Return one option of the command."""
    name = key.replace("_", "-")
    if value is ...:
        return f"--{name}"
    if isinstance(value, bool) and key != "background":
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, Mapping):
        names = [str(part) for pair in value.items() for part in pair]
        if any("," in part or not part.isprintable() for part in names):
            return SCHEMA
        value = ",".join(f"{column}={family}" for column, family in value.items())
    elif isinstance(value, list | tuple):
        is_flat = not any(isinstance(group, list | tuple) for group in value)
        groups = [value] if is_flat else value
        value = ";".join(",".join(map(str, group)) for group in groups)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"--{name} {quote('none' if value is None else text)}"


# Phrases of several messages.
NEED_ROWS = "fit the rows, which a summary does not hold"
NO_MAR = Message(
    options(missing="mar"), " needs passes over the rows, which a summary does not hold: where "
    "cells are missing by what is seen of their row, the moments of seen cells are not those of "
    "all cells. Fit the rows, or use ", options(missing="model"), " or ", options(missing="drop"),
    ".",
)  # fmt: skip
GAPS = Message(
    "Say why cells are missing: by what is seen of their row, as in surveys, ",
    options(missing="mar"), " (the seen cells are fitted); by the component, ",
    options(missing="model"), " (gaps tell components apart); or by chance alone, ",
    options(missing="drop"), " (rows with gaps are left out).",
)  # fmt: skip
PAPER, ROBUST = options(method="paper"), options(method="robust")
WITH_FLOOR = "use with_variance_floor()."
FITTED_TO = either("Use the summary that it was fitted to.", "Give the data that it was fitted to.")
