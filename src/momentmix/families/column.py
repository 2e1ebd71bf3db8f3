"""`Column`: one column of a table, its family, and the features that encode it.

Some numbers are Gaussian within components only after a transform T, which is a family of its own
name (`momentmix.families.gaussian`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Array, Float
from momentmix.errors import InputError, printable
from momentmix.families.distribution import Distribution
from momentmix.families.family import FAMILIES, Family, is_family, named, unknown_family

Level = str | int  # bool is an int
CENTER_BITS = 30  # of a center: leaves room to change it exactly, and far more than it needs
SMALLEST_CENTER = 2.0**-900  # its digits are in the range of units
LOG, LOG1P = "log", "log1p"


class FeaturePart(NamedTuple):
    """A column, by name or number, and which part of it a feature is."""

    column: str | int
    level: str | None = None  # that it indicates; None: the value
    is_seen: bool = False  # whether it says that the cell is seen

    @property
    def feature_name(self) -> str:
        """Name of the feature, which no column of the table has."""
        level = "" if self.level is None else f"={self.level}"
        return f"{self.column}{level}{' seen' * self.is_seen}"

    @property
    def column_name(self) -> str:
        """The column as texts name it: by its name, escaped, or by its number."""
        return ascii(self.column)

    @property
    def words(self) -> str:
        """The part in texts: a column, a level of it, or its gaps."""
        if self.is_seen:
            return f"the gaps of {self.column_name}"
        level = "" if self.level is None else f" = {printable(self.level)}"
        return f"{self.column_name}{level}"


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str | None
    family: str = "gaussian"  # not "log", which is a gaussian column with a transform
    levels: tuple[Level, ...] = ()  # all values of a column with levels; empty for numbers
    has_missing: bool = False  # whether missing cells are modeled: there is a feature ``seen``
    center: float = 0.0  # of numbers with missing cells: it is subtracted from them
    transform: str = ""  # of the numbers of a gaussian column: "log" or "log1p"
    # Whether cells are missing at random: a fit takes the density of seen cells, and the model has
    # no probability of being seen. No part of the schema as a value.
    at_random: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not is_family(self.family) or self.model.transform:
            raise InputError(unknown_family(self.family, f"column {self.name!a}"))
        check_sizes_of(self.levels, f"column {self.name!a}")
        levels, model = list(self.levels), self.model
        wanted = max(2, len(levels)) if model.n_levels is None else model.n_levels
        if len(levels) != wanted or len(set(levels)) != wanted:
            raise self._wrong(
                f"a {self.family} column must have {wanted or 'no'} different levels", levels
            )
        if not (all(map(is_text, levels)) or all(map(is_whole, levels))):
            raise self._wrong("levels must be all strings, or all integers or bools", levels)
        if not isfinite(self.center) or (self.center and not (model.joins and self.has_missing)):
            raise self._wrong("only gaussian columns with missing cells have a center", self.center)
        is_known = is_family(self.transform) and named(self.transform).transform
        if self.transform and not (model.joins and is_known):
            transforms = [repr(name) for name, family in FAMILIES.items() if family.transform]
            raise InputError(
                f"a transform must be {' or '.join(transforms)}, of a gaussian column; "
                f"{self.name!a}, {self.family}, has {self.transform!a}."
            )

    def _wrong(self, expected: str, given: object) -> InputError:
        return InputError(f"{expected}; {self.name!a} has {given!a}.")

    @classmethod
    def of(cls, name: str | None, family: str) -> Column:
        """A column without levels of a family as `families` names it: also "log"."""
        transform = named(family).transform
        return cls(name, transform=transform) if transform else cls(name, family)

    @property
    def model(self) -> Family:
        """The family: all that depends on it."""
        return named(self.family)

    @property
    def family_name(self) -> str:
        """The family as `families` names it: "log" for a gaussian column with this transform."""
        return self.transform or self.family

    @property
    def n_values(self) -> int:
        """Number of features without ``seen``."""
        return max(1, len(self.levels) - 1)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.n_values + self.has_missing

    def distribution(self, features: tuple[int, ...]) -> Distribution | None:
        """The distribution of the column's features; None where it is a plain number."""
        if self.model.joins and not self.has_missing:
            return None
        return Distribution(features, self.model, self.has_missing, self.at_random)

    @property
    def models_gaps(self) -> bool:
        """Whether components have probabilities of being seen."""
        return self.has_missing and not self.at_random

    @property
    def is_plain(self) -> bool:
        """Whether the feature is the number itself, without bounds."""
        return self.model.joins and not self.has_missing and not self.transform

    def transformed(self, values: Any) -> Float:
        """Numbers of the column before its center is subtracted."""
        return transformed(values, self.transform)

    def value_name(self, name: str) -> str:
        """Name of the numbers whose means and spreads a column has: ``log income``."""
        return f"{self.transform} {name}" if self.transform else name

    def feature_parts(self, number: int) -> list[FeaturePart]:
        """The part of the column that each feature is; `number` replaces a missing name."""
        key = number if self.name is None else self.name
        is_labeled = bool(self.levels) and self.levels != (0, 1)
        parts = [FeaturePart(key, str(level)) for level in self.levels[1:] if is_labeled]
        parts = parts or [FeaturePart(key)]
        return parts + [FeaturePart(key, is_seen=True)] * self.has_missing


def short_mean(values: Array) -> float:
    """The mean, rounded to a power of two of about the standard deviation, with few digits.

    >>> short_mean(np.array([36.0, 41.5, 60.0]))
    48.0
    """
    size = float(np.abs(values).max())
    if not np.isfinite(size) or not size:
        return 0.0
    unit = 2.0 ** (np.frexp(size)[1] - 1)  # no square may leave the range of float64
    scaled = values.astype(np.float64) / unit
    mean, deviation = float(scaled.mean()), float(scaled.std())
    finest = int(np.frexp(mean)[1]) - CENTER_BITS
    step = 2.0 ** max(int(np.frexp(deviation)[1]) - 1 if deviation else finest, finest)
    center = float(round(mean / step) * step * unit)
    return center if abs(center) >= SMALLEST_CENTER else 0.0


def is_text(level: object) -> bool:
    """Whether a level is text."""
    return isinstance(level, str)


def is_whole(level: object) -> bool:
    """Whether a level is an integer or a bool, as JSON has them."""
    return type(level) in (int, bool)


def check_sizes_of(levels: Sequence[object], label: str) -> None:
    """Raise where an integer is too large for the float64 numbers that cells are."""
    whole = [level for level in levels if is_whole(level)]
    float64_of(np.array(whole, dtype=object), f"the list of levels of {label}")


def float64_of(numbers: Array, what: str) -> Float:
    """Objects that are numbers as float64; `what` has them, in the error where one is too large."""
    try:
        return numbers.astype(np.float64)
    except OverflowError:
        raise InputError(
            f"numbers must stay below 2^1000 ≈ 1.07e301 in size; {what} has an integer that is "
            "larger than all float64 numbers. Write names as text, or set the cell to missing."
        ) from None


def plain_level(level: Any) -> Any:
    """NumPy scalars and whole floats as Python's integers, bools and strings."""
    level = level.item() if isinstance(level, np.generic) else level
    if isinstance(level, float) and level.is_integer():
        return int(level)
    return str(level) if isinstance(level, str) else level


# -- transforms ------------------------------------------------------------------------------------


def transformed(values: Any, transform: str) -> Float:
    """T(y); −inf or NaN for numbers that are not in the range.

    >>> transformed([1.0, 0.0], "log").tolist(), transformed([0.0], "log1p").tolist()
    ([0.0, -inf], [0.0])
    """
    # Contiguous doubles: processors have other code for others, whose last bits may differ.
    numbers = np.ascontiguousarray(values, dtype=np.float64)
    if not transform:
        return numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        return named(transform).forward(numbers)


def restored(values: Float, transform: str) -> Float:
    """The numbers y of T(y); infinity beyond the range of doubles."""
    if not transform:
        return values
    with np.errstate(over="ignore"):
        return named(transform).inverse(values)


def by_column(values: Float, transforms: Sequence[str], change: Callable[..., Float]) -> Float:
    """`transformed` or `restored` of a table, whose columns have a transform each, or none."""
    if not any(transforms):
        return values
    columns = [change(x, t) for x, t in zip(values.T, transforms, strict=True)]
    return np.stack(columns, axis=1)
