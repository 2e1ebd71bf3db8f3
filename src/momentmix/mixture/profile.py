"""`Profile`: the components of a mixture in words, and names for them.

Each component is compared with all others together, column by column:

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, log, nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, printable
from momentmix.families.column import Column, Level, restored
from momentmix.html.notebook import bar, chip, plain_table
from momentmix.mixture.parameter_table import (
    ColumnValues,
    Parameter,
    ParameterTable,
    need_pandas,
    numeric_columns,
    overall_spread,
)
from momentmix.mixture.tables.block_features import column_seen
from momentmix.wording import (
    cut,
    cut_lines,
    no_group,
    numbers_apart,
    percent,
    short_number,
    whole_percent,
)

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
NEVER_SEEN = "never seen"
_MOST_SAID = 3  # traits in the sentence on a component
_IN_NAME = 2  # traits in its name


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
    words, numbers : str
        Without the name of the column: ``low``, and ``20 against 90``.
    short : str
        In two or three words, for names.
    """

    column: str
    what: What
    value: float
    others: float
    strength: float
    level: Level | None
    words: str
    numbers: str
    short: str

    @property
    def text(self) -> str:
        """In words, with the numbers."""
        return f"{self.column} {self.words} ({self.numbers})"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ComponentProfile:
    """A component in words.

    Attributes
    ----------
    component : int
        Its number, as `Mixture.predict` gives it.
    name : str
    share : float
        Its weight.
    traits : tuple of Trait
        What makes it different, the strongest first, at most 20.
    reproducibility : float
        How well other rows give it again, as in `Certificate`; NaN where that is unknown.
    """

    component: int
    name: str
    share: float
    traits: tuple[Trait, ...]
    reproducibility: float = nan

    @property
    def text(self) -> str:
        """The strongest traits in words."""
        return ", ".join(trait.text for trait in self.traits[:_MOST_SAID])

    @property
    def found_again(self) -> str:
        """The reproducibility in words; empty where it is unknown, and where all rows are one.

        >>> ComponentProfile(0, "tall", 0.5, (), 0.962).found_again
        'found again in other rows: 96 %'
        """
        if isnan(self.reproducibility) or self.share >= 1:
            return ""
        return f"found again in other rows: {whole_percent(self.reproducibility)}"

    def __str__(self) -> str:
        again = f", {self.found_again}" if self.found_again else ""
        return f"{percent(self.share)} of rows{again}" + (f"; {self.text}" if self.text else "")


class Profile(tuple[ComponentProfile, ...]):
    """All components of a mixture in words; a sequence of `ComponentProfile`.

    A background is none of them; its share is a line below.
    """

    background_weight: float = 0.0

    @property
    def names(self) -> list[str]:
        """Names of the components."""
        return [component.name for component in self]

    def to_frame(self) -> Any:
        """The traits as a pandas frame: component, name, share, reproducibility, column, …."""
        pd = need_pandas()
        own = ("component", "name", "share", "reproducibility")
        keys = ("column", "what", "level", "value", "others", "strength")
        rows = [
            (*(getattr(c, key) for key in own), *(getattr(trait, key) for key in keys))
            for c in self
            for trait in c.traits
        ]
        return pd.DataFrame(rows, columns=[*own, *keys])

    def __str__(self) -> str:
        width = len(str(len(self) - 1))
        lines = [f"{c.component:>{width}}  {c.name}: {c}" for c in self]
        return "\n".join([*lines, *self._no_group])

    @property
    def _no_group(self) -> list[str]:
        return [no_group(self.background_weight)] if self.background_weight else []

    def __repr__(self) -> str:
        return cut_lines(str(self))

    def _repr_html_(self) -> str:
        rows = [
            [chip(c.component), c.name, bar(c.share, c.component), c.found_again, c.text]
            for c in self
        ]
        rows += [["", line, "", "", ""] for line in self._no_group]
        return plain_table(["", "component", "share", "", "what is different"], rows)


def profile_of(
    mixture: Mixture,
    names: Sequence[str] | None = None,
    errors: ColumnValues | None = None,
    reproducibility: Float | None = None,
) -> Profile:
    """The components of a mixture in words, with names made of their traits by default.

    Differences of less than two standard errors are left out. Names do not depend on errors, so
    that a component has the same one where they are not known.
    """
    traits = Traits(mixture, errors).by_component()
    if names is None:
        given = _names_of(traits if errors is None else Traits(mixture).by_component())
    else:
        given = _checked(names, mixture.n_components)
    again = np.full(len(given), nan) if reproducibility is None else reproducibility
    parts = zip(given, mixture.weights.tolist(), traits, again.tolist(), strict=True)
    profile = Profile(ComponentProfile(i, *part) for i, part in enumerate(parts))
    profile.background_weight = mixture.background_weight
    return profile


def _checked(names: Sequence[str], n_components: int) -> list[str]:
    """Names of components that were given; raise unless there is one of its own for each."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError("names of components must be a sequence of strings, one for each.")
    if len(names) != n_components:
        raise InputError(
            f"names of components must be {n_components}, one for each; got {len(names)}."
        )
    if len(set(names)) < len(names):
        raise InputError("names of components must differ; some are equal.")
    return [printable(name) for name in names]


def _names_of(traits: list[tuple[Trait, ...]]) -> list[str]:
    """Short names of the components, all different: as few traits as tell them apart."""
    if len(traits) == 1:
        return ["all rows"]
    shorts = [[trait.short for trait in of] for of in traits]
    names: list[str] = []
    for own in shorts:
        size = _IN_NAME
        name = ", ".join(own[:size]) or "typical"
        while name in names and size < len(own):
            size += 1
            name = ", ".join(own[:size])
        first, number = name, 2
        while name in names:
            name, number = f"{first} ({number})", number + 1
        names.append(name)
    return names


class Traits:
    """The traits of every component; differences of less than two standard errors are none."""

    def __init__(self, mixture: Mixture, errors: ColumnValues | None = None) -> None:
        self.mixture, self.table = mixture, ParameterTable(mixture, errors)
        self.names = [printable(name) for name in self.table.names]
        seen = column_seen(mixture.blocks, mixture.n_columns)
        self.shares = mixture.weights[:, None] * np.where(np.isnan(seen), 1.0, seen)  # (r, d)

    def by_component(self) -> list[tuple[Trait, ...]]:
        """The strongest traits of every component, the strongest first."""
        found: list[list[Trait]] = [[] for _ in range(self.mixture.n_components)]
        for i, trait in self._all() if len(found) > 1 else ():
            found[i].append(trait)
        ordered = [sorted(traits, key=lambda trait: -trait.strength) for traits in found]
        return [tuple(traits[:MOST_TRAITS]) for traits in ordered]

    def _all(self) -> Iterator[tuple[int, Trait]]:
        yield from self._numbers()
        for j, column in enumerate(self.mixture.columns):
            rows = self.table.of_column(j) if column.levels or column.has_missing else []
            if column.levels:
                yield from self._levels([p for p in rows if p.name == "probability"])
            for p in rows:
                if p.name == "seen":
                    yield from self._missing(p)

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
            is_trait = apart >= _LEAST * unit
            if self.table.errors is not None:
                is_trait &= _are_sure(apart, self.table.errors.means[i, columns])
            strength = np.where(is_trait & (shares[i] > 0), apart / unit, 0.0)
            for place in _strongest(strength):
                j, word = columns[place], words[place]
                value, other, numbers = _mean_words(
                    means[:, place], i, others[i, place], m.columns[j], word
                )
                short = f"{word} {cut(self.names[j], _LETTERS)}"
                size = float(strength[place])
                yield i, Trait(self.names[j], word, value, other, size, None, word, numbers, short)
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.abs(np.log(variances[i]) - np.log(within[i])) / 2
            change = np.where(np.isfinite(change), change, 0.0)
            differs = (change >= _SPREAD) & ~is_trait & (shares[i] > 0)
            for place in _strongest(np.where(differs, change, 0.0)):
                deviations = variances[i, place] ** 0.5, within[i, place] ** 0.5
                yield from self._spread(i, columns[place], *map(float, deviations))

    def _spread(self, i: int, j: int, own: float, others: float) -> Iterator[tuple[int, Trait]]:
        if "variance" not in self.mixture.columns[j].model.entries:
            return  # it follows from the mean
        name, ratio = self.names[j], log(own / others)
        texts, noun = numbers_apart(own, others), "standard deviation"
        if self.mixture.columns[j].transform:
            factors = (float(x) for x in np.exp([own, others]))
            texts, noun = numbers_apart(*factors), "by a factor of"
        words = "varies more" if ratio > 0 else "varies less"
        short = f"{'varied' if ratio > 0 else 'steady'} {cut(name, _LETTERS)}"
        numbers = f"{noun} {texts[0]} against {texts[1]}"
        yield i, Trait(name, "spread", own, others, abs(ratio) / 2, None, words, numbers, short)

    def _levels(self, rows: list[Parameter]) -> Iterator[tuple[int, Trait]]:
        """The strongest level of a column in each component."""
        j = rows[0].columns[0]
        probabilities = np.stack([p.estimate for p in rows], axis=1)  # (r, levels)
        shares = self.shares[:, [j]] * ~np.isnan(probabilities)
        others, strength = _odds(probabilities, shares)
        strength = np.where(probabilities < others, strength / _RARELY, strength)
        errors = np.stack([p.standard_error for p in rows], axis=1)
        sure = _are_sure(probabilities - others, errors)
        strength = np.where(sure & (shares > 0), np.nan_to_num(strength), 0.0)
        for i, k in enumerate(strength.argmax(axis=1)):
            if strength[i, k] >= _LEAST:
                value, other = float(probabilities[i, k]), float(others[i, k])
                words = _level_words(rows[k], self.names[j], value, other)
                size = float(strength[i, k])
                yield i, Trait(self.names[j], "level", value, other, size, rows[k].level, *words)

    def _missing(self, seen: Parameter) -> Iterator[tuple[int, Trait]]:
        missing, name = 1.0 - seen.estimate[:, None], self.names[seen.columns[0]]
        others, strength = _odds(missing, self.mixture.weights[:, None])
        sure = _are_sure(missing - others, seen.standard_error[:, None])
        for i in np.flatnonzero(sure & (strength >= _LEAST)).tolist():
            value, other, size = float(missing[i, 0]), float(others[i, 0]), float(strength[i, 0])
            more = value > other
            words = "often missing" if more else "rarely missing"
            short = f"{cut(name, _LETTERS)} {'missing' if more else 'known'}"
            numbers = f"{percent(value)} against {percent(other)}"
            yield i, Trait(name, "missing", value, other, size, None, words, numbers, short)


def typical_values(mixture: Mixture, component: int) -> Iterator[tuple[str, str]]:
    """Each column with its mean or median, its most probable level, or the probability of a yes."""
    table = ParameterTable(mixture)
    for j, (column, name) in enumerate(zip(mixture.columns, table.names, strict=True)):
        rows = [p for p in table.of_column(j) if p.name == "probability"]
        value = float(mixture.means[component, j])
        if len(rows) > 1:
            most = max(rows, key=lambda p: float(p.estimate[component]))
            value = float(most.estimate[component])
            text = f"{most.level} ({percent(value)})"
        elif rows:
            said = rows[0].level_text
            text = (f"{said}: " if said else "") + percent(value)
        else:
            text = short_number(float(restored(np.array([value]), column.transform)[0]))
            text += " (median)" if column.transform else ""
        yield name, text if value == value else NEVER_SEEN


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


def _are_sure(differences: Float, errors: Float) -> NDArray[np.bool_]:
    """Which differences exceed their errors; also those whose errors are not known."""
    return np.asarray(~(np.abs(differences) < _SURE * errors))


def _mean_words(
    means: Float, i: int, others: float, column: Column, word: str
) -> tuple[float, float, str]:
    """A mean and that of the others in the units of the data, and both in words."""
    rest = np.delete(means, i)
    ends = np.array([means[i], others, np.nanmin(rest), np.nanmax(rest)])
    value, other, least, most = (float(x) for x in restored(ends, column.transform))
    if word == "medium":
        own, low, high = numbers_apart(value, least, most)
        return value, other, f"{own}, others {low} to {high}"
    return value, other, " against ".join(numbers_apart(value, other))


def _level_words(p: Parameter, name: str, value: float, others: float) -> tuple[str, str, str]:
    """A level that is common or rare: words, numbers, and a short name."""
    more, short = value > others, cut(name, _LETTERS)
    word = ("mostly" if value > 0.5 else "often") if more else "rarely"
    numbers = f"{percent(value)} against {percent(others)}"
    if not p.level_text:
        return word, numbers, short if more else f"no {short}"
    label = printable(p.level_text)
    short = f"{short}: {'' if more else 'not '}{cut(label, _LETTERS)}"
    return f"{word} “{label}”", numbers, short
