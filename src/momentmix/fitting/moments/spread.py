"""Variances and covariances: given weights and means, and as far as moments can resolve them.

| paper symbol | name here | shape |
|---|---|---|
| E[z_j z_k z_I] − Σ_i ω_i μ_ij μ_ik Π μ_iI, j and k of one block | ``targets`` | (n, …) |
| θ_ij (solve-sigma), covariances Σ_i,jk | ``found`` | (r, …) |

Differs from the paper: (solve-sigma) uses order m alone. E[z_j² z_I] with |I| = 0, 1, 2 together
are far less noisy.

A plug-in density with a variance far below what its estimate can resolve is useless:
log-likelihoods fall by tens of nats. `resolvable` raises an estimate v̂ with standard error s to
E[v | v̂, v ≥ 0] = v̂ + s·φ(v̂/s)/Φ(v̂/s); with exact moments nothing changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import nnls
from scipy.special import log_ndtr

from momentmix._typing import Float, Int
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture.blocks import Blocks, one_a_block, spread_of
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.mixture.prior import Structure, from_eigenvalues

_PENALTY = 1e-3  # far below the noise of the conditions


def fit_spread(
    moments: StandardMoments, weights: Float, means: Float, structure: Structure
) -> Parameters:
    """Return the mixture with the variances and covariances that fit the moments best.

    Given weights and means, second moments within a block are linear in the moments. Blocks are
    fitted one by one, by least squares, and raised to the floors of `structure`. A penalty towards
    the second moments of all rows determines components that have no condition; its factor keeps it
    far below the noise of the conditions.
    """
    blocks = structure.blocks or Blocks(means.shape[1])
    start = Parameters(weights, means, np.ones_like(means), None, blocks)
    matrices = np.zeros((*means.shape, means.shape[1]))
    for features in blocks.with_spread:
        own, is_single = np.array(features), len(features) == 1
        j, k = np.triu_indices(own.size)
        j, k = own[j], own[k]
        block = blocks.partition[blocks.block_of[own[0]]]
        # Numbers 0, 1, … of further features beside two of one block.
        most = len(moments.squared)
        if not is_single:
            most = max(1, min(most, moments.order - 1))
        levels = [_targets(moments, block, j, k, q, blocks) for q in range(most)]
        products = np.concatenate([means[:, sets].prod(axis=2) for sets, _ in levels], axis=1).T
        targets = np.concatenate([values for _, values in levels])
        targets -= products @ (weights[:, None] * means[:, j] * means[:, k])  # eq. cov-A
        n = max(moments.n_effective, 1.0)
        penalty = np.sqrt(_PENALTY / n * len(products) * weights)
        matrix = np.concatenate([products * weights, np.diag(penalty)])
        right = np.concatenate([targets, penalty[:, None] * targets[0]])
        if is_single:
            found = nnls(matrix, right[:, 0], maxiter=100 * weights.size)[0][:, None]
        else:
            found = np.linalg.lstsq(matrix, right, rcond=None)[0]  # eq. solve-sigma
        matrices[:, j, k] = matrices[:, k, j] = found
    return structure.raised(start.with_spread(spread_of(matrices, blocks)))


def _targets(
    moments: StandardMoments, block: tuple[int, ...], j: Int, k: Int, q: int, blocks: Blocks
) -> tuple[Int, Float]:
    """Index sets I of q features outside a block, and the means of z_j z_k z_I, (n, n_pairs)."""
    sets = index_sets(moments.n_features, q)
    sets = sets[one_a_block(sets, blocks) & ~np.isin(sets, block).any(axis=1)]
    values = np.empty((len(sets), j.size))
    for place, (a, b) in enumerate(zip(j.tolist(), k.tolist(), strict=True)):
        if a == b:
            values[:, place] = moments.squared[q][a][colex_rank(sets - (sets > a))]
        else:
            pair = np.broadcast_to([a, b], (len(sets), 2))
            union = np.sort(np.concatenate([sets, pair], axis=1), axis=1)
            values[:, place] = moments.orders[q + 2][colex_rank(union)]
    return sets, values


def resolvable(parameters: Parameters, errors: Uncertainty, structure: Structure) -> Parameters:
    """Variances and covariances that the moments can resolve, for use in a density.

    A variance is raised as said above, and by the squared standard error of its mean; no component
    becomes wider than all rows together. The covariance of a block is raised so in each direction
    of its eigenvectors relative to the total covariance: eigenvalues have standard errors by the
    delta method.
    """
    p, d, deviations = parameters, parameters.blocks.n_features, errors.deviations()
    given, spread, means = p.spread, p.spread.copy(), p.means.copy()
    raised = _raised(p.variances, deviations.variances) + deviations.means**2
    variances = np.minimum(p.variances + raised, np.maximum(p.variances, 1.0))
    spread[:, :d] = np.maximum(variances, np.max(structure.floor))
    rows = parameters_from(np.arange(len(errors.factor)), p.n_components, p.blocks)
    factor_of_spread, factor_of_means = errors.factor[rows.spread], errors.factor[rows.means]
    for place, (features, places) in enumerate(p.blocks.places):
        values, vectors = np.linalg.eigh(structure.relative(given[:, places], place))
        directions = structure.inverses[place].T @ vectors  # λ = xᵀ Σ x for each column x
        change = np.einsum("ijkq,ijl,ikl->ilq", factor_of_spread[:, places], directions, directions)
        shift = np.einsum("ijq,ijl->ilq", factor_of_means[:, features], directions)
        more = _raised(values, np.sqrt((change**2).sum(axis=2))) + (shift**2).sum(axis=2)
        values = np.minimum(values + more, np.maximum(values, 1.0))
        values = np.maximum(values, structure.least(place))
        spread[:, places] = from_eigenvalues(structure.roots[place], values, vectors)
    for law in p.blocks.laws:
        own, pair = list(law.features), p.of_law(law)
        values, slopes = law.positive(*pair), law.positive_slopes(*pair)
        factor = np.concatenate([factor_of_means[:, own], factor_of_spread[:, own]], axis=1)
        values = values + _raised(values, np.sqrt(((slopes @ factor) ** 2).sum(axis=2)))
        means[:, own], spread[:, own] = law.with_positive(values, *pair)
    return replace(p, means=means).with_spread(spread)


def _raised(values: Float, deviations: Float) -> Float:
    """s·φ(v̂/s)/Φ(v̂/s): what the mean of v given v ≥ 0 exceeds its estimate by."""
    deviations = np.maximum(deviations, 1e-300)
    ratio = np.clip(values / deviations, -1e150, 1e150)
    log_density = -0.5 * ratio**2 - 0.5 * np.log(2 * np.pi)
    return np.asarray(deviations * np.exp(log_density - log_ndtr(ratio)))
