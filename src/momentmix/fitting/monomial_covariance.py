"""Covariance of monomials under a mixture of product Gaussians, in closed form.

| paper symbol | name here | shape |
|---|---|---|
| z_j = μ_ij + √v_ij · h, h standard normal | | |
| z_j^e in normalised Hermite polynomials of h, e = 0, 1, 2 | ``_hermite`` | (r, d + 1, 3) each |
| coefficients of the monomials in component i | ``table`` | (n, n_basis) |
| E[m mᵀ] = Σ_i ω_i L_i L_iᵀ | ``second`` | (n, n) |

The polynomials are orthonormal in each component, so that the second moments are matrix products
of coefficient tables with at most 2^features non-zeros a row.

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from momentmix.fitting.conditions import Conditions, Parameters
from momentmix.fitting.polish import gram

Float = NDArray[np.float64]
Int = NDArray[np.int64]

__all__ = ["monomial_covariance"]


def monomial_covariance(conditions: Conditions, parameters: Parameters) -> Float:
    """Covariance of one row's monomials, of shape (n, n)."""
    features, exponents = _exponents(conditions)
    places, degrees = _expansion(features, exponents, conditions.n_features)
    n, n_basis = features.shape[0], int(places.max()) + 1
    second = np.zeros((n, n))
    rows = np.broadcast_to(np.arange(n)[:, None], places.shape)
    used = places >= 0
    for weight, mean, variance in zip(
        parameters.weights, parameters.means, parameters.variances, strict=True
    ):
        if weight <= 0:
            continue
        tables = _hermite(mean, variance)
        values = np.ones(places.shape)
        for t in range(features.shape[1]):
            values *= tables[exponents[:, t, None], degrees[None, :, t], features[:, t, None]]
        table = np.zeros((n_basis, n))
        table[places[used], rows[used]] = np.sqrt(weight) * values[used]
        second += gram(table)
    mean_vector = conditions.model(parameters)
    return np.asarray(second - np.outer(mean_vector, mean_vector))


def _exponents(conditions: Conditions) -> tuple[Int, Int]:
    """Features of each monomial, filled up with d, and the exponent of each; both (n, width)."""
    plain, squared = conditions.plain, conditions.squared
    width = max(plain.shape[1], squared.shape[1])
    n_plain = plain.shape[0]
    features = np.full((conditions.size, width), conditions.n_features)
    features[:n_plain, : plain.shape[1]] = plain
    features[n_plain:, : squared.shape[1]] = squared
    exponents = (features < conditions.n_features).astype(np.int64)
    exponents[n_plain:, 0] = 2
    return features, exponents


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
    base = 3 * (filler + 1)
    keys = np.zeros(places.shape, dtype=np.int64)
    fits = (degrees[None] <= exponents[:, None, :]).all(axis=2)
    for term, degree in enumerate(degrees):
        codes = np.where(degree > 0, features * 3 + degree, 0)
        codes = np.sort(codes, axis=1)
        for t in range(width):
            keys[:, term] = keys[:, term] * base + codes[:, t]
    _, index = np.unique(keys[fits], return_inverse=True)
    places[fits] = index
    return places, degrees


def _hermite(mean: Float, variance: Float) -> Float:
    """Coefficients by exponent, degree and feature, of shape (3, 3, d + 1); the filler is 1."""
    d = mean.size
    deviation = np.sqrt(variance)
    table = np.zeros((3, 3, d + 1))
    table[:, 0, d] = 1.0
    table[0, 0] = 1.0
    table[1, 0, :d], table[1, 1, :d] = mean, deviation
    table[2, 0, :d] = mean**2 + variance
    table[2, 1, :d], table[2, 2, :d] = 2 * mean * deviation, np.sqrt(2.0) * variance
    return table
