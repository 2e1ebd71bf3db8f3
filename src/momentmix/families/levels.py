"""Levels: yes/no columns and columns of categories.

| symbol | name here | shape |
|---|---|---|
| probability of level k, where the cell is seen | ``level_table``, ``p`` | (r, K) |
| probability that the cell is seen | ``seen`` | (r,) |
| y: indicators of all levels but the first, E y_j = p_j | | (…, K − 1) |
| log p(y) = log p_0 + Σ_j y_j log(p_j / p_0) | `_Levels.coefficients` | |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.block import Block, ColumnBlock
from momentmix.families.column import Column, Level, plain_level
from momentmix.families.family import (
    LEAST_PROBABILITY,
    PSEUDO_ROWS,
    Family,
    Overall,
    Prior,
    Quantities,
    Quantity,
    clipped,
)
from momentmix.wording import short_repr

_ROUNDED = 1e-9  # sums of probabilities that were rounded to nine digits are taken for 1


class LevelsBlock(ColumnBlock):
    """A column of levels."""

    probabilities: Float
    levels: tuple[Level, ...]

    @property
    @abstractmethod
    def level_table(self) -> Float:
        """Probability of each level where the cell is seen, of shape (n_components, n_levels)."""

    @property
    def by_level(self) -> dict[Level, Float]:
        table = np.where(self.is_never_seen, np.nan, self.level_table)
        return dict(zip(self.levels, table.T, strict=True))

    @property
    def value(self) -> tuple[Float, Float]:
        """Means and variances of the indicators of all levels but the first."""
        p = self.level_table[:, 1:]
        return p, p * (1 - p)

    def _keep_levels(self, probabilities: Float) -> None:
        name = self.names if isinstance(self.names, str | None) else self.names[0]
        levels = tuple(map(plain_level, self.levels))
        Column(name, self.family, levels)  # which raises for other ones
        self._keep_checked(probabilities=probabilities, levels=levels)


@short_repr
@dataclass(frozen=True, eq=False)
class BernoulliBlock(LevelsBlock):
    """A yes/no column.

    Parameters
    ----------
    probabilities : array of shape (n_components,)
        Of the second level, where the cell is seen.
    levels : tuple of two str, int or bool
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> block = BernoulliBlock([0.25, 0.5], ("no", "yes"), names="smokes")
    >>> block.by_level["no"].tolist()
    [0.75, 0.5]
    """

    probabilities: Float
    levels: tuple[Level, ...] = (0, 1)
    family: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        array = real_array("probabilities", self.probabilities, 1)
        if (array < 0).any() or (array > 1).any():
            raise InputError(f"probabilities must be from 0 to 1; got {array.tolist()}.")
        self._keep_levels(array)

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
        Where the cell is seen; rows have sum 1.
    levels : tuple of str, int or bool
    columns, names, seen
        As in `ColumnBlock`; by keyword.

    Examples
    --------
    >>> block = CategoricalBlock([[0.5, 0.25, 0.25]], ("basic", "gold", "silver"), names="plan")
    >>> block.by_level["gold"].tolist()
    [0.25]
    """

    probabilities: Float
    levels: tuple[Level, ...]
    family: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        array = real_array("probabilities", self.probabilities, 2)
        if array.shape[1] != len(self.levels):
            raise InputError(
                f"probabilities must have a column for each of the {len(self.levels)} levels; got "
                f"the shape {array.shape}."
            )
        if (array < 0).any() or (np.abs(array.sum(axis=1) - 1) > _ROUNDED).any():
            raise InputError(
                "probabilities of the levels must be non-negative, with sum 1 in each component; "
                f"the least is {array.min():.4g}, the sums are {array.sum(axis=1).tolist()}."
            )
        self._keep_levels(array)

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
        return self.means[:, None]


# -- families -----------------------------------------------------------------------------------


class _Levels(Family):
    """A column of levels."""

    least = 0.0  # of indicators
    compiled = 0
    parameters: ClassVar[Mapping[str, int]] = {"probabilities": 2}

    @staticmethod
    def probabilities(mean: Float) -> Float:
        """P of all levels, (…, K), of means (…, K − 1); rounding may make one negative."""
        return np.concatenate([1.0 - mean.sum(axis=-1, keepdims=True), mean], axis=-1)

    def _allowed(self, p: Float) -> tuple[Float, Float]:
        """Mean and variance of probabilities in proportion to p, none of them 0."""
        p = clipped(p, LEAST_PROBABILITY)
        mean = (p / p.sum(axis=-1, keepdims=True))[..., 1:]
        return mean, mean * (1 - mean)

    def completed(self, mean: Float, variance: Float) -> tuple[Float, Float]:
        return self._allowed(self.probabilities(mean))

    def coefficients(self, mean: Float, variance: Float) -> Float:
        logs = np.log(clipped(self.probabilities(mean), LEAST_PROBABILITY))
        first = logs[..., :1]
        return np.concatenate([logs[..., 1:] - first, np.zeros_like(mean), first], axis=-1)

    def m_step(
        self, n: Float, sums: Float, squares: Float, t_sums: Float, overall: Overall, prior: Prior
    ) -> tuple[Float, Float]:
        """Shares of the levels, in n rows and one like all rows together."""
        rows = np.concatenate([n - sums.sum(axis=-1, keepdims=True), sums], axis=-1)
        return self._allowed(rows + PSEUDO_ROWS * self.probabilities(overall.mean))

    def support(self, mean: Float, variance: Float, degree: int) -> tuple[Float, Float]:
        """The levels."""
        p = self.probabilities(mean)
        return np.broadcast_to(np.eye(p.shape[-1])[:, 1:], (*p.shape, p.shape[-1] - 1)), p

    def is_new(self, exponents: Int) -> NDArray[np.bool_]:
        """Only the features themselves: every function of the level is linear in them."""
        return np.asarray(exponents.sum(axis=1) <= 1)

    def sample(self, mean: Float, variance: Float, n: int, rng: np.random.Generator) -> Float:
        p = self.probabilities(mean)
        return np.eye(len(p))[rng.choice(len(p), size=n, p=p / p.sum()), 1:]

    def positive(self, mean: Float, variance: Float) -> Float:
        """Probabilities of all levels; of a single one there is nothing to know."""
        return self.probabilities(mean) if mean.shape[-1] else mean

    def with_positive(self, values: Float, mean: Float, variance: Float) -> tuple[Float, Float]:
        return self._allowed(values)

    def block(self, column: Column, mean: Float, variance: Float, seen: Float | None) -> Block:
        table = self.probabilities(mean)
        parameters = table[:, 1] if self.n_levels == 2 else table
        return self.block_of(probabilities=parameters, levels=column.levels, seen=seen)

    def quantities(self, mean: Float, variance: Float, counts: Float, zero: Any) -> Quantities:
        """Probabilities of the levels."""
        p = self.positive(mean, variance)
        one = zero.sum(axis=1)[:, None] - zero == zero.shape[1] - 1  # all others are 0
        levels = tuple(
            Quantity(p[:, k], "logit", counts, zero[:, k], one[:, k] & ~zero[:, k])
            for k in range(p.shape[1])
        )
        if self.n_levels != 2:
            return Quantities(None, None, None, levels)
        return Quantities(levels[1], Quantity(p[:, 1] * (1 - p[:, 1]), "log"))


class Bernoulli(_Levels):
    """A yes/no column."""

    name = "bernoulli"
    noun = "yes/no"
    parameters: ClassVar[Mapping[str, int]] = {"probabilities": 1}
    entries = ("probability",)
    n_levels = 2
    block_of = BernoulliBlock
    requirement = "yes/no columns of a summary of numbers must hold 0 and 1 only"


class Categorical(_Levels):
    """A column of categories."""

    name = "categorical"
    noun = "categories"
    n_levels = None
    block_of = CategoricalBlock
