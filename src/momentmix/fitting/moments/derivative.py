"""Derivative of the moment conditions by the parameters.

| paper symbol | name here | shape |
|---|---|---|
| ∂ model / ∂ (ω, μ, v, Σ_jk), rows divided by the noise | `derivative` | (n, n_places) |
| JᵀJ | `normal_matrix` | (n_places, n_places) |

A condition is a product of factors, one for each block, so that its derivative is that of a factor
times the others. Parameters are ordered by feature here: weights, means (feature 0 of all
components, feature 1, …), variances, covariances pair by pair; `by_feature` translates.

A condition names at most four of d features. Of many features the product JᵀJ goes over the
conditions that hold each: a sixth of the operations where d is 30.

Differs from the paper: (prob:nls-w mu) is left to a general solver there.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions
from momentmix.mixture.parameters import Parameters, parameters_from

_MANY_GROUPS = 50  # parameters of a component from which most of a table is 0


def by_feature(parameters: Parameters) -> Int:
    """Places in `Parameters.flat` of the parameters ordered by feature, of shape (r + 2rd + …,)."""
    r = parameters.n_components
    places = parameters_from(np.arange(parameters.n_places), r, parameters.blocks)
    tables = [places.means, places.variances, places.covariances]
    return np.concatenate([places.weights, *(table.T.ravel() for table in tables)])


def derivative(
    conditions: Conditions,
    parameters: Parameters,
    noise: Float | None = None,
    with_spread: bool = True,
) -> Float:
    """The derivative at `parameters`, each row divided by its `noise` (by 1 if None).

    Without the spread, that by weights and means.
    """
    monomials, (r, d) = conditions.by_block(parameters.blocks), parameters.means.shape
    moments = monomials.moments_and_slopes(parameters)
    slopes = monomials.slopes if with_spread else monomials.mean_slopes
    others, by_weight = _leave_one_out(moments[monomials.slots.T])
    scale = np.ones((conditions.size, 1)) if noise is None else 1.0 / noise[:, None]
    others *= scale * parameters.weights
    n_groups = parameters.blocks.n_places if with_spread else 1 + d
    table = np.zeros((conditions.size, n_groups, r))
    table[:, 0] = by_weight * scale
    values = others[slopes.slots, slopes.rows] * moments[slopes.monomials]
    values *= slopes.factors[:, None]
    table[slopes.rows, 1 + slopes.columns] = values
    return table.reshape(conditions.size, -1)


def normal_matrix(table: Float, n_components: int) -> Float:
    """JᵀJ of a derivative, parameters ordered by feature."""
    (n, size), r = table.shape, n_components
    if size // r < _MANY_GROUPS:
        return gram(table)
    normal, used = np.zeros((size, size)), table.reshape(n, -1, r).any(axis=2)
    for g, start in enumerate(range(0, size, r)):
        own = table[used[:, g], start:]
        normal[start : start + r, start:] = own[:, :r].T @ own
    return np.triu(normal) + np.triu(normal, 1).T


def gram(table: Float) -> Float:
    """tableᵀ table by a symmetric product, which takes half the operations."""
    if not table.size:  # which BLAS refuses
        return np.zeros((table.shape[1], table.shape[1]))
    # Upper triangle; what is Fortran-ordered is not copied, and rows of it are copied by columns.
    is_fortran = table.strides[0] < table.strides[1]
    half = dsyrk(1.0, table, trans=1) if is_fortran else dsyrk(1.0, table.T)
    return np.asarray(half + np.triu(half, 1).T)


def _leave_one_out(factors: Float) -> tuple[Float, Float]:
    """Products over axis 0 with one factor left out, and the full product: no division."""
    others = np.ones_like(factors)
    np.cumprod(factors[:-1], axis=0, out=others[1:])
    after = factors[-1].copy()
    for t in range(len(factors) - 2, -1, -1):
        others[t] *= after
        after *= factors[t]
    return others, after
