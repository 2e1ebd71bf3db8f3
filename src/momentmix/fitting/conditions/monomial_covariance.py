"""Covariance of monomials under a mixture of product Gaussians, in closed form.

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
"""

from __future__ import annotations

from itertools import product
from math import factorial, perm, sqrt

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.conditions import Conditions, gaussian_powers
from momentmix.mixture.parameters import Parameters

_LARGE = 12  # monomials that share a Hermite product; smaller products would cost only overhead


def monomial_covariance(conditions: Conditions, parameters: Parameters) -> Float:
    """Covariance of one row's monomials, of shape (n, n)."""
    features = conditions.slots
    exponents = conditions.slot_exponents
    places, degrees = _expansion(features, exponents, conditions.n_features)
    row, term = np.nonzero(places >= 0)
    order = np.argsort(places[row, term], kind="stable")
    row, term = row[order], term[order]
    _, starts, sizes = np.unique(places[row, term], return_index=True, return_counts=True)
    values = _coefficients(features[row], exponents[row], degrees[term], parameters)
    n = conditions.size
    second = np.zeros((n, n))
    for start, size in zip(starts[sizes >= _LARGE], sizes[sizes >= _LARGE], strict=True):
        rows, table = row[start : start + size], values[start : start + size]
        if size == n:  # the constant, which every monomial holds; rows come in order
            second += table @ table.T
        else:
            second[np.ix_(rows, rows)] += table @ table.T
    for size in np.unique(sizes[sizes < _LARGE]):
        places_of_size = starts[sizes == size][:, None] + np.arange(size)
        rows, tables = row[places_of_size], values[places_of_size]  # (groups, size), (…, r)
        flat = rows[:, :, None] * n + rows[:, None, :]
        np.add.at(second.reshape(-1), flat, tables @ tables.transpose(0, 2, 1))
    mean_vector = conditions.model(parameters)
    second -= np.outer(mean_vector, mean_vector)
    return second


def _coefficients(features: Int, exponents: Int, degrees: Int, parameters: Parameters) -> Float:
    """√ω_i times the coefficient of each Hermite product in each monomial, of shape (…, r)."""
    tables = _hermite(parameters, int(exponents.max(initial=1)))
    values = np.tile(np.sqrt(np.maximum(parameters.weights, 0.0)), (features.shape[0], 1))
    for t in range(features.shape[1]):
        values *= tables[exponents[:, t], degrees[:, t], features[:, t]]
    return values


def _expansion(features: Int, exponents: Int, filler: int) -> tuple[Int, Int]:
    """Basis index of every Hermite product of each monomial; −1 where its degree is too high.

    Returns
    -------
    places : array of shape (n, n_terms)
    degrees : array of shape (n_terms, width)
    """
    width = features.shape[1]
    highest = exponents.max(axis=0)
    degrees = np.array(list(product(*[range(h + 1) for h in highest])))
    places = np.full((features.shape[0], degrees.shape[0]), -1)
    count = int(highest.max(initial=0)) + 1
    base = count * (filler + 1)
    keys = np.zeros(places.shape, dtype=np.int64)
    fits = (degrees[None] <= exponents[:, None, :]).all(axis=2)
    for term, degree in enumerate(degrees):
        codes = np.where(degree > 0, features * count + degree, 0)
        codes = np.sort(codes, axis=1)
        for t in range(width):
            keys[:, term] = keys[:, term] * base + codes[:, t]
    _, index = np.unique(keys[fits], return_inverse=True)
    places[fits] = index
    return places, degrees


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
