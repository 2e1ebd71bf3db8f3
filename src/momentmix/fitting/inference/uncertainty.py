"""Uncertainty of the parameters: their covariance, from moments or from scores.

| symbol | name here | shape |
|---|---|---|
| Cov θ̂ = I⁻¹ / N after EM, I the outer product of scores | ``factor factorᵀ`` | |
| x ≥ 0: numbers of a law, `Distribution.positive` | ``values`` | (r, n) |
| g = ∂x / ∂ (μ, v) | ``slopes`` | (r, n, 2k) |

After EM the formula of a moment fit (``moments/steps.py``) would be wrong, since the estimate no
longer minimizes these conditions. The information of the scores is used instead, with that of the
prior: EM maximizes both. Without it, errors of 1,000 for probabilities and weights come from levels
and gaps of a few rows.

Probabilities and rates that are 0 in a component are fixed in the errors of other parameters. If no
row of a component has an outcome, the scores of the outcome and of the component's weight are the
same, and the information of the rows is singular (``python benchmarks/columns.py bounds``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtri

from momentmix._typing import Float, Int
from momentmix.families.distribution import Distribution
from momentmix.fitting.em.scores import add_prior, laws_with_places, settle_floored
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

# Of the information about a variance: what is left beside the mean, 1 − skewness² / (kurtosis − 1),
# is rounding where a column has two values, and half for an exponential column. Of two values that
# are equally frequent there is hardly any to begin with.
_TOLD, _LEAST_TOLD = 0.02, 1e-3
_RULE_OF_THREE = 3.0  # rows: a probability that none of n rows shows is below 3/n, by 95 %
LARGEST_ERROR = 0.5  # of a share: no distribution between 0 and 1 has a larger deviation
_DEPENDENT = 1e-8  # of eigenvalues of a correlation matrix: probabilities that sum to 1


@short_repr
@dataclass(frozen=True)
class Uncertainty:
    """Estimate and covariance, factor factorᵀ of `Parameters.flat`, in standardized features."""

    estimate: Parameters
    factor: Float
    on_log_scale: bool

    def deviations(self) -> Parameters:
        """Standard errors, shaped like the parameters."""
        spread = np.sqrt(np.einsum("ij,ij->i", self.factor, self.factor))
        return parameters_from(spread, self.estimate.n_components, self.estimate.blocks)

    @property
    def unknown_weights(self) -> NDArray[np.bool_]:
        """Components whose weights have errors that no share can have, of shape (r,)."""
        return np.asarray(self.deviations().weights > LARGEST_ERROR)

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


def uncertainty_after_em(
    parameters: Parameters,
    information: Float,
    n_effective: float,
    score_covariance: Float | None = None,
    together: Collection[Distribution] = (),
    prior: VariancePrior | None = None,
) -> Uncertainty:
    """Covariance from the information in (log ω, μ, E), carried over to (ω, μ, Σ).

    E is the relative change of Σ (``mixture/parameters.py``), that of log v for a single feature.
    Where the covariance B of the scores is not the information I, it is I⁻¹ B I⁻¹. Numbers at a
    bound, and gaps of laws `together`, are fixed; both matrices change in place. The information of
    a `prior` is added to that of the rows.
    """
    p, (r, d) = parameters, parameters.means.shape
    matrices = [information] if score_covariance is None else [information, score_covariance]
    if prior is not None:
        floors = prior.floors(p, n_effective)
        for matrix in matrices:
            settle_floored(matrix, p, floors, prior.structure)
    two_valued = _two_valued(information, p)
    places = component_places(p)[:, 1 + d :]
    alone = set(p.blocks.single.tolist())  # of distributions, `_at_bounds` fixes the variance
    single = [
        _Fixed(places[c, [j]], np.ones((1, 1)), p.weights[c] / 2)
        for c, j in two_valued
        if j in alone
    ]
    _fix(matrices, single)
    if prior is not None:
        slopes = np.zeros(p.n_places)  # left alone
        add_prior(slopes, information, p, prior, n_effective, _RULE_OF_THREE)
    _fix(matrices, _at_bounds(information, p, n_effective, two_valued, together))
    # Variances that follow from means are half of all places of many levels.
    own = np.delete(np.arange(len(information)), dependent_places(p))
    information, *scores = (matrix[np.ix_(own, own)] for matrix in matrices)
    del matrices, score_covariance  # of many levels, hundreds of megabytes
    scale = np.sqrt(np.maximum(np.diagonal(information), 1e-12))
    matrix = information / scale[:, None] / scale
    # Of one component the weight is known: what is there is rounding.
    matrix[np.diag_indices_from(matrix)] = np.maximum(np.diagonal(matrix), 0.0)
    root = inverse_root(matrix)
    if scores:
        values, vectors = np.linalg.eigh(scores[0] / scale[:, None] / scale)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        root = root @ (root.T @ half)
    known = root / scale[:, None] / np.sqrt(n_effective)
    factor = np.zeros((p.n_places, known.shape[1]))
    factor[own] = known
    logs = factor[:r]
    factor[:r] = p.weights[:, None] * (logs - p.weights @ logs)
    own, units = p.blocks.single_or_law, np.ones(len(factor))
    units[places[:, own]] = p.variances[:, own]
    units[dependent_places(p)] = 0.0
    factor *= units[:, None]
    for table, slopes in spread_changes(p):
        own = places[:, table[np.triu_indices(len(table))]]
        factor[own] = slopes @ factor[own]
    return Uncertainty(p, factor, on_log_scale=True)


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


# -- numbers that are fixed -----------------------------------------------------------------------


class _Fixed(NamedTuple):
    """Numbers of a component: their slopes (m, q) by parameters at q places, and what is known.

    The information `known` about each of them, (m,), is by itself: it takes the place of what the
    rows say of the numbers and other parameters together.
    """

    places: Int
    slopes: Float
    known: Any


def _fix(matrices: list[Float], numbers: Iterable[_Fixed]) -> None:
    """Take numbers out of information matrices, and put in what is known of each; in place."""
    for places, slopes, known in numbers:
        along = np.linalg.qr(slopes.T)[0]
        for matrix in matrices:
            matrix[places] -= along @ (along.T @ matrix[places])
            matrix[:, places] -= (matrix[:, places] @ along) @ along.T
            matrix[np.ix_(places, places)] += (slopes.T * known) @ slopes


def _two_valued(information: Float, p: Parameters) -> list[tuple[int, int]]:
    """Components and first features of numbers that have two values within a component."""
    d, places, found = p.means.shape[1], component_places(p), []
    laws = [law.features for law in p.blocks.laws if law.free[0]]
    for own in (*((j,) for j in p.blocks.single.tolist()), *laws):
        for c in range(p.n_components):
            spread, others = places[c, 1 + d + own[0]], places[c, 1 + np.array(own)]
            across, known = information[others, spread], information[spread, spread]
            beside = information[np.ix_(others, others)]
            left = known - across @ np.linalg.lstsq(beside, across, rcond=_DEPENDENT)[0]
            if left < _TOLD * known or known < _LEAST_TOLD * p.weights[c]:
                found.append((c, own[0]))
    return found


def _at_bounds(
    information: Float,
    p: Parameters,
    n_rows: float,
    two_valued: Collection[tuple[int, int]],
    together: Collection[Distribution],
) -> Iterator[_Fixed]:
    """Yield numbers of laws that the rows of a component do not distinguish from 0."""
    counts = np.maximum(n_rows * p.weights, 1e-12)
    for law, means, variances, places in laws_with_places(p):
        units = np.hstack([np.ones_like(means), variances])[:, None]
        values, slopes = (x(means, variances) for x in (law.positive, law.positive_slopes))
        fixed, errors = law.at_zero(means, variances, counts), np.ones_like(values)
        for c in np.flatnonzero(fixed.any(axis=1)):
            numbers = np.flatnonzero(fixed[c])
            turns = law.turns(means[c], variances[c], numbers) / units[c]
            own = information[np.ix_(places[c], places[c])]
            known = np.maximum(n_rows * ((turns @ own) * turns).sum(axis=1), 0.0)
            own_values = np.maximum(values[c, numbers], 1e-12)  # rounding may leave less than 0
            slope = np.minimum(law.prior_positive[numbers] / own_values, counts[c])
            # A third of the x at which the log-likelihood −slope · x − known · x² / 2 is −3: with
            # certain labels the slope is the number of rows, and x = 3/n, the rule of three.
            # Where counts are all 0, nothing tells their dispersion: as little as their mean.
            slope = np.where((slope > 0.0) | (known > 0.0), slope, counts[c])
            errors[c, numbers] = 2.0 / (slope + np.sqrt(slope**2 + 6.0 * known))
        if law in together:
            gap = np.clip(values[:, 0], 1e-12, 1 - 1e-12)
            alone = ~fixed[:, 0] & ~fixed[:, 1]
            fixed[alone, 0] = True
            errors[alone, 0] = np.sqrt(gap * (1 - gap) / counts)[alone]
        never, own_slopes, own_errors = law.never_observed(means, variances, counts)
        two = [c for c, j in two_valued if j == law.features[0]]
        fixed[two, -1] |= ~never[two]
        errors[two, -1] = values[two, -1] * np.sqrt(2.0 / counts[two])
        fixed = np.hstack([fixed, np.repeat(never[:, None], own_slopes.shape[1], axis=1)])
        slopes = np.concatenate([slopes, own_slopes], axis=1) * units
        known_by_law = np.hstack([errors, own_errors]) ** -2.0 / n_rows
        for c in np.flatnonzero(fixed.any(axis=1)):
            yield _Fixed(places[c], slopes[c, fixed[c]], known_by_law[c, fixed[c]])
