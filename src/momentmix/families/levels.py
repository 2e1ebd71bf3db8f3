"""Levels: yes/no columns and columns of categories.

| symbol | name here | shape |
|---|---|---|
| probability of level k, where the cell is seen | ``level_table`` | (r, K) |
| probability that the cell is seen | ``seen`` | (r,) |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock, with_unknown
from momentmix.families.column import Column, Level, plain_level
from momentmix.families.family import Estimate, Family, Quantities, Quantity
from momentmix.families.finite import LEAST_PROBABILITY, Finite
from momentmix.families.law import Law
from momentmix.wording import option, short_repr

_ROUNDED = 1e-9  # sums of probabilities that were rounded to nine digits are taken for 1
_BINARY = 1e-9  # difference of a variance from p (1 − p) that rounding explains


class LevelsBlock(ColumnBlock):
    """A column of levels."""

    levels: tuple[Level, ...]

    @property
    @abstractmethod
    def level_table(self) -> Float:
        """Probability of each level where the cell is seen, of shape (n_components, n_levels)."""

    def probability(self, level: Level) -> Float:
        """Probability of one level in each component, of shape (n_components,)."""
        level = plain_level(level)
        if level not in self.levels:
            listed = ", ".join(map(ascii, self.levels[:8]))
            raise InputError(f"there is no level {level!a}; the levels are {listed}.")
        return np.asarray(self.level_table[:, self.levels.index(level)])

    @property
    def by_level(self) -> dict[Level, Float]:
        return dict(zip(self.levels, self.level_table.T, strict=True))

    def features(self, column: Column) -> tuple[Float, Float]:
        table = self.known.level_table
        law = Finite.indicators(tuple(range(column.n_features)), column.has_missing)
        if column.has_missing:
            seen = np.ones(len(table)) if self.seen is None else self.seen
            table = np.hstack([1 - seen[:, None], seen[:, None] * table])
        return law.with_positive(table, table, table)


def _checked_levels(block: LevelsBlock) -> tuple[Level, ...]:
    name = block.names if isinstance(block.names, str | None) else block.names[0]
    return Column(name, block.family, tuple(map(plain_level, block.levels))).levels


@short_repr
@dataclass(frozen=True, eq=False)
class BernoulliBlock(LevelsBlock):
    """A yes/no column.

    Parameters
    ----------
    probabilities : array of shape (n_components,)
        Of the second level, where the cell is seen; NaN in a component that never sees one.
    levels : tuple of two str, int or bool
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> block = BernoulliBlock([0.25, 0.5], ("no", "yes"), names="smokes")
    >>> block.probability("no").tolist()
    [0.75, 0.5]
    """

    probabilities: Float
    levels: tuple[Level, ...] = (0, 1)
    family: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        array = real_array("probabilities", self.probabilities, 1, allow_nan=True)
        if (array < 0).any() or (array > 1).any():
            raise InputError(f"probabilities must be from 0 to 1; got {array.tolist()}.")
        self._keep(array, levels=_checked_levels(self))

    @property
    def level_table(self) -> Float:
        return np.stack([1 - self.probabilities, self.probabilities], axis=1)

    @property
    def means(self) -> Float:
        """Probability of the second level, of shape (n_components, 1)."""
        return self.probabilities[:, None]

    @property
    def covariances(self) -> Float:
        """p (1 − p), of shape (n_components, 1, 1)."""
        return (self.probabilities * (1 - self.probabilities))[:, None, None]


@short_repr
@dataclass(frozen=True, eq=False)
class CategoricalBlock(LevelsBlock):
    """A column of categories.

    Parameters
    ----------
    probabilities : array of shape (n_components, n_levels)
        Where the cell is seen; rows have sum 1, or are NaN in a component that never sees one.
    levels : tuple of str, int or bool
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> block = CategoricalBlock([[0.5, 0.25, 0.25]], ("basic", "gold", "silver"), names="plan")
    >>> block.probability("gold").tolist()
    [0.25]
    """

    probabilities: Float
    levels: tuple[Level, ...]
    family: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        array = real_array("probabilities", self.probabilities, 2, allow_nan=True)
        levels = _checked_levels(self)
        if array.shape[1] != len(levels):
            raise InputError(
                f"probabilities must have a column for each of the {len(levels)} levels; got the "
                f"shape {array.shape}."
            )
        if (array < 0).any() or (np.abs(array.sum(axis=1) - 1) > _ROUNDED).any():
            raise InputError(
                "probabilities of the levels must be non-negative, with sum 1 in each component; "
                f"the least is {np.nanmin(array):.4g}, the sums are {array.sum(axis=1).tolist()}."
            )
        self._keep(array, levels=levels)

    @property
    def level_table(self) -> Float:
        return self.probabilities

    @property
    def means(self) -> Float:
        """NaN: levels have no mean."""
        return np.full((self.n_components, 1), np.nan)

    @property
    def covariances(self) -> Float:
        """NaN: levels have no variance."""
        return np.full((self.n_components, 1, 1), np.nan)


# -- families -----------------------------------------------------------------------------------


class _Levels(Family):
    """A column of levels."""

    @property
    def least(self) -> float:
        """Least value of indicators."""
        return 0.0

    def value_law(self, feature: int) -> Law:
        return Finite.indicators((feature,))

    def law(self, column: Column, features: tuple[int, ...]) -> Law | None:
        """The levels, a missing cell as one more outcome."""
        return Finite.indicators(features, column.has_missing, column.at_random)

    def block_of(self, column: Column, law: Law, means: Float, variances: Float) -> Block:
        """Probabilities of levels where the cell is seen."""
        assert isinstance(law, Finite)
        table, seen = np.maximum(law.probabilities(means), LEAST_PROBABILITY), None
        table /= table.sum(axis=1, keepdims=True)
        if column.has_missing:
            seen = table[:, 1:].sum(axis=1)
            table = table[:, 1:] / seen[:, None]
        seen = seen if column.models_gaps else None
        table = with_unknown(table, seen)
        own = table[:, 1] if self.n_levels == 2 else table
        block: Block = self.block_type(probabilities=own, levels=column.levels, seen=seen)
        return block

    def quantities(self, column: Column, e: Estimate) -> Quantities:
        """Probabilities of levels given that the cell is seen."""
        p, slopes = e.law.positive(e.means, e.variances)
        zero, counts, seen = e.at_zero, e.counts, None
        if column.has_missing:  # the first outcome
            q = 1.0 - p[:, :1]
            by_q = -slopes[:, :1]
            never = np.asarray(zero[:, 1:].all(axis=1))
            seen = Quantity(q[:, 0], by_q[:, 0], "logit", counts, never, zero[:, 0])
            slopes = slopes[:, 1:] / q[..., None] - (p[:, 1:] / q**2)[..., None] * by_q
            p, zero, counts = p[:, 1:] / q, zero[:, 1:], counts * q[:, 0]
        seen = seen if column.models_gaps else None
        n_others = zero.sum(axis=1)[:, None] - zero
        one = n_others == zero.shape[1] - 1
        levels = tuple(
            Quantity(p[:, k], slopes[:, k], "logit", counts, zero[:, k], one[:, k] & ~zero[:, k])
            for k in range(p.shape[1])
        )
        if self.n_levels != 2:
            return Quantities(None, None, seen, levels)
        yes = levels[1]
        by_yes = (1 - 2 * yes.values)[:, None] * yes.slopes
        return Quantities(yes, Quantity(yes.values * (1 - yes.values), by_yes, "log"), seen)


class Bernoulli(_Levels):
    """A yes/no column."""

    name = "bernoulli"
    noun = "yes/no"
    block_type = BernoulliBlock
    parameters: ClassVar[Mapping[str, int]] = {"probabilities": 1}
    entries = ("probability",)
    n_levels = 2

    def column_of_numbers(
        self, column: Column, label: str, ends: Float, mean: float, variance: float
    ) -> Column:
        """Zeros and ones, whose variance is a function of the mean."""
        is_binary = abs(variance - mean * (1 - mean)) < _BINARY
        if not (ends[0] == 0.0 and ends[1] == 1.0 and is_binary):
            raise InputError(
                f"a bernoulli column of a summary must hold 0 and 1 only; {label} lies between "
                f"{ends[0]:.6g} and {ends[1]:.6g}, with other values. Summarize the rows with "
                f"{option(families=...)}."
            )
        return Column(column.name, self.name, (0, 1))


class Categorical(_Levels):
    """A column of categories."""

    name = "categorical"
    noun = "categories"
    block_type = CategoricalBlock
    parameters: ClassVar[Mapping[str, int]] = {"probabilities": 2}
    n_levels = None

    def column_of_numbers(
        self, column: Column, label: str, ends: Float, mean: float, variance: float
    ) -> Column:
        """None: moments of numbers do not tell levels apart."""
        raise InputError(
            f"a summary of numbers holds no levels; {label} cannot be {self.name!r}. "
            f"Summarize the rows again with {option(families=...)}."
        )
