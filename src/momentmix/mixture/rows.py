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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.arrays import check_real, is_tensor, namespace, on_device_of, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.family import named
from momentmix.families.gaussian import rows_by_pattern
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import Density, Reduction, log_sums, most_probable
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
                "add a small part of the column's variance to it."
            )
        try:
            return Density.of_mixture(p, self.n_groups)
        except np.linalg.LinAlgError:
            raise InputError(
                "a component has singular covariances of joined columns, so it has no density; "
                "add a small part of each column's variance to the diagonal."
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
                slope = named(column.transform).log_slope(value + column.center)
                parts.append((number, slope * seen[0] if seen else slope))
        return parts

    # -- cells that are left out ------------------------------------------------------------------

    @lazy_property
    def _joined(self) -> Int:
        """Columns that are joined with others."""
        joined, column_of = self.parameters.blocks.joined, self.schema.column_of
        return np.array(sorted(column_of[j] for block in joined for j in block), dtype=np.int64)

    def _left_out(self, encoded: Encoded) -> NDArray[np.bool_] | None:
        """Cells whose values are left out (n, n_columns); None where there are none.

        Joined cells that are missing are too: that they are has a feature of its own.
        """
        left_out = encoded.left_out
        for j in self._joined:
            seen = self.schema.seen_of(int(j))
            if seen is not None:
                if left_out is None or left_out is encoded.left_out:
                    shape = len(encoded.features), self.schema.n_columns
                    left_out = np.zeros(shape, bool) if left_out is None else left_out.copy()
                left_out[:, j] |= encoded.features[:, seen] == 0
        return left_out if left_out is not None and left_out.any() else None

    def _marginal(
        self, features: Float, left_out: NDArray[np.bool_], reduce: Reduction
    ) -> NDArray[Any]:
        """`map_encoded` where some cells are left out."""
        single = np.setdiff1d(np.flatnonzero(left_out.any(axis=0)), self._joined)
        parts, places = [], []
        for pattern, rows in rows_by_pattern(left_out[:, self._joined]):
            density, kept, own = self._without(tuple(self._joined[pattern]), tuple(single))
            missing = left_out[rows][:, single]
            table = np.hstack([features[rows][:, kept], missing])
            for cells, numbers in zip(missing.T, own, strict=True):
                table[np.ix_(cells, numbers)] = density.shift[numbers]
            parts.append(density.map_rows(table, reduce))
            places.append(rows)
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

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
        density, n = Density.of_mixture(part), len(single)
        table, d = density.coefficients, density.shift.size
        constants = central_densities(part, [places.tolist() for places in own])
        none = np.zeros_like(constants)
        parts = table[:, :d], -constants, table[:, d : 2 * d], none, table[:, 2 * d :]
        marginal = (
            replace(
                density,
                coefficients=np.hstack(parts),
                shift=np.append(density.shift, np.zeros(n)),
                inverse=np.append(density.inverse, np.ones(n)),
                columns=np.arange(d + n),
                blocks=Blocks(d + n, density.blocks.joined, density.blocks.laws),
                n_groups=self.n_groups,
            ),
            kept,
            own,
        )
        if len(self._marginals) < _MOST_PATTERNS:
            self._marginals[dropped, single] = marginal
        return marginal


def checked_labels(labels: Any, n_groups: int | None) -> Any:
    """Labels, −1 for that of a background; raise where one is −1: no component is the best."""
    xp, bad = namespace(labels), labels < 0
    if bool(xp.any(bad)):
        row = int(to_numpy(bad).argmax())
        content = "infinity" if xp is np else "NaN or infinity"
        raise InputError(
            f"row {row} holds {content}, or lies more than 1e154 standard deviations away, so that "
            "no component is its most probable one. Drop such rows, bring them to the units of the "
            "model, or set such cells to missing: to NaN, in NumPy arrays."
        )
    if n_groups is None:
        return labels
    return xp.where(labels == n_groups, xp.full_like(labels, -1), labels)
