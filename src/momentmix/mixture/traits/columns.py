"""The best sentence on each column of a mixture: see `momentmix.mixture.traits.trait`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, floor, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import restored, transformed
from momentmix.mixture.parameter_table import ColumnValues, ParameterTable
from momentmix.mixture.tables.block_features import column_seen
from momentmix.mixture.traits.trait import Trait, What
from momentmix.wording import cut_middle, number_text, numbers_apart, percent, roundest

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

MOST_TRAITS = 20  # of a component: nobody reads more, and words take time
# Below it, 55 % are sorted rightly: means of equal deviations are apart by a quarter of one.
_LEAST_GAIN = 0.1  # difference in how often a sentence is true
# Difference that an interval must add to that of one cut, and all numbers outside of one: tails of
# laws are the part that rows follow least.
_INSIDE, _OUTSIDE = 0.1, 0.2
_EQUALLY_WELL = 0.01  # difference that a cut may lose to be a round number
_ALIKE = 0.25  # difference of means beside the deviations that is not worth a word
_COARSE = 5.0  # deviation up to which whole numbers pile up: cuts between them are better
_SURE = 2.0  # standard errors that a difference must have
_RARELY = 1.5  # "is A" says more than "is not A": differences of the latter are divided by it
_LETTERS = 24  # of the name of a column in the name of a component


_LOW: What = "low"
_HIGH: What = "high"
_MEDIUM: What = "medium"
_SPREAD: What = "spread"

Made = tuple[Trait, bool]  # and whether the difference exceeds its standard errors
# Differences (r,) between component and others in how often the best sentence is true, and the
# trait of a component: words are made of those alone that are shown.
_Ends = tuple[float, float, int]  # of an interval, and -1 for all numbers outside it
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
        m, column = self.mixture, self.columns[j]
        means, deviations = m.means[:, j], np.sqrt(m.variances[:, j])
        seen = self.seen[:, j] * ~np.isnan(means)
        points, below = column.model.distribution(means[:, None], deviations[:, None])
        below = seen[:, None] * np.nan_to_num(below)
        end = (seen - self.rest @ seen)[:, None]
        # Differences in the share of rows below points, (r, n + 2); at the ends of no and all rows.
        apart = np.hstack([0 * end, below - self.rest @ below, end])
        low, high = (f.accumulate(apart, axis=1) for f in (np.minimum, np.maximum))
        gains = np.hstack([
            apart.max(axis=1, keepdims=True),
            end - apart.min(axis=1, keepdims=True),
            (apart - low).max(axis=1, keepdims=True) - _INSIDE,
            end + (high - apart).max(axis=1, keepdims=True) - _OUTSIDE,
        ])  # fmt: skip
        rules = gains.argmax(axis=1)
        gain = gains.max(axis=1) - np.maximum(end[:, 0], 0.0)  # beside "is not missing"
        others = self._others(means, seen)
        # No squares: those of large numbers overflow.
        widths = self._others(deviations, seen), np.abs(means - others[:, None])
        around = widths[0] + np.nansum(self.rest * seen * np.nan_to_num(widths[1]), axis=1)

        def end_at(i: int, place: int, sign: int) -> float:
            """The roundest number about a place where `apart` is largest, or least."""
            own = sign * apart[i, 1:-1]
            bad = np.flatnonzero(own < own[place - 1] - _EQUALLY_WELL)
            cut = np.searchsorted(bad, place - 1)
            first = bad[cut - 1] + 1 if cut else 0
            last = bad[cut] - 1 if cut < bad.size else own.size - 1
            least, most = points[first], points[last]
            if first == last and not column.model.is_whole:
                least = 0.5 * (least + points[max(first - 1, 0)])
                most = 0.5 * (most + points[min(last + 1, own.size - 1)])
            least, most = restored(np.array([least, most]), column.transform).tolist()
            if column.model.is_whole:
                return 0.5 + roundest(ceil(least - 0.5), floor(most - 0.5))
            # Whole numbers in a column of numbers are many at one place: cuts are between them.
            is_coarse = not column.transform and deviations[i] < _COARSE
            between = floor(points[place - 1]) + 0.5
            return between if is_coarse and least <= between <= most else roundest(least, most)

        def share_below(value: float) -> Float:
            at = transformed([value], column.transform)[0]
            return np.array([np.interp(at, points, own) for own in below])

        def make(i: int) -> Made:
            first, last, sign = -inf, inf, 1
            if rules[i] == 0:
                last = end_at(i, int(apart[i].argmax()), 1)
            elif rules[i] == 1:
                first = end_at(i, int(apart[i].argmin()), -1)
            else:
                sign = 1 if rules[i] == 2 else -1
                b = int((sign * apart[i] - (low if sign > 0 else -high)[i]).argmax())
                a = int((sign * apart[i, : b + 1]).argmin())
                first, last = end_at(i, a, -sign), end_at(i, b, sign)
            true = share_below(last) if isfinite(last) else seen
            true = true - share_below(first) if isfinite(first) else true
            true = true if sign > 0 else seen - true
            return self._number(j, i, true, (first, last, sign), others[i], around[i])

        return np.where(gain >= _LEAST_GAIN, gain, 0.0), make

    def _number(
        self, j: int, i: int, true: Float, ends: _Ends, other: float, around: float
    ) -> Made:
        """The trait of a column of numbers whose sentence is true for shares (r,) of the rows."""
        means, column, short = self.mixture.means[:, j], self.columns[j], self.shorts[j]
        deviation = float(np.sqrt(self.mixture.variances[i, j]))
        first, last, sign = ends
        here, elsewhere = float(true[i]), float(self.rest[i] @ true)
        shares = f"{percent(here)} against {percent(elsewhere)}"
        rest = np.delete(means, i)
        rest = np.append(rest[~np.isnan(rest)], other)
        own, others, least, most = restored(
            np.array([means[i], other, rest.min(), rest.max()]), column.transform
        ).tolist()
        is_cut = not (isfinite(first) and isfinite(last))
        half = 0.5 * column.model.is_whole  # counts above 2.5 are above 2, or from 3 on
        a, b = (number_text(x) for x in (first - half, last + half))
        value, compared, difference = here, elsewhere, float(means[i]) - other
        by_spread, what = not is_cut, _SPREAD
        words: str
        if is_cut:
            what, said = (_HIGH, f"above {a}") if isfinite(first) else (_LOW, f"below {b}")
            value, compared = own, others
            # Means say it, unless the laws of the others are wide: then the sentence does.
            is_apart = abs(difference) >= _ALIKE * 0.5 * (deviation + around)
            by_spread = not is_apart or (what == "high") != (own > others)
            words, numbers = what, " against ".join(numbers_apart(own, others))
            short = f"{words} {short}"
            if by_spread:
                words, numbers, short = said, shares, f"{self.shorts[j]} {said}"
        else:
            a, b = number_text(first + half), number_text(last - half)
            said = f"between {a} and {b}" if sign > 0 else f"outside {a} to {b}"
            words = f"{'close to' if sign > 0 else 'far from'} {_middle(first, last)}"
            numbers, short = f"{said}: {shares}", f"{short} {words}"
            if sign > 0 and least < first and most > last:
                what, value, compared, by_spread = _MEDIUM, own, others, False
                texts = numbers_apart(own, least, most)
                words, numbers = what, f"{texts[0]}, others {texts[1]} to {texts[2]}"
                short, difference = f"medium {self.shorts[j]}", float(np.abs(rest - own).min())
        is_sure, errors = True, self.table.errors
        if errors is not None:
            error = float(errors.variances[i, j]) / (2 * max(deviation, 1e-300))
            is_sure = _is_sure(difference, float(errors.means[i, j])) or (
                by_spread and _is_sure(deviation - around, error)
            )
        name, rightly = self.names[j], 0.5 * (1.0 + here - elsewhere)
        trait = Trait(
            name, what, value, compared, rightly, None, words, numbers, short, f"{name} {said}"
        )
        return trait, is_sure

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
            label, name, short = printable(str(levels[k])), self.names[j], self.shorts[j]
            is_answer = levels == (0, 1)
            if is_answer:
                label, short = ("no", f"not {short}") if k == 0 else ("yes", short)
            else:
                short = f"{short}: {'' if is_more else 'not '}{cut_middle(label, _LETTERS)}"
            word = ("mostly" if value > 0.5 else "often") if is_more else "rarely"
            words = f"{word} {label}" if is_answer else f"{word} “{label}”"
            numbers = f"{percent(value)} against {percent(other)}"
            sentence = f"{name} is {'' if is_more else 'not '}{label}"
            error = float(errors[i, min(k, errors.shape[1] - 1)])
            rightly = 0.5 * (1.0 + float(gain[i]))
            trait = Trait(
                name, "level", value, other, rightly, levels[k], words, numbers, short, sentence
            )
            return trait, _is_sure(value - other, error)

        return np.where(gain - np.maximum(end[:, 0], 0) >= _LEAST_GAIN, gain, 0.0), make

    def _missing(self, j: int) -> _Candidate:
        missing, name, short = 1.0 - self.seen[:, j], self.names[j], self.shorts[j]
        others, errors = self.rest @ missing, None
        if self.table.errors is not None:
            errors = self.table.of_column(j)[-1].standard_error

        def make(i: int) -> Made:
            value, other = float(missing[i]), float(others[i])
            is_more, rightly = value > other, 0.5 * (1.0 + abs(value - other))
            words = "often missing" if is_more else "rarely missing"
            numbers = f"{percent(value)} against {percent(other)}"
            own = f"{short} {'missing' if is_more else 'known'}"
            sentence = f"{name} is {'' if is_more else 'not '}missing"
            trait = Trait(
                name, "missing", value, other, rightly, None, words, numbers, own, sentence
            )
            return trait, errors is None or _is_sure(value - other, float(errors[i]))

        gain = np.abs(missing - others)
        return np.where(gain >= _LEAST_GAIN, gain, 0.0), make


def _is_sure(difference: float, error: float) -> bool:
    """Whether a difference exceeds its error; also where that is not known, as at a bound."""
    return not abs(difference) < _SURE * error


def _middle(least: float, most: float) -> str:
    """A round number in the middle half of an interval."""
    quarter = 0.25 * (most - least)
    return number_text(roundest(least + quarter, most - quarter))
