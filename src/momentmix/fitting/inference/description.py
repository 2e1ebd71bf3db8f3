"""How well a mixture describes rows that it was not fitted to.

| symbol | name here |
|---|---|
| Δ(x): share of the rows up to x, less that of drawn rows | |
| V = max Δ − min Δ: largest difference in the share of an interval (Kuiper's distance) | `_apart` |

Half of the rows are compared with rows drawn from the mixture that was fitted to the other half, in
each column and along the direction in which the other half varies most: a mixture that misses
groups, or the dependence of yes/no answers, may be right in every column. Kolmogorov's distance,
max |Δ|, is 0.16 for one Gaussian in place of two that are 6 deviations apart, and as much for one
skewed column of groups that are right; V is 0.32 and 0.2. The differences of all halves are pooled
before the largest is taken, and what chance gives is subtracted: V does not depend on the number of
rows. Cells that are missing at random are drawn given those seen, in both kinds of rows: their own
distribution is not that of the cells which are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log, nan
from typing import Literal

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.inference.completed_rows import filled
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.gaussian import sample, values_of
from momentmix.mixture.parameters import Parameters

Level = Literal["exact", "close", "rough", "poor", "unknown"]

# Distances. One cloud of logistic shape has 0.06, of t(4), uniform, gamma or skewed shape 0.09 to
# 0.21; several such clouds that are apart have 0.03 to 0.12. The three wines and the two kinds of
# breast tumors, whose columns are skewed, have 0.18 to 0.28. One Gaussian in place of two has 0.26,
# 0.32 and 0.39 where they are 5, 6 and 8 deviations apart, and in place of a lognormal column 0.4
# (σ = 1) and 0.6 (σ = 1.5); one class in place of two with answers of 90 % or 10 % yes has 0.4.
_CLOSE, _ROUGH = 0.1, 0.3
# Effect sizes, which order fits of one table but hardly tables: 0.08 to 0.2 for components of
# uniform or logistic shape, 0.26 and more for one Gaussian in place of two, 0.1 to 0.8 for t(4).
_CLOSE_EFFECT, _ROUGH_EFFECT = 0.05, 0.25
# n V² of an exact mixture on average, and what log d adds for the largest of d columns: one
# component, 1 to 20 columns, 150 to 3,000 rows. Kuiper's law without a fit has π²/6 = 1.6.
_BY_CHANCE, _BY_LOG = 1.1, 0.45
# Squared distance, in units of chance: none of 305 columns of 40 exact mixtures had it.
_BEYOND = 4.0
_NARROW = 1e-3  # variance of a component, where that of all rows is 1
_DOUBT = 3.0  # times what chance gives: a test without power does not make a poor mixture exact
_ROWS = 8000  # that are compared, of all halves, and that are drawn: distances to about 0.01
_PLACES = 400  # along a column, where the shares are compared: to 1/400
_DIGITS = 9  # of yes/no answers and their sums, which are equal up to rounding


@dataclass(frozen=True)
class Description:
    """How close a mixture is to the distribution of the rows.

    A distance is the largest difference, over all intervals of values, between the share of the
    rows in the interval and its probability: 0 to 1. It is measured on rows that fits of half of
    the rows have not seen, less what chance gives, so that it does not depend on the number of
    rows.

    Attributes
    ----------
    level : {"exact", "close", "rough", "poor", "unknown"}
        "exact": the test does not reject the mixture, and it is not poor beyond doubt. Else by the
        distance: "close" up to 0.1, "rough" up to 0.3, "poor" above; without rows by the effect
        size. "unknown": there are neither rows nor a test, or fewer than 13 to 30 rows.
    distance : float
        The largest of the distances in the columns and along the direction in which the rows vary
        most; NaN where it is unknown.
    columns : mapping of str or int to float
        Distance between the fitted and the observed distribution of each column, by name.
    misfits : tuple of str or int
        Columns whose distance is beyond chance; a file does not hold them.
    """

    level: Level = "unknown"
    distance: float = nan
    columns: Mapping[str | int, float] = field(default_factory=dict)
    misfits: tuple[str | int, ...] = field(default=(), compare=False)


def describe(
    unseen: Sequence[tuple[Parameters, Float]], moments: StandardMoments, rejected: bool | None
) -> Description:
    """Compare mixtures of halves with features of rows that they have not seen, (n_statistics, n).

    The two halves of a split follow each other. `rejected`: whether the test rejects the mixture
    of all rows; None where nothing could be tested.
    """
    size, rng = _ROWS // len(unseen), np.random.default_rng(0)  # the same for every seed
    # Of columns with gaps at random the values.
    left_out = [law.features[-1] for law in moments.laws if law.at_random]
    used = np.delete(np.arange(moments.n_features), left_out)
    if not used.size:
        return Description()
    seen = list[Float]()
    for p, features in unseen:
        values = values_of(features, p.blocks)
        some = values[:, :: -(-values.shape[1] // size)]  # from all over the rows
        seen.append(filled(p, some, rng)[used])
    drawn = [filled(p, _draw(p, size, moments, rng), rng)[used] for p, _ in unseen]
    directions = [_widest(seen[k ^ 1]) for k in range(len(seen))]
    directions = [v if v @ directions[0] >= 0 else -v for v in directions]
    along = [
        np.concatenate([v @ x for v, x in zip(directions, parts, strict=True)])
        for parts in (seen, drawn)
    ]
    rows, others = np.hstack(seen), np.hstack(drawn)
    n, d = 2 * rows.shape[1] / len(seen), len(rows)
    noise = (_BY_CHANCE + _BY_LOG * log(d)) * (1 / n + 1 / others.shape[1])
    pairs = [*zip(rows, others, strict=True), (along[0].round(_DIGITS), along[1])]
    apart = [max(_apart(own, other) ** 2 - noise, 0.0) ** 0.5 for own, other in pairs]
    columns: dict[str | int, float] = {}
    for j, own in zip(used.tolist(), apart, strict=False):
        column = moments.part(j).column
        columns[column] = max(columns.get(column, 0.0), own)
    distance, limit = max(apart), _ROUGH**2
    # A component near the floor is wider than its rows, which is no matter of the column's shape.
    low = np.min([p.variances.min(axis=0) for p, _ in unseen], axis=0) < _NARROW
    floored = {moments.part(j).column for j in np.flatnonzero(low).tolist()}
    misfits = tuple(x for x in columns if columns[x] ** 2 > _BEYOND * noise and x not in floored)
    level = _level(distance, _CLOSE, _ROUGH) if noise < limit else "unknown"
    if rejected is False and distance**2 <= limit + _DOUBT * noise:
        level = "exact"
    return Description(level, distance, columns, misfits)


def described_by_effect(test: OverIdentification) -> Description:
    """Return the level by the effect size of the test, where there are no rows."""
    if test.is_rejected is None:
        return Description()
    level = _level(test.effect_size, _CLOSE_EFFECT, _ROUGH_EFFECT)
    return Description(level if test.is_rejected else "exact")


def _level(size: float, close: float, rough: float) -> Level:
    return "close" if size <= close else "rough" if size <= rough else "poor"


def _draw(p: Parameters, n: int, moments: StandardMoments, rng: np.random.Generator) -> Float:
    """Features (d, n) of rows drawn from a mixture; joined values only where they are seen."""
    drawn = sample(p, n, rng)[0].T
    for law in moments.laws:
        if law.value_feature is not None:
            value, seen = law.features
            drawn[value, drawn[seen] < law.observed_middle] = law.missing_features[0]
    return drawn


def _widest(values: Float) -> Float:
    """The direction in which features (d, n) vary most, of length 1."""
    if values.shape[1] < len(values):  # the covariance of many columns takes longer
        centered = values - values.mean(axis=1, keepdims=True)
        return np.asarray(np.linalg.svd(centered, full_matrices=False)[0][:, 0])
    return np.asarray(np.linalg.eigh(np.cov(values, bias=True).reshape(len(values), -1))[1][:, -1])


def _apart(values: Float, drawn: Float) -> float:
    """Largest difference in the share of an interval; ends are half-way between values."""
    values, drawn = np.sort(values), np.sort(drawn)
    ends = np.flatnonzero(np.diff(values))  # the last of equal values
    ends = ends[:: -(-max(ends.size, 1) // _PLACES)]
    between = (values[ends] + values[ends + 1]) / 2
    gaps = (ends + 1) / values.size - np.searchsorted(drawn, between) / drawn.size
    return float(gaps.max(initial=0.0) - gaps.min(initial=0.0))
