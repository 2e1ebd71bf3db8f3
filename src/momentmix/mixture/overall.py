"""Columns of a mixture: names, which are numbers, and how these vary over all components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian import center_and_scale
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import column_seen

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


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
    if mixture.schema is None:
        return center_and_scale(mixture)
    seen = np.nan_to_num(column_seen(mixture.blocks, mixture.n_columns), nan=1.0)
    center, scale = np.empty(mixture.n_columns), np.empty(mixture.n_columns)
    for j in range(mixture.n_columns):
        shares = mixture.weights * seen[:, j] * ~np.isnan(mixture.means[:, j])
        total = shares.sum()
        part = Parameters(
            shares / total if total > 0 else shares,
            np.nan_to_num(mixture.means[:, [j]]),
            np.nan_to_num(mixture.variances[:, [j]]),
        )
        (center[j],), (scale[j],) = center_and_scale(part)
    return center, scale
