"""Which features are correlated within components: score tests on the residual of the moments.

| symbol | name here | shape |
|---|---|---|
| Δ_jk: ∂ model / ∂ correlation of z_j, z_k in every component | ``_directions`` | (n, C(d, 2)) |
| estimate ⟨Δ, e⟩ / ‖Δ‖², Δ whitened and projected | ``Correlation.value`` | scalar |
| ⟨Δ, e⟩ √N / ‖Δ‖ ~ N(0, 1) | ``Correlation.deviates`` | scalar |

With s_j the standard deviation of z_j in a component, E[z_j z_k z_I] changes by s_j s_k E[z_I], and
E[z_j² z_k z_I] by 2 μ_j s_j s_k E[z_I].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions, extended
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
    projected = whitening.project(whitening.whiten(_directions(conditions, parameters)))
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
    slots, d, n_plain = conditions.slots, conditions.n_features, conditions.plain.shape[0]
    means = np.ascontiguousarray(extended(parameters.means, 1.0).T)  # (d + 1, r)
    deviations = np.ascontiguousarray(extended(np.sqrt(parameters.variances), 0.0).T)
    factors = means[slots]  # (n, width, r)
    second = parameters.means**2 + parameters.variances
    factors[n_plain:, 0] = second.T[slots[n_plain:, 0]]
    result = np.zeros((conditions.size, d * (d - 1) // 2))
    for t, u in combinations(range(slots.shape[1]), 2):
        rows = np.flatnonzero((slots[:, t] < d) & (slots[:, u] < d))
        j, k = slots[rows, t], slots[rows, u]
        change = deviations[j] * deviations[k] * parameters.weights
        for other in range(slots.shape[1]):
            if other not in (t, u):
                change *= factors[rows, other]
        if t == 0:
            squared = rows >= n_plain
            change[squared] *= 2.0 * means[j[squared]]
        pair = colex_rank(np.sort(np.stack([j, k], axis=1), axis=1))
        result[rows, pair] = change.sum(axis=1)
    return result
