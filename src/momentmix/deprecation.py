"""Old names of public attributes, kept with a warning."""

from __future__ import annotations

import warnings
from typing import Any


class RenamedAttribute:
    """An old name of a method or attribute; reading it warns and gives the new one.

    Parameters
    ----------
    new_name : str
    """

    def __init__(self, new_name: str) -> None:
        self.new_name = new_name
        self.old_name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.old_name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:  # documentation tools look at the class
            return self
        warnings.warn(
            f"{owner.__name__}.{self.old_name} is called {owner.__name__}.{self.new_name} now; "
            "the old name will be removed in a later release.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(instance, self.new_name)
