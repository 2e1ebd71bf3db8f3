"""Repair of missed and doubled components: merge a pair, add one from the pool.

| symbol | name here | shape |
|---|---|---|
| f(z): density of the current mixture | ``total`` | (n,) |
| max_ε mean log((1−ε) f + ε p_k) − mean log f | ``_gains_of_adding`` | (K,) |

A mixture at a poor local optimum mostly has one component split in two and another missing. Each
trial merges one of the cheapest pairs and adds one of the components that raise the likelihood
most, from the pool or around the rows that the mixture explains worst; a few EM steps decide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.em.em import objectives, run_batch
from momentmix.fitting.em.pooling import cheapest_merges, component_densities, pool_components
from momentmix.fitting.em.starts import seeded_starts
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior

_SHARES = (0.0005, 0.002, 0.01, 0.05, 0.15)
_LEAST_GAIN = 1e-4  # nats a row that a swap has to bring
_STEPS = 10  # of EM that decide on a swap
_FRESH = 8  # components made of the rows that the mixture explains worst


def repair(
    features: Float,
    current: Parameters,
    pool: Parameters,
    prior: VariancePrior,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> tuple[Parameters, int]:
    """Swap components while it pays, at most as many as there are; the number of swaps too."""
    if current.n_components < 2:
        return current, 0
    swaps = 0
    reference, value = _settled(features, [current], prior, n_threads)
    while swaps < current.n_components:
        trials = _trials(features, reference, pool, prior, rng)
        if not trials:
            break
        best, new_value = _settled(features, trials, prior, n_threads)
        if new_value < value + _LEAST_GAIN:
            break
        reference, value = best, new_value
        swaps += 1
    return (reference, swaps) if swaps else (current, 0)


def _settled(
    features: Float, options: list[Parameters], prior: VariancePrior, n_threads: int
) -> tuple[Parameters, float]:
    """The best of several mixtures after a few EM steps, and its objective."""
    batch, _ = run_batch(features, Parameters.stack(options), prior, _STEPS, n_threads)
    values = objectives(features, batch, prior)
    best = int(values.argmax())
    return batch[best], float(values[best])


def _trials(
    features: Float,
    current: Parameters,
    pool: Parameters,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> list[Parameters]:
    merged = cheapest_merges(features, current, 3)
    logs = component_densities(features, current)
    top = logs.max(axis=0)
    total = np.maximum(current.weights @ np.exp(logs - top), 1e-300)
    fresh = _of_worst_rows(features, np.log(total) + top, current, prior, rng)
    pool = pool_components([pool, fresh])
    gains, shares = _gains_of_adding(features, pool, total, top)
    trials = []
    for k in _distinct(gains, pool, 3):
        for base in merged:
            lighter = replace(base, weights=(1 - shares[k]) * base.weights)
            added = replace(pool[[k]], weights=shares[[k]])
            trials.append(Parameters.concatenate([lighter, added]))
    return trials


def _of_worst_rows(
    features: Float,
    log_density: Float,
    current: Parameters,
    prior: VariancePrior,
    rng: np.random.Generator,
) -> Parameters:
    """Components around seeds among the rows of least density: what every start has missed."""
    n_worst = max(2 * _FRESH, features.shape[1] // 50)
    worst = features[:, np.argsort(log_density)[:n_worst]]
    # The second start has each cluster's own spread.
    start = seeded_starts(worst, min(_FRESH, worst.shape[1]), 2, prior, rng)[1]
    pooled = current.weights @ current.spread
    count = (start.weights * n_worst)[:, None]
    # As if two rows of the mixture's own spread were in each cluster: most hold few rows.
    spread = (count * start.spread + 2.0 * pooled) / (count + 2.0)
    own = start.blocks.with_law  # their laws tell their spread
    spread[:, own] = start.spread[:, own]
    raised: Parameters = prior.structure.raised(start.with_spread(spread))
    return raised


def _gains_of_adding(
    features: Float, pool: Parameters, total: Float, top: Float
) -> tuple[Float, Float]:
    ratio = np.exp(np.minimum(component_densities(features, pool) - top, 600.0)) / total
    values = np.array([np.log1p(share * (ratio - 1.0)).mean(axis=1) for share in _SHARES])
    best = values.argmax(axis=0)
    return values.max(axis=0), np.asarray(_SHARES)[best]


def _distinct(gains: Float, pool: Parameters, n_choices: int) -> list[int]:
    """Components of the largest positive gains that are not copies of one another."""
    chosen: list[int] = []
    for k in np.argsort(-gains):
        if gains[k] <= 0 or len(chosen) == n_choices:
            break
        gaps = [
            ((pool.means[k] - pool.means[c]) ** 2 / (pool.variances[k] + pool.variances[c])).mean()
            for c in chosen
        ]
        if all(gap > 0.05 for gap in gaps):
            chosen.append(int(k))
    return chosen
