"""`Trait`: one sentence that separates a component from the others, and how well.

Each column gives at most one sentence on its values and one on its missing cells. Among those of a
column it is the one that sorts the rows best into the component or not, by the fitted laws:

| trait | sentence |
|---|---|
| high, low | age above 40; age below 40 |
| medium | age between 30 and 40 |
| spread | the same, or: age outside 30 to 40 |
| level | plan is gold; plan is not gold |
| missing | age is missing; age is not missing |

Of the rows, half are taken from the component and half from the others together, by their weights;
so a sentence that is true of all rows, or of none, sorts 50 % of them rightly. A sentence on values
is not true of a missing cell. Where cuts sort about equally well, the roundest number is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from momentmix.families.column import Level

What = Literal["low", "medium", "high", "level", "missing", "spread"]


@dataclass(frozen=True)
class Trait:
    """Something that a component has and the others have not.

    Attributes
    ----------
    column : str
    what : {"low", "medium", "high", "level", "missing", "spread"}
    value, others : float
        In the component, and in all others together: means (medians of columns with a logarithm),
        or probabilities: for "spread" those that `sentence` is true.
    sorted_rightly : float
        Share of rows that `sentence` sorts rightly into the component or not, where half of the
        rows are of the component: from 0.5 (by chance) to 1.
    true : float
        Share of the rows of the component of which `sentence` is true.
    level : str, int, bool or None
        For "level".
    words, numbers : str
        Without the name of the column: ``low``, and ``20 against 90``.
    short : str
        In two or three words, for names.
    sentence : str
        What is true of more rows of the component than of others: ``age below 41.5``.
    """

    column: str
    what: What
    value: float
    others: float
    sorted_rightly: float
    true: float
    level: Level | None
    words: str
    numbers: str
    short: str
    sentence: str

    @property
    def text(self) -> str:
        """In words, with the numbers."""
        return f"{self.column} {self.words} ({self.numbers})"

    def __str__(self) -> str:
        return self.text
