"""Exceptions and warnings. A message says what was expected, what was given, and what helps."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from numbers import Integral
from typing import Any

__all__ = [
    "CapacityError",
    "DecompositionError",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "MissingDependencyError",
    "ModelFileError",
    "MomentmixError",
    "NoInputError",
    "OutputError",
    "ShardError",
    "SummaryFileError",
    "printable",
]

_PACKAGE = __name__.partition(".")[0] + "."


def printable(text: str) -> str:
    """Text in one line that is safe to print on a terminal.

    Characters that are not printable (`str.isprintable`) are escaped as in a Python string: control
    characters, line ends, marks that change the direction of writing, unpaired surrogates. Letters
    of any script are kept.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# User info ends at the last @ of its part, or at any where a password holds a slash: what follows
# the colon is then no port. A query or fragment ends with the word, punctuation after it stays.
_ADDRESS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]+:/+)(?:[^\s/?#]*@|(?=[^\s/?#\[\]]*:(?!\d*(?:[/?#\s]|$)))[^\s]*@)?"
    r"([^\s?#]*)([?#]\S*?(?=['\")\],;.:]*(?:\s|$)))?"
)
_CHAIN = re.compile("::(?=[A-Za-z][A-Za-z0-9+.-]+:/)")  # of fsspec, as zip://x.csv::https://…


def without_secrets(text: str) -> str:
    """Text in which addresses lack what may be secret: user info, queries and fragments.

    It is the name of an address in messages, records and files; a pattern keeps its question marks.

    >>> without_secrets("https://me:word@example.org/x.csv?signature=1a2b is an address")
    'https://example.org/x.csv is an address'
    >>> without_secrets("s3://bucket/part-?.csv")
    's3://bucket/part-?.csv'
    """
    if ":/" not in text:
        return text
    return "::".join(_ADDRESS.sub(_name_of_address, part) for part in _CHAIN.split(text))


def read_more(section: str) -> str:
    """Return where findings and warnings are explained."""
    return f"see docs/troubleshooting.md#{section}"


def _name_of_address(found: re.Match[str]) -> str:
    scheme, path, rest = found[1], found[2], found[3] or ""
    is_pattern = rest.startswith("?") and "=" not in rest and not scheme.startswith("http")
    return scheme + path + (rest if is_pattern else "")


class _Printable:
    """Escapes control characters in messages, which quote names of files and columns."""

    def __str__(self) -> str:
        return without_secrets(printable(super().__str__()))


class MomentmixError(_Printable, Exception):
    """Base class of the errors that momentmix raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling between processes: errors with attributes cannot be made from args alone.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[MomentmixError], arguments: tuple[Any, ...]) -> MomentmixError:
    return kind.__new__(kind, *arguments)


class InputError(MomentmixError, ValueError):
    """An argument has a value that cannot be used."""


class InputTypeError(MomentmixError, TypeError):
    """An argument has a type that cannot be used."""


class CapacityError(InputError):
    """More components were asked for than moments of this order identify."""


class ShardError(InputError):
    """Summaries cannot be added or subtracted because of the shards in them.

    Attributes
    ----------
    shard_ids : tuple of str
        Ids of the shards, as hexadecimal digits.
    """

    def __init__(self, message: str, *, shard_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.shard_ids = shard_ids


class SummaryFileError(InputError):
    """A file or a byte string is not a valid moment summary."""


class ModelFileError(InputError):
    """A file is not a valid model."""


class NoInputError(InputError):
    """There is nothing to read: the file does not exist, or a pattern matches no file."""


class OutputError(InputError):
    """A result cannot be written to the given path."""


class MissingDependencyError(MomentmixError, ImportError):
    """An optional package is needed; the message says how to install it."""


def check_count(name: str, value: object, smallest: int) -> int:
    """Return `value` as an int; raise an error that names it and its bound where it is not one."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(f"{name} must be an integer ≥ {smallest}; got {value!r}.")
    number = int(value)
    if number < smallest:
        raise InputError(f"{name} must be at least {smallest}; got {value}.")
    if number >= 1 << 63:  # may be too long to print
        raise InputError(f"{name} must be below 2^63; got {number.bit_length()} bits.")
    return number


def needed(package: str, need: str, install: str) -> Any:
    """Import an optional package; raise with the need, as "pictures need matplotlib", and cure."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        text = f"{need}, which is not installed: pip install {install}"
        raise MissingDependencyError(text) from None


class FitWarning(_Printable, UserWarning):
    """The data or the answer need a look: the message says which column, or which finding.

    It tells of properties of the data that impair a fit, of columns that were left out or guessed,
    of numbers that lose digits, and of a certificate that did not pass. It is not scikit-learn's
    ``ConvergenceWarning``: a fit may have converged to an answer that the data contradict.
    """


HeldWarnings = list[tuple[str, type[Warning]]]
# Takes the warnings of `warn_caller`, for a thread that has no caller to warn.
HELD: ContextVar[HeldWarnings | None] = ContextVar("held", default=None)


@contextmanager
def setting(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """Give a context variable a value inside a ``with`` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here, however deep the call is."""
    held = HELD.get()
    if held is not None:
        held.append((message, category))
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class DecompositionError(MomentmixError, ArithmeticError):
    """The decomposition failed: a genericity condition of Theorem 4.2 does not hold.

    Attributes
    ----------
    condition : str
        Which condition failed: ``"leading-entry"``, ``"independence-basis"``,
        ``"independence-rows"``, ``"distinct-eigenvalues"`` or ``"residual"``; ``"noise"`` where
        no power stands out of it.
    diagnostics : object or None
        Diagnostics computed before the failure.
    """

    def __init__(self, message: str, *, condition: str, diagnostics: Any = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.diagnostics = diagnostics
