"""Exceptions. Each message says what was expected, what was given, and what helps."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CapacityError",
    "ClusterError",
    "DecompositionError",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "MissingDependencyError",
    "ModelFileError",
    "MomentmixError",
    "NoInputError",
    "OutputError",
    "PrecisionWarning",
    "ShardError",
    "SummaryFileError",
    "printable",
]


def printable(text: str) -> str:
    """Text that is safe on a terminal, in one line.

    What `str.isprintable` refuses is written as in a Python string: control characters, line
    ends, marks that change the direction of writing, unpaired surrogates. Letters of any script
    stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class _Printable:
    """Messages quote names of files and columns: no control character of theirs is printed."""

    def __str__(self) -> str:
        return printable(super().__str__())


class MomentmixError(_Printable, Exception):
    """Base class of every error that momentmix raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes; those with attributes cannot be made from args alone.
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
        The shards in question, as hexadecimal digits.
    """

    def __init__(self, message: str, *, shard_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.shard_ids = shard_ids


class SummaryFileError(InputError):
    """A file or a byte string is not a moment summary that can be trusted."""


class ModelFileError(InputError):
    """A file is not a model that can be trusted."""


class NoInputError(InputError):
    """There is nothing to read: no such file, or a pattern that matches none."""


class OutputError(InputError):
    """A result cannot be written where it was asked for."""


class MissingDependencyError(MomentmixError, ImportError):
    """An optional package is needed; the message says how to install it."""


class ClusterError(MomentmixError, RuntimeError):
    """Work on a cluster could not be finished; there is no partial answer."""


class FitWarning(_Printable, UserWarning):
    """The data have a property that a fit suffers from; the message names the column."""


class PrecisionWarning(_Printable, UserWarning):
    """Numbers lost digits before momentmix could see them."""


class DecompositionError(MomentmixError, ArithmeticError):
    """The decomposition failed: a genericity condition of Theorem 4.2 does not hold.

    Attributes
    ----------
    condition : str
        Which condition failed: ``"leading-entry"``, ``"independence-basis"``,
        ``"independence-rows"``, ``"distinct-eigenvalues"`` or ``"residual"``.
    diagnostics : object or None
        What was measured before the failure.
    """

    def __init__(self, message: str, *, condition: str, diagnostics: Any = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.diagnostics = diagnostics
