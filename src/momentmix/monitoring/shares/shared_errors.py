"""Errors of the components, which all groups share, found from the groups together.

| symbol | name here | shape |
|---|---|---|
| m_g = M w_g + D_g ξ + noise, ξ standard normal as far as the model knows | | (q,) |
| D_g = Σ_c w_gc D_c | ``FixedComponents.shared_error`` | (q, k) |
| P_g: what the shares of the group cannot explain, whitened by V_g / n_g | | (q, q) |
| H = Σ_g D_gᵀ P_g D_g, h = Σ_g D_gᵀ P_g m_g | ``information``, ``score`` | (k, k), (k,) |
| ξ: H⁻¹ h, covariance H⁻¹, where H is large; else 0, covariance I | ``center``, ``factor`` | (k,) |

The errors of one model put all intervals wrong in the same direction: those of a whole cube may
cover in 80 %, or in 99 %. The residuals of many groups, independent of their shares, show them.

Where H is diagonal, the model gives a direction of ξ the variance 1, the groups 1 / H_ii. The
better one is taken, not their mean: the rows of the model may be among those of the groups. Groups
that do not fit take no part, and a ξ larger than the model's errors allow is no error of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from momentmix._typing import Float
from momentmix.monitoring.shares.components import FixedComponents, contrasts
from momentmix.monitoring.shares.group_weights import inside

_LEAST_P_VALUE = 0.001  # of ξ: below, it is no error of the model


def find_shared_errors(equations: Iterable[tuple[Float, Float]]) -> tuple[Float, Float] | None:
    """ξ and a factor of its covariance, from the `equations_of` groups.

    None where the groups do not know it better than the model.
    """
    information, score = np.zeros(()), np.zeros(())
    for own, right in equations:
        information, score = information + own, score + right
    if not information.ndim:
        return None
    values, vectors = np.linalg.eigh(information)
    better = values > 1.0
    if not better.any():
        return None
    found = (vectors[:, better].T @ score) / values[better]
    statistic = float((found**2 / (1.0 + 1.0 / values[better])).sum())
    if chdtrc(int(better.sum()), statistic) < _LEAST_P_VALUE:
        return None
    deviations = np.where(better, 1.0 / np.sqrt(np.where(better, values, 1.0)), 1.0)
    return vectors[:, better] @ found, vectors * deviations


def corrected(components: FixedComponents, center: Float, factor: Float) -> FixedComponents:
    """The components with what is known of their errors."""
    assert components.errors is not None
    means = components.means + (components.errors @ center).T
    return replace(components, means=means, errors=components.errors @ factor)


def equations_of(
    components: FixedComponents, moments: Float, n: float, weights: Float
) -> tuple[Float, Float]:
    """Dᵀ P D and Dᵀ P m of one group."""
    at = inside(weights, n)
    root, error = components.root(at), components.shared_error(at)
    assert error is not None
    # Shares are projected out; m is about one of the mixtures.
    white = root.whiten(np.column_stack([error, moments - components.means.mean(axis=1)]))
    if len(at) > 1:
        basis = np.linalg.qr(root.whiten(components.means @ contrasts(len(at))))[0]
        white -= basis @ (basis.T @ white)
    both = n * (white[:, :-1].T @ white)
    return both[:, :-1], both[:, -1]
