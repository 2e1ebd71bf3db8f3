"""Many starts into one: pooled components, convex weights, greedy merges by likelihood.

| symbol | name here | shape |
|---|---|---|
| p_k(z): density of pool component k | ``densities`` | (K, n), rows scaled by their maximum |
| max_ω Σ_z log Σ_k ω_k p_k(z) | ``pool_weights`` | (K,) |
| ½[(ω_i+ω_k) log|Σ_ik| − ω_i log|Σ_i| − ω_k log|Σ_k|] | `_bounds` | (K,) of one i |

Choosing one start keeps what that start missed; the pool keeps what any start found. The weights'
problem is convex, so it has no local optima, and its solution is sparse. Merges keep the first two
moments of a pair; they follow Runnalls' bound on the loss of likelihood, which needs no rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.em.em import joint_of, run_batch, settle
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior

_WEIGHT_STEPS = 60  # of the weights of a pool
_FREE_COST = 1e-4  # nats a row: less than any difference between candidates that matters
_TINY = 1e-300  # densities that are divided by are not 0


def pool_weights(features: Float, pool: Parameters) -> Parameters:
    """Weights that maximize the likelihood of fixed components; empty ones are dropped."""
    unweighted = replace(pool, weights=np.ones(pool.n_components))
    densities = joint_of(features, unweighted)
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
            pool = run_batch(features, merged_down(pool, target)[None], prior, 5)[0][0]
    return pool


def merge_copies(pool: Parameters) -> Parameters:
    """Merge copies of the same components."""
    return merged_down(pool, 1, _FREE_COST)


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
    start = Parameters.stack(merges_by_bound(parameters, n_merges))
    settled, values = settle(features, start, prior, n_steps, n_threads, least_gain, target)
    return settled[int(values.argmax())]


# -- merges of pairs ------------------------------------------------------------------------------


def merges_by_bound(p: Parameters, n_merges: int) -> list[Parameters]:
    """Mixtures with one component less, of the least bounds; the merged component is the last."""
    first, second = np.triu_indices(p.n_components, 1)
    volumes = log_volumes(p.spread, p.blocks)
    bounds = np.array([_bounds(p, i, volumes) for i in range(p.n_components)])[first, second]
    order = np.argsort(bounds, kind="stable")[:n_merges]
    return [_merged(p, int(first[a]), int(second[a])).normalized() for a in order]


def merged_down(p: Parameters, n_components: int, most: float = np.inf) -> Parameters:
    """Merge down to `n_components` while a merge costs at most so many nats a row."""
    volumes = log_volumes(p.spread, p.blocks)
    bounds = np.array([_bounds(p, i, volumes) for i in range(p.n_components)])
    while p.n_components > n_components and bounds.min() <= most:
        i, k = divmod(int(bounds.argmin()), p.n_components)
        others = np.delete(np.arange(p.n_components), [i, k])
        p = _merged(p, i, k)
        volumes = np.append(volumes[others], log_volumes(p.spread[-1], p.blocks))
        bounds = np.pad(bounds[np.ix_(others, others)], (0, 1))
        bounds[-1] = bounds[:, -1] = _bounds(p, p.n_components - 1, volumes)
    return p


def _merged(p: Parameters, i: int, k: int) -> Parameters:
    """The mixture with two components made one of their weight and first two moments, the last."""
    first, second, others = p[i], p[k], np.delete(np.arange(p.n_components), [i, k])
    weight = first.weights + second.weights
    a = first.weights / weight if weight > 0 else 0.5
    offset = squares_and_products(first.means - second.means, p.blocks)
    pair = replace(
        first, weights=weight, means=a * first.means + (1 - a) * second.means
    ).with_spread(a * first.spread + (1 - a) * second.spread + a * (1 - a) * offset)
    return Parameters.concatenate([p[others], pair[None]])


def _bounds(p: Parameters, i: int, volumes: Float) -> Float:
    """Runnalls' bounds of component i and every other one; ∞ for itself."""
    w, spread, both = p.weights, p.spread, p.weights[i] + p.weights
    a = np.divide(w[i], both, out=np.full_like(both, 0.5), where=both > 0)[:, None]
    offset = squares_and_products(p.means[i] - p.means, p.blocks)
    merged = a * spread[i] + (1 - a) * (spread + a * offset)
    alone = w * volumes
    bounds = np.asarray(0.5 * (both * log_volumes(merged, p.blocks) - alone[i] - alone))
    bounds[i] = np.inf
    return bounds


def squares_and_products(values: Float, blocks: Blocks) -> Float:
    """Squares and products of values (…, d) in the places of variances and covariances."""
    j, k = blocks.pairs.T
    return np.concatenate([values**2, values[..., j] * values[..., k]], axis=-1)


def log_volumes(spread: Float, blocks: Blocks) -> Float:
    """Log-determinants of covariances, of shape (…,)."""
    logs = np.log(spread[..., blocks.single_or_law]).sum(axis=-1)
    for _, places in blocks.places:
        logs = logs + np.linalg.slogdet(spread[..., places])[1]
    return np.asarray(logs)
