"""`Profile`: all components of a mixture in words, and names for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from momentmix.errors import InputError, printable
from momentmix.html.notebook import bar, chip, plain_table
from momentmix.mixture.parameter_table import ColumnValues, need_pandas
from momentmix.mixture.profiles.traits import Trait, Traits
from momentmix.wording import cut_lines, percent

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

_MOST_SAID = 3  # traits in the sentence on a component
_IN_NAME = 2  # traits in its name


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
    """

    component: int
    name: str
    share: float
    traits: tuple[Trait, ...]

    @property
    def text(self) -> str:
        """The strongest traits in words."""
        return ", ".join(trait.text for trait in self.traits[:_MOST_SAID])

    def __str__(self) -> str:
        return f"{percent(self.share)} of rows" + (f"; {self.text}" if self.text else "")


class Profile(tuple[ComponentProfile, ...]):
    """All components of a mixture in words; a sequence of `ComponentProfile`."""

    @property
    def names(self) -> list[str]:
        """Names of the components."""
        return [component.name for component in self]

    def to_frame(self) -> Any:
        """The traits as a pandas frame: component, name, share, column, what, level, …."""
        pd = need_pandas()
        keys = ("column", "what", "level", "value", "others", "strength")
        rows = [
            (c.component, c.name, c.share, *(getattr(trait, key) for key in keys))
            for c in self
            for trait in c.traits
        ]
        return pd.DataFrame(rows, columns=["component", "name", "share", *keys])

    def __str__(self) -> str:
        width = len(str(len(self) - 1))
        return "\n".join(f"{c.component:>{width}}  {c.name}: {c}" for c in self)

    def __repr__(self) -> str:
        return cut_lines(str(self))

    def _repr_html_(self) -> str:
        rows = [(chip(c.component), c.name, bar(c.share, c.component), c.text) for c in self]
        return plain_table(["", "component", "share", "what is different"], rows)


def profile_of(
    mixture: Mixture,
    names: Sequence[str] | None = None,
    errors: ColumnValues | None = None,
) -> Profile:
    """The components of a mixture in words, with names made of their traits by default.

    Differences of less than two standard errors are left out. Names do not depend on errors, so
    that a component has the same one where they are not known.
    """
    traits = Traits(mixture, errors).by_component()
    if names is None:
        own = traits if errors is None else Traits(mixture).by_component()
        given = _names_of(own)
    else:
        given = _checked(names, mixture.n_components)
    parts = zip(given, mixture.weights.tolist(), traits, strict=True)
    return Profile(ComponentProfile(i, *part) for i, part in enumerate(parts))


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


# -- names ------------------------------------------------------------------------------------


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
