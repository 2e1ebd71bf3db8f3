"""Starting points from the rows themselves.

| symbol | name here | shape |
|---|---|---|
| D²-sampled rows (k-means++) | ``seeded_starts`` | (k, r, d) |
| EM step from random responsibilities | ``random_starts`` | (k, r, d) |

Both kinds find what the other misses: k-means++ finds components far from the rest, random
responsibilities find those that differ in spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.mixture.gaussian import m_step, values_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior

LEAST_WEIGHT = 1e-6


def seeded_starts(
    features: Float,
    n_components: int,
    n_starts: int,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> Parameters:
    """k-means++ seeds, rows assigned to the nearest.

    Of four starts, two begin with the spread pooled over the clusters, one with each cluster's own,
    and one finds its seeds in a random few of the features: components that differ in one feature
    only (a yes/no column, say) are lost among the others.
    """
    values = values_of(features, prior.blocks_for(len(features)))
    d = values.shape[0]
    labels = []
    for start in range(n_starts):
        points = values
        if start % 4 == 3:
            points = values[rng.choice(d, size=int(rng.integers(1, max(2, d // 3 + 1))))]
        labels.append(_assign(points, _seeds(points, n_components, rng)))
    return _from_clusters(features, labels, n_components, prior, np.arange(n_starts) % 2)


def _from_clusters(
    features: Float,
    labels: Sequence[NDArray[np.int64]],
    n_components: int,
    prior: VariancePrior,
    own_spread: NDArray[np.int64],
) -> Parameters:
    """Mixtures of clusters of rows; where marked 1 with each cluster's own spread, else pooled."""
    statistics = np.zeros((len(labels), n_components, features.shape[0]))
    for start, nearest in enumerate(labels):
        for i in range(n_components):
            statistics[start, i] = features[:, nearest == i].sum(axis=1)
    p = m_step(statistics, prior)
    d = p.blocks.n_features
    pooled = p.weights[:, None] @ p.spread  # (n_starts, 1, n_spread)
    pooled[..., :d] = np.maximum(pooled[..., :d], prior.floor)
    # Clusters of few rows have no spread of their own: it counts for half from five rows on.
    trust = statistics[..., -1] * own_spread[:, None]
    share = (trust / (trust + 5.0))[..., None]
    spread = share * p.spread + (1 - share) * pooled
    own = p.blocks.with_law  # their laws tell their spread
    spread[..., own] = p.spread[..., own]
    p = p.with_spread(spread)
    # A cluster without rows keeps a weight that EM can raise again.
    return replace(p, weights=np.maximum(p.weights, LEAST_WEIGHT)).normalized()


def start_at(features: Float, means: Float, prior: VariancePrior) -> Parameters:
    """A mixture with these means (r, d); weights and spread from the rows nearest to each."""
    values = values_of(features, prior.blocks_for(len(features)))
    own = np.ones(1, dtype=np.int64)
    found = _from_clusters(features, [_assign(values, means)], len(means), prior, own)[0]
    return replace(found, means=means).completed()


def _seeds(points: Float, n_components: int, rng: np.random.Generator) -> Float:
    n = points.shape[1]
    chosen = [int(rng.integers(n))]
    gaps = ((points - points[:, chosen[0], None]) ** 2).sum(axis=0)
    for _ in range(n_components - 1):
        total = gaps.sum()
        place = int(rng.integers(n))
        if total > 0:
            place = min(int(np.searchsorted(np.cumsum(gaps), rng.uniform() * total)), n - 1)
        chosen.append(place)
        np.minimum(gaps, ((points - points[:, place, None]) ** 2).sum(axis=0), out=gaps)
    return points[:, chosen].T


def _assign(points: Float, seeds: Float) -> NDArray[np.int64]:
    gaps = (seeds**2).sum(axis=1)[:, None] - 2.0 * seeds @ points
    return np.asarray(gaps.argmin(axis=0))


def random_starts(
    features: Float,
    n_components: int,
    n_starts: int,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> Parameters:
    """One M-step from responsibilities drawn at random."""
    statistics = []
    for _ in range(n_starts):
        shares = rng.uniform(size=(n_components, features.shape[1]))
        shares /= shares.sum(axis=0)
        statistics.append(shares @ features.T)
    return m_step(np.array(statistics), prior).normalized()
