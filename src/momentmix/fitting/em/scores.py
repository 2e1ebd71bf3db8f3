"""Scores of rows under a mixture, their outer product, and scoring steps.

| symbol | name here | shape |
|---|---|---|
| θ = (log ω, μ, log v) | order of the parameters | r + 2rd |
| ∂ log f(z) / ∂ log ω_i = γ_i − ω_i | first r | |
| ∂ log f(z) / ∂ μ_ij = γ_i (z_j − μ_ij) / v_ij | next rd | |
| ∂ log f(z) / ∂ log v_ij = γ_i ((z_j − μ_ij)² / v_ij − 1) / 2 | last rd | |
| I = mean of score scoreᵀ | ``information`` | (r + 2rd, r + 2rd) |
| θ + I⁻¹ · mean score | ``scoring_step`` | |

By Fisher's identity the mean score over all rows follows from the statistics of an EM pass, so one
pass serves an EM step and a scoring step alike. Near the maximum the scoring step converges far
faster than EM where components overlap.

The weights sum to 1, so I has the null direction (1, …, 1, 0, …, 0); it is
left out of every solution.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from momentmix._typing import Float
from momentmix.mixture.density import joint_densities, responsibilities
from momentmix.mixture.gaussian import VariancePrior, coefficients, values_of
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import map_in_order

_ROWS = 4096  # rows whose scores are in memory at once: a few megabytes
_NEGLIGIBLE = 1e-8  # shares below it change no entry of the information that can be seen
_AT_FLOOR = 1.001  # a variance that is less than so many times its floor is at its floor
_LARGE = 2000  # parameters; beyond it there is one table of sums and not several


def information_matrix(features: Float, parameters: Parameters, n_threads: int = 1) -> Float:
    """Mean outer product of the scores, of shape (r + 2rd, r + 2rd).

    A row takes part in the blocks of those components that hold a share of it: where components
    are apart, one block a row instead of r².
    """
    r, d = parameters.means.shape
    n = features.shape[1]
    # Parts do not depend on the number of threads, so that neither do the bits.
    n_parts = 4 if r * (2 * d + 1) < _LARGE and n >= 4 * _ROWS else 1
    edges = np.linspace(0, n, n_parts + 1).astype(int)
    parts = [features[:, a:b] for a, b in pairwise(edges)]
    blocks = np.zeros((r, 2 * d + 1, r, 2 * d + 1))
    sums = np.zeros((r, 2 * d + 1))
    # More threads wait for the interpreter: many of its steps are short.
    n_threads = min(n_threads, 2)
    score_sums = map_in_order(lambda part: _score_sums(part, parameters), parts, n_threads)
    for part_blocks, part_sums in score_sums:
        blocks += part_blocks
        sums += part_sums
    i, k = np.triu_indices(r, 1)
    blocks[k, :, i] = blocks[i, :, k].transpose(0, 2, 1)
    places = _component_places(r, d).ravel()
    information = np.empty((r * (2 * d + 1),) * 2)
    information[np.ix_(places, places)] = blocks.reshape(information.shape) / n
    # So far ∂/∂ log ω_i was taken as γ_i; it is γ_i − ω_i.
    mean = np.empty(information.shape[0])
    mean[places] = sums.ravel() / n
    w = parameters.weights
    information[:r] -= np.outer(w, mean)
    information[:, :r] -= np.outer(mean, w)
    information[:r, :r] += np.outer(w, w)
    return information


def settle_floored(information: Float, parameters: Parameters, floor: float | Float) -> None:
    """Put the model's own information in place where a variance is at its floor; in place.

    The floor is that of the variances, or `VariancePrior.floors`, (r, d). There the rows of the
    component spread less than the model says, perhaps not at all. Their scores then hold no
    information about the mean, and those of several such variances are the same, although the
    parameters are known very well. The model's own values are ω/v for the mean and ω/2 for log v,
    apart from all other parameters.
    """
    p, places = parameters, _component_places(*parameters.means.shape)
    d = p.means.shape[1]
    i, j = np.nonzero(p.variances <= _AT_FLOOR * floor)
    means, variances = places[i, 1 + j], places[i, 1 + d + j]
    floored = np.concatenate([means, variances])
    information[floored] = 0.0
    information[:, floored] = 0.0
    information[means, means] = p.weights[i] / p.variances[i, j]
    information[variances, variances] = p.weights[i] / 2


def _component_places(r: int, d: int) -> NDArray[np.int64]:
    """Place of each component's weight, means and variances among all parameters; (r, 2d + 1)."""
    own = np.arange(r)[:, None]
    return np.hstack([own, r + own * d + np.arange(d), r + r * d + own * d + np.arange(d)])


def _score_sums(features: Float, parameters: Parameters) -> tuple[Float, Float]:
    """Sums of score scoreᵀ by pairs i ≤ k of components, and of scores."""
    r, d = parameters.means.shape
    table = coefficients(parameters)
    blocks = np.zeros((r, 2 * d + 1, r, 2 * d + 1))
    sums = np.zeros((r, 2 * d + 1))
    for start in range(0, features.shape[1], _ROWS):
        part = features[:, start : start + _ROWS]
        shares, _ = responsibilities(joint_densities(table, part))
        has_share = shares > _NEGLIGIBLE
        rows = [np.flatnonzero(mask) for mask in has_share]
        scores = [_scores_of(part, shares, parameters, i, rows[i]) for i in range(r)]
        place = np.cumsum(has_share, axis=1) - 1
        together = has_share.astype(float) @ has_share.T.astype(float)
        for i in range(r):
            sums[i] += scores[i].sum(axis=1)
            blocks[i, :, i] += scores[i] @ scores[i].T
            for k in i + 1 + np.flatnonzero(together[i, i + 1 :]):
                both = rows[i][has_share[k, rows[i]]]
                first, second = scores[i][:, place[i, both]], scores[k][:, place[k, both]]
                blocks[i, :, k] += first @ second.T
    return blocks, sums


def _scores_of(
    features: Float, shares: Float, parameters: Parameters, i: int, rows: NDArray[np.int64]
) -> Float:
    """γ_i·(1, (z − μ_i) / v_i, ((z − μ_i)² / v_i − 1) / 2) of some rows, of shape (2d + 1, n)."""
    d = parameters.means.shape[1]
    deviation = np.sqrt(parameters.variances[i])[:, None]
    scores = np.empty((2 * d + 1, rows.size))
    scores[0] = shares[i, rows]
    gap, squares = scores[1 : d + 1], scores[d + 1 :]
    np.subtract(values_of(features).take(rows, axis=1), parameters.means[i][:, None], out=gap)
    gap /= deviation
    np.multiply(gap, gap, out=squares)
    squares -= 1.0
    squares *= 0.5 * scores[0]
    gap *= scores[0]
    gap /= deviation
    return scores


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


def add_prior(
    score: Float, information: Float, parameters: Parameters, prior: VariancePrior, n_rows: int
) -> None:
    """Add the slope and the curvature of the prior to those of the rows; in place."""
    first = parameters.n_components + parameters.means.size
    places = np.arange(first, score.size)
    score[places] += prior.slope(parameters).ravel() / n_rows
    information[places, places] += prior.curvature(parameters).ravel() / n_rows


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
    at_floor = (parameters.variances <= _AT_FLOOR * floor) & (score[r + r * d :].reshape(r, d) < 0)
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
