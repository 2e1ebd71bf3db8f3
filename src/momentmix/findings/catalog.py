"""The catalog: for each kind of finding its sentences, for statisticians and for everybody.

Templates are those of `str.format`. They know the numbers of the finding by name, `{code}` for its
remedy, `{columns}`, `{names}`, `{components}`, `{component}` ("group" in a report), and
`{n:it|them}`, which chooses by the number of columns or, where there are none, of components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Template = str | Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Entry:
    """The sentences of one kind of finding.

    Attributes
    ----------
    text : template
        In the words of statistics, for `Finding.text`.
    action, why : template
        What to do and why, in plain words, for a report.
    more_groups : bool or None
        Whether the action is to ask for more groups (or fewer); None: neither.
    other_action : template
        The action where another number of groups is no advice.
    is_cause : bool
        Whether it can be the cause of a misfit.
    """

    text: Template
    action: Template = ""
    why: Template = ""
    more_groups: bool | None = None
    other_action: Template = ""
    is_cause: bool = False


CATALOG: dict[str, Entry] = {}
