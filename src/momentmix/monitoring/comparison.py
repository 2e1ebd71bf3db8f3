"""`Comparison`: what differs between two summaries, by how much, and how surely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import nan
from numbers import Real
from typing import Any

from momentmix.errors import InputError, InputTypeError
from momentmix.findings.finding import NOTE, Finding, found, sentences
from momentmix.json_fields import plain
from momentmix.mixture.parameter_table import need_pandas
from momentmix.monitoring.compared.changes import SHAPES, Change
from momentmix.monitoring.compared.significance import JointTest
from momentmix.monitoring.comparison_text import comparison_html, comparison_lines
from momentmix.wording import cut_lines

_MOST_SAID = 6


@dataclass(frozen=True)
class ColumnComparison:
    """All changes of one column.

    Attributes
    ----------
    name : str
    family : str
    changes : tuple of Change
        Of numbers: mean, spread, skewness and kurtosis, and the range where it is another by far;
        else the shares of levels; and the share of missing cells where there are any.
    """

    name: str
    family: str
    changes: tuple[Change, ...]

    @property
    def p_value(self) -> float:
        """Least corrected p-value of its changes; NaN if none was tested."""
        return min((c.corrected for c in self.changes if c.corrected == c.corrected), default=nan)

    @property
    def size(self) -> float:
        """Largest effect, that of the shape not counted."""
        sizes = [c.size for c in self.changes if c.what not in SHAPES and c.size == c.size]
        return max(sizes, default=0.0)

    def change(self, what: str) -> Change | None:
        """The change of a kind; the largest one of several shares."""
        own = [c for c in self.changes if c.what == what]
        return max(own, key=lambda c: c.size, default=None)


@dataclass(frozen=True)
class Comparison:
    """Differences between two summaries: how large they are, and whether they can be chance.

    Attributes
    ----------
    n_rows : tuple of two int
    columns : tuple of ColumnComparison
        In the order of the columns.
    pairs : tuple of Change
        Correlations of values of different columns.
    tests : dict of JointTest
        Hotelling's tests of the "means" and of the "second moments" together; those that the
        moments allow.
    p_value : float
        Of all tests together; the chance of a smaller one is p if the rows have one law.
    remarks : tuple of Finding
        What was not tested, and why.
    unjudged : tuple of str
        Columns of which one row is so far away that nothing can be said of the others; a note says
        more.
    """

    n_rows: tuple[int, int]
    columns: tuple[ColumnComparison, ...]
    pairs: tuple[Change, ...]
    tests: Mapping[str, JointTest]
    p_value: float
    remarks: tuple[Finding, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks in words."""
        return tuple(remark.text for remark in self.remarks)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of all columns and pairs."""
        return (*(c for column in self.columns for c in column.changes), *self.pairs)

    def named(self, level: float = 0.05, least_effect: float = 0.0) -> tuple[Change, ...]:
        """Changes that are beyond chance at this level and at least so large, the largest first."""
        _check_level(level, least_effect)
        kept = [c for c in self.changes if c.corrected <= level and c.size >= least_effect]
        return tuple(sorted(kept, key=lambda c: -c.size))

    def differs(self, level: float = 0.05, least_effect: float = 0.0) -> bool:
        """Whether the summaries differ by more than chance.

        Parameters
        ----------
        level : float, default=0.05
            Share of pairs of summaries of one law for which the answer is yes.
        least_effect : float, default=0
            Smaller effects are neglected. Where it is positive, some change must be at least so
            large, and beyond chance by itself (`named`).
        """
        _check_level(level, least_effect)
        if not self.p_value <= level:
            return False
        return least_effect == 0 or bool(self.named(level, least_effect))

    def findings(self, level: float = 0.05, least_effect: float = 0.0) -> list[Finding]:
        """The changes that `named` gives as findings, the most important first.

        Importance is the size of a change in standard deviations; changes of shape come last.
        """
        changes = self.named(level, least_effect)
        ordered = sorted(changes, key=lambda c: (c.what in SHAPES, -c.size / c.unit))
        return [change.finding for change in ordered]

    def sentences(self, level: float = 0.05, least_effect: float = 0.0) -> list[str]:
        """The findings in words."""
        return sentences(self.findings(level, least_effect))

    def first_sentences(self, level: float = 0.05, least_effect: float = 0.0) -> list[str]:
        """The most important findings in words, and how many there are more."""
        every = self.findings(level, least_effect)
        more = len(every) - _MOST_SAID
        rest = [found(NOTE, "more-changes", more=more)] if more > 0 else []
        return sentences([*every[:_MOST_SAID], *rest])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for strict JSON; numbers that are not known are None."""
        document: dict[str, Any] = {
            "n_rows": list(self.n_rows),
            "p_value": self.p_value,
            "sentences": self.sentences(),
            "tests": {name: asdict(test) for name, test in self.tests.items()},
            "columns": [asdict(column) for column in self.columns],
            "pairs": [asdict(c) for c in self.pairs],
            "unjudged": list(self.unjudged),
            "notes": list(self.notes),
        }
        result: dict[str, Any] = plain(document)
        return result

    def to_frame(self) -> Any:
        """All changes as a pandas frame, a row for each."""
        names = [field.name for field in fields(Change)]
        rows = [[getattr(c, name) for name in names] for c in self.changes]
        return need_pandas().DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        a, b = self.n_rows
        head = (
            f"Comparison({a:,} and {b:,} rows, {len(self.columns)} columns, "
            f"p_value={self.p_value:.3g}, {len(self.named())} changes named)"
        )
        return cut_lines("\n".join([head, *self.first_sentences()]))

    def __str__(self) -> str:
        return "\n".join(comparison_lines(self))

    def _repr_html_(self) -> str:
        return comparison_html(self)


def _check_level(level: float, least_effect: float) -> None:
    given: dict[str, Any] = {"level": level, "least_effect": least_effect}
    for name, value in given.items():
        if not isinstance(value, Real):
            raise InputTypeError(f"{name} must be a number; got {value!r}.")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1; got {level}.")
    if not least_effect >= 0:
        raise InputError(f"least_effect must be at least 0; got {least_effect}.")
