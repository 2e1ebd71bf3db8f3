"""Tests of differences of means and shares, one by one, and Holm's correction.

There are two estimates of noise: that of both summaries together, right where rows are skewed and
one summary is much smaller, and the sum of the noise of each, right where spreads differ (Welch).
For means the second one is taken where they differ by more than chance (`by_chance`); else the
larger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtr

from momentmix._typing import Float

_FEW = 10  # rows of one kind that are expected in the smaller summary
_CONSTANT = 1e-26  # variance of one row, in common units


def by_chance(kurtosis: Any, n: Any) -> Float:
    """Factor by which the noise of `n` rows may seem larger than it is in the smaller summary.

    Variances of rows scatter √((kurtosis − 1)/2) times as much as those of normal ones.
    """
    heavy = np.maximum(np.nan_to_num(np.asarray(kurtosis, float), nan=3.0) - 1, 0.0) / 2
    return np.asarray((1 + np.sqrt(heavy / n)) ** 2)


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


def share_test(left: Float, right: Float, n_left: Float, n_right: Float) -> Float:
    """p-values of differences of shares: exact ones where few rows are of one kind."""
    total = n_left + n_right
    common = (n_left * left + n_right * right) / total
    p = two_sided(left - right, left * (1 - left), right * (1 - right), n_left, n_right)
    fewest = np.minimum(common, 1 - common) * np.minimum(n_left, n_right)
    for i in np.flatnonzero((fewest < _FEW) & np.isfinite(fewest)).tolist():
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
