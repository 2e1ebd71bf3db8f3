"""Blocks: the parameters of columns within components, in the units of the columns.

Given the component, blocks are independent of each other. Tables and attributes of a mixture have
NaN where a component never sees a column; a block has numbers there too, so that every row has a
density.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.column import Column, Level
from momentmix.families.family import Family, named
from momentmix.tables.names import check_feature_names

NEVER_SEEN = 1e-6  # a probability of being seen below it means never


class Block(ABC):
    """Columns that are independent of all others given the component."""

    columns: tuple[int, ...]  # numbers; empty before the block is part of a mixture
    names: tuple[str, ...] | None
    seen: Float | None  # probability that a cell is seen; None where no cell is missing

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
    def model(self) -> Family:
        """The family of the columns."""
        return named(self.family)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(getattr(self, next(iter(self.model.parameters))))

    @property
    def value(self) -> tuple[Float, Float]:
        """Means and variances (r, k) of the values of the only column (`Family`)."""
        return self.means, self.covariances[:, 0]

    @property
    def by_level(self) -> dict[Level, Float]:
        """Probabilities (n_components,) by level; empty for columns without levels."""
        return {}

    @property
    def others(self) -> Float:
        """Numbers of the only column beside its mean and variance, (n_components, m)."""
        return np.empty((self.n_components, 0))

    @property
    def seen_table(self) -> Float:
        """Probability that a cell is seen, (n_components, k); NaN where no cell is missing."""
        table = np.full((self.n_components, self.means.shape[1]), np.nan)
        if self.seen is not None:
            table[:] = self.seen.reshape(table.shape)
            if table.shape[1] > 1:
                table[:, (table == 1).all(axis=0)] = np.nan
        return table

    @property
    def is_never_seen(self) -> NDArray[np.bool_]:
        """Whether a component never sees a column, (n_components, k)."""
        return np.asarray(self.seen_table < NEVER_SEEN)

    @property
    @abstractmethod
    def schema_columns(self) -> list[Column]:
        """The columns in a schema."""

    def chosen(self, components: Any) -> Self:
        """The block of some of the components, in the order given."""
        arrays = {key: getattr(self, key)[components] for key in self.model.parameters}
        return self._with(seen=None if self.seen is None else self.seen[components], **arrays)

    def at(self, columns: tuple[int, ...], names: tuple[str, ...] | None) -> Self:
        """The same block with other numbers and names of its columns."""
        return self._with(columns=columns, names=names)

    def _with(self, **changes: Any) -> Self:
        block: Any = self  # all blocks are dataclasses
        return cast(Self, replace(block, **changes))

    def part(self, places: Sequence[int]) -> Self:
        """The block of some of the columns, by their places in it, in the order given."""
        return self

    def given(self, cells: Mapping[int, Any]) -> Self:
        """The other columns of the block, given cells by the numbers of their columns."""
        return self

    def _keep(self, **values: Any) -> None:
        """Set checked fields of a new block."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _checked_names(self, k: int) -> tuple[str, ...] | None:
        names = (self.names,) if isinstance(self.names, str) else self.names
        return None if names is None else check_feature_names(names, k)


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnBlock(Block):
    """One column with parameters of its own family; `seen` has shape (n_components,) or is None."""

    columns: tuple[int, ...] = ()
    names: tuple[str, ...] | None = None
    seen: Float | None = None

    @property
    def schema_columns(self) -> list[Column]:
        name = None if self.names is None else self.names[0]
        levels = getattr(self, "levels", ())
        return [Column(name, self.family, levels, self.seen is not None)]

    def _keep_checked(self, **arrays: Any) -> None:
        """Keep the parameters, and check what all families have."""
        columns = tuple(int(j) for j in self.columns)
        if len(columns) > 1:
            raise InputError(f"a {self.family} block has one column; got {len(columns)}.")
        n_components = len(next(iter(arrays.values())))
        seen = checked_seen(self.seen, n_components)
        self._keep(names=self._checked_names(1), columns=columns, seen=seen, **arrays)


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
