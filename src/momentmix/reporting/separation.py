"""Which columns, and which pairs of them, tell the components apart best."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from momentmix._typing import Float
from momentmix.displays.columns import numeric_columns, overall_spread
from momentmix.mixture.mixture import Mixture

_MOST_COMPARED = 8  # columns whose pairs are compared, the best ones


def separation(mixture: Mixture) -> Float:
    """Share of each column's variance that lies between components, of shape (n_columns,).

    Of a column with levels it is the largest of its levels.
    """
    found = np.zeros(mixture.n_columns)
    numbers = numeric_columns(mixture)
    if numbers:
        center, scale = overall_spread(mixture.select(numbers))
        offsets = (mixture.means[:, numbers] - center) / np.maximum(scale, 1e-300)
        found[numbers] = mixture.weights @ np.nan_to_num(offsets) ** 2
    for j, column in enumerate(mixture.columns):
        if column.levels:
            tables = mixture.level_probabilities(j).values()
            found[j] = max(_between(mixture.weights, table) for table in tables)
    return np.nan_to_num(np.minimum(found, 1.0))


def _between(weights: Float, probabilities: Float) -> float:
    """Share of the variance of a yes/no answer between components."""
    known = ~np.isnan(probabilities)
    if not known.any():
        return 0.0
    shares = weights[known] / weights[known].sum()
    mean = float(shares @ probabilities[known])
    variance = mean * (1.0 - mean)
    between = float(shares @ (probabilities[known] - mean) ** 2)
    return between / variance if variance > 0 else 0.0


def by_separation(mixture: Mixture) -> list[int]:
    """Numbers of all columns, those that separate the components best first."""
    if mixture.n_components == 1:
        return list(range(mixture.n_columns))
    return np.argsort(-separation(mixture), kind="stable").tolist()


def pairs_by_separation(mixture: Mixture, most: int) -> list[tuple[int, int]]:
    """Pairs of numeric columns over which the components overlap least, the best first."""
    numbers = set(numeric_columns(mixture))
    best = [j for j in by_separation(mixture) if j in numbers][:_MOST_COMPARED]
    pairs = list(combinations(best, 2))
    if mixture.n_components == 1:
        return pairs[:most]
    overlap = [_overlap(mixture.select(list(pair))) for pair in pairs]
    return [pairs[k] for k in np.argsort(overlap, kind="stable")[:most]]


def _overlap(mixture: Mixture) -> float:
    """Sum over pairs of components of √(w v) times their Bhattacharyya coefficient."""
    means, matrices = np.nan_to_num(mixture.means), np.nan_to_num(mixture.covariances)
    unit = np.sqrt(np.maximum(mixture.weights @ np.diagonal(matrices, axis1=1, axis2=2), 1e-300))
    means = means / unit
    matrices = matrices / unit[:, None] / unit + 1e-9 * np.eye(2)
    total = 0.0
    for i, k in combinations(range(mixture.n_components), 2):
        both = 0.5 * (matrices[i] + matrices[k])
        gap = means[i] - means[k]
        distance = gap @ np.linalg.solve(both, gap) / 8
        logs = [np.linalg.slogdet(m)[1] for m in (both, matrices[i], matrices[k])]
        distance += 0.5 * (logs[0] - 0.5 * (logs[1] + logs[2]))
        total += float(np.sqrt(mixture.weights[i] * mixture.weights[k]) * np.exp(-distance))
    return total
