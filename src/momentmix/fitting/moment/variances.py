"""Variances given weights and means: one non-negative least-squares problem per feature.

| paper symbol | name here | shape |
|---|---|---|
| (M)_{L_j} − Σ_i ω_i μ_ij² μ_i^{⊗q} | ``observed`` | (Σ_q C(d−1, q),) |
| θ_ij (solve-sigma) | ``variances[:, j]`` | (r,) |

Differs from the paper: (solve-sigma) uses order m alone. E[z_j² z_I] with |I| = 0, 1, 2 together
are far less noisy.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import sets_without


def fit_variances(moments: StandardMoments, weights: Float, means: Float, floor: float) -> Float:
    """Variances of standardized features, at least `floor`, of shape (r, d).

    A penalty towards the average within-component variance determines the components that the
    conditions say nothing about. Its factor 1e-3 keeps it far below the noise of the conditions.
    """
    r, d = means.shape
    variances = np.empty((r, d))
    for j in range(d):
        blocks = [means[:, sets_without(d, q, j)].prod(axis=2) for q in range(len(moments.squared))]
        features = np.concatenate(blocks, axis=1).T  # (n, r)
        observed = np.concatenate([level[j] for level in moments.squared])
        target = observed - features @ (weights * means[:, j] ** 2)  # eq. cov-A
        average = max(target[0], floor)
        penalty = np.sqrt(1e-3 / max(moments.n_effective, 1.0)) * np.sqrt(features.shape[0])
        matrix = np.concatenate([features * weights, penalty * np.diag(np.sqrt(weights))])
        right = np.concatenate([target, penalty * np.sqrt(weights) * average])
        variances[:, j] = nnls(matrix, right, maxiter=100 * r)[0]  # eq. solve-sigma
    return np.maximum(variances, floor)
