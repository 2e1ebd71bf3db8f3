"""Weights of small groups with the whole as prior, all from the moments.

| symbol | name here | shape |
|---|---|---|
| u_g = w_g + noise of covariance C_g | ``LinearWeights`` | (r,) |
| w_g ~ mean μ, covariance τ B, B = diag(μ) − μ μᵀ | ``center``, ``spread`` | |
| Σ_g (u_g − μ)ᵀ (τ B + C_g)⁻¹ (u_g − μ) = dof − √(2 dof), dof = (G − 1)(r − 1) | τ | |
| w_g | u: μ + K (u − μ), K = τ B (τ B + C)⁻¹ | ``shrunken`` | |

τ B is the covariance of a Dirichlet law of concentration 1/τ − 1 rows. The estimate of τ is that of
Paule and Mandel, one standard deviation larger, so that groups are rather shrunken too little.

The covariance C_g is taken near the whole first and then near the answer: at the group's own
estimate it would depend on its noise. Groups with u far outside of [0, 1], as of values in other
units, are none of this law: one of them would draw all others to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import brentq

from momentmix._typing import Float
from momentmix.monitoring.shares.group_weights import LinearWeights

_LARGEST = 1.0  # of τ: weights that are 0 or 1
_LEAST_SHARE = 1e-3  # of a component in the prior: a share of 0 would be 0 in all groups
_BEYOND, _SURE = 0.5, 8.0  # outside of [0, 1], a share and standard errors that no law has


@dataclass(frozen=True)
class SharePrior:
    """The law of the weights of groups: their mean (r,), and τ."""

    center: Float
    spread: float

    @property
    def n_rows(self) -> float:
        """Rows that the prior is worth, if labels were known; infinite where τ is 0."""
        return float("inf") if self.spread <= 0 else max(0.0, 1.0 / self.spread - 1.0)


def shrink(
    estimators: Sequence[Callable[[Float], LinearWeights]], start: Float
) -> tuple[SharePrior | None, list[tuple[Float, Float] | None]]:
    """Return weights of groups with their common law as prior, and their covariances.

    Estimators give the weights of a group, with the covariance of its moments taken at some
    weights; `start` are the weights of the whole. None for groups that are not of this law.
    """
    first = [estimator(_raised(start)) for estimator in estimators]
    used = []
    for g, own in enumerate(first):
        errors = np.sqrt(np.maximum(np.diagonal(own.noise + own.shared), 0.0))
        beyond = np.maximum(-own.weights, own.weights - 1.0)
        if (beyond <= np.maximum(_SURE * errors, _BEYOND)).all():
            used.append(g)
    answers: list[tuple[Float, Float] | None] = [None] * len(first)
    if len(used) < 2:
        return None, answers
    linear = [first[g] for g in used]
    for _ in range(2):
        prior, error = find_prior(linear)
        near = [shrunken(own, prior, error)[0] for own in linear]
        linear = [estimators[g](_raised(w)) for g, w in zip(used, near, strict=True)]
    prior, error = find_prior(linear)
    for g, own in zip(used, linear, strict=True):
        answers[g] = shrunken(own, prior, error)
    return prior, answers


def find_prior(linear: list[LinearWeights]) -> tuple[SharePrior, Float]:
    """The common law of the weights, and the covariance of its mean within a sum of 0."""
    r = len(linear[0].weights)
    basis = helmert(r)  # (r − 1, r)
    values = np.array([basis @ own.weights for own in linear])
    noise = np.array([basis @ own.noise @ basis.T for own in linear])
    center = _raised(np.mean([own.weights for own in linear], axis=0))
    for _ in range(3):
        between = basis @ (np.diag(center) - np.outer(center, center)) @ basis.T
        spread = _spread(values, noise, between)
        mean, error = _common_mean(values, noise + spread * between)
        center = _raised(1.0 / r + basis.T @ mean)
    return SharePrior(center, spread), error


def _raised(weights: Float) -> Float:
    raised = np.maximum(weights, _LEAST_SHARE)
    return np.asarray(raised / raised.sum())


def _common_mean(values: Float, covariances: Float) -> tuple[Float, Float]:
    """Weighted mean of values (G, k), and its covariance."""
    precisions = np.linalg.inv(covariances)
    error = np.linalg.inv(precisions.sum(axis=0))
    return error @ np.einsum("gij,gj->i", precisions, values), error


def _spread(values: Float, noise: Float, between: Float) -> float:
    """τ of the method of Paule and Mandel, one standard deviation larger."""
    dof = (len(values) - 1) * values.shape[1]
    target = float(max(dof - np.sqrt(2.0 * dof), 0.5 * dof))
    if not dof:
        return _LARGEST

    def excess(spread: float) -> float:
        total = noise + spread * between
        mean, _ = _common_mean(values, total)
        rest = values - mean
        return float(np.einsum("gi,gij,gj->", rest, np.linalg.inv(total), rest)) - target

    if excess(0.0) <= 0:
        return 0.0
    if excess(_LARGEST) >= 0:
        return _LARGEST
    return float(brentq(excess, 0.0, _LARGEST, xtol=1e-9, rtol=1e-6))


def shrunken(own: LinearWeights, prior: SharePrior, error: Float) -> tuple[Float, Float]:
    """Weights of a group given the prior, and their covariance; `error` is of the prior's mean."""
    r = len(own.weights)
    basis, mu = helmert(r), prior.center
    between = prior.spread * basis @ (np.diag(mu) - np.outer(mu, mu)) @ basis.T
    noise = basis @ own.noise @ basis.T
    gain = between @ np.linalg.inv(between + noise)
    rest = np.eye(r - 1) - gain
    weights = mu + basis.T @ (gain @ (basis @ (own.weights - mu)))
    covariance = rest @ between + rest @ error @ rest.T
    weights = np.maximum(weights, 0.0)
    return weights / weights.sum(), basis.T @ covariance @ basis + own.shared
