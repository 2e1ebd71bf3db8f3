"""A finding: one thing that the user of a fit should know, with a name, a severity and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from momentmix.families.column import families_code
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.wording import plural

_MOST_LISTED = 8  # names in one sentence


class Severity(Enum):
    """How much a finding weighs: a fatal one fails the certificate."""

    NOTE = "note"
    WARNING = "warning"
    FATAL = "fatal"


@dataclass(frozen=True)
class Finding:
    """One finding: a short name for programs, a sentence for people."""

    name: str
    severity: Severity
    text: str

    def __str__(self) -> str:
        return f"[{self.severity.value}] {self.text}"


def note(name: str, text: str) -> Finding:
    """What is good to know."""
    return Finding(name, Severity.NOTE, text)


def warning(name: str, text: str) -> Finding:
    """What may spoil the answer."""
    return Finding(name, Severity.WARNING, text)


def fatal(name: str, text: str) -> Finding:
    """What the certificate cannot pass."""
    return Finding(name, Severity.FATAL, text)


def column_names(moments: StandardMoments, columns: Iterable[int]) -> str:
    """`column 3`, or `columns 3, 5`, the first few of them, each once."""
    names = list(dict.fromkeys(moments.column_name(j) for j in columns))
    listed = ", ".join(names[:_MOST_LISTED]) + ", …" * (len(names) > _MOST_LISTED)
    return f"column{plural(len(names))} {listed}"


def feature_families(moments: StandardMoments, families: Mapping[int, str]) -> str:
    """The families of features, as `fit` and as the command take them."""
    return families_code({moments.part(j).column: family for j, family in families.items()})
