"""An excerpt of the rows, what its columns hold, and rows that are copies of others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.fitting.inference.outliers import NONE, Outliers, find_outliers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.lazy import lazy_property
from momentmix.mixture.density import joint_densities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import Rows, proportional_places

EXCERPT = 20_000  # rows: enough for shapes and shares, and a small part of a fit's time
_FEW_VALUES = 20  # different values of a column that counts or codes something
_ROWS_A_VALUE = 10  # at least, of a column with few values: else there are few rows, not few values
_ATOM_SHARE = 0.02  # of the rows, that one value holds
_ATOM_ROWS = 10  # that one value holds at least
_ATOM_RATIO = 5.0  # of its rows to those of the next value: neighbors on a grid hold about as many
_ON_GRID = 1e-6  # of the grid's width: rounding errors of decimal numbers
_TIED_SHARE = 0.3  # of the rows share their value with another row, on a grid that matters
_COPIES_SHARE = 0.01  # of the rows are copies of another one
_FEWEST_COPIES = 3
_FINEST_COLUMN = 50  # different values; rows of coarser columns are equal by chance
_COPIES_AMONG_TIES = 0.5  # of the rows that agree in the finest column agree in all
_EVEN_STEPS = 0.05  # relative deviation of the steps between row numbers; a sorted column has 1


class ColumnKind(Enum):
    """Whether a column of numbers holds something else."""

    NUMBERS = "numbers"
    FEW_VALUES = "few values"
    REPEATED_VALUE = "repeated value"
    ROW_NUMBER = "row number"


@dataclass(frozen=True)
class CheckedColumn:
    """Facts about one column, from an excerpt of the rows."""

    kind: ColumnKind
    top_value: float  # the most frequent one
    top_share: float  # of the rows, that have it
    grid: float  # distance of neighboring values of a column of rounded or few values; else 0
    is_sorted: bool  # whether the values ascend or descend from row to row
    n_values: int  # different ones


def check_column(column: Float, places: Int) -> CheckedColumn:
    """Facts about the values of a column in some rows, whose numbers ascend."""
    values, counts = np.unique(column, return_counts=True)
    n, n_values, steps = len(column), len(values), np.diff(column)
    is_sorted = n > 2 and bool((steps >= 0).all() or (steps <= 0).all())
    common = np.sort(np.append(counts, 0))[-2:]  # rows of the two most frequent values
    grid = _grid(values) if (n - (counts == 1).sum()) > _TIED_SHARE * n else 0.0
    kind, even = ColumnKind.NUMBERS, steps[np.diff(places) == 1]
    # Sorted first: the deviation overflows where values of 1e153 change sign.
    has_steps = is_sorted and len(even) > 1 and bool(even.any())
    if has_steps and even.std() <= _EVEN_STEPS * abs(even.mean()):
        kind = ColumnKind.ROW_NUMBER
    elif n_values <= _FEW_VALUES and n >= _ROWS_A_VALUE * n_values:
        kind = ColumnKind.FEW_VALUES
    elif common[1] >= max(_ATOM_ROWS, _ATOM_SHARE * n, _ATOM_RATIO * common[0]):
        kind = ColumnKind.REPEATED_VALUE
    top = int(counts.argmax())
    share = float(counts[top]) / n
    return CheckedColumn(kind, float(values[top]), share, grid, is_sorted, n_values)


def _grid(values: Float) -> float:
    """Width of the grid that all values lie on; 0 where there is none."""
    steps = np.diff(values)
    if not steps.size:
        return 0.0
    width = float(steps.min())
    # Errors of decimal numbers grow with the values, beside the width.
    error = _ON_GRID * width + 4 * np.finfo(float).eps * float(np.abs(values).max())
    numbers = np.round(steps / width)
    return width if bool((np.abs(steps - numbers * width) <= error * numbers).all()) else 0.0


@dataclass(frozen=True)
class CheckedRows:
    """An excerpt of the rows of a fit, in their order, and the rows far from all others."""

    places: Int  # numbers of the rows among those that are fitted, ascending, (n,)
    values: Float  # (n, n_columns); of weighted rows so many as follow the weighted law
    n_rows: int  # all that are fitted
    outliers: Outliers = NONE

    def standardized(self, moments: StandardMoments) -> Float:
        """The features of the excerpt, of shape (n, d)."""
        return np.asarray((self.values[:, moments.columns] - moments.shift) / moments.scale)

    @lazy_property
    def columns(self) -> list[CheckedColumn]:
        """Facts about each column."""
        columns = np.ascontiguousarray(self.values.T)
        return [check_column(column, self.places) for column in columns]

    def grids(self, moments: StandardMoments) -> Float:
        """Width of the grid that each column is rounded to, where its cells are seen; 0: none."""
        grids = np.array([facts.grid for facts in self.columns])
        for law in moments.laws:
            if law.value_feature is not None:
                value, seen = (self.values[:, j] for j in moments.columns[list(law.features)])
                facts = check_column(value[seen > 0], self.places[seen > 0])
                grids[moments.columns[law.features[0]]] = facts.grid
        return grids

    @lazy_property
    def is_copy(self) -> NDArray[np.bool_]:
        """Which rows are equal to an earlier one, of shape (n,)."""
        n = len(self.values)
        is_copy = np.ones(n, np.bool_)
        if any(facts.n_values == n for facts in self.columns):
            return ~is_copy
        values = np.ascontiguousarray(self.values + 0.0)  # −0 + 0 is 0
        keys = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).ravel()
        is_copy[list({key: i for i, key in reversed([*enumerate(keys.tolist())])}.values())] = False
        return is_copy

    @lazy_property
    def n_duplicates(self) -> int:
        """Number of rows that are equal to an earlier one; 0 where that may be by chance."""
        n = len(self.values)
        if n == 0 or sum(f.n_values > 1 for f in self.columns) < 2:
            return 0  # of one column alone, equal rows are rounded values
        place = int(np.argmax([f.n_values for f in self.columns]))
        finest, counted = self.columns[place], np.ones(n, bool)
        if finest.kind is ColumnKind.REPEATED_VALUE:
            # Rows that share it, as where the cell is missing, are equal by chance in the others.
            counted = self.values[:, place] != finest.top_value
        copies, tied = int(self.is_copy[counted].sum()), int(counted.sum()) - finest.n_values
        fewest = max(_FEWEST_COPIES, _COPIES_SHARE * n, _COPIES_AMONG_TIES * tied)
        return copies if finest.n_values >= _FINEST_COLUMN and copies >= fewest else 0


def check_rows(
    rows: Rows, moments: StandardMoments, takes_out: bool = True, known: Outliers | None = None
) -> CheckedRows:
    """The outliers among the rows, and an excerpt of the rows, without them where asked."""
    places, values = rows.excerpt(EXCERPT)
    outliers = known or find_outliers(rows, moments, places, values)
    taken = outliers.places if takes_out else NONE.places
    kept = ~np.isin(places, taken)
    counts = None if rows.row_counts is None else rows.row_counts[places[kept]]
    places = places[kept] - np.searchsorted(taken, places[kept])
    values = values[kept]
    if counts is not None and len(places):
        # As many as can be drawn without copies.
        chosen = proportional_places(counts, int(counts.sum() / counts.max()))
        places, values = places[chosen], values[chosen]
    return CheckedRows(places, values, rows.n_rows - len(taken), outliers)


def joint_of(z: Float, parameters: Parameters) -> Float:
    """Log-densities of the components in rows of standardized features, of shape (r, n)."""
    with np.errstate(over="ignore"):
        features = features_of(z, parameters.blocks)
        return np.asarray(joint_densities(coefficients(parameters), features))
