"""Starts with one component more: a component of a coarser answer, split where moments disagree.

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

import numpy as np
from scipy.linalg import eigh

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import build_conditions, feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.over_identification import HIGHEST_POWER
from momentmix.fitting.inference.whitening import Whitening
from momentmix.fitting.moment.efficient import efficient_step
from momentmix.fitting.moment.polish import Bounds
from momentmix.index_sets import index_sets
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import few_threads, map_in_order

_DIRECTIONS = 2  # eigenvectors of each kind: a plane has two
_COMPONENTS = 4  # the heaviest ones: a light one that is two is seldom what the moments show
_SHARES = (0.5, 0.25, 0.75)  # of the first half in the weight
_GAP = 0.8  # distance of the halves from the middle, in deviations: the polish finds the rest
_RATIO = 2.0  # of the halves' variances where they differ in spread
# So many splits take so many steps each: a few show which of them are worth more.
SPLIT_STEPS = ((100, 1), (12, 2), (5, 4))
SPLIT_CONDITIONS = 500


def best_splits(
    moments: StandardMoments,
    parent: Parameters,
    bounds: Bounds,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> list[Parameters]:
    """The best starts that split a component of an answer with one component less."""
    conditions = build_conditions(moments, 2, 1, SPLIT_CONDITIONS, rng, HIGHEST_POWER)
    conditions = conditions.subset(np.arange(1, conditions.size))
    # One covariance for all, or costs could not be compared.
    whitening = Whitening(conditions, parent, often=True)
    starts = split_starts(moments, parent)
    for kept, n_steps in SPLIT_STEPS:

        def stepped(p: Parameters, n_steps: int = n_steps) -> tuple[Parameters, float]:
            cost = np.inf
            for _ in range(n_steps):
                p, cost, _ = efficient_step(conditions, p, bounds, whitening)
            return p, cost

        with few_threads(n_threads > 1):
            ends = list(map_in_order(stepped, starts[:kept], n_threads))
        starts = [p for p, _ in sorted(ends, key=lambda end: end[1])]
    return starts[:2]


def split_starts(moments: StandardMoments, parent: Parameters) -> list[Parameters]:
    """Starts with one component more than `parent`; none where the moments are not known."""
    if moments.cubed is None or moments.two_squares is None or moments.powers is None:
        return []
    cubes, squares = _residuals(moments, parent)
    if not (np.isfinite(cubes).all() and np.isfinite(squares).all()):
        return []
    heaviest = np.argsort(-parent.weights, kind="stable")[:_COMPONENTS].tolist()
    starts = []
    for c in heaviest:
        for direction in _leading(cubes):
            offset = _GAP * direction * np.sqrt(parent.variances[c])
            factor = 1.0 - 0.7 * direction**2  # part of the spread was the gap
            starts += [_split(parent, c, s, offset, factor, factor) for s in _SHARES]
        for direction in _leading(squares):
            factor = _RATIO ** (direction / np.abs(direction).max())
            starts += [_split(parent, c, s, 0.0 * direction, factor, 1 / factor) for s in _SHARES]
    return starts


def _residuals(moments: StandardMoments, parent: Parameters) -> tuple[Float, Float]:
    """Observed minus model, of shape (d, d) each."""
    assert moments.cubed is not None
    assert moments.two_squares is not None
    assert moments.powers is not None
    d, w = moments.n_features, parent.weights
    powers = feature_powers(parent, 4)
    cubes, squares = np.empty((d, d)), np.empty((d, d))
    for j in range(d):
        cubes[j, np.arange(d) != j] = moments.cubed[j]
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


def _split(
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
