"""`Trait`: one sentence that separates a component from the others, and how well.

Each column gives at most one sentence on its values and one on its missing cells: the one that
sorts the rows best into the component or not, by the fitted mixture. Half of these rows are of the
component, half of the others by their weights. A sentence on values is not true of a missing cell.
Where cuts sort about equally well, the roundest number is taken.

| symbol | name here | shape |
|---|---|---|
| F_i: share of rows of component i that are observed and lie below points | ``below`` | (r, n) |
| D_i = F_i − Σ_k≠i w_k F_k / Σ_k≠i w_k, with its ends | ``apart`` | (r, n + 2) |
| max D, D(∞) − min D, max_a<b D(b) − D(a) | of numbers below, above and between cuts | (r,) |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import Level, restored, transformed
from momentmix.mixture.columns import column_seen
from momentmix.mixture.parameter_table import column_names
from momentmix.wording import cut_middle, number_text, numbers_apart, percent, roundest

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

# Difference that a second cut must add to that of one: tails of distributions are the part that
# rows follow least.
_SECOND_CUT = 0.1
_EQUALLY_WELL = 0.01  # difference that a cut may lose to be a round number
_COARSE = 5.0  # deviation up to which whole numbers pile up: cuts between them are better
_MOST_TRAITS = 20  # of a component: nobody reads more, and words take time
# Difference in how often a sentence is true: below it 55 % of the rows are sorted rightly, and
# means of equal deviations are apart by a quarter of one.
_LEAST_GAIN = 0.1
_ALIKE = 0.25  # difference of means beside the deviations that is not worth a word
_SURE = 2.0  # standard errors that a difference must have
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
    r = mixture.n_components
    if r == 1:
        return [[]]
    observed = column_seen(mixture.blocks, mixture.n_columns)  # (r, d)
    shares = mixture.weights * (1.0 - np.eye(r))
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = shares / shares.sum(axis=1, keepdims=True)  # (r, r): weights of the others
    candidates: list[_ColumnTraits] = []
    for j, column in enumerate(mixture.columns):
        kind = _LevelTraits if column.levels else _NumberTraits
        candidates.append(kind(mixture, j, np.nan_to_num(observed[:, j], nan=1.0), rest))
        if not np.isnan(observed[:, j]).all():
            candidates.append(_MissingTraits(mixture, j, observed[:, j], rest))
    traits = []
    for i, gains in enumerate(np.nan_to_num([c.gains for c in candidates]).T):
        order = np.argsort(-gains, kind="stable")[:_MOST_TRAITS]
        made = [candidates[k].trait(i) for k in order if gains[k] > 0]
        kept = [trait for trait in made if trait.sorted_rightly >= 0.5 + 0.49 * _LEAST_GAIN]
        traits.append(sorted(kept, key=lambda trait: -trait.sorted_rightly))
    return traits


class _ColumnTraits:
    """The best sentences of one kind on a column: how much they tell, and their words."""

    gains: Float  # (r,): differences between component and others in how often one is true

    def __init__(self, mixture: Mixture, number: int, observed: Float, rest: Float) -> None:
        self.column, self.observed, self.rest = mixture.columns[number], observed, rest
        self.name = printable(column_names(mixture)[number])
        self.short = cut_middle(self.name, _LETTERS)
        self.set_gains(mixture, number)

    def set_gains(self, mixture: Mixture, number: int) -> None:
        """Find the best sentences."""
        raise NotImplementedError

    def trait(self, i: int) -> Trait:
        """The trait of a component; only those that are read are made."""
        raise NotImplementedError

    def beyond_missing(self, gains: Float) -> Float:
        """Gains of sentences on values that say more than "is not missing"."""
        end = np.maximum(self.observed - self.rest @ self.observed, 0.0)
        return np.where(gains - end >= _LEAST_GAIN, gains, 0.0)

    def of_others(self, values: Float) -> Float:
        """Means of values (r, …) over all other components where they are observed."""
        shares = np.expand_dims(self.observed, tuple(range(1, values.ndim))) * ~np.isnan(values)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.rest @ (shares * np.nan_to_num(values)) / (self.rest @ shares))

    def made(self, i: int, true: Float, said: str, **parts: Any) -> Trait:
        """The trait of a component whose sentence is true of shares (r,) of all components."""
        rightly = 0.5 * (1.0 + float(true[i] - self.rest[i] @ true))
        parts |= {"true": float(true[i]), "sorted_rightly": rightly}
        return Trait(self.name, sentence=f"{self.name} {said}", **parts)


class _NumberTraits(_ColumnTraits):
    """A column of numbers or counts: values below, above or between cuts."""

    def set_gains(self, mixture: Mixture, number: int) -> None:
        self.means = mixture.means[:, number]
        self.deviations = np.sqrt(mixture.variances[:, number])
        self.observed = self.observed * ~np.isnan(self.means)
        units = self.means[:, None], self.deviations[:, None]
        self.points, below = self.column.model.below(*units)
        self.below = self.observed[:, None] * np.nan_to_num(below)
        end = (self.observed - self.rest @ self.observed)[:, None]
        self.apart = np.hstack([0 * end, self.below - self.rest @ self.below, end])
        self.rises = self.apart - np.minimum.accumulate(self.apart, axis=1)
        between = self.rises.max(axis=1) - _SECOND_CUT
        gains = [self.apart.max(axis=1), (end - self.apart).max(axis=1), between]
        self.rules = np.argmax(gains, axis=0)
        self.gains = self.beyond_missing(np.max(gains, axis=0))

    def _interval(self, i: int) -> tuple[float, float]:
        """The ends of the numbers that sort the rows of a component best, in units of the data."""
        first, last, rule = -inf, inf, self.rules[i]
        if rule == 0:
            last = self._end(i, int(self.apart[i].argmax()), 1)
        elif rule == 1:
            first = self._end(i, int(self.apart[i].argmin()), -1)
        else:
            place = int(self.rises[i].argmax())
            first = self._end(i, int(self.apart[i, : place + 1].argmin()), -1)
            last = self._end(i, place, 1)
            # An end beyond which no other has its mean is in the tail of a wide distribution, which
            # rows may not have: below 0, of sizes.
            others = np.delete(restored(self.means, self.column.transform), i)
            ends = -inf if np.nanmin(others) > last else first, last
            first, last = (ends[0], inf) if np.nanmax(others) < first else ends
        return first, last

    def _end(self, i: int, place: int, sign: int) -> float:
        """The roundest number about a place where `apart` is largest, or least for sign −1."""
        values, points = sign * self.apart[i, 1:-1], self.points
        is_whole = self.column.model.is_whole
        worse = np.flatnonzero(values < values[place - 1] - _EQUALLY_WELL)
        k = np.searchsorted(worse, place - 1)
        left, right = np.concatenate([[-1], worse, [values.size]])[k : k + 2]
        ends = points[[left + 1, right - 1]]
        if left + 2 == right and not is_whole:  # one point: half-way to the next ones
            ends = 0.5 * (ends + points[np.clip([left, right], 0, values.size - 1)])
        least, most = restored(ends, self.column.transform).tolist()
        if is_whole:
            return 0.5 + roundest(ceil(least - 0.5), floor(most - 0.5))
        # Whole numbers in a column of numbers are many at one place: cuts are between them.
        is_coarse = not self.column.transform and max(self.deviations[i], most - least) < _COARSE
        between = floor(points[place - 1]) + 0.5 if is_coarse else inf
        return between if least <= between <= most else roundest(least, most)

    def _share_below(self, value: float) -> Float:
        if not isfinite(value):
            return self.observed * (value > 0)
        place = transformed([value], self.column.transform)[0]
        return np.array([np.interp(place, self.points, below) for below in self.below])

    def trait(self, i: int) -> Trait:
        first, last = self._interval(i)
        true = self._share_below(last) - self._share_below(first)
        here, elsewhere = float(true[i]), float(self.rest[i] @ true)
        other, width = (float(self.of_others(x)[i]) for x in (self.means, self.deviations))
        rest = np.delete(self.means, i)
        ends = np.array([self.means[i], other, np.nanmin(rest), np.nanmax(rest)])
        value, others, least, most = restored(ends, self.column.transform).tolist()
        half = 0.5 * self.column.model.is_whole  # counts above 2.5 are above 2, or from 3 on
        numbers = f"{percent(here)} against {percent(elsewhere)}"
        if isfinite(first) and isfinite(last):
            what = words = "medium"
            said = f"between {number_text(first + half)} and {number_text(last - half)}"
            if least < first and most > last:
                mean, lowest, highest = numbers_apart(value, least, most)
                numbers = f"{mean}, others {lowest} to {highest}"
            else:
                # How many rows of the others lie there, their densities say badly where they are
                # wide.
                what, words, value, others = "spread", said, here, elsewhere
                numbers = f"{percent(here)} of its rows"
        else:
            is_low = isfinite(last)
            what = "low" if is_low else "high"
            end = number_text(last + half if is_low else first - half)
            words = said = f"below {end}" if is_low else f"above {end}"
            alike = 0.5 * _ALIKE * (self.deviations[i] + width)
            if abs(self.means[i] - other) >= alike and is_low == (value < others):
                words, numbers = what, " against ".join(numbers_apart(value, others))
        short = f"{words} {self.short}" if words == what else f"{self.short} {words}"
        parts = {"what": what, "value": value, "others": others, "short": short}
        return self.made(i, true, said, words=words, numbers=numbers, **parts)


class _LevelTraits(_ColumnTraits):
    """A column of levels: one that the component has more often than the others."""

    def set_gains(self, mixture: Mixture, number: int) -> None:
        by_level = mixture.level_probabilities(number).values()
        self.probabilities = np.stack(list(by_level), axis=1)  # (r, K)
        self.observed = self.observed * ~np.isnan(self.probabilities[:, 0])
        self.shares = self.observed[:, None] * np.nan_to_num(self.probabilities)
        more = self.shares - self.rest @ self.shares
        self.levels = more.argmax(axis=1)
        self.gains = self.beyond_missing(more.max(axis=1))

    def trait(self, i: int) -> Trait:
        k, levels = int(self.levels[i]), self.column.levels
        tables = self.probabilities, self.of_others(self.probabilities)
        value, other = (float(table[i, k]) for table in tables)
        word = "mostly" if value >= _MOSTLY else "often"
        label = printable(str(levels[k]))
        words, short = f"{word} “{label}”", f"{self.short}: {cut_middle(label, _LETTERS)}"
        if levels == (0, 1):
            label, short = ("yes", self.short) if k else ("no", f"not {self.short}")
            words = f"{word} {label}"
        return self.made(
            i, self.shares[:, k], f"is {label}", what="level", value=value, others=other,
            words=words, numbers=f"{percent(value)} against {percent(other)}", short=short,
            level=levels[k],
        )  # fmt: skip


class _MissingTraits(_ColumnTraits):
    """The missing cells of a column."""

    def set_gains(self, mixture: Mixture, number: int) -> None:
        gains = np.abs(self.observed - self.rest @ self.observed)
        self.gains = np.where(gains >= _LEAST_GAIN, gains, 0.0)

    def trait(self, i: int) -> Trait:
        missing = 1.0 - self.observed
        value, other = float(missing[i]), float(self.rest[i] @ missing)
        is_more = value >= other
        true, said = (missing, "is missing") if is_more else (self.observed, "is not missing")
        return self.made(
            i, true, said, what="missing", value=value, others=other,
            words="often missing" if is_more else "rarely missing",
            numbers=f"{percent(value)} against {percent(other)}",
            short=f"{self.short} {'missing' if is_more else 'known'}",
        )  # fmt: skip
