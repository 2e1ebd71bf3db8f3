"""What every feature name must be: text that files, tables and pages can hold."""

from __future__ import annotations

from collections.abc import Iterable

from momentmix.errors import InputError

__all__ = ["check_encodable"]


def check_encodable(names: Iterable[str]) -> None:
    """Raise where a name holds an unpaired surrogate, which no encoding of text can write.

    Examples
    --------
    >>> check_encodable(["weight", "größe"])
    """
    for column, name in enumerate(names):
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise InputError(
                f"feature names must be text; the name of column {column}, {name[:60]!a}, holds an "
                "unpaired surrogate, which cannot be written as UTF-8. Rename the column, or "
                "decode its name with the right encoding."
            )
