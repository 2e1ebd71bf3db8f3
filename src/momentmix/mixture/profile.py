"""`Profile`: the components of a mixture in words, and names for them.

A name is made of the trait that tells the component best from all others (`momentmix.mixture.
traits`), and of further ones where it takes them. Reports, pictures, tables and print-outs name
components by `profile_of`, from the mixture alone: the same model has the same names everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, printable
from momentmix.html.notebook import bar, chip, plain_table
from momentmix.mixture.separation import CLEAR_GAP, LEAST_GAP
from momentmix.mixture.traits import Trait, traits_of
from momentmix.wording import cut_lines, cut_middle, no_group, percent, whole_percent

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

NEVER_SEEN = "never seen"
_MOST_SAID = 3  # traits in the sentence on a component, and in its name
_MOST_ROWS = 0.5  # of a component that must have a trait in its name
_ENOUGH = 0.9  # share of rows that the only trait in a name sorts rightly
_LETTERS = 48  # of a sentence that is a name


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
        How well other rows give it again, as in `Certificate`.
    low, high : float
        Ends of the 95 % interval of the share.
    nearest, nearest_name : int or None, str or None
        The component from which it is least apart.
    apart : float
        Depth of the valley between the two, from 0 to 1, as in `Certificate.separation`. Numbers
        that are unknown are NaN.
    """

    component: int
    name: str
    share: float
    traits: tuple[Trait, ...]
    reproducibility: float = nan
    low: float = nan
    high: float = nan
    nearest: int | None = None
    nearest_name: str | None = None
    apart: float = nan

    @property
    def text(self) -> str:
        """The strongest traits in words."""
        return ", ".join(trait.text for trait in self.traits[:_MOST_SAID])

    @property
    def found_again(self) -> str:
        """The reproducibility in words; empty where it is unknown, and where all rows are one."""
        if isnan(self.reproducibility) or self.share >= 1:
            return ""
        return f"found again in other rows: {whole_percent(self.reproducibility)}"

    @property
    def interval(self) -> str:
        """The interval of the share in words; empty where it is unknown, and for all rows."""
        if isnan(self.low) or self.share >= 1:
            return ""
        return f"{percent(self.low).removesuffix(' %')} to {percent(self.high)}"

    @property
    def neighbor(self) -> str:
        """How far it is from the nearest other component, in words; empty where it is unknown."""
        if self.nearest is None:
            return ""
        if self.apart >= CLEAR_GAP:
            return "clearly apart"
        return f"{'overlaps with' if self.apart >= LEAST_GAP else 'no gap to'} {self.nearest}"

    @property
    def facts(self) -> str:
        """How well it is found again, and how far from others it is."""
        return ", ".join(filter(None, (self.found_again, self.neighbor)))

    def __str__(self) -> str:
        """Its share and what is known of it; a fit says more than a mixture."""
        share = f"{percent(self.share)} of rows" + (f" ({self.interval})" if self.interval else "")
        known = ", ".join(filter(None, (share, self.facts)))
        return "; ".join(filter(None, (known, self.text)))


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
        import pandas as pd

        heads = ("component", "name", "share", "low", "high", "reproducibility", "nearest", "apart")
        keys = ("column", "what", "level", "value", "others", "sorted_rightly", "true", "sentence")
        rows = [
            [getattr(c, key) for key in heads] + [getattr(trait, key) for key in keys]
            for c in self
            for trait in c.traits
        ]
        return pd.DataFrame(rows, columns=[*heads, *keys])

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
            [chip(c.component), c.name, bar(c.share, c.component), c.interval, c.facts, c.text]
            for c in self
        ]
        rows += [["", line, "", "", "", ""] for line in self._no_group]
        return plain_table(["", "component", "share", "", "", "what is different"], rows)


def profile_of(
    mixture: Mixture,
    names: Sequence[str] | None = None,
    n_rows: float | None = None,
    reproducibility: Float | None = None,
    weights: tuple[Float, Float] | None = None,
    separation: Float | None = None,
) -> Profile:
    """The components of a mixture in words, with names made of their traits by default.

    `weights` are the ends of the intervals of the weights. Differences that chance explains, in
    the `n_rows` that made the mixture, are left out, unless the name is made of them: names do not
    depend on rows.
    """
    traits = traits_of(mixture)
    made, in_names = _names_of(traits)
    given = made if names is None else _checked(names, mixture.n_components)
    components = []
    for i, (name, share) in enumerate(zip(given, mixture.weights.tolist(), strict=True)):
        is_kept = [
            n_rows is None or trait.short in in_names[i] or trait.is_sure(n_rows, share)
            for trait in traits[i]
        ]
        facts: dict[str, Any] = {}
        if reproducibility is not None:
            facts["reproducibility"] = float(reproducibility[i])
        if weights is not None:
            facts["low"], facts["high"] = (float(ends[i]) for ends in weights)
        if separation is not None and not np.isnan(separation[i]).all():
            k = int(np.nanargmin(separation[i]))
            facts |= {"nearest": k, "nearest_name": given[k], "apart": float(separation[i, k])}
        components.append(
            ComponentProfile(i, name, share, tuple(compress(traits[i], is_kept)), **facts)
        )
    profile = Profile(components)
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


def _names_of(traits: Sequence[Sequence[Trait]]) -> tuple[list[str], list[list[str]]]:
    """Short names of the components, all different, and the traits that they are made of.

    As few traits as tell them apart, of those that most rows of the component have; further ones
    are those that the others have least.
    """
    if len(traits) == 1:
        return ["all rows"], [[]]
    shorts, chosen = [], []
    for row in traits:
        row = [trait for trait in row if trait.true >= _MOST_ROWS] or row[:1]
        shorts.append([trait.short for trait in row])
        is_enough = not row or row[0].sorted_rightly >= _ENOUGH
        chosen.append(shorts[-1][: 1 if is_enough else 2])
    for _ in range(1, _MOST_SAID):
        before = [set(words) for words in chosen]
        for i, words in enumerate(chosen):
            alike = [k for k in range(len(traits)) if k != i and before[k] == before[i]]
            left = [short for short in shorts[i] if short not in words]
            if alike and left and len(words) < _MOST_SAID:
                words.append(min(left, key=lambda short: sum(short in shorts[k] for k in alike)))
    names: list[str] = []
    for row, words in zip(traits, chosen, strict=True):
        name = ", ".join(words) or "typical"
        if name in names and row:
            name = cut_middle(row[0].sentence, _LETTERS)
        numbered = (f"{name} ({number})" for number in range(2, len(traits) + 2))
        names.append(next(found for found in (name, *numbered) if found not in names))
    return names, chosen
