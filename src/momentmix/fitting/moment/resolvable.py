"""Variances and covariances that the moments can resolve, for use in a density.

| symbol | name here |
|---|---|
| E[v | v̂, v ≥ 0] = v̂ + s·φ(v̂/s)/Φ(v̂/s), s the standard error | ``_raised`` |

A plug-in density with a variance far below what its estimate can resolve is useless:
log-likelihoods fall by tens of nats. With exact moments nothing changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from momentmix._typing import Float
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.mixture.blocks import matrices_of
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.mixture.prior import Structure, from_eigenvalues


def resolvable(
    parameters: Parameters, errors: Uncertainty | Parameters, structure: Structure
) -> Parameters:
    """Variances and covariances that the moments can resolve, for use in a density.

    The covariance of a block is treated as `resolvable_variances` treats a variance, in each
    direction of its eigenvectors relative to the total covariance: eigenvalues have standard
    errors by the delta method. `errors` may be standard errors where no features are joined.
    """
    deviations = errors if isinstance(errors, Parameters) else errors.deviations()
    if structure.is_diagonal:
        return resolvable_variances(parameters, deviations, float(np.max(structure.floor)))
    assert isinstance(errors, Uncertainty)
    p, d = parameters, parameters.means.shape[1]
    floor = np.max(structure.floor)
    alone = Parameters(p.weights, p.means, p.variances)
    spread = p.spread.copy()
    spread[:, :d] = resolvable_variances(alone, deviations, floor).variances
    rows = parameters_from(np.arange(len(errors.factor)), p.n_components, p.blocks)
    factor_of_spread, factor_of_means = errors.factor[rows.spread], errors.factor[rows.means]
    for place, (features, places) in enumerate(p.blocks.places):
        values, vectors = np.linalg.eigh(structure.relative(matrices_of(p.spread, places), place))
        directions = structure.inverses[place].T @ vectors  # λ = xᵀ Σ x for each column x
        change = np.einsum("ijkq,ijl,ikl->ilq", factor_of_spread[:, places], directions, directions)
        shift = np.einsum("ijq,ijl->ilq", factor_of_means[:, features], directions)
        raised = _raised(values, np.sqrt((change**2).sum(axis=2))) + (shift**2).sum(axis=2)
        values = np.minimum(values + raised, np.maximum(values, 1.0))
        values = np.maximum(values, structure.least(place))
        spread[:, places] = from_eigenvalues(structure.roots[place], values, vectors)
    means = p.means.copy()
    for law in p.blocks.laws:
        own = list(law.features)
        pair = p.means[:, own], p.variances[:, own]
        values, slopes = law.positive(*pair)
        factor = np.concatenate([factor_of_means[:, own], factor_of_spread[:, own]], axis=1)
        values = values + _raised(values, np.sqrt(((slopes @ factor) ** 2).sum(axis=2)))
        means[:, own], spread[:, own] = law.with_positive(values, *pair)
    return replace(p, means=means).with_spread(spread)


def resolvable_variances(
    parameters: Parameters, deviations: Parameters, floor: float
) -> Parameters:
    """Variances that the moments can resolve, for use in a density.

    A variance v̂ with standard error s becomes E[v | v̂, v ≥ 0] = v̂ + s·φ(v̂/s)/Φ(v̂/s), plus the
    squared standard error of its mean.
    """
    raised = _raised(parameters.variances, deviations.variances) + deviations.means**2
    # No component is wider than all rows together: standardized features have variance 1.
    widest = np.maximum(parameters.variances, 1.0)
    variances = np.minimum(parameters.variances + raised, widest)
    return Parameters(parameters.weights, parameters.means, np.maximum(variances, floor))


def _raised(values: Float, deviations: Float) -> Float:
    """s·φ(v̂/s)/Φ(v̂/s): what the mean of v given v ≥ 0 exceeds its estimate by."""
    deviations = np.maximum(deviations, 1e-300)
    ratio = np.clip(values / deviations, -1e150, 1e150)
    log_density = -0.5 * ratio**2 - 0.5 * np.log(2 * np.pi)
    return np.asarray(deviations * np.exp(log_density - log_ndtr(ratio)))
