"""The background: a fixed wide density for rows that belong to no group.

| symbol | name here |
|---|---|
| f: density of the groups, fitted without the rows far from all others | ``groups`` |
| b = Σ_k v_k N(·; 0, s_k² D), s_k = … 1/2, 1, 2, 4 …, D diagonal | `wide_density` |
| π: share of the rows that belong to no group, maximizes Σ log((1 − π) f + π b) | `share_of` |

D has the spread of the far rows, or that of all others where that is larger. The shares v_k are
those of the far rows, so that b is as heavy in its tails as they are, and one scale more has the
chance that the next row lies farther than all of them. In columns that are no numbers b is the
distribution of all rows. Only π is counted as a parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import to_numpy
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.checked_rows import joint_of
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.density import responsibilities
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema

_NORMAL_MEDIAN = 0.674  # of the distance from the mean, in deviations
_STEP = 2.0  # between scales: finer ones gain less than 0.1 nats a far row
_MOST_SCALES = 24  # that are tried
_LEAST_SHARE = 0.02  # of a scale that is kept: each takes time in every density
_BEYOND = 4.0  # times the widest scale of the far rows, for rows that lie farther
_STEPS = 100  # of EM for the shares, which are few
_SHARES = np.geomspace(1e-7, 0.5, 80)  # π is found between neighbors, within 1 % of itself
_NOTHING = 1e-12  # of the density of the groups: the background has no part in such rows


def wide_density(far: Float, moments: StandardMoments, groups: Parameters) -> Parameters:
    """The background in standardized features, from the far rows (n, d), which may be none.

    It has the blocks of `groups`, without correlations.
    """
    z, d, blocks = (far - moments.shift) / moments.scale, moments.n_features, groups.blocks
    middle = np.median(np.abs(z), axis=0) / _NORMAL_MEDIAN if len(z) else np.ones(d)
    base = np.where(moments.constant, 1.0, np.maximum(middle, 1.0))
    top = float((np.abs(z) / base).max(initial=1.0))
    n_scales = int(np.clip(np.ceil(np.log(top) / np.log(_STEP)) + 2, 2, _MOST_SCALES))
    scales = np.geomspace(1.0 / _STEP, max(top, _STEP), n_scales)
    scales = np.append(scales, _BEYOND * scales[-1])
    b = _of_scales(scales, base, moments, groups)
    prior = 0.5 ** np.arange(1, len(scales) + 1)
    shares, joint = prior / prior.sum(), joint_of(z, b) if len(z) else None
    for _ in range(_STEPS if joint is not None else 0):
        counts = responsibilities(joint + np.log(shares)[:, None])[0].sum(axis=1)
        shares = (counts + prior) / (counts + prior).sum()
    kept = np.flatnonzero(shares >= _LEAST_SHARE)
    kept, shares = np.union1d(kept, [len(scales) - 1]), shares.copy()
    shares[-1] = max(shares[-1], 0.5 / (len(z) + 1))
    return Parameters(
        shares[kept] / shares[kept].sum(), b[kept].means, b[kept].variances, None, blocks
    )


def _of_scales(
    scales: Float, base: Float, moments: StandardMoments, groups: Parameters
) -> Parameters:
    """Components of equal weight 1 about the mean of all rows, one for each scale."""
    d, k, blocks = moments.n_features, len(scales), groups.blocks
    floors = np.where(moments.constant, groups.variances.max(axis=0), 1.0)
    means = np.tile(groups.weights @ groups.means, (k, 1))
    p = Parameters(np.ones(k), means, np.tile(floors, (k, 1)), None, blocks).completed()
    variances, widths = p.variances.copy(), (scales[:, None] * base) ** 2
    is_plain = np.isin(np.arange(d), blocks.gaussian)
    variances[:, is_plain] *= widths[:, is_plain]
    for part in blocks.laws:
        features = list(part.features)
        means[:, features], variances[:, features] = part.widened(
            p.means[:, features], p.variances[:, features], widths[:, features[0]]
        )
    return Parameters(np.ones(k), means, variances, None, blocks)


def mean_log_prob(
    rows: Rows, mixture: Mixture, schema: Schema | None, context: FitContext
) -> float:
    """Mean log-density of the rows, features of a schema, by their weights."""

    def sums(block: Any, counts: Float | None = None) -> tuple[float, float]:
        logs = to_numpy(mixture.log_prob_of_features(block, schema))
        weights = np.ones(len(logs)) if counts is None else np.asarray(counts)
        return float(weights @ logs), float(weights.sum())

    total, n_rows = rows.sum_blocks(sums, context.n_threads)
    return float(total / n_rows)


def share_of(
    rows: Rows, groups: Mixture, background: Mixture, schema: Schema | None, context: FitContext
) -> float:
    """The share of the background among the rows, in one pass."""

    def sums(block: Any, counts: Float | None = None) -> tuple[Float, float]:
        logs = [x.log_prob_of_features(block, schema) for x in (groups, background)]
        with np.errstate(over="ignore", invalid="ignore"):
            ratios = np.exp(np.minimum(to_numpy(logs[1] - logs[0]), 700.0))
        ratios = np.nan_to_num(ratios, nan=0.0)
        weights = np.ones(len(ratios)) if counts is None else np.asarray(counts)
        near = ratios > _NOTHING
        gain = ratios[near] - 1.0  # slopes of log((1 − π) f + π b) by π
        slopes = (weights[near] * gain / (1.0 + _SHARES[:, None] * gain)).sum(axis=1)
        rest = float(weights[~near].sum())
        return slopes - rest / (1.0 - _SHARES), float(weights.sum())

    slopes, _ = rows.sum_blocks(sums, context.n_threads)
    after = int(np.argmax(slopes < 0)) if (slopes < 0).any() else len(slopes) - 1
    if after == 0:
        return float(_SHARES[0])
    low, high = slopes[after - 1], slopes[after]
    part = low / (low - high) if low > high else 1.0
    return float(_SHARES[after - 1] + part * (_SHARES[after] - _SHARES[after - 1]))
