"""Densities of the rows of a table, of any families, some of whose cells are missing.

| symbol | name here | shape |
|---|---|---|
| features of rows | ``Encoded.features`` | (n, d) |
| cells that are marginalized | ``Encoded.left_out`` | (n, n_columns) |
| log p_i of a block where its features have the mixture's mean | ``central_densities`` | (r,) |

A cell that is missing where the model knows of no missing cells is left out of the density, and so
is a level that no training row had, where that is asked for: with it its ``seen``. Log
densities are sums over blocks. So the features of such a cell are set to the mixture's mean, where
the density of the block is known, and an indicator whose coefficient is minus that takes it out:
one matrix product, whatever cells are missing. Only joined columns need a density for each pattern,
whether or not the model has the probability of being seen: that is a feature of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.gaussian_block import rows_by_pattern
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import Density, Reduction, log_sums, posteriors
from momentmix.mixture.gaussian import central_densities
from momentmix.mixture.parameters import Parameters
from momentmix.tables.encoding import Encoded, Unseen
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.schema import Schema

_ENTRIES = 1 << 23  # doubles of features at a time: 64 MB
_MOST_PATTERNS = 1024  # of missing cells, whose densities are kept: 2^10 of ten joined columns

_Marginal = tuple[Density, Int, list[Int]]


@dataclass(frozen=True)
class TableDensity:
    """Densities of the rows of a table, by parameters and density of its features."""

    parameters: Parameters
    schema: Schema
    density: Density

    def map_rows(self, rows: Any, reduce: Reduction, unseen: Unseen = "error") -> NDArray[Any]:
        """`reduce` of the joint densities of each row, of shape (n_rows,) or (n_rows, r)."""
        blocks = encoded_blocks(self.schema, rows, "the mixture", unseen)
        parts = [self.map_encoded(encoded, reduce) for encoded in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def map_encoded(self, encoded: Encoded, reduce: Reduction) -> NDArray[Any]:
        """The same of rows as features."""
        left_out = self._left_out(encoded)
        if left_out is None:
            values = self.density.map_rows(encoded.features, reduce)
        else:
            values = self._marginal(encoded.features, left_out, reduce)
        return np.asarray(values + self._base_measure(encoded)) if reduce is log_sums else values

    def map_gaps(
        self, rows: NDArray[Any], places: Int, values: NDArray[Any], reduce: Reduction
    ) -> None:
        """Set `values` of those of the rows `places` that hold NaN; all columns are numbers."""
        step = max(1, _ENTRIES // self.schema.n_features)
        for start in range(0, places.size, step):
            part = rows[places[start : start + step]].astype(np.float64)
            gaps = np.isnan(part)
            some = gaps.any(axis=1)
            part[gaps] = 0.0
            if some.any():
                own = places[start : start + step][some]
                values[own] = self.map_encoded(Encoded(part[some], gaps[some]), reduce)

    def _base_measure(self, encoded: Encoded) -> Float:
        """Return the part of log-densities that is not linear in the statistics, (n,)."""
        features, schema = encoded.features, self.schema
        parts = []
        for law in self.parameters.blocks.laws:
            own = law.base_measure(features)
            if own is not None:
                parts.append((schema.column_of[law.features[0]], own))
        for number, column in enumerate(schema.columns):
            if column.transform:  # the logarithm of its derivative, where the cell is seen
                value, *seen = (features[:, j] for j in schema.features_of(number))
                parts.append((number, -(value + column.center * (seen[0] if seen else 1.0))))
        total = np.zeros(len(features))
        for number, own in parts:
            if encoded.left_out is not None:
                own[encoded.left_out[:, number]] = 0.0
            total += own
        return total

    # -- missing cells of joined columns, or that are not part of the model ---------------------

    @lazy_property
    def _joined(self) -> NDArray[np.bool_]:
        """Which columns are joined with others, of shape (n_columns,)."""
        is_joined, column_of = np.zeros(self.schema.n_columns, dtype=bool), self.schema.column_of
        is_joined[[column_of[j] for block in self.parameters.blocks.joined for j in block]] = True
        return is_joined

    def _left_out(self, encoded: Encoded) -> NDArray[np.bool_] | None:
        """Cells whose values are left out (n, n_columns); None where there are none."""
        joined = np.flatnonzero(self._joined).tolist()
        columns = [j for j in joined if self.schema.columns[j].has_missing]
        if not columns:
            return encoded.left_out
        left_out = np.zeros((len(encoded.features), self.schema.n_columns), dtype=bool)
        if encoded.left_out is not None:
            left_out |= encoded.left_out
        for j in columns:
            left_out[:, j] |= encoded.features[:, self.schema.features_of(j)[1]] == 0
        return left_out if left_out.any() else None

    def _marginal(
        self, features: Float, left_out: NDArray[np.bool_], reduce: Reduction
    ) -> NDArray[Any]:
        """`map_encoded` where some cells are left out."""
        joined, is_joined = np.flatnonzero(self._joined), self._joined
        single = np.flatnonzero(left_out.any(axis=0) & ~is_joined)
        some = np.asarray(~left_out.all(axis=1))
        if any(self.schema.columns[j].has_missing for j in joined):
            some[:] = True  # that a cell is missing tells components apart
        places, parts = [np.flatnonzero(~some)], [self._of_weights(int((~some).sum()), reduce)]
        for pattern, rows in rows_by_pattern(left_out[:, is_joined], some):
            density, kept, own = self._without(tuple(joined[pattern]), tuple(single))
            gaps = left_out[rows]
            table = np.hstack([features[rows][:, kept], gaps[:, single]])
            for column, numbers in zip(single, own, strict=True):
                table[np.ix_(gaps[:, column], numbers)] = density.shift[numbers]
            parts.append(density.map_rows(table, reduce))
            places.append(rows)
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

    def _of_weights(self, n_rows: int, reduce: Reduction) -> NDArray[Any]:
        """`reduce` for rows of which no cell is known."""
        if reduce is log_sums:
            return np.zeros(n_rows)
        with np.errstate(divide="ignore"):
            joint = np.repeat(np.log(self.parameters.weights)[:, None], n_rows, axis=1)
        if self.density.n_groups is None:
            return np.asarray(reduce(joint, np)).T
        return np.asarray(self.density.of_groups(posteriors(joint).T, reduce))

    @lazy_property
    def _without(self) -> Callable[[tuple[int, ...], tuple[int, ...]], _Marginal]:
        own = partial(_marginal_density, self.parameters, self.schema, self.density.n_groups)
        return lru_cache(_MOST_PATTERNS)(own)


def _marginal_density(
    p: Parameters,
    schema: Schema,
    n_groups: int | None,
    dropped: tuple[int, ...],
    single: tuple[int, ...],
) -> _Marginal:
    """The density without joined columns `dropped`, with an indicator for each single column.

    With it the numbers of the features that are kept, and which of them each single column has. An
    indicator takes the central density of its column away where it is 1.
    """
    column_of = np.array(schema.column_of)
    values = np.isin(np.arange(column_of.size), schema.value_features)
    kept = np.flatnonzero(~(np.isin(column_of, dropped) & values))  # ``seen`` stays
    own = [np.flatnonzero(column_of[kept] == column) for column in single]
    part = p.restricted(kept)
    constants = central_densities(part, [places.tolist() for places in own])
    density = Density.of_mixture(part)
    (r, n), d, table = constants.shape, density.shift.size, density.coefficients
    parts = [table[:, :d], -constants, table[:, d : 2 * d], np.zeros((r, n)), table[:, 2 * d :]]
    density = Density(
        np.hstack(parts),
        np.append(density.shift, np.zeros(n)),
        np.append(density.inverse, np.ones(n)),
        np.arange(d + n),
        Blocks(d + n, density.blocks.joined, density.blocks.laws),
        n_groups,
    )
    return density, kept, own
