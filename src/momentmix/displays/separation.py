"""Columns, and pairs of columns, in which the components differ most."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import numeric_columns

_MOST_COMPARED = 8  # columns whose pairs are compared, the best ones
_LEAST_RATIO = 0.05  # of the variance between components over that within


def separation(mixture: Mixture) -> Float:
    """Return the variance between components over that within, summed over levels, by column."""
    found = []
    for number, column in enumerate(mixture.columns):
        if column.levels:
            values = np.stack(list(mixture.level_probabilities(number).values()), axis=1)
            variances = values * (1 - values)
        else:
            values, variances = mixture.means[:, [number]], mixture.variances[:, [number]]
        known = ~np.isnan(values[:, 0])
        weights = mixture.weights[known] / max(mixture.weights[known].sum(), 1e-300)
        values, variances = values[known], variances[known]
        extent = np.abs(values) + np.sqrt(variances)  # squares of large numbers overflow
        scale = float(extent.max(initial=0.0)) or 1.0
        offsets = values / scale - weights @ (values / scale)
        between = float((weights @ offsets**2).sum())
        within = float((weights @ (np.sqrt(variances) / scale) ** 2).sum())
        found.append(between / max(within, np.finfo(float).tiny))
    return np.array(found)


def by_separation(mixture: Mixture) -> list[int]:
    """Return the numbers of all columns, the best separation first."""
    if mixture.n_components == 1:
        return list(range(mixture.n_columns))
    return [int(j) for j in np.argsort(-separation(mixture), kind="stable")]


def best_separating(mixture: Mixture, most: int, most_levels: float = np.inf) -> list[int]:
    """Return at most `most` columns of the best separation, of few levels where there are some."""
    order = by_separation(mixture)
    few = [j for j in order if len(mixture.columns[j].levels) <= most_levels]
    return sorted((few or order)[:most])


def pairs_by_separation(mixture: Mixture, most: int) -> list[tuple[int, int]]:
    """Return pairs of numeric columns over which the components overlap least, the best first."""
    if mixture.n_components == 1:
        return []
    numbers, ratios = set(numeric_columns(mixture)), separation(mixture)
    best = [j for j in by_separation(mixture) if j in numbers][:_MOST_COMPARED]
    # Over columns that hardly differ the components lie one above the other.
    best = [j for place, j in enumerate(best) if place < 2 or ratios[j] > _LEAST_RATIO]
    if len(best) < 2:
        return []
    pairs, chosen = list(combinations(best, 2)), mixture.select(best)
    means, covariances = np.nan_to_num(chosen.means), np.nan_to_num(chosen.covariances)
    overlap = [
        _overlap(mixture.weights, means[:, pair], covariances[:, pair][:, :, pair])
        for pair in map(list, combinations(range(len(best)), 2))
    ]
    return [pairs[k] for k in np.argsort(overlap, kind="stable")[:most]]


def _overlap(weights: Float, means: Float, matrices: Float) -> float:
    """Sum √(w v) times the Bhattacharyya coefficient over pairs of components."""
    unit = np.sqrt(np.maximum(weights @ np.diagonal(matrices, axis1=1, axis2=2), 1e-300))
    means = means / unit
    matrices = matrices / unit[:, None] / unit + 1e-9 * np.eye(2)
    i, k = np.triu_indices(len(weights), 1)
    both, gap = 0.5 * (matrices[i] + matrices[k]), means[i] - means[k]
    logs = np.linalg.slogdet(matrices)[1]
    distance = np.sum(gap * np.linalg.solve(both, gap[..., None])[..., 0], axis=1) / 8
    distance += 0.5 * (np.linalg.slogdet(both)[1] - 0.5 * (logs[i] + logs[k]))
    shares = np.sqrt(weights[i] * weights[k])
    return float(np.sum(shares * np.exp(-distance)))
