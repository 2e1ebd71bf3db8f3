"""Checks of the numbers that a mixture is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.mixture.blocks import Blocks, blocks_from, matrices_of, spread_of
from momentmix.mixture.parameters import Parameters
from momentmix.tables.names import column_label

# Numbers that were rounded to nine digits are still taken for what they were before.
_ROUNDED = 1e-9

Names = Sequence[str] | None


def checked_parameters(
    weights: Any,
    means: Any,
    variances: Any,
    covariances: Any = None,
    blocks: Blocks | None = None,
    names: Names = None,
) -> Parameters:
    """Parameters as arrays that cannot be written to; raise where they are those of no mixture."""
    weights, means = real_array("weights", weights, 1), real_array("means", means, 2)
    variances = real_array("variances", variances, 2)
    if covariances is not None:
        covariances = real_array("covariances", covariances, 2)
    r = weights.shape[0]
    if r < 1 or means.shape[0] != r or means.shape != variances.shape:
        raise InputError(
            "weights, means and variances must have shapes (r,), (r, d), (r, d) with r ≥ 1; "
            f"got {weights.shape}, {means.shape}, {variances.shape}."
        )
    with np.errstate(over="ignore"):
        total = weights.sum()
    if (weights < 0).any() or abs(total - 1) > 1e-9:
        raise InputError(
            f"weights must be non-negative with sum 1; the least is {weights.min():.4g}, "
            f"the sum {total:.12g}."
        )
    if (variances < 0).any():
        raise InputError(f"variances must be non-negative; got {variances.min():.4g}.")
    checked = Parameters(weights, means, variances, covariances, blocks)
    _check_semidefinite(checked, names)
    return checked


def parameters_of_matrices(
    weights: Any,
    means: Any,
    covariances: Any,
    groups: Iterable[Iterable[int | str]] | None,
    names: Names,
) -> Parameters:
    """Parameters from covariance matrices (r, d, d), checked."""
    matrices, means = real_array("covariances", covariances), real_array("means", means, 2)
    r, d = means.shape
    if matrices.shape != (r, d, d):
        raise InputError(
            f"covariances must have shape ({r}, {d}, {d}), a matrix for each of the means; got "
            f"{matrices.shape}. DiagonalMixture takes variances of shape ({r}, {d})."
        )
    _check_symmetric(matrices)
    blocks = _shown_by_zeros(matrices) if groups is None else blocks_from(groups, d, names)
    between = blocks.block_of[:, None] != blocks.block_of
    outside = np.argwhere(between & (matrices != 0))
    if len(outside):
        i, j, k = outside[0]
        raise InputError(
            "covariances must be 0 between columns of different blocks; component "
            f"{i} has {matrices[i, j, k]:.4g} between {column_label(j, names)} and "
            f"{column_label(k, names)}. Join these columns in one block, or leave blocks out."
        )
    spread = spread_of(matrices, blocks)
    return checked_parameters(weights, means, spread[:, :d], spread[:, d:], blocks, names)


def _check_symmetric(matrices: Float) -> None:
    other = matrices.swapaxes(1, 2)
    unequal = np.argwhere(np.abs(matrices - other) > _ROUNDED * np.abs(matrices))
    if len(unequal):
        i, j, k = unequal[0]
        raise InputError(
            f"covariances must be symmetric; component {i} has {matrices[i, j, k]:.6g} at "
            f"({j}, {k}) and {matrices[i, k, j]:.6g} at ({k}, {j}). Use (c + c.T) / 2 where the "
            "difference is of no meaning."
        )


def _shown_by_zeros(matrices: Float) -> Blocks:
    """Columns that covariances other than 0 connect, directly or by others, as blocks."""
    d = matrices.shape[1]
    touching = (matrices != 0).any(axis=0) | np.eye(d, dtype=bool)
    least = np.arange(d)  # the first column that each one is known to be connected to
    while True:
        spread_on = np.where(touching, least, d).min(axis=1)
        if (spread_on == least).all():
            return Blocks.of(d, [np.flatnonzero(least == j).tolist() for j in range(d)])
        least = spread_on


def _check_semidefinite(p: Parameters, names: Names) -> None:
    """Raise where the correlations of a block have a negative eigenvalue."""
    for features, places in p.blocks.places:
        matrices = matrices_of(p.spread, places)
        unit = np.sqrt(p.variances[:, features])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            correlations = matrices / unit[:, :, None] / unit[:, None, :]
        correlations = np.where(matrices == 0, 0.0, correlations)  # variance 0: all must be 0
        least = np.array([_least_eigenvalue(matrix) for matrix in correlations])
        if (least < -_ROUNDED).any():
            i = int(least.argmin())
            listed = ", ".join(column_label(int(j), names) for j in features[:8])
            raise InputError(
                f"covariances must be positive semidefinite; those of component {i} in {listed}"
                f"{', …' if features.size > 8 else ''} are not: their correlations have the "
                f"eigenvalue {least[i]:.4g}. Check the numbers, or set negative eigenvalues to 0."
            )


def _least_eigenvalue(matrix: Float) -> float:
    """The least eigenvalue of correlations, or what is negative where one is beyond 1."""
    if not (np.abs(matrix) <= 1 + _ROUNDED).all():
        return float(1 - min(np.abs(matrix).max(), 1e300))
    return float(np.linalg.eigvalsh(matrix)[0])
