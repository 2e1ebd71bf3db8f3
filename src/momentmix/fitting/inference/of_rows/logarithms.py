"""Logarithms that would help: columns that are skewed to the right within components.

With rows, the skewness within components is computed before and after. Moments of the numbers say
nothing about those of their logarithms, and a fit that is wrong says little about skewness within
components: there a column must be positive, reach far, and be skewed as a whole.

With more components the skewness goes away: some of them are alike in all other columns, and their
sum describes the skewed one. Then one Gaussian law of the logarithm is compared with that sum.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from scipy.sparse.csgraph import connected_components

from momentmix._typing import Float, Int
from momentmix.families.transforms import LOG, LOG1P, transformed
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.density import log_sums, posteriors
from momentmix.mixture.parameters import Parameters

_FEWEST_ROWS = 20  # of a component, whose skewness has an error of 0.5 then
_HELPS, _MOST_LEFT = 0.5, 1.0  # times the skewness that there was, and of either sign, at most
_LOG1P_PAYS = 0.1  # skewness; of large numbers both logarithms are the same
# Of a column as a whole. Exponential numbers have a skewness of 2, lognormal ones that reach over a
# factor of 10 one of about 1, and two equal clusters 3 deviations apart at most 0.8.
_SKEWED, _LEAST_RATIO = 1.0, 5.0
_ALIKE = 0.2  # Bhattacharyya's distance; two laws 1.3 deviations apart in one feature have it
_LEAST_VARIANCE = 1e-3  # of standardized features, in distances
_LEAST_GAIN = 10.0  # of BIC: "very strong" evidence
_STEPS = 20  # of EM for the laws of a logarithm, from the fitted answer on


def possible_transforms(
    moments: StandardMoments, feature: int, has_law: Collection[int] = ()
) -> list[str]:
    """Transforms that the numbers of a feature allow; none for counts and for logarithms."""
    least = float(moments.minimum[feature])
    is_done = int(moments.columns[feature]) in moments.transformed
    if is_done or feature in has_law or least < 0:
        return []
    return [LOG, LOG1P] if least > 0 else [LOG1P]


def offer_from_moments(
    moments: StandardMoments, feature: int, has_law: Collection[int]
) -> str | None:
    """The transform of a feature that is skewed to the right and reaches far; else None."""
    possible = possible_transforms(moments, feature, has_law)
    if not possible or moments.powers is None or not moments.powers[0, feature] > _SKEWED:
        return None
    ends = transformed([moments.minimum[feature], moments.maximum[feature]], possible[0])
    return possible[0] if np.ptp(ends) > np.log(_LEAST_RATIO) else None


def reaches_far(values: Float) -> bool:
    """Whether numbers are skewed to the right as a whole and reach over a large factor.

    Examples
    --------
    >>> reaches_far(np.array([1.0, 1.0, 1.0, 2.0, 9.0])), reaches_far(np.arange(1.0, 9.0))
    (True, False)
    """
    low, high = np.quantile(values, [0.01, 0.99])
    offsets = values - values.mean()
    third = float((offsets**3).mean())
    return bool(high > _LEAST_RATIO * low and third > _SKEWED * float(offsets.var()) ** 1.5)


def offer_from_rows(values: Float, labels: Int, transforms: Collection[str]) -> str | None:
    """The transform after which numbers are least skewed within components, if it helps.

    Parameters
    ----------
    values : array of shape (n,)
    labels : array of int of shape (n,)
        The most probable component of each row.
    transforms : collection of str
        Those that the numbers allow.
    """
    before = skewness_within(values, labels)
    sizes = {t: abs(skewness_within(transformed(values, t), labels)) for t in transforms}
    best = min(sizes, key=lambda t: sizes[t] + _LOG1P_PAYS * (t == LOG1P), default=None)
    return best if best is not None and sizes[best] < min(_HELPS * before, _MOST_LEFT) else None


def skewness_within(values: Float, labels: Int) -> float:
    """Mean of the skewness of groups, by their sizes; 0 where all have few rows.

    Examples
    --------
    >>> skewness_within(np.repeat([1.0, 2.0, 6.0, 9.0], 20), np.repeat([0, 0, 1, 1], 20))
    0.0
    """
    total, n = 0.0, 0
    for label in np.unique(labels):
        own = values[labels == label]
        offsets = own - own.mean()
        spread = float((offsets**2).mean())
        if len(own) >= _FEWEST_ROWS and spread > 0:
            total += len(own) * float((offsets**3).mean()) / spread**1.5
            n += len(own)
    return total / n if n else 0.0


# -- components that describe the shape of one column only ---------------------------------------


def offer_from_alike(
    values: Float,
    z: Float,
    joint: Float,
    parameters: Parameters,
    feature: int,
    transforms: Collection[str],
) -> str | None:
    """The transform with which components that differ in one feature only become one; else None.

    | symbol | here |
    |---|---|
    | log ω_i p_i(z) without the feature | ``others``, (r, n) |
    | components that are alike in the other features | ``groups``, (r,) |
    | log-likelihood of the feature, given the others | ``before``, and with the transform |

    The transform must win by BIC: it has a mean, a variance and a weight less for each component
    that it saves.

    Parameters
    ----------
    values, z : arrays of shape (n,)
        Numbers of the feature, and standardized.
    joint : array of shape (r, n)
        Log-densities of the components, weights included.
    parameters : Parameters
        Of standardized features; the feature is joined with no other.
    feature : int
    transforms : collection of str
        Those that the numbers allow.
    """
    groups = alike_but_for(parameters, feature)
    r, m, n = len(groups), int(groups.max()) + 1, len(values)
    if m == r:
        return None
    own = log_normal(z, parameters.means[:, feature], parameters.variances[:, feature])
    others = joint - own
    before = log_sums(joint.copy()) - log_sums(others.copy())
    together = np.stack([log_sums(others[groups == g]) for g in range(m)])
    shares = posteriors(joint.copy())
    start = np.stack([shares[groups == g].sum(axis=0) for g in range(m)])
    labels = groups[joint.argmax(axis=0)]
    skewed, scale = skewness_within(values, labels), float(values.std() / max(z.std(), 1e-300))
    best, chosen = _LEAST_GAIN - 3 * (r - m) * np.log(n), None
    for transform in transforms:
        t = transformed(values, transform)
        after = _gaussian_likelihood(t, together, start) - t + np.log(scale)
        gain = 2 * float((after - before).sum())
        is_even = abs(skewness_within(t, labels)) < min(_HELPS * skewed, _MOST_LEFT)
        if is_even and gain > best:
            best, chosen = gain, transform
    return chosen


def alike_but_for(parameters: Parameters, feature: int) -> Int:
    """Groups of components that are alike in all features but one, numbered from 0; (r,)."""
    p = parameters
    kept = np.arange(p.means.shape[1]) != feature
    means, variances = p.means[:, kept], np.maximum(p.variances[:, kept], _LEAST_VARIANCE)
    sums = variances[:, None] + variances[None]
    # Bhattacharyya's distance of Gaussian laws.
    apart = ((means[:, None] - means[None]) ** 2 / sums).sum(axis=-1) / 4
    apart += np.log(sums**2 / (4 * variances[:, None] * variances[None])).sum(axis=-1) / 4
    _, groups = connected_components(apart < _ALIKE, directed=False)
    return np.asarray(groups, dtype=np.int64)


def _gaussian_likelihood(t: Float, others: Float, start: Float) -> Float:
    """Log-densities of numbers given the other features, with one Gaussian law a group; (n,)."""
    weights, joint = start, others
    least = _LEAST_VARIANCE * max(float(t.var()), 1e-300)
    for _ in range(_STEPS):
        sizes = np.maximum(weights.sum(axis=1), 1e-300)
        means = weights @ t / sizes
        offsets = t - means[:, None]
        variances = np.maximum((weights * offsets**2).sum(axis=1) / sizes, least)
        joint = others + log_normal(t, means, variances)
        weights = posteriors(joint.copy())
    return np.asarray(log_sums(joint) - log_sums(others.copy()))


def log_normal(values: Float, means: Float, variances: Float) -> Float:
    """Log-densities of Gaussian laws, of shape (r, n)."""
    squares = (values - means[:, None]) ** 2 / variances[:, None]
    return np.asarray(-0.5 * (squares + np.log(2 * np.pi * variances)[:, None]))
