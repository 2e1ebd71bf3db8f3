"""Methods of every mixture for rows: densities, components, draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import check_real, is_tensor, namespace, on_device_of, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.families.column import Column
from momentmix.mixture.density import Density, Reduction, log_sums, most_probable, posteriors
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import complete_schema
from momentmix.mixture.tables.rows import TableDensity
from momentmix.tables.encoding import Encoded, Unseen, check_unseen
from momentmix.tables.formats.memory import rows_for
from momentmix.tables.opening import can_open
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import TableRows


def _checked_labels(labels: Any, background: int | None) -> Any:
    """Labels, −1 for that of the background; raise where one is −1: no component is the best."""
    xp, bad = namespace(labels), labels < 0
    if bool(xp.any(bad)):
        row = int(to_numpy(bad).argmax())
        held, cure = "infinity", "Set infinite cells to NaN (missing), drop such rows,"
        if xp is not np:
            held, cure = "NaN or infinity", "Drop or impute such rows, pass them as NumPy arrays,"
        raise InputError(
            f"row {row} holds {held}, or lies more than 1e154 standard deviations away, so that no "
            f"component is its most probable one. {cure} or bring them to the units of the model."
        )
    if background is None:
        return labels
    return xp.where(labels == background, xp.full_like(labels, -1), labels)


class RowMethods:
    """Methods of a mixture that take or give rows."""

    feature_names: tuple[str, ...] | None
    parameters: Parameters
    schema: Schema | None = None
    background: RowMethods | None = None
    background_weight: float = 0.0

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks with their parameters, ordered by their first columns."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their names, families and levels."""
        if self.schema is not None:
            return self.schema.columns
        names = self.feature_names or (None,) * self.parameters.blocks.n_features
        return tuple(Column(name) for name in names)

    def _map_rows(self, rows: Any, reduce: Reduction, unseen: Unseen) -> Any:
        """`reduce` of log ω_i + log p_i(y) of each row, in the library of the rows."""
        check_unseen(unseen)
        in_blocks = isinstance(rows, TableRows) or can_open(rows)
        if in_blocks or self.schema is not None or isinstance(rows, Mapping):
            values = self.table_density().map_rows(rows, reduce, unseen)
            return on_device_of(values, rows, namespace(rows)) if is_tensor(rows) else values
        if is_tensor(rows):
            self._check_shape(rows)
            check_real(rows)
            return self._density().map_rows(rows, reduce)
        array = rows_for(rows, self.feature_names)
        if array.dtype.kind not in "fiu":
            raise InputTypeError(f"rows must be real numbers; got dtype {array.dtype}.")
        self._check_shape(array)
        values = self._density().map_rows(array, reduce)
        # Rows with a missing cell are among those without a value; the others are not looked at.
        first = values if values.ndim == 1 else values[:, 0]
        places = np.flatnonzero(first < 0 if reduce is most_probable else np.isnan(first))
        if places.size:
            self.table_density().map_gaps(array, places, values, reduce)
        return values

    def _check_shape(self, array: Any) -> None:
        """Raise where rows have another shape."""
        d = self.parameters.blocks.n_features
        if array.ndim != 2 or array.shape[1] != d:
            raise InputError(
                f"rows must have shape (n_rows, {d}), one column per feature of the "
                f"mixture; got {tuple(array.shape)}."
            )

    @property
    def has_density(self) -> bool:
        """Whether the covariances of all components are positive definite."""
        try:
            self._density()
        except InputError:
            return False
        return True

    @property
    def _all_components(self) -> Parameters:
        """The components of the groups, and after them those of the background."""
        p, share = self.parameters, self.background_weight
        if self.background is None:
            return p
        b = self.background.parameters
        p, b = replace(p, weights=(1 - share) * p.weights), replace(b, weights=share * b.weights)
        return Parameters.concatenate([p, b])

    @property
    def _n_groups(self) -> int | None:
        """Number of groups, which is the label of a background; None where there is none."""
        return None if self.background is None else self.parameters.n_components

    def _density(self) -> Density:
        p = self._all_components
        if (p.variances == 0).any():
            i, j = np.argwhere(p.variances == 0)[0]
            names = self.feature_names if self.schema is None else self.schema.feature_names
            feature = j if names is None else ascii(names[j])
            raise InputError(
                f"component {i} has variance 0 in feature {feature}, so it has no density there; "
                "use with_variance_floor()."
            )
        try:
            return Density.of_mixture(p, self._n_groups)
        except np.linalg.LinAlgError:
            raise InputError(
                "a component has singular covariances of joined columns, so it has no density; "
                "use with_variance_floor()."
            ) from None

    def without_background(self) -> Self:
        """The groups alone: the same mixture without its background."""
        if self.background is None:
            return self
        twin = copy(self)
        twin.__dict__.update(background=None, background_weight=0.0)
        return twin

    def table_density(self) -> TableDensity:
        """Densities of tables, whose missing cells are marginalized unless they are modeled."""
        schema = complete_schema(self.columns) if self.schema is None else self.schema
        return TableDensity(self._all_components, schema, self._density())

    def log_prob(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Log-density of each row, of shape (n_rows,).

        Missing cells (NaN, None, masked) are left out of the density, which is then that of the
        other columns: 0 where a row has none. In columns that had missing cells in the fit, the
        probability of being seen is part of the density. So for `responsibilities` and `predict`.

        Densities are those of the numbers as they are, also where a column has a transform.

        Parameters
        ----------
        rows : array, data frame, Arrow table, list of rows, dict of columns, path, or query
            The columns of frames, dicts and files are matched by name; files and queries are read
            in blocks, as `open_rows` opens them, and other columns of theirs are left out. Tensors
            of torch give a tensor, computed in float64 where they lie; NaN gives NaN there, unless
            the mixture has a `schema`.
        unseen : {"error", "missing"}, default="error"
            What a level gets that no row of the fit had: an error, or its cell is left out of the
            density, and nothing is concluded from it, whether or not the column has missing cells.
        """
        return self._map_rows(rows, log_sums, unseen)

    def log_prob_of_features(self, schema: Schema | None) -> Callable[[Any], Any]:
        """`log_prob` for rows that are features of a schema already, as a fit has them."""
        if schema is not None and any(column.at_random for column in schema.columns):
            own = self.table_density()
            return lambda features: own.map_encoded(schema.modeled_cells(features), log_sums)
        if self.schema is None:
            density = self._density()
            return lambda features: density.map_rows(features, log_sums)
        table = self.table_density()
        return lambda features: table.map_encoded(Encoded(features, None), log_sums)

    def score_samples(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """The same as `log_prob`, by the name that it has in scikit-learn."""
        return self.log_prob(rows, unseen=unseen)

    def responsibilities(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Posterior probability of each component, of shape (n_rows, n_components).

        They sum to 1, or to 1 − the probability of the background where the mixture has one.

        Parameters
        ----------
        rows, unseen
            As for `log_prob`. A row without any known cell has the weights of the components.
        """
        return self._map_rows(rows, posteriors, unseen)

    def predict_proba(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """The same as `responsibilities`, by the name that it has in scikit-learn."""
        return self.responsibilities(rows, unseen=unseen)

    def predict(self, rows: Any, *, unseen: Unseen = "error") -> Any:
        """Most probable component of each row, of shape (n_rows,); −1: the background.

        Parameters
        ----------
        rows, unseen
            As for `log_prob`. Infinite numbers are an error.
        """
        labels = self._map_rows(rows, most_probable, unseen)
        return _checked_labels(labels, self._n_groups)

    def sample(
        self, n_rows: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[Any, NDArray[np.int64]]:
        """Draw rows and the component of each, of shapes (n_rows, n_features) and (n_rows,).

        Rows of the background have label −1. Where the mixture has a `schema`, the rows are a dict
        of columns by name, or an array where they have no names: levels as labels, NaN or None for
        missing cells.
        """
        rows, labels = sample(self._all_components, n_rows, np.random.default_rng(random_state))
        labels[labels >= self.parameters.n_components] = -1
        return rows if self.schema is None else self.schema.decode(rows), labels
