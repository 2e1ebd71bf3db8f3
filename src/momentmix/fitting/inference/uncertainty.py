"""Covariance of the parameters after EM, which holds where the model does not.

| symbol | name here | shape |
|---|---|---|
| s: scores of a row by θ = (log ω, μ, E), see ``fitting/em/scores.py`` | | (p,) |
| B = mean of s sᵀ | ``scores`` | (p, p) |
| s_i, H_i: score and curvature of component i alone, by its own parameters | | |
| J = B + Σ_i mean of γ_i (H_i − s_i s_iᵀ), and that of the prior | ``information`` | (p, p) |
| Cov θ̂ = J⁻¹ B J⁻¹ / N | ``factor factorᵀ`` | (p, p) |

J is the information of second derivatives by the formula of Louis (1982): that of rows whose
component is known, less what not knowing it takes. If the model is right, B is J in expectation.
If it is not, J⁻¹ B J⁻¹ / N is the covariance about the parameters that are closest to the
distribution of the rows. B is an average over the rows, and noisy where these are few: J counts in
it as one row for each parameter.

Directions that hold less information than a single row whose component is known, as the weights of
two components that are one, are unknown: they get a large error, and leave the others as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import nan

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri

from momentmix._typing import Float
from momentmix.families.distribution import Distribution
from momentmix.fitting.em.em import joint_of
from momentmix.fitting.em.scores import add_prior, component_scores, information_matrix
from momentmix.mixture.density import responsibilities
from momentmix.mixture.missing import patterns
from momentmix.mixture.parameters import (
    Parameters,
    component_places,
    dependent_places,
    moved_spread,
    parameters_from,
    relative_changes,
    spread_changes,
)
from momentmix.mixture.prior import VariancePrior
from momentmix.wording import short_repr

LARGEST_ERROR = 0.5  # of a share: no distribution between 0 and 1 has a larger deviation
_LARGEST_RATIO = 10.0  # of an error to a share or the rest of it: that of n rows is 1/√n
# Variance of a direction that the rows do not determine, in units of a component's own: so large
# that a share which depends on it is unknown.
_UNKNOWN = 10.0
_TOLD = 0.1  # of what is known of rows whose component is known
_RIDGE = 1e-9  # of the information of rows whose component is known, beside a diagonal of 1


@short_repr
@dataclass(frozen=True)
class Uncertainty:
    """Estimate and covariance, factor factorᵀ of `Parameters.flat`, in standardized features."""

    estimate: Parameters
    factor: Float

    def deviations(self) -> Parameters:
        """Standard errors, shaped like the parameters."""
        spread = np.sqrt(np.einsum("ij,ij->i", self.factor, self.factor))
        return parameters_from(spread, self.estimate.n_components, self.estimate.blocks)

    @property
    def unknown_weights(self) -> NDArray[np.bool_]:
        """Components whose weights have errors as large as those of unknown shares, (r,)."""
        errors, weights = self.deviations().weights, self.estimate.weights
        limits = np.minimum(LARGEST_ERROR, _LARGEST_RATIO * np.minimum(weights, 1.0 - weights))
        return np.asarray((errors > limits) & (weights.size > 1))

    def reordered(self, order: NDArray[np.int64]) -> Uncertainty:
        """The same with the components in another order."""
        numbers, e = np.arange(len(self.factor)), self.estimate
        rows = parameters_from(numbers, e.n_components, e.blocks)[order].flat()
        return Uncertainty(self.estimate[order], self.factor[rows])

    def embedded(
        self,
        columns: NDArray[np.int64],
        n_features: int,
        variance: float,
        laws: tuple[Distribution, ...] = (),
    ) -> Uncertainty:
        """Return the same among other features without error, as `Parameters.embedded`."""
        if columns.size == n_features:
            return self  # the factor may be large: no copy
        estimate = self.estimate.embedded(columns, n_features, variance, laws)
        size, r = estimate.flat().size, estimate.n_components
        places = parameters_from(np.arange(size), r, estimate.blocks)
        own = [places.means[:, columns], places.variances[:, columns], places.covariances]
        factor = np.zeros((size, self.factor.shape[1]))
        factor[np.concatenate([places.weights, *map(np.ravel, own)])] = self.factor
        return Uncertainty(estimate, factor)

    def draw(self, rng: np.random.Generator, n_draws: int) -> Parameters:
        """Mixtures drawn from the covariance, with logarithms of weights and of spreads."""
        base = self.estimate
        steps = rng.standard_normal((n_draws, self.factor.shape[1])) @ self.factor.T
        parts = [parameters_from(step, base.n_components, base.blocks) for step in steps]
        change = Parameters.stack(parts)
        relative = change.weights / np.maximum(base.weights, 1e-300)
        moved = moved_spread(base, np.clip(relative_changes(base, change.spread), -5, 5))
        weights = np.maximum(base.weights * np.exp(np.clip(relative, -5, 5)), 1e-9)
        return (
            replace(moved, weights=weights, means=base.means + change.means)
            .normalized()
            .completed()
        )


def uncertainty_after_em(
    parameters: Parameters,
    features: Float,
    n_effective: float,
    prior: VariancePrior | None = None,
    counts: Float | None = None,
    is_survey: bool = False,
    n_threads: int = 1,
) -> Uncertainty:
    """Covariance from features of rows, which count as `counts`; of (ω, μ, Σ).

    Weights of a survey, which are no frequencies, vary with the rows. A cell that a component never
    sees, or a level that none of its rows has, is known by the prior alone.
    """
    p, r = parameters, parameters.n_components
    scores = information_matrix(features, p, n_threads, counts)
    complete = _component_information(features, p, counts)
    information = scores + complete - _component_scores(features, p, counts)
    information[:r, :r] = scores[:r, :r]
    if is_survey and counts is not None:
        scores = information_matrix(features, p, n_threads, counts**2)
    if prior is not None:
        for matrix in (information, complete):
            add_prior(np.zeros(p.n_places), matrix, p, prior, n_effective)
    # Variances that follow from means are half of all places of many levels.
    free = np.delete(np.arange(p.n_places), dependent_places(p))
    information, scores = information[np.ix_(free, free)], scores[np.ix_(free, free)]
    # With the inverse of this root to both sides, the information of known components is 1.
    units = np.sqrt(np.maximum(np.diagonal(complete)[free], 1e-12))
    unit = complete[np.ix_(free, free)] / np.outer(units, units)
    unit[np.diag_indices_from(unit)] += _RIDGE
    root = _root(unit)
    information, scores = (_within(matrix, units, root) for matrix in (information, scores))
    everywhere = root[:r].T @ units[:r]  # all log ω together, which changes nothing
    everywhere /= np.linalg.norm(everywhere)
    information += np.outer(everywhere, everywhere)
    information, scores = _raised(information, scores, 1.0 / max(n_effective, 1.0))
    n_model = float(free.size)
    scores = (n_effective * scores + n_model * information) / (n_effective + n_model)
    found = cho_solve((_root(information), True), _root(scores))
    found = solve_triangular(root, found, lower=True, trans=1)
    found /= units[:, None] * np.sqrt(n_effective)
    factor = np.zeros((p.n_places, free.size))
    factor[free] = found if features.shape[1] >= p.n_free else nan  # so few rows say nothing
    return Uncertainty(p, _by_parameters(factor, p))


def _root(matrix: Float) -> Float:
    """A lower triangular root of a matrix that is positive definite but for rounding."""
    try:
        return np.asarray(cholesky(matrix, lower=True))
    except LinAlgError:
        values, vectors = eigh(matrix)
        half = vectors * np.sqrt(np.maximum(values, _RIDGE * values[-1]))
        return np.asarray(np.linalg.qr(half.T)[1].T)


def _within(matrix: Float, units: Float, root: Float) -> Float:
    """R⁻¹ M R⁻ᵀ of a symmetric matrix in these units."""
    half = solve_triangular(root, matrix / np.outer(units, units), lower=True)
    return np.asarray(solve_triangular(root, half.T, lower=True))


def _by_parameters(factor: Float, p: Parameters) -> Float:
    """Changes of (log ω, μ, E) as those of (ω, μ, Σ); in place."""
    r, d, places = p.n_components, p.blocks.n_features, component_places(p)
    factor[:r] = p.weights[:, None] * (factor[:r] - p.weights @ factor[:r])
    own, units = p.blocks.single_or_law, np.ones(len(factor))
    units[places[:, 1 + d + own]] = p.variances[:, own]
    factor *= units[:, None]
    for table, slopes in spread_changes(p):
        own = places[:, 1 + d + table[np.triu_indices(len(table))]]
        factor[own] = slopes @ factor[own]
    return factor


def _raised(information: Float, scores: Float, least: float) -> tuple[Float, Float]:
    """Both matrices, where directions have less information than `least` by second derivatives.

    There the likelihood is no hill, as of rows far from a component that may be of another. The
    scores tell what is known of such a direction; where they do not either, it is unknown.
    """
    lowered = information.copy()
    lowered[np.diag_indices_from(lowered)] -= least
    if not dpotrf(lowered, lower=1, overwrite_a=1)[1]:
        return information, scores
    values, vectors = eigh(information)
    values, weak = values[values < least], vectors[:, values < least]
    along = scores @ weak
    told = np.einsum("ij,ij->j", weak, along)
    is_told = told > _TOLD
    raised = np.where(is_told, np.minimum(told, 1.0), least)
    information = information + (weak * (raised - values)) @ weak.T
    rest = scores - weak @ along.T - along @ weak.T + weak @ (weak.T @ along) @ weak.T
    return information, rest + (weak * np.where(is_told, told, _UNKNOWN * least)) @ weak.T


def inverse_root(matrix: Float, ridge: float = 1e-8) -> Float:
    """A root of the inverse of a positive semidefinite matrix of diagonal 1."""
    raised = matrix.copy()
    raised[np.diag_indices_from(raised)] += ridge
    triangle, failed = dpotrf(raised.T, lower=1, clean=1, overwrite_a=1)
    if not failed:
        return np.asarray(dtrtri(triangle, lower=1)[0].T)
    values, vectors = eigh(matrix)
    # The symmetric root: draws from it do not depend on the signs of eigenvectors.
    return np.asarray((vectors / np.sqrt(np.maximum(values, max(ridge, 1e-10)))) @ vectors.T)


# -- components by themselves ---------------------------------------------------------------------


def _component_scores(features: Float, p: Parameters, counts: Float | None) -> Float:
    """Σ_i mean of γ_i s_i s_iᵀ, in blocks by component; 0 for weights, which J has in B."""
    total, n_rows = np.zeros((p.n_places,) * 2), 0.0
    places = component_places(p)[:, 1:]
    for rows, shares, scores in component_scores(features, p):
        weights = np.ones(shares.shape[1]) if counts is None else counts[rows]
        n_rows += float(weights.sum())
        for own, share, score in zip(places, shares, scores, strict=True):
            relative = weights / np.maximum(share, 1e-300)
            total[np.ix_(own, own)] += (score[1:] * relative) @ score[1:].T
    return total / n_rows


def _component_information(features: Float, p: Parameters, counts: Float | None) -> Float:
    """Σ_i mean of γ_i H_i, as expected of the rows of each component."""
    d, places, total = p.blocks.n_features, component_places(p), np.zeros((p.n_places,) * 2)
    weights = np.ones(features.shape[1]) if counts is None else counts
    shares = responsibilities(joint_of(features, p))[0] * (weights / weights.sum())
    single, with_missing = p.blocks.single, patterns(features, p.blocks)
    total[places[:, 1 + single], places[:, 1 + single]] = (
        p.weights[:, None] / p.variances[:, single]
    )
    total[places[:, 1 + d + single], places[:, 1 + d + single]] = 0.5 * p.weights[:, None]
    for block, table in p.blocks.places:
        a, b = np.triu_indices(block.size)
        own = np.concatenate([1 + block, 1 + d + table[a, b]])
        parts = [x for x in with_missing if x.block[0] == block[0]]
        for i, matrix in enumerate(p.spread[..., table]):
            root, share = np.linalg.cholesky(matrix), float(p.weights[i])
            inverse, k = np.linalg.inv(root), block.size
            known = np.zeros((own.size, own.size))
            every = np.arange(k)
            some = [(np.searchsorted(block, x.observed), shares[i, x.rows].sum()) for x in parts]
            for observed, part in [*some, (every, share - sum(part for _, part in some))]:
                half = root[observed]
                q = half.T @ np.linalg.solve(half @ half.T, half)  # I where all are observed
                known[:k, :k] += part * inverse.T @ q @ inverse
                by_spread = (
                    q[a[:, None], a] * q[b[:, None], b] + q[a[:, None], b] * q[b[:, None], a]
                )
                known[k:, k:] += part * by_spread
            halves = np.append(np.ones(k), np.where(a == b, 0.5, 1.0))
            total[np.ix_(places[i, own], places[i, own])] = known * np.outer(halves, halves)
    for number, law in enumerate(p.blocks.laws):
        own = np.array(law.features)
        sums = _expected(law, *p.of_law(law), shares @ features[p.blocks.statistics_of(number)].T)
        at = places[:, np.concatenate([1 + own, 1 + d + own])]
        units = np.hstack([np.ones_like(own * p.means[:, own]), p.variances[:, own]])
        known = law.curvature(partial(_slope, law, sums), *p.of_law(law))
        known *= units[:, :, None] * units[:, None, :]
        total[at[:, :, None], at[:, None, :]] = known
    places = places[:, 0]
    total[places, places] = p.weights
    return total


def _expected(law: Distribution, means: Float, variances: Float, sums: Float) -> Float:
    """Sums of (z, z², t, 1) by component where z has the moments of its distribution."""
    w, value, (shift, scale) = means.shape[1], law.value_of(means, variances), law.units
    n, first, second = sums[:, -1:], value.mean, value.mean**2 + value.variance
    if law.has_missing:
        share = (shift[-1] * n + scale[-1] * sums[:, w - 1 : w]) / np.maximum(n, 1e-300)
        first, second = (np.hstack([share * x, share]) for x in (first, second))
    sums = sums.copy()
    sums[:, :w] = n * (first - shift) / scale
    sums[:, w : 2 * w] = n * (second - 2 * shift * first + shift**2) / scale**2
    return sums


def _slope(law: Distribution, sums: Float, means: Float, variances: Float) -> Float:
    """Derivatives of sums of log p by (E z, Var z), (r, 2w)."""
    return np.asarray((law.scores(means, variances) @ sums[:, :, None])[..., 0])
