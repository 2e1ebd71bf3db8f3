"""Weights of fixed components in a group, from its moments: estimate, intervals, test of fit.

The errors of the components, which all groups share, are found from the groups together.

| symbol | name here | shape |
|---|---|---|
| m: moments of the group, n its rows | ``moments``, ``n`` | (q,) |
| u = argmin (m − M u)ᵀ V(w)⁻¹ (m − M u), Σ u = 1 | ``LinearWeights.weights`` | (r,) |
| w: the same with w ≥ 0; V is taken at w, which is found in a few rounds | ``weights`` | (r,) |
| u_c = a_c m + b_c; a_c M + b_c is 1 for c and 0 for the others | ``influence`` | (r, q) |
| J = n (m − M w)ᵀ V⁻¹ (m − M w) ~ χ² | ``statistic`` | |
| m_g = M w_g + D_g ξ + noise, ξ standard normal by the model | | (q,) |
| D_g = Σ_c w_gc D_c | ``FixedComponents.shared_error`` | (q, k) |
| P_g: what the shares of the group cannot explain, whitened by V_g / n_g | | (q, q) |
| H = Σ_g D_gᵀ P_g D_g, h = Σ_g D_gᵀ P_g m_g | ``information``, ``score`` | (k, k), (k,) |
| ξ: H⁻¹ h, covariance H⁻¹, where H is large; else 0, covariance I | ``center``, ``factor`` | (k,) |

*Intervals* hold the shares x that a test does not reject: |u_c − x| ≤ z · √(v_c(x) / n + e_c).
v_c(x), quadratic in x, is the variance of a group with share x and the other components in
proportion: for components that rows show, Wilson's interval. An estimate below −√(v_c(0) / n)
counts as that, so that no interval is empty.

*Errors of the components*, Σ_c w_c D_c ξ with ξ standard normal, are uncorrelated with u, whether
the group is a part of the N rows of the fit or not: e_c = |a_c D|² adds to its variance. In the
test the covariance of the moments is V / n + D Dᵀ, too large by about n / N for a part of the rows.

*Test.* With k components at 0, J is χ² with rank V − (r − 1) + k degrees of freedom. With few rows
moments are not normal: the variance of J exceeds 2·dof by (E‖x‖⁴ − q² − 2q) / n, x the whitened
moments of a row, and a gamma law of that variance takes the place of χ².

*Shared errors* move all intervals in the same direction: intervals of a whole cube may cover in
80 %, or in 99 %. The residuals of many groups, independent of their shares, show them. Where H is
diagonal, the model gives a direction of ξ the variance 1, the groups 1 / H_ii. The
better one is taken, not their mean: the groups may hold the rows of the model. Groups
that do not fit take no part, and a ξ larger than the model's errors allow is no error of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import nan
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgeqrf
from scipy.optimize import nnls
from scipy.special import chdtrc, gammaincc

from momentmix._typing import Float
from momentmix.monitoring.shares.components import FixedComponents, Root, contrasts

_FEWEST_TESTED = 20  # rows: the moments of fewer are far from normal
_DOUBTFUL = 0.2  # p-value of χ² below which draws, which take long, may change the answer
_ROUNDS = 12  # of weights → covariance → weights; mostly four are enough
_SETTLED = 0.02  # over √n: far below the standard errors
_LEAST_SHARE = 0.5  # rows: of a component in the weights that the covariance is taken at
_LEAST_P_VALUE = 0.001  # of ξ: below, it is no error of the model
_SUM = 1e4  # weight of the sum in the least squares, in units of the largest slope


class GroupWeights(NamedTuple):
    """Weights of one group, their intervals, and their errors from its rows alone; (r,) each."""

    weights: Float
    low: Float
    high: Float
    errors: Float


class FitTest(NamedTuple):
    """Whether fixed components explain the moments of a group."""

    statistic: float = nan
    degrees_of_freedom: int = 0
    p_value: float = nan
    effect_size: float = nan


UNTESTED = FitTest()


class LinearWeights(NamedTuple):
    """Weights without bounds, unbiased, as linear functions (r, q) of the moments."""

    weights: Float
    noise: Float  # covariance (r, r) from the rows of the group
    shared: Float  # and from the errors of the components, which all groups share
    influence: Float


def linear_weights(
    components: FixedComponents, moments: Float, n: float, at: Float
) -> LinearWeights:
    """Weights without bounds; the covariance of the moments is taken at the weights `at`."""
    r, table = components.n_components, components.influence(at)
    u = 1.0 / r + table @ (moments - components.means.mean(axis=1))
    error = components.shared_error(at)
    extra = np.zeros((r, r)) if error is None else (table @ error) @ (table @ error).T
    return LinearWeights(u, table @ components.root(at).covariance @ table.T / n, extra, table)


def estimate(components: FixedComponents, moments: Float, n: float, z: float) -> GroupWeights:
    """Weights and intervals of a group of `n` rows; `z` is a quantile of the normal law."""
    if components.n_components == 1:
        one = np.ones(1)
        return GroupWeights(one, one, one, np.zeros(1))
    w = settled_weights(components, moments, n)
    at = inside(w, n)
    linear = linear_weights(components, moments, n, at)
    low, high = _intervals(components, linear, at, n, z)
    errors = np.sqrt(np.maximum(np.diagonal(linear.noise), 0))
    return GroupWeights(w, np.minimum(low, w), np.maximum(high, w), errors)


def settled_weights(components: FixedComponents, moments: Float, n: float) -> Float:
    """Weights at which the covariance of the moments is taken that they are found with."""
    w = components.parameters.weights
    if len(w) == 1:
        return np.ones(1)
    root = components.root(inside(w, n))
    if root.means is None:
        root.means = root.whiten(components.means)
    means, target = root.means, root.whiten(moments)
    for _ in range(_ROUNDS):
        before, w = w, bounded(means, target)
        if np.abs(w - before).max() * np.sqrt(n) < _SETTLED:
            break
        means, target = _whitened(components.root(inside(w, n)), components, moments)
    return w


def _whitened(root: Root, components: FixedComponents, moments: Float) -> tuple[Float, Float]:
    """Means of the components and moments of a group, whitened."""
    white = root.whiten(np.column_stack([components.means, moments]))
    return white[:, :-1], white[:, -1]


def inside(weights: Float, n: float) -> Float:
    """Weights of at least half a row: the covariance is taken there."""
    raised = np.maximum(weights, _LEAST_SHARE / max(n, 1.0))
    return np.asarray(raised / raised.sum())


def bounded(means: Float, target: Float) -> Float:
    """Non-negative weights of sum 1 that are nearest in whitened moments, of shape (r,)."""
    # About the target: M w − m = (M − m 1ᵀ) w where the weights sum to 1.
    table = means - target[:, None]
    r = table.shape[1]
    # The norm of R w is that of the long table; the sum is one more row.
    short = np.triu(dgeqrf(table)[0][:r]) if len(table) >= r else table
    w = _best_of(short)
    if (w <= 0).any():
        heavy = _SUM * max(float(np.abs(short).max(initial=0.0)), 1e-300)
        full = np.vstack([short, np.full(r, heavy)])
        w, _ = nnls(full, np.append(np.zeros(len(short)), heavy))
        own = np.flatnonzero(w > 0)  # with these alone, the sum is exactly 1
        exact = _best_of(short[:, own]) if own.size > 1 else w[own]
        w[own] = np.where((exact > 0).all(), exact, w[own])
    return np.asarray(w / w.sum())


def _best_of(table: Float) -> Float:
    """The minimum over all components with a sum of 1, signs disregarded."""
    r = table.shape[1]
    if r < 2:
        return np.ones(r)
    basis, start = contrasts(r), np.full(r, 1.0 / r)
    step = np.linalg.lstsq(table @ basis, -table @ start, rcond=None)[0]
    return np.asarray(start + basis @ step)


def _intervals(
    components: FixedComponents, own: LinearWeights, w: Float, n: float, z: float
) -> tuple[Float, Float]:
    """Ends of the intervals of all shares, of shape (r,) each."""
    # The statistic a_c T + b_c of a row has the mean 1 in component c and 0 in the others, as far
    # as the moments tell them apart. Its first and second moments, by statistic and component:
    table, extra = own.influence, np.diagonal(own.shared)
    b = 1.0 / len(w) - table @ components.means.mean(axis=1)
    first = table @ components.means + b[:, None]
    r, q = table.shape
    product = (components.within.reshape(r * q, q) @ table.T).reshape(r, q, r)
    second = (product * table.T).sum(axis=1).T + first**2
    same = np.eye(len(w), dtype=bool)
    others = np.where(same, 0.0, w / np.maximum(1.0 - w, 1e-300)[:, None])
    rest, rest_mean = (second * others).sum(axis=1), (first * others).sum(axis=1)
    # v(x) = x s_c + (1 − x) s_rest − (x f_c + (1 − x) f_rest)²
    f = first[same] - rest_mean
    square, linear, constant = -f * f, second[same] - rest - 2 * f * rest_mean, rest - rest_mean**2
    at_0 = np.sqrt(np.maximum(constant / n + extra, 0.0))
    at_1 = np.sqrt(np.maximum((constant + linear + square) / n + extra, 0.0))
    u = np.clip(own.weights, -at_0, 1.0 + at_1)
    # (u − x)² = z² (v(x) / n + extra)
    scale = z * z / n
    p = 1.0 - scale * square
    half = u + scale * linear / 2
    width = np.sqrt(np.maximum(half**2 - p * (u * u - scale * constant - z * z * extra), 0.0))
    return np.clip((half - width) / p, 0.0, 1.0), np.clip((half + width) / p, 0.0, 1.0)


def group_root(components: FixedComponents, n: float, weights: Float) -> Root:
    """Whitening by the covariance of a group's moments, errors of the components included."""
    at = inside(weights, n)
    covariance, shared = components.root(at).covariance / n, components.shared_error(at)
    if shared is not None:
        covariance += shared @ shared.T
    return Root(covariance)


def check_fit(
    components: FixedComponents, moments: Float, n: float, weights: Float, with_draws: bool = True
) -> FitTest:
    """Whether the components explain the moments; without draws the law of J is χ²."""
    root = group_root(components, n, weights)
    means, target = _whitened(root, components, moments)
    best = bounded(means, target)
    residual = target - means @ best
    with np.errstate(over="ignore"):  # infinite where rows lie 1e50 deviations away
        statistic = float(residual @ residual)
    dof = root.rank - int((best > 0).sum()) + 1
    if dof <= 0 or n < _FEWEST_TESTED:
        return FitTest(statistic)
    p_value = _tail(statistic, dof, 2.0 * dof)
    if with_draws and p_value < _DOUBTFUL:
        variance = 2.0 * dof + _fourth_cumulant(components, root, inside(weights, n), n)
        p_value = _tail(statistic, dof, max(variance, 2.0 * dof))
    effect = np.sqrt(max(statistic - dof, 0.0) / (dof * n))
    return FitTest(statistic, dof, p_value, float(effect))


def _tail(statistic: float, dof: int, variance: float) -> float:
    """Probability beyond a statistic under a gamma law of mean `dof`."""
    return float(gammaincc(dof**2 / variance, statistic * dof / variance))


def _fourth_cumulant(components: FixedComponents, root: Root, weights: Float, n: float) -> float:
    """(E‖x‖⁴ − q² − 2q) / n of whitened moments of one row in units of the group's noise."""
    mean = components.means @ weights
    fourth = second = 0.0
    for share, own in zip(weights, components.draws, strict=True):
        white = root.whiten(own - mean[:, None])
        lengths = np.einsum("ij,ij->j", white, white) / n
        second += share * float(lengths.mean())
        fourth += share * float((lengths**2).mean())
    return (fourth - second**2 - 2 * second) / n


def find_shared_errors(equations: Iterable[tuple[Float, Float]]) -> tuple[Float, Float] | None:
    """ξ and a factor of its covariance; None where groups are no more precise than the model."""
    information, score = np.zeros(()), np.zeros(())
    for own, right in equations:
        information, score = information + own, score + right
    if not information.ndim:
        return None
    values, vectors = np.linalg.eigh(information)
    better = values > 1.0
    if not better.any():
        return None
    found = (vectors[:, better].T @ score) / values[better]
    statistic = float((found**2 / (1.0 + 1.0 / values[better])).sum())
    if chdtrc(int(better.sum()), statistic) < _LEAST_P_VALUE:
        return None
    deviations = np.where(better, 1.0 / np.sqrt(np.where(better, values, 1.0)), 1.0)
    return vectors[:, better] @ found, vectors * deviations


def corrected(components: FixedComponents, center: Float, factor: Float) -> FixedComponents:
    """The components with what is known of their errors."""
    assert components.errors is not None
    means = components.means + (components.errors @ center).T
    return replace(components, means=means, errors=components.errors @ factor)


def equations_of(
    components: FixedComponents, moments: Float, n: float, weights: Float
) -> tuple[Float, Float]:
    """Dᵀ P D and Dᵀ P m of one group."""
    at = inside(weights, n)
    root, error = components.root(at), components.shared_error(at)
    assert error is not None
    # Shares are projected out; m is about one of the mixtures.
    white = root.whiten(np.column_stack([error, moments - components.means.mean(axis=1)]))
    if len(at) > 1:
        basis = np.linalg.qr(root.whiten(components.means @ contrasts(len(at))))[0]
        white -= basis @ (basis.T @ white)
    both = n * (white[:, :-1].T @ white)
    return both[:, :-1], both[:, -1]
