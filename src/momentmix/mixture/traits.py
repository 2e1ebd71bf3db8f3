"""`Trait`: one sentence that separates a component from the others, and how well.

Each column gives at most one sentence on its values and one on its missing cells: the one that
sorts the rows best into the component or not, by the fitted mixture. Half of these rows are of the
component, half of the others by their weights. A sentence on values is not true of a missing cell.
Where cuts sort about equally well, the roundest number is taken.

| symbol | name here | shape |
|---|---|---|
| F_i: share of rows of component i that are observed and lie below points | ``below`` | (r, n) |
| D_i = F_i − Σ_k≠i w_k F_k / Σ_k≠i w_k, with its ends | ``apart`` | (r, n + 2) |
| max D, D(∞) − min D, max_a<b D(b) − D(a), D(∞) + max_a<b D(a) − D(b) | ``gains`` | (r, 4) |

The last are those of numbers below, above, inside and outside of the best cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import Column, Level, restored, transformed
from momentmix.mixture.columns import column_seen
from momentmix.mixture.parameter_table import column_names
from momentmix.wording import cut_middle, number_text, numbers_apart, percent, roundest

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

# Difference that an interval must add to that of one cut, and all numbers outside of one: tails of
# distributions are the part that rows follow least.
_INSIDE, _OUTSIDE = 0.1, 0.2
_EQUALLY_WELL = 0.01  # difference that a cut may lose to be a round number
_COARSE = 5.0  # deviation up to which whole numbers pile up: cuts between them are better
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
        Share of rows that `sentence` sorts rightly: from 0.5 (by chance) to 1.
    true : float
        Share of the rows of the component of which `sentence` is true.
    words, numbers, short : str
        ``low``, ``20 against 90`` and, for names, ``low age``.
    sentence : str
        What is true of more rows of the component than of others: ``age below 41.5``.
    level : str, int, bool or None
        For "level".
    """

    column: str
    what: Literal["low", "medium", "high", "level", "missing", "spread"]
    value: float
    others: float
    sorted_rightly: float
    true: float
    words: str
    numbers: str
    short: str
    sentence: str
    level: Level | None = None

    @property
    def text(self) -> str:
        """In words, with the numbers."""
        return f"{self.column} {self.words} ({self.numbers})"

    def __str__(self) -> str:
        return self.text

    def is_sure(self, n_rows: float, weight: float) -> bool:
        """Whether chance does not explain it in so many rows; `weight` is the component's."""
        gain = 2.0 * self.sorted_rightly - 1.0
        shares = np.array([self.true, self.true - gain])
        counts = n_rows * np.array([weight, 1 - weight])
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


# -- cuts of a column of numbers -----------------------------------------------------------------


class _Interval(NamedTuple):
    """Numbers between two ends, or those outside of them, in the units of the data."""

    first: float  # −inf and inf at the ends of all numbers
    last: float
    is_inside: bool
    true: Float  # (r,), the shares of the rows of all components that lie there


class _Cuts:
    """The cuts of a column that sort rows best into each component.

    From means and deviations (r,), and shares of observed cells; `rest` (r, r) has the weights of
    the others for each component.
    """

    def __init__(
        self, column: Column, means: Float, deviations: Float, observed: Float, rest: Float
    ) -> None:
        points, below = column.model.below(means[:, None], deviations[:, None])
        self.column, self.means, self.deviations = column, means, deviations
        self.observed, self.points = observed, points
        self.below = observed[:, None] * np.nan_to_num(below)
        end = (observed - rest @ observed)[:, None]
        self.apart = apart = np.hstack([0 * end, self.below - rest @ self.below, end])
        low, high = (f.accumulate(apart, axis=1) for f in (np.minimum, np.maximum))
        self.rises = {True: apart - low, False: high - apart}
        inside, outside = self.rises[True].max(axis=1), end[:, 0] + self.rises[False].max(axis=1)
        gains = [apart.max(axis=1), (end - apart).max(axis=1), inside - _INSIDE, outside - _OUTSIDE]
        self.rules, self.gains = np.argmax(gains, axis=0), np.max(gains, axis=0)

    def best(self, i: int) -> _Interval:
        """The interval that sorts the rows of a component best."""
        rule, first, last, is_inside = self.rules[i], -inf, inf, True
        means = restored(self.means, self.column.transform)
        if rule == 0:
            last = self._end(i, int(self.apart[i].argmax()), 1)
        elif rule == 1:
            first = self._end(i, int(self.apart[i].argmin()), -1)
        else:
            is_inside = bool(rule == 2)
            sign, b = (1 if is_inside else -1), int(self.rises[is_inside][i].argmax())
            first = self._end(i, int((sign * self.apart[i, : b + 1]).argmin()), -sign)
            last = self._end(i, b, sign)
            # An end beyond which no other has its mean is in the tail of a wide distribution, which
            # rows may not have: below 0, of sizes.
            others = np.delete(means, i)
            if is_inside:
                ends = -inf if np.nanmin(others) > last else first, last
                first, last = (ends[0], inf) if np.nanmax(others) < first else ends
            elif not first <= means[i] <= last:
                is_inside = True
                first, last = (last, inf) if means[i] > last else (-inf, first)
        true = self._share_below(last) - self._share_below(first)
        return _Interval(first, last, is_inside, true if is_inside else self.observed - true)

    def _end(self, i: int, place: int, sign: int) -> float:
        """The roundest number about a place where `apart` is largest, or least for sign −1."""
        values, points, column = sign * self.apart[i, 1:-1], self.points, self.column
        worse = np.flatnonzero(values < values[place - 1] - _EQUALLY_WELL)
        k = np.searchsorted(worse, place - 1)
        left, right = np.concatenate([[-1], worse, [values.size]])[k : k + 2]
        ends = points[[left + 1, right - 1]]
        if left + 2 == right and not column.model.is_whole:  # one point: half-way to the next ones
            ends = 0.5 * (ends + points[np.clip([left, right], 0, values.size - 1)])
        least, most = restored(ends, column.transform).tolist()
        if column.model.is_whole:
            return 0.5 + roundest(ceil(least - 0.5), floor(most - 0.5))
        # Whole numbers in a column of numbers are many at one place: cuts are between them.
        is_coarse = not column.transform and max(self.deviations[i], most - least) < _COARSE
        between = floor(points[place - 1]) + 0.5 if is_coarse else inf
        return between if least <= between <= most else roundest(least, most)

    def _share_below(self, value: float) -> Float:
        if not isfinite(value):
            return self.observed * (value > 0)
        place = transformed([value], self.column.transform)[0]
        return np.array([np.interp(place, self.points, below) for below in self.below])


# -- sentences ------------------------------------------------------------------------------------

# Differences (r,) between component and others in how often the best sentence is true, and the
# trait of a component: words are made of those alone that are shown.
_Candidate = tuple[Float, Callable[[int], Trait]]


class _Columns:
    """The best sentences on each column of a mixture."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture, self.names = mixture, [printable(name) for name in column_names(mixture)]
        self.shorts = [cut_middle(name, _LETTERS) for name in self.names]
        observed = column_seen(mixture.blocks, mixture.n_columns)
        self.has_missing = np.asarray(np.isfinite(observed).any(axis=0))
        self.observed = np.where(np.isnan(observed), 1.0, observed)  # (r, d)
        shares = mixture.weights * (1.0 - np.eye(mixture.n_components))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.rest = shares / shares.sum(axis=1, keepdims=True)  # (r, r): weights of the others

    def candidates(self) -> Iterator[_Candidate]:
        for j, column in enumerate(self.mixture.columns):
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
        rightly = 0.5 * (1.0 + float(true[i] - self.rest[i] @ true))
        sentence = f"{self.names[j]} {said}"
        parts |= {"true": float(true[i]), "sorted_rightly": rightly, "sentence": sentence}
        return Trait(self.names[j], **parts)

    def _numbers(self, j: int) -> _Candidate:
        means, deviations = self.mixture.means[:, j], np.sqrt(self.mixture.variances[:, j])
        observed = self.observed[:, j] * ~np.isnan(means)
        cuts = _Cuts(self.mixture.columns[j], means, deviations, observed, self.rest)
        others, widths = (self._others(x, observed) for x in (means, deviations))
        alike = 0.5 * _ALIKE * (deviations + widths)
        return cuts.gains, lambda i: self._number(i, j, cuts, float(others[i]), float(alike[i]))

    def _number(self, i: int, j: int, cuts: _Cuts, other: float, alike: float) -> Trait:
        column, short, means = cuts.column, self.shorts[j], cuts.means
        first, last, is_inside, true = cuts.best(i)
        here, elsewhere = float(true[i]), float(self.rest[i] @ true)
        rest = np.delete(means, i)
        ends = np.array([means[i], other, np.nanmin(rest), np.nanmax(rest)])
        value, others, least, most = restored(ends, column.transform).tolist()
        half = 0.5 * column.model.is_whole  # counts above 2.5 are above 2, or from 3 on
        numbers = f"{percent(here)} against {percent(elsewhere)}"
        if isfinite(first) and isfinite(last):
            a, b = number_text(first + half), number_text(last - half)
            said = f"between {a} and {b}" if is_inside else f"outside {a} to {b}"
            if is_inside and least < first and most > last:
                mean, lowest, highest = numbers_apart(value, least, most)
                what, words, numbers = "medium", "medium", f"{mean}, others {lowest} to {highest}"
            else:
                # How many rows of the others lie there, their densities say badly where they are
                # wide.
                what, words, value, others = "spread", said, here, elsewhere
                numbers = f"{percent(here)} of its rows"
        else:
            is_low = isfinite(last)
            what = "low" if is_low else "high"
            words = said = f"{'below' if is_low else 'above'} " + number_text(
                last + half if is_low else first - half
            )
            if abs(means[i] - other) >= alike and is_low == (value < others):
                words, numbers = what, " against ".join(numbers_apart(value, others))
        short = f"{words} {short}" if words == what else f"{short} {words}"
        parts = {"what": what, "value": value, "others": others, "short": short}
        return self._trait(i, j, true, said, words=words, numbers=numbers, **parts)

    def _levels(self, j: int) -> _Candidate:
        levels = self.mixture.columns[j].levels
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
            words, no = f"{word} “{label}”", "" if is_more else "not "
            if levels == (0, 1):
                label, short = ("no", f"not {short}") if k == 0 else ("yes", short)
                words = f"{word} {label}"
            else:
                short = f"{short}: {no}{cut_middle(label, _LETTERS)}"
            true = shares[:, k] if is_more else observed[:, 0] - shares[:, k]
            parts = {"value": value, "others": other, "words": words, "level": levels[k]}
            parts["numbers"] = f"{percent(value)} against {percent(other)}"
            return self._trait(i, j, true, f"is {no}{label}", what="level", short=short, **parts)

        return np.maximum(more, less), make

    def _missing(self, j: int) -> _Candidate:
        missing = 1.0 - self.observed[:, j]
        others = self.rest @ missing

        def make(i: int) -> Trait:
            value, other = float(missing[i]), float(others[i])
            is_more = value >= other
            true, said = (missing, "is missing") if is_more else (1.0 - missing, "is not missing")
            parts: dict[str, Any] = {"value": value, "others": other}
            parts["numbers"] = f"{percent(value)} against {percent(other)}"
            parts["words"] = "often missing" if is_more else "rarely missing"
            parts["short"] = f"{self.shorts[j]} {'missing' if is_more else 'known'}"
            return self._trait(i, j, true, said, what="missing", **parts)

        gain = np.abs(missing - others)
        return np.where(gain >= _LEAST_GAIN, gain, 0.0), make
