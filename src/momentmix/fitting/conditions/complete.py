"""All monomials of degree up to 4 as conditions, found by their features.

| symbol | name here | shape |
|---|---|---|
| z_a z_b z_c z_e, index d for the constant 1 | features ``(a, b, c, e)`` | (…, 4) |
| condition of a monomial | ``CompleteMoments.rows_of`` | (…,) |
| E_i[z_a z_b z_c z_e], pairs a ≤ b and c ≤ e | `pair_products` | (r, n_pairs, n_pairs) |
"""

from __future__ import annotations

from math import comb

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.conditions import build_conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters

DEGREE = 4


class CompleteMoments:
    """All monomials of degree up to 4.

    Parameters
    ----------
    moments : StandardMoments
        With all moments of degree 4, as `has_complete_moments` says.

    Attributes
    ----------
    conditions : Conditions
    """

    def __init__(self, moments: StandardMoments) -> None:
        self.conditions = build_conditions(moments, DEGREE, 2, highest_power=DEGREE)
        features, exponents = self.conditions.slots, self.conditions.slot_exponents
        base = moments.n_features + 1
        self._base, self._rows = base, np.full(base**DEGREE, -1)
        # Each feature as often as its exponent says, then the constant.
        known = np.full((len(features), DEGREE), base - 1)
        place = np.cumsum(exponents, axis=1) - exponents
        for t in range(features.shape[1]):
            for repeat in range(DEGREE):
                own = np.flatnonzero(exponents[:, t] > repeat)
                known[own, place[own, t] + repeat] = features[own, t]
        self._rows[self._codes(known)] = np.arange(len(features))

    def _codes(self, features: Int) -> Int:
        ordered = np.sort(features, axis=-1)
        codes = ordered[..., 0]
        for t in range(1, DEGREE):
            codes = codes * self._base + ordered[..., t]
        return np.asarray(codes)

    def rows_of(self, features: Int) -> Int:
        """Conditions of monomials (…, 4), of shape (…,)."""
        return np.asarray(self._rows[self._codes(features)])


def has_complete_moments(moments: StandardMoments) -> bool:
    """Whether all moments of degree up to 4 are known, of features that vary."""
    if moments.order < DEGREE or len(moments.squared) < DEGREE - 1 or moments.constant.any():
        return False
    high = (moments.powers, moments.cubed, moments.two_squares)
    return all(table is not None and np.isfinite(table).all() for table in high)


def count_complete(n_features: int) -> int:
    """Number of monomials of degree up to 4."""
    return comb(n_features + DEGREE, DEGREE)


def pair_products(parameters: Parameters, features: Int) -> Float:
    """E_i[z_a z_b z_c z_e] of all pairs of `feature_pairs` of some features; d is the constant.

    E[z_a z_b z_c z_e] = T_ab T_ce + T_ac T_be + T_ae T_bc − 2 μ_a μ_b μ_c μ_e, T the second moments
    of a Gaussian of means μ; the constant has the mean 1 and no variance.
    """
    r, d = parameters.means.shape
    means = np.ones((r, d + 1))
    means[:, :d] = parameters.means
    second = means[:, :, None] * means[:, None, :]
    second[:, :d, :d] += parameters.matrices
    a, b = feature_pairs(features).T
    products = means[:, a] * means[:, b]
    own = second[:, a, b]
    table = own[:, :, None] * own[:, None, :]
    table -= 2.0 * products[:, :, None] * products[:, None, :]
    table += second[:, a[:, None], a] * second[:, b[:, None], b]
    table += second[:, a[:, None], b] * second[:, b[:, None], a]
    return np.asarray(table)


def feature_pairs(features: Int) -> Int:
    """Pairs of some features, each with itself too, in the order given; (n_pairs, 2)."""
    i, k = np.triu_indices(len(features))
    return np.stack([features[i], features[k]], axis=1)
