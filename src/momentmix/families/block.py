"""Blocks: the parameters of columns within components, in the units of the columns.

| symbol | name here | shape |
|---|---|---|
| probability that the cell is seen | ``seen`` | (r,) |
| parameters of the value where it is seen, NaN where it never is | ``values`` | (r, …) |

Given the component, blocks are independent of each other. A component that never sees a column
has NaN for its values. Its densities there are the density of all other components (`known`), so
that every row has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.column import Column, Level
from momentmix.families.distribution import Distribution, Value
from momentmix.families.family import LEAST_PROBABILITY, Family, named
from momentmix.tables.names import check_feature_names

NEVER_SEEN = 1e-6  # a probability of being seen below it means never


class Block(ABC):
    """Columns that are independent of all others given the component."""

    columns: tuple[int, ...]  # numbers; empty before the block is part of a mixture
    names: tuple[str, ...] | None
    seen: Float | None  # probability that a cell is seen; None where no cell is missing

    @property
    def model(self) -> Family:
        """The family of the columns."""
        return named(self.family)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(getattr(self, self._parameter))

    @property
    def _parameter(self) -> str:
        """Name of the first parameter."""
        return next(iter(self.model.parameters))

    if TYPE_CHECKING:  # fields of some blocks, and of others properties

        @property
        def family(self) -> str:
            """Name of the family."""

        @property
        def means(self) -> Float:
            """Means of the columns within components, of shape (n_components, k)."""

        @property
        def covariances(self) -> Float:
            """Covariances of the columns within components, of shape (n_components, k, k)."""

    @property
    @abstractmethod
    def known(self) -> Self:
        """The block without NaN: the parameters of all others, where one never sees a cell."""

    @property
    @abstractmethod
    def has_missing(self) -> NDArray[np.bool_]:
        """Whether each column has missing cells, of shape (k,)."""

    @property
    def by_level(self) -> dict[Level, Float]:
        """Probabilities (n_components,) by level; empty for columns without levels."""
        return {}

    @property
    def others(self) -> Float:
        """Numbers of the only column beside its mean and variance, (n_components, m)."""
        return np.empty((self.n_components, 0))

    @property
    @abstractmethod
    def schema_columns(self) -> list[Column]:
        """The columns in a schema."""

    @property
    def value(self) -> tuple[Float, Float]:
        """Means and variances (r, k) of the values of the only column (`Family`)."""
        known = self.known
        return known.means, known.covariances[:, 0]

    def features(self, column: Column) -> tuple[Float, Float]:
        """Means and variances (r, w) of the features of the only column."""
        mean, variance = self.model.completed(*self.value)
        q = np.ones(len(mean)) if self.seen is None else self.seen
        q = np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        features = tuple(range(column.n_features))
        own = Distribution(features, self.model, column.has_missing)
        return own.features_of(Value(mean - column.center, variance, q))

    def chosen(self, components: Any) -> Self:
        """The block of some of the components, in the order given."""
        own = {key: getattr(self, key)[components] for key in self.model.parameters}
        return self._with(seen=None if self.seen is None else self.seen[components], **own)

    def at(self, columns: tuple[int, ...], names: tuple[str, ...] | None) -> Self:
        """The same block with other numbers and names of its columns."""
        return self._with(columns=columns, names=names)

    def _with(self, **changes: Any) -> Self:
        own: Any = self  # all blocks are dataclasses
        return cast(Self, replace(own, **changes))

    def part(self, places: Sequence[int]) -> Self:
        """The block of some of the columns, by their places in it, in the order given."""
        return self

    def checked(self) -> Self:
        """The block with checked numbers."""
        return self

    def given(self, known: dict[int, Any]) -> Self:
        """The other columns of the block, given cells by the numbers of their columns."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnBlock(Block):
    """One column with parameters of its own family; `seen` has shape (n_components,) or is None."""

    columns: tuple[int, ...] = ()
    names: tuple[str, ...] | None = None
    seen: Float | None = None

    @property
    def known(self) -> Self:
        values = getattr(self, self._parameter)
        if self.seen is None or not np.isnan(values).any():
            return self
        unknown = np.isnan(values).reshape(len(values), -1).any(axis=1)
        shares = self.seen[~unknown] / self.seen[~unknown].sum()
        twin = copy(self)
        for name in self.model.parameters:
            full = getattr(self, name).copy()
            full[unknown] = np.tensordot(shares, full[~unknown], 1)
            object.__setattr__(twin, name, full)
        return twin

    @property
    def has_missing(self) -> NDArray[np.bool_]:
        return np.array([self.seen is not None])

    @property
    def schema_columns(self) -> list[Column]:
        name = None if self.names is None else self.names[0]
        levels = getattr(self, "levels", ())
        return [Column(name, self.family, levels, self.seen is not None)]

    def _keep(self, array: Float, **others: Any) -> None:
        """Keep checked parameters, and check what all families have."""
        names = (self.names,) if isinstance(self.names, str) else self.names
        columns = tuple(int(j) for j in self.columns)
        if len(columns) > 1:
            raise InputError(f"a {self.family} block has one column; got {len(columns)}.")
        seen = checked_seen(self.seen, len(array))
        array = with_unknown(array, seen)
        wrong = np.isnan(array).reshape(len(array), -1).any(axis=1)
        if seen is not None:
            wrong &= seen >= NEVER_SEEN
        if wrong.any():
            raise InputError(
                f"{self._parameter} may be NaN only in a component that never sees the column "
                f"(seen 0); component {int(np.argmax(wrong))} has NaN."
            )
        values = {
            self._parameter: array,
            "names": None if names is None else check_feature_names(names, 1),
            "columns": columns,
            "seen": seen,
        }
        for name, value in {**values, **others}.items():
            object.__setattr__(self, name, value)


# -- components that never see a column -----------------------------------------------------------


def checked_seen(seen: Any, n_components: int) -> Float | None:
    """Probabilities of being seen as an array (r,), or None."""
    if seen is None:
        return None
    array = real_array("seen", seen, 1)
    if array.shape != (n_components,) or not ((array >= 0) & (array <= 1)).all():
        raise InputError(
            f"seen must be {n_components} probabilities from 0 to 1, one for each component; got "
            f"{array.tolist()}."
        )
    if (array < NEVER_SEEN).all():
        raise InputError(
            "a column must be seen in a component; seen is 0 in all of them. Leave the column out."
        )
    return array


def with_unknown(values: Float, seen: Float | None) -> Float:
    """Parameters (r, …), NaN where a component never sees the column; not to be written to."""
    if seen is not None and (seen < NEVER_SEEN).any():
        values = values.copy()
        values[seen < NEVER_SEEN] = np.nan
    values.setflags(write=False)
    return values


def unknown_columns(means: Float, covariances: Float, seen: Float) -> tuple[Float, Float]:
    """Means (r, k) and covariances (r, k, k), NaN in the columns that a component never sees."""
    unknown = seen < NEVER_SEEN
    either = unknown[:, :, None] | unknown[:, None, :]
    tables = np.where(unknown, np.nan, means), np.where(either, np.nan, covariances)
    for table in tables:
        table.setflags(write=False)
    return tables
