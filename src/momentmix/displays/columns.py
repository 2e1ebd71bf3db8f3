"""Columns of a mixture that are numbers: which they are, and how they vary over all components."""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian import center_and_scale
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.mixture import DiagonalMixture, Mixture
from momentmix.schema.column import GAUSSIAN, POISSON


def numeric_columns(mixture: Mixture) -> list[int]:
    """Numbers of the columns that are numbers or counts."""
    return [j for j, column in enumerate(mixture.columns) if column.family in (GAUSSIAN, POISSON)]


def seen_by_column(mixture: Mixture) -> dict[int, Float]:
    """Probability that a cell is seen in each component, of the columns with missing cells."""
    found: dict[int, Float] = {}
    for block in mixture.blocks:
        if isinstance(block, GaussianBlock) and block.seen_table is not None:
            places = np.flatnonzero(block.has_missing).tolist()
            found |= {block.columns[place]: block.seen_table[:, place] for place in places}
        elif block.seen is not None:
            found[block.columns[0]] = block.seen
    return found


def overall_spread(mixture: Mixture) -> tuple[Float, Float]:
    """Mean and standard deviation of each numeric column over all components, where it is seen."""
    if mixture.schema is None:
        return center_and_scale(mixture)
    seen = seen_by_column(mixture)
    center, scale = np.empty(mixture.n_columns), np.empty(mixture.n_columns)
    for j in range(mixture.n_columns):
        shares = mixture.weights * seen.get(j, 1.0) * ~np.isnan(mixture.means[:, j])
        part = DiagonalMixture(
            shares / shares.sum(),
            np.nan_to_num(mixture.means[:, [j]]),
            np.nan_to_num(mixture.variances[:, [j]]),
        )
        (center[j],), (scale[j],) = center_and_scale(part)
    return center, scale
