"""Uncertainty of the parameters: covariance, standard errors, intervals.

| symbol | name here | shape |
|---|---|---|
| ψ(z) = H⁻¹ Jᵀ (m(z) − E m) / noise | influence of a row on a moment fit | (n_parameters,) |
| Cov θ̂ = E[ψ ψᵀ] / N (sandwich) | ``factor factorᵀ`` | |
| Cov θ̂ = I⁻¹ / N after EM, I the outer product of scores | ``factor factorᵀ`` | |

For a moment fit the expectation over rows is taken over rows drawn from the fitted mixture: the
summary does not hold the moments of twice the order that the plain formula needs. The polish weighs
conditions by their own noise and not by their covariance, so that H⁻¹ alone would be too small.

After EM the moment formula would be wrong (the estimate no longer minimizes these conditions); the
information of the scores is used instead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, eigh
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import ndtri

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.law import Law
from momentmix.fitting.conditions.conditions import Conditions, point_powers
from momentmix.fitting.conditions.derivative import (
    DenseDerivative,
    Derivative,
    by_feature,
    derivative,
)
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.bounds import apart_from_bounded, settle_bounded, settle_two_valued
from momentmix.mixture import gaussian
from momentmix.mixture.parameter_table import ColumnValues
from momentmix.mixture.parameters import (
    Parameters,
    component_places,
    dependent_places,
    moved_spread,
    parameters_from,
    relative_changes,
    spread_changes,
)
from momentmix.parallel import all_threads, map_in_order
from momentmix.wording import short_repr

AnyDerivative = Derivative | DenseDerivative

_DRAWS = 4000  # rows: the standard errors themselves then have errors of about one percent
_AT_ONCE = 100  # draws whose products are in memory at once: a few megabytes


@short_repr
@dataclass(frozen=True)
class Uncertainty:
    """Estimate and covariance, factor factorᵀ of `Parameters.flat`, in standardized features.

    `on_log_scale` says whether weights and variances vary by factors rather than by differences.
    """

    estimate: Parameters
    factor: Float
    on_log_scale: bool

    def deviations(self) -> Parameters:
        """Standard errors, shaped like the parameters."""
        spread = np.sqrt((self.factor**2).sum(axis=1))
        return parameters_from(spread, self.estimate.n_components, self.estimate.blocks)

    def reordered(self, order: NDArray[np.int64]) -> Uncertainty:
        """The same with the components in another order."""
        numbers, e = np.arange(len(self.factor)), self.estimate
        rows = parameters_from(numbers, e.n_components, e.blocks)[order].flat()
        return Uncertainty(self.estimate[order], self.factor[rows], self.on_log_scale)

    def embedded(
        self,
        columns: NDArray[np.int64],
        n_features: int,
        variance: float,
        laws: tuple[Law, ...] = (),
    ) -> Uncertainty:
        """The same features among others, known without error, as `Parameters.embedded`."""
        if columns.size == n_features:
            return self  # the factor may be large: no copy
        estimate = self.estimate.embedded(columns, n_features, variance, laws)
        size, r = estimate.flat().size, estimate.n_components
        places = parameters_from(np.arange(size), r, estimate.blocks)
        own = [places.means[:, columns], places.variances[:, columns], places.covariances]
        factor = np.zeros((size, self.factor.shape[1]))
        factor[np.concatenate([places.weights, *map(np.ravel, own)])] = self.factor
        return Uncertainty(estimate, factor, self.on_log_scale)

    def draw(self, rng: np.random.Generator, n_draws: int) -> Parameters:
        """Mixtures drawn from the covariance, weights and variances kept positive."""
        base, r = self.estimate, self.estimate.n_components
        steps = rng.standard_normal((n_draws, self.factor.shape[1])) @ self.factor.T
        change = Parameters.stack([parameters_from(step, r, base.blocks) for step in steps])
        weights, means = base.weights + change.weights, base.means + change.means
        if self.on_log_scale:
            relative = change.weights / np.maximum(base.weights, 1e-300)
            weights = base.weights * np.exp(np.clip(relative, -5, 5))
            moved = moved_spread(base, np.clip(relative_changes(base, change.spread), -5, 5))
        else:
            moved = base.with_spread(base.spread + change.spread)
        drawn = replace(moved, weights=np.maximum(weights, 1e-9), means=means).normalized()
        return drawn.completed()


@short_repr
@dataclass(frozen=True)
class StandardErrors(ColumnValues):
    """Standard errors in the units of the data; shapes (r,), (r, d), (r, d).

    Where columns are joined, `covariances` has shape (r, d, d): 0 between blocks, and the variances
    on the diagonal. Otherwise it is None. Of tables with families, `means` and `variances` are
    those of the columns, NaN for categories: `levels` has (r, n_levels) for each of them by name,
    and `seen` (r, n_columns) the probabilities of being seen, NaN where no cell is missing.
    """


@short_repr
@dataclass(frozen=True)
class Intervals:
    """Lower and upper ends of intervals in the units of the data, by default of 95 %.

    `covariances`, `levels` and `seen` as for `StandardErrors`.
    """

    weights: tuple[Float, Float]
    means: tuple[Float, Float]
    variances: tuple[Float, Float]
    covariances: tuple[Float, Float] | None = None
    levels: dict[str | int, tuple[Float, Float]] | None = None
    seen: tuple[Float, Float] | None = None

    @property
    def ends(self) -> tuple[ColumnValues, ColumnValues]:
        """All lower ends, and all upper ones."""
        low, high = (self._end(k) for k in (0, 1))
        return low, high

    def _end(self, k: int) -> ColumnValues:
        covariances = None if self.covariances is None else self.covariances[k]
        levels = {key: pair[k] for key, pair in (self.levels or {}).items()}
        seen = None if self.seen is None else self.seen[k]
        own = self.weights[k], self.means[k], self.variances[k]
        return ColumnValues(*own, covariances, levels, seen)


def normal_quantile(level: float) -> float:
    """Half the width of an interval of a normal estimate, in standard errors.

    Examples
    --------
    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    asked: Any = level
    if isinstance(asked, bool) or not isinstance(asked, Real) or not 0 < float(asked) < 1:
        raise InputError(f"level must be a number between 0 and 1, as 0.95; got {asked!r}.")
    return float(ndtri((1 + float(level)) / 2))


def uncertainty_of_moment_fit(
    conditions: Conditions,
    parameters: Parameters,
    noise: Float,
    n_effective: float,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Uncertainty:
    """Sandwich covariance of a moment fit, bounds disregarded."""
    rows, _ = gaussian.sample(parameters.normalized(), _DRAWS, rng)
    slope = derivative(conditions, parameters, noise**2)

    def influence_of(part: slice) -> Float:
        products = conditions.products(point_powers(rows[part], conditions.highest_exponent))
        products[0] = 0.0  # the sum of the weights is known
        return slope.transposed_times(products)

    parts = [slice(start, start + _AT_ONCE) for start in range(0, _DRAWS, _AT_ONCE)]
    influence = np.empty((parameters.n_places, _DRAWS), order="F")
    for part, values in zip(parts, map_in_order(influence_of, parts, n_threads), strict=True):
        influence[:, part] = values
    model = conditions.model(parameters)
    model[0] = 0.0
    influence -= slope.transposed_times(model)[:, None]
    with all_threads(len(influence)):
        root = curvature_root(derivative(conditions, parameters, noise))
        influence /= root.scale[:, None]
        solved = cho_solve((root.triangle, True), influence, overwrite_b=True, check_finite=False)
    solved /= root.scale[:, None] * np.sqrt(_DRAWS * n_effective)
    return Uncertainty(parameters, solved[np.argsort(by_feature(parameters))], False)


class CurvatureRoot(NamedTuple):
    """JᵀJ = diag(scale) · triangle triangleᵀ · diag(scale), parameters ordered by feature."""

    triangle: Float
    scale: Float

    def deviations(self) -> Float:
        """√diag(JᵀJ)⁻¹: standard errors as if the noise of the conditions were independent."""
        inverse, _ = dtrtri(self.triangle, lower=1)
        spread = np.sqrt(np.einsum("ij,ij->j", inverse, inverse))
        return np.asarray(spread / self.scale)

    def factor(self) -> Float:
        """A factor of (JᵀJ)⁻¹."""
        inverse, _ = dtrtri(self.triangle, lower=1)
        return np.asarray((np.tril(inverse) / self.scale).T)


def deviations_of(derivatives: AnyDerivative, parameters: Parameters) -> Parameters:
    """Standard errors as if the noise of the conditions were independent."""
    flat = np.empty(parameters.n_places)
    flat[by_feature(parameters)] = curvature_root(derivatives).deviations()
    flat[dependent_places(parameters)] = 0.0
    return parameters_from(flat, parameters.n_components, parameters.blocks)


def uncertainty_of_noise(derivatives: AnyDerivative, parameters: Parameters) -> Uncertainty:
    """Covariance as if the noise of the conditions were independent: (JᵀJ)⁻¹."""
    factor = np.empty((parameters.n_places,) * 2)
    factor[by_feature(parameters)] = curvature_root(derivatives).factor()
    factor[dependent_places(parameters)] = 0.0
    return Uncertainty(parameters, factor, on_log_scale=False)


def curvature_root(derivatives: AnyDerivative) -> CurvatureRoot:
    """Cholesky factor of JᵀJ, scaled to diagonal 1.

    1e-8 is added to the diagonal, so that directions without information have a standard error of
    at most 1e4 times what the diagonal alone would give.
    """
    normal = derivatives.normal_matrix()
    scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
    normal /= scale[:, None]
    normal /= scale
    normal[np.diag_indices_from(normal)] += 1e-8
    return CurvatureRoot(cholesky(normal.T, lower=True, overwrite_a=True), scale)


def uncertainty_after_em(
    parameters: Parameters,
    information: Float,
    n_effective: float,
    score_covariance: Float | None = None,
    free: Float | None = None,
    together: Collection[Law] = (),
) -> Uncertainty:
    """Covariance from the information in (log ω, μ, E), carried over to (ω, μ, Σ).

    E is the relative change of Σ (``mixture/parameters.py``), that of log v for a single feature.
    Where the covariance B of the scores is not the information I, it is I⁻¹ B I⁻¹. Parameters that
    are not free are A f, with A = `free` of shape (n_parameters, n_free): I is then Aᵀ I A.
    Numbers at a bound, and gaps of laws `together`, are fixed as in ``bounds.py``; both matrices
    change in place.
    """
    r, d = parameters.means.shape
    matrices = [information] if score_covariance is None else [information, score_covariance]
    settle_two_valued(matrices, parameters)
    for matrix in matrices:
        settle_bounded(matrix, parameters, n_effective, together)
    del matrices, matrix  # of many levels, hundreds of megabytes
    if free is not None:
        information = free.T @ information @ free
        if score_covariance is not None:
            score_covariance = free.T @ score_covariance @ free
    else:  # variances that follow from means are half of all places of many levels
        own = np.delete(np.arange(len(information)), dependent_places(parameters))
        information = information[np.ix_(own, own)]
        if score_covariance is not None:
            score_covariance = score_covariance[np.ix_(own, own)]
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-12))
    matrix = information / scale[:, None] / scale
    # Of one component the weight is known: what is there is rounding.
    matrix[np.diag_indices_from(matrix)] = np.maximum(np.diagonal(matrix), 0.0)
    root = _inverse_root(matrix)
    if score_covariance is not None:
        root = root @ (root.T @ _root(score_covariance / scale[:, None] / scale))
    factor = root / scale[:, None] / np.sqrt(n_effective)
    if free is not None:
        factor = free @ factor
    else:
        factor, known = np.zeros((parameters.n_places, factor.shape[1])), factor
        factor[own] = known
    logs = factor[:r]
    factor[:r] = parameters.weights[:, None] * (logs - parameters.weights @ logs)
    places = component_places(parameters)[:, 1 + d :]
    own, units = parameters.blocks.single_or_law, np.ones(len(factor))
    units[places[:, own]] = parameters.variances[:, own]
    units[dependent_places(parameters)] = 0.0
    factor *= units[:, None]
    for table, slopes in spread_changes(parameters):
        own = places[:, table[np.triu_indices(len(table))]]
        factor[own] = slopes @ factor[own]
    return Uncertainty(parameters, apart_from_bounded(factor, parameters, n_effective), True)


def _inverse_root(matrix: Float) -> Float:
    """A root of the inverse of a positive semidefinite matrix of diagonal 1.

    Directions without information are bounded, not dropped: the common factor of the weights, and
    components without rows. 1e-8 is far above rounding, so that mostly there is a triangle; where
    some entries are those of the model (`settle_floored`), eigenvalues may be negative.
    """
    raised = matrix.copy()
    raised[np.diag_indices_from(raised)] += 1e-8
    triangle, failed = dpotrf(raised.T, lower=1, clean=1, overwrite_a=1)
    if not failed:
        return np.asarray(dtrtri(triangle, lower=1)[0].T)
    values, vectors = eigh(matrix)
    # The symmetric root: draws from it do not depend on the signs of eigenvectors.
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-8))) @ vectors.T)


def _root(matrix: Float) -> Float:
    """The symmetric root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def standard_errors(uncertainty: Uncertainty, moments: StandardMoments) -> StandardErrors:
    """Standard errors in the units of the data."""
    with np.errstate(over="ignore"):  # squares of the largest units may be infinite
        s = uncertainty.deviations().restored(np.zeros_like(moments.scale), moments.scale)
        matrices = s.matrices if s.blocks.joined else None
        return StandardErrors(s.weights, s.means, s.variances, matrices)


def intervals(uncertainty: Uncertainty, moments: StandardMoments, level: float = 0.95) -> Intervals:
    """Intervals in the units of the data, of this level.

    After EM those of weights and variances are symmetric on the log-odds and log scale; those of a
    moment fit are symmetric and cut at 0. Those of covariances are symmetric.
    """
    e = uncertainty.estimate
    widths = normal_quantile(level) * uncertainty.deviations().flat()
    half = parameters_from(widths, e.n_components, e.blocks)
    means = (e.means - half.means, e.means + half.means)
    if uncertainty.on_log_scale:
        w = np.clip(e.weights, 1e-12, 1 - 1e-12)
        width = np.minimum(half.weights / (w * (1 - w)), 50.0)  # exp(50) stands for "unknown"
        odds = np.log(w / (1 - w))
        weights = (1 / (1 + np.exp(width - odds)), 1 / (1 + np.exp(-width - odds)))
        factor = np.exp(np.minimum(half.variances / e.variances, 50.0))
        variances = (e.variances / factor, e.variances * factor)
    else:
        weights = (
            np.maximum(e.weights - half.weights, 0.0),
            np.minimum(e.weights + half.weights, 1.0),
        )
        variances = (np.maximum(e.variances - half.variances, 0.0), e.variances + half.variances)
    if e.n_components == 1:
        weights = (np.ones(1), np.ones(1))
    with np.errstate(over="ignore"):
        low, high = (
            Parameters(w, m, v, e.covariances + sign * half.covariances, e.blocks).restored(
                moments.shift, moments.scale
            )
            for sign, w, m, v in zip((-1, 1), weights, means, variances, strict=True)
        )
    matrices = (low.matrices, high.matrices) if e.blocks.joined else None
    return Intervals(weights, (low.means, high.means), (low.variances, high.variances), matrices)
