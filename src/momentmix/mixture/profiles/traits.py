"""Traits of components: each is compared with all others together, column by column.

| trait | compared | strength |
|---|---|---|
| low, high | mean with that of the others | difference / overall standard deviation |
| medium | mean between those of the others | distance to the nearest / the same |
| level | probability of a level | difference / √(p (1 − p)), p over all components |
| missing | probability that a cell is missing | the same |
| spread | standard deviation with that of the others | half the logarithm of their ratio |

Each column gives at most one trait of its values and one of its missing cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.families.column import Column, Level
from momentmix.families.transforms import restored
from momentmix.mixture.overall import column_names, numeric_columns, overall_spread
from momentmix.mixture.parameter_table import ColumnValues
from momentmix.mixture.tables.block_features import column_seen
from momentmix.wording import cut, numbers_apart, percent

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

What = Literal["low", "medium", "high", "level", "missing", "spread"]

_LEAST = 0.25  # strength of a trait: below, the distributions of two groups overlap almost wholly
_SPREAD = log(1.5)  # least ratio of standard deviations that is worth a word
_ON_ONE_SIDE = 0.75  # share of the others that must lie above what is low, or below what is high
_SURE = 2.0  # standard errors that a difference must have
_RARELY = 1.5  # "mostly A" says more than "rarely B": strengths of the latter are divided by it
MOST_TRAITS = 20  # of a component: nobody reads more, and words take time
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
        probabilities, or standard deviations.
    strength : float
        Size of the difference, in overall standard deviations.
    level : str, int, bool or None
        For "level".
    text : str
        In words, with the numbers.
    short : str
        In two or three words, for names.
    """

    column: str
    what: What
    value: float
    others: float
    strength: float
    level: Level | None
    text: str
    short: str

    def __str__(self) -> str:
        return self.text


class Traits:
    """The traits of every component of a mixture.

    Parameters
    ----------
    mixture : Mixture
    errors : ColumnValues, optional
        Standard errors; differences of less than two of them are no traits.
    """

    def __init__(self, mixture: Mixture, errors: ColumnValues | None = None) -> None:
        self.mixture = mixture
        self.errors = errors
        seen = column_seen(mixture.blocks, mixture.n_columns)
        self.seen = np.where(np.isnan(seen), 1.0, seen)  # (r, d)
        self.shares = mixture.weights[:, None] * self.seen
        self.names = [printable(name) for name in column_names(mixture)]

    def by_component(self) -> list[tuple[Trait, ...]]:
        """The strongest traits of every component, the strongest first."""
        found: list[list[Trait]] = [[] for _ in range(self.mixture.n_components)]
        if len(found) > 1:
            for i, trait in [*self._numbers(), *self._levels(), *self._missing()]:
                found[i].append(trait)
        ordered = [sorted(traits, key=lambda trait: -trait.strength) for traits in found]
        return [tuple(traits[:MOST_TRAITS]) for traits in ordered]

    # -- numbers and counts -------------------------------------------------------------------

    def _numbers(self) -> Iterator[tuple[int, Trait]]:
        m, columns = self.mixture, numeric_columns(self.mixture)
        if not columns:
            return
        means, variances = m.means[:, columns], m.variances[:, columns]
        shares = self.shares[:, columns] * ~np.isnan(means)
        unit = overall_spread(m)[1][columns]
        others, within = _rest(means, shares), _rest(variances, shares)
        for i in range(m.n_components):
            words = _places(means, shares, i)
            nearest = np.abs(np.delete(means, i, axis=0) - means[i])
            nearest = np.where(np.isnan(nearest), np.inf, nearest).min(axis=0)
            apart = np.where(words == "medium", nearest, np.abs(means[i] - others[i]))
            error = None if self.errors is None else self.errors.means[i, columns]
            is_trait = (apart >= _LEAST * unit) & _are_sure(apart, error)
            strength = np.where(is_trait & (shares[i] > 0), apart / unit, 0.0)
            for place in _strongest(strength):
                j, word = columns[place], words[place]
                said = _mean_words(means[:, place], i, others[i, place], m.columns[j], word)
                text, short = f"{self.names[j]} {said[0]}", f"{word} {cut(self.names[j], _LETTERS)}"
                numbers = said[1], said[2], float(strength[place])
                yield i, Trait(self.names[j], word, *numbers, None, text, short)
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.abs(np.log(variances[i]) - np.log(within[i])) / 2
            change = np.where(np.isfinite(change), change, 0.0)
            differs = (change >= _SPREAD) & ~is_trait & (shares[i] > 0)
            for place in _strongest(np.where(differs, change, 0.0)):
                if m.columns[columns[place]].model.joins:
                    deviations = variances[i, place] ** 0.5, within[i, place] ** 0.5
                    yield i, self._spread(columns[place], *map(float, deviations))

    def _spread(self, j: int, own: float, others: float) -> Trait:
        name, ratio = self.names[j], log(own / others)
        texts, noun = numbers_apart(own, others), "standard deviation"
        if self.mixture.columns[j].transform:
            factors = (float(x) for x in np.exp([own, others]))
            texts, noun = numbers_apart(*factors), "by a factor of"
        words = "varies more" if ratio > 0 else "varies less"
        short = f"{'varied' if ratio > 0 else 'steady'} {cut(name, _LETTERS)}"
        text = f"{name} {words} ({noun} {texts[0]} against {texts[1]})"
        return Trait(name, "spread", own, others, abs(ratio) / 2, None, text, short)

    # -- levels and missing cells -------------------------------------------------------------

    def _levels(self) -> Iterator[tuple[int, Trait]]:
        for j, column in enumerate(self.mixture.columns):
            if not column.levels:
                continue
            tables = self.mixture.level_probabilities(j)
            # The second level of yes/no answers says it all.
            levels = list(tables)[column.model.second_level_only :]
            probabilities = np.stack([tables[level] for level in levels], axis=1)  # (r, levels)
            shares = self.shares[:, [j]] * ~np.isnan(probabilities)
            others, strength = _odds(probabilities, shares)
            strength = np.where(probabilities < others, strength / _RARELY, strength)
            sure = _are_sure(probabilities - others, self._level_errors(j, column))
            strength = np.where(sure & (shares > 0), np.nan_to_num(strength), 0.0)
            for i, k in enumerate(strength.argmax(axis=1)):
                if strength[i, k] >= _LEAST:
                    both = float(probabilities[i, k]), float(others[i, k])
                    words = _level_words(column, self.names[j], levels[k], *both)
                    value = float(strength[i, k])
                    yield i, Trait(self.names[j], "level", *both, value, levels[k], *words)

    def _missing(self) -> Iterator[tuple[int, Trait]]:
        columns = [j for j, column in enumerate(self.mixture.columns) if column.has_missing]
        missing = 1.0 - self.seen[:, columns]
        weights = np.broadcast_to(self.mixture.weights[:, None], missing.shape)
        others, strength = _odds(missing, weights)
        known = None if self.errors is None or self.errors.seen is None else self.errors.seen
        sure = _are_sure(missing - others, None if known is None else known[:, columns])
        for i, place in np.argwhere(sure & (strength >= _LEAST)).tolist():
            value, other = float(missing[i, place]), float(others[i, place])
            name, more = self.names[columns[place]], value > other
            text = f"{'often' if more else 'rarely'} missing"
            text = f"{name} {text} ({percent(value)} against {percent(other)})"
            short = f"{cut(name, _LETTERS)} {'missing' if more else 'known'}"
            strong = float(strength[i, place])
            yield i, Trait(name, "missing", value, other, strong, None, text, short)

    def _level_errors(self, j: int, column: Column) -> Float | None:
        """Standard errors of the probabilities of levels, of shape (r, levels)."""
        if self.errors is None:
            return None
        if column.model.second_level_only:
            return self.errors.means[:, [j]]
        key = j if self.mixture.feature_names is None else self.mixture.feature_names[j]
        return (self.errors.levels or {}).get(key)


# -- comparisons ------------------------------------------------------------------------------


def _rest(values: Float, shares: Float) -> Float:
    """Means of values over all other components, both of shape (r, d); NaN without any."""
    r = len(values)
    without_own = np.ones((r, r)) - np.eye(r)
    total = without_own @ shares
    sums = without_own @ (shares * np.nan_to_num(values))
    return np.asarray(sums / np.where(total > 0, total, np.nan))


def _odds(probabilities: Float, shares: Float) -> tuple[Float, Float]:
    """Probabilities in all other components, and the strengths of the differences."""
    others = _rest(probabilities, shares)
    total = shares.sum(axis=0)
    p = (shares * np.nan_to_num(probabilities)).sum(axis=0) / np.where(total > 0, total, 1.0)
    spread = np.sqrt(np.maximum(p * (1.0 - p), 0.0))
    strength = np.abs(probabilities - others) / np.where(spread > 0, spread, np.inf)
    return others, strength


def _strongest(strength: Float) -> list[int]:
    """Places of the largest positive numbers, the largest first."""
    order = np.argsort(-strength, kind="stable")[:MOST_TRAITS]
    return [int(place) for place in order if strength[place] > 0]


def _places(means: Float, shares: Float, i: int) -> NDArray[Any]:
    """Whether the mean of component i is low, medium or high among the others, by column."""
    rest = shares.copy()
    rest[i] = 0.0
    most = (1.0 - _ON_ONE_SIDE) * rest.sum(axis=0)  # of the others, on the other side
    is_low = (rest * (means < means[i])).sum(axis=0) <= most
    is_high = (rest * (means > means[i])).sum(axis=0) <= most
    return np.where(is_low, "low", np.where(is_high, "high", "medium"))


def _are_sure(differences: Float, errors: Float | None) -> NDArray[np.bool_]:
    """Which differences exceed their errors; so do those whose errors are not known."""
    if errors is None:
        return np.ones(np.shape(differences), dtype=bool)
    return np.asarray(~(np.abs(differences) < _SURE * errors))


# -- words ------------------------------------------------------------------------------------


def _mean_words(
    means: Float, i: int, others: float, column: Column, word: str
) -> tuple[str, float, float]:
    """A mean among the others in words, and both in the units of the data."""
    rest = np.delete(means, i)
    ends = np.array([means[i], others, np.nanmin(rest), np.nanmax(rest)])
    value, other, least, most = (float(x) for x in restored(ends, column.transform))
    if word == "medium":
        own, low, high = numbers_apart(value, least, most)
        return f"medium ({own}, others {low} to {high})", value, other
    own, against = numbers_apart(value, other)
    return f"{word} ({own} against {against})", value, other


def _level_words(
    column: Column, name: str, level: Level, value: float, others: float
) -> tuple[str, str]:
    """A level that is common or rare, in words: with the numbers, and short."""
    numbers = f"({percent(value)} against {percent(others)})"
    more, short_name = value > others, cut(name, _LETTERS)
    if column.model.second_level_only and all(isinstance(x, int) for x in column.levels):
        word = ("mostly" if value > 0.5 else "often") if more else "rarely"
        return f"{name} {word} {numbers}", short_name if more else f"no {short_name}"
    label = printable(str(level))
    word = ("mostly" if value > 0.5 else "often") if more else "rarely"
    short = f"{short_name}: {'' if more else 'not '}{cut(label, _LETTERS)}"
    return f"{name} {word} “{label}” {numbers}", short
