"""Splits: starts with one component more, from a coarser answer, where moments disagree; merges.

| symbol | name here | shape |
|---|---|---|
| K_jk = residual of E z_j³ z_k, on the diagonal of E z_j⁴ | ``cubes`` | (d, d) |
| Q_jk = residual of E z_j² z_k², on the diagonal of E z_j⁴ | ``squares`` | (d, d) |

Partitions of distinct features do not see clusters along one column or one line, nor components
that differ in spread alone. Where two components were taken for one that differ by δ in their
means, K is about a multiple of δ δᵀ; where they differ in their variances by ε, Q is about a
multiple of ε εᵀ. So the leading eigenvectors are the directions to split along.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import eigh

from momentmix._typing import Float
from momentmix.fitting.em.pooling import merges_by_bound
from momentmix.fitting.inference.tested_conditions import HIGHEST_POWER
from momentmix.fitting.moments.conditions import Conditions, build_conditions, feature_powers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.steps import Bounds, step
from momentmix.fitting.moments.whitening import Whitening
from momentmix.index_sets import index_sets
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import few_threads, map_in_order

_DIRECTIONS = 2  # eigenvectors of each kind: a plane has two
_COMPONENTS = 4  # the heaviest ones: a light one that is two is seldom what the moments show
_SHARES = (0.5, 0.25, 0.75)  # of the first half in the weight
_GAP = 0.8  # distance of the halves from the middle, in deviations: the polish finds the rest
_RATIO = 2.0  # of the halves' variances where they differ in spread
_MERGES = 3  # that lose least likelihood, by a bound
_NEAR = 0.1  # mean of squared shifts and log ratios of variances: starts that end at one answer
# So many starts take so many steps each: a few show which of them are worth more.
_STEPS = ((100, 1), (5, 5))
_CONDITIONS = 500


def few_conditions(moments: StandardMoments, rng: np.random.Generator) -> Conditions:
    """Return conditions that show which of many starts are worth more."""
    return build_conditions(moments, 2, 1, _CONDITIONS, rng, HIGHEST_POWER).without_sum


def best_splits(
    moments: StandardMoments,
    conditions: Conditions,
    parent: Parameters,
    bounds: Bounds,
    known: Parameters | None = None,
    n_threads: int = 1,
) -> list[Parameters]:
    """The best two starts that split a component of an answer with one component less.

    Beside a `known` answer, at most one other start that the moments may prefer as well.
    """
    # One covariance for all, or costs could not be compared.
    whitening = Whitening(conditions, parent, often=True)
    ends = _after_steps(conditions, split_starts(moments, parent), bounds, whitening, n_threads)
    if known is not None:
        error = whitening.whiten(conditions.values - conditions.model(known))
        most = float(error @ error) + known.n_free / moments.n_effective
        ends = [end for end in ends if end[0] < most and not _are_near(end[1], known)][:1]
    return [p for _, p in ends[:2]]


def best_merge(conditions: Conditions, answer: Parameters, bounds: Bounds) -> Parameters:
    """The best start that merges two components of an answer with one component more."""
    starts = merges_by_bound(answer, _MERGES)
    whitening = Whitening(conditions, answer, often=True)
    return _after_steps(conditions, starts, bounds, whitening, 1)[0][1]


def _are_near(p: Parameters, known: Parameters) -> bool:
    """Whether each component of a mixture is close to another one of a known mixture."""
    shifts = (p.means[:, None] - known.means) ** 2 / known.variances
    ratios = np.log(p.variances[:, None] / known.variances) ** 2
    gaps = (shifts + ratios).mean(axis=2)
    nearest = gaps.argmin(axis=1)
    return np.unique(nearest).size == nearest.size and float(gaps.min(axis=1).max()) < _NEAR


def _after_steps(
    conditions: Conditions,
    starts: list[Parameters],
    bounds: Bounds,
    whitening: Whitening,
    n_threads: int,
) -> list[tuple[float, Parameters]]:
    """Starts after a few steps with their costs, the best first; fewer go on after each stage."""

    def moved(p: Parameters, n_steps: int) -> tuple[float, Parameters]:
        cost = np.inf
        for _ in range(n_steps):
            p, cost, *_ = step(conditions, p, bounds, whitening)
        return cost, p

    ends = [(np.inf, p) for p in starts]
    for count, n_steps in _STEPS:
        run = partial(moved, n_steps=n_steps)
        with few_threads(n_threads > 1):
            best = map_in_order(run, [p for _, p in ends[:count]], n_threads)
            ends = sorted(best, key=lambda end: end[0])
    return ends


def split_starts(moments: StandardMoments, parent: Parameters) -> list[Parameters]:
    """Return starts with one component more than `parent`; none without the moments."""
    residuals = _residuals(moments, parent)
    if residuals is None or not np.isfinite(residuals).all():
        return []
    starts, (cubes, squares) = [], residuals
    for c in np.argsort(-parent.weights, kind="stable")[:_COMPONENTS].tolist():
        for direction in _leading(cubes):
            offset = _GAP * direction * np.sqrt(parent.variances[c])
            factor = 1.0 - 0.7 * direction**2  # part of the spread was the gap
            starts += [_split_component(parent, c, s, offset, factor, factor) for s in _SHARES]
        for direction in _leading(squares):
            factor = _RATIO ** (direction / np.abs(direction).max())
            starts += [
                _split_component(parent, c, s, 0.0 * direction, factor, 1 / factor) for s in _SHARES
            ]
    return starts


def _residuals(moments: StandardMoments, parent: Parameters) -> tuple[Float, Float] | None:
    """Observed minus model, of shape (d, d) each; None without the moments."""
    if moments.cubed is None or moments.two_squares is None or moments.powers is None:
        return None
    d, w, every = moments.n_features, parent.weights, np.arange(moments.n_features)
    powers = feature_powers(parent, 4)
    cubes, squares = np.zeros((d, d)), np.zeros((d, d))
    cubes[every[:, None] != every] = moments.cubed.ravel()
    i, k = index_sets(d, 2).T
    squares[i, k] = squares[k, i] = moments.two_squares
    cubes -= (w[:, None] * powers[3]).T @ powers[1]
    squares -= (w[:, None] * powers[2]).T @ powers[2]
    for (j, k), covariance in zip(parent.blocks.pairs.tolist(), parent.covariances.T, strict=True):
        # E z_j³ z_k = E z_j³ E z_k + 3 E z_j² Σ_jk; E z_j² z_k² has 4 μ_j μ_k Σ_jk + 2 Σ_jk² more.
        cubes[j, k] -= 3 * w @ (powers[2, :, j] * covariance)
        cubes[k, j] -= 3 * w @ (powers[2, :, k] * covariance)
        more = w @ ((4 * powers[1, :, j] * powers[1, :, k] + 2 * covariance) * covariance)
        squares[j, k] -= more
        squares[k, j] -= more
    for law in parent.blocks.laws:  # features of one law are no product of two
        own = np.ix_(law.features, law.features)
        cubes[own], squares[own] = 0.0, 0.0
    diagonal = moments.powers[1] - w @ powers[4]
    np.fill_diagonal(cubes, diagonal)
    np.fill_diagonal(squares, diagonal)
    return (cubes + cubes.T) / 2, squares


def _leading(table: Float) -> list[Float]:
    """Eigenvectors of the largest eigenvalues by size."""
    values, vectors = eigh(table)
    return [vectors[:, k] for k in np.argsort(-np.abs(values))[:_DIRECTIONS]]


def _split_component(
    parent: Parameters, c: int, share: float, offset: Float, first: Float, second: Float
) -> Parameters:
    """Component c as two, their means `offset` apart from its own, their variances by factors."""
    rest = np.delete(np.arange(parent.n_components), c)
    weight, mean, variance = parent.weights[c], parent.means[c], parent.variances[c]
    j, k = parent.blocks.pairs.T
    shared = [parent.covariances[c] * np.sqrt(f[j] * f[k]) for f in (first, second)]
    # The middle of the two stays where it was.
    low, high = mean - 2 * (1 - share) * offset, mean + 2 * share * offset
    halves = Parameters(
        weight * np.array([share, 1 - share]),
        np.array([low, high]),
        np.array([variance * first, variance * second]),
        np.array(shared),
        parent.blocks,
    )
    return Parameters.concatenate([parent[rest], halves]).completed()
