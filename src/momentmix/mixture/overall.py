"""Columns of a mixture: names, which are numbers, and how these vary over all components."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian import center_and_scale
from momentmix.mixture.tables.block_features import column_seen

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


class _Part(NamedTuple):
    """One column of the components that see it."""

    weights: Float
    means: Float
    variances: Float


def column_names(mixture: Mixture) -> list[str]:
    """Names of the features, or columns of a table; their numbers if they have none."""
    noun = "feature" if mixture.schema is None else "column"
    return list(mixture.feature_names or (f"{noun} {j}" for j in range(mixture.n_columns)))


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
        part = _Part(
            shares / total if total > 0 else shares,
            np.nan_to_num(mixture.means[:, [j]]),
            np.nan_to_num(mixture.variances[:, [j]]),
        )
        (center[j],), (scale[j],) = center_and_scale(part)
    return center, scale
