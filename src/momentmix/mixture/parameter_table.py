"""The parameters of a mixture as a tidy table: one row for each component, column and parameter.

Each column has the parameters of its family (`momentmix.families.family.Family.entries`), ``seen``
where it has missing cells, and the covariance with each column that is joined with it.
All are those of the cells that are seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import MissingDependencyError
from momentmix.families.column import Level
from momentmix.mixture.tables.block_features import column_seen
from momentmix.wording import short_repr

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


@short_repr
@dataclass(frozen=True)
class ColumnValues:
    """A number for each parameter of a mixture, by columns; shapes (r,), (r, d), (r, d).

    Where columns are joined, `covariances` has shape (r, d, d). Of tables with families, `levels`
    has (r, n_levels) for each column of categories by name, or by number where it has none, and
    `seen` has shape (r, d), NaN where no cell is missing.
    """

    weights: Float
    means: Float
    variances: Float
    covariances: Float | None = None
    levels: dict[str | int, Float] | None = None
    seen: Float | None = None


class Place(NamedTuple):
    """Where a parameter stands in `ColumnValues`, and what it is called there.

    Attributes
    ----------
    component : int
    column : str, int or None
        Name or number of the column; both names of a covariance; None for a weight.
    parameter : str
    level : str, int, bool or None
    table : str
        Attribute of `ColumnValues`.
    place : tuple of int
        Of the number there.
    """

    component: int
    column: str | int | None
    parameter: str
    level: Level | None
    table: str
    place: tuple[int, ...]

    def value(self, values: ColumnValues | None) -> float:
        """The number; NaN where there is none."""
        table = None if values is None else getattr(values, self.table)
        if isinstance(table, dict):
            table = table.get(self.column)
        return float("nan") if table is None else float(table[self.place])


def _labels(mixture: Mixture) -> list[str | int]:
    """Names of the columns, or their numbers where they have none."""
    return list(mixture.feature_names or range(mixture.n_columns))


def parameter_places(mixture: Mixture) -> Iterator[Place]:
    """All parameters: component by component its weight, then column by column, then pairs."""
    names = _labels(mixture)
    columns = list(zip(names, mixture.columns, strict=True))
    pairs = [pair for block in mixture.blocks for pair in combinations(block.columns, 2)]
    for i in range(mixture.n_components):
        yield Place(i, None, "weight", None, "weights", (i,))
        for j, (name, column) in enumerate(columns):
            for parameter, level, table, place in column.model.entries(column):
                yield Place(i, name, parameter, level, table, (i, j if place is None else place))
            if column.has_missing:
                yield Place(i, name, "seen", None, "seen", (i, j))
        for j, k in pairs:
            both = f"{names[j]}, {names[k]}"
            yield Place(i, both, "covariance", None, "covariances", (i, j, k))


def values_of(mixture: Mixture) -> ColumnValues:
    """The parameters themselves."""
    levels = {
        name: np.stack(list(mixture.level_probabilities(j).values()), axis=1)
        for j, (name, column) in enumerate(zip(_labels(mixture), mixture.columns, strict=True))
        if column.levels and not column.model.second_level_only
    }
    covariances = mixture.covariances if mixture.parameters.blocks.joined else None
    seen = column_seen(mixture.blocks, mixture.n_columns)
    means, variances = mixture.means, mixture.variances
    return ColumnValues(mixture.weights, means, variances, covariances, levels, seen)


def need_pandas() -> Any:
    """Import pandas, or raise an error that says how to install it."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "to_frame needs pandas, which is not installed: pip install pandas"
        ) from None
    return pd


def parameter_frame(
    mixture: Mixture,
    errors: ColumnValues | None = None,
    low: ColumnValues | None = None,
    high: ColumnValues | None = None,
) -> Any:
    """A pandas frame of all parameters, with standard errors and ends of intervals where known."""
    pd = need_pandas()
    places = list(parameter_places(mixture))
    all_values = [values_of(mixture), errors, low, high]
    numbers = np.array([[place.value(values) for values in all_values] for place in places])
    numbers[np.isnan(numbers[:, 0])] = np.nan  # the component never sees the column
    names = np.array([(place.column, place.level) for place in places], dtype=object)
    return pd.DataFrame(
        {
            "component": [place.component for place in places],
            "column": pd.Series(names[:, 0], dtype=object),
            "parameter": [place.parameter for place in places],
            "level": pd.Series(names[:, 1], dtype=object),
            "estimate": numbers[:, 0],
            "standard_error": numbers[:, 1],
            "low": numbers[:, 2],
            "high": numbers[:, 3],
        }
    )
