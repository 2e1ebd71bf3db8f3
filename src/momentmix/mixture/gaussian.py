"""Gaussians with independent features: the maps that know this model, and no other code does.

| symbol | name here | shape |
|---|---|---|
| T(z) = (z, z², 1) of a row z | `features_of` | (n_statistics, n) |
| log ω_i N(z; μ_i, v_i) = c_i · T(z) | `coefficients` | (…, r, n_statistics) |
| Σ_z γ_i(z) T(z) → ω_i, μ_i, v_i | `m_step` | |
| log p(v) | `VariancePrior` | |

`momentmix.mixture.density` does the arithmetic between these maps, for any array library. The last
feature is the constant 1, so the last statistic of a component is its number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class VariancePrior:
    """Prior of the variances of standardized features, with their floor.

    v/s is F-distributed with 4 and 2 degrees of freedom up to a factor: log v has a density
    proportional to (1 + s/v)⁻² (1 + v/s)⁻¹, times exp(−a / 2v). With n rows and the sum of squares
    W about the mean, the most probable log v is that of the positive root of
    (n + 2) v² + ((n − 4) s − W − a) v − (W + a) s = 0.

    - v far below s: about W / (n − 4). Of all multiples of W, W (n + 1) / (n (n − 3)), which is W/n
      times about 1 + 4/n, predicts further Gaussian rows best.
    - Few rows: n < 4 rows that agree have a variance of (4 − n) s / (n + 2), so that no component
      gains by holding few rows.
    - Many rows: v changes by 4/n at most, whatever it is, far below its error √(2/n). The
      conjugate (inverse gamma) prior changes it by s/(n v), a bias where components are narrow.
    - The last factor keeps rows that agree to the last digit (rounded columns) from the floor.

    Parameters
    ----------
    floor : float or array of shape (d,)
        Least variances.
    scale : float
        s, the variance about which the prior lies; 0: no prior.
    added_squares : float
        a, as if so much were added to W.
    """

    floor: float | Float
    scale: float = 0.0
    added_squares: float = 0.0

    @classmethod
    def of_rows(cls, n_rows: int, n_components: int, floor: Float) -> VariancePrior:
        """The prior for so many rows and components of features of variance 1.

        s = r^(−2/d), as in Fraley and Raftery (2007): r components share the volume of the rows.
        a = s / √N, the rate of Chen and Tan (2009): it vanishes, and slower than 1/N. A single
        component has no prior: its likelihood has one maximum.
        """
        if n_components == 1:
            return cls(floor)
        scale = float(n_components) ** (-2.0 / floor.size)
        return cls(floor, scale, scale / n_rows**0.5)

    def variances(self, counts: Float, squares: Float) -> Float:
        """Most probable variances.

        Parameters
        ----------
        counts : array of shape (…, r, 1), positive
            Rows of each component.
        squares : array of shape (…, r, d)
            Sums of squares about the mean, W.
        """
        squares = np.maximum(squares, 0.0)
        if not self.scale:
            return np.maximum(squares / counts, self.floor)
        squares += self.added_squares
        half = 0.5 * ((counts - 4.0) * self.scale - squares)
        product = self.scale * squares
        root = np.abs(half) + np.sqrt(half**2 + (counts + 2.0) * product)
        # The form of the root that takes no difference of close numbers.
        variances = np.where(half > 0, product / root, root / (counts + 2.0))
        return np.asarray(np.maximum(variances, self.floor))

    def floors(self, mixture: HasParameters, n_rows: int) -> Float:
        """Variances that say nothing of the rows' own spread, of shape (…, r, d).

        The floor, or where the added squares are half of all.
        """
        counts = np.maximum(n_rows * mixture.weights, _FEWEST_ROWS)[..., None]
        lowest = np.maximum(2.0 * self.added_squares / counts, self.floor)
        return np.asarray(np.broadcast_to(lowest, mixture.variances.shape))

    def log_density(self, mixture: HasParameters) -> Float:
        """Logarithm of the density of log v up to a constant, summed over each mixture; (…,)."""
        if not self.scale:
            return np.zeros(mixture.variances.shape[:-2])
        ratio = mixture.variances / self.scale
        # (1 + s/v)⁻² (1 + v/s)⁻¹ = x² / (1 + x)³
        terms = 2.0 * np.log(ratio) - 3.0 * np.log1p(ratio)
        terms -= 0.5 * self.added_squares / mixture.variances
        return np.asarray(terms.sum(axis=(-2, -1)))

    def slope(self, mixture: HasParameters) -> Float:
        """Derivative of `log_density` by log v, of shape (…, r, d)."""
        v, s = mixture.variances, self.scale
        return (2.0 * s - v * (s > 0)) / (v + s) + 0.5 * self.added_squares / v

    def curvature(self, mixture: HasParameters) -> Float:
        """Minus the second derivative of `log_density` by log v, never negative; (…, r, d)."""
        v, s = mixture.variances, self.scale
        return 3.0 * s * v / (v + s) ** 2 + 0.5 * self.added_squares / v


def m_step(statistics: Float, prior: VariancePrior) -> Parameters:
    """The M-step: parameters from statistics (…, r, n_statistics).

    An empty component keeps mean 0, variance 1 and weight 0.
    """
    d = statistics.shape[-1] // 2
    counts = statistics[..., -1]
    divisor = np.maximum(counts, 1e-12)[..., None]  # empty components: no division by 0
    means = statistics[..., :d] / divisor
    squares = statistics[..., d : 2 * d] - divisor * means**2
    variances = prior.variances(divisor, squares)
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
