"""`RowDensity`: densities of the rows of a table, of any families, some of whose cells are missing.

| symbol | name here | shape |
|---|---|---|
| features of rows | ``Encoded.features`` | (n, d) |
| cells that are left out of the density | ``Encoded.left_out`` | (n, n_columns) |
| log p_i of a block where its features have the mixture's mean | ``central_densities`` | (r, n) |

A missing cell is left out where the model has no probability of missing cells, and so is a level
that no training row had, where that is asked for. Log-densities are sums over blocks: the features
of such a cell are set to the mixture's mean, where the density of the block is known, and an
indicator whose coefficient is minus that takes it out. That is one matrix product, whatever cells
are missing. Joined columns need a density for each pattern of missing cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import check_real, is_tensor, namespace, on_device_of, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.gaussian_block import rows_by_pattern
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import Density, Reduction, log_sums, most_probable, posteriors
from momentmix.mixture.gaussian import central_densities
from momentmix.mixture.parameters import Parameters
from momentmix.tables.encoding import Encoded, Unseen, check_unseen
from momentmix.tables.formats.memory import rows_for
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.opening import can_open
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import TableRows

_ENTRIES = 1 << 23  # doubles of features at a time: 64 MB
_MOST_PATTERNS = 1024  # of missing cells, whose densities are kept: 2^10 of ten joined columns

_Pattern = tuple[tuple[int, ...], tuple[int, ...]]
_Marginal = tuple[Density, Int, list[Int]]


@dataclass(frozen=True, eq=False)
class RowDensity:
    """Densities of rows under the parameters of their features.

    `n_groups` is the number of components before those of a background, None without one.
    """

    parameters: Parameters
    schema: Schema
    n_groups: int | None = None
    _marginals: dict[_Pattern, _Marginal] = field(default_factory=dict, repr=False)

    @lazy_property
    def density(self) -> Density:
        """Density of the features; raise where a component has none."""
        p = self.parameters
        if (p.variances == 0).any():
            i, j = np.argwhere(p.variances == 0)[0]
            named = self.schema.column_names is not None or not self.schema.is_plain
            feature = ascii(self.schema.feature_names[j]) if named else j
            raise InputError(
                f"component {i} has variance 0 in feature {feature}, so it has no density there; "
                "use with_variance_floor()."
            )
        try:
            return Density.of_mixture(p, self.n_groups)
        except np.linalg.LinAlgError:
            raise InputError(
                "a component has singular covariances of joined columns, so it has no density; "
                "use with_variance_floor()."
            ) from None

    def map_rows(self, rows: Any, reduce: Reduction, unseen: Unseen = "error") -> Any:
        """`reduce` of the joint densities of rows of any kind, (n_rows,) or (n_rows, r).

        In the library of the rows.
        """
        check_unseen(unseen)
        if isinstance(rows, TableRows | Mapping) or can_open(rows) or not self.schema.is_plain:
            blocks = encoded_blocks(self.schema, rows, "the mixture", unseen)
            parts = [self.map_encoded(encoded, reduce) for encoded in blocks]
            values = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return on_device_of(values, rows, namespace(rows)) if is_tensor(rows) else values
        if is_tensor(rows):
            self._check_shape(rows)
            check_real(rows)
            return self.density.map_rows(rows, reduce)
        array = rows_for(rows, self.schema.column_names)
        if array.dtype.kind not in "fiu":
            raise InputTypeError(f"rows must be real numbers; got dtype {array.dtype}.")
        self._check_shape(array)
        values = self.density.map_rows(array, reduce)
        # Rows with a missing cell are among those without a value; the others are not looked at.
        first = values if values.ndim == 1 else values[:, 0]
        lost = np.flatnonzero(first < 0 if reduce is most_probable else np.isnan(first))
        step = max(1, _ENTRIES // self.schema.n_features)
        for start in range(0, lost.size, step):
            places = lost[start : start + step]
            places = places[np.isnan(array[places]).any(axis=1)]
            part = array[places].astype(np.float64)
            is_missing = np.isnan(part)
            part[is_missing] = 0.0
            if places.size:
                values[places] = self.map_encoded(Encoded(part, is_missing), reduce)
        return values

    def _check_shape(self, array: Any) -> None:
        d = self.schema.n_features
        if array.ndim != 2 or array.shape[1] != d:
            raise InputError(
                f"rows must have shape (n_rows, {d}), one column per feature of the mixture; got "
                f"{tuple(array.shape)}."
            )

    def map_encoded(self, encoded: Encoded, reduce: Reduction) -> Any:
        """The same of rows as features."""
        left_out = self._left_out(encoded)
        if left_out is None:
            values = self.density.map_rows(encoded.features, reduce)
        else:
            values = self._marginal(encoded.features, left_out, reduce)
        if reduce is log_sums:
            for number, part in self._base_measures(encoded.features):
                if encoded.left_out is not None:
                    part[encoded.left_out[:, number]] = 0.0
                values = values + part
        return values

    def _base_measures(self, features: Any) -> list[tuple[int, Float]]:
        """Parts (n,) of log-densities that are not linear in the statistics, with their columns."""
        columns, parts = self.schema.columns, []
        for law in self.parameters.blocks.laws:
            part = law.base_measure(features)
            if part is not None:
                parts.append((self.schema.column_of[law.features[0]], part))
        for number, column in enumerate(columns):
            if column.transform:  # the logarithm of its derivative, where the cell is seen
                value, *seen = (features[:, j] for j in self.schema.features_of(number))
                parts.append((number, -(value + column.center * (seen[0] if seen else 1.0))))
        return parts

    # -- cells that are left out ------------------------------------------------------------------

    @lazy_property
    def _is_joined(self) -> NDArray[np.bool_]:
        """Which columns are joined with others, of shape (n_columns,)."""
        is_joined, column_of = np.zeros(self.schema.n_columns, dtype=bool), self.schema.column_of
        is_joined[[column_of[j] for block in self.parameters.blocks.joined for j in block]] = True
        return is_joined

    @lazy_property
    def _joined_with_missing(self) -> list[int]:
        """Joined columns whose missing cells are modeled."""
        columns = self.schema.columns
        return [int(j) for j in np.flatnonzero(self._is_joined) if columns[j].has_missing]

    def _left_out(self, encoded: Encoded) -> NDArray[np.bool_] | None:
        """Cells whose values are left out (n, n_columns); None where there are none."""
        if not self._joined_with_missing:
            return encoded.left_out
        left_out = np.zeros((len(encoded.features), self.schema.n_columns), dtype=bool)
        if encoded.left_out is not None:
            left_out |= encoded.left_out
        for j in self._joined_with_missing:
            left_out[:, j] |= encoded.features[:, self.schema.features_of(j)[1]] == 0
        return left_out if left_out.any() else None

    def _marginal(
        self, features: Float, left_out: NDArray[np.bool_], reduce: Reduction
    ) -> NDArray[Any]:
        """`map_encoded` where some cells are left out."""
        joined = np.flatnonzero(self._is_joined)
        single = np.flatnonzero(left_out.any(axis=0) & ~self._is_joined)
        # That a joined cell is missing tells components apart, where it is modeled.
        is_empty = np.asarray(left_out.all(axis=1) & (not self._joined_with_missing))
        places = [np.flatnonzero(is_empty)]
        parts = [self._of_weights(places[0].size, reduce)]
        for pattern, rows in rows_by_pattern(left_out[:, self._is_joined], ~is_empty):
            density, kept, own = self._without(tuple(joined[pattern]), tuple(single))
            missing = left_out[rows][:, single]
            table = np.hstack([features[rows][:, kept], missing])
            for cells, numbers in zip(missing.T, own, strict=True):
                table[np.ix_(cells, numbers)] = density.shift[numbers]
            parts.append(density.map_rows(table, reduce))
            places.append(rows)
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

    def _of_weights(self, n_rows: int, reduce: Reduction) -> NDArray[Any]:
        """`reduce` for rows of which no cell is known."""
        if reduce is log_sums:
            return np.zeros(n_rows)
        with np.errstate(divide="ignore"):
            joint = np.repeat(np.log(self.parameters.weights)[:, None], n_rows, axis=1)
        if self.n_groups is None:
            return np.asarray(reduce(joint, np)).T
        return np.asarray(self.density.of_groups(posteriors(joint).T, reduce))

    def _without(self, dropped: tuple[int, ...], single: tuple[int, ...]) -> _Marginal:
        """The density without joined columns `dropped`, with an indicator for each single column.

        With it the numbers of the features that are kept, and which of them each single column has.
        An indicator takes the central density of its column away where it is 1.
        """
        if (marginal := self._marginals.get((dropped, single))) is not None:
            return marginal
        column_of = np.array(self.schema.column_of)
        values = np.isin(np.arange(column_of.size), self.schema.value_features)
        kept = np.flatnonzero(~(np.isin(column_of, dropped) & values))  # ``seen`` stays
        own = [np.flatnonzero(column_of[kept] == column) for column in single]
        part = self.parameters.restricted(kept)
        constants = central_densities(part, [places.tolist() for places in own])
        density = Density.of_mixture(part)
        (r, n), d, table = constants.shape, density.shift.size, density.coefficients
        density = Density(
            np.hstack([table[:, :d], -constants, table[:, d : 2 * d], np.zeros((r, n)),
                       table[:, 2 * d :]]),
            np.append(density.shift, np.zeros(n)),
            np.append(density.inverse, np.ones(n)),
            np.arange(d + n),
            Blocks(d + n, density.blocks.joined, density.blocks.laws),
            self.n_groups,
        )  # fmt: skip
        if len(self._marginals) < _MOST_PATTERNS:
            self._marginals[dropped, single] = density, kept, own
        return density, kept, own


def checked_labels(labels: Any, n_groups: int | None) -> Any:
    """Labels, −1 for that of a background; raise where one is −1: no component is the best."""
    xp, bad = namespace(labels), labels < 0
    if bool(xp.any(bad)):
        row = int(to_numpy(bad).argmax())
        content, cure = "infinity", "Set infinite cells to NaN (missing), drop such rows,"
        if xp is not np:
            content = "NaN or infinity"
            cure = "Drop or impute such rows, pass them as NumPy arrays,"
        raise InputError(
            f"row {row} holds {content}, or lies more than 1e154 standard deviations away, so that "
            f"no component is its most probable one. {cure} or bring them to the units of the "
            "model."
        )
    if n_groups is None:
        return labels
    return xp.where(labels == n_groups, xp.full_like(labels, -1), labels)
