"""Derivative of the moment conditions by the parameters.

| paper symbol | name here | shape |
|---|---|---|
| ∂ model / ∂ (ω, μ, v, Σ_jk), in the order of `Parameters.flat` | `derivative` | (n, n_places) |
| JᵀJ | `gram` | (n_places, n_places) |

A condition is a product of factors, one for each block, so that its derivative is that of a factor
times the others.

Differs from the paper: (prob:nls-w mu) is left to a general solver there.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix._typing import Float
from momentmix.fitting.moments.conditions import Conditions
from momentmix.mixture.parameters import Parameters, component_places


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


def gram(table: Float) -> Float:
    """tableᵀ table by a symmetric product, which takes half the operations."""
    if not table.size:  # which BLAS refuses
        return np.zeros((table.shape[1], table.shape[1]))
    # Upper triangle; what is Fortran-ordered is not copied, and rows of it are copied by columns.
    is_fortran = table.strides[0] < table.strides[1]
    half = dsyrk(1.0, table, trans=1) if is_fortran else dsyrk(1.0, table.T)
    return np.asarray(half + np.triu(half, 1).T)
