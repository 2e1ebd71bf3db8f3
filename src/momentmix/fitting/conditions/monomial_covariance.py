"""Correlations of monomials under a mixture of Gaussians, in closed form, and as rows show them.

| symbol | name here | shape |
|---|---|---|
| z_j = μ_ij + √v_ij · h, h standard normal | | |
| z_j^e = Σ_k s^k/√k! · e!/(e−k)! · E z^(e−k) · He_k(h)/√k! | ``_hermite`` | (e, k, d + 1, r) |
| √ω_i · coefficients of the monomials that hold Hermite product h | ``table`` | (some, r) |
| E[m mᵀ] = Σ_h Σ_i ω_i L_ih L_ihᵀ | ``second`` | (n, n) |

The polynomials are orthonormal in each component, so that second moments are products of
coefficients. A Hermite product of s features occurs in a share of about d^−s of the monomials: one
small product for each h costs about 2n²r operations in all, where tables of all n_basis products
would cost n_basis·n²·r.

Where features are joined, E_i[m mᵀ] is the product over blocks of the moments of two monomials of
one block each, as in ``block_products.py``.

The model knows the covariance of moments of rows that are drawn from it. Weights that depend on the
rows (rows drawn with a bias, which the weights undo) change it: where they are large, moments vary
more than those of (Σ w)² / Σ w² rows. `MomentSpread` draws Σ g w (c(z) − c̄) / Σ w, with w how many
rows each counts as, c(z) the monomials, and g + 1 Poisson(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import factorial, perm, sqrt
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.block_products import block_products
from momentmix.fitting.conditions.conditions import Conditions, gaussian_powers, point_powers
from momentmix.mixture.parameters import Parameters
from momentmix.native import code

_AT_ONCE = 32  # rows of the table of all pairs: they stay in the cache
_LARGE = 12  # monomials that share a Hermite product; smaller products would cost only overhead
_LEAST_VARIANCE = 1e-12  # of a monomial; that of a constant is 0
DRAWS = 200  # for a mean and a variance; they cost a small part of the whitening
_DRAWN_AT_ONCE = 100  # rows whose products fit in the cache


def monomial_correlation(conditions: Conditions, parameters: Parameters) -> tuple[Float, Float]:
    """Correlations of one row's monomials, of shape (n, n), and their standard deviations (n,).

    Coefficients are divided by the deviations first: the table of all pairs is written once.
    """
    if not parameters.blocks.is_diagonal:
        return _by_blocks(conditions, parameters)
    row, factors, exponents, degrees, starts, sizes = conditions.once(_find_hermite_terms)
    values = _coefficients(factors, exponents, degrees, parameters)
    n, mean = conditions.size, conditions.model(parameters)
    variances = np.bincount(row, (values**2).sum(axis=1), minlength=n) - mean**2
    scale = np.sqrt(np.maximum(variances, _LEAST_VARIANCE))
    values /= scale[row, None]
    mean /= scale
    # The first product is the constant, which every monomial holds; rows come in order.
    constant = values[:n]
    second = np.hstack([constant, -mean[:, None]]) @ np.hstack([constant, mean[:, None]]).T
    starts, sizes = starts[1:], sizes[1:]
    large = sizes >= _LARGE
    for start, size in zip(starts[large], sizes[large], strict=True):
        rows, table = row[start : start + size], values[start : start + size]
        second[rows[:, None], rows] += table @ table.T
    for size in np.unique(sizes[~large]):
        places_of_size = starts[sizes == size][:, None] + np.arange(size)
        rows, tables = row[places_of_size], values[places_of_size]  # (groups, size), (…, r)
        flat = rows[:, :, None] * n + rows[:, None, :]
        np.add.at(second.reshape(-1), flat, tables @ tables.transpose(0, 2, 1))
    return second, scale


def _by_blocks(conditions: Conditions, parameters: Parameters) -> tuple[Float, Float]:
    """The same by blocks of features."""
    monomials, n = conditions.by_block(parameters.blocks), conditions.size
    moments = monomials.moments(parameters)
    tables = block_products(monomials, parameters, moments)
    by_component = moments[monomials.slots].prod(axis=1)  # (n, r)
    mean = by_component @ parameters.weights
    raw = np.ones((n, parameters.n_components))
    for own, table in tables:
        raw *= table[:, own, own].T
    scale = np.sqrt(np.maximum(raw @ parameters.weights - mean**2, _LEAST_VARIANCE))
    second = -np.outer(mean, mean)
    add = _add_second_moments if code is None else _add_by_compiled
    add(second, tables, parameters.weights)
    for start in range(0, n, _AT_ONCE):
        stop = min(start + _AT_ONCE, n)
        second[start:stop, start:] /= scale[start:stop, None] * scale[start:]
        second[stop:, start:stop] = second[start:stop, stop:].T
        own = second[start:stop, start:stop]
        own[:] = np.triu(own) + np.triu(own, 1).T
    return second, scale


def _add_by_compiled(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """`_add_second_moments` by compiled code."""
    own = np.array([numbers for numbers, _ in tables])
    sizes = np.array([table.shape[1] for _, table in tables])
    # Conditions of the same blocks share a part of the products.
    order = np.lexsort(own != 0)
    flat = np.concatenate([table.ravel() for _, table in tables])
    code.add_second_moments(order, own, sizes, flat, np.ascontiguousarray(weights), second)


def _add_second_moments(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """Add E[m_a m_b] to a table (n, n), b ≥ a: products over blocks, a few rows at a time."""
    n = len(second)
    wide = [(own, table[:, :, own]) for own, table in tables]  # (r, m, n)
    part = np.empty((_AT_ONCE, n))
    for start in range(0, n, _AT_ONCE):
        stop = min(start + _AT_ONCE, n)
        held = [(own, table) for own, table in wide if own[start:stop].any()]
        others = [table for own, table in wide if not own[start:stop].any()]
        for i, weight in enumerate(weights):
            product = part[: stop - start, start:]
            # Where no row holds a block, its factor is the same for all of them.
            same = np.full(n - start, weight)
            for table in others:
                same *= table[i, 0, start:]
            product[:] = same
            for own, table in held:
                product *= table[i, own[start:stop], start:]
            second[start:stop, start:] += product


def _coefficients(features: Int, exponents: Int, degrees: Int, parameters: Parameters) -> Float:
    """√ω_i times the coefficient of each Hermite product in each monomial, of shape (…, r)."""
    tables = _hermite(parameters, int(exponents.max(initial=1)))
    values = np.tile(np.sqrt(np.maximum(parameters.weights, 0.0)), (features.shape[0], 1))
    for t in range(features.shape[1]):
        values *= tables[exponents[:, t], degrees[:, t], features[:, t]]
    return values


def _hermite(parameters: Parameters, highest: int) -> Float:
    """Coefficients by exponent, degree, feature and component; the filler's power 0 is 1."""
    r, d = parameters.means.shape
    powers, deviations = gaussian_powers(parameters, highest), np.sqrt(parameters.variances)
    table = np.zeros((highest + 1, highest + 1, d + 1, r))
    table[:, 0, d] = 1.0
    for e in range(highest + 1):
        for k in range(e + 1):
            factor = perm(e, k) / sqrt(factorial(k))
            table[e, k, :d] = (factor * deviations**k * powers[e - k]).T
    return table


class _HermiteTerms(NamedTuple):
    """All terms of all monomials, those of one product of Hermite polynomials together.

    Of each term the monomial, increasing within a product, its features and exponents, and the
    degrees of the Hermite polynomials, (n_terms, width); of each product where its terms begin.
    """

    rows: Int
    features: Int
    exponents: Int
    degrees: Int
    starts: Int
    sizes: Int


def _find_hermite_terms(conditions: Conditions) -> _HermiteTerms:
    """The terms of the conditions; they depend on the exponents alone."""
    features, exponents = conditions.slots, conditions.slot_exponents
    highest = exponents.max(axis=0)
    degrees = np.array(list(product(*[range(h + 1) for h in highest])))
    count = int(highest.max(initial=0)) + 1
    base = count * (conditions.n_features + 1)
    fits = np.all(degrees[None] <= exponents[:, None, :], axis=2)  # (n, n_terms)
    keys = np.zeros(fits.shape, dtype=np.int64)
    for number, degree in enumerate(degrees):
        rows = np.flatnonzero(fits[:, number])
        codes = np.sort(np.where(degree > 0, features[rows] * count + degree, 0), axis=1)
        key = codes[:, 0]
        for t in range(1, features.shape[1]):
            key = key * base + codes[:, t]
        keys[rows, number] = key
    row, term = np.nonzero(fits)
    order = np.argsort(keys[row, term], kind="stable")
    row, term = row[order], term[order]
    _, starts, sizes = np.unique(keys[row, term], return_index=True, return_counts=True)
    return _HermiteTerms(row, features[row], exponents[row], degrees[term], starts, sizes)


@dataclass(frozen=True)
class MomentSpread:
    """Standardized rows (n, d) that show how weighted means of moments vary.

    `counts` says how many rows each counts as; they are a part of `n_rows`.
    """

    rows: Float
    counts: Float
    n_rows: int

    def draws(
        self, conditions: Conditions, rng: np.random.Generator, n_draws: int = DRAWS
    ) -> Float:
        """Deviations of the observed means from those expected, (n_conditions, n_draws)."""
        sums = np.zeros((conditions.size, n_draws + 1))
        factors = np.empty((len(self.rows), n_draws + 1))
        factors[:, 0] = self.counts
        # All cumulants of these are 1, so that the draws are as skewed as the means themselves.
        multipliers = rng.poisson(1.0, (len(self.rows), n_draws)) - 1.0
        factors[:, 1:] = self.counts[:, None] * multipliers
        for start in range(0, len(self.rows), _DRAWN_AT_ONCE):
            part = slice(start, start + _DRAWN_AT_ONCE)
            powers = point_powers(self.rows[part], conditions.highest_exponent)
            sums += conditions.products(powers) @ factors[part]
        total = self.counts.sum()
        noise = (sums[:, 1:] - np.outer(sums[:, 0] / total, factors[:, 1:].sum(axis=0))) / total
        # A part of the rows has fewer of them: its means vary more than those of all.
        return np.asarray(noise * np.sqrt(len(self.rows) / self.n_rows))
