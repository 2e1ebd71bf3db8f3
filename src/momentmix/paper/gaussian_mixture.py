"""method="paper": diagonal Gaussian mixtures by Algorithm 5.1 of the paper (algo:gaussian).

| paper symbol | name here | shape |
|---|---|---|
| (M̂_m)_{Ω_m}, (M̂_t)_{Ω_t} | ``moments.moment_tensor(m)`` | (C(d, m),) |
| (M̂_m)_{L_j} | ``moments.squared_moments(j, m−2)`` | (C(d−1, m−2),) |
| q̌_i (eq:q) | ``factors`` | (r, d) |
| t | ``weight_order(d, r)`` | |
| β_i (solve-w) | ``scales`` | (r,) |
| θ_ij (solve-sigma) | ``variances`` | (r, d) |

Differs from the paper:

* At even m the paper leaves the sign of each q_i open. Where t is odd, (solve-w) is solved without
  β ≥ 0 and factors with negative β change their sign; where t is even too, the signs come from the
  smallest odd order t' with C(d, t') ≥ r.
* β is kept away from zero (weights of at least 1e-6), since (est-w-mu) divides by a power of it.
* On samples, variances below a tenth of the variance that the components share (what is left of a
  column's variance after the means) are raised to it: (solve-sigma) often puts variances at zero
  there, and a component of variance zero attracts no row. With ``floor=0`` they stay as
  (solve-sigma) gives them, zeros included, which have no density.
* Columns whose largest value is above 1e20 or below 1e-20 are measured in a power of two next to
  it, since its powers would leave float64; the answer is in the units of the data.
* Constant columns get variances of at least 1e-6 times their value squared.

Data must not be centered: centering makes M_1 zero and the means linearly dependent.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from scipy.optimize import nnls

from momentmix._typing import Array
from momentmix.errors import FitWarning, InputError, check_count, warn_caller
from momentmix.fitting.context import Clock
from momentmix.fitting.data import moments_of, rows_of, summary_of
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings, find_constants
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.result import FitResult
from momentmix.index_sets import sets_without
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VARIANCE_FLOOR
from momentmix.mixture.separation import separation_of
from momentmix.paper.approximate import Approximation, best_powers
from momentmix.paper.gauss_newton import PowerFit, fit_weighted_powers
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor, power_sum
from momentmix.paper.ranks import best_split, check_order, choose_order, largest_rank
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import column_label

_LEAST_WEIGHT = 1e-6  # below any weight that moments of a sample can tell from zero
_FLOOR = 0.1  # of the variance within components
_LARGE_OFFSET = 100.0  # standard deviations from zero; its cube exceeds the noise of any sample


class MomentSource(Protocol):
    """A source of uncentered moments: a summary, or a mixture itself."""

    @property
    def n_features(self) -> int:
        """Number of features d."""

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""


class PaperFit(NamedTuple):
    """The mixture, and what was measured on the way."""

    mixture: DiagonalMixture
    approximation: Approximation
    polish: PowerFit


class RawMoments:
    """Uncentered moments of a summary in one unit for all features: shift 0, scale `unit`."""

    def __init__(self, summary: MomentSummary, unit: float = 1.0) -> None:
        self.summary, self.unit, self.n_features = summary, unit, summary.n_features

    def moment_tensor(self, order: int) -> IncompleteSymmetricTensor:
        """E[y_I] on Ω_order."""
        return self.summary.tensor(order, shift=0.0, scale=self.unit)

    def squared_moments(self, feature: int, order: int) -> Array:
        """E[y_j² y_I] for all I of `order` features other than j, in colex order."""
        return self.summary.squared(feature, order, shift=0.0, scale=self.unit)


def weight_order(n_features: int, n_components: int, *, odd: bool = False) -> int:
    """Smallest order t with C(d, t) ≥ r: the moments that give the weights.

    >>> weight_order(15, 15), weight_order(15, 20), weight_order(15, 20, odd=True)
    (1, 2, 3)
    """
    step = 2 if odd else 1
    order = 1
    while comb(n_features, order) < n_components:
        order += step
    return order


def learn_mixture(
    moments: MomentSource,
    n_components: int,
    order: int,
    random_state: int | np.random.Generator | None = None,
) -> PaperFit:
    """Weights, means and variances from uncentered moments (Algorithm 5.1)."""
    tensor = moments.moment_tensor(order)  # (C(d, m),)  subtensor-approx
    # Steps 1 and 2: real factors, eq:q
    approximation = best_powers(tensor, n_components, random_state)
    low = weight_order(moments.n_features, n_components)
    factors, scales = _signs_and_scales(moments, approximation.factors, order, low)  # Step 3
    power = 1.0 / (order - low)
    weights = scales ** (order * power)  # (r,)  est-w-mu
    means = factors / scales[:, None] ** power  # (r, d)  est-w-mu
    polish = fit_weighted_powers(  # Step 4, prob:nls-w mu
        [tensor, moments.moment_tensor(low)], weights / weights.sum(), means
    )
    variances = _variances(moments, factors, polish.weights, polish.factors, order)  # Step 5
    mixture = DiagonalMixture(polish.weights / polish.weights.sum(), polish.factors, variances)
    return PaperFit(mixture, approximation, polish)  #  algo:gaussian


def _power_table(vectors: Array, order: int) -> Array:
    """(v_i^{⊗t})_{Ω_t} as columns, of shape (C(d, t), r)."""
    return np.stack([power_sum(v[None], order) for v in vectors], axis=1)


def _signs_and_scales(
    moments: MomentSource, factors: Array, order: int, low: int
) -> tuple[Array, Array]:
    """Signs of the factors, and β ≥ 0 of (solve-w)."""
    target = moments.moment_tensor(low).values
    if order % 2 == 0:
        sign_order = weight_order(moments.n_features, factors.shape[0], odd=True)
        table = _power_table(factors, sign_order)
        free = np.linalg.lstsq(table, moments.moment_tensor(sign_order).values)[0]
        factors = np.where(free < 0, -1.0, 1.0)[:, None] * factors
    scales = _non_negative(_power_table(factors, low), target)  # (r,)  solve-w
    return factors, np.maximum(scales, _LEAST_WEIGHT ** ((order - low) / order))


def _variances(
    moments: MomentSource, factors: Array, weights: Array, means: Array, order: int
) -> Array:
    """θ_ij by non-negative least squares on the entries L_j (solve-sigma), of shape (r, d)."""
    r, d = means.shape
    variances = np.empty((r, d))
    for j in range(d):
        sets = sets_without(d, order - 2, j)
        table = (weights[:, None] * means[:, sets].prod(axis=2)).T  # (|L_j|, r)
        powers = factors[:, j] ** 2 @ factors[:, sets].prod(axis=2)
        target = moments.squared_moments(j, order - 2) - powers  # (|L_j|,)  cov-A
        variances[:, j] = _non_negative(table, target)  # (r,)  solve-sigma, Sig_i^opt
    return variances


def _non_negative(table: Array, target: Array) -> Array:
    """Non-negative least squares, columns scaled; plain least squares where that is positive."""
    norms = np.linalg.norm(table, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    scaled = table / norms
    solution = np.linalg.lstsq(scaled, target)[0]
    if (solution < 0).any():
        solution = nnls(scaled, target)[0]
    return np.asarray(solution / norms)


# -- from rows or a summary to a result ------------------------------------------------------------


def fit_by_paper(
    data: Any,
    n_components: int | str,
    order: int | Literal["auto"] = "auto",
    random_state: int | np.random.Generator | None = None,
    floor: float = _FLOOR,
) -> FitResult:
    """Algorithm 5.1, with the same test of its answer as the robust method."""
    if isinstance(n_components, str):
        raise InputError(
            f'method="paper" takes a number of components; got {n_components!r}. Give a number, or '
            'use method="robust".'
        )
    r, clock = check_count("n_components", n_components, 1), Clock()
    with clock.stage("paper"):
        summary, order = _summarize(data, r, order)
        moments = moments_of(summary)
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        residual, converged = 0.0, True
        if r > 1:
            fit = _fit_summary(summary, r, order, random_state, floor)
            mixture, residual = fit.mixture, fit.approximation.residual
            converged = fit.approximation.converged and fit.polish.converged
    least = np.where(moments.constant & (floor > 0), VARIANCE_FLOOR * moments.scale**2, 0.0)
    mixture = replace(mixture.with_variance_floor(least), feature_names=moments.feature_names)
    # The certificate of the robust method, without a predicted loss: there is no covariance.
    varying = moments.varying()
    standard = varying.standardize(mixture.marginal(varying.columns))
    p = Parameters(standard.weights, standard.means, np.maximum(standard.variances, VARIANCE_FLOOR))
    test = check_conditions(varying, p, np.random.default_rng(0))
    capacity = largest_rank(moments.n_features, order) if order >= 3 else 1
    findings = collect_findings(varying, p, test, capacity) + find_constants(moments)
    return FitResult(
        n_rows=moments.n_rows,
        order=order,
        method="paper",
        refine="none",
        winner="the printed algorithm",
        n_passes=1,
        converged=converged,
        log_likelihood=None,
        notes=[f"relative residual of the decomposed tensor {residual:.2e}"],
        certificate=Certificate(test, float("nan"), findings, r, separation=separation_of(p)),
        mixture=mixture,
        moments=moments,
        summary=None if isinstance(data, MomentSummary) else summary,
        stages=clock.stages,
    )


def _summarize(data: Any, r: int, order: int | Literal["auto"]) -> tuple[MomentSummary, int]:
    """Return the summary of the rows, and the order: given, or the least that identifies r."""
    source = data.copy() if isinstance(data, MomentSummary) else rows_of(data)
    if order == "auto":
        available = source.order if isinstance(source, MomentSummary) else None
        order = choose_order(source.n_features, r, available, method="paper")
    elif r == 1:
        order = check_order(order, source.n_features)
    else:  # raises where the order does not reach r
        best_split(source.n_features, check_count("order", order, 3), r)
    if not isinstance(source, MomentSummary):
        source = summary_of(source, order, max(order - 2, 0), 1)
    if source.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {source.n_rows}.")
    return source, order


def _fit_summary(
    summary: MomentSummary,
    r: int,
    order: int,
    random_state: int | np.random.Generator | None,
    floor: float,
) -> PaperFit:
    """Algorithm 5.1 on a summary of order ≥ m whose squares reach |I| = m − 2."""
    if summary.order < order or summary.squared_order < order - 2:
        raise InputError(
            f'method="paper" with order={order} needs a summary with order ≥ {order} and '
            f"squared_order ≥ {order - 2}; this one has order={summary.order} and squared_order="
            f"{summary.squared_order}. Summarize the rows again with order={order}, "
            f"squared_order={order - 2}."
        )
    offsets = np.abs(summary.mean) / np.where(summary.deviation > 0, summary.deviation, np.inf)
    worst = int(offsets.argmax())
    if offsets[worst] > _LARGE_OFFSET:
        warn_caller(
            f'method="paper" works on uncentered moments, and '
            f"{column_label(worst, summary.feature_names)} lies {offsets[worst]:.3g} standard "
            "deviations from zero: such an offset hides the components. Subtract a constant near "
            "the mean from that column before summarizing.",
            FitWarning,
        )
    # A power of two next to the largest value where its powers would leave float64.
    size = float(np.maximum(np.abs(summary.minimum), np.abs(summary.maximum)).max())
    unit = 1.0 if 1e-20 < size < 1e20 or size == 0.0 else 2.0 ** int(np.frexp(size)[1])
    fit = learn_mixture(RawMoments(summary, unit), r, order, random_state)
    mixture = fit.mixture
    mixture = replace(mixture, means=mixture.means * unit, variances=mixture.variances * unit**2)
    if floor == 0.0:
        return fit._replace(mixture=mixture)
    centered = mixture.means - mixture.weights @ mixture.means
    within = summary.variance - mixture.weights @ centered**2
    least = np.maximum(VARIANCE_FLOOR * summary.variance, np.finfo(float).tiny)
    floored = mixture.with_variance_floor(np.maximum(floor * within, least))
    return fit._replace(mixture=floored)
