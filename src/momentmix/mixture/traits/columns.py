"""The best sentence on each column of a mixture: see `momentmix.mixture.traits.trait`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import Level, restored
from momentmix.mixture.parameter_table import ColumnValues, ParameterTable
from momentmix.mixture.tables.block_features import column_seen
from momentmix.mixture.traits.cuts import Cuts, Interval
from momentmix.mixture.traits.trait import Trait, What
from momentmix.wording import cut_middle, number_text, numbers_apart, percent, roundest

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

MOST_TRAITS = 20  # of a component: nobody reads more, and words take time
# Below it, 55 % are sorted rightly: means of equal deviations are apart by a quarter of one.
_LEAST_GAIN = 0.1  # difference in how often a sentence is true
_ALIKE = 0.25  # difference of means beside the deviations that is not worth a word
_SURE = 2.0  # standard errors that a difference must have
_RARELY = 1.5  # "is A" says more than "is not A": differences of the latter are divided by it
_MOSTLY = 0.6  # probability of a level
_LETTERS = 24  # of the name of a column in the name of a component

Made = tuple[Trait, bool]  # and whether the difference exceeds its standard errors
# Differences (r,) between component and others in how often the best sentence is true, and the
# trait of a component: words are made of those alone that are shown.
_Candidate = tuple[Float, Callable[[int], Made]]


def traits_of(mixture: Mixture, errors: ColumnValues | None = None) -> list[list[Made]]:
    """The traits of each component, the best first, and whether chance does not explain them."""
    if mixture.n_components == 1:
        return [[]]
    found = list(_Columns(mixture, errors).candidates())
    gains = np.nan_to_num([gain for gain, _ in found]).T  # (r, n)
    traits = []
    for i, own in enumerate(gains):
        order = np.argsort(-own, kind="stable")[:MOST_TRAITS]
        made = [found[k][1](i) for k in order if own[k] > 0]
        kept = [pair for pair in made if pair[0].sorted_rightly >= 0.5 + 0.49 * _LEAST_GAIN]
        traits.append(sorted(kept, key=lambda pair: -pair[0].sorted_rightly))
    return traits


class _Columns:
    """The best sentences on each column of a mixture."""

    def __init__(self, mixture: Mixture, errors: ColumnValues | None) -> None:
        self.mixture, self.columns = mixture, mixture.columns
        self.table = ParameterTable(mixture, errors)
        self.names = [printable(name) for name in self.table.names]
        self.shorts = [cut_middle(name, _LETTERS) for name in self.names]
        seen = column_seen(mixture.blocks, mixture.n_columns)
        self.has_gaps = np.asarray(np.isfinite(seen).any(axis=0))
        self.seen = np.where(np.isnan(seen), 1.0, seen)  # (r, d)
        shares = mixture.weights * (1.0 - np.eye(mixture.n_components))
        with np.errstate(divide="ignore", invalid="ignore"):
            self.rest = shares / shares.sum(axis=1, keepdims=True)  # (r, r): weights of the others

    def candidates(self) -> Iterator[_Candidate]:
        for j, column in enumerate(self.columns):
            yield self._levels(j) if column.levels else self._numbers(j)
            if self.has_gaps[j]:
                yield self._missing(j)

    def _others(self, values: Float, seen: Float) -> Float:
        """Means of values over all other components where they are seen, as values, (r, …)."""
        seen = seen.reshape(-1, *[1] * (values.ndim - 1)) * ~np.isnan(values)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.rest @ (seen * np.nan_to_num(values)) / (self.rest @ seen))

    # -- numbers --------------------------------------------------------------------------------

    def _numbers(self, j: int) -> _Candidate:
        m = self.mixture
        means, deviations = m.means[:, j], np.sqrt(m.variances[:, j])
        seen = self.seen[:, j] * ~np.isnan(means)
        cuts = Cuts(self.columns[j], means, deviations, seen, self.rest)
        others = self._others(means, seen)
        # Deviations of the others about their mean. No squares: those of large numbers overflow.
        around = np.abs(np.nan_to_num(means) - others[:, None])
        around = self._others(deviations, seen) + np.nansum(self.rest * seen * around, axis=1)

        def make(i: int) -> Made:
            return self._number(j, i, cuts.best(i), float(others[i]), float(around[i]))

        return self._worth(cuts.gains, seen), make

    def _worth(self, gains: Float, seen: Float) -> Float:
        """Gains of sentences on values; 0 where "is not missing" is about as good."""
        end = np.maximum(seen - self.rest @ seen, 0.0)
        return np.where(gains - end >= _LEAST_GAIN, gains, 0.0)

    def _number(self, j: int, i: int, best: Interval, other: float, around: float) -> Made:
        means, column, short = self.mixture.means[:, j], self.columns[j], self.shorts[j]
        deviation, rest = float(np.sqrt(self.mixture.variances[i, j])), np.delete(means, i)
        first, last, is_inside, true = best
        here, elsewhere = float(true[i]), float(self.rest[i] @ true)
        ends = np.array([means[i], other, np.nanmin(rest), np.nanmax(rest)])
        own, others, least, most = restored(ends, column.transform).tolist()
        half = 0.5 * column.model.is_whole  # counts above 2.5 are above 2, or from 3 on
        by_means, difference, value, compared = True, means[i] - other, own, others
        numbers = " against ".join(numbers_apart(own, others))
        what: What
        if isfinite(first) and isfinite(last):
            a, b = number_text(first + half), number_text(last - half)
            said = f"between {a} and {b}" if is_inside else f"outside {a} to {b}"
            by_means = is_inside and least < first and most > last
            what = "medium" if by_means else "spread"
            if by_means:
                difference = np.nanmin(np.abs(rest - means[i]))
                mean, lowest, highest = numbers_apart(own, least, most)
                numbers = f"{mean}, others {lowest} to {highest}"
        else:
            what = "high" if isfinite(first) else "low"
            said = f"above {number_text(first - half)}"
            if what == "low":
                said = f"below {number_text(last + half)}"
            # Means say it, unless the laws of the others are wide.
            by_means = abs(difference) >= _ALIKE * 0.5 * (deviation + around)
            by_means &= (what == "high") == (own > others)
        words, short = str(what), f"{what} {short}"
        if not by_means:
            numbers = f"{percent(here)} against {percent(elsewhere)}"
            words = said
            if what == "spread":
                words = f"{'close to' if is_inside else 'far from'} {_middle(first, last)}"
                # How many rows of the others lie there, their laws say badly where they are wide.
                numbers, value, compared = f"{said}: {percent(here)} of its rows", here, elsewhere
            short = f"{self.shorts[j]} {words}"
        is_sure, errors = True, self.table.errors
        if errors is not None:
            error = float(errors.variances[i, j]) / (2 * max(deviation, 1e-300))
            is_sure = _is_sure(float(difference), float(errors.means[i, j])) or (
                not by_means and _is_sure(deviation - around, error)
            )
        pair, gain, texts = (value, compared), here - elsewhere, (words, numbers, short, said)
        return self._trait(j, what, pair, gain, here, texts), is_sure

    def _trait(
        self, j: int, what: What, pair: tuple[float, float], gain: float, here: float,
        texts: tuple[str, str, str, str], level: Level | None = None,
    ) -> Trait:  # fmt: skip
        name, (words, numbers, short, said) = self.names[j], texts
        rightly, sentence = 0.5 * (1.0 + gain), f"{name} {said}"
        return Trait(name, what, *pair, rightly, here, level, words, numbers, short, sentence)

    # -- levels and missing cells -----------------------------------------------------------------

    def _levels(self, j: int) -> _Candidate:
        levels = self.columns[j].levels
        probabilities = np.stack(list(self.mixture.level_probabilities(j).values()), axis=1)
        known = ~np.isnan(probabilities[:, :1])
        seen = self.seen[:, [j]] * known
        shares = seen * np.nan_to_num(probabilities)
        more = shares - self.rest @ shares  # (r, K)
        end = seen - self.rest @ seen
        weighed = more if len(levels) == 2 else np.maximum(more, (end - more) / _RARELY)
        places = np.nan_to_num(weighed).argmax(axis=1)
        own = np.take_along_axis(more, places[:, None], axis=1)[:, 0]
        gain = np.maximum(own, (end[:, 0] - own) * (len(levels) > 2)) * known[:, 0]
        others = self._others(probabilities, seen[:, 0])
        rows = [p for p in self.table.of_column(j) if p.name == "probability"]
        errors = np.stack([p.standard_error for p in rows], axis=1)

        def make(i: int) -> Made:
            k, is_more = places[i], bool(own[i] == gain[i])
            value, other = float(probabilities[i, k]), float(others[i, k])
            label, short = printable(str(levels[k])), self.shorts[j]
            is_answer = levels == (0, 1)
            if is_answer:
                label, short = ("no", f"not {short}") if k == 0 else ("yes", short)
            else:
                short = f"{short}: {'' if is_more else 'not '}{cut_middle(label, _LETTERS)}"
            word = ("mostly" if value >= _MOSTLY else "often") if is_more else "rarely"
            words = f"{word} {label}" if is_answer else f"{word} “{label}”"
            numbers = f"{percent(value)} against {percent(other)}"
            texts = words, numbers, short, f"is {'' if is_more else 'not '}{label}"
            error = float(errors[i, min(k, errors.shape[1] - 1)])
            here = float(seen[i, 0]) * (value if is_more else 1.0 - value)
            trait = self._trait(j, "level", (value, other), float(gain[i]), here, texts, levels[k])
            return trait, _is_sure(value - other, error)

        return self._worth(gain, seen[:, 0]), make

    def _missing(self, j: int) -> _Candidate:
        missing, short = 1.0 - self.seen[:, j], self.shorts[j]
        others, errors = self.rest @ missing, self.table.of_column(j)[-1].standard_error

        def make(i: int) -> Made:
            value, other = float(missing[i]), float(others[i])
            is_more, numbers = value > other, f"{percent(value)} against {percent(other)}"
            texts = ("often", "missing", "") if is_more else ("rarely", "known", "not ")
            said = f"{texts[0]} missing", numbers, f"{short} {texts[1]}", f"is {texts[2]}missing"
            here = value if is_more else 1.0 - value
            trait = self._trait(j, "missing", (value, other), abs(value - other), here, said)
            return trait, _is_sure(value - other, float(errors[i]))

        gain = np.abs(missing - others)
        return np.where(gain >= _LEAST_GAIN, gain, 0.0), make


def _is_sure(difference: float, error: float) -> bool:
    """Whether a difference exceeds its error; also where that is not known, as at a bound."""
    return not abs(difference) < _SURE * error


def _middle(least: float, most: float) -> str:
    """A round number in the middle half of an interval."""
    quarter = 0.25 * (most - least)
    return number_text(roundest(least + quarter, most - quarter))
