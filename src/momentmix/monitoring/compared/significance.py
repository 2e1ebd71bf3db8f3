"""Tests of differences of means: one by one, together, and what they say in all.

There are two estimates of noise: that of both summaries together, right where rows are skewed and
one summary is much smaller, and the sum of the noise of each, right where spreads differ. For means
the second one is taken where they differ by more than chance (`by_chance`); else the larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy.special import fdtrc, stdtr

from momentmix._typing import Float

_LEAST_SHARE = 1e-10  # of the largest eigenvalue; smaller ones are directions without variation
_LEAST_VARIANCE = 1e-12  # of the largest; smaller ones are rounding, as for copies of a column
_CERTAIN = 1e-3  # standard errors along such a direction
FEW = 10  # rows of one kind that are expected in the smaller summary
_CONSTANT = 1e-26  # variance of one row, in common units


@dataclass(frozen=True)
class JointTest:
    """Hotelling's F test of some differences together, in the `n_tested` directions that vary."""

    n_tested: int
    statistic: float
    degrees: tuple[float, float]
    p_value: float


def by_chance(n_tested: int, kurtosis: Any, n: Any) -> Float:
    """Factor by which the noise of rows of one law may seem larger in the smaller summary.

    For normal rows (kurtosis 3) it is the largest eigenvalue of the covariance of `n` of them;
    variances of other rows scatter √((kurtosis − 1)/2) times as much.
    """
    heavy = np.maximum(np.nan_to_num(np.asarray(kurtosis, float), nan=3.0) - 1, 0.0) / 2
    return np.asarray((1 + np.sqrt(n_tested * heavy / n)) ** 2)


def two_sided(
    change: Float, left: Float, right: Float, n_left: Float, n_right: Float, chance: Any = 0.0
) -> Float:
    """p-values of differences with variances `left` and `right` of one row; NaN if not known.

    The noise of both together is taken as long as the sum of the noise of each is at most `chance`
    times as much; else the larger p-value of both.
    """
    parts = left / (n_left - 1), right / (n_right - 1)
    apart = parts[0] + parts[1]
    degrees = apart**2 / (parts[0] ** 2 / (n_left - 1) + parts[1] ** 2 / (n_right - 1))
    total = n_left + n_right
    both = (n_left * left + n_right * right) / (total - 2) * (1 / n_left + 1 / n_right)
    p = _tail(change, both, total - 2)
    own = _tail(change, apart, np.where(np.isfinite(degrees), degrees, 1.0))
    p = np.where(apart <= chance * both, p, np.maximum(p, own))
    known = np.isfinite(left + right) & (np.minimum(n_left, n_right) > 2)
    same = np.maximum(left, right) <= _CONSTANT
    p = np.where(same, np.where(change == 0, 1.0, 0.0), p)
    return np.where(known, p, np.nan)


def _tail(change: Float, variance: Float, degrees: Float) -> Float:
    return np.asarray(2 * stdtr(np.maximum(degrees, 1.0), -np.abs(change) / np.sqrt(variance)))


def joint_test(
    change: Float, left: Float, right: Float, n_left: float, n_right: float, kurtosis: float = 3.0
) -> JointTest | None:
    """Hotelling's test of differences of means with covariances `left` and `right` of one row.

    The noise is that of both summaries together. Along directions in which the noise of each
    summary adds up to more than chance explains (`by_chance`, with the kurtosis of the values that
    are tested), it is that one, and the F law has the degrees of freedom of Krishnamoorthy and Yu.
    Directions in which nothing varies are left out; a difference along one is certain.
    """
    total = n_left + n_right
    both = (n_left * left + n_right * right) / (total - 2) * (1 / n_left + 1 / n_right)
    own = np.diag(both) > _LEAST_VARIANCE * np.diag(both).max(initial=0.0)
    if not own.any():
        return None
    places, unit = np.ix_(own, own), 1 / np.sqrt(np.diag(both)[own])
    values, vectors = np.linalg.eigh(both[places] * unit[:, None] * unit)
    varies = values > _LEAST_SHARE * values[-1]
    along = vectors.T @ (change[own] * unit)
    p = int(varies.sum())
    if (np.abs(along[~varies]) > _CERTAIN * max(1.0, float(np.abs(along).max()))).any():
        return JointTest(p, inf, (p, total - 2 - p + 1), 0.0)
    white = unit[:, None] * vectors[:, varies] / np.sqrt(values[varies])
    apart = [
        white.T @ part[places] @ white / (n - 1) for part, n in ((left, n_left), (right, n_right))
    ]
    ratios, turned = np.linalg.eigh(apart[0] + apart[1])
    chance = float(by_chance(p, kurtosis, min(n_left, n_right)))
    square = (turned.T @ (white.T @ change[own])) ** 2 / np.maximum(ratios / chance, 1.0)
    degrees = total - 2
    if ratios[-1] > chance:
        degrees = _degrees_apart(apart, (n_left - 1, n_right - 1))
    second = degrees - p + 1
    if second < 1:
        return None
    statistic = float(square.sum()) * second / (degrees * p)
    return JointTest(p, statistic, (p, second), float(fdtrc(p, second, statistic)))


def _degrees_apart(parts: Sequence[Float], degrees: Sequence[float]) -> float:
    """Degrees of freedom of Krishnamoorthy and Yu for the sum of two covariances."""
    inverse = np.linalg.inv(parts[0] + parts[1])
    p, spent = len(inverse), 0.0
    for part, freedom in zip(parts, degrees, strict=True):
        share = part @ inverse
        spent += (np.trace(share @ share) + np.trace(share) ** 2) / freedom
    return float((p + p * p) / spent)


def share_test(left: Float, right: Float, n_left: Float, n_right: Float) -> Float:
    """p-values of differences of shares: exact ones where few rows are of one kind."""
    total = n_left + n_right
    common = (n_left * left + n_right * right) / total
    p = two_sided(left - right, left * (1 - left), right * (1 - right), n_left, n_right)
    fewest = np.minimum(common, 1 - common) * np.minimum(n_left, n_right)
    for i in np.flatnonzero((fewest < FEW) & np.isfinite(fewest)).tolist():
        counts = [[round(x * n), round((1 - x) * n)] for x, n in (
            (float(left[i]), float(n_left[i])), (float(right[i]), float(n_right[i]))
        )]  # fmt: skip
        from scipy.stats import fisher_exact  # takes long to import, and few comparisons need it

        p[i] = float(fisher_exact(np.array(counts)).pvalue)
    return p


def holm(p_values: Float) -> Float:
    """p-values corrected for their number, so that at most one in 1/level families errs."""
    known = np.flatnonzero(np.isfinite(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    result = np.full(len(p_values), np.nan)
    steps = p_values[order] * np.arange(len(order), 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return result


def together(p_values: Sequence[float], weights: Sequence[float]) -> float:
    """Return one p-value of several, by Simes with weights."""
    order = np.argsort(p_values, kind="stable")
    shares = np.cumsum(np.asarray(weights, float)[order]) / np.sum(weights)
    return float(min(1.0, (np.asarray(p_values, float)[order] / shares).min()))
