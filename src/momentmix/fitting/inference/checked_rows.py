"""An excerpt of the rows of a fit: facts about its columns, and the columns against the mixture.

| symbol | name here |
|---|---|
| F_j(y): distribution function of column j under the mixture | `marginal_distribution` |
| D = max over y of the difference between F_j and that of the rows | ``distance`` |
| rows with F_j or 1 − F_j below 1e-5 | ``n_far`` |

√n D has Kolmogorov's law if the parameters come from many other rows. If they were fitted to the
same rows, D is smaller: by a factor of 1.5 to 1.6 for one Gaussian (Lilliefors 1967); of 1,502
columns of mixtures of one to six components, 1 % were above 0.90 and none above 1.11 (Kolmogorov's
law: 1 % above 1.63). Values on a grid are compared half-way between neighbors, where rounding
changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import kolmogorov, ndtr, ndtri, pdtrc

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.monomial_covariance import MomentSpread
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.outliers import NONE, Outliers, find_outliers
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
_COPIES_ALONE = 0.5  # as many of rows without neighbors as of all; 0.1 of counts, 0.6 if doubled
_EVEN_STEPS = 0.05  # relative deviation of the steps between row numbers; a sorted column has 1
CHANCE = 1e-4  # that a column of a right mixture is named
LEAST_DISTANCE = 0.015  # real columns are never exactly Gaussian; less changes little
FITTED = 1.4  # times as large is D of rows that the parameters were not fitted to, at least
_ENDS, _BETWEEN = 200, 1600  # values that are compared: distances to 1e-3, tails exactly
_IN_TAIL = 1e-5  # probability beyond, on either side
_FEWEST_FAR = 3  # rows in the tails; one or two are outliers


class ColumnKind(Enum):
    """The kind of a column that is not continuous."""

    CONTINUOUS = "continuous"
    FEW_VALUES = "few values"
    REPEATED_VALUE = "repeated value"
    ROUNDED = "rounded"
    ROW_NUMBER = "row number"


@dataclass(frozen=True)
class CheckedColumn:
    """Facts about one column, from an excerpt of the rows."""

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


def check_column(column: Float, places: Int) -> CheckedColumn:
    """Facts about the values of a column in some rows, whose numbers ascend."""
    values, counts = np.unique(column, return_counts=True)
    n, n_values = len(column), len(values)
    steps = np.diff(column)
    is_sorted = n > 2 and bool((steps >= 0).all() or (steps <= 0).all())
    common = np.partition(counts, n_values - 2)[-2:] if n_values > 1 else np.array([0, n])
    top = int(counts.argmax())
    grid = _grid(values) if (n - (counts == 1).sum()) > _TIED_SHARE * n else 0.0
    kind = ColumnKind.CONTINUOUS
    even = steps[np.diff(places) == 1]
    if (
        is_sorted  # before the deviation, which overflows where values of 1e153 change sign
        and len(even) > 1
        and even.any()
        and even.std() <= _EVEN_STEPS * abs(even.mean())
    ):
        kind = ColumnKind.ROW_NUMBER
    elif n_values <= _FEW_VALUES and n >= _ROWS_A_VALUE * n_values:
        kind = ColumnKind.FEW_VALUES
    elif common[1] >= max(_ATOM_ROWS, _ATOM_SHARE * n, _ATOM_RATIO * common[0]):
        kind = ColumnKind.REPEATED_VALUE
    elif grid > 0:
        kind = ColumnKind.ROUNDED
    return CheckedColumn(
        kind, float(values[top]), float(counts[top]) / n, grid, is_sorted, values, counts
    )


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
    is_everywhere: bool  # whether the excerpt reaches from the first row to the last
    outliers: Outliers = NONE
    # All rows (m, n_columns) and what they count as (m,), where weights are not frequencies.
    weighted: tuple[Float, Float] | None = None

    @property
    def is_all(self) -> bool:
        """Whether the excerpt holds all rows."""
        return len(self.places) == self.n_rows

    def noise(self, moments: StandardMoments) -> MomentSpread | None:
        """The spread of moments of weighted rows; None for rows without weights."""
        if self.weighted is None:
            return None
        values, counts = self.weighted
        features = (values[:, moments.columns] - moments.shift) / moments.scale
        return MomentSpread(features, counts, self.n_rows)

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
                is_seen = seen > 0
                facts = check_column(value[is_seen], self.places[is_seen])
                grids[moments.columns[law.features[0]]] = facts.grid
        return grids

    @lazy_property
    def is_copy(self) -> NDArray[np.bool_]:
        """Which rows are equal to an earlier one, of shape (n,)."""
        n = len(self.values)
        if any(facts.n_values == n for facts in self.columns):
            return np.zeros(n, bool)
        values = np.ascontiguousarray(self.values + 0.0)  # −0 + 0 is 0
        keys = values.view(np.dtype((np.void, values.itemsize * values.shape[1]))).ravel().tolist()
        first: dict[Any, int] = {}
        return np.array([first.setdefault(key, i) != i for i, key in enumerate(keys)], np.bool_)

    @lazy_property
    def n_duplicates(self) -> int:
        """Number of rows that are equal to an earlier one; 0 where that may be by chance."""
        n = len(self.values)
        if n == 0 or sum(f.n_values > 1 for f in self.columns) < 2:
            return 0  # of one column alone, equal rows are rounded values
        place = int(np.argmax([f.n_values for f in self.columns]))
        finest = self.columns[place]
        copies, tied = int(self.is_copy.sum()), n - finest.n_values
        if finest.kind is ColumnKind.REPEATED_VALUE:
            # Rows that share it, as where the cell is missing, are equal by chance in the others.
            is_common = self.values[:, place] == finest.top_value
            copies -= int((self.is_copy & is_common).sum())
            tied -= max(0, int(is_common.sum()) - 1)
        fewest = max(_FEWEST_COPIES, _COPIES_SHARE * n, _COPIES_AMONG_TIES * tied)
        if finest.n_values < _FINEST_COLUMN or copies < fewest:
            return 0
        return 0 if self._is_by_chance(place) else copies

    def _is_by_chance(self, place: int) -> bool:
        """Whether equal rows are mostly those that differ in one column alone from many others.

        Most counts are small, so that many rows are equal. Rows that were entered twice are equal
        as often where no row with the next or the last value of the column agrees in all others.
        """
        keys = np.delete(self.values, place, axis=1) + 0.0, self.values[:, [place]]
        key, value = (np.unique(x, axis=0, return_inverse=True)[1].ravel().tolist() for x in keys)
        counts = Counter(zip(value, key, strict=True))
        alone = [n for (v, k), n in counts.items() if not {(v - 1, k), (v + 1, k)} & counts.keys()]
        share = (sum(alone) - len(alone)) / max(sum(alone), 1)
        return share < _COPIES_ALONE * float(self.is_copy.mean())


def check_rows(
    rows: Rows, moments: StandardMoments, takes_out: bool = True, known: Outliers | None = None
) -> CheckedRows:
    """The outliers among the rows, and an excerpt of the rows, without them where asked."""
    places, values = rows.excerpt(EXCERPT)
    outliers = known or find_outliers(rows, moments, places, values)
    taken, weighted = outliers.places if takes_out else NONE.places, None
    kept = ~np.isin(places, taken)
    counts = None if rows.row_counts is None else rows.row_counts[places[kept]]
    places = places[kept] - np.searchsorted(taken, places[kept])
    values, n_rows = values[kept], rows.n_rows - len(taken)
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


# -- columns against the mixture -------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnShape:
    """How a column of the rows differs from the fitted mixture."""

    distance: float  # the largest between the distribution functions of rows and mixture
    p_value: float  # of that distance, by Kolmogorov's law
    n_far: int  # rows in tails where the mixture expects one in 50,000
    far_p_value: float  # of so many rows
    skewness_gap: float  # of the normal scores, which are standard normal if the model is right
    kurtosis_gap: float

    @property
    def is_other(self) -> bool:
        """Whether the column does not follow the mixture, beyond chance and by an amount."""
        return self.p_value < CHANCE and self.distance > LEAST_DISTANCE

    @property
    def is_heavy(self) -> bool:
        """Whether more rows lie in the tails than chance explains."""
        return self.n_far >= _FEWEST_FAR and self.far_p_value < CHANCE


def marginal_distribution(parameters: Parameters, j: int, values: Float) -> Float:
    """Distribution function of feature j under the mixture."""
    deviations = np.sqrt(parameters.variances[:, j])
    below = np.zeros(len(values))
    # One component at a time: a table of all of them would not fit the cache.
    for weight, mean, deviation in zip(
        parameters.weights, parameters.means[:, j], deviations, strict=True
    ):
        below += weight * ndtr((values - mean) / deviation)
    return below


def compare_column(
    facts: CheckedColumn,
    shift: float,
    scale: float,
    parameters: Parameters,
    j: int,
    n: float,
    fitted_to_these: bool,
) -> ColumnShape:
    """A column against feature j of the mixture of standardized features."""
    values, counts, n_values = facts.values, facts.counts, facts.n_values
    if n_values > 2 * _ENDS + _BETWEEN:  # both ends; a value between stands for others up to it
        inner = np.linspace(_ENDS, n_values - _ENDS - 1, _BETWEEN).astype(np.int64)
        chosen = np.concatenate([np.arange(_ENDS), inner, np.arange(n_values - _ENDS, n_values)])
        values, counts = values[chosen], np.diff(np.cumsum(counts)[chosen], prepend=0)
    z = (values - shift) / scale
    below = marginal_distribution(parameters, j, z)
    if facts.grid > 0:
        between = marginal_distribution(parameters, j, (z[1:] + z[:-1]) / 2)
    else:
        between = (below[1:] + below[:-1]) / 2
    share = np.cumsum(counts)[:-1] / counts.sum()
    distance = float(np.abs(share - between).max(initial=0.0))
    n_far = int(counts[np.minimum(below, 1 - below) < _IN_TAIL].sum())
    scores = ndtri(np.clip(below, 1e-9, 1 - 1e-9))
    weights = counts / counts.sum()
    center = weights @ scores
    spread = max(float(weights @ (scores - center) ** 2), 1e-12)
    third, fourth = (weights @ (scores - center) ** p / spread ** (p / 2) for p in (3, 4))
    return ColumnShape(
        distance,
        float(kolmogorov(np.sqrt(n) * distance * (FITTED if fitted_to_these else 1.0))),
        n_far,
        float(pdtrc(n_far - 1, 2 * _IN_TAIL * n) if n_far else 1.0),
        float(third),
        float(fourth - 3),
    )
