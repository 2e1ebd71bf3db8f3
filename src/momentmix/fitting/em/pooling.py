"""Many starts into one: pooled components, convex weights, greedy merges by likelihood.

| symbol | name here | shape |
|---|---|---|
| p_k(z): density of pool component k | ``densities`` | (K, n), rows scaled by their maximum |
| max_ω Σ_z log Σ_k ω_k p_k(z) | ``pool_weights`` | (K,) |

Choosing one start keeps what that start missed; the pool keeps what any start found. The weights'
problem is convex, so it has no local optima, and its solution is sparse. Merges keep the first two
moments of a pair; they follow Runnalls' bound on the loss of likelihood, which needs no rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.em.em import joint_of, run_batch, settle
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior

_WEIGHT_STEPS = 60  # of the weights of a pool
_FREE_COST = 1e-4  # nats a row: less than any difference between candidates that matters
_TINY = 1e-300  # densities that are divided by, or whose logarithm is taken, are not 0


def component_densities(features: Float, parameters: Parameters) -> Float:
    """log p_k(z) of each component, weights left out, of shape (K, n)."""
    unweighted = replace(parameters, weights=np.ones(parameters.n_components))
    return joint_of(features, unweighted)


def pool_weights(features: Float, pool: Parameters) -> Parameters:
    """Weights that maximize the likelihood of fixed components; empty ones are dropped."""
    densities = component_densities(features, pool)
    densities = np.exp(densities - densities.max(axis=0))
    n = features.shape[1]
    weights, kept = pool.weights.copy(), np.arange(pool.n_components)
    for step in range(_WEIGHT_STEPS):
        weights *= densities @ (1.0 / np.maximum(weights @ densities, _TINY)) / n
        if step % 10 == 9:
            # Less than a fraction of a row: such a component is on its way to weight 0.
            keep = weights > min(0.3 / n * (step + 1) / _WEIGHT_STEPS, 0.5 / weights.size)
            weights, kept, densities = weights[keep], kept[keep], densities[keep]
    return replace(pool[kept], weights=weights).normalized()


def reduce_pool(
    features: Float, pool: Parameters, n_components: int, prior: VariancePrior
) -> Parameters:
    """Merge down to `n_components`, with a few EM steps half-way so that merged ones settle."""
    for target in (max(n_components, round(1.5 * n_components)), n_components):
        if pool.n_components > target:
            merging = _Merging(pool)
            merging.reduce(target)
            pool = run_batch(features, merging.left[None], prior, 5)[0][0]
    return pool


def merge_copies(pool: Parameters) -> Parameters:
    """Merge copies of the same components."""
    merging = _Merging(pool)
    merging.reduce(1, _FREE_COST)
    return merging.left


def merges_by_bound(p: Parameters, n_merges: int) -> list[tuple[Int, Parameters]]:
    """Return mixtures with one component less, the least Runnalls bound first.

    Each comes with the numbers of the components that it keeps; the merged one is its last.
    """
    merged = []
    for i, k in _Merging(p).cheapest_pairs(n_merges):
        others = np.delete(np.arange(p.n_components), [i, k])
        both = Parameters.concatenate([p[others], _merged_pair(p, i, k)[None]])
        merged.append((others, both.normalized()))
    return merged


def one_less(
    features: Float,
    parameters: Parameters,
    structure: Structure,
    n_steps: int,
    n_merges: int = 6,
    n_threads: int = 1,
    least_gain: float = 0.0,
    target: float | None = None,
) -> Parameters:
    """The best mixture with one component less that EM finds from merged pairs."""
    prior = VariancePrior.of_rows(features.shape[1], parameters.n_components - 1, structure)
    start = Parameters.stack([p for _, p in merges_by_bound(parameters, n_merges)])
    settled, values = settle(features, start, prior, n_steps, n_threads, least_gain, target)
    return settled[int(values.argmax())]


class _Merging:
    """A pool whose components are merged pair by pair, and Runnalls' bound of every pair."""

    def __init__(self, pool: Parameters) -> None:
        self.current = pool.copy()
        self.is_left = np.ones(pool.n_components, bool)
        self.log_volumes = log_volumes(pool.spread, pool.blocks)
        self.bounds = np.array([self._bounds_of(i) for i in range(pool.n_components)])
        self.partner = self.bounds.argmin(axis=1)
        self.least = self.bounds.min(axis=1)

    @property
    def n_left(self) -> int:
        """Number of components that are left."""
        return int(self.is_left.sum())

    @property
    def left(self) -> Parameters:
        """The components that are left."""
        return self.current[self.is_left]

    def reduce(self, n_components: int, most: float = np.inf) -> None:
        """Merge down to `n_components` while a merge costs at most so many nats a row."""
        while self.n_left > n_components and self.least.min() <= most:
            i = int(self.least.argmin())
            self.merge(*sorted((i, int(self.partner[i]))))

    def cheapest_pairs(self, n_pairs: int) -> list[tuple[int, int]]:
        """Pairs of the least bounds, cheapest first."""
        left = np.flatnonzero(self.is_left)
        first, second = (left[x] for x in np.triu_indices(left.size, 1))
        order = np.argsort(self.bounds[first, second], kind="stable")[:n_pairs]
        return [(int(first[a]), int(second[a])) for a in order]

    def merge(self, i: int, k: int) -> None:
        """Merge k into i."""
        p, merged = self.current, _merged_pair(self.current, i, k)
        p[i] = merged
        p.weights[k] = 0.0
        self.is_left[k] = False
        self.log_volumes[i] = log_volumes(merged.spread, p.blocks)
        self.bounds[k], self.bounds[:, k], self.least[k] = np.inf, np.inf, np.inf
        row = self._bounds_of(i)
        self.bounds[i], self.bounds[:, i] = row, row
        closer = row < self.least
        self.partner[closer], self.least[closer] = i, row[closer]
        changed = self.is_left & ((self.partner == i) | (self.partner == k)) & ~closer
        changed[i] = True
        self.partner[changed] = self.bounds[changed].argmin(axis=1)
        self.least[changed] = self.bounds[changed].min(axis=1)

    def _bounds_of(self, i: int) -> Float:
        """½[(ω_i+ω_k) log|Σ_ik| − ω_i log|Σ_i| − ω_k log|Σ_k|] of one i and every k; ∞ for i."""
        p = self.current
        w, both = p.weights, p.weights[i] + p.weights
        share = np.divide(w[i], both, out=np.full_like(both, 0.5), where=both > 0)[:, None]
        gap, all_spread = squared_gaps(p.means[i] - p.means, p.blocks), p.spread
        spread = share * all_spread[i] + (1 - share) * (all_spread + share * gap)
        own = w * self.log_volumes
        bounds = np.asarray(0.5 * (both * log_volumes(spread, p.blocks) - own[i] - own))
        bounds[i], bounds[~self.is_left] = np.inf, np.inf
        return bounds


def _merged_pair(current: Parameters, i: int, k: int) -> Parameters:
    """The one component with the weight and the first two moments of a pair; no component axis."""
    first, second = current[i], current[k]
    weight = first.weights + second.weights
    a = first.weights / weight if weight > 0 else 0.5
    mean = a * first.means + (1 - a) * second.means
    gap = squared_gaps(first.means - second.means, current.blocks)
    spread = a * first.spread + (1 - a) * second.spread + a * (1 - a) * gap
    return replace(first, weights=weight, means=mean).with_spread(spread)


def squared_gaps(gaps: Float, blocks: Blocks) -> Float:
    """Squares and products of gaps (…, d) in the places of variances and covariances."""
    if blocks.is_diagonal:
        return np.asarray(gaps**2)
    j, k = blocks.pairs.T
    return np.concatenate([gaps**2, gaps[..., j] * gaps[..., k]], axis=-1)


def log_volumes(spread: Float, blocks: Blocks) -> Float:
    """Log-determinants of covariances, of shape (…,)."""
    logs = np.log(spread[..., blocks.single_or_law]).sum(axis=-1)
    for _, places in blocks.places:
        logs = logs + np.linalg.slogdet(spread[..., places])[1]
    return np.asarray(logs)
