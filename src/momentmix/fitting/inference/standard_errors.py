"""How far the parameters may be off: covariance factors, standard errors, intervals.

| paper symbol | name here | shape |
|---|---|---|
| ψ(z) = H⁻¹ Jᵀ (m(z) − E m) / noise | influence of a row on a moment fit | (n_parameters,) |
| Cov θ̂ = E[ψ ψᵀ] / N (sandwich) | ``factor factorᵀ`` | |
| Cov θ̂ = I⁻¹ / N after EM, I the outer product of scores | ``factor factorᵀ`` | |

For a moment fit the expectation over rows is taken over rows drawn from the fitted mixture: the
summary does not hold the moments of twice the order that the plain formula needs. The polish weighs
conditions by their own noise and not by their covariance, so that H⁻¹ alone would be too small.

After EM the moment formula would be wrong (the estimate no longer minimises these conditions); the
information of the scores is used instead.

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, eigh
from scipy.linalg.lapack import dtrtri

from momentmix.fitting.conditions.conditions import Conditions, Parameters, parameters_from
from momentmix.fitting.conditions.derivative import Derivative, by_feature, derivative
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.parallel import all_threads, map_in_order

Float = NDArray[np.float64]

__all__ = [
    "Intervals",
    "StandardErrors",
    "Uncertainty",
    "after_em",
    "curvature_root",
    "intervals",
    "of_moment_fit",
    "standard_errors",
]

_DRAWS = 4000
_AT_ONCE = 100  # draws whose products are held at once: a few megabytes
_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Uncertainty:
    """Estimate and covariance in standardised features.

    Parameters
    ----------
    estimate : Parameters
        Centre of the intervals.
    factor : array of shape (r + 2rd, k)
        Covariance = factor factorᵀ, of (weights, means, variances).
    on_log_scale : bool
        Whether weights and variances vary by factors rather than by differences.
    """

    estimate: Parameters
    factor: Float
    on_log_scale: bool

    def deviations(self) -> Parameters:
        """Standard errors, shaped like the parameters."""
        spread = np.sqrt((self.factor**2).sum(axis=1))
        return parameters_from(spread, self.estimate.n_components)

    def reordered(self, order: NDArray[np.int64]) -> Uncertainty:
        """The same with the components in another order."""
        e = self.estimate
        r, d = e.means.shape
        rows = np.concatenate(
            [order, *(r + block * r * d + _rows_of(order, d) for block in range(2))]
        )
        chosen = Parameters(e.weights[order], e.means[order], e.variances[order])
        return Uncertainty(chosen, self.factor[rows], self.on_log_scale)

    def embedded(self, columns: NDArray[np.int64], n_features: int, variance: float) -> Uncertainty:
        """The same with further features, known without error, as `Parameters.embedded`."""
        e = self.estimate
        r, d = e.means.shape
        if columns.size == n_features:
            return self
        factor = np.zeros((r + 2 * r * n_features, self.factor.shape[1]))
        factor[:r] = self.factor[:r]
        own = (np.arange(r)[:, None] * n_features + columns).ravel()
        for block in range(2):
            old, new = r + block * r * d, r + block * r * n_features
            factor[new + own] = self.factor[old : old + r * d]
        estimate = e.embedded(columns, n_features, variance)
        return Uncertainty(estimate, factor, self.on_log_scale)

    def draw(self, rng: np.random.Generator) -> Parameters:
        """Parameters drawn from the covariance, weights and variances kept positive."""
        r = self.estimate.n_components
        step = self.factor @ rng.standard_normal(self.factor.shape[1])
        moved = parameters_from(self.estimate.flat() + step, r)
        weights, variances = moved.weights, moved.variances
        if self.on_log_scale:
            base, change = self.estimate, parameters_from(step, r)
            relative = change.weights / np.maximum(base.weights, 1e-300)
            weights = base.weights * np.exp(np.clip(relative, -5, 5))
            relative = change.variances / base.variances
            variances = base.variances * np.exp(np.clip(relative, -5, 5))
        weights = np.maximum(weights, 1e-9)
        return Parameters(weights / weights.sum(), moved.means, variances)


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors in the units of the data; shapes (r,), (r, d), (r, d)."""

    weights: Float
    means: Float
    variances: Float


@dataclass(frozen=True)
class Intervals:
    """Lower and upper ends of 95 % intervals in the units of the data."""

    weights: tuple[Float, Float]
    means: tuple[Float, Float]
    variances: tuple[Float, Float]


def _rows_of(order: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    return np.asarray((order[:, None] * d + np.arange(d)).ravel())


def of_moment_fit(
    conditions: Conditions,
    parameters: Parameters,
    noise: Float,
    n_effective: float,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Uncertainty:
    """Sandwich covariance of a moment fit, bounds disregarded."""
    r, d = parameters.means.shape
    labels = rng.choice(r, size=_DRAWS, p=parameters.weights / parameters.weights.sum())
    deviations = np.sqrt(np.maximum(parameters.variances, 0.0))[labels]
    rows = parameters.means[labels] + rng.standard_normal((_DRAWS, d)) * deviations
    doubly = derivative(conditions, parameters, noise**2)

    def influence_of(part: slice) -> Float:
        products = conditions.products(rows[part], rows[part] ** 2)
        products[0] = 0.0  # the weights' sum is known
        return doubly.transposed_times(products)

    parts = [slice(start, start + _AT_ONCE) for start in range(0, _DRAWS, _AT_ONCE)]
    influence = np.empty((r + 2 * r * d, _DRAWS), order="F")
    for part, found in zip(parts, map_in_order(influence_of, parts, n_threads), strict=True):
        influence[:, part] = found
    model = conditions.model(parameters)
    model[0] = 0.0
    influence -= doubly.transposed_times(model)[:, None]
    with all_threads(len(influence)):
        root = curvature_root(derivative(conditions, parameters, noise))
        influence /= root.scale[:, None]
        solved = cho_solve((root.triangle, True), influence, overwrite_b=True, check_finite=False)
    solved /= root.scale[:, None] * np.sqrt(_DRAWS * n_effective)
    return Uncertainty(parameters, solved[np.argsort(by_feature(r, d))], False)


class CurvatureRoot(NamedTuple):
    """JᵀJ = diag(scale) · triangle triangleᵀ · diag(scale), parameters ordered by feature."""

    triangle: Float
    scale: Float

    def deviations(self) -> Float:
        """√diag(JᵀJ)⁻¹: standard errors as if the noise of the conditions were independent."""
        inverse, _ = dtrtri(self.triangle, lower=1)
        spread = np.sqrt(np.einsum("ij,ij->j", inverse, inverse))
        return np.asarray(spread / self.scale)


def curvature_root(slope: Derivative) -> CurvatureRoot:
    """Cholesky factor of JᵀJ, scaled to diagonal 1.

    A hair of prior keeps directions without information finite: a standard error of at most 1e4
    times what the diagonal alone would give.
    """
    normal = slope.normal_matrix()
    scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
    normal /= scale[:, None]
    normal /= scale
    normal[np.diag_indices_from(normal)] += 1e-8
    return CurvatureRoot(cholesky(normal.T, lower=True, overwrite_a=True), scale)


def after_em(parameters: Parameters, information: Float, n_effective: float) -> Uncertainty:
    """Covariance from the information in (log ω, μ, log v), carried over to (ω, μ, v)."""
    r = parameters.n_components
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-12))
    matrix = information / scale[:, None] / scale
    values, vectors = eigh(matrix)
    # Directions without information: the weights' common factor (which the normalisation below
    # removes) and components without rows. Bounded, not dropped.
    # The symmetric root: draws from it do not depend on the signs of eigenvectors.
    root = (vectors / np.sqrt(np.maximum(values, 1e-8))) @ vectors.T
    factor = root / scale[:, None] / np.sqrt(n_effective)
    logs = factor[:r]
    factor[:r] = parameters.weights[:, None] * (logs - parameters.weights @ logs)
    factor[r + parameters.means.size :] *= parameters.variances.ravel()[:, None]
    return Uncertainty(parameters, factor, True)


def standard_errors(uncertainty: Uncertainty, moments: StandardMoments) -> StandardErrors:
    """Standard errors in the units of the data."""
    s = uncertainty.deviations()
    with np.errstate(over="ignore"):  # squares of the largest units may be infinite
        return StandardErrors(s.weights, s.means * moments.scale, s.variances * moments.scale**2)


def intervals(uncertainty: Uncertainty, moments: StandardMoments) -> Intervals:
    """95 % intervals in the units of the data.

    After EM those of weights and variances are symmetric on the log-odds and log scale; those of a
    moment fit are symmetric and cut at 0.
    """
    e, s = uncertainty.estimate, uncertainty.deviations()
    means = (e.means - _NORMAL_95 * s.means, e.means + _NORMAL_95 * s.means)
    if uncertainty.on_log_scale:
        w = np.clip(e.weights, 1e-12, 1 - 1e-12)
        width = np.minimum(_NORMAL_95 * s.weights / (w * (1 - w)), 50.0)
        odds = np.log(w / (1 - w))
        weights = (1 / (1 + np.exp(width - odds)), 1 / (1 + np.exp(-width - odds)))
        factor = np.exp(np.minimum(_NORMAL_95 * s.variances / e.variances, 50.0))
        variances = (e.variances / factor, e.variances * factor)
    else:
        weights = (
            np.maximum(e.weights - _NORMAL_95 * s.weights, 0.0),
            np.minimum(e.weights + _NORMAL_95 * s.weights, 1.0),
        )
        variances = (
            np.maximum(e.variances - _NORMAL_95 * s.variances, 0.0),
            e.variances + _NORMAL_95 * s.variances,
        )
    if e.n_components == 1:
        weights = (np.ones(1), np.ones(1))
    scale, shift = moments.scale, moments.shift
    with np.errstate(over="ignore"):
        return Intervals(
            weights,
            (means[0] * scale + shift, means[1] * scale + shift),
            (variances[0] * scale**2, variances[1] * scale**2),
        )
