"""Expectation–maximization: one pass over all rows, and runs of many mixtures in memory.

The statistics are sums over rows, so passes are divided into blocks and threads. Each block's sums
are added in the order of the blocks, which makes the bits independent of the number of threads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.density import TILE_ENTRIES, Density, mean_log_densities, statistics_of
from momentmix.mixture.gaussian import coefficients, m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.native import code
from momentmix.parallel import map_in_order
from momentmix.rows.protocol import Rows

_ROUND = 5  # EM steps between looks at the gains
_ROUNDS_AHEAD = 20.0  # a mixture that needs more rounds like the last does not catch up


class Pass(NamedTuple):
    """Sums of one pass: statistics (r, n_statistics), total log-likelihood, number of rows."""

    statistics: Float
    log_likelihood: float
    n_rows: int


def em_pass(
    rows: Rows, moments: StandardMoments, parameters: Parameters, n_threads: int = 1
) -> Pass:
    """One pass over all rows: statistics and log-likelihood of standardized features."""
    density = Density(
        coefficients(parameters), moments.shift, 1.0 / moments.scale, moments.columns,
        parameters.blocks,
    )  # fmt: skip
    return Pass(*rows.sum_blocks(density.em_sums, n_threads))


def run_batch(
    features: Float, start: Parameters, prior: VariancePrior, n_steps: int, n_threads: int = 1
) -> tuple[Parameters, Float]:
    """EM for a batch on rows in memory; `objectives` before the last step, of shape (k,).

    Mixtures are run on threads. Those of a thread share the reading of the rows, and nothing else:
    the bits do not depend on the number of threads. Without compiled code small ones share their
    matrix products too, and which of them do does not depend on it either.

    Parameters
    ----------
    features : array of shape (n_statistics, n)
    start : Parameters of k mixtures
    prior : VariancePrior
    """
    k, r = start.weights.shape
    n_groups = min(k, n_threads)
    blocks = start.blocks
    if code is None:
        # Mixtures share a product until its tile of densities is as wide as the cache allows.
        n_groups = int(np.clip(k * r * features.shape[1] // TILE_ENTRIES, 1, k))
    edges = np.linspace(0, k, n_groups + 1).astype(int)

    def run(group: Parameters) -> tuple[Parameters, Float]:
        before = _steps(features, group, prior, n_steps - 1)
        statistics, mean_log = statistics_of(coefficients(before), features, blocks)
        return m_step(statistics, prior), mean_log + prior.log_density(before) / features.shape[1]

    groups = [start[a:b] for a, b in pairwise(edges)]
    results = list(map_in_order(run, groups, min(n_threads, n_groups)))
    batch = Parameters.concatenate([group for group, _ in results])
    return batch, np.concatenate([values for _, values in results])


def _steps(features: Float, batch: Parameters, prior: VariancePrior, n_steps: int) -> Parameters:
    """EM steps of a batch of mixtures."""
    if code is None or not batch.blocks.is_diagonal:
        for _ in range(n_steps):
            batch = m_step(statistics_of(coefficients(batch), features, batch.blocks)[0], prior)
        return batch
    weights, means, variances = (x.copy() for x in (batch.weights, batch.means, batch.variances))
    floor = np.ascontiguousarray(np.broadcast_to(prior.floor, means.shape[-1:]), dtype=np.float64)
    code.em_steps(
        features, n_steps, weights.shape[-1], prior.scale, prior.added_squares, floor,
        weights, means, variances,
    )  # fmt: skip
    return Parameters(weights, means, variances)


def settle(
    features: Float,
    start: Parameters,
    prior: VariancePrior,
    max_steps: int,
    n_threads: int = 1,
    least_gain: float = 5e-5,
    target: float | None = None,
) -> tuple[Parameters, Float]:
    """EM of a batch in rounds of five steps; the parameters and their last objectives, (k,).

    Mixtures that have come to rest take no further part: a round gains less than `least_gain` nats
    a row. Nor do those that cannot catch up with the best, or with `target`; −∞ keeps them all.
    """
    settled = [start[i] for i in range(len(start.weights))]
    active, last = np.arange(len(settled)), np.full(len(settled), -np.inf)
    for done in range(0, max_steps, _ROUND):
        n_steps = min(_ROUND, max_steps - done)
        batch = Parameters.stack([settled[i] for i in active])
        batch, values = run_batch(features, batch, prior, n_steps, n_threads)
        for place, i in enumerate(active):
            settled[i] = batch[place]
        gains = values - last[active]
        last[active] = values
        best = last.max() if target is None else target
        active = active[(gains > least_gain) & (values + _ROUNDS_AHEAD * gains >= best)]
        if not active.size:
            break
    return Parameters.stack(settled), last


def log_likelihoods(features: Float, batch: Parameters) -> Float:
    """Mean log-density of the rows under each mixture of a batch, of shape (k,)."""
    return mean_log_densities(coefficients(batch), features, batch.blocks)


def log_likelihood(features: Float, parameters: Parameters) -> float:
    """Mean log-density of the rows under one mixture."""
    return float(log_likelihoods(features, parameters[None])[0])


def objectives(features: Float, batch: Parameters, prior: VariancePrior) -> Float:
    """What EM maximizes: mean log-density of a row plus the log prior over the rows; (k,)."""
    values = log_likelihoods(features, batch) + prior.log_density(batch) / features.shape[1]
    return np.asarray(values)
