"""Which features are correlated within components: score tests on the residual of the moments.

| symbol | name here | shape |
|---|---|---|
| Δ_jk: ∂ model / ∂ correlation of z_j, z_k in every component | ``_directions`` | (n, C(d, 2)) |
| estimate ⟨Δ, e⟩ / ‖Δ‖², Δ whitened and projected | ``Correlation.value`` | scalar |
| ⟨Δ, e⟩ √N / ‖Δ‖ ~ N(0, 1) | ``Correlation.deviates`` | scalar |

With s_j the standard deviation of z_j in a component, E[z_j^a z_k^b z_I] changes by
s_j s_k · a E[z_j^(a−1)] · b E[z_k^(b−1)] · E[z_I].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions, columns_of, gaussian_powers
from momentmix.fitting.inference.whitening import Whitening
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture.parameters import Parameters


@dataclass(frozen=True)
class Correlation:
    """Correlation of two features within components, estimated from the residual."""

    first: int
    second: int
    value: float
    deviates: float


def find_correlations(
    whitening: Whitening,
    conditions: Conditions,
    parameters: Parameters,
    remainder: Float,
    n: float,
) -> list[Correlation]:
    """Score tests of a common correlation of each pair of features, most significant first."""
    pairs = index_sets(conditions.n_features, 2)
    if not pairs.size:
        return []
    directions = whitening.whiten(_directions(conditions, parameters))
    projected = whitening.projection.project(directions)
    lengths = (projected**2).sum(axis=0)
    along = projected.T @ remainder
    # A direction that the parameters explain leaves no more than rounding errors.
    correlations = [
        Correlation(int(a), int(b), float(x / l2), float(x * np.sqrt(n / l2)))
        for (a, b), x, l2 in zip(pairs, along, lengths, strict=True)
        if l2 > 1e-6
    ]
    return sorted(correlations, key=lambda c: -abs(c.deviates))


def _directions(conditions: Conditions, parameters: Parameters) -> Float:
    """Derivative of the conditions by each pair's correlation, of shape (n, C(d, 2))."""
    slots, exponents, d = conditions.slots, conditions.slot_exponents, conditions.n_features
    powers = columns_of(gaussian_powers(parameters, conditions.highest_exponent))
    deviations = np.ascontiguousarray(np.sqrt(parameters.variances).T)  # (d, r)
    factors = powers[exponents, slots]  # (n, width, r)
    result = np.zeros((conditions.size, d * (d - 1) // 2))
    for t, u in combinations(range(slots.shape[1]), 2):
        rows = np.flatnonzero((slots[:, t] < d) & (slots[:, u] < d))
        j, k, a, b = slots[rows, t], slots[rows, u], exponents[rows, t], exponents[rows, u]
        change = deviations[j] * deviations[k] * parameters.weights
        change *= powers[a - 1, j] * powers[b - 1, k] * (a * b)[:, None]
        for other in range(slots.shape[1]):
            if other not in (t, u):
                change *= factors[rows, other]
        pair = colex_rank(np.sort(np.stack([j, k], axis=1), axis=1))
        result[rows, pair] = change.sum(axis=1)
    return result
