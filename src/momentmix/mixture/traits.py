"""`Trait`: one sentence that separates a component from the others, and how well.

Each column gives at most one sentence on its values and one on its missing cells. Among those of a
column it is the one that sorts the rows best into the component or not, by the fitted mixture:

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import Level, restored
from momentmix.mixture.cuts import Cuts
from momentmix.mixture.parameter_table import column_names
from momentmix.mixture.tables.block_features import column_seen
from momentmix.wording import cut_middle, number_text, numbers_apart, percent, roundest

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

_MOST_TRAITS = 20  # of a component: nobody reads more, and words take time
# Difference in how often a sentence is true: below it 55 % of the rows are sorted rightly, and
# means of equal deviations are apart by a quarter of one.
_LEAST_GAIN = 0.1
_ALIKE = 0.25  # difference of means beside the deviations that is not worth a word
_SURE = 2.0  # standard errors that a difference must have
_RARELY = 1.5  # "is A" says more than "is not A": differences of the latter are divided by it
_MOSTLY = 0.6  # probability of a level
_LETTERS = 24  # of the name of a column in the name of a component


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
    what: Literal["low", "medium", "high", "level", "missing", "spread"]
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

    def is_sure(self, n_rows: float, weight: float) -> bool:
        """Whether chance does not explain it, where so many rows made the mixture.

        `weight` is that of the component. The standard error is that of two shares.
        """
        gain = 2.0 * self.sorted_rightly - 1.0
        shares, counts = (
            np.array([self.true, self.true - gain]),
            n_rows * np.array([weight, 1 - weight]),
        )
        error = np.sqrt((shares * (1 - shares) / np.maximum(counts, 1.0)).sum())
        return bool(gain >= _SURE * error)


def traits_of(mixture: Mixture) -> list[list[Trait]]:
    """The traits of each component, the best first."""
    if mixture.n_components == 1:
        return [[]]
    candidates = list(_Columns(mixture).candidates())
    gains = np.nan_to_num([gain for gain, _ in candidates]).T  # (r, n)
    traits = []
    for i, row in enumerate(gains):
        order = np.argsort(-row, kind="stable")[:_MOST_TRAITS]
        made = [candidates[k][1](i) for k in order if row[k] > 0]
        kept = [trait for trait in made if trait.sorted_rightly >= 0.5 + 0.49 * _LEAST_GAIN]
        traits.append(sorted(kept, key=lambda trait: -trait.sorted_rightly))
    return traits


# Differences (r,) between component and others in how often the best sentence is true, and the
# trait of a component: words are made of those alone that are shown.
_Candidate = tuple[Float, Callable[[int], Trait]]


class _Columns:
    """The best sentences on each column of a mixture."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture, self.columns = mixture, mixture.columns
        self.names = [printable(name) for name in column_names(mixture)]
        self.shorts = [cut_middle(name, _LETTERS) for name in self.names]
        observed = column_seen(mixture.blocks, mixture.n_columns)
        self.has_missing = np.isfinite(observed).any(axis=0)
        self.observed = np.where(np.isnan(observed), 1.0, observed)  # (r, d)
        shares = mixture.weights * (1.0 - np.eye(mixture.n_components))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.rest = shares / shares.sum(axis=1, keepdims=True)  # (r, r): weights of the others

    def candidates(self) -> Iterator[_Candidate]:
        for j, column in enumerate(self.columns):
            observed = self.observed[:, j]
            gain, make = self._levels(j) if column.levels else self._numbers(j)
            # A sentence on values must say more than "is not missing".
            end = np.maximum(observed - self.rest @ observed, 0.0)
            yield np.where(gain - end >= _LEAST_GAIN, gain, 0.0), make
            if self.has_missing[j]:
                yield self._missing(j)

    def _others(self, values: Float, observed: Float) -> Float:
        """Means of values over all other components where they are observed, as values, (r, …)."""
        shares = observed.reshape(-1, *[1] * (values.ndim - 1)) * ~np.isnan(values)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.rest @ (shares * np.nan_to_num(values)) / (self.rest @ shares))

    def _trait(self, i: int, j: int, true: Float, said: str, **parts: Any) -> Trait:
        """The trait of a component whose sentence is true of shares (r,) of all components."""
        gain, name = true[i] - self.rest[i] @ true, self.names[j]
        rightly, sentence = 0.5 * (1.0 + float(gain)), f"{name} {said}"
        parts = {"level": None, **parts}
        return Trait(name, true=float(true[i]), sorted_rightly=rightly, sentence=sentence, **parts)

    def _numbers(self, j: int) -> _Candidate:
        means, deviations = self.mixture.means[:, j], np.sqrt(self.mixture.variances[:, j])
        observed = self.observed[:, j] * ~np.isnan(means)
        cuts = Cuts(self.columns[j], means, deviations, observed, self.rest)
        others, widths = (self._others(x, observed) for x in (means, deviations))
        alike = 0.5 * _ALIKE * (deviations + widths)
        return cuts.gains, lambda i: self._number(i, j, cuts, float(others[i]), float(alike[i]))

    def _number(self, i: int, j: int, cuts: Cuts, other: float, alike: float) -> Trait:
        column, short, means = self.columns[j], self.shorts[j], self.mixture.means[:, j]
        first, last, is_inside, true = cuts.best(i)
        here, elsewhere = float(true[i]), float(self.rest[i] @ true)
        rest = np.delete(means, i)
        ends = np.array([means[i], other, np.nanmin(rest), np.nanmax(rest)])
        value, others, least, most = restored(ends, column.transform).tolist()
        half = 0.5 * column.model.is_whole  # counts above 2.5 are above 2, or from 3 on
        numbers = f"{percent(here)} against {percent(elsewhere)}"
        if isfinite(first) and isfinite(last):
            what, words = "medium", "medium"
            a, b = number_text(first + half), number_text(last - half)
            said = f"between {a} and {b}" if is_inside else f"outside {a} to {b}"
            if is_inside and least < first and most > last:
                mean, lowest, highest = numbers_apart(value, least, most)
                numbers = f"{mean}, others {lowest} to {highest}"
            else:
                quarter = 0.25 * (last - first)
                middle = number_text(roundest(first + quarter, last - quarter))
                what, words = "spread", f"{'close to' if is_inside else 'far from'} {middle}"
                # How many rows of the others lie there, their densities say badly where they are
                # wide.
                numbers = f"{said}: {percent(here)} of its rows"
                value, others = here, elsewhere
        else:
            what, said = "high", f"above {number_text(first - half)}"
            if isfinite(last):
                what, said = "low", f"below {number_text(last + half)}"
            words = said
            if abs(means[i] - other) >= alike and (what == "high") == (value > others):
                words, numbers = what, " against ".join(numbers_apart(value, others))
        short = f"{words} {short}" if words == what else f"{short} {words}"
        return self._trait(
            i, j, true, said, what=what, value=value, others=others, words=words, numbers=numbers,
            short=short,
        )  # fmt: skip

    def _levels(self, j: int) -> _Candidate:
        levels = self.columns[j].levels
        probabilities = np.stack(list(self.mixture.level_probabilities(j).values()), axis=1)
        observed = self.observed[:, [j]] * ~np.isnan(probabilities[:, :1])
        shares = observed * np.nan_to_num(probabilities)
        more = shares - self.rest @ shares  # (r, K)
        less = (observed - self.rest @ observed - more) * (len(levels) > 2)
        places = np.maximum(more, less / _RARELY).argmax(axis=1)
        more, less = (np.take_along_axis(x, places[:, None], axis=1)[:, 0] for x in (more, less))
        others = self._others(probabilities, observed[:, 0])

        def make(i: int) -> Trait:
            k, is_more = places[i], bool(more[i] >= less[i])
            value, other = float(probabilities[i, k]), float(others[i, k])
            label, short = printable(str(levels[k])), self.shorts[j]
            word = ("mostly" if value >= _MOSTLY else "often") if is_more else "rarely"
            words = f"{word} “{label}”"
            if levels == (0, 1):
                label, short = ("no", f"not {short}") if k == 0 else ("yes", short)
                words = f"{word} {label}"
            else:
                short = f"{short}: {'' if is_more else 'not '}{cut_middle(label, _LETTERS)}"
            return self._trait(
                i, j, shares[:, k] if is_more else observed[:, 0] - shares[:, k],
                f"is {'' if is_more else 'not '}{label}", what="level", value=value, others=other,
                words=words, numbers=f"{percent(value)} against {percent(other)}", short=short,
                level=levels[k],
            )  # fmt: skip

        return np.maximum(more, less), make

    def _missing(self, j: int) -> _Candidate:
        missing = 1.0 - self.observed[:, j]
        others = self.rest @ missing

        def make(i: int) -> Trait:
            value, other = float(missing[i]), float(others[i])
            texts = ("often missing", "missing", "is missing")
            if value < other:
                texts = ("rarely missing", "known", "is not missing")
            words, ending, said = texts
            return self._trait(
                i, j, missing if value >= other else 1.0 - missing, said, what="missing",
                value=value, others=other, words=words,
                numbers=f"{percent(value)} against {percent(other)}",
                short=f"{self.shorts[j]} {ending}",
            )  # fmt: skip

        gain = np.abs(missing - others)
        return np.where(gain >= _LEAST_GAIN, gain, 0.0), make
