"""Many starts into one: pooled components, convex weights, greedy merges by likelihood.

| symbol | name here | shape |
|---|---|---|
| p_k(z): density of pool component k | ``densities`` | (K, n), rows scaled by their maximum |
| max_ω Σ_z log Σ_k ω_k p_k(z) | ``pool_weights`` | (K,) |
| mean log (f − ω_i p_i − ω_k p_k + ω_ik p_ik) / f | cost of a merge | scalar |

Choosing one start keeps what that start missed; the pool keeps what any start found. The weights'
problem is convex, so it has no local optima, and its solution is sparse. Merges keep the first two
moments of a pair. They are short-listed by Runnalls' bound on the loss of likelihood, which needs
no rows, and decided on the rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.em.em import run_batch
from momentmix.mixture.density import joint_densities
from momentmix.mixture.gaussian import coefficients
from momentmix.mixture.parameters import Parameters

_SHORT_LIST = 12  # pairs that are priced on the rows; the bound orders them well enough
_TINY = 1e-300  # densities that are divided by, or whose logarithm is taken, are not 0


def pool_components(parts: list[Parameters]) -> Parameters:
    """All components of several mixtures side by side, weights shared out evenly."""
    return Parameters.concatenate(parts).normalized()


def component_densities(features: Float, parameters: Parameters) -> Float:
    """log p_k(z) of each component, weights left out, of shape (K, n)."""
    unweighted = replace(parameters, weights=np.ones(parameters.n_components))
    return np.asarray(joint_densities(coefficients(unweighted), features))


def pool_weights(features: Float, pool: Parameters, n_steps: int = 60) -> Parameters:
    """Weights that maximize the likelihood of fixed components; empty ones are dropped."""
    densities = component_densities(features, pool)
    densities -= densities.max(axis=0)
    np.exp(densities, out=densities)
    n = features.shape[1]
    weights, kept = pool.weights.copy(), np.arange(pool.n_components)
    for step in range(n_steps):
        weights *= densities @ (1.0 / np.maximum(weights @ densities, _TINY)) / n
        if step % 10 == 9:
            # Less than a fraction of a row: such a component is on its way to weight 0.
            keep = weights > min(0.3 / n * (step + 1) / n_steps, 0.5 / weights.size)
            weights, kept, densities = weights[keep], kept[keep], densities[keep]
    return replace(pool[kept], weights=weights).normalized()


def reduce_pool(
    features: Float, pool: Parameters, n_components: int, floor: Float, n_steps: int = 5
) -> Parameters:
    """Merge down to `n_components`, with a few EM steps half-way so that merged ones settle."""
    for target in (max(n_components, round(1.5 * n_components)), n_components):
        if pool.n_components > target:
            pool = merge_components(features, pool, target)
            pool = run_batch(features, pool[None], floor, n_steps)[0][0]
    return pool


def merge_copies(pool: Parameters, n_components: int = 1, free_cost: float = 1e-4) -> Parameters:
    """Merge pairs while Runnalls' bound says that it costs less than `free_cost` nats a row.

    The rows are not needed for that; most of a pool are copies of the same components.
    """
    current, bound = pool, _bounds(pool)
    while current.n_components > n_components:
        i, k = (int(x) for x in np.unravel_index(int(bound.argmin()), bound.shape))
        if bound[i, k] > free_cost:
            break
        current, bound = _merge(current, bound, i, k)
    return current


def merge_components(features: Float, pool: Parameters, n_components: int) -> Parameters:
    """Greedy moment-preserving merges, the least loss of likelihood first."""
    current = merge_copies(pool, n_components)
    bound = _bounds(current)
    logs = component_densities(features, current)
    top = logs.max(axis=0)
    densities = np.exp(logs - top)
    while current.n_components > n_components:
        pairs, gains, columns = _price(features, current, bound, densities, top)
        best = int(gains.argmax())
        i, k = pairs[best]
        densities[i] = columns[best]
        densities = np.delete(densities, k, axis=0)
        current, bound = _merge(current, bound, i, k)
    return current


def _price(
    features: Float, current: Parameters, bound: Float, densities: Float, top: Float
) -> tuple[list[tuple[int, int]], Float, Float]:
    """Short-listed pairs, the mean gain of log-likelihood of each merge, and merged densities."""
    n_pairs = current.n_components * (current.n_components - 1) // 2
    order = np.argsort(bound, axis=None)[: min(_SHORT_LIST, n_pairs)]
    places = zip(*np.unravel_index(order, bound.shape), strict=True)
    pairs = [(int(i), int(k)) for i, k in places]
    options = Parameters.stack([_merged_pair(current, i, k) for i, k in pairs])
    columns = np.exp(np.minimum(component_densities(features, options) - top, 600.0))
    total = np.maximum(current.weights @ densities, _TINY)
    gains = np.empty(len(pairs))
    for a, (i, k) in enumerate(pairs):
        lost = current.weights[i] * densities[i] + current.weights[k] * densities[k]
        changed = np.maximum(total - lost, 0.0) + options.weights[a] * columns[a]
        gains[a] = (np.log(np.maximum(changed, _TINY)) - np.log(total)).mean()
    return pairs, gains, columns


def cheapest_merges(features: Float, current: Parameters, n_merges: int) -> list[Parameters]:
    """The mixtures with one component less that lose the least likelihood, best first."""
    bound = _bounds(current)
    logs = component_densities(features, current)
    top = logs.max(axis=0)
    pairs, gains, _ = _price(features, current, bound, np.exp(logs - top), top)
    order = np.argsort(-gains)[:n_merges]
    return [_merge(current, bound, *pairs[int(a)])[0] for a in order]


def _bounds(current: Parameters) -> Float:
    """Runnalls' bound of every pair i < k; ∞ elsewhere."""
    r = current.n_components
    bound = np.array([_bounds_of_one(current, i) for i in range(r)])
    bound[np.tril_indices(r)] = np.inf
    return bound


def _merge(current: Parameters, bound: Float, i: int, k: int) -> tuple[Parameters, Float]:
    """The mixture with i and k merged (i < k), and its table of bounds."""
    new = Parameters.concatenate(
        [current[:i], _merged_pair(current, i, k)[None], current[i + 1 : k], current[k + 1 :]]
    )
    bound = np.delete(np.delete(bound, k, axis=0), k, axis=1)
    row = _bounds_of_one(new, i)
    bound[i, i + 1 :], bound[:i, i] = row[i + 1 :], row[:i]
    return new, bound


def _bounds_of_one(current: Parameters, i: int) -> Float:
    """½[(ω_i+ω_k) log|Σ_ik| − ω_i log|Σ_i| − ω_k log|Σ_k|] for one i and every k."""
    w, means, variances = current.weights, current.means, current.variances
    both = w[i] + w
    share = np.divide(w[i], both, out=np.full_like(both, 0.5), where=both > 0)[:, None]
    gap = (means[i] - means) ** 2
    spread = share * variances[i] + (1 - share) * (variances + share * gap)
    own = w * np.log(variances).sum(axis=1)
    return np.asarray(0.5 * (both * np.log(spread).sum(axis=1) - own[i] - own))


def _merged_pair(current: Parameters, i: int, k: int) -> Parameters:
    """The one component with the weight and the first two moments of a pair; no component axis."""
    first, second = current[i], current[k]
    weight = first.weights + second.weights
    a = first.weights / weight if weight > 0 else 0.5
    mean = a * first.means + (1 - a) * second.means
    gap = (first.means - second.means) ** 2
    variance = a * first.variances + (1 - a) * second.variances + a * (1 - a) * gap
    return Parameters(weight, mean, variance)
