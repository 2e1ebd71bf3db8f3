"""Correlations of one row's conditions under a mixture, in closed form.

E_i[m mᵀ] is the product over blocks of the moments of two monomials of one block each. The model
determines the covariance of moments of rows drawn from it.
"""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions
from momentmix.mixture.parameters import Parameters
from momentmix.native import code

_AT_ONCE = 32  # rows of the table of all pairs: they stay in the cache
_LEAST_VARIANCE = 1e-12  # of a monomial; that of a constant is 0


def monomial_correlation(conditions: Conditions, parameters: Parameters) -> tuple[Float, Float]:
    """Correlations of one row's conditions, of shape (n, n), and their standard deviations (n,)."""
    monomials = conditions.by_block(parameters.blocks)
    moments = monomials.moments(parameters)
    tables = monomials.products(parameters, moments)
    mean = moments[monomials.slots].prod(axis=1) @ parameters.weights
    second = np.zeros((conditions.size, conditions.size))
    add = _add_second_moments if code is None else _add_by_compiled
    add(second, tables, parameters.weights)
    scale = np.sqrt(np.maximum(np.diagonal(second) - mean**2, _LEAST_VARIANCE))
    for start in range(0, conditions.size, _AT_ONCE):
        stop = start + _AT_ONCE
        upper = second[start:stop, start:]
        upper -= mean[start:stop, None] * mean[start:]
        upper /= scale[start:stop, None] * scale[start:]
        second[stop:, start:stop] = second[start:stop, stop:].T
        square = second[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
    return second, scale


def _add_by_compiled(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """`_add_second_moments` by compiled code."""
    own = np.array([numbers for numbers, _ in tables])
    sizes = np.array([table.shape[1] for _, table in tables])
    # Factors are counted over all blocks; a condition has few, in any order.
    factors = np.where(own > 0, own + (np.cumsum(sizes) - sizes)[:, None], 0).T
    width = max(1, int((own > 0).sum(axis=0).max(initial=0)))
    slots = np.sort(factors, axis=1)[:, -width:].copy()
    flat = np.concatenate([table.transpose(1, 2, 0).ravel() for _, table in tables])
    code.add_second_moments(len(second), slots, sizes, flat, np.ascontiguousarray(weights), second)


def _add_second_moments(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """Add E[m_a m_b] to a table (n, n), b ≥ a: products over blocks, row by row."""
    for a, row in enumerate(second):
        products = np.tile(weights[:, None], len(row) - a)
        for own, table in tables:
            products *= table[:, own[a], own[a:]]
        row[a:] += products.sum(axis=0)
