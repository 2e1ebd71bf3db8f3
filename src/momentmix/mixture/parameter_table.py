"""The table of parameters: `Mixture.to_frame`, reports, pictures and print-outs read it.

Each column has the parameters of its family (`momentmix.families.family.Family.entries`), ``seen``
where it has missing cells, and the covariance with each column that is joined with it.
All are those of the cells that are seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.families.column import Level
from momentmix.mixture.columns import column_seen
from momentmix.wording import short_repr

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


@short_repr
@dataclass(frozen=True)
class ColumnValues:
    """A number for each parameter of a mixture, by columns; shapes (r,), (r, d), (r, d).

    Where columns are joined, `covariances` has shape (r, d, d). Of tables with families, `levels`
    has (r, n_levels) for each column of categories by name, or by number where it has none;
    (r, 1), the dispersions 1 / size, for each column of negative binomial counts. `seen` has shape
    (r, d), NaN where no cell is missing.
    """

    weights: Float
    means: Float
    variances: Float
    covariances: Float | None = None
    levels: dict[str | int, Float] | None = None
    seen: Float | None = None


@short_repr
@dataclass(frozen=True)
class Intervals:
    """Lower and upper ends of intervals in the units of the data, by default of 95 %.

    `covariances`, `levels` and `seen` as for `ColumnValues`.
    """

    weights: tuple[Float, Float]
    means: tuple[Float, Float]
    variances: tuple[Float, Float]
    covariances: tuple[Float, Float] | None = None
    levels: dict[str | int, tuple[Float, Float]] | None = None
    seen: tuple[Float, Float] | None = None


class Parameter(NamedTuple):
    """One parameter: its numbers in all components, (r,), NaN where they are not known."""

    name: str  # "weight", "mean", "variance", "deviation", "rate", "probability", "seen", …
    columns: tuple[int, ...]  # none for a weight, two for a covariance, else one
    level: Level | None
    level_text: str  # for people; empty where 1 stands for yes
    label: str  # for people: ``plan=gold``, ``age seen``, ``log income``
    estimate: Float
    standard_error: Float
    low: Float
    high: Float


class ParameterTable:
    """All parameters of a mixture, with standard errors and intervals where known."""

    def __init__(
        self,
        mixture: Mixture,
        errors: ColumnValues | None = None,
        intervals: Intervals | None = None,
    ) -> None:
        m = mixture
        self.mixture, self.errors, self.intervals = m, errors, intervals
        self.names, self.labels = column_names(m), value_names(m)
        self.keys: Sequence[str | int] = m.feature_names or range(m.n_columns)
        levels = {
            self.keys[j]: np.stack(list(m.level_probabilities(j).values()), axis=1)
            for j, column in enumerate(m.columns)
            if column.levels and column.model.n_levels != 2
        }
        levels |= {self.keys[b.columns[0]]: b.others for b in m.blocks if b.others.size}
        covariances = m.covariances if m.parameters.blocks.joined else None
        seen = column_seen(m.blocks, m.n_columns)
        self._values = ColumnValues(m.weights, m.means, m.variances, covariances, levels, seen)

    def _row(
        self, name: str, columns: tuple[int, ...], label: str, table: str, *place: int
    ) -> Parameter:
        """The numbers at a place of an attribute of `ColumnValues`."""
        numbers = np.full((4, self.mixture.n_components), np.nan)
        for rows, values in ((0, self._values), (1, self.errors), ([2, 3], self.intervals)):
            array: Any = getattr(values, table, None)
            if isinstance(array, dict):  # files write numbers of columns as text
                key = self.keys[columns[0]]
                array = array.get(key, array.get(str(key)))
            if array is not None:
                index: Any = (..., slice(None), *place)
                numbers[rows] = np.asarray(array)[index]
        numbers[1:, np.isnan(numbers[0])] = np.nan
        return Parameter(name, columns, None, "", label, *numbers)

    def weights(self) -> Parameter:
        """Weights of the components."""
        return self._row("weight", (), "weight", "weights")

    def of_column(self, j: int) -> list[Parameter]:
        """Parameters of a column."""
        rows, column = [], self.mixture.columns[j]
        is_answer = column.model.n_levels == 2 and column.levels == (0, 1)
        places: list[tuple[str, Level | None, str, int]] = [
            (name, column.levels[1] if column.levels else None, table, j)
            for name, table in zip(column.model.entries, ("means", "variances"), strict=False)
        ]
        places += [(x, None, "levels", k) for k, x in enumerate(column.model.entries[2:])]
        places = places or [("probability", x, "levels", k) for k, x in enumerate(column.levels)]
        for name, level, table, place in places:
            text = "" if level is None or is_answer else str(level)
            label = f"{self.labels[j]}={text}" if text else self.labels[j]
            row = self._row(name, (j,), label, table, place)
            rows.append(row._replace(level=level, level_text=text))
        if column.has_missing:
            rows.append(self._row("seen", (j,), f"{self.names[j]} seen", "seen", j))
        return rows

    def mean(self, j: int) -> Parameter:
        """Means of a column, whatever its parameters are."""
        return self._row("mean", (j,), self.labels[j], "means", j)

    def deviation(self, j: int) -> Parameter:
        """Standard deviations of a column, whatever its parameters are."""
        v = self._row("deviation", (j,), self.labels[j], "variances", j)
        deviation = np.sqrt(v.estimate)
        error = v.standard_error / (2 * np.maximum(deviation, 1e-300))
        return Parameter(*v[:5], deviation, error, np.sqrt(v.low), np.sqrt(v.high))

    def _covariance(self, j: int, k: int) -> Parameter:
        label = f"{self.labels[j]}, {self.labels[k]}"
        return self._row("covariance", (j, k), label, "covariances", j, k)

    def correlations(self, most: int) -> list[tuple[Parameter, Float]]:
        """Covariances and correlations of joined columns, the strongest first, at most so many."""
        deviations = np.sqrt(self.mixture.variances)
        pairs = []
        for j, k in self._pairs():
            covariance = self._covariance(j, k)
            with np.errstate(invalid="ignore"):  # NaN where a deviation is 0
                correlation = covariance.estimate / (deviations[:, j] * deviations[:, k])
            pairs.append((covariance, correlation))
        pairs.sort(key=lambda pair: -np.nanmax(np.abs(np.append(pair[1], 0.0))))
        return pairs[:most]

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of joined columns."""
        for block in self.mixture.blocks:
            yield from combinations(block.columns, 2)

    def rows(self) -> list[Parameter]:
        """All parameters: weights, then column by column, then pairs."""
        of_columns = [p for j in range(self.mixture.n_columns) for p in self.of_column(j)]
        pairs = [self._covariance(j, k) for j, k in self._pairs()]
        return [self.weights(), *of_columns, *pairs]

    def to_frame(self) -> Any:
        """A pandas frame with one row for each component and parameter."""
        import pandas as pd

        rows, r = self.rows(), self.mixture.n_components
        texts = np.empty((len(rows), 3), dtype=object)
        for k, p in enumerate(rows):
            names = [self.keys[j] for j in p.columns]
            column = names[0] if len(names) == 1 else ", ".join(map(str, names)) or None
            texts[k] = column, p.name, p.level
        column, parameter, level = np.tile(texts, (r, 1)).T
        numbers = np.stack([p[5:] for p in rows]).transpose(2, 0, 1).reshape(-1, 4)
        return pd.DataFrame(
            {
                "component": np.repeat(np.arange(r), len(rows)),
                "column": pd.Series(column, dtype=object),
                "parameter": parameter.astype(str),
                "level": pd.Series(level, dtype=object),
                **dict(zip(("estimate", "standard_error", "low", "high"), numbers.T, strict=True)),
            }
        )


# -- columns of a mixture -----------------------------------------------------------------------


def column_names(mixture: Mixture) -> list[str]:
    """Names of the features, or columns of a table; their numbers if they have none."""
    noun = "feature" if mixture.schema is None else "column"
    return list(mixture.feature_names or (f"{noun} {j}" for j in range(mixture.n_columns)))


def value_names(mixture: Mixture) -> list[str]:
    """Names of what means and spreads are of: ``log income`` where a column has a transform."""
    pairs = zip(mixture.columns, column_names(mixture), strict=True)
    return [column.value_name(name) for column, name in pairs]


def joined_columns(mixture: Mixture) -> list[str]:
    """Names of the columns of each block of several, in one text each."""
    names = value_names(mixture)
    joined = [block.columns for block in mixture.blocks if len(block.columns) > 1]
    return [", ".join(names[j] for j in columns) for columns in joined]


def numeric_columns(mixture: Mixture) -> list[int]:
    """Numbers of the columns that are numbers or counts."""
    return [j for j, column in enumerate(mixture.columns) if not column.levels]


def overall_spread(mixture: Mixture) -> tuple[Float, Float]:
    """Mean and standard deviation of each column over all components, where it is seen."""
    seen = np.nan_to_num(column_seen(mixture.blocks, mixture.n_columns), nan=1.0)
    means, variances = np.nan_to_num(mixture.means), np.nan_to_num(mixture.variances)
    shares = mixture.weights[:, None] * seen * ~np.isnan(mixture.means)
    shares /= np.maximum(shares.sum(axis=0), 1e-300)
    center = (shares * means).sum(axis=0)
    unit = np.maximum(np.abs(means - center), np.sqrt(variances)).max(axis=0)
    unit = np.where(unit > 0, unit, 1.0)  # no square overflows
    squares = (np.sqrt(variances) / unit) ** 2 + ((means - center) / unit) ** 2
    spread = (shares * squares).sum(axis=0)
    return center, unit * np.sqrt(np.where(spread > 0, spread, 1.0))
