"""Checks of rows before a fit: outliers, which the fit leaves out, and an excerpt of the others.

`row_findings` (``row_findings.py``) compares the excerpt with the fitted mixture.

| symbol | name here |
|---|---|
| x₁ ≥ x₂ ≥ …: distances from the column's median, largest first | ``distances`` |
| i · log(x_i / x_{i+1}) | ``spacings[i - 1]`` |
| γ_i: mean of the spacings i+1 … i+k (Hill's estimate), without the largest | ``tail`` |

A row is left out only if all of this holds. It is far: `_FAR` robust deviations from the median. It
lies beyond a gap that the tail of the column does not explain: in a tail like x^(−1/γ) the ratio
of a spacing and γ_i has about the law F(2, 2k), whatever γ, so that a Cauchy column keeps its rows;
in lighter tails (normal, exponential, lognormal) it is smaller. It is alone: fewer than
`_COMPANIONS` other rows beyond the gap are near it, so that a light cluster stays. And such rows
are few.

One such row can be as large as all others together: deviations, and with them the variance floor
and the standardized features, would say nothing about the other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.conditions.monomial_covariance import MomentSpread
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.density import joint_densities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import Rows
from momentmix.tables.weights import proportional_places

EXCERPT = 20_000  # rows: enough for shapes and shares, and a small part of a fit's time
_FEW_VALUES = 20  # different values of a column that counts or codes something
_ROWS_A_VALUE = 10  # at least, of a column with few values: else there are few rows, not few values
_ATOM_SHARE = 0.02  # of the rows, that one value holds
_ATOM_ROWS = 10  # that one value holds at least
_ATOM_RATIO = 5.0  # of its rows to those of the next value: neighbors on a grid hold about as many
_ON_GRID = 1e-6  # of the grid's width: rounding errors of decimal numbers
_TIED_SHARE = 0.3  # of the rows share their value with another row, on a grid that matters
_EVEN_STEPS = 0.05  # relative deviation of the steps between row numbers; a sorted column has 1
# Of outliers
_FEWEST_ROWS = 30  # with fewer, no tail can be told from an outlier
_FAR = 10.0  # robust standard deviations; normal rows reach 6 by chance
_CHANCE = 1e-2  # of a gap in the tail of one column, if it is the heaviest (Cauchy); else less
_LIGHTEST_TAIL = 0.07  # of γ: a row is at least about twice as far as the next one to be left out
_COMPANIONS = 4  # rows near a row that make it part of a cluster: five have a mean and a spread
# Near: in parts of the distance from the median (a cluster 100 deviations away may have a spread of
# 10), and in robust deviations (scattered rows are not near each other because they are many).
_NEAR, _NEAR_IN_DEVIATIONS = 0.1, 50.0
_SHARE, _MOST = 0.01, 100  # of the rows, beyond a gap in one column
_SHARE_IN_ALL = 0.05  # of the rows, in all columns; more are no exceptions
_FEWEST_IN_TAIL = 8  # rows that tell a tail
# Quantiles of the distance from the median, and of a normal law's: the median absolute deviation,
# and wider ones for columns that hold one value in half of the rows or more.
_QUANTILES = ((0.5, 0.674), (0.8, 1.282), (0.95, 1.960), (0.99, 2.576))


# -- outliers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outliers:
    """Rows that lie alone and far away."""

    places: Int  # numbers of the rows, ascending; empty if so many were found that all are kept
    columns: Int  # in which each row is farthest from the others
    values: Float  # there
    n_found: int

    def findings(self, moments: StandardMoments) -> list[Finding]:
        """Return one finding if there are outliers, with the columns of `moments`."""
        if not self.n_found:
            return []
        columns = [moments.part(j).column for j in self.columns.tolist()]
        rows = list(zip(self.places.tolist(), self.values.tolist(), columns, strict=True))
        names = list(dict.fromkeys(columns))
        return [found(FATAL, "outlier-rows", names, n_rows=self.n_found, outliers=rows)]


NONE = Outliers(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), 0)


def find_outliers(rows: Rows, moments: StandardMoments, places: Int, values: Float) -> Outliers:
    """Outliers among all rows, from an excerpt of them (`places`, `values`) and the column bounds.

    Only where the bounds lie far beyond the excerpt, or the excerpt itself has outliers, are all
    rows looked at.
    """
    n_rows, n = rows.n_rows, len(values)
    if n < _FEWEST_ROWS:
        return NONE
    far_rows: dict[int, tuple[float, int, float]] = {}
    n_tail = _n_beyond(n_rows) + _n_tail(n_rows) + 1
    columns = np.ascontiguousarray(values.T)
    for j in np.flatnonzero(~moments.constant & moments.is_number).tolist():
        median = float(np.median(columns[j]))
        distances = np.abs(columns[j] - median)
        scale = robust_scale(distances)
        k = _n_tail(n_rows * float((distances > 0).mean()))
        # As deep in the excerpt as the tail of all rows that is compared, with a margin.
        depth = min(n, max(8, int(np.ceil(2 * n_tail * n / n_rows))))
        inner = np.partition(distances, n - depth)[n - depth]
        farthest = max(moments.maximum[j] - median, median - moments.minimum[j])
        if farthest <= max(_FAR * scale, 2.0 * inner):
            continue
        numbers, column = places, columns[j]
        if n < n_rows:
            collected = _beyond(rows, j, median, inner, 40 * n_tail)
            if collected is None:  # the excerpt is not like the other rows
                continue
            numbers, column = collected
            distances = np.abs(column - median)
        for i in _alone(distances, column, scale, n_rows, k).tolist():
            row, far = int(numbers[i]), float(distances[i] / scale)
            if row not in far_rows or far > far_rows[row][0]:
                far_rows[row] = far, j, float(column[i])
    kept = sorted(far_rows) if len(far_rows) <= max(1, _SHARE_IN_ALL * n_rows) else []
    return Outliers(
        np.array(kept, np.int64),
        np.array([far_rows[row][1] for row in kept], np.int64),
        np.array([far_rows[row][2] for row in kept], float),
        len(far_rows),
    )


def robust_scale(distances: Float) -> float:
    """Standard deviation of a column from the distances to its median, whatever a few rows hold.

    The median absolute deviation; where it is 0, wider quantiles, and in the end the mean of the
    distances that are not 0.
    """
    for share, normal in _QUANTILES:
        quantile = float(np.quantile(distances, share))
        if quantile > 0:
            return quantile / normal
    positive = distances[distances > 0]
    return float(positive.mean()) if positive.size else 0.0


def _n_beyond(n_rows: int) -> int:
    """Rows beyond a gap at most."""
    return max(1, min(_MOST, int(_SHARE * n_rows)))


def _n_tail(n_rows: float) -> int:
    """Spacings before a gap that tell the tail, of so many rows that are not at the median."""
    return int(np.clip(n_rows / 8, _FEWEST_IN_TAIL, 50))


def _beyond(
    rows: Rows, column: int, median: float, distance: float, most: int
) -> tuple[Int, Float] | None:
    """Numbers and values of all rows farther from the median; None if they are more than `most`."""
    numbers: list[Int] = []
    values: list[Float] = []
    start = count = 0
    for block in rows.blocks():
        here = np.flatnonzero(np.abs(block[:, column] - median) >= distance)
        numbers.append(here + start)
        values.append(np.asarray(block[here, column], dtype=np.float64))
        start, count = start + len(block), count + len(here)
        if count > most:
            return None
    return np.concatenate(numbers), np.concatenate(values)


def _alone(distances: Float, column: Float, scale: float, n_rows: int, n_tail: int) -> Int:
    """Which entries lie beyond a gap in the tail, and without company."""
    order = np.argsort(-distances, kind="stable")
    sorted_distances = distances[order]
    beyond = order[: _n_beyond_gap(sorted_distances, _FAR * scale, n_rows, n_tail)]
    gaps = np.abs(column[beyond, None] - column[None, beyond])
    reach = np.minimum(_NEAR * distances[beyond], _NEAR_IN_DEVIATIONS * scale)
    companions = (gaps <= reach[:, None]).sum(axis=1) - 1  # but for the row itself
    return np.asarray(beyond[companions < _COMPANIONS])


def _n_beyond_gap(distances: Float, far: float, n_rows: int, n_tail: int) -> int:
    """How many of the sorted distances lie beyond the innermost gap that the tail cannot explain.

    The loop starts at the innermost: rows far away together hide each other's gaps.
    """
    positive = distances[distances > 0]
    spacings = np.arange(1, len(positive)) * -np.diff(np.log(_apart(positive)))
    most = _n_beyond(n_rows)
    for i in range(min(most, len(spacings) - _FEWEST_IN_TAIL), 0, -1):
        inner = spacings[i : i + n_tail]
        k = len(inner)
        # Without the largest, which may be the way from the bulk of the rows to a cluster.
        tail = (inner.sum() - inner.max()) / (k - (1.0 / np.arange(1, k + 1)).sum())
        # What F(2, 2k) exceeds with this chance; the two terms less allow for that largest one.
        limit = (k - 2) * ((_CHANCE / most) ** (-1 / (k - 2)) - 1)
        if positive[i - 1] > far and spacings[i - 1] > limit * max(tail, _LIGHTEST_TAIL):
            return i
    return 0


def _apart(distances: Float) -> Float:
    """Sorted distances above 0 as before rounding: equal ones spread over a cell of the grid.

    Between the rows of two counts there is otherwise a gap, after many spacings of 0.

    Examples
    --------
    >>> _apart(np.array([3.0, 2.0, 2.0, 2.0, 1.0])).tolist()
    [3.0, 2.25, 2.0, 1.75, 1.0]
    """
    values, first, counts = np.unique(-distances, return_index=True, return_counts=True)
    if len(values) < 2 or len(values) == len(distances):
        return distances
    place = np.arange(len(distances)) - np.repeat(first, counts) + 1.0  # within its value, from 1
    share = 0.5 - place / (np.repeat(counts, counts) + 1.0)
    cell = min(float(np.diff(values).min()), float(distances[-1]))  # all stay above 0
    return np.asarray(distances + cell * share)


# -- columns and rows of the excerpt ---------------------------------------------------------------


class ColumnKind(Enum):
    """What a column is, where it is not continuous."""

    CONTINUOUS = "continuous"
    FEW_VALUES = "few values"
    REPEATED_VALUE = "repeated value"
    ROUNDED = "rounded"
    ROW_NUMBER = "row number"


@dataclass(frozen=True)
class ColumnFacts:
    """What an excerpt of the rows shows of one column."""

    kind: ColumnKind
    top_value: float  # the most frequent one
    top_share: float  # of the rows, that have it
    grid: float  # distance of neighboring values of a column of rounded or few values; else 0
    is_sorted: bool  # whether the values ascend or descend from row to row
    values: Float  # the different ones, ascending, of shape (n_values,)
    counts: Int  # how often each occurs, of shape (n_values,)

    @property
    def n_values(self) -> int:
        """Number of different values."""
        return len(self.values)


def check_column(column: Float, places: Int) -> ColumnFacts:
    """Facts about the values of a column in some rows, whose numbers ascend."""
    values, counts = np.unique(column, return_counts=True)
    n, n_values = len(column), len(values)
    steps = np.diff(column)
    is_sorted = n > 2 and bool((steps >= 0).all() or (steps <= 0).all())
    common = np.partition(counts, n_values - 2)[-2:] if n_values > 1 else np.array([0, n])
    top = int(counts.argmax())
    grid = _grid(values) if (n - (counts == 1).sum()) > _TIED_SHARE * n else 0.0
    kind = ColumnKind.CONTINUOUS
    if is_sorted and _steps_evenly(column, places):
        kind = ColumnKind.ROW_NUMBER
    elif n_values <= _FEW_VALUES and n >= _ROWS_A_VALUE * n_values:
        kind = ColumnKind.FEW_VALUES
    elif common[1] >= max(_ATOM_ROWS, _ATOM_SHARE * n, _ATOM_RATIO * common[0]):
        kind = ColumnKind.REPEATED_VALUE
    elif grid > 0:
        kind = ColumnKind.ROUNDED
    return ColumnFacts(
        kind, float(values[top]), float(counts[top]) / n, grid, is_sorted, values, counts
    )


def _steps_evenly(column: Float, places: Int) -> bool:
    """Whether the values grow by nearly the same from each row to the next."""
    adjacent = np.diff(places) == 1
    steps = np.diff(column)[adjacent]
    if len(steps) < 2 or not steps.any():
        return False
    return bool(steps.std() <= _EVEN_STEPS * abs(steps.mean()))


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
