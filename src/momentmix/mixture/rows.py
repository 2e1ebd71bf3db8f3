"""`RowDensity`: densities of the rows of a table, of any families, some of whose cells are missing.

A missing cell is left out where the model has no probability of missing cells, and so is a level
that no training row had, where that is asked for (`momentmix.mixture.missing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import check_real, is_tensor, namespace, on_device_of, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.family import named
from momentmix.lazy import lazy_property
from momentmix.mixture.density import Density, Reduction, log_sums
from momentmix.mixture.parameters import Parameters
from momentmix.tables.encoding import Encoded, Unseen, check_unseen
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.memory import rows_for
from momentmix.tables.opening import can_open
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import TableRows


@dataclass(frozen=True, eq=False)
class RowDensity:
    """Densities of rows under the parameters of their features.

    `n_groups` is the number of components before those of a background, None without one.
    """

    parameters: Parameters
    schema: Schema
    n_groups: int | None = None

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
        return self.density.map_rows(array, reduce)

    def _check_shape(self, array: Any) -> None:
        d = self.schema.n_features
        if array.ndim != 2 or array.shape[1] != d:
            raise InputError(
                f"rows must have shape (n_rows, {d}), one column per feature of the mixture; got "
                f"{tuple(array.shape)}."
            )

    def map_encoded(self, encoded: Encoded, reduce: Reduction) -> Any:
        """The same of rows as features."""
        is_missing = self._missing_features(encoded)
        values = self.density.map_rows(encoded.features, reduce, is_missing)
        if reduce is log_sums:
            for number, part in self._base_measures(encoded.features):
                if encoded.left_out is not None:
                    part[encoded.left_out[:, number]] = 0.0
                values = values + part
        return values

    def _base_measures(self, features: Any) -> list[tuple[int, Float]]:
        """Parts (n,) of log-densities that are not linear in the statistics, with their columns."""
        columns, parts = self.schema.columns, []
        for distribution in self.parameters.blocks.laws:
            base = distribution.base_measure(features)
            if base is not None:
                parts.append((self.schema.column_of[distribution.features[0]], base))
        for number, column in enumerate(columns):
            if column.transform:  # the logarithm of its derivative, where the cell is seen
                value, *seen = (features[:, j] for j in self.schema.features_of(number))
                slope = named(column.transform).log_slope(value + column.center)
                parts.append((number, slope * seen[0] if seen else slope))
        return parts

    def _missing_features(self, encoded: Encoded) -> NDArray[np.bool_] | None:
        """Features that are left out of the density (n, d); None where there are none.

        Joined values that are missing are too: that they are has a feature of its own.
        """
        blocks, left_out = self.parameters.blocks, encoded.left_out
        joined = [j for block in blocks.joined for j in block]
        observed = {j: self.schema.seen_of(self.schema.column_of[j]) for j in joined}
        if left_out is None and not any(observed.values()):
            return None
        is_missing = np.zeros(encoded.features.shape, dtype=bool)
        if left_out is not None:
            is_missing = left_out[:, self.schema.column_of]
        for value, feature in observed.items():
            if feature is not None:
                is_missing[:, value] |= encoded.features[:, feature] == 0
                is_missing[:, feature] = False
        return is_missing if is_missing.any() else None


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
