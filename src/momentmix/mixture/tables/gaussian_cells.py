"""Missing cells of a Gaussian block given its other cells in the row.

| symbol | name here | shape |
|---|---|---|
| y_K, and NaN for the unknown columns U | ``values`` | (n, k) |
| μ_iU + Σ_iUK Σ_iKK⁻¹ (y_K − μ_iK) | `_means` | (m, r, u) |
| Σ_iUU − Σ_iUK Σ_iKK⁻¹ Σ_iKU | ``rest`` | (r, u, u) |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.mixture.gaussian import semidefinite_roots
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.tables.patterns import rows_by_pattern


class _Unknown(NamedTuple):
    """Rows (m,) with the same unknown columns (u,), their means (m, r, u) and covariances."""

    rows: Int
    columns: Int
    means: Float
    rest: Float


def expected_cells(block: GaussianBlock, values: Float, shares: Float) -> Float:
    """Values with conditional means for NaN, where components have shares (n, r)."""
    filled = values.copy()
    for found in _unknown(block, values):
        means = np.einsum("mr,mru->mu", shares[found.rows], found.means)
        filled[np.ix_(found.rows, found.columns)] = means
    return filled


def drawn_cells(
    block: GaussianBlock, values: Float, labels: Int, rng: np.random.Generator
) -> Float:
    """Values with draws of components (n,) for NaN."""
    filled = values.copy()
    for found in _unknown(block, values):
        own = labels[found.rows]
        roots = _roots(found.rest)
        noise = rng.standard_normal((found.rows.size, found.columns.size))
        drawn = found.means[np.arange(own.size), own] + np.einsum("muv,mv->mu", roots[own], noise)
        filled[np.ix_(found.rows, found.columns)] = drawn
    return filled


def _unknown(block: GaussianBlock, values: Float) -> Iterator[_Unknown]:
    block, gaps = block.known, np.isnan(values)
    numbers = np.arange(len(block.columns))
    block = block.at(tuple(numbers.tolist()), block.names)
    for pattern, rows in rows_by_pattern(gaps, np.asarray(gaps.any(axis=1))):
        unknown, known = numbers[pattern], numbers[~pattern]
        own = np.repeat(block.means[None, :, unknown], rows.size, axis=0)
        rest = block.covariances[:, unknown][:, :, unknown]
        regression = block.regression(known)
        if regression is not None:
            offsets = values[rows][:, None, known] - block.means[:, known]  # (m, r, k)
            own += np.einsum("ruk,mrk->mru", regression.slopes, offsets)
            rest = regression.rest
        yield _Unknown(rows, unknown, own, rest)


def _roots(covariances: Float) -> Float:
    """Roots of covariances (r, u, u); the units of columns may differ by any factor."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    inverse = 1.0 / np.where(deviations > 0, deviations, np.inf)
    roots = semidefinite_roots(covariances * inverse[:, :, None] * inverse[:, None, :])
    return np.asarray(roots * deviations[:, :, None])
