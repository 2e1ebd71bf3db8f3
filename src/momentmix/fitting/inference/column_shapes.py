"""Shapes of columns: which do not follow the mixture, and logarithms that would help.

With rows, the skewness within components is computed before and after a logarithm. Moments do not
determine the moments of logarithms: without rows, a column must be positive, reach far, and be
skewed as a whole. With more components the skewness vanishes: components that are alike in all
other columns describe the skewed one. Then one Gaussian law of the logarithm is compared with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc, kolmogorov, ndtr

from momentmix._typing import Float, Int
from momentmix.families.column import LOG, LOG1P, transformed
from momentmix.findings.finding import FATAL, WARNING, Finding, Severity, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.checked_rows import (
    CHANCE,
    FITTED,
    LEAST_DISTANCE,
    CheckedRows,
    ColumnKind,
    ColumnShape,
    compare_column,
    joint_of,
    standardized,
)
from momentmix.mixture.density import log_sums, posteriors
from momentmix.mixture.parameters import Parameters

FAR_SHARE = 1e-3  # of the rows in the tails, from which heavy tails are fatal
_LEAST_P_VALUE = 0.01  # of columns that are taken to be independent, all others together
_TWO_PEAKS = -1.4  # excess kurtosis: −1.2 for a uniform law, −1.6 for two peaks 6 deviations apart
_LEAST_SKEWNESS = 0.2  # below, a fourth moment describes the shape better
_MEASURED = (ColumnKind.CONTINUOUS, ColumnKind.ROUNDED)
TO_THE_RIGHT, HEAVY_TAILED = "skewed to the right", "heavy-tailed"
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


def column_shapes(
    checked: CheckedRows,
    moments: StandardMoments,
    parameters: Parameters,
    serial: list[tuple[float, float]],
) -> dict[int, ColumnShape]:
    """Continuous columns of an excerpt from all over the rows, against the mixture."""
    if not checked.is_everywhere:
        return {}
    n = float((~checked.is_copy).sum())
    shapes = {}
    has_law = set(parameters.blocks.with_law.tolist())
    for j, column in enumerate(moments.columns.tolist()):
        f = checked.columns[column]
        if f.kind not in _MEASURED or j in has_law:
            continue
        # Rows like their neighbors count for fewer; sorted ones are as independent as before.
        alike = 0.0 if f.is_sorted and checked.is_all else min(max(serial[j][0], 0.0), 0.99)
        independent = n * (1 - alike) / (1 + alike)
        shift, scale = float(moments.shift[j]), float(moments.scale[j])
        shapes[j] = compare_column(f, shift, scale, parameters, j, independent, checked.is_all)
    return shapes


def _offers(
    checked: CheckedRows, moments: StandardMoments, parameters: Parameters, skewed: Collection[int]
) -> dict[int, str]:
    """Return transforms after which features are less skewed, or need fewer components."""
    columns = np.ascontiguousarray(checked.values[:, moments.columns].T)
    possible = {
        j: possible_transforms(moments, j)
        for j in parameters.blocks.single.tolist()
        if checked.columns[int(moments.columns[j])].kind in _MEASURED
    }
    possible = {j: t for j, t in possible.items() if j in skewed or (t and reaches_far(columns[j]))}
    if not possible:
        return {}
    z = standardized(checked, moments)
    joint = joint_of(z, parameters)
    offers = {}
    for j, transforms in possible.items():
        with np.errstate(over="ignore", invalid="ignore"):  # rows beyond all densities
            offer = offer_from_alike(columns[j], z[:, j], joint, parameters, j, transforms)
        if offer is None and j in skewed:
            offer = offer_from_rows(columns[j], joint.argmax(axis=0), transforms)
        if offer is not None:
            offers[j] = offer
    return offers


def about_shapes(
    moments: StandardMoments,
    parameters: Parameters,
    shapes: dict[int, ColumnShape],
    checked: CheckedRows,
) -> Iterator[Finding]:
    """Columns that do not follow the mixture, or need a logarithm, or have heavy tails."""
    n = len(checked.values)
    words = {j: shape_words(s.skewness_gap, s.kurtosis_gap) for j, s in shapes.items()}
    others = sorted((j for j in shapes if shapes[j].is_other), key=lambda j: -shapes[j].distance)
    offers = {}
    if shapes:
        skewed = [j for j in others if words[j] == TO_THE_RIGHT]
        offers = _offers(checked, moments, parameters, skewed)
    if others:
        yield shape_finding(FATAL, moments, {j: words[j] for j in others}, offers)
    absorbed = {j: transform for j, transform in offers.items() if j not in others}
    if absorbed:
        remedy = _families(moments, absorbed)
        yield found(WARNING, "skewed-column", moments.columns_of(absorbed), remedy=remedy)
    for j, shape in shapes.items():
        if shape.is_heavy and (words[j] == HEAVY_TAILED or not shape.is_other):
            severity = FATAL if shape.n_far > FAR_SHARE * n else WARNING
            columns = moments.columns_of([j])
            yield found(severity, "heavy-tails", columns, n_far=shape.n_far, n_rows=n)


def independent_columns(values: Float) -> list[tuple[int, str]]:
    """Return columns that are not Gaussian and independent of all others, with their shapes."""
    n, d = values.shape
    shaped = dict[int, Float]()  # columns that are not Gaussian, in units of their deviations
    for j, column in enumerate(values.T):
        z = (column - column.mean()) / max(float(column.std()), 1e-300)
        distance = float(np.abs(ndtr(np.sort(z)) - (np.arange(n) + 0.5) / n).max())
        if distance >= LEAST_DISTANCE and kolmogorov(FITTED * np.sqrt(n) * distance) <= CHANCE:
            shaped[j] = z
    if not shaped or d < 3:
        return []
    columns = np.array(list(shaped))
    above = (np.array(list(shaped.values())) > 0).astype(float)  # (n_shaped, n)
    share, p_values = above.mean(axis=1)[:, None], np.ones((len(columns), d))
    cuts = np.quantile(values, np.arange(1, 10) / 10, axis=0)
    for k in range(d):
        tenths = np.searchsorted(cuts[:, k], values[:, k])[:, None] == np.arange(10)
        tenths = tenths[:, tenths.any(axis=0)].astype(float)
        sizes = tenths.sum(axis=0)
        parts = (above @ tenths - share * sizes) ** 2 / (share * (1 - share) * sizes)
        p_values[:, k] = np.where(columns == k, 1.0, chdtrc(len(sizes) - 1, parts.sum(axis=1)))
    alone = columns[p_values.min(axis=1) > _LEAST_P_VALUE / (d - 1)].tolist()
    moments = {j: (float((shaped[j] ** 3).mean()), float((shaped[j] ** 4).mean())) for j in alone}
    return [(j, shape_words(third, fourth - 3)) for j, (third, fourth) in moments.items()]


def about_independent(
    moments: StandardMoments, checked: CheckedRows, shapes: dict[int, ColumnShape]
) -> Iterator[Finding]:
    """Yield a finding on independent columns, which take components away from the others."""
    continuous = sorted(shapes)
    values = checked.values[:, moments.columns[continuous]]
    for place, words in independent_columns(values):
        j = continuous[place]
        if not shapes[j].is_other:
            columns = moments.columns_of([j])
            yield found(WARNING, "independent-column", columns, asides=[words])


def shape_finding(
    severity: Severity,
    moments: StandardMoments,
    shapes: Mapping[int, str],
    offers: Mapping[int, str | None],
) -> Finding:
    """Return the finding about features that do not follow the mixture, and what would help."""
    remedy = _families(moments, {j: t for j in shapes if (t := offers.get(j))})
    asides = list(shapes.values())
    return found(severity, "column-shape", moments.columns_of(shapes), (), remedy, asides=asides)


def _families(moments: StandardMoments, transforms: Mapping[int, str]) -> dict[str, Any]:
    """Return the remedy that transforms features."""
    families = {moments.part(j).column: transform for j, transform in transforms.items()}
    return {"families": families} if families else {}


def shape_words(skewness_gap: float, kurtosis_gap: float) -> str:
    """Return the shape of a column in words, by third and fourth moments less the model's.

    >>> shape_words(2.0, 6.0), shape_words(0.0, -1.2), shape_words(0.1, 6.0)
    ('skewed to the right', 'flat', 'heavy-tailed')
    """
    # s² against k: 4 and 6 for an exponential column, 0 and 6 for Student's t with 5 degrees.
    if abs(skewness_gap) > _LEAST_SKEWNESS and skewness_gap**2 > abs(kurtosis_gap) / 6:
        return TO_THE_RIGHT if skewness_gap > 0 else "skewed to the left"
    if kurtosis_gap > 0:
        return HEAVY_TAILED
    return "two peaks" if kurtosis_gap < _TWO_PEAKS else "flat"


# -- logarithms ------------------------------------------------------------------------------------


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

    >>> reaches_far(np.array([1.0, 1.0, 1.0, 2.0, 9.0])), reaches_far(np.arange(1.0, 9.0))
    (True, False)
    """
    offsets = values - values.mean()
    if float((offsets**3).mean()) <= _SKEWED * float(offsets.var()) ** 1.5:
        return False
    low, high = np.quantile(values, [0.01, 0.99])
    return bool(high > _LEAST_RATIO * low)


def offer_from_rows(values: Float, labels: Int, transforms: Collection[str]) -> str | None:
    """The transform after which numbers are least skewed within components (n,), if it helps."""
    before = skewness_within(values, labels)
    sizes = {t: abs(skewness_within(transformed(values, t), labels)) for t in transforms}
    best = min(sizes, key=lambda t: sizes[t] + _LOG1P_PAYS * (t == LOG1P), default=None)
    return best if best is not None and sizes[best] < min(_HELPS * before, _MOST_LEFT) else None


def skewness_within(values: Float, labels: Int) -> float:
    """Mean of the skewness of groups, by their sizes; 0 where all have few rows.

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
    """The transform with which components that differ in one feature only become one; else None."""
    groups = alike_but_for(parameters, feature)
    r, m, n = len(groups), int(groups.max()) + 1, len(values)
    if m == r:
        return None
    own = log_normal(z, parameters.means[:, feature], parameters.variances[:, feature])
    others = joint - own  # without the feature, (r, n)
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
    alike = apart < _ALIKE
    if alike.sum() == len(alike):  # mostly, and SciPy takes long to find that
        return np.arange(len(alike))
    _, groups = connected_components(alike, directed=False)
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
