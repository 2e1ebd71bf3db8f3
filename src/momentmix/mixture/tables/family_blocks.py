"""Columns of a mixture that are not Gaussian, as values: yes/no answers, categories, counts.

| symbol | name here | shape |
|---|---|---|
| probability of level k, where the cell is seen | ``level_table`` | (r, K) |
| mean count, where the cell is seen | ``rates`` | (r,) |
| probability that the cell is seen | ``seen`` | (r,) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.mixture.checks import real_array
from momentmix.mixture.laws.finite import Finite
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen
from momentmix.mixture.tables.seen_values import (
    checked_seen,
    checked_unknown,
    completed,
    seen_features,
)
from momentmix.tables.column import BERNOULLI, CATEGORICAL, POISSON, Column, Level, plain_level
from momentmix.tables.names import check_feature_names
from momentmix.wording import short_repr

LARGEST_RATE = 2.0**53  # float64 holds all counts up to it
_ROUNDED = 1e-9  # sums of probabilities that were rounded to nine digits are taken for 1


@dataclass(frozen=True, eq=False, kw_only=True)
class FamilyBlock(ABC):
    """One column that is not Gaussian; given the component, it is independent of all others.

    Attributes
    ----------
    columns : tuple of one int
        Number of the column; empty before the block is part of a mixture.
    names : tuple of one str, or None
    seen : array of shape (n_components,), or None
        Probability that the cell is seen; None where no cell is missing.
    """

    columns: tuple[int, ...] = ()
    names: tuple[str, ...] | None = None
    seen: Float | None = None
    family: ClassVar[str]
    parameter: ClassVar[str]  # name of what each component has of its own

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(getattr(self, self.parameter))

    @property
    @abstractmethod
    def means(self) -> Float:
        """Mean of the column within components, of shape (n_components, 1)."""

    @property
    @abstractmethod
    def covariances(self) -> Float:
        """Variance of the column within components, of shape (n_components, 1, 1)."""

    @property
    def known(self) -> Self:
        """The block without NaN: what the other components know, where one never sees a cell."""
        values = getattr(self, self.parameter)
        if not np.isnan(values).any():
            return self
        twin = copy(self)
        object.__setattr__(twin, self.parameter, completed(values, self.seen))
        return twin

    @property
    @abstractmethod
    def column(self) -> Column:
        """The column in a schema."""

    @abstractmethod
    def features(self, column: Column) -> tuple[Float, Float]:
        """Means and variances of the column's features, (r, k) each."""

    @abstractmethod
    def expected(self, shares: Float) -> Float:
        """Features of the most probable level, or the mean, for shares (n, r) of components."""

    @abstractmethod
    def drawn(self, labels: Int, rng: np.random.Generator) -> Float:
        """Features of values drawn from components (n,)."""

    def chosen(self, components: Any) -> Self:
        """The block of some of the components, in the order given."""
        own = {self.parameter: getattr(self, self.parameter)[components]}
        return replace(self, seen=None if self.seen is None else self.seen[components], **own)

    def at(self, columns: tuple[int, ...], names: tuple[str, ...] | None) -> Self:
        """The same block with other numbers and names of its column."""
        return replace(self, columns=columns, names=names)

    def _keep(self, array: Float, **others: Any) -> None:
        """Keep checked parameters, and check what all families have."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        columns = tuple(int(j) for j in self.columns)
        if len(columns) > 1:
            raise InputError(f"a {self.family} block has one column; got {len(columns)}.")
        seen = checked_seen(self.seen, len(array))
        values = {
            self.parameter: checked_unknown(array, seen, self.parameter),
            "names": None if names is None else check_feature_names(names, 1),
            "columns": columns,
            "seen": seen,
        }
        for name, value in {**values, **others}.items():
            object.__setattr__(self, name, value)


# -- levels -----------------------------------------------------------------------------------


class LevelsBlock(FamilyBlock):
    """A column of levels."""

    levels: tuple[Level, ...]
    parameter: ClassVar[str] = "probabilities"

    @property
    @abstractmethod
    def level_table(self) -> Float:
        """Probability of each level where the cell is seen, of shape (n_components, n_levels)."""

    @property
    def column(self) -> Column:
        """The column in a schema."""
        name = None if self.names is None else self.names[0]
        return Column(name, self.family, self.levels, self.seen is not None)

    def probability(self, level: Level) -> Float:
        """Probability of one level in each component, of shape (n_components,)."""
        level = plain_level(level)
        if level not in self.levels:
            listed = ", ".join(map(ascii, self.levels[:8]))
            raise InputError(f"there is no level {level!a}; the levels are {listed}.")
        return np.asarray(self.level_table[:, self.levels.index(level)])

    @property
    def by_level(self) -> dict[Level, Float]:
        """Probabilities (n_components,) by level."""
        return {level: self.probability(level) for level in self.levels}

    def features(self, column: Column) -> tuple[Float, Float]:
        """Means and variances of the indicators."""
        table = self.known.level_table
        law = Finite.indicators(tuple(range(column.n_features)), int(column.has_missing))
        if column.has_missing:
            seen = np.ones(len(table)) if self.seen is None else self.seen
            table = np.hstack([1 - seen[:, None], seen[:, None] * table])
        return law.with_positive(table, table, table)

    def expected(self, shares: Float) -> Float:
        """Indicators of the most probable level."""
        return self._indicators((shares @ self.known.level_table).argmax(axis=1))

    def drawn(self, labels: Int, rng: np.random.Generator) -> Float:
        """Indicators of levels drawn."""
        ends = np.cumsum(self.known.level_table, axis=1)[labels]
        ends /= ends[:, -1:]
        codes = (rng.random((len(labels), 1)) >= ends).sum(axis=1)
        return self._indicators(np.minimum(codes, len(self.levels) - 1))

    def _indicators(self, codes: Int) -> Float:
        return np.asarray((codes[:, None] == np.arange(1, len(self.levels))).astype(np.float64))


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
        As in `FamilyBlock`; by keyword.

    Examples
    --------
    >>> block = BernoulliBlock([0.25, 0.5], ("no", "yes"), names="smokes")
    >>> block.probability("no").tolist()
    [0.75, 0.5]
    """

    probabilities: Float
    levels: tuple[Level, ...] = (0, 1)
    family: ClassVar[str] = BERNOULLI

    def __post_init__(self) -> None:
        array = real_array("probabilities", self.probabilities, 1, allow_nan=True)
        if (array < 0).any() or (array > 1).any():
            raise InputError(f"probabilities must be from 0 to 1; got {array.tolist()}.")
        self._keep(array, levels=_checked_levels(self))

    @property
    def level_table(self) -> Float:
        """Probability of both levels, of shape (n_components, 2)."""
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
        As in `FamilyBlock`; by keyword.

    Examples
    --------
    >>> block = CategoricalBlock([[0.5, 0.25, 0.25]], ("basic", "gold", "silver"), names="plan")
    >>> block.probability("gold").tolist()
    [0.25]
    """

    probabilities: Float
    levels: tuple[Level, ...]
    family: ClassVar[str] = CATEGORICAL

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
        """The probabilities."""
        return self.probabilities

    @property
    def means(self) -> Float:
        """NaN: levels have no mean."""
        return np.full((self.n_components, 1), np.nan)

    @property
    def covariances(self) -> Float:
        """NaN: levels have no variance."""
        return np.full((self.n_components, 1, 1), np.nan)


# -- counts -----------------------------------------------------------------------------------


@short_repr
@dataclass(frozen=True, eq=False)
class PoissonBlock(FamilyBlock):
    """A column of counts.

    Parameters
    ----------
    rates : array of shape (n_components,)
        Mean counts where the cell is seen; NaN in a component that never sees one.
    columns, names, seen
        As in `FamilyBlock`; by keyword.

    Examples
    --------
    >>> PoissonBlock([1.5, 4.0], names="visits").means.tolist()
    [[1.5], [4.0]]
    """

    rates: Float
    family: ClassVar[str] = POISSON
    parameter: ClassVar[str] = "rates"

    def __post_init__(self) -> None:
        array = real_array("rates", self.rates, 1, allow_nan=True)
        if (array < 0).any() or (array > LARGEST_RATE).any():
            raise InputError(f"rates of counts must be from 0 to 2^53; got {array.tolist()}.")
        self._keep(array)

    @property
    def means(self) -> Float:
        """The rates, of shape (n_components, 1)."""
        return self.rates[:, None]

    @property
    def covariances(self) -> Float:
        """The rates, of shape (n_components, 1, 1)."""
        return self.rates[:, None, None]

    @property
    def column(self) -> Column:
        """The column in a schema."""
        name = None if self.names is None else self.names[0]
        return Column(name, POISSON, has_missing=self.seen is not None)

    def features(self, column: Column) -> tuple[Float, Float]:
        """Means and variances of the features."""
        rates = self.known.rates[:, None]
        if not column.has_missing:
            return Poisson((0,)).completed(rates, rates)
        return seen_features(
            Seen.poisson((0, 1)), self.seen, *Poisson((0,)).completed(rates, rates)
        )

    def expected(self, shares: Float) -> Float:
        """The mean count."""
        return np.asarray(shares @ self.known.rates)[:, None]

    def drawn(self, labels: Int, rng: np.random.Generator) -> Float:
        """Counts drawn."""
        return rng.poisson(self.known.rates[labels]).astype(np.float64)[:, None]
