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
    """The sentences of one kind of finding.

    Attributes
    ----------
    text : template, or a function that chooses one
        In the words of statistics, for `Finding.text`.
    action, why : templates
        What to do and why, in plain words.
    asks : {"", "more", "fewer"}
        The number of groups that the action asks for.
    other_action : template
        The action where that number is no advice; "" if there is none.
    is_cause : bool
        Whether it can be the cause of a misfit.
    """

    text: Template | Variants
    action: Template | Variants = "Read this finding."
    why: Template = ""
    asks: str = ""
    other_action: Template | Variants = ""
    is_cause: bool = False
