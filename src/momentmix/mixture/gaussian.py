"""Gaussians with independent features: the maps that know this model, and no other code does.

| symbol | name here | shape |
|---|---|---|
| T(z) = (z, z², 1) of a row z | `features_of` | (n_statistics, n) |
| log ω_i N(z; μ_i, v_i) = c_i · T(z) | `coefficients` | (…, r, n_statistics) |
| Σ_z γ_i(z) T(z) → ω_i, μ_i, v_i | `m_step` | |

`momentmix.mixture.density` does the arithmetic between these maps, for any array library. The last
feature is the constant 1, so the last statistic of a component is its number of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.mixture.parameters import HasParameters, Parameters

_FEWEST_ROWS = 1e-10  # a component with a smaller count is empty: it keeps mean 0 and variance 1


def n_statistics(n_features: int) -> int:
    """Length of T(z)."""
    return 2 * n_features + 1


# -- features -----------------------------------------------------------------------------------


def fill_features(features: Float) -> None:
    """Complete T(z) in place, where the values z are in the first d of its rows."""
    d = features.shape[0] // 2
    np.multiply(features[:d], features[:d], out=features[d : 2 * d])
    features[2 * d] = 1.0


def features_of(values: Float) -> Float:
    """T(z) of NumPy values (n, d), of shape (n_statistics, n), each statistic contiguous."""
    n, d = values.shape
    features = np.empty((n_statistics(d), n))
    features[:d] = values.T
    fill_features(features)
    return features


def feature_parts(values: Any) -> tuple[Any, ...]:
    """T(z) of values (…, d, n) of any array library, in parts (…, d, n), without its constant.

    On a device each copy counts: parts take fewer than one array of all features.
    """
    return values, values * values


def values_of(features: Float) -> Float:
    """The values z in T(z), of shape (d, n)."""
    return features[: features.shape[0] // 2]


# -- parameters ---------------------------------------------------------------------------------


def coefficients(mixture: HasParameters) -> Float:
    """Log-densities, weights included, as linear functions of T(z); (…, r, n_statistics)."""
    p = mixture
    precisions = 1.0 / p.variances
    squares = p.means**2 * precisions
    # Weight 0 keeps a finite logarithm: products with −∞ raise floating-point flags.
    constants = np.log(np.maximum(p.weights, 1e-300))
    constants -= 0.5 * (np.log(2 * np.pi * p.variances) + squares).sum(axis=-1)
    parts = [p.means * precisions, -0.5 * precisions, constants[..., None]]
    return np.concatenate(parts, axis=-1)


def m_step(statistics: Float, floor: float | Float) -> Parameters:
    """The M-step: parameters from statistics (…, r, n_statistics), variances at least `floor`.

    An empty component keeps mean 0, variance 1 and weight 0.
    """
    d = statistics.shape[-1] // 2
    counts = statistics[..., -1]
    divisor = np.maximum(counts, 1e-12)[..., None]  # empty components: no division by 0
    means = statistics[..., :d] / divisor
    variances = np.maximum(statistics[..., d : 2 * d] / divisor - means**2, floor)
    variances = np.where(counts[..., None] > _FEWEST_ROWS, variances, 1.0)
    return Parameters(counts, means, variances).normalized()


def sample(
    mixture: HasParameters, n_rows: int, rng: np.random.Generator
) -> tuple[Float, NDArray[np.int64]]:
    """Rows (n_rows, d) drawn from the mixture, and the component of each (n_rows,)."""
    r, d = mixture.means.shape
    labels = rng.choice(r, size=n_rows, p=mixture.weights)
    noise = rng.standard_normal((n_rows, d))
    return mixture.means[labels] + noise * np.sqrt(mixture.variances)[labels], labels


# -- mixtures in the units of the data ----------------------------------------------------------


class Standardized(NamedTuple):
    """A mixture in the units of the data: z = (y − center) / scale, and coefficients for T(z)."""

    center: Float
    scale: Float
    coefficients: Float


def center_and_scale(mixture: HasParameters) -> tuple[Float, Float]:
    """Mean and standard deviation of each feature over all components; 1 for deviation 0.

    Squares are taken in units of a power of two, so that none overflows and no bit changes.
    """
    weights, variances = mixture.weights, mixture.variances
    center = weights @ mixture.means
    offsets = mixture.means - center
    unit = np.frexp(np.maximum(np.abs(offsets), np.sqrt(variances)).max(axis=0))[1]
    spread = weights @ (np.ldexp(variances, -2 * unit) + np.ldexp(offsets, -unit) ** 2)
    return center, np.ldexp(np.sqrt(np.where(spread > 0, spread, 1.0)), unit)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def standardized_coefficients(mixture: HasParameters) -> Standardized:
    """Coefficients of the density of rows y in the units of the data.

    The squares are expanded about the mixture's mean in units of its deviation: less cancellation,
    and no overflow whatever the units of the data.
    """
    p = mixture
    center, scale = center_and_scale(p)
    means, unit = (p.means - center) / scale, np.frexp(scale)[1]
    variances = np.ldexp(p.variances, -2 * unit) / np.ldexp(scale, -unit) ** 2
    in_range = np.isfinite(means**2 / variances) & np.isfinite(1.0 / variances) & np.isfinite(scale)
    if not in_range.all():
        i, j = np.argwhere(~in_range)[0]
        raise InputError(
            f"component {i} is too far from the others in feature {j} beside its deviation "
            f"there ({p.means[i, j]:.4g} ± {p.variances[i, j] ** 0.5:.4g}): its density is beyond "
            "the range of double precision. Rescale the feature, or leave the component out."
        )
    table = coefficients(Parameters(p.weights, means, variances))
    table[:, -1] -= np.log(scale).sum()  # density of y, not of z
    table[p.weights == 0, -1] = -np.inf  # never the most probable
    return Standardized(center, scale, table)
