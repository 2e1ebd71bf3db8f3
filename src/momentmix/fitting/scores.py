"""Scores of rows under a mixture, their outer product, and scoring steps.

| paper symbol | name here | shape |
|---|---|---|
| θ = (log ω, μ, log v) | columns of a score table | r + 2rd |
| ∂ log f(z) / ∂ log ω_i = γ_i − ω_i | first r columns | |
| ∂ log f(z) / ∂ μ_ij = γ_i (z_j − μ_ij) / v_ij | next rd | |
| ∂ log f(z) / ∂ log v_ij = γ_i ((z_j − μ_ij)² / v_ij − 1) / 2 | last rd | |
| I = mean of score scoreᵀ | ``information`` | (r + 2rd, r + 2rd) |
| θ + I⁻¹ · mean score | ``scoring_step`` | |

By Fisher's identity the mean score over all rows follows from the statistics of an EM pass, so one
pass serves an EM step and a scoring step alike. Near the maximum the scoring step converges far
faster than EM where components overlap.

The weights sum to 1, so I has the null direction (1, …, 1, 0, …, 0); it is
left out of every solution.

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from momentmix.fitting.conditions import Parameters
from momentmix.fitting.em import coefficients, shares_of
from momentmix.fitting.polish import gram

Float = NDArray[np.float64]

__all__ = ["information_matrix", "mean_score", "score_table", "scoring_step", "solve_information"]

_ROWS = 512


def score_table(features: Float, parameters: Parameters) -> Float:
    """Scores of each row, of shape (n, r + 2rd)."""
    r, d = parameters.means.shape
    n = features.shape[1]
    table = coefficients(parameters.weights, parameters.means, parameters.variances)
    shares = shares_of(table, features).T  # (n, r)
    gap = (features[:d].T[:, None, :] - parameters.means) / np.sqrt(parameters.variances)
    scores = np.empty((n, r + 2 * r * d))
    scores[:, :r] = shares - parameters.weights
    by_mean = gap * (shares[:, :, None] / np.sqrt(parameters.variances))
    scores[:, r : r + r * d] = by_mean.reshape(n, r * d)
    gap *= gap
    gap -= 1.0
    gap *= 0.5 * shares[:, :, None]
    scores[:, r + r * d :] = gap.reshape(n, r * d)
    return scores


def information_matrix(features: Float, parameters: Parameters) -> Float:
    """Mean outer product of the scores, of shape (r + 2rd, r + 2rd)."""
    size = parameters.flat().size
    total = np.zeros((size, size))
    for start in range(0, features.shape[1], _ROWS):
        scores = score_table(features[:, start : start + _ROWS], parameters)
        total += gram(scores)
    return np.asarray(total / features.shape[1])


def mean_score(statistics: Float, parameters: Parameters) -> Float:
    """Mean score over all rows from the sums of an EM pass, of shape (r + 2rd,)."""
    d = parameters.means.shape[1]
    counts = statistics[:, -1]
    n = counts.sum()
    first, second = statistics[:, :d], statistics[:, d : 2 * d]
    m, v = parameters.means, parameters.variances
    by_weight = counts - n * parameters.weights
    by_mean = (first - counts[:, None] * m) / v
    squares = second - 2 * m * first + counts[:, None] * m**2
    by_variance = 0.5 * (squares / v - counts[:, None])
    score = np.concatenate([by_weight, by_mean.ravel(), by_variance.ravel()])
    return np.asarray(score / n)


def solve_information(information: Float, right: Float, n_components: int) -> Float:
    """I⁻¹ right, the null direction of the weights left out and tiny curvatures bounded below."""
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    matrix = information / scale[:, None] / scale
    null = np.zeros(scale.size)
    null[:n_components] = 1.0 / scale[:n_components]
    null /= np.linalg.norm(null)
    matrix = matrix + np.outer(null, null)
    matrix[np.diag_indices_from(matrix)] += 1e-6
    column = right if right.ndim == 2 else right[:, None]
    try:
        solved = cho_solve(cho_factor(matrix, lower=True), column / scale[:, None])
    except LinAlgError:
        solved = np.linalg.pinv(matrix, hermitian=True) @ (column / scale[:, None])
    solved = solved / scale[:, None]
    return np.asarray(solved if right.ndim == 2 else solved[:, 0])


def scoring_step(
    parameters: Parameters, score: Float, information: Float, floor: Float, longest: float = 0.7
) -> tuple[Parameters, float]:
    """Parameters after one step, and the gain of log-likelihood per row that it predicts.

    The step is shortened so that no weight or variance changes by more than a factor e^longest and
    no mean by more than `longest` standard deviations. A variance at its floor that is pushed
    below it takes no part.
    """
    r, d = parameters.means.shape
    at_floor = (parameters.variances <= 1.001 * floor) & (score[r + r * d :].reshape(r, d) < 0)
    free = np.concatenate([np.ones(r + r * d, bool), ~at_floor.ravel()])
    step = np.zeros_like(score)
    part = np.flatnonzero(free)
    step[part] = solve_information(information[np.ix_(part, part)], score[part], r)
    predicted = 0.5 * float(score @ step)
    means_step = step[r : r + r * d].reshape(r, d)
    sizes = [
        np.abs(step[:r]).max(),
        np.abs(means_step / np.sqrt(parameters.variances)).max(),
        np.abs(step[r + r * d :]).max(),
    ]
    step *= min(1.0, longest / max(max(sizes), 1e-300))
    weights = parameters.weights * np.exp(step[:r])
    variances = parameters.variances * np.exp(step[r + r * d :].reshape(r, d))
    moved = Parameters(
        weights / weights.sum(),
        parameters.means + step[r : r + r * d].reshape(r, d),
        np.maximum(variances, floor),
    )
    return moved, predicted
