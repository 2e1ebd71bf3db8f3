"""Derivative of the moment conditions by the parameters.

| paper symbol | name here | shape |
|---|---|---|
| ∂ model / ∂ (ω, μ, v, Σ_jk), in the order of `Parameters.flat` | `derivative` | (n, n_places) |
| JᵀJ | `normal_matrix` | (n_places, n_places) |

A condition is a product of factors, one for each block, so that its derivative is that of a factor
times the others. It names at most four of d features: of many features the product JᵀJ goes over
the conditions that hold each, a fraction of the operations where d is 30.

Differs from the paper: (prob:nls-w mu) is left to a general solver there.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix._typing import Float
from momentmix.fitting.moments.conditions import Conditions
from momentmix.mixture.parameters import Parameters, component_places

_MANY = 50  # parameters of a component from which most of a table is 0


def derivative(conditions: Conditions, parameters: Parameters) -> Float:
    """The derivative at `parameters`."""
    p, monomials = parameters, conditions.by_block(parameters.blocks)
    moments, slopes = monomials.moments_and_slopes(p), monomials.slopes
    factors = moments[monomials.slots.T]
    others = np.ones_like(factors)  # products with one factor left out: no division
    np.cumprod(factors[:-1], axis=0, out=others[1:])
    after = factors[-1].copy()
    for t in range(len(factors) - 2, -1, -1):
        others[t] *= after
        after *= factors[t]
    places = component_places(p)
    table = np.zeros((conditions.size, p.n_places))
    table[:, places[:, 0]] = after
    values = others[slopes.slots, slopes.rows] * moments[slopes.monomials]
    values *= slopes.factors[:, None] * p.weights
    table[slopes.rows[:, None], places[:, 1 + slopes.columns].T] = values
    return table


def normal_matrix(table: Float, parameters: Parameters) -> Float:
    """JᵀJ of a derivative whose conditions are not mixed."""
    if parameters.blocks.n_places < _MANY:
        return gram(table)
    order, r = component_places(parameters).T.ravel(), parameters.n_components
    by_feature = table[:, order]
    used = by_feature.reshape(len(table), -1, r).any(axis=2)
    half, normal = np.zeros((2, order.size, order.size))
    for g, start in enumerate(range(0, order.size, r)):
        own = by_feature[used[:, g], start:]
        half[start : start + r, start:] = own[:, :r].T @ own
    normal[np.ix_(order, order)] = np.triu(half) + np.triu(half, 1).T
    return normal


def gram(table: Float) -> Float:
    """tableᵀ table by a symmetric product, which takes half the operations."""
    if not table.size:  # which BLAS refuses
        return np.zeros((table.shape[1], table.shape[1]))
    # Upper triangle; what is Fortran-ordered is not copied, and rows of it are copied by columns.
    is_fortran = table.strides[0] < table.strides[1]
    half = dsyrk(1.0, table, trans=1) if is_fortran else dsyrk(1.0, table.T)
    return np.asarray(half + np.triu(half, 1).T)
