"""Correlations of one row's conditions under a mixture, in closed form, and as rows show them.

E_i[m mᵀ] is the product over blocks of the moments of two monomials of one block each. The model
determines the covariance of moments of rows drawn from it. Weights that depend on the rows, as
weights that correct a biased sample do, change it: where they are large, moments vary more than
moments of (Σ w)² / Σ w² rows. `MomentSpread` draws Σ g w (c(z) − c̄) / Σ w, with w the weights,
c(z) the conditions, and g + 1 Poisson(1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions, point_powers
from momentmix.mixture.parameters import Parameters
from momentmix.native import code

_AT_ONCE = 32  # rows of the table of all pairs: they stay in the cache
_LEAST_VARIANCE = 1e-12  # of a monomial; that of a constant is 0
DRAWS = 200  # for a mean and a variance; they cost a small part of the whitening
_DRAWN_AT_ONCE = 100  # rows whose products fit in the cache


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


@dataclass(frozen=True)
class MomentSpread:
    """Standardized rows (n, d), a part of `n_rows`, and their weights, the `counts`."""

    rows: Float
    counts: Float
    n_rows: int

    def draws(self, conditions: Conditions, rng: np.random.Generator) -> Float:
        """Draw deviations of the means from their expectations, (n_conditions, DRAWS)."""
        sums = np.zeros((conditions.size, DRAWS + 1))
        factors = np.empty((len(self.rows), DRAWS + 1))
        factors[:, 0] = self.counts
        # All cumulants of these are 1, so that the draws are as skewed as the means themselves.
        multipliers = rng.poisson(1.0, (len(self.rows), DRAWS)) - 1.0
        factors[:, 1:] = self.counts[:, None] * multipliers
        for start in range(0, len(self.rows), _DRAWN_AT_ONCE):
            part = slice(start, start + _DRAWN_AT_ONCE)
            powers = point_powers(self.rows[part], conditions.highest_exponent)
            sums += conditions.products(powers) @ factors[part]
        total = self.counts.sum()
        noise = (sums[:, 1:] - np.outer(sums[:, 0] / total, factors[:, 1:].sum(axis=0))) / total
        # A part of the rows has fewer of them: its means vary more than those of all.
        return np.asarray(noise * np.sqrt(len(self.rows) / self.n_rows))
