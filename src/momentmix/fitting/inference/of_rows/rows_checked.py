"""An excerpt of the rows of a fit, and the outliers among them.

`check_rows` runs before a fit: it finds the outliers, which the fit leaves out, and keeps an
excerpt of the other rows in their order. `row_findings` (``row_findings.py``) runs after it, with
the fitted mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.monomial_covariance import MomentSpread
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.of_rows.columns_checked import (
    ColumnFacts,
    check_column,
)
from momentmix.fitting.inference.of_rows.outliers import NONE, Outliers, find_outliers
from momentmix.mixture.density import joint_densities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import Rows
from momentmix.tables.weights import proportional_places

EXCERPT = 20_000  # rows: enough for shapes and shares, and a small part of a fit's time


@dataclass(frozen=True)
class CheckedRows:
    """An excerpt of the rows of a fit, in their order, and the rows that were left out."""

    places: Int  # numbers of the rows among those that are fitted, ascending, (n,)
    values: Float  # (n, n_columns); of weighted rows so many as follow the weighted law
    n_rows: int  # all that are fitted
    is_everywhere: bool  # whether the excerpt reaches from the first row to the last
    outliers: Outliers = NONE
    # All rows (m, n_columns) and what they count as (m,), where weights are not frequencies.
    weighted: tuple[Float, Float] | None = None

    @property
    def is_all(self) -> bool:
        """Whether the excerpt holds all rows."""
        return len(self.places) == self.n_rows

    def noise(self, moments: StandardMoments) -> MomentSpread | None:
        """How the moments of weighted rows vary; None where the model knows it."""
        if self.weighted is None:
            return None
        values, counts = self.weighted
        features = (values[:, moments.columns] - moments.shift) / moments.scale
        return MomentSpread(features, counts, self.n_rows)

    @cached_property
    def columns(self) -> list[ColumnFacts]:
        """Facts about each column."""
        columns = np.ascontiguousarray(self.values.T)
        return [check_column(column, self.places) for column in columns]

    def grids(self, moments: StandardMoments) -> Float:
        """Width of the grid that each column is rounded to, where its cells are seen; 0: none."""
        grids = np.array([facts.grid for facts in self.columns])
        for law in moments.laws:
            if law.value_feature is not None:
                value, seen = (self.values[:, j] for j in moments.columns[list(law.features)])
                is_seen = seen > 0
                facts = check_column(value[is_seen], self.places[is_seen])
                grids[moments.columns[law.features[0]]] = facts.grid
        return grids

    @cached_property
    def is_copy(self) -> NDArray[np.bool_]:
        """Which rows are equal to an earlier one, of shape (n,)."""
        n = len(self.values)
        if any(facts.n_values == n for facts in self.columns):
            return np.zeros(n, bool)
        values = np.ascontiguousarray(self.values + 0.0)  # −0 + 0 is 0
        keys = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).ravel().tolist()
        first: dict[Any, int] = {}
        return np.array([first.setdefault(key, i) != i for i, key in enumerate(keys)], np.bool_)


def check_rows(rows: Rows, moments: StandardMoments) -> CheckedRows:
    """The outliers among the rows, and an excerpt of the rows without them."""
    places, values = rows.excerpt(EXCERPT)
    outliers = find_outliers(rows, moments, places, values)
    kept, weighted = ~np.isin(places, outliers.places), None
    counts = None if rows.row_counts is None else rows.row_counts[places[kept]]
    places = places[kept] - np.searchsorted(outliers.places, places[kept])
    values, n_rows = values[kept], rows.n_rows - len(outliers.places)
    is_everywhere = len(places) > 0 and int(places[-1]) == n_rows - 1
    if counts is not None and len(places):
        weighted = None if rows.is_frequency else (values, counts)
        # As many as can be drawn without copies.
        chosen = proportional_places(counts, int(counts.sum() / counts.max()))
        places, values = places[chosen], values[chosen]
    return CheckedRows(places, values, n_rows, is_everywhere, outliers, weighted)


def standardized(checked: CheckedRows, moments: StandardMoments) -> Float:
    """The features of the excerpt, of shape (n, d)."""
    return np.asarray((checked.values[:, moments.columns] - moments.shift) / moments.scale)


def joint_of(z: Float, parameters: Parameters) -> Float:
    """Log-densities of the components in rows of standardized features, of shape (r, n)."""
    with np.errstate(over="ignore"):
        features = features_of(z, parameters.blocks)
        return np.asarray(joint_densities(coefficients(parameters), features))
