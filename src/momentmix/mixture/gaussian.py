"""Gaussians by blocks of features: the maps that know this model, and no other code does.

Blocks that are not Gaussian bring these maps themselves: `momentmix.families.distribution`.

| symbol | name here | shape |
|---|---|---|
| T(z) = (z, z², z_j z_k of `Blocks.pairs`, t, 1) | `features_of` | (n_statistics, n) |
| log ω_i N(z; μ_i, Σ_i) = c_i · T(z) | `coefficients` | (…, r, n_statistics) |
| Σ_z γ_i(z) T(z) → ω_i, μ_i, Σ_i | `m_step` | |

`momentmix.mixture.density` does the arithmetic between these maps, for NumPy and torch. The last
feature is the constant 1, so the last statistic of a component is its number of rows. `Blocks`
without pairs are diagonal covariances; `momentmix.mixture.prior` has the prior of the M-step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import on_device_of, take
from momentmix.errors import InputError
from momentmix.families.gaussian import semidefinite_roots
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import FEWEST_ROWS, VariancePrior

# -- features -----------------------------------------------------------------------------------


def features_of(
    values: NDArray[Any],
    blocks: Blocks | None = None,
    shift: Float | None = None,
    inverse: Float | None = None,
) -> Float:
    """T(z) of NumPy values (n, d), z = (values − shift)·inverse, of shape (n_statistics, n)."""
    z = np.array(values.T, dtype=np.float64, order="C")
    if shift is not None and inverse is not None:
        z -= shift[:, None]
        z *= inverse[:, None]
    return np.asarray(statistics(z, blocks or Blocks(values.shape[1])))


def statistics(values: Any, blocks: Blocks, xp: Any = np) -> Any:
    """T(z) of values z (…, d, n) of NumPy or torch, of shape (…, n_statistics, n)."""
    first, second = (on_device_of(features, values, xp) for features in blocks.pairs.T)
    products = [take(values, first, axis=-2) * take(values, second, axis=-2)] if len(first) else []
    for distribution in blocks.laws:
        if distribution.n_statistics:
            features = on_device_of(np.array(distribution.features), values, xp)
            products.append(distribution.statistics(take(values, features, axis=-2), xp))
    ones = xp.ones_like(values[..., :1, :])
    return xp.concat([values, values * values, *products, ones], axis=-2)


def values_of(features: Float, blocks: Blocks) -> Float:
    """The values z in T(z), of shape (d, n)."""
    return features[: blocks.n_features]


# -- parameters ---------------------------------------------------------------------------------


def coefficients(parameters: Parameters) -> Float:
    """Log-densities, weights included, as linear functions of T(z); (…, r, n_statistics)."""
    return coefficients_and_constants(parameters)[0]


def coefficients_and_constants(p: Parameters) -> tuple[Float, Float]:
    """`coefficients`, and the parts of them that no feature enters, (…, r, d).

    These stand at the first feature of each block.
    """
    blocks, d, single = p.blocks, p.blocks.n_features, p.blocks.single
    table = np.zeros((*p.weights.shape, blocks.n_statistics))
    constants = np.zeros(p.means.shape)
    m, v = p.means[..., single], p.variances[..., single]
    table[..., single], table[..., d + single] = m / v, -0.5 / v
    constants[..., single] = -0.5 * (np.log(2 * np.pi * v) + m**2 / v)
    for features, places in blocks.places:
        roots, means = np.linalg.cholesky(p.spread[..., places]), p.means[..., features]
        inverse = np.linalg.inv(roots)
        precisions = inverse.swapaxes(-1, -2) @ inverse
        linear = (precisions @ means[..., None])[..., 0]
        # A product of two features stands for both of its places in the matrix.
        halves = np.where(np.eye(features.size, dtype=bool), 0.5, 1.0)
        table[..., features], table[..., d + places] = linear, -halves * precisions
        log_roots = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)
        constants[..., features[0]] = -log_roots - 0.5 * (
            features.size * np.log(2 * np.pi) + (linear * means).sum(axis=-1)
        )
    for part, features, places in blocks.stacks:
        of_part = part.coefficients(p.means[..., features], p.variances[..., features])
        k = features.shape[1]
        table[..., features], table[..., d + features] = of_part[..., :k], of_part[..., k : 2 * k]
        table[..., d + blocks.n_spread + places] = of_part[..., 2 * k : -1]
        constants[..., features[:, 0]] = of_part[..., -1]
    # Weight 0 keeps a finite logarithm: products with −∞ raise floating-point flags.
    table[..., -1] = np.log(np.maximum(p.weights, 1e-300)) + constants.sum(axis=-1)
    return table, constants


def m_step(statistics: Float, prior: VariancePrior) -> Parameters:
    """The M-step: parameters from statistics (…, r, n_statistics); weight 0 where empty."""
    blocks = prior.blocks_for(statistics.shape[-1])
    d = blocks.n_features
    counts = statistics[..., -1]
    divisor = np.maximum(counts, 1e-12)[..., None]  # empty components: no division by 0
    means = statistics[..., :d] / divisor
    j, k = blocks.pairs.T
    products = np.concatenate([means**2, means[..., j] * means[..., k]], axis=-1)
    start = d + blocks.n_spread  # of the statistics t beside z and z²
    spread = prior.spread(divisor, statistics[..., d:start] - divisor * products)
    alone = np.arange(blocks.n_spread) < d  # an empty component has no covariances
    spread = np.where(counts[..., None] > FEWEST_ROWS, spread, np.where(alone, 1.0, 0.0))
    for part, features, places in blocks.stacks:
        sums, squares = statistics[..., features], statistics[..., d + features]
        means[..., features], spread[..., features] = part.m_step(
            counts[..., None, None], sums, squares, statistics[..., start + places], prior
        )
    parts = spread[..., :d], spread[..., d:]
    return Parameters(counts, means, *parts, blocks).normalized()


def sample(
    parameters: Parameters, n_rows: int, rng: np.random.Generator
) -> tuple[Float, NDArray[np.int64]]:
    """Rows (n_rows, d) drawn from the mixture, and the component of each (n_rows,)."""
    p = parameters
    r, d = p.means.shape
    labels = rng.choice(r, size=n_rows, p=p.weights)
    noise = rng.standard_normal((n_rows, d))
    scaled = noise * np.sqrt(p.variances)[labels]
    for features, places in p.blocks.places:
        # Roots of the correlations: the units of columns may differ by any factor.
        deviations = np.sqrt(p.variances[:, features])
        inverse = 1.0 / np.where(deviations > 0, deviations, np.inf)
        matrices = p.spread[..., places] * inverse[:, :, None] * inverse[:, None, :]
        roots = semidefinite_roots(matrices)
        for i in range(r):
            rows = np.flatnonzero(labels == i)
            mixed = noise[np.ix_(rows, features)] @ roots[i].T
            scaled[np.ix_(rows, features)] = mixed * deviations[i]
    values = p.means[labels] + scaled
    for part in p.blocks.laws:
        features = list(part.features)
        for i in range(r):
            rows = np.flatnonzero(labels == i)
            drawn = part.sample(p.means[i, features], p.variances[i, features], rows.size, rng)
            values[np.ix_(rows, features)] = drawn
    return values, labels


# -- mixtures in the units of the data ----------------------------------------------------------


def center_and_scale(parameters: Parameters) -> tuple[Float, Float]:
    """Mean and standard deviation of each feature over all components; 1 for deviation 0.

    Squares are taken in units of a power of two, so that none overflows and no bit changes.
    """
    weights, variances = parameters.weights, parameters.variances
    center = weights @ parameters.means
    offsets = parameters.means - center
    unit = np.frexp(np.maximum(np.abs(offsets), np.sqrt(variances)).max(axis=0))[1]
    spread = weights @ (np.ldexp(variances, -2 * unit) + np.ldexp(offsets, -unit) ** 2)
    return center, np.ldexp(np.sqrt(np.where(spread > 0, spread, 1.0)), unit)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def standardized(p: Parameters) -> tuple[Float, Float, Parameters]:
    """Mean and deviation of the mixture, and the parameters in units of them.

    Squares are expanded about the mean: less cancellation, and no overflow whatever the units.
    """
    center, scale = center_and_scale(p)
    standard = p.standardized(center, scale)
    means, variances = standard.means, standard.variances
    in_range = np.isfinite(means**2 / variances) & np.isfinite(1.0 / variances) & np.isfinite(scale)
    if not in_range.all():
        i, j = np.argwhere(~in_range)[0]
        raise InputError(
            f"component {i} is too far from the others in feature {j} beside its deviation "
            f"there ({p.means[i, j]:.4g} ± {p.variances[i, j] ** 0.5:.4g}): its density is beyond "
            "the range of double precision. Rescale the feature, or leave the component out."
        )
    return center, scale, standard
