"""`Entry`: the sentences of one kind of finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from momentmix.findings.finding import Finding

Template = str
Variants = Callable[["Finding"], Template]


@dataclass(frozen=True)
class Entry:
    """The sentences of one kind of finding; a function chooses among variants of a template."""

    text: Template | Variants  # in the words of statistics
    action: Template | Variants = "Read this finding."  # what to do, in plain words, as the others
    why: Template = ""
    asks: str = ""  # for "more" or "fewer" groups
    other_action: Template | Variants = ""  # where that number of groups is no advice
    is_cause: bool = False  # whether it can be the cause of a misfit
