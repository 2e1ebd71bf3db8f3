"""The input of a fit: the means of all products of distinct standardized features.

| paper symbol | name here | shape |
|---|---|---|
| (M_s)_{Ω_s} of z | ``orders[s]`` | (C(d, s),) |
| E[z_j² z_I], j ∉ I, the paper's (M)_{L_j} | ``squared[q][j]`` | (C(d−1, q),) |
| E z_j^p, p = 3 … 6 | ``powers[p − 3]`` | (d,) |
| E z_j³ z_k, k ≠ j | ``cubed[j]`` | (d−1,) |
| E z_j² z_k² | ``two_squares`` | (C(d, 2),) |
| z = (y − shift) / scale | ``shift``, ``scale`` | (d,) |

Differs from the paper: the features are standardized (mean 0, standard deviation 1 each). A shift
and a positive scale of each feature keep a diagonal mixture diagonal, and they give nearly all
entries the same sampling noise 1/√N, so that plain least squares is close to optimally weighted.
The paper uses neither powers above 2 nor products of two of them; they show clusters along one
column, and columns that are not Gaussian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.families.column import FeaturePart
from momentmix.families.distribution import MOST_FLOOR, Distribution, with_joined_values
from momentmix.families.gaussian import LEAST_STEPS
from momentmix.index_sets import colex_rank, index_sets, sets_without
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.prior import VARIANCE_FLOOR, Structure
from momentmix.tables.schema import Schema
from momentmix.wording import short_repr

_BY_FEATURE = ("shift", "scale", "minimum", "maximum")
_HIGHEST = 6  # power of a feature in a condition


@short_repr
@dataclass(frozen=True, eq=False)
class StandardMoments:
    """Moments of standardized features up to one order; NaN for those that are not known."""

    n_features: int
    order: int  # highest one of the products of distinct features
    orders: tuple[Float, ...]  # index sets in colex order
    squared: tuple[Float, ...]  # of j over `sets_without(d, q, j)`
    n_rows: int
    n_effective: float  # (Σ weight)² / Σ weight²
    shift: Float
    scale: Float
    minimum: Float  # of the raw columns, as the next one
    maximum: Float
    constant: Any = None  # whether columns hold one value only; their z is 0
    feature_names: tuple[str, ...] | None = None
    columns: Any = None  # which columns of the rows the features are; all of them by default
    powers: Float | None = None
    cubed: Float | None = None
    two_squares: Float | None = None  # pairs in colex order
    counted: int | None = None  # rows that weighted rows count as in a likelihood
    laws: tuple[Distribution, ...] = ()  # of features that are not Gaussian within components
    transformed: tuple[int, ...] = ()  # columns that are logarithms of columns of the table
    parts: tuple[FeaturePart, ...] = ()  # of a table, that the features are
    # Width of the grid that each column of the rows is rounded to; 0 where there is none.
    # Deviations of components stay above 0.6 of it: the likelihood of spikes is unbounded.
    grids: Float | None = None
    # Covariances of observed values (d, d), for joined columns with missing cells.
    observed_covariance: Float | None = None
    within: Float | None = None  # pooled within components; the center of the prior where known

    def __post_init__(self) -> None:
        d = self.n_features
        constant = np.zeros(d, bool) if self.constant is None else self.constant
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "columns", np.arange(d) if self.columns is None else self.columns)

    @property
    def alone(self) -> Blocks:
        """Blocks in which no Gaussian features are joined."""
        return Blocks(self.n_features, laws=self.laws)

    @property
    def joinable(self) -> Int:
        """Features that a fit may join: numbers, also with cells that are missing at random."""
        at_random = [law for law in self.laws if law.at_random and law.family.joins]
        values = [law.features[0] for law in at_random if law.value_feature is not None]
        return np.union1d(self.alone.single, np.array(values, dtype=np.int64))

    def with_laws(self, laws: tuple[Distribution, ...]) -> StandardMoments:
        """The same where features have laws of their own, in the units of the data."""
        own = (law.covering(float(self.maximum[law.features[0]])) for law in laws)
        blocks = Blocks(self.n_features, laws=tuple(own))
        return replace(self, laws=blocks.rescaled(self.shift, self.scale).laws)

    def of_table(self, schema: Schema | None) -> StandardMoments:
        """Return the same for the features of the columns of a table."""
        if schema is None:
            return self.with_laws(())
        logs = (schema.features_of(j)[0] for j, c in enumerate(schema.columns) if c.transform)
        known = self.with_laws(schema.distributions())
        return replace(known, parts=schema.feature_parts, transformed=tuple(logs))

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Which features are numbers or counts, and not indicators, of shape (d,)."""
        found = np.ones(self.n_features, dtype=bool)
        for law in self.laws:
            squares = 2 * np.eye(len(law.features), dtype=np.int64)
            found[list(law.features)] = law.is_new(squares)
        return found

    @property
    def standard_range(self) -> tuple[Float, Float]:
        """Least and greatest value of each standardized feature."""
        low, high = self.minimum - self.shift, self.maximum - self.shift
        return low / self.scale, high / self.scale

    @property
    def total_covariance(self) -> Float:
        """Covariance of the standardized features over all rows, of shape (d, d)."""
        d, mean = self.n_features, self.orders[1]
        table = np.diag(self.squared[0][:, 0])
        if self.order > 1:
            j, k = index_sets(d, 2).T
            table[j, k] = table[k, j] = self.orders[2]
        return np.asarray(table - np.outer(mean, mean))

    def floors(self) -> Float:
        """Return the least variances of the features, (d,), more where columns are rounded.

        For 0/1 answers that are taken as numbers, components are separated about as well as by
        their probabilities: the variance of a number between two integers is at most 1/4.
        """
        floors = np.full(self.n_features, VARIANCE_FLOOR)
        if self.grids is not None:
            own = (LEAST_STEPS * self.grids[self.columns] / self.scale) ** 2
            floors = np.maximum(floors, np.minimum(own, MOST_FLOOR))
        return floors

    def with_grids(self, grids: Float) -> StandardMoments:
        """Return the same with columns rounded to grids of these widths, (n_columns,)."""
        least = (LEAST_STEPS * grids[self.columns] / self.scale) ** 2
        laws = tuple(law.with_floor(float(least[law.features[0]])) for law in self.laws)
        return replace(self, laws=laws, grids=grids)

    def structure(self, blocks: Blocks | None) -> Structure:
        """Return blocks and floors of the features, with the total covariances of blocks."""
        blocks = blocks or self.alone
        floors = self.floors()
        if self.within is not None:
            return Structure.of_covariance(floors, blocks, self.within, is_pooled=True)
        if blocks.is_diagonal:
            return Structure(floors)
        total = self.observed_covariance if blocks.missing else self.total_covariance
        assert total is not None
        return Structure.of_covariance(floors, blocks, total)

    def joined(self, groups: Iterable[Sequence[int]]) -> Blocks:
        """Return the blocks in which groups of features are joined, also with missing cells."""
        blocks = Blocks.of(self.n_features, groups)
        values = {j for block in blocks.joined for j in block}
        missing = [
            (*law.features, law.scale[0]) for law in self.laws if law.value_feature in values
        ]
        laws = with_joined_values(self.laws, values)
        return replace(blocks, laws=laws, missing=tuple(missing))

    def part(self, feature: int) -> FeaturePart:
        """The column that a feature is, or is a part of."""
        number = int(self.columns[feature])
        if self.parts:
            return self.parts[number]
        return FeaturePart(number if self.feature_names is None else self.feature_names[feature])

    def column_name(self, feature: int) -> str:
        """The column of a feature as texts name it: by its name, escaped, or by its number."""
        return self.part(feature).column_name

    def columns_of(self, features: Iterable[int]) -> list[str | int]:
        """Return the columns of features, by name or by number, each once."""
        return list(dict.fromkeys(self.part(j).column for j in features))

    @property
    def n_counted(self) -> int:
        """Rows that they count as in a likelihood; fewer than there are where weights differ."""
        return self.n_rows if self.counted is None else self.counted

    def truncated(self, order: int) -> StandardMoments:
        """The same moments up to a lower order."""
        if order > self.order:
            raise InputError(
                f"these moments go up to order {self.order}; order={order} was asked. Summarize "
                f"the rows again with order={order}, or fit with order={self.order}."
            )
        return replace(self, order=order, orders=self.orders[: order + 1])

    def varying(self) -> StandardMoments:
        """Return the moments of the features that vary; raise where none does."""
        if not self.constant.any():
            return self
        if self.constant.all():
            raise InputError(
                f"all {self.n_features} columns are constant over the {self.n_rows} rows, so there "
                "is nothing to fit. Check that the right rows and columns were read."
            )
        number, laws = np.cumsum(~self.constant) - 1, []
        for law in self.laws:
            left: Distribution | None = law
            for place in reversed(range(len(law.features))):
                if left is not None and left.features and self.constant[law.features[place]]:
                    left = left.without(place)  # constant features are standardized to 0
            if left is not None and left.features:
                laws.append(left.at(tuple(int(number[j]) for j in left.features)))
        return self._without(self.constant, tuple(laws))

    def _without(
        self, left_out: NDArray[np.bool_], laws: tuple[Distribution, ...]
    ) -> StandardMoments:
        """The moments of the other features, which have these laws."""
        kept, d, names = np.flatnonzero(~left_out), self.n_features, self.feature_names
        n = kept.size

        def of_sets(values: Float | None, s: int) -> Any:
            return None if values is None else values[colex_rank(kept[index_sets(n, s)])]

        def of_others(values: Float | None, q: int) -> Any:
            if values is None:
                return None
            masks = [~left_out[sets_without(d, q, j)].any(axis=1) for j in range(d)]
            return np.array([values[j][masks[j]] for j in kept]).reshape(n, -1)

        return replace(
            self,
            n_features=n,
            order=min(self.order, n),
            orders=tuple(of_sets(self.orders[s], s) for s in range(min(self.order, n) + 1)),
            squared=tuple(of_others(values, q) for q, values in enumerate(self.squared[:n])),
            constant=None,
            feature_names=None if names is None else tuple(names[j] for j in kept),
            powers=None if self.powers is None else self.powers[:, kept],
            cubed=of_others(self.cubed, 1),
            two_squares=of_sets(self.two_squares, 2),
            laws=laws,
            **{name: getattr(self, name)[kept] for name in (*_BY_FEATURE, "columns")},
        )


def new_products(
    n_features: int, laws: tuple[Distribution, ...]
) -> Callable[[Int, tuple[int, int]], NDArray[np.bool_]]:
    """Which products of features (n, t) are no linear combinations of others.

    Of a yes/no answer y² = y, and of two levels of a category the product is 0: conditions on such
    products would be counted twice. No product of two features of one law is new, nor are powers
    that `Distribution.is_new` denies. `exponents` are those of the first two features.
    """
    owner = -1 - np.arange(n_features)  # a number of its own without a law
    is_new = np.ones((_HIGHEST + 1, n_features), dtype=bool)  # of each feature's powers
    for number, law in enumerate(laws):
        owner[list(law.features)] = number
        for place, j in enumerate(law.features):
            exponents = np.zeros((_HIGHEST + 1, len(law.features)), dtype=np.int64)
            exponents[:, place] = np.arange(_HIGHEST + 1)
            is_new[:, j] = law.is_new(exponents)

    def mask(sets: Int, exponents: tuple[int, int]) -> NDArray[np.bool_]:
        found = np.asarray(np.diff(np.sort(owner[sets], axis=1), axis=1).all(axis=1))
        for column, exponent in zip(sets.T, exponents, strict=False):
            found &= is_new[exponent, column]
        return found

    return mask
