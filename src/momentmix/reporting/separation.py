"""Which columns, and which pairs of them, tell the components apart best."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from momentmix.displays.marginals import separation
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import numeric_columns

_MOST_COMPARED = 8  # columns whose pairs are compared, the best ones
_LEAST_RATIO = 0.05  # of the variance between components over that within


def by_separation(mixture: Mixture) -> list[int]:
    """Numbers of all columns, those that separate the components best first."""
    if mixture.n_components == 1:
        return list(range(mixture.n_columns))
    return [int(j) for j in np.argsort(-separation(mixture), kind="stable")]


def pairs_by_separation(mixture: Mixture, most: int) -> list[tuple[int, int]]:
    """Pairs of numeric columns over which the components overlap least, the best first."""
    if mixture.n_components == 1:
        return []
    numbers, ratios = set(numeric_columns(mixture)), separation(mixture)
    best = [j for j in by_separation(mixture) if j in numbers][:_MOST_COMPARED]
    # Over columns that hardly differ the components lie one above the other.
    best = [j for place, j in enumerate(best) if place < 2 or ratios[j] > _LEAST_RATIO]
    pairs = list(combinations(best, 2))
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
