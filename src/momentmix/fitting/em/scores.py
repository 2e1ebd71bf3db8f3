"""Scores of rows under a mixture, their outer product, and scoring steps.

| symbol | name here | shape |
|---|---|---|
| Σ_i = A_i A_iᵀ, u = A_i⁻¹ (z − μ_i) | ``mixture/parameters.py`` | (d, d), (d, n) |
| Σ_i = A_i exp(E_i) A_iᵀ, E = 0 at the parameters; log v in a block of one | E | (d + n_pairs,) |
| θ = (log ω, μ, E), as `Parameters.flat` | order of the parameters | |
| ∂ log f(z) / ∂ θ_i = γ_i S_i T(z), less ω_i for log ω_i | `score_tables` | (r, n_places, n_T) |
| rows of S_i: 1, A_i⁻ᵀ u by μ_i, (u_j² − 1) / 2 and u_j u_k by E_jj and E_jk | | |
| I = mean of score scoreᵀ | ``information`` | |
| θ + I⁻¹ · mean score | ``scoring_step`` | |

By Fisher's identity the mean score over all rows follows from the statistics of an EM pass, so one
pass serves an EM step and a scoring step alike. Near the maximum the scoring step converges far
faster than EM where components overlap.

The weights sum to 1: the null direction (1, …, 1, 0, …, 0) of I is left out of every solution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from momentmix._typing import Float
from momentmix.fitting.em.em import joint_of
from momentmix.fitting.em.patterns import completed
from momentmix.mixture.density import joint_densities, responsibilities
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.missing import patterns
from momentmix.mixture.parameters import (
    Parameters,
    component_places,
    dependent_places,
    moved_spread,
    parameters_from,
)
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import map_in_order

_ROWS = 4096  # rows whose scores are in memory at once: a few megabytes
_NEGLIGIBLE = 1e-8  # shares below it change no entry of the information that can be seen
_MOSTLY = 0.5  # of all shares: from there on rows are not chosen by component
AT_FLOOR = 1.001  # a variance that is less than so many times its floor is at its floor
_LARGE = 2000  # parameters; beyond it there is one table of sums and not several
# Largest change of means in deviations, and of logarithms of weights and variances (a factor of 2),
# by a scoring step; and the part of a probability, rate, weight or variance that a step leaves at
# least. With 0.35 and 1.4, and with 0.1 and 0.5, mixtures of 8 overlapping components take as many
# passes.
_LONGEST, FALL = 0.7, 0.25


def score_tables(p: Parameters) -> Float:
    """S_i: scores of rows of component i as linear functions of T(z), (r, n_places, n_T).

    Those of variances that follow from the means are 0.
    """
    d, single = p.blocks.n_features, p.blocks.single
    table = np.zeros((p.n_components, p.blocks.n_places, p.blocks.n_statistics))
    table[:, 0, -1] = 1.0
    m, v = p.means[:, single], p.variances[:, single]
    table[:, 1 + single, single], table[:, 1 + single, -1] = 1.0 / v, -m / v
    by_variance = 1 + d + single
    table[:, by_variance, single] = -m / v
    table[:, by_variance, d + single] = 0.5 / v
    table[:, by_variance, -1] = 0.5 * (m**2 / v - 1.0)
    for block, spread in p.blocks.places:
        inverse = np.linalg.inv(np.linalg.cholesky(p.spread[..., spread]))  # u = A⁻¹ z − center
        center = (inverse @ p.means[:, block, None])[..., 0]
        table[:, 1 + block[:, None], block] = inverse.mT @ inverse
        table[:, 1 + block, -1] = -(inverse.mT @ center[..., None])[..., 0]
        j, k = np.triu_indices(block.size)
        halves, places = np.where(j == k, 0.5, 1.0), d + spread[j, k]
        first, second = inverse[:, j], inverse[:, k]
        products = first[..., j] * second[..., k] + first[..., k] * second[..., j]
        products *= halves[:, None] * halves  # z_j² stands in one place of the matrix
        linear = first * center[:, k, None] + second * center[:, j, None]
        table[:, 1 + places[:, None], places] = products
        table[:, 1 + places[:, None], block] = -halves[:, None] * linear
        table[:, 1 + places, -1] = halves * center[:, j] * center[:, k] - 0.5 * (j == k)
    numbers = {part.features[0]: number for number, part in enumerate(p.blocks.laws)}
    for distribution, features, _ in p.blocks.stacks:
        scores = distribution.scores(p.means[:, features], p.variances[:, features])
        scores[..., features.shape[1] :, :] *= p.variances[:, features, None]  # by log v
        for place, block in enumerate(features):
            places = np.concatenate([1 + block, 1 + d + block])
            statistics = p.blocks.statistics_of(numbers[int(block[0])])
            table[:, places[:, None], statistics] = scores[:, place]
    return table


def mean_score(statistics: Float, p: Parameters) -> Float:
    """Mean score over all rows from the sums of an EM pass."""
    scores = (score_tables(p) @ statistics[..., None])[..., 0]
    n = statistics[:, -1].sum()
    scores[:, 0] -= n * p.weights
    flat = np.empty(p.n_places)
    flat[component_places(p)] = scores / n
    return flat


def information_matrix(
    features: Float, parameters: Parameters, n_threads: int = 1, weights: Float | None = None
) -> Float:
    """Mean outer product of the scores, weighted where there are weights of rows (n,)."""
    p, n = parameters, features.shape[1]
    weights = np.ones(n) if weights is None else weights
    kept = np.delete(np.arange(p.blocks.n_places), p.blocks.not_free)
    r, size, places = p.n_components, kept.size, component_places(p)[:, kept].ravel()
    total, sums = np.zeros((r, size, r, size)), np.zeros((r, size))
    if p.blocks.missing:
        for rows, _, parts in component_scores(features, p):
            scores = np.concatenate([part[kept] for part in parts])
            total += ((scores * weights[rows]) @ scores.T).reshape(total.shape)
            sums += (scores @ weights[rows]).reshape(sums.shape)
    else:
        # Parts do not depend on the number of threads, so that neither do the bits. More than two
        # threads wait for the interpreter: many of its steps are short.
        n_parts = 4 if r * size < _LARGE and n >= 4 * _ROWS else 1
        edges = pairwise(np.linspace(0, n, n_parts + 1).astype(int))
        ranges, tables = [slice(*ends) for ends in edges], score_tables(p)[:, kept]

        def sums_of(rows: slice) -> tuple[Float, Float]:
            return _score_sums(features[:, rows], weights[rows], p, tables)

        for part_total, part_sums in map_in_order(sums_of, ranges, min(n_threads, 2)):
            total += part_total
            sums += part_sums
        i, k = np.triu_indices(r, 1)
        total[k, :, i] = total[i, :, k].transpose(0, 2, 1)
    information = np.zeros((p.n_places,) * 2)
    information[np.ix_(places, places)] = total.reshape(r * size, -1) / weights.sum()
    # So far ∂/∂ log ω_i was taken as γ_i; it is γ_i − ω_i.
    mean, w = np.zeros(len(information)), p.weights
    mean[places] = sums.ravel() / weights.sum()
    information[:r] -= np.outer(w, mean)
    information[:, :r] -= np.outer(mean, w)
    information[:r, :r] += np.outer(w, w)
    dependent = dependent_places(p)
    information[dependent, dependent] = 1.0
    return information


def _score_sums(
    features: Float, weights: Float, p: Parameters, tables: Float
) -> tuple[Float, Float]:
    """Sums of score scoreᵀ by pairs i ≤ k of components, and of scores; times weights of rows."""
    r, size = tables.shape[:2]
    used = np.flatnonzero(tables.any(axis=(0, 1)))  # statistics
    joint_table, tables = coefficients(p), tables[..., used]
    total, sums = np.zeros((r, size, r, size)), np.zeros((r, size))
    for start in range(0, features.shape[1], _ROWS):
        part = features[:, start : start + _ROWS]
        shares, _ = responsibilities(joint_densities(joint_table, part))
        has_share, part = shares > _NEGLIGIBLE, part[used]
        roots = np.sqrt(weights[start : start + _ROWS])
        if has_share.mean() > _MOSTLY:
            # Most components share most rows: one product of all takes less than those of pairs.
            scores = (tables.reshape(-1, used.size) @ part).reshape(r, size, -1)
            scores *= shares[:, None] * roots
            every = scores.reshape(r * size, -1)
            sums += (every @ roots).reshape(r, size)
            total += (every @ every.T).reshape(total.shape)
            continue
        rows = [np.flatnonzero(mask) for mask in has_share]
        by_component = [
            (table @ part[:, some]) * (share[some] * roots[some])
            for table, share, some in zip(tables, shares, rows, strict=True)
        ]
        # Two components over the rows that both share: where they are apart, one block a row.
        place = np.cumsum(has_share, axis=1) - 1
        together = has_share.astype(float) @ has_share.T.astype(float)
        for i, of_first in enumerate(by_component):
            sums[i] += of_first @ roots[rows[i]]
            total[i, :, i] += of_first @ of_first.T
            for k in i + 1 + np.flatnonzero(together[i, i + 1 :]):
                both = rows[i][has_share[k, rows[i]]]
                first, second = of_first[:, place[i, both]], by_component[k][:, place[k, both]]
                total[i, :, k] += first @ second.T
    return total, sums


def component_scores(features: Float, p: Parameters) -> Iterator[tuple[slice, Float, list[Float]]]:
    """Yield shares (r, n) of some rows, and the scores of each component times them.

    These have places for all parameters of a component. Where joined columns have missing cells,
    scores are those expected given the others.
    """
    d, tables = p.blocks.n_features, score_tables(p)
    for start in range(0, features.shape[1], _ROWS):
        part, scores = features[:, start : start + _ROWS], list[Float]()
        shares, _ = responsibilities(joint_of(part, p))
        with_missing = patterns(part, p.blocks)
        for i, (values, rests) in enumerate(completed(part, p, with_missing)):
            every = features_of(values.T, p.blocks) if with_missing else part
            score = (tables[i] @ every) * shares[i]
            for pattern, rest in zip(with_missing, rests, strict=True):
                # E[u uᵀ] is that of the completed rows and the covariance of what is missing.
                table = p.blocks.table(pattern.block)
                inverse = np.linalg.inv(np.linalg.cholesky(p.spread[i][table]))
                half = inverse[:, np.searchsorted(pattern.block, pattern.missing)]
                j, k = np.triu_indices(pattern.block.size)
                terms = np.where(j == k, 0.5, 1.0) * (half @ rest @ half.T)[j, k]
                places = np.ix_(1 + d + table[j, k], pattern.rows)
                score[places] += terms[:, None] * shares[i, pattern.rows]
            scores.append(score)
        yield slice(start, start + _ROWS), shares, scores


def settle_floored(
    information: Float, parameters: Parameters, floor: float | Float, structure: Structure
) -> None:
    """Put the model's own information in place where a variance is at its floor; in place.

    There the rows of the component spread less than the model allows: their scores hold no
    information about the mean, although it is known very well. The model's own values are ω/v for
    the mean and ω/2 for log v; ω Σ⁻¹, ω/2 and ω for a block with an eigenvalue at the floor.
    """
    p, places, d = parameters, component_places(parameters), parameters.means.shape[1]
    is_low = structure.eigenvalues(p) <= AT_FLOOR * floor
    blocks = [(np.array([j]), np.array([[j]])) for j in p.blocks.single.tolist()]
    for features, table in [*blocks, *p.blocks.places]:
        upper = np.triu_indices(features.size)
        halves = np.where(upper[0] == upper[1], 0.5, 1.0)
        for c in np.flatnonzero(is_low[:, features].any(axis=1)):
            means, spread = places[c, 1 + features], places[c, 1 + d + table[upper]]
            floored = np.concatenate([means, spread])
            information[floored] = 0.0
            information[:, floored] = 0.0
            by_means = p.weights[c] / p.variances[c, features]
            if features.size > 1:
                by_means = p.weights[c] * np.linalg.inv(p.spread[c][..., table])
            information[np.ix_(means, means)] = by_means
            information[spread, spread] = p.weights[c] * halves


def add_prior(
    score: Float,
    information: Float,
    parameters: Parameters,
    prior: VariancePrior,
    n_rows: float,
) -> None:
    """Add the slope and the curvature of the prior to those of the rows; in place."""
    p, structure = parameters, prior.structure
    places = component_places(p)[:, 1 + p.means.shape[1] :]
    values, turns = p.variances / structure.units, []
    for place, (features, table) in enumerate(p.blocks.places):
        roots = np.linalg.cholesky(p.spread[..., table])
        _, singular, right = np.linalg.svd(structure.inverses[place] @ roots)
        values[:, features] = singular**2
        turns.append(right)  # rows are the directions whose logarithms the prior knows
    slope, curvature = prior.slope(values) / n_rows, prior.curvature(values) / n_rows
    single = p.blocks.single
    of_single = places[:, single]
    score[of_single] += slope[:, single]
    information[of_single, of_single] += curvature[:, single]
    for (features, table), right in zip(p.blocks.places, turns, strict=True):
        first, second = np.triu_indices(features.size)
        twice = np.where(first == second, 1.0, 2.0)
        for c in range(p.n_components):
            # ∂ log λ / ∂ E_jk, one row for each λ.
            slopes = twice * right[c][:, first] * right[c][:, second]
            of_block = places[c, table[first, second]]
            score[of_block] += slope[c, features] @ slopes
            information[np.ix_(of_block, of_block)] += (slopes.T * curvature[c, features]) @ slopes
    d, all_places = p.means.shape[1], component_places(p)
    for distribution, features, _ in p.blocks.stacks:
        means, variances = p.means[:, features], p.variances[:, features]
        slope, curvature = distribution.prior_slopes(means, variances, prior)
        units = np.concatenate([np.ones_like(means), variances], axis=-1)  # of (μ, log v)
        by_distribution = np.concatenate([1 + features, 1 + d + features], axis=-1)
        of_stack = all_places[:, by_distribution]  # (r, n, 2k)
        score[of_stack] += slope * units / n_rows
        outer = units[..., :, None] * units[..., None, :] / n_rows
        information[of_stack[..., :, None], of_stack[..., None, :]] += curvature * outer


def solve_information(
    information: Float, right: Float, n_components: int, ridge: float = 0.0
) -> Float:
    """I⁻¹ right, the null direction of the weights left out; `ridge` for a diagonal of 1."""
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    matrix = information / scale[:, None] / scale
    null = np.zeros(scale.size)
    null[:n_components] = 1.0 / scale[:n_components]
    null /= np.linalg.norm(null)
    matrix = matrix + np.outer(null, null)
    matrix[np.diag_indices_from(matrix)] += 1e-6 + ridge
    try:
        solved = cho_solve(cho_factor(matrix, lower=True), right / scale)
    except LinAlgError:
        solved = np.linalg.pinv(matrix, hermitian=True) @ (right / scale)
    return np.asarray(solved / scale)


def scoring_step(
    parameters: Parameters,
    score: Float,
    information: Float,
    structure: Structure,
    ridge: float = 0.0,
) -> tuple[Parameters, float]:
    """Parameters after one step, and the gain of log-likelihood per row that is left in all."""
    p, (r, d) = parameters, parameters.means.shape
    single = p.blocks.single
    pushed = np.zeros((r, d), bool)
    by_variance = parameters_from(score, r, p.blocks).variances
    floor = np.broadcast_to(structure.floor, d)
    pushed[:, single] = (p.variances <= AT_FLOOR * floor)[:, single] & (by_variance[:, single] < 0)
    free = np.ones(score.size, bool)
    free[r + r * d : r + 2 * r * d] = ~pushed.ravel()
    step = np.zeros_like(score)
    part = np.flatnonzero(free)
    matrix = information[np.ix_(part, part)]
    step[part] = solve_information(matrix, score[part], r)
    left = 0.5 * float(score @ step)
    if ridge:
        step[part] = solve_information(matrix, score[part], r, ridge)
    change = parameters_from(step, r, p.blocks)
    sizes = [
        np.abs(change.weights).max(),
        np.abs(change.means / np.sqrt(p.variances)).max(),
        np.abs(change.spread).max(),
    ]
    change = parameters_from(step * min(1.0, _LONGEST / max(max(sizes), 1e-300)), r, p.blocks)
    weights = p.weights * np.exp(change.weights)
    moved = replace(p, weights=weights / weights.sum(), means=p.means + change.means)
    return kept_positive(structure.raised(moved_spread(moved, change.spread)), p), left


def kept_positive(moved: Parameters, p: Parameters) -> Parameters:
    """The parameters `moved`, where probabilities and rates fall by a factor of `FALL` at most."""
    means, variances = moved.means.copy(), moved.variances.copy()
    for distribution, features, _ in p.blocks.stacks:
        least = FALL * distribution.positive(p.means[:, features], p.variances[:, features])
        values = distribution.positive(means[:, features], variances[:, features])
        if (values < least).any():
            raised = np.maximum(values, least)
            found = distribution.with_positive(raised, means[:, features], variances[:, features])
            means[:, features], variances[:, features] = found
    return replace(moved, means=means, variances=variances)
