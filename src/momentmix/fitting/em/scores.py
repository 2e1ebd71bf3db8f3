"""Scores of rows under a mixture, their outer product, and scoring steps.

| symbol | name here | shape |
|---|---|---|
| Σ_i = A_i A_iᵀ, u = A_i⁻¹ (z − μ_i) | ``mixture/parameters.py`` | (d, d), (d, n) |
| Σ_i = A_i exp(E_i) A_iᵀ, E = 0 at the parameters; log v in a block of one | E | (d + n_pairs,) |
| θ = (log ω, μ, E), the size of a mixture's parameters | order of the parameters | |
| ∂ log f(z) / ∂ log ω_i = γ_i − ω_i | first r | |
| ∂ log f(z) / ∂ μ_i = γ_i A_i⁻ᵀ u | next rd | |
| ∂ log f(z) / ∂ E_jj, E_jk = γ_i (u_j² − 1) / 2, γ_i u_j u_k | last r (d + n_pairs) | |
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
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from momentmix._typing import Float
from momentmix.fitting.em.em import joint_of
from momentmix.fitting.em.patterns import completed
from momentmix.mixture.blocks import Blocks, full_matrices, spread_of
from momentmix.mixture.density import joint_densities, responsibilities
from momentmix.mixture.gaussian import coefficients, features_of, values_of
from momentmix.mixture.missing import patterns
from momentmix.mixture.parameters import (
    Parameters,
    component_places,
    dependent_places,
    inverse_roots,
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


def information_matrix(
    features: Float, parameters: Parameters, n_threads: int = 1, weights: Float | None = None
) -> Float:
    """Mean outer product of the scores, weighted where there are weights of rows (n,)."""
    if parameters.blocks.missing:
        return _information_of_missing(features, parameters, weights)
    r, size = parameters.n_components, parameters.blocks.n_parameters
    n = features.shape[1]
    # Parts do not depend on the number of threads, so that neither do the bits.
    n_parts = 4 if r * size < _LARGE and n >= 4 * _ROWS else 1
    edges = np.linspace(0, n, n_parts + 1).astype(int)
    parts = [
        (features[:, a:b], None if weights is None else weights[a:b]) for a, b in pairwise(edges)
    ]
    total = float(n) if weights is None else float(weights.sum())
    blocks = np.zeros((r, size, r, size))
    sums = np.zeros((r, size))
    # More threads wait for the interpreter: many of its steps are short.
    n_threads = min(n_threads, 2)
    score_sums = map_in_order(lambda part: _score_sums(*part, parameters), parts, n_threads)
    for part_blocks, part_sums in score_sums:
        blocks += part_blocks
        sums += part_sums
    i, k = np.triu_indices(r, 1)
    blocks[k, :, i] = blocks[i, :, k].transpose(0, 2, 1)
    # Variances that follow from the means stay as they are: their scores are 0.
    places = component_places(parameters)[:, _kept_places(parameters.blocks)].ravel()
    information = np.zeros((parameters.n_places,) * 2)
    information[np.ix_(places, places)] = blocks.reshape(r * size, r * size) / total
    # So far ∂/∂ log ω_i was taken as γ_i; it is γ_i − ω_i.
    mean = np.zeros(len(information))
    mean[places] = sums.ravel() / total
    w = parameters.weights
    information[:r] -= np.outer(w, mean)
    information[:, :r] -= np.outer(mean, w)
    information[:r, :r] += np.outer(w, w)
    dependent = dependent_places(parameters)
    information[dependent, dependent] = 1.0
    return information


def component_scores(features: Float, p: Parameters) -> Iterator[tuple[slice, Float, list[Float]]]:
    """Yield shares (r, n) of some rows, and the scores of each component times them.

    These have places for all parameters of a component. Where joined columns have missing cells,
    scores are those expected given the others.
    """
    d, score_of = p.blocks.n_features, Scores(p)
    for start in range(0, features.shape[1], _ROWS):
        part, scores = features[:, start : start + _ROWS], list[Float]()
        shares, _ = responsibilities(joint_of(part, p))
        found = patterns(part, p.blocks)
        for i, (values, rests) in enumerate(completed(part, p, found)):
            own = np.zeros((p.blocks.n_places, part.shape[1]))
            every = features_of(values.T, p.blocks) if found else part
            own[score_of.kept] = score_of(i, every, shares[i])
            for pattern, rest in zip(found, rests, strict=True):
                assert score_of.inverses is not None
                # E[u uᵀ] is that of the completed rows and the covariance of what is missing.
                half = score_of.inverses[i][np.ix_(pattern.block, pattern.missing)]
                extra = half @ rest @ half.T
                j, k = np.triu_indices(pattern.block.size)
                terms = np.where(j == k, 0.5, 1.0) * extra[j, k]
                target = 1 + d + p.blocks.table(pattern.block)[j, k]
                own[np.ix_(target, pattern.rows)] += terms[:, None] * shares[i, pattern.rows]
            scores.append(own)
        yield slice(start, start + _ROWS), shares, scores


def _information_of_missing(features: Float, p: Parameters, weights: Float | None) -> Float:
    """The same where joined columns have missing cells."""
    weights = np.ones(features.shape[1]) if weights is None else weights
    places, total = component_places(p), np.zeros((p.n_places,) * 2)
    for rows, shares, parts in component_scores(features, p):
        scores = np.zeros((p.n_places, shares.shape[1]))
        for own, part in zip(places, parts, strict=True):
            scores[own] = part
        scores[places[:, 0]] -= p.weights[:, None]
        total += (scores * weights[rows]) @ scores.T
    total /= weights.sum()
    dependent = dependent_places(p)
    total[dependent, dependent] = 1.0
    return np.asarray(total)


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
        own = np.where(upper[0] == upper[1], 0.5, 1.0)
        for c in np.flatnonzero(is_low[:, features].any(axis=1)):
            means, spread = places[c, 1 + features], places[c, 1 + d + table[upper]]
            floored = np.concatenate([means, spread])
            information[floored] = 0.0
            information[:, floored] = 0.0
            by_means = p.weights[c] / p.variances[c, features]
            if features.size > 1:
                by_means = p.weights[c] * np.linalg.inv(p.spread[c][..., table])
            information[np.ix_(means, means)] = by_means
            information[spread, spread] = p.weights[c] * own


def _score_sums(
    features: Float, weights: Float | None, parameters: Parameters
) -> tuple[Float, Float]:
    """Sums of score scoreᵀ by pairs i ≤ k of components, and of scores; times weights of rows."""
    r, size = parameters.n_components, parameters.blocks.n_parameters
    table, score_of = coefficients(parameters), Scores(parameters)
    blocks = np.zeros((r, size, r, size))
    sums = np.zeros((r, size))
    for start in range(0, features.shape[1], _ROWS):
        part = features[:, start : start + _ROWS]
        shares, _ = responsibilities(joint_densities(table, part))
        has_share = shares > _NEGLIGIBLE
        roots = None if weights is None else np.sqrt(weights[start : start + _ROWS])
        if parameters.blocks.laws and has_share.mean() > _MOSTLY:
            # Most components share most rows: one product of all takes less than those of pairs.
            of_all = [score_of(i, part, shares[i]) for i in range(r)]
            together = np.concatenate(of_all) if roots is None else np.concatenate(of_all) * roots
            sums += (together.sum(axis=1) if roots is None else together @ roots).reshape(r, size)
            blocks += (together @ together.T).reshape(blocks.shape)
            continue
        rows = [np.flatnonzero(mask) for mask in has_share]
        scores = [score_of(i, part, shares[i], rows[i]) for i in range(r)]
        if roots is not None:
            scores = [score * roots[mine] for score, mine in zip(scores, rows, strict=True)]
        # Two components over the rows that both share: where they are apart, one block a row.
        place = np.cumsum(has_share, axis=1) - 1
        together = has_share.astype(float) @ has_share.T.astype(float)
        for i in range(r):
            sums[i] += scores[i].sum(axis=1) if roots is None else scores[i] @ roots[rows[i]]
            blocks[i, :, i] += scores[i] @ scores[i].T
            for k in i + 1 + np.flatnonzero(together[i, i + 1 :]):
                both = rows[i][has_share[k, rows[i]]]
                first, second = scores[i][:, place[i, both]], scores[k][:, place[k, both]]
                blocks[i, :, k] += first @ second.T
    return blocks, sums


class Scores:
    """Scores of rows by the parameters of one component; variances that follow are left out."""

    def __init__(self, parameters: Parameters) -> None:
        p, blocks, d = parameters, parameters.blocks, parameters.blocks.n_features
        self.parameters, self.inverses = p, inverse_roots(p)
        self.kept = _kept_places(blocks)
        table = np.zeros((p.n_components, blocks.n_places, blocks.n_statistics))
        for number, (law, own_table) in enumerate(zip(blocks.laws, _law_scores(p), strict=True)):
            own = np.array(law.features)
            places = np.concatenate([own, d + own])
            table[:, 1 + places[:, None], blocks.statistics_of(number)] = own_table
        by_law = np.concatenate([[j, d + j] for law in blocks.laws for j in law.features] or [[]])
        self.by_law = np.isin(self.kept, 1 + by_law)
        self.used = np.flatnonzero(table.any(axis=(0, 1)))  # statistics
        self.table = table[:, self.kept[self.by_law]][..., self.used]

    def __call__(
        self, i: int, features: Float, shares: Float, rows: NDArray[np.int64] | None = None
    ) -> Float:
        """Scores of component i, (n_parameters, n), of some rows; of all where they are None."""
        share = shares if rows is None else shares[rows]
        if self.by_law[1:].all():
            scores = np.empty((self.kept.size, share.size))
            scores[0] = share
        else:
            scores = self._gaussian(i, features, share, rows)
        scores = scores if scores.shape[0] == self.kept.size else scores[self.kept]
        if self.by_law.any():
            taken = features[self.used] if rows is None else features[np.ix_(self.used, rows)]
            scores[self.by_law] = (self.table[i] @ taken) * share
        return scores

    def _gaussian(
        self, i: int, features: Float, share: Float, rows: NDArray[np.int64] | None
    ) -> Float:
        """γ_i·(1, A⁻ᵀ u, (u² − 1) / 2, u_j u_k) of some rows, of shape (n_statistics, n)."""
        p, inverses, blocks = self.parameters, self.inverses, self.parameters.blocks
        d, values = p.means.shape[1], values_of(features, blocks)
        scores = np.empty((blocks.n_places, share.size))
        scores[0] = share
        gap, squares = scores[1 : d + 1], scores[d + 1 : 2 * d + 1]
        values = values if rows is None else values.take(rows, axis=1)
        np.subtract(values, p.means[i][:, None], gap)
        if inverses is None:
            deviation = np.sqrt(p.variances[i])[:, None]
            gap /= deviation
        else:
            gap[:] = inverses[i] @ gap
            j, k = blocks.pairs.T
            np.multiply(gap[j], gap[k], out=scores[2 * d + 1 :])
            scores[2 * d + 1 :] *= scores[0]
        np.multiply(gap, gap, out=squares)
        squares -= 1.0
        squares *= 0.5 * scores[0]
        gap *= scores[0]
        if inverses is None:
            gap /= deviation
        else:
            gap[:] = inverses[i].T @ gap
        return scores


def _kept_places(blocks: Blocks) -> NDArray[np.int64]:
    """Places of a component's parameters: those that are free."""
    return np.delete(np.arange(blocks.n_places), blocks.not_free)


def _law_scores(parameters: Parameters) -> list[Float]:
    """Scores of each law by means and logarithms of variances, (r, 2k, …) each."""
    p, tables = parameters, dict[int, Float]()
    for law, own, _ in p.blocks.stacks:
        table = law.scores(p.means[:, own], p.variances[:, own])
        table[..., own.shape[1] :, :] *= p.variances[:, own, None]
        tables |= {int(features[0]): table[:, i] for i, features in enumerate(own)}
    return [tables[law.features[0]] for law in p.blocks.laws]


def mean_score(statistics: Float, parameters: Parameters) -> Float:
    """Mean score over all rows from the sums of an EM pass."""
    p, d = parameters, parameters.means.shape[1]
    counts = statistics[:, -1]
    n = counts.sum()
    first, second = statistics[:, :d], statistics[:, d : 2 * d]
    m, v = p.means, p.variances
    by_weight = counts - n * p.weights
    inverses = inverse_roots(p)
    if inverses is None:
        by_mean = (first - counts[:, None] * m) / v
        squares = second - 2 * m * first + counts[:, None] * m**2
        by_spread = 0.5 * (squares / v - counts[:, None])
        score = np.concatenate([by_weight, by_mean.ravel(), by_spread.ravel()])
        return np.asarray(score / n)
    gaps = (first - counts[:, None] * m)[..., None]
    by_mean = (inverses.swapaxes(-1, -2) @ (inverses @ gaps))[..., 0]
    outer = full_matrices(statistics[:, d : d + p.blocks.n_spread], p.blocks)
    outer -= m[:, :, None] * first[:, None, :] + first[:, :, None] * m[:, None, :]
    outer += counts[:, None, None] * m[:, :, None] * m[:, None, :]
    # What stands between blocks takes no part: it meets zeros of the block-diagonal inverses.
    within = full_matrices(spread_of(outer, p.blocks), p.blocks)
    by_spread = spread_of(inverses @ within @ inverses.swapaxes(-1, -2), p.blocks)
    by_spread[:, :d] = 0.5 * (by_spread[:, :d] - counts[:, None])
    for number, (law, table) in enumerate(zip(p.blocks.laws, _law_scores(p), strict=True)):
        own = np.array(law.features)
        values = (table @ statistics[:, p.blocks.statistics_of(number), None])[..., 0]
        by_mean[:, own], by_spread[:, own] = np.split(values, 2, axis=1)
    parts = [by_weight, by_mean.ravel(), by_spread[:, :d].ravel(), by_spread[:, d:].ravel()]
    return np.asarray(np.concatenate(parts) / n)


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
    own = places[:, single]
    score[own] += slope[:, single]
    information[own, own] += curvature[:, single]
    for (features, table), right in zip(p.blocks.places, turns, strict=True):
        first, second = np.triu_indices(features.size)
        twice = np.where(first == second, 1.0, 2.0)
        for c in range(p.n_components):
            # ∂ log λ / ∂ E_jk, one row for each λ.
            slopes = twice * right[c][:, first] * right[c][:, second]
            own = places[c, table[first, second]]
            score[own] += slope[c, features] @ slopes
            information[np.ix_(own, own)] += (slopes.T * curvature[c, features]) @ slopes
    d, all_places = p.means.shape[1], component_places(p)
    for law, own, _ in p.blocks.stacks:
        means, variances = p.means[:, own], p.variances[:, own]
        slope, curvature = law.prior_slopes(means, variances, prior)
        units = np.concatenate([np.ones_like(means), variances], axis=-1)  # of (μ, log v)
        own = all_places[:, np.concatenate([1 + own, 1 + d + own], axis=-1)]  # (r, n, 2k)
        score[own] += slope * units / n_rows
        outer = units[..., :, None] * units[..., None, :]
        information[own[..., :, None], own[..., None, :]] += curvature * outer / n_rows


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
    own = information[np.ix_(part, part)]
    step[part] = solve_information(own, score[part], r)
    left = 0.5 * float(score @ step)
    if ridge:
        step[part] = solve_information(own, score[part], r, ridge)
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
    for law, own, _ in p.blocks.stacks:
        least = FALL * law.positive(p.means[:, own], p.variances[:, own])
        values = law.positive(means[:, own], variances[:, own])
        if (values < least).any():
            raised = np.maximum(values, least)
            found = law.with_positive(raised, means[:, own], variances[:, own])
            means[:, own], variances[:, own] = found
    return replace(moved, means=means, variances=variances)
