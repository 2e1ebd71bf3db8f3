"""`Finding`: one thing that the user should know, as data; the sentences are in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from momentmix.findings.catalog import CATALOG, Entry, Template
from momentmix.findings.messages import Message, fill, options
from momentmix.wording import listed, plural

_MOST_LISTED = 8  # columns in a sentence
_MOST_COMPONENTS = 5
_MOST_QUOTED = 6  # columns in the plain words of a report


class Severity(Enum):
    """How much a finding weighs: a fatal one fails the certificate."""

    NOTE = "note"
    WARNING = "warning"
    FATAL = "fatal"


class _Count(int):
    """A number that chooses between words: ``{n:it|them}``."""

    def __format__(self, words: str) -> str:
        return words.split("|")[self != 1] if "|" in words else super().__format__(words)


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes
    ----------
    kind : str
        Its name in the catalog, such as "constant-column".
    severity : Severity
    columns : tuple of str or int
        Columns that it is about, by name or by number, the most important first.
    components : tuple of int
    numbers : mapping
        Values that its sentences need: numbers, texts, or lists of them.
    remedy : mapping
        Keyword arguments of `fit` that help, as ``{"families": {"visits": "poisson"}}``.
    written : str
        The sentence, where a file of an earlier version holds nothing else.
    """

    kind: str
    severity: Severity
    columns: tuple[str | int, ...] = ()
    components: tuple[int, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    remedy: Mapping[str, Any] = field(default_factory=dict)
    written: str = ""

    @property
    def code(self) -> Message:
        """The remedy as code: keywords of Python and, in `shell`, options of the command."""
        return options(**self.remedy)

    @property
    def text(self) -> Message:
        """The finding in the words of statistics; `text.shell` for the command."""
        if self.written:
            return Message(self.written)
        names = list(map(ascii, self.columns))
        shown = ", ".join(names[:_MOST_LISTED]) + ", …" * (len(names) > _MOST_LISTED)
        groups = ", ".join(map(str, self.components[:_MOST_COMPONENTS]))
        groups += ", …" * (len(self.components) > _MOST_COMPONENTS)
        return self._filled(
            self.entry.text,
            names=shown,
            columns=f"column{plural(len(names))} {shown}",
            components=f"component{plural(len(self.components))} {groups}",
            component="component",
        )

    @property
    def entry(self) -> Entry:
        """The sentences of this kind of finding."""
        return CATALOG[self.kind]

    def in_plain_words(self, template: Template) -> str:
        """Fill one of the templates of a report, in which components are groups."""
        return str(
            self._filled(
                template,
                columns=listed([f"“{name}”" for name in self.columns], _MOST_QUOTED),
                components=f"group{plural(len(self.components))} "
                + listed(list(map(str, self.components)), _MOST_COMPONENTS),
                component="group",
            )
        )

    def _filled(self, template: Template, **words: str) -> Message:
        count = _Count(len(self.columns) or len(self.components))
        values = {**self.numbers, **words, "code": self.code, "n": count}
        return fill(template if isinstance(template, str) else template(self.numbers), values)

    def __str__(self) -> str:
        return f"[{self.severity.value}] {self.text}"
